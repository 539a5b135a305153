package jobs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/sched"
)

// c3 returns the market of c3 in the spring of 2014, a time of high and low prices, with runs that start at even intervals.
func c3(t *testing.T, runs int) Buyer {
	t.Helper()
	m := &local.Market{}
	var err error
	if m.Trace, err = local.ReadPrices("../../examples/data/aws-us-west-1a-c3-2014.csv.gz"); err != nil {
		t.Fatal(err)
	}
	if m.Catalog, err = local.ReadCatalog("../../examples/data/aws-ondemand-us-west-1-2015-04-02.csv"); err != nil {
		t.Fatal(err)
	}
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	b := Buyer{Name: "c3", Market: &Market{Most: 128, Boot: 3 * time.Minute, AskEvery: 5 * time.Minute, Rules: rules}}
	if b.Market.Policy, err = bidding.ByName("cost-per-work"); err != nil {
		t.Fatal(err)
	}
	offers, _ := m.Offers()
	for _, f := range offers {
		b.Market.Pools = append(b.Market.Pools, bidding.Candidate{Pool: f.Pool, Type: f.Type, History: f.History, Hints: f.Hints})
	}
	b.Market.OnDemand = Offer{Pool: offers[0].Pool, Type: offers[0].Type}
	b.Market.Reliable = offers[0].Type.OnDemand
	for i := range runs {
		b.Starts = append(b.Starts, time.Date(2014, 2, 24, 0, 0, 0, 0, time.UTC).Add(time.Duration(i)*50*24*time.Hour/time.Duration(runs)))
	}
	return b
}

// someArrivals are 60 jobs of one to eight units, ten minutes apart, with a median of an hour.
func someArrivals(seed uint64) ([]Script, error) {
	r := rand.New(rand.NewPCG(seed, 60))
	tr := Traced{Slot: 1, Serial: .1, Stretch: 4, Longest: 12 * 3600}
	at := 0.
	for range 60 {
		at += 600 * r.ExpFloat64()
		tr.Arrivals = append(tr.Arrivals, Arrival{At: at, Units: 1 << r.IntN(4), Runs: 3600 * math.Exp(r.NormFloat64())})
	}
	return tr.Jobs(seed)
}

// What prices gain `feedback`, on the same jobs and prices: by how many percent jobs end sooner, and cost more.
func TestPricesMakeJobsEndSooner(t *testing.T) {
	const runs = 16 // with six, the intervals cross the bounds for half of all seeds
	buyer := c3(t, runs)
	for _, c := range []struct {
		name         string
		sweep        bool
		draw         func(uint64) ([]Script, error)
		sooner, more float64
	}{
		{"arrivals", false, someArrivals, 10, 20},
		{"sweep", true, func(seed uint64) ([]Script, error) { return EPS(180).Jobs(seed), nil }, 0, 20},
	} {
		s := Study{Sweep: c.sweep, Draw: c.draw, Seed: 1, Resize: 46, Restart: 370, PlanEvery: 60}
		var sooner, more []float64
		for run := range runs {
			of := func(scheduler string) Summary {
				cfg, err := s.config(scheduler, &buyer, run)
				if err != nil {
					t.Fatal(err)
				}
				r, err := Run(cfg)
				if err != nil || r.GivenUp {
					t.Fatal(err, r.GivenUp)
				}
				return Sum(&cfg, &r)
			}
			with, without := of("feedback"), of("feedback:unpriced")
			sooner = append(sooner, 100*(1-with.Mean/without.Mean))
			more = append(more, 100*(float64(with.Bill.Total())/float64(without.Bill.Total())-1))
		}
		a, b := FigureOf(sooner), FigureOf(more)
		t.Logf("%s, %d runs: with prices jobs end sooner by %.1f±%.1f %%, for %.1f±%.1f %% more dollars", c.name, runs, a.Mean, a.Half, b.Mean, b.Half)
		if a.Mean-a.Half < c.sooner || b.Mean+b.Half > c.more {
			t.Errorf("%s: %v, %v", c.name, a, b)
		}
	}
}

// The fleet follows the scheduler's wish, within the bounds of the market, and the wish is recomputed as prices change.
func TestTheFleetFollowsThePlan(t *testing.T) {
	m := onePool(t, "ec2-2017", map[int]float64{60: .5})
	m.OnDemand = Offer{Type: market.InstanceType{VCPU: 4, OnDemand: market.Dollar / 2}}
	var held []int
	wish := wishes{func(s sched.State) *sched.Supply {
		if s.Market == nil || len(s.Market.Offers) != 2 || s.Market.Offers[0].Tier != sched.Reliable || s.Market.Wait != 0 {
			t.Fatalf("%+v", s.Market)
		}
		has := 0
		for _, o := range s.Market.Held {
			has += o.Slots
		}
		if !slices.Contains(held, has) {
			held = append(held, has)
		}
		if s.Market.Offers[1].Price < .1 {
			return &sched.Supply{Acquire: max(12-has, 0)}
		}
		return &sched.Supply{Release: max(has-4, 0)}
	}}
	cfg := Config{Policy: wish, Jobs: []Script{work("a", 0, 150*60, 4)}, Market: m}
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(held) != "[4 12]" && fmt.Sprint(held) != "[0 4 12]" && fmt.Sprint(held) != "[4 12 8]" || r.Bill.Machines != 3 {
		t.Errorf("held %v, %+v", held, r.Bill)
	}
}

type wishes struct {
	of func(sched.State) *sched.Supply
}

func (wishes) Name() string { return "wishes" }

func (w wishes) Plan(s sched.State) sched.Plan {
	p := sched.DRF{}.Plan(s)
	p.Supply = w.of(s)
	return p
}
