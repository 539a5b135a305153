package papers

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
)

// The table of measured.md that says how well pools are ranked is measured here, on the trace that is shipped,
// and compared with the page.
func TestRankingTable(t *testing.T) {
	pools := shippedPools(t)
	page, err := os.ReadFile("measured.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, share := range []float64{1, 0.55} {
		scores := rankingScores(pools, share)
		for _, s := range scores {
			if row := s.row(share); !strings.Contains(string(page), row) {
				t.Errorf("measured.md lacks the row as measured:\n%s", row)
			}
		}
	}
}

type pricedPool struct {
	market.Pool
	history  *market.History
	onDemand market.USD
}

func shippedPools(t *testing.T) []pricedPool {
	t.Helper()
	catalogFile, err := os.Open("../../examples/data/aws-ondemand-us-west-1-2015-04-02.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer catalogFile.Close()
	catalog, err := market.ReadCatalog(catalogFile)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("../../examples/data/aws-us-west-1a-c3-2014.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	prices, err := trace.Read(file, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var pools []pricedPool
	for _, m := range prices.Markets {
		kind, ok := catalog.Lookup(m.Pool.Region, m.Pool.Type)
		if !ok {
			t.Fatalf("%s is not in the catalog", m.Pool.Type)
		}
		pools = append(pools, pricedPool{m.Pool, m.History, kind.OnDemand})
	}
	return pools
}

// rule ranks one pool against another at a time: above 0 when it expects a to be kept longer.
type rule struct {
	name    string
	compare func(a, b pricedPool, bidA, bidB market.USD, now time.Time) int
}

var rules = []rule{
	{"`Expected` of the estimate", func(a, b pricedPool, bidA, bidB market.USD, now time.Time) int {
		return cmp.Compare(expected(market.MTTF(a.history, now, bidA)), expected(market.MTTF(b.history, now, bidB)))
	}},
	{"mean time between crossings, present price not looked at", func(a, b pricedPool, bidA, bidB market.USD, now time.Time) int {
		return cmp.Compare(meanBetween(a, bidA, now), meanBetween(b, bidB, now))
	}},
	{"lower price as a share of the bid", func(a, b pricedPool, bidA, bidB market.USD, now time.Time) int {
		pa, _ := a.history.At(now)
		pb, _ := b.history.At(now)
		return cmp.Compare(float64(pb)/float64(bidB), float64(pa)/float64(bidA))
	}},
}

func expected(e market.Estimate) time.Duration {
	if !e.Known {
		return -1
	}
	return e.Expected()
}

// meanBetween returns the time within the bid in the lookback, per crossing.
func meanBetween(p pricedPool, bid market.USD, now time.Time) time.Duration {
	var within time.Duration
	crossings := 0
	from := now.Add(-market.DefaultLookback)
	price, _ := p.history.At(from)
	at := from
	for _, change := range append(p.history.Changes(from, now), market.PricePoint{At: now, Price: price}) {
		if price <= bid {
			within += change.At.Sub(at)
			if change.At.Before(now) && change.Price > bid {
				crossings++
			}
		}
		at, price = change.At, change.Price
	}
	return within / time.Duration(max(crossings, 1))
}

type score struct {
	rule                string
	right, wrong, equal int
}

func (s score) row(share float64) string {
	decided := s.right + s.wrong
	return fmt.Sprintf("| %.2f | %s | %d | %.0f %% | %d |", share, s.rule, decided+s.equal, 100*float64(s.right)/float64(max(decided, 1)), s.equal)
}

// rankingScores asks every six hours, once two weeks of history are there, which of two pools whose prices are
// within the bid will be kept longer. Where neither crosses before the trace ends there is no answer.
func rankingScores(pools []pricedPool, share float64) []score {
	scores := make([]score, len(rules))
	var from, until time.Time
	for _, p := range pools {
		first, _ := p.history.First()
		last, _ := p.history.Last()
		if start := first.At.Add(market.DefaultLookback); start.After(from) {
			from = start
		}
		if until.IsZero() || last.At.Before(until) {
			until = last.At
		}
	}
	for i, r := range rules {
		scores[i].rule = r.name
		for now := from.Truncate(time.Hour); now.Before(until); now = now.Add(6 * time.Hour) {
			for a := range pools {
				for b := range a {
					scores[i].add(r, pools[a], pools[b], share, now)
				}
			}
		}
	}
	return scores
}

func (s *score) add(r rule, a, b pricedPool, share float64, now time.Time) {
	bid := func(p pricedPool) market.USD { return market.USD(share * float64(p.onDemand)) }
	priceA, _ := a.history.At(now)
	priceB, _ := b.history.At(now)
	if priceA > bid(a) || priceB > bid(b) {
		return
	}
	endA, crossedA := a.history.FirstAbove(now, bid(a))
	endB, crossedB := b.history.FirstAbove(now, bid(b))
	if !crossedA && !crossedB {
		return
	}
	longer := 0
	switch {
	case !crossedA:
		longer = 1
	case !crossedB:
		longer = -1
	default:
		longer = endA.Compare(endB)
	}
	switch said := r.compare(a, b, bid(a), bid(b), now); {
	case longer == 0 || said == 0:
		s.equal++
	case said == longer:
		s.right++
	default:
		s.wrong++
	}
}
