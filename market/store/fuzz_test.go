package store

import (
	"bytes"
	"compress/gzip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/internal/fuzzing"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/advisor"
	"github.com/tierml/tierml/market/gceprice"
	"github.com/tierml/tierml/market/trace"
)

// FuzzImport reads any bytes, compressed or not, in all import formats, and puts files with prices into a store, which returns them.
func FuzzImport(f *testing.F) {
	for _, text := range []string{
		"timestamp,zone,instance_type,product,price\n2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.1\n2014-02-18T06:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,12345\n" +
			"2014-02-16T05:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.2\n2014-02-16T05:00:00Z,us-central1-a,n2-standard-2,Linux/UNIX,1.4249999999999998\n",
		`{"SpotPriceHistory": [{"AvailabilityZone": "us-west-1a", "InstanceType": "c3.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.123450",
 "Timestamp": "2014-02-16T08:00:00.000Z"}], "NextToken": ""}{"SpotPriceHistory": []}`,
		`{"skus": [{"skuId": "1", "description": "Spot Preemptible N2 Instance Core running in Iowa", "category": {"resourceFamily": "Compute", "usageType": "Preemptible"},
 "serviceRegions": ["us-central1"], "pricingInfo": [{"effectiveTime": "2026-01-01T00:00:00Z", "pricingExpression": {"usageUnit": "h", "tieredRates": [{"unitPrice":
 {"currencyCode": "USD", "units": "0", "nanos": 6655000}}]}}]}]}`,
		`{"metadata": {"gap_seconds": 300}, "data": [3, 0, 1], "prices": [0.5, null, 0.25]}`,
		`{"ranges": [{"index": 0, "label": "<5%", "max": 5}, {"index": 1, "label": ">5%", "max": 100}], "spot_advisor": {"us-east-1": {"Linux": {"c5.large": {"s": 60, "r": 1}}}}}`,
	} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Add([]byte("\x28\xb5\x2f\xfd\x00\x90\x09\x00\x00a"), false) // one byte with a window of 256 MiB
	f.Fuzz(func(t *testing.T, content []byte, packed bool) {
		if packed {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(content) // never fails
			_ = z.Close()
			content = b.Bytes()
		}
		size := len(content)
		if bytes.HasPrefix(content, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			size += 16 << 10 // the decoder may allocate 256 MiB each time, according to the file's header
		}
		var markets []trace.Market
		fuzzing.AtMost(t, size, 64<<10, func() {
			_, _ = trace.ReadAvailability(bytes.NewReader(content), now)
			_, _ = advisor.Read(bytes.NewReader(content))
			whole, isList := gceprice.IsList(bytes.NewReader(content))
			if isList {
				if list, err := gceprice.Read(whole); err == nil {
					markets = list.Prices(now)
				}
			} else if read, err := trace.Read(whole, trace.Options{}); err == nil {
				_ = read.Doubts(func(market.Pool) bool { return true })
				markets = read.Markets
			}
		})
		if len(markets) > 0 {
			keep(t, markets)
		}
	})
}

// keep imports markets: they are refused as a whole, or the store returns them unchanged.
func keep(t *testing.T, markets []trace.Market) {
	s, err := Open(filepath.Join(t.TempDir(), "prices.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Import(markets, "fuzzed"); err != nil {
		return
	}
	got, err := s.Trace(func(market.Pool) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	points := func(markets []trace.Market) map[market.Pool][]market.PricePoint {
		all := map[market.Pool][]market.PricePoint{}
		for _, m := range markets {
			first, _ := m.History.First()
			last, _ := m.History.Last()
			all[m.Pool] = append([]market.PricePoint{first}, m.History.Points(first.At, last.At)...)
		}
		return all
	}
	if diff := cmp.Diff(points(markets), points(got.Markets)); diff != "" {
		t.Errorf("imported and read again it differs: %s", diff)
	}
}
