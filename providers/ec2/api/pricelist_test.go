package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// entry returns a product as the price list writes it, reduced to the attributes and terms in the documentation
// (https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api-find-services-products.html).
func entry(kind string, dimensions ...string) string {
	return `{"product":{"productFamily":"Compute Instance","attributes":{"enhancedNetworkingSupported":"Yes","memory":"8 GiB","vcpu":"4",` +
		`"capacitystatus":"Used","instanceType":"` + kind + `","tenancy":"Shared","operatingSystem":"Linux","regionCode":"us-west-1"},"sku":"SKU1"},` +
		`"serviceCode":"AmazonEC2","terms":{"OnDemand":{"SKU1.JRTCKXETXF":{"priceDimensions":{` + strings.Join(dimensions, ",") + `},` +
		`"sku":"SKU1","effectiveDate":"2026-11-01T00:00:00Z","offerTermCode":"JRTCKXETXF","termAttributes":{}}},` +
		`"Reserved":{"SKU1.38NPMPTW36":{"priceDimensions":{"SKU1.38NPMPTW36.2TG2D8R56U":{"unit":"Quantity","pricePerUnit":{"USD":"999"}}}}}},` +
		`"version":"20261120174206","publicationDate":"2026-11-20T17:42:06Z"}`
}

func dimension(code, unit, currency, price string) string {
	return `"SKU1.JRTCKXETXF.` + code + `":{"unit":"` + unit + `","endRange":"Inf","beginRange":"0","appliesTo":[],"rateCode":"SKU1.JRTCKXETXF.` + code +
		`","description":"words","pricePerUnit":{"` + currency + `":"` + price + `"}}`
}

// priceLister is a price list that answers page by page and records the requests.
type priceLister struct {
	pages [][]string
	asked []map[string]any
	apart bool   // each page answers a request of its own
	err   string // error type, instead of an answer
}

