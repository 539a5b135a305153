package quote

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/advisor"
	"github.com/tierml/tierml/market/trace"
)

var at = time.Date(2016, 3, 10, 0, 0, 0, 0, time.UTC)

func pool(kind string) market.Pool {
	return market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: kind, Class: market.Spot}
}

func sample(t *testing.T) ([]trace.Market, Query) {
	t.Helper()
	catalog, err := market.ReadCatalog(strings.NewReader("region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\n" +
		"us-east-1,c3.xlarge,4,7.5,0.21\nus-east-1,c3.4xlarge,16,30,0.84\nus-east-1,c3.large,2,3.75,0.105\n"))
	if err != nil {
		t.Fatal(err)
	}
	advice, err := advisor.Read(strings.NewReader(`{"ranges": [{"index": 0, "label": "<5%", "max": 5}],
		"spot_advisor": {"us-east-1": {"Linux": {"c3.xlarge": {"s": 61, "r": 0}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	point := func(before time.Duration, cents market.USD) market.PricePoint {
		return market.PricePoint{At: at.Add(-before), Price: cents * market.Dollar / 100}
	}
	const day = 24 * time.Hour
	return []trace.Market{
		{Pool: pool("c3.4xlarge"), History: market.NewHistory([]market.PricePoint{point(9*day, 12), point(3*day, 200), point(3*day-time.Hour, 16), point(-day, 500)})},
		{Pool: pool("c3.large"), History: market.NewHistory([]market.PricePoint{point(-time.Hour, 2)})},
		{Pool: pool("c3.xlarge"), History: market.NewHistory([]market.PricePoint{point(10*day, 2), point(2*day, 8)})},
		{Pool: pool("z9.huge"), History: market.NewHistory([]market.PricePoint{point(time.Hour, 9)})},
	}, Query{At: at, Bid: Bid{Share: 1}, Horizon: 8 * time.Hour, Catalog: catalog, Advisor: advice}
}

// TestMake: known values come with their basis, and unknown ones are nil; nothing after At is used.
func TestMake(t *testing.T) {
	markets, query := sample(t)
	got := Make(markets, query)
	var order []string
	for _, q := range got {
		order = append(order, q.Pool.Type)
	}
	if want := "c3.4xlarge c3.xlarge c3.large z9.huge"; strings.Join(order, " ") != want {
		t.Fatalf("order %v, want %s", order, want)
	}
	big, small, future, unknownType := got[0], got[1], got[2], got[3]
	if *big.Price != 160_000_000 || *big.PerVCPU != 10_000_000 || math.Abs(*big.Saving-(1-0.16/0.84)) > 1e-12 || *big.Bid != 840_000_000 ||
		big.MTTF == nil || big.MTTF.Crossings != 1 || big.MTTF.AtLeast || *big.InHour >= *big.InJob || big.Points != 3 || big.Advice != nil {
		t.Errorf("%+v, MTTF %+v, in an hour %v, in the job %v", big, big.MTTF, *big.InHour, *big.InJob)
	}
	if !small.MTTF.AtLeast || small.MTTF.Crossings != 0 || small.Advice.Interrupted != "<5%" || time.Duration(*small.PriceAge) != 48*time.Hour {
		t.Errorf("%+v", small)
	}
	if future.Price != nil || future.MTTF != nil || future.InHour != nil || future.Points != 0 || *future.OnDemand != 105_000_000 {
		t.Errorf("a price of the future is known: %+v", future)
	}
	if unknownType.Saving != nil || unknownType.OnDemand != nil || unknownType.Bid != nil || unknownType.MTTF != nil || *unknownType.Price != 90_000_000 {
		t.Errorf("of a type that no catalog has: %+v", unknownType)
	}
	query.Bid = Bid{Amount: 100_000_000}
	if q := Make(markets, query)[0]; *q.Bid != 100_000_000 || *q.InHour != 1 {
		t.Errorf("a bid below the price: %+v", q)
	}
}

func TestWrite(t *testing.T) {
	markets, query := sample(t)
	quotes := Make(markets, query)
	var b bytes.Buffer
	if err := WriteTable(&b, quotes, 0, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"us-east-1a  c3.4xlarge  0.1600*    81%  0.01000", ">10.0d", "0.0800*", "no price at that time: 1 pool", "<5%", "▂▆▂"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := WriteTable(&b, quotes, 0, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	b.Reset()
	if err := WriteJSON(&b, quotes); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(b.Bytes(), &list); err != nil || len(list) != 4 || list[2]["price"] != nil || list[0]["price"] != "0.16" ||
		list[1]["price_age"] != 172800.0 {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := WriteCSV(&b, quotes); err != nil || strings.Count(b.String(), "\n") != 5 {
		t.Errorf("%v\n%s", err, b.String())
	}
}
