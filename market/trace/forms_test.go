package trace

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// TestForms reads the same three prices from the formats of people's files.
func TestForms(t *testing.T) {
	object := func(at, zone, kind, price string) string {
		return `{"AvailabilityZone": "` + zone + `", "InstanceType": "` + kind + `", "ProductDescription": "Linux/UNIX", "SpotPrice": ` + price + `, "Timestamp": "` + at + `"}`
	}
	lines := object("2023-11-14T22:13:20Z", "us-east-1b", "m5.xlarge", `"5.2e-02"`) + "\n" + object("2023-11-14T23:13:20.000Z", "us-east-1a", "c5.xlarge", `"0.06"`) + "\n" +
		object("2023-11-15T00:13:20+00:00", "us-east-1a", "c5.xlarge", `"0.07"`) + "\n"
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	if file, err := z.Create("a.json"); err != nil {
		t.Fatal(err)
	} else if _, err := file.Write([]byte(lines)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a record on each line": lines,
		"pages in a list":       `[{"SpotPriceHistory": [` + strings.Replace(strings.ReplaceAll(strings.TrimSpace(lines), "\n", ","), "},", "}]}, {\"SpotPriceHistory\": [", 1) + "]}]",
		"zip":                   archive.String(),
		"the VPC's product":     strings.ReplaceAll(lines, "Linux/UNIX", "Linux/UNIX (Amazon VPC)"),
		"text of aws": "SPOTPRICEHISTORY\tus-east-1b\tm5.xlarge\tLinux/UNIX\t0.052\t2023-11-14T22:13:20.000Z\n" +
			"SPOTPRICEHISTORY\tus-east-1a\tc5.xlarge\tLinux/UNIX\t0.06\t2023-11-14T23:13:20.000Z\nSPOTPRICEHISTORY\tus-east-1a\tc5.xlarge\tLinux/UNIX\t0.07\t2023-11-15T00:13:20.000Z\n",
		"table of aws": "---------\n|  DescribeSpotPriceHistory  |\n+-----+\n||  SpotPriceHistory  ||\n|+----+|\n" +
			"|| AvailabilityZone | InstanceType | ProductDescription | SpotPrice | Timestamp ||\n|+---+---+|\n" +
			"||  us-east-1b | m5.xlarge | Linux/UNIX | 0.052 | 2023-11-14T22:13:20.000Z ||\n||  us-east-1a | c5.xlarge | Linux/UNIX | 0.06 | 2023-11-14T23:13:20.000Z ||\n" +
			"||  us-east-1a | c5.xlarge | Linux/UNIX | 0.07 | 2023-11-15T00:13:20.000Z ||\n|+----+|\n",
		"other names and order": "\ufeffdatetime,instance_type,os,region,price\r\n2023-11-14 22:13:20+00:00,m5.xlarge,Linux/UNIX,us-east-1b,0.052\r\n" +
			"2023-11-14 23:13:20+00:00,c5.xlarge,Linux/UNIX,us-east-1a,0.06\r\n2023-11-15 00:13:20,c5.xlarge,Linux/UNIX,us-east-1a,0.07\r\n",
		"zones beside regions": "Region;AZ;Instance Type;Spot Price;Timestamp\nus-east-1;us-east-1b;m5.xlarge;0.052;2023-11-14T22:13:20Z\n" +
			"us-east-1;us-east-1a;c5.xlarge;0.06;2023-11-14T23:13:20Z\nus-east-1;us-east-1a;c5.xlarge;0.07;2023-11-15T00:13:20Z\n",
		"no product, dollars, seconds": "timestamp,zone,instance_type,price\n1700000000,us-east-1b,m5.xlarge,$0.052\n1700003600,us-east-1a,c5.xlarge,$0.06\n1700007200000,us-east-1a,c5.xlarge,$0.07\n",
		"pandas with index":            ",Timestamp,AvailabilityZone,InstanceType,ProductDescription,SpotPrice\n0,2023-11-14 22:13:20+00:00,us-east-1b,m5.xlarge,Linux/UNIX,0.052\n1,2023-11-14 23:13:20+00:00,us-east-1a,c5.xlarge,Linux/UNIX,0.06\n2,2023-11-15 00:13:20+00:00,us-east-1a,c5.xlarge,Linux/UNIX,0.07\n",
		"pandas records":               "[{\"Timestamp\":1700000000000,\"AvailabilityZone\":\"us-east-1b\",\"InstanceType\":\"m5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.052},{\"Timestamp\":1700003600000,\"AvailabilityZone\":\"us-east-1a\",\"InstanceType\":\"c5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.06},{\"Timestamp\":1700007200000,\"AvailabilityZone\":\"us-east-1a\",\"InstanceType\":\"c5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.07}]",
		"pandas lines":                 "{\"Timestamp\":1700000000000,\"AvailabilityZone\":\"us-east-1b\",\"InstanceType\":\"m5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.052}\n{\"Timestamp\":1700003600000,\"AvailabilityZone\":\"us-east-1a\",\"InstanceType\":\"c5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.06}\n{\"Timestamp\":1700007200000,\"AvailabilityZone\":\"us-east-1a\",\"InstanceType\":\"c5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.07}\n",
		"pandas ISO records":           "[{\"Timestamp\":\"2023-11-14T22:13:20.000Z\",\"AvailabilityZone\":\"us-east-1b\",\"InstanceType\":\"m5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.052},{\"Timestamp\":\"2023-11-14T23:13:20.000Z\",\"AvailabilityZone\":\"us-east-1a\",\"InstanceType\":\"c5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.06},{\"Timestamp\":\"2023-11-15T00:13:20.000Z\",\"AvailabilityZone\":\"us-east-1a\",\"InstanceType\":\"c5.xlarge\",\"ProductDescription\":\"Linux\\/UNIX\",\"SpotPrice\":0.07}]",
		"lower case records":           "[{\"timestamp\": \"2023-11-14T22:13:20Z\", \"availability_zone\": \"us-east-1b\", \"instance_type\": \"m5.xlarge\", \"product_description\": \"Linux/UNIX\", \"spot_price\": \"0.052\"}, {\"timestamp\": \"2023-11-14T23:13:20Z\", \"availability_zone\": \"us-east-1a\", \"instance_type\": \"c5.xlarge\", \"product_description\": \"Linux/UNIX\", \"spot_price\": \"0.06\"}, {\"timestamp\": \"2023-11-15T00:13:20Z\", \"availability_zone\": \"us-east-1a\", \"instance_type\": \"c5.xlarge\", \"product_description\": \"Linux/UNIX\", \"spot_price\": \"0.07\"}]",
		"boto3 str":                    "{\"SpotPriceHistory\": [{\"Timestamp\": \"2023-11-14 22:13:20+00:00\", \"AvailabilityZone\": \"us-east-1b\", \"InstanceType\": \"m5.xlarge\", \"ProductDescription\": \"Linux/UNIX\", \"SpotPrice\": \"0.052\"}, {\"Timestamp\": \"2023-11-14 23:13:20+00:00\", \"AvailabilityZone\": \"us-east-1a\", \"InstanceType\": \"c5.xlarge\", \"ProductDescription\": \"Linux/UNIX\", \"SpotPrice\": \"0.06\"}, {\"Timestamp\": \"2023-11-15 00:13:20+00:00\", \"AvailabilityZone\": \"us-east-1a\", \"InstanceType\": \"c5.xlarge\", \"ProductDescription\": \"Linux/UNIX\", \"SpotPrice\": \"0.07\"}]}",
		"carriage returns":             "timestamp,zone,type,price\r2023-11-14T22:13:20,us-east-1b,m5.xlarge,0.052\r2023-11-14T23:13:20,us-east-1a,c5.xlarge,0.06\r2023-11-15T00:13:20,us-east-1a,c5.xlarge,0.07\r",
		"bars":                         "timestamp|zone|type|product|price\n2023-11-14T22:13:20|us-east-1b|m5.xlarge|Linux/UNIX|0.052\n2023-11-14T23:13:20|us-east-1a|c5.xlarge|Linux/UNIX|0.06\n2023-11-15T00:13:20|us-east-1a|c5.xlarge|Linux/UNIX|0.07\n",
		"a token above text": "eyJOZXh0VG9rZW4iOiBudWxsfQ==\nSPOTPRICEHISTORY\tus-east-1b\tm5.xlarge\tLinux/UNIX\t0.052\t2023-11-14T22:13:20.000Z\n" +
			"SPOTPRICEHISTORY\tus-east-1a\tc5.xlarge\tLinux/UNIX\t0.06\t2023-11-14T23:13:20.000Z\nSPOTPRICEHISTORY\tus-east-1a\tc5.xlarge\tLinux/UNIX\t0.07\t2023-11-15T00:13:20.000Z\n",
		"micro- and nanoseconds": "timestamp,zone,type,price\n1700000000000000,us-east-1b,m5.xlarge,0.052\n1700003600000000000,us-east-1a,c5.xlarge,0.06\n1700007200000000000,us-east-1a,c5.xlarge,0.07\n",
		"microseconds":           "timestamp,zone,type,price\n2023-11-14 22:13:20.000000+00:00,us-east-1b,m5.xlarge,0.052\n2023-11-14 23:13:20.000000+00:00,us-east-1a,c5.xlarge,0.06\n2023-11-15 00:13:20.000000+00:00,us-east-1a,c5.xlarge,0.07\n",
		"decimal comma":          "timestamp;zone;type;price\n2023-11-14T22:13:20;us-east-1b;m5.xlarge;0,052\n2023-11-14T23:13:20;us-east-1a;c5.xlarge;0,06\n2023-11-15T00:13:20;us-east-1a;c5.xlarge;0,07\n",
		"USD behind":             "timestamp,zone,type,price\n2023-11-14T22:13:20,us-east-1b,m5.xlarge,0.052 USD\n2023-11-14T23:13:20,us-east-1a,c5.xlarge,0.06 USD\n2023-11-15T00:13:20,us-east-1a,c5.xlarge,0.07 USD\n",
		"USD before":             "timestamp,zone,type,price\n2023-11-14T22:13:20,us-east-1b,m5.xlarge,USD 0.052\n2023-11-14T23:13:20,us-east-1a,c5.xlarge,USD 0.06\n2023-11-15T00:13:20,us-east-1a,c5.xlarge,USD 0.07\n",
		"date and time columns":  "date,time,zone,type,price\n2023-11-14,22:13:20,us-east-1b,m5.xlarge,0.052\n2023-11-14,23:13:20,us-east-1a,c5.xlarge,0.06\n2023-11-15,00:13:20,us-east-1a,c5.xlarge,0.07\n",
		"other offset":           "timestamp,zone,type,price\n2023-11-15T00:13:20+02:00,us-east-1b,m5.xlarge,0.052\n2023-11-15T01:13:20+02:00,us-east-1a,c5.xlarge,0.06\n2023-11-15T02:13:20+02:00,us-east-1a,c5.xlarge,0.07\n",
		"Linux in short":         "timestamp,zone,type,os,price\n2023-11-14T22:13:20Z,us-east-1b,m5.xlarge,linux,0.052\n2023-11-14T23:13:20Z,us-east-1a,c5.xlarge,linux,0.06\n2023-11-15T00:13:20Z,us-east-1a,c5.xlarge,linux,0.07\n",
		"comments":               "# exported\ntimestamp,zone,type,price\n2023-11-14T22:13:20Z,us-east-1b,m5.xlarge,0.052\n2023-11-14T23:13:20Z,us-east-1a,c5.xlarge,0.06\n2023-11-15T00:13:20Z,us-east-1a,c5.xlarge,0.07\n",
		"PowerShell": "[{\"AvailabilityZone\": \"us-east-1b\", \"InstanceType\": {\"Value\": \"m5.xlarge\"}, \"Price\": \"0.052\", \"ProductDescription\": {\"Value\": \"Linux/UNIX\"}, \"Timestamp\": \"\\/Date(1700000000000)\\/\"}, " +
			"{\"AvailabilityZone\": \"us-east-1a\", \"InstanceType\": {\"Value\": \"c5.xlarge\"}, \"Price\": \"0.06\", \"ProductDescription\": {\"Value\": \"Linux/UNIX\"}, \"Timestamp\": {\"value\": \"\\/Date(1700003600000+0100)\\/\", \"DisplayHint\": 2}}, " +
			"{\"AvailabilityZone\": \"us-east-1a\", \"InstanceType\": \"c5.xlarge\", \"Price\": 0.07, \"ProductDescription\": \"Linux/UNIX\", \"Timestamp\": \"2023-11-15T00:13:20Z\"}]",
		"PowerShell's list": "{\"value\": [" + strings.ReplaceAll(strings.TrimSpace(lines), "\n", ",") + "], \"Count\": 3}",
		"Markdown":          "| Timestamp | AZ | Type | Price |\n|:--|:-:|---|--:|\n| 2023-11-14T22:13:20Z | us-east-1b | m5.xlarge | 0.052 |\n| 2023-11-14T23:13:20Z | us-east-1a | c5.xlarge | 0.06 |\n| 2023-11-15T00:13:20Z | us-east-1a | c5.xlarge | 0.07 |\n",
		"psql":              " timestamp | zone | type | price \n-----------+------+------+-------\n 2023-11-14T22:13:20Z | us-east-1b | m5.xlarge | 0.052\n 2023-11-14T23:13:20Z | us-east-1a | c5.xlarge | 0.06\n 2023-11-15T00:13:20Z | us-east-1a | c5.xlarge | 0.07\n(3 rows)\n",
		"no header":         "us-east-1b\tm5.xlarge\t0.052\t2023-11-14T22:13:20Z\nus-east-1a\tc5.xlarge\t0.06\t2023-11-14T23:13:20Z\nus-east-1a\tc5.xlarge\t0.07\t2023-11-15T00:13:20Z\n",
	} {
		got, err := Read(strings.NewReader(text), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		pool := func(zone, kind string) market.Pool {
			return market.Pool{Provider: "ec2", Region: "us-east-1", Zone: zone, Type: kind, Class: market.Spot}
		}
		first, _ := got.History(pool("us-east-1b", "m5.xlarge")).At(utc("2023-11-14T22:13:20Z"))
		before, _ := got.History(pool("us-east-1a", "c5.xlarge")).At(utc("2023-11-15T00:13:19Z"))
		last, _ := got.History(pool("us-east-1a", "c5.xlarge")).At(utc("2023-11-15T00:13:20Z"))
		if got.Summary.Kept != 3 || first != 52_000_000 || before != 60_000_000 || last != 70_000_000 {
			t.Errorf("%s: %s, %s, %s of %s", name, first, before, last, &got.Summary)
		}
	}
}

// TestDays: a date alone is the beginning of its day in UTC.
func TestDays(t *testing.T) {
	got, err := Read(strings.NewReader("date,zone,type,price\n2023-11-14,us-east-1b,m5.xlarge,0.052\n"), Options{})
	if err != nil || len(got.Markets) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if last, _ := got.Markets[0].History.Last(); !last.At.Equal(utc("2023-11-14T00:00:00Z")) {
		t.Errorf("%+v", last)
	}
}

// TestFutureAndOtherProducts: future rows are skipped, and products that are not read are named.
func TestFutureAndOtherProducts(t *testing.T) {
	text := csvHeader + "2023-11-14T22:13:20Z,us-east-1b,m5.xlarge,Linux/UNIX,0.05\n2099-11-14T22:13:20Z,us-east-1b,m5.xlarge,Linux/UNIX,0.05\n" +
		"2023-11-14T22:13:20Z,us-east-1b,m5.xlarge,Windows,0.05\n"
	got, err := Read(strings.NewReader(text), Options{Now: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil || got.Summary.Kept != 1 || got.Summary.Future != 1 || len(got.Summary.Products) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if text := got.Summary.String(); !strings.Contains(text, "1 of other products (Windows), 1 of a time to come") {
		t.Error(text)
	}
}
