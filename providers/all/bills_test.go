package all

import (
	"bytes"
	"compress/gzip"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/cost/invoice"
	"github.com/tierml/tierml/providers"
)

func at(hour, minute int) time.Time { return time.Date(2026, 10, 1, hour, minute, 0, 0, time.UTC) }

func zipped(t *testing.T, text string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// Files in the formats that the providers document.
var files = map[string][]string{
	"AWS cost and usage report": {
		"identity/LineItemId,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/ProductCode,lineItem/UsageType,lineItem/ResourceId,lineItem/UnblendedCost\n" +
			"a,2026-10-01T01:00:00Z,2026-10-01T02:00:00Z,AmazonEC2,USW2-SpotUsage:c5.xlarge,i-1,0.0712\n" +
			"b,2026-10-01T01:00:00Z,2026-10-01T02:00:00Z,AmazonEC2,USW2-EBS:VolumeUsage.gp3,vol-1,0.01\n" +
			"c,2026-10-01T02:00:00Z,2026-10-01T03:00:00Z,AmazonEC2,USW2-SpotUsage:c5.xlarge,i-1,0.05\n",
		"line_item_resource_id,line_item_usage_start_date,line_item_usage_end_date,line_item_unblended_cost\n" +
			"i-1,2026-10-01 01:00:00,2026-10-01 02:00:00,0.0712\ni-1,2026-10-01 02:00:00,2026-10-01 03:00:00,0.05\n",
	},
	"AWS Spot data feed": {
		"#Version: 1.0\n#Fields: Timestamp UsageType Operation InstanceID MyBidID MyMaxPrice MarketPrice Charge Version\n" +
			"2026-10-01 01:53:26 UTC\tUSW2-SpotUsage:c5.xlarge\tRunInstances:SV050\ti-1\tsir-1\t0.210 USD\t0.0712 USD\t0.0712 USD\t1\n" +
			"2026-10-01 02:10:00 UTC\tUSW2-SpotUsage:c5.xlarge\tRunInstances:SV050\ti-1\tsir-1\t0.210 USD\t0.0712 USD\t0.05 USD\t1\n",
	},
	"GCP billing export": {
		`{"service":{"description":"Compute Engine"},"resource":{"name":"i-1","global_name":"//compute.googleapis.com/projects/p/zones/z/instances/1"},` +
			`"usage_start_time":"2026-10-01 01:00:00 UTC","usage_end_time":"2026-10-01 02:00:00 UTC","cost":0.0812,"credits":[{"amount":-0.01}]}` + "\n" +
			`{"resource":{"name":"i-1"},"usage_start_time":"2026-10-01 02:00:00 UTC","usage_end_time":"2026-10-01 03:00:00 UTC","cost":"0.05"}` + "\n" +
			`{"usage_start_time":"2026-10-01 02:00:00 UTC","usage_end_time":"2026-10-01 03:00:00 UTC","cost":7}` + "\n",
		"service.description,resource.name,usage_start_time,usage_end_time,cost\nCompute Engine,i-1,2026-10-01 01:00:00 UTC,2026-10-01 02:00:00 UTC,0.0712\n" +
			"Compute Engine,i-1,2026-10-01 02:00:00 UTC,2026-10-01 03:00:00 UTC,0.05\n",
	},
}

func TestBills(t *testing.T) {
	for form, texts := range files {
		for _, text := range texts {
			for _, r := range []*bytes.Buffer{bytes.NewBufferString(text), zipped(t, text)} {
				lines, got, err := invoice.Read(r, providers.Bills())
				if err != nil || got != form || len(lines) != 2 {
					t.Errorf("%s: %v, %s, %v", form, lines, got, err)
					continue
				}
				first := lines[0]
				if first.Machine != "i-1" || !first.From.Equal(at(1, 0)) || !first.To.Equal(at(2, 0)) || math.Abs(first.USD-0.0712) > 1e-9 || lines[1].USD != 0.05 {
					t.Errorf("%s: %+v", form, lines)
				}
			}
		}
	}
	list := "[" + strings.Join(strings.Split(strings.TrimSpace(files["GCP billing export"][0]), "\n"), ",") + "]"
	if lines, _, err := invoice.Read(strings.NewReader(list), providers.Bills()); err != nil || len(lines) != 2 {
		t.Errorf("a list: %v, %v", lines, err)
	}
}

func TestInvalidBillsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":           "empty",
		"a,b\n1,2\n": "no form that is known",
		"#Version: 1.0\nyesterday\tx\tx\ti-1\tx\tx\tx\t1 USD\t1\n":               "line 2",
		"#Version: 1.0\n2026-10-01 01:53:26 UTC\tx\tx\ti-1\tx\tx\tx\t1 EUR\t1\n": "EUR",
		"resource.name,usage_start_time,usage_end_time,cost\nm,never,never,1\n":  "line 2",
		`{"resource":{"name":"m"},"usage_start_time":"x","usage_end_time":"x"}`:  "entry 1",
		`{"resource":`: "entry 1",
		`{"t":"2014-03-11T12:00:00Z","kind":"launch","id":"i-1","pool":"p","bid":"0.2"}`: "no GCP billing export",
	} {
		if _, _, err := invoice.Read(strings.NewReader(text), providers.Bills()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}
