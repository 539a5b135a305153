package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// priceAnswer takes quadruples of type, zone, price and time.
func priceAnswer(next string, quadruples ...string) string {
	text := `<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>`
	for n := 0; n < len(quadruples); n += 4 {
		text += fmt.Sprintf(`<item><instanceType>%s</instanceType><availabilityZone>%s</availabilityZone>`+
			`<productDescription>Linux/UNIX</productDescription><spotPrice>%s</spotPrice><timestamp>%s</timestamp></item>`,
			quadruples[n], quadruples[n+1], quadruples[n+2], quadruples[n+3])
	}
	return text + `</spotPriceHistorySet>` + nextToken(next) + `</DescribeSpotPriceHistoryResponse>`
}

func TestSpotPrices(t *testing.T) {
	s := newServer(t, func(form url.Values) (int, string) {
		switch {
		case form.Get("AvailabilityZone") == "us-west-1b":
			return http.StatusOK, priceAnswer("", "c3.large", "us-west-1b", "0.5", "2014-03-01T11:00:00.000Z")
		case form.Get("NextToken") == "":
			return http.StatusOK, priceAnswer("more",
				"c3.large", "us-west-1a", "0.032400", "2014-03-01T11:30:00.000Z",
				"c3.xlarge", "us-west-1a", "0.128", "2014-03-01T11:10:00.000Z")
		}
		return http.StatusOK, priceAnswer("", "c3.large", "us-west-1a", "0.030000", "2014-03-01T09:59:59.000Z")
	})
	large, xlarge, largeB := spotPool(), spotPool(), spotPool()
	xlarge.Type, largeB.Zone = "c3.xlarge", "us-west-1b"
	from := time.Date(2014, 3, 1, 10, 0, 0, 0, time.UTC)
	got, err := s.cloud().SpotPrices(t.Context(), []market.Pool{largeB, xlarge, large}, from, from.Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := map[market.Pool][]market.PricePoint{
		large:  {{At: from.Add(-time.Second), Price: 30_000_000}, {At: from.Add(90 * time.Minute), Price: 32_400_000}},
		xlarge: {{At: from.Add(70 * time.Minute), Price: 128_000_000}},
		largeB: {{At: from.Add(time.Hour), Price: 500_000_000}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	first := `
		Action=DescribeSpotPriceHistory
		Version=2016-11-15
		AvailabilityZone=us-west-1a
		EndTime=2014-03-01T12:00:00Z
		InstanceType.1=c3.large
		InstanceType.2=c3.xlarge
		MaxResults=1000
		ProductDescription.1=Linux/UNIX
		StartTime=2014-03-01T10:00:00Z`
	wantForm(t, s.recorded()[0], first)
	wantForm(t, s.recorded()[1], first+"\nNextToken=more")
}

// TestPriceHistory: all pools of a region, over several pages.
func TestPriceHistory(t *testing.T) {
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Get("NextToken") == "" {
			return http.StatusOK, priceAnswer("more",
				"c3.large", "us-west-1b", "0.032400", "2014-03-01T11:30:00.000Z",
				"c3.large", "us-west-1a", "0.128", "2014-03-01T11:10:00.000Z")
		}
		return http.StatusOK, priceAnswer("", "c3.large", "us-west-1b", "0.030000", "2014-03-01T09:59:59.000Z")
	})
	since := time.Date(2014, 3, 1, 10, 0, 0, 0, time.UTC)
	var told []int
	got, err := s.cloud().PriceHistory(t.Context(),
		ec2.PriceQuery{Types: []string{"c3.large"}, Zones: []string{"us-west-1a", "us-west-1b"}, Since: since},
		func(prices int) { told = append(told, prices) })
	if err != nil {
		t.Fatal(err)
	}
	a, b := spotPool(), spotPool()
	b.Zone = "us-west-1b"
	want := map[market.Pool][]market.PricePoint{
		a: {{At: since.Add(70 * time.Minute), Price: 128_000_000}},
		b: {{At: since.Add(-time.Second), Price: 30_000_000}, {At: since.Add(90 * time.Minute), Price: 32_400_000}},
	}
	if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(told, []int{2, 3}) {
		t.Errorf("told %v; prices (-want +got):\n%s", told, diff)
	}
	wantForm(t, s.recorded()[1], `
		Action=DescribeSpotPriceHistory
		Version=2016-11-15
		Filter.1.Name=availability-zone
		Filter.1.Value.1=us-west-1a
		Filter.1.Value.2=us-west-1b
		InstanceType.1=c3.large
		MaxResults=1000
		NextToken=more
		ProductDescription.1=Linux/UNIX
		StartTime=2014-03-01T10:00:00Z`)
}

func TestSpotPricesRefuses(t *testing.T) {
	s := newServer(t, always(http.StatusOK, priceAnswer("", "c3.large", "us-west-1a", "cheap", "2014-03-01T11:30:00.000Z")))
	onDemand := spotPool()
	onDemand.Class = market.OnDemand
	if _, err := s.cloud().SpotPrices(t.Context(), []market.Pool{onDemand}, time.Time{}, time.Now()); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("on-demand pool: got %v, want ErrInvalid", err)
	}
	if got, err := s.cloud().SpotPrices(t.Context(), []market.Pool{spotPool()}, time.Time{}, time.Now()); err == nil {
		t.Errorf("a price that is no number gave %v", got)
	}
}

func typesAnswer(next string, items ...string) string {
	text := `<DescribeInstanceTypesResponse><instanceTypeSet>`
	for _, item := range items {
		text += item
	}
	return text + `</instanceTypeSet>` + nextToken(next) + `</DescribeInstanceTypesResponse>`
}

func typeItem(name, arch string, vcpus, mib int) string {
	return fmt.Sprintf(`<item><instanceType>%s</instanceType><processorInfo><supportedArchitectures><item>i386</item><item>%s</item>`+
		`</supportedArchitectures></processorInfo><vCpuInfo><defaultVCpus>%d</defaultVCpus></vCpuInfo>`+
		`<memoryInfo><sizeInMiB>%d</sizeInMiB></memoryInfo></item>`, name, arch, vcpus, mib)
}

func TestTypes(t *testing.T) {
	s := newServer(t, always(http.StatusOK, typesAnswer("", typeItem("c3.xlarge", "x86_64", 4, 7680), typeItem("c3.large", "x86_64", 2, 3840))))
	got, err := s.cloud().Types(t.Context(), "c3.xlarge", "c3.large", "c3.large")
	if err != nil {
		t.Fatal(err)
	}
	want := []market.InstanceType{
		{Name: "c3.large", Arch: "x86_64", VCPU: 2, MemoryMiB: 3840},
		{Name: "c3.xlarge", Arch: "x86_64", VCPU: 4, MemoryMiB: 7680},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	wantForm(t, s.recorded()[0], `
		Action=DescribeInstanceTypes
		Version=2016-11-15
		InstanceType.1=c3.large
		InstanceType.2=c3.xlarge`)
}

func TestAllTypes(t *testing.T) {
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Get("NextToken") == "" {
			return http.StatusOK, typesAnswer("2", typeItem("c6g.large", "arm64", 2, 4096))
		}
		return http.StatusOK, typesAnswer("", typeItem("c3.large", "x86_64", 2, 3840))
	})
	got, err := s.cloud().Types(t.Context())
	if err != nil || len(got) != 2 || got[1].Arch != "arm64" {
		t.Errorf("got %+v, %v", got, err)
	}
	wantForm(t, s.recorded()[1], `
		Action=DescribeInstanceTypes
		Version=2016-11-15
		MaxResults=100
		NextToken=2`)
}
