package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/tierml/tierml/market"
)

const csvHeader = "timestamp,zone,instance_type,product,price\n"

func c3(size string) market.Pool {
	return market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3." + size, Class: market.Spot}
}

func utc(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func read(t *testing.T, text string, o Options) *Trace {
	t.Helper()
	got, err := Read(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const smallCSV = csvHeader +
	"2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.1\n" +
	"2014-02-16T06:00:00Z,us-west-1a,c3.2xlarge,Linux/UNIX,0.2\n" +
	"2014-02-16T07:00:00Z,us-west-1a,c3.xlarge,Windows,0.9\n" +
	"2014-02-16T08:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.12345\n"

const smallJSON = `{
  "SpotPriceHistory": [
    {"AvailabilityZone": "us-west-1a", "InstanceType": "c3.xlarge", "ProductDescription": "Linux/UNIX",
     "SpotPrice": "0.123450", "Timestamp": "2014-02-16T08:00:00.000Z"},
    {"AvailabilityZone": "us-west-1a", "AvailabilityZoneId": "usw1-az1", "InstanceType": "c3.xlarge",
     "ProductDescription": "Windows", "SpotPrice": "0.900000", "Timestamp": "2014-02-16T07:00:00+00:00"},
    {"AvailabilityZone": "us-west-1a", "InstanceType": "c3.2xlarge", "ProductDescription": "Linux/UNIX",
     "SpotPrice": "0.200000", "Timestamp": "2014-02-16T06:00:00.000Z"},
    {"AvailabilityZone": "us-west-1a", "InstanceType": "c3.xlarge", "ProductDescription": "Linux/UNIX",
     "SpotPrice": "0.100000", "Timestamp": "2014-02-16T05:00:00.000Z"}
  ],
  "NextToken": ""
}
`

// TestRead reads the same prices in every form and compression.
func TestRead(t *testing.T) {
	list := smallJSON[strings.Index(smallJSON, "[") : strings.LastIndex(smallJSON, "]")+1]
	for name, text := range map[string]string{
		"csv":           smallCSV,
		"csv with BOM":  "\ufeff" + smallCSV,
		"csv with CRLF": strings.ReplaceAll(smallCSV, "\n", "\r\n"),
		"json":          smallJSON,
		"json list":     list,
		"json pages":    smallJSON + `{"SpotPriceHistory": []}`,
		"csv.gz":        compress(t, smallCSV, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"json.zst":      compress(t, smallJSON, zstdWriter),
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, text, Options{})
			if len(got.Markets) != 2 || got.Markets[0].Pool != c3("2xlarge") || got.Markets[1].Pool != c3("xlarge") {
				t.Fatalf("markets %v", got.Markets)
			}
			h := got.History(c3("xlarge"))
			want := []market.PricePoint{{At: utc("2014-02-16T08:00:00Z"), Price: 123_450_000}}
			if diff := cmp.Diff(want, h.Points(utc("2014-02-16T05:00:00Z"), utc("2014-03-01T00:00:00Z"))); diff != "" {
				t.Error(diff)
			}
			if price, known := h.At(utc("2014-02-16T07:30:00Z")); price != 100_000_000 || !known {
				t.Errorf("the Windows price came in: %s, %v", price, known)
			}
			if got.History(c3("8xlarge")) != nil {
				t.Error("a pool that is not in the file has a history")
			}
			sum := got.Summary
			if sum.Rows != 4 || sum.Kept != 3 || sum.OtherProducts != 1 || !sum.Clean() ||
				sum.First != utc("2014-02-16T05:00:00Z") || sum.Last != utc("2014-02-16T08:00:00Z") {
				t.Errorf("summary %+v", sum)
			}
		})
	}
	if got := read(t, smallCSV, Options{Product: "Windows"}); len(got.Markets) != 1 || got.Summary.OtherProducts != 3 {
		t.Errorf("Windows only: %+v", got)
	}
}

func zstdWriter(w io.Writer) io.WriteCloser {
	z, err := zstd.NewWriter(w)
	if err != nil {
		panic(err)
	}
	return z
}

func compress(t *testing.T, text string, by func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := by(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReadRefuses(t *testing.T) {
	row := func(timestamp, zone, kind, product, price string) string {
		return csvHeader + "2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.1\n" +
			strings.Join([]string{timestamp, zone, kind, product, price}, ",") + "\n"
	}
	const now = "2014-02-16T06:00:00Z"
	for _, c := range []struct {
		name, text string
		line       int
		says       string
	}{
		{"time", row("yesterday", "us-west-1a", "c3.xlarge", "Linux/UNIX", "1"), 3, `timestamp "yesterday"`},
		{"time in words", row("16 February 2014", "us-west-1a", "c3.xlarge", "Linux/UNIX", "1"), 3, "RFC 3339"},
		{"price", row(now, "us-west-1a", "c3.xlarge", "Linux/UNIX", "1x-3"), 3, `"1x-3"`},
		{"zone", row(now, "moon", "c3.xlarge", "Linux/UNIX", "1"), 3, `zone "moon"`},
		{"type", row(now, "us-west-1a", "", "Linux/UNIX", "1"), 3, "instance type"},
		{"type of bytes", row(now, "us-west-1a", "\x00\xff.xlarge", "Linux/UNIX", "1"), 3, "instance type"},
		{"product", row(now, "us-west-1a", "c3.xlarge", "", "1"), 3, "product"},
		{"fields", csvHeader + "2014-02-16T05:00:00Z,us-west-1a\n", 2, "want 5 fields"},
		{"time of the US", row("11/14/2023 22:13:20", "us-west-1a", "c3.xlarge", "Linux/UNIX", "1"), 3, "RFC 3339"},
		{"YAML", "SpotPriceHistory:\n- AvailabilityZone: us-east-1b\n", 1, "--output json"},
		{"header", "when,zone,product,price\n", 1, "want"},
		{"quotes", csvHeader + "\"2014\n", 2, ""},
		{"JSON syntax", "{\"SpotPriceHistory\": [\n  {\"InstanceType\": }\n]}", 2, ""},
		{"JSON field", "{\"SpotPriceHistory\": [\n  {\"InstanceType\": \"c3.large\"}\n]}", 2, "record without Timestamp"},
		{"JSON type", "[\n\n{\"SpotPrice\": 0.1}]", 3, ""},
		{"JSON cut short", "{\"SpotPriceHistory\": [\n", 2, "unexpected EOF"},
		{"JSON of something else", "{\n\"Instances\": []}", 2, "without SpotPriceHistory"},
	} {
		_, err := Read(strings.NewReader(c.text), Options{})
		var line *LineError
		if !errors.As(err, &line) || line.Line != c.line || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want line %d and %q", c.name, err, c.line, c.says)
		}
	}
	for _, text := range []string{"", "\x1f\x8bnot gzip", "\x28\xb5\x2f\xfdnot zstd"} {
		if got, err := Read(strings.NewReader(text), Options{}); err == nil {
			t.Errorf("%q was read: %+v", text, got)
		}
	}
}

func TestSummary(t *testing.T) {
	got := read(t, csvHeader+
		"2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.1\n"+ // line 2
		"2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.1\n"+ // duplicate
		"2014-02-16T06:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.2\n"+
		"2014-02-16T06:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.3\n"+ // conflict
		"2014-02-16T07:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0\n"+ // absurd
		"2014-02-16T08:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,10000.1\n"+ // absurd
		"2014-02-17T07:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.3\n"+
		"2014-02-18T08:00:01Z,us-west-1a,c3.xlarge,Linux/UNIX,0.3\n", // more than 25 hours later
		Options{})
	pool := c3("xlarge")
	want := Summary{
		Rows: 8, Kept: 4, Duplicates: 1,
		Conflicts: []RowNote{{"", 5, pool, utc("2014-02-16T06:00:00Z"), 300_000_000}},
		Absurd: []RowNote{
			{"", 6, pool, utc("2014-02-16T07:00:00Z"), 0},
			{"", 7, pool, utc("2014-02-16T08:00:00Z"), 10_000_100_000_000},
		},
		Holes: []Hole{{pool, market.Hole{From: utc("2014-02-17T07:00:00Z"), To: utc("2014-02-18T08:00:01Z")}}},
		First: utc("2014-02-16T05:00:00Z"), Last: utc("2014-02-18T08:00:01Z"),
	}
	if diff := cmp.Diff(want, got.Summary); diff != "" {
		t.Error(diff)
	}
	if price, _ := got.History(pool).At(utc("2014-02-16T09:00:00Z")); price != 300_000_000 {
		t.Errorf("of a conflict the last row holds; got %s", price)
	}
	if s := got.Summary.String(); s != "4 prices of 8 rows, 1 duplicate, 1 contradicting an earlier row, 2 with an absurd price, 1 holes" {
		t.Errorf("summary in words: %s", s)
	}
}

func TestRegionOf(t *testing.T) {
	for zone, want := range map[string]string{"us-central1-a": "us-central1", "europe-west12-c": "europe-west12",
		"us-west-1a": "us-west-1", "us-west-1": "us-west-1", "ap-northeast-1c": "ap-northeast-1",
		"us-gov-west-1b": "us-gov-west-1", "us-west-2-lax-1a": "us-west-2", "us-east-1-wl1-bos-wlz-1": "us-east-1",
	} {
		if got, err := RegionOf(zone); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", zone, got, err, want)
		}
	}
	for _, zone := range []string{"", "1a", "-1a", "moon", "us1a", "US-west-1a", "us--1a", "us-west-1 a", "us-west-1/a"} {
		if got, err := RegionOf(zone); err == nil {
			t.Errorf("%q is in region %s", zone, got)
		}
	}
}

// TestShippedTrace reads the price history of the examples.
func TestShippedTrace(t *testing.T) {
	f, err := os.Open("../../examples/data/aws-us-west-1a-c3-2014.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := Read(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Summary.Clean() || got.Summary.Kept != 13230 || len(got.Markets) != 3 {
		t.Errorf("%s; %d markets", got.Summary.String(), len(got.Markets))
	}
	if again := roundTrip(t, got); cmp.Diff(points(got), points(again)) != "" {
		t.Error("written and read again it differs")
	}
}

func roundTrip(t *testing.T, trace *Trace) *Trace {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, LinuxUNIX, trace.Markets); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// points lists all prices by pool.
func points(trace *Trace) map[market.Pool][]market.PricePoint {
	all := make(map[market.Pool][]market.PricePoint)
	for _, m := range trace.Markets {
		last, _ := m.History.Last()
		all[m.Pool] = m.History.Points(time.Time{}, last.At)
	}
	return all
}

// FuzzRead: whatever is read is written and read back equal.
func FuzzRead(f *testing.F) {
	for _, text := range []string{smallCSV, smallJSON, csvHeader, "[]", "{", "\x1f\x8b", "\x28\xb5\x2f\xfd"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Read(bytes.NewReader(text), Options{})
		if err != nil {
			return
		}
		if again := roundTrip(t, got); cmp.Diff(points(got), points(again)) != "" {
			t.Errorf("written and read again it differs: %s", cmp.Diff(points(got), points(again)))
		}
	})
}