func (l *priceLister) cloud(t *testing.T) *ec2.Cloud {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if target, kind := r.Header.Get("X-Amz-Target"), r.Header.Get("Content-Type"); target != "AWSPriceListService.GetProducts" ||
			kind != "application/x-amz-json-1.1" || !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/pricing/aws4_request") {
			t.Errorf("target %q, content %q, authorization %q", target, kind, r.Header.Get("Authorization"))
		}
		var question map[string]any
		if err := json.Unmarshal(text, &question); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		l.asked = append(l.asked, question)
		if l.err != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"com.amazonaws.pricing#%s","message":"no"}`, l.err)
			return
		}
		answer := map[string]any{"FormatVersion": "aws_v1", "PriceList": l.pages[len(l.asked)-1]}
		if len(l.asked) < len(l.pages) && !l.apart {
			answer["NextToken"] = fmt.Sprint("page ", len(l.asked))
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return newServer(t, always(200, "")).cloud(func(c *ec2.Config) { c.Endpoint = server.URL })
}

// TestFieldsOfThePriceList: the fields are those of the API's model (pricing-2017-10-15, GetProducts), the answer's pages are read to the
// end, and products without an hourly machine price are skipped.
func TestFieldsOfThePriceList(t *testing.T) {
	l := &priceLister{pages: [][]string{
		{entry("c5.xlarge", dimension("6YS6EN2CT7", "Hrs", "USD", "0.2120000000")), entry("m5.xlarge", dimension("6YS6EN2CT7", "Hrs", "USD", "0.0000000000"))},
		{entry("m5.xlarge", dimension("6YS6EN2CT7", "Hrs", "USD", "0.2240000000")), entry("t3.nano", dimension("6YS6EN2CT7", "Hrs", "USD", "0.0062000005"))},
	}}
	got, err := l.cloud(t).ListPrices(t.Context())
	at := time.Date(2026, 11, 20, 17, 42, 6, 0, time.UTC)
	want := map[string]ec2.ListPrice{"c5.xlarge": {USD: 212_000_000, Published: at}, "m5.xlarge": {USD: 224_000_000, Published: at},
		"t3.nano": {USD: 6_200_000, Published: at}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	filter := func(field, value string) any {
		return map[string]any{"Type": "TERM_MATCH", "Field": field, "Value": value}
	}
	question := map[string]any{"ServiceCode": "AmazonEC2", "FormatVersion": "aws_v1", "MaxResults": 100.0, "Filters": []any{
		filter("regionCode", "us-west-1"), filter("operatingSystem", "Linux"), filter("preInstalledSw", "NA"), filter("tenancy", "Shared"),
		filter("capacitystatus", "Used"), filter("marketoption", "OnDemand")}}
	second := map[string]any{"NextToken": "page 1"}
	for name, value := range question {
		second[name] = value
	}
	if diff := cmp.Diff([]map[string]any{question, second}, l.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A few types are requested by name, once each; many are selected from the whole list.
func TestPricesOfNamedTypes(t *testing.T) {
	l := &priceLister{pages: [][]string{{entry("c5.xlarge", dimension("1", "Hrs", "USD", "0.2"))}, {}}, apart: true}
	got, err := l.cloud(t).ListPrices(t.Context(), "c5.xlarge", "z9.huge", "c5.xlarge")
	if err != nil || len(got) != 1 || got["c5.xlarge"].USD != 200_000_000 || len(l.asked) != 2 {
		t.Errorf("%v, %v, %d requests", got, err, len(l.asked))
	}
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("c5.%dxlarge", i)
	}
	l = &priceLister{pages: [][]string{{entry("c5.9xlarge", dimension("1", "Hrs", "USD", "2")), entry("m5.large", dimension("1", "Hrs", "USD", "1"))}}}
	if got, err := l.cloud(t).ListPrices(t.Context(), names...); err != nil || len(got) != 1 || got["c5.9xlarge"].USD != 2*market.Dollar || len(l.asked) != 1 {
		t.Errorf("%v, %v, %d requests", got, err, len(l.asked))
	}
}

func TestPriceListErrors(t *testing.T) {
	for name, c := range map[string]struct {
		lister priceLister
		kind   error
		words  string
	}{
		"denied":   {priceLister{err: "AccessDeniedException"}, provisioner.ErrDenied, "asking the AWS Price List for on-demand prices in us-west-1"},
		"throttle": {priceLister{err: "ThrottlingException"}, provisioner.ErrThrottled, "Price List"},
		"yuan":     {priceLister{pages: [][]string{{entry("c5.large", dimension("1", "Hrs", "CNY", "1"))}}}, provisioner.ErrInvalid, "no price in US dollars but in CNY"},
		"unit":     {priceLister{pages: [][]string{{entry("c5.large", dimension("1", "Second", "USD", "1"))}}}, provisioner.ErrInvalid, `per "Second", not by the hour`},
		"number":   {priceLister{pages: [][]string{{entry("c5.large", dimension("1", "Hrs", "USD", "1e3"))}}}, provisioner.ErrInvalid, `c5.large: amount "1e3"`},
		"nonsense": {priceLister{pages: [][]string{{"{"}}}, provisioner.ErrInvalid, "reading a product"},
	} {
		if _, err := c.lister.cloud(t).ListPrices(t.Context()); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.kind, c.words)
		}
	}
}

// Against the fake cloud: shapes from EC2, prices from its price list, page by page.
func TestOnDemandOfTheFakeCloud(t *testing.T) {
	config := fakecloud.Config{Clock: clock.Real(), Region: "us-west-1", Zones: []string{"us-west-1a"}, Rules: mustRules(t), Notice: time.Hour}
	var want []market.InstanceType
	for n := range 230 { // three pages
		want = append(want, market.InstanceType{Name: fmt.Sprintf("c5.%03dxlarge", n), Arch: "x86_64", VCPU: 4 * (n + 1), MemoryMiB: 8192, OnDemand: market.Dollar/7 + market.USD(n)})
		config.Types = append(config.Types, fakecloud.InstanceType{InstanceType: want[n]})
	}
	cloud := newCloud(t, ec2.Config{Endpoint: fakecloudtest.Start(t, config).Endpoint(), Region: "us-west-1", Cluster: "blue", ImageID: "ami-1"})
	found, missing, err := cloud.OnDemand(t.Context())
	if diff := cmp.Diff(want, found); diff != "" || len(missing) > 0 || err != nil {
		t.Errorf("missing %v, %v (-want +got):\n%s", missing, err, diff)
	}
	some, _, err := cloud.OnDemand(t.Context(), "c5.007xlarge", "c5.003xlarge")
	if !slices.Equal(some, []market.InstanceType{want[3], want[7]}) || err != nil {
		t.Errorf("%v, %v", some, err)
	}
}
