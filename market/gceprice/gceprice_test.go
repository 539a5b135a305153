package gceprice

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// line returns a SKU as the Cloud Billing Catalog API describes it.
func line(description, usage, unit, units string, nanos int, regions string) string {
	return fmt.Sprintf(`{"name": "services/6F81-5844-456A/skus/X", "skuId": "X", "description": %q,
  "category": {"serviceDisplayName": "Compute Engine", "resourceFamily": "Compute", "resourceGroup": "CPU", "usageType": %q},
  "serviceRegions": [%s], "pricingInfo": [{"summary": "", "pricingExpression": {"usageUnit": %q, "displayQuantity": 1,
    "tieredRates": [{"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": %q, "nanos": %d}}]},
    "currencyConversionRate": 1, "effectiveTime": "2026-10-0%dT00:00:00Z"}], "serviceProviderName": "Google"}`,
		description, usage, regions, unit, units, nanos, 1+nanos%7)
}

func page(lines ...string) string {
	return `{"skus": [` + strings.Join(lines, ",\n") + `], "nextPageToken": ""}`
}

const iowa = `"us-central1"`

func sample() string {
	return page(
		line("N2 Instance Core running in Iowa", "OnDemand", "h", "0", 31611000, iowa),
		line("N2 Instance Ram running in Iowa", "OnDemand", "GiBy.h", "0", 4237000, iowa),
		line("N2 Custom Instance Core running in Iowa", "OnDemand", "h", "0", 99, iowa),
		line("Commitment v1: N2 Cpu in Iowa for 1 Year", "Commit1Yr", "h", "0", 99, iowa),
	) + page(
		line("Spot Preemptible N2 Instance Core running in Iowa", "Preemptible", "h", "0", 7650000, iowa),
		line("Spot Preemptible N2 Instance Ram running in Iowa", "Preemptible", "GiBy.h", "0", 1025000, iowa),
		line("E2 Instance Core running in Americas", "OnDemand", "h", "0", 21811590, iowa+`, "us-east1"`),
		line("E2 Instance Ram running in Americas", "OnDemand", "GiBy.h", "0", 2923530, iowa+`, "us-east1"`),
	)
}

func find(t *testing.T, l *List, region, name string) Offer {
	t.Helper()
	for _, o := range l.Offers {
		if o.Region == region && o.Type.Name == name {
			return o
		}
	}
	t.Fatalf("no %s in %s", name, region)
	return Offer{}
}

// TestRead: n2-standard-8 is 8 cores and 32 GiB: 8 x 0.031611 + 32 x 0.004237 = 0.388472 dollars an hour on demand, the price on Compute
// Engine's page of machine types for Iowa.
func TestRead(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(sample())); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for _, text := range []string{sample(), zipped.String()} {
		l, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if l.SKUs != 8 || l.Ignored != 2 || len(l.Offers) != 24+2*12 {
			t.Errorf("%d SKUs, %d ignored, %d offers", l.SKUs, l.Ignored, len(l.Offers))
		}
		n2 := find(t, l, "us-central1", "n2-standard-8")
		want := market.InstanceType{Name: "n2-standard-8", Arch: "x86_64", VCPU: 8, MemoryMiB: 32 << 10, OnDemand: 388_472_000}
		if n2.Type != want || n2.Spot != 94_000_000 || n2.SpotFrom.Before(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%+v", n2)
		}
		if e2 := find(t, l, "us-east1", "e2-highcpu-4"); e2.Spot != 0 || e2.Type.OnDemand != 4*21_811_590+4*2_923_530 {
			t.Errorf("%+v", e2)
		}
	}
}