func TestMerge(t *testing.T) {
	a := read(t, csvHeader+"2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,1\n2014-02-16T06:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,2\n", Options{})
	b := read(t, csvHeader+"2014-02-16T06:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,3\n2014-02-16T04:00:00Z,us-west-1a,c3.large,Linux/UNIX,4\n", Options{})
	got := Merge(a, b)
	if len(got.Markets) != 2 || got.Markets[0].Pool != c3("large") || got.Summary.Kept != 3 || !got.Summary.First.Equal(utc("2014-02-16T04:00:00Z")) {
		t.Errorf("%+v", got)
	}
	if price, _ := got.History(c3("xlarge")).At(utc("2014-02-16T07:00:00Z")); price != 3*market.Dollar {
		t.Errorf("the last trace must hold: %s", price)
	}
}

// TestRounded: binary fractions in decimal are read as the intended values, and are counted.
func TestRounded(t *testing.T) {
	got := read(t, csvHeader+"2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,1.4249999999999998\n", Options{})
	if price, _ := got.History(c3("xlarge")).At(utc("2014-02-16T07:00:00Z")); price != 1_425_000_000 || got.Summary.Rounded != 1 {
		t.Errorf("%s, %+v", price, got.Summary)
	}
	for _, price := range []string{"0x1.000000000000p4", "1.0000000000.0", "-.0000000000000001x", "nan.0000000000"} {
		if _, err := Read(strings.NewReader(csvHeader+"2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,"+price+"\n"), Options{}); err == nil {
			t.Errorf("%q is read", price)
		}
	}
}
