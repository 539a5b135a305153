package api_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/gceprice"
	"github.com/tierml/tierml/provisioner"
)

// TestFieldsOfThePriceList: the request is that of the Cloud Billing Catalog API (services.skus.list), page by page.
func TestFieldsOfThePriceList(t *testing.T) {
	var asked []string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, strings.Join([]string{r.Method, r.URL.Path, q.Get("currencyCode"), q.Get("pageSize"), q.Get("pageToken"), q.Get("fields")}, " "))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		switch {
		case status != http.StatusOK:
			_, _ = w.Write([]byte(`{"error": {"code": 403, "message": "Cloud Billing API has not been used in project 1", "errors": [{"reason": "accessNotConfigured"}]}}`))
		case q.Get("pageToken") == "":
			_, _ = w.Write([]byte(`{"skus": [{"skuId": "A", "description": "N2 Instance Core running in Iowa"}], "nextPageToken": "more"}`))
		default:
			_, _ = w.Write([]byte(`{"skus": [{"skuId": "B"}]}`))
		}
	}))
	defer server.Close()
	cloud := newCloud(t, adapterConfig(server.URL, clock.Real()))
	var got bytes.Buffer
	if err := cloud.PriceList(t.Context(), func(page []byte) (bool, error) { got.Write(page); return true, nil }); err != nil ||
		!strings.Contains(got.String(), `"skuId":"A"`) || !strings.Contains(got.String(), `"skuId":"B"`) {
		t.Errorf("%v: %s", err, &got)
	}
	const path, fields = "GET /v1/services/6F81-5844-456A/skus USD 5000 ", " nextPageToken,skus(skuId,description,category,serviceRegions,pricingInfo)"
	if len(asked) != 2 || asked[0] != path+fields || asked[1] != path+"more"+fields {
		t.Errorf("asked %q", asked)
	}
	asked = nil
	if err := cloud.PriceList(t.Context(), func([]byte) (bool, error) { return false, nil }); err != nil || len(asked) != 1 {
		t.Errorf("the first page alone: %v, %d requests", err, len(asked))
	}
	status = http.StatusForbidden
	err := cloud.PriceList(t.Context(), func([]byte) (bool, error) { return true, nil })
	if !errors.Is(err, provisioner.ErrDenied) || !strings.Contains(err.Error(), "gcloud services enable cloudbilling.googleapis.com") {
		t.Errorf("refused: %v", err)
	}
}

// The fake cloud's list prices its own machines, whose cores and memory are made up.
func TestPriceListOfTheFakeCloud(t *testing.T) {
	c := fakeConfig(t)
	c.Types = nil
	prices := map[string]market.USD{"n2-standard-2": 97_118_000, "n2-standard-8": 388_472_000, "n2-highmem-4": 262_028_000, "c4a-standard-4": 179_600_000}
	shapes := map[string]market.InstanceType{"n2-standard-2": {VCPU: 2, MemoryMiB: 8 << 10}, "n2-standard-8": {VCPU: 8, MemoryMiB: 32 << 10},
		"n2-highmem-4": {VCPU: 4, MemoryMiB: 32 << 10}, "c4a-standard-4": {VCPU: 4, MemoryMiB: 16 << 10}}
	for name, shape := range shapes {
		shape.Name, shape.Arch, shape.OnDemand = name, market.ArchOf(name), prices[name]
		shapes[name] = shape
		c.Types = append(c.Types, fakecloud.InstanceType{InstanceType: shape})
	}
	fake := fakecloudtest.Start(t, c)
	cloud := newCloud(t, adapterConfig(fake.Endpoint(), clock.Real()))
	var pages bytes.Buffer
	if err := cloud.PriceList(t.Context(), func(page []byte) (bool, error) { pages.Write(page); return true, nil }); err != nil {
		t.Fatal(err)
	}
	list, err := gceprice.Read(&pages)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range shapes {
		got, ok := list.Offer("us-central1", market.InstanceType{Name: name, VCPU: want.VCPU, MemoryMiB: want.MemoryMiB})
		if diff := got.Type.OnDemand - want.OnDemand; !ok || diff > 100 || diff < -100 || got.Type.Arch != want.Arch {
			t.Errorf("%s: %+v, %v; want %s", name, got, ok, want.OnDemand)
		}
		if spot := got.Spot; (spot > 0) != (strings.HasPrefix(name, "n2")) || name == "n2-standard-2" && spot != market.Dollar/20 {
			t.Errorf("%s: Spot %s", name, spot)
		}
	}
}