// TestPricesAndCatalog: the result is usable for buying: spot histories by region, and a catalog that reads back.
func TestPricesAndCatalog(t *testing.T) {
	l, err := Read(strings.NewReader(sample()))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	markets := l.Prices(now)
	if len(markets) != 24 || markets[0].Pool.Zone != "us-central1" || markets[0].Pool.Provider != "gce" || markets[0].History.Len() != 2 {
		t.Fatalf("%d markets, %+v", len(markets), markets[0])
	}
	var b bytes.Buffer
	if err := l.WriteCatalog(&b); err != nil {
		t.Fatal(err)
	}
	catalog, err := market.ReadCatalog(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range l.Offers {
		if got, ok := catalog.Lookup(o.Region, o.Type.Name); !ok || got.OnDemand != o.Type.OnDemand || got.VCPU != o.Type.VCPU || got.MemoryMiB != o.Type.MemoryMiB {
			t.Errorf("%+v became %+v", o, got)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for says, text := range map[string]string{
		"EOF":            `{"skus": [`,
		"none of its 0":  `{"other": 1}`,
		"ask for USD":    strings.Replace(sample(), `"USD"`, `"EUR"`, 1),
		"sold per mo":    strings.Replace(sample(), `"usageUnit": "h"`, `"usageUnit": "mo"`, 1),
		"want one price": strings.Replace(sample(), `"pricingInfo": [`, `"pricingInfo": [{},`, 1),
		`"1x" units`:     strings.Replace(sample(), `"units": "0"`, `"units": "1x"`, 1),
	} {
		if l, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v %v", says, l, err)
		}
	}
}

func TestIsList(t *testing.T) {
	for text, want := range map[string]bool{sample()[:40]: true, "{\n  \"skus\": [": true, `{"SpotPriceHistory": []}`: false, "timestamp,zone": false} {
		rest, is := IsList(strings.NewReader(text))
		if is != want {
			t.Errorf("%q: %v", text, is)
		}
		if all, err := io.ReadAll(rest); err != nil || string(all) != text {
			t.Errorf("%q became %q (%v)", text, all, err)
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(sample()))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	rest, is := IsList(bytes.NewReader(packed.Bytes()))
	if all, err := io.ReadAll(rest); err != nil || !is || !bytes.Equal(all, packed.Bytes()) {
		t.Errorf("packed: %v, %d bytes of %d, %v", is, len(all), packed.Len(), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample())
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, o := range l.Offers {
			if o.Type.OnDemand < 0 || o.Spot < 0 || o.Type.VCPU < 1 {
				t.Errorf("%+v", o)
			}
		}
	})
}

// A machine with GPUs costs its cores, its memory and its GPUs: g2-standard-24 has two L4. Without a price for its GPUs it has none.
func TestGPUs(t *testing.T) {
	l, err := Read(strings.NewReader(page(
		line("G2 Instance Core running in Iowa", "OnDemand", "h", "0", 24988000, iowa), line("G2 Instance Ram running in Iowa", "OnDemand", "GiBy.h", "0", 2927000, iowa),
		line("Spot Preemptible G2 Instance Core running in Iowa", "Preemptible", "h", "0", 12770000, iowa), line("Spot Preemptible G2 Instance Ram running in Iowa", "Preemptible", "GiBy.h", "0", 1496000, iowa),
		line("Nvidia L4 GPU running in Iowa", "OnDemand", "h", "0", 560004000, iowa), line("Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa", "Preemptible", "h", "0", 286200000, iowa),
		line("A2 Instance Core running in Iowa", "OnDemand", "h", "0", 31611000, iowa), line("A2 Instance Ram running in Iowa", "OnDemand", "GiBy.h", "0", 4237000, iowa),
		line("Nvidia L4 Virtual Workstation GPU running in Iowa", "OnDemand", "h", "0", 200000000, iowa),
	)))
	if err != nil {
		t.Fatal(err)
	}
	o, ok := l.Offer("us-central1", market.InstanceType{Name: "g2-standard-24", VCPU: 24, MemoryMiB: 96 << 10, GPU: market.GPU{Name: "L4", Count: 2, MemoryMiB: 22888}})
	if want := market.USD(24*24988000 + 96*2927000 + 2*560004000); !ok || o.Type.OnDemand != want || o.Spot != 24*12770000+96*1496000+2*286200000 {
		t.Errorf("%+v, %v, want %v", o, ok, want)
	}
	if o, ok := l.Offer("us-central1", market.InstanceType{Name: "a2-highgpu-1g", VCPU: 12, MemoryMiB: 85 << 10, GPU: market.GPU{Name: "A100", Count: 1, MemoryMiB: 40960}}); ok {
		t.Errorf("%+v without a price of its GPU", o)
	}
	if o, ok := l.Offer("us-central1", market.InstanceType{Name: "a2-highgpu-1g", VCPU: 12, MemoryMiB: 85 << 10}); ok {
		t.Errorf("%+v, whose GPUs are unknown", o)
	}
}
