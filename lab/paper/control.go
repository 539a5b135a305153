package main

import (
	"context"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim/sweep"
)

// control is the gain from switching in a market where it should pay: as shares of cost and run time without it.
type control struct {
	cost, time float64
	starts     int
}

// inTurn is a market of two types with the same on-demand price per vCPU, which are calm and restless in turn. Calm,
// they cost a fifth of that price. In a restless spell they cost a share of it, and occasionally one and a half times
// it.
type inTurn struct {
	spell, every, above time.Duration // length of a calm spell; time between crossings; length of a crossing
	restless            float64
}

// usual is the market on the page.
var usual = inTurn{spell: 12 * time.Hour, every: time.Hour, above: 10 * time.Minute, restless: 0.4}

// others returns further markets that were searched for a gain from switching.
func others() (all []inTurn) {
	for _, spell := range []time.Duration{6 * time.Hour, 12 * time.Hour} {
		for _, m := range []inTurn{{every: time.Hour, above: 10 * time.Minute}, {every: 90 * time.Minute, above: 20 * time.Minute},
			{every: 3 * time.Hour, above: time.Hour}, {every: 5 * time.Hour, above: 2 * time.Hour}} {
			for _, m.restless = range []float64{0.21, 0.4, 0.8} {
				m.spell = spell
				all = append(all, m)
			}
		}
	}
	return all
}

func (m inTurn) cell() cell {
	c := cell{recording: "control"}
	begin := time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)
	end := begin.Add(31 * 24 * time.Hour)
	for i, t := range []market.InstanceType{{Name: "c4.xlarge", VCPU: 4, OnDemand: 209_000_000}, {Name: "c4.2xlarge", VCPU: 8, OnDemand: 418_000_000}} {
		price := func(share float64) market.USD { return market.USD(share * float64(t.OnDemand)) }
		points := []market.PricePoint{{At: begin, Price: price(0.2)}}
		for from := begin.Add(time.Duration(i) * m.spell); from.Before(end); from = from.Add(2 * m.spell) {
			for at := from; at.Before(from.Add(m.spell)); at = at.Add(m.every) {
				points = append(points, market.PricePoint{At: at.Add(time.Minute), Price: price(m.restless)}, market.PricePoint{At: at.Add(m.every / 2), Price: price(1.5)},
					market.PricePoint{At: at.Add(m.every/2 + m.above), Price: price(m.restless)})
			}
			points = append(points, market.PricePoint{At: from.Add(m.spell), Price: price(0.2)})
		}
		pool := market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: t.Name, Class: market.Spot}
		c.pools = append(c.pools, bidding.Candidate{Pool: pool, Type: t, History: market.NewHistory(points)})
	}
	return c
}

// run measures the gain there.
func (m inTurn) run(ctx context.Context, f fleet, starts int) (control, error) {
	cfg, err := m.cell().config(f, f.machines-f.reliable, "ec2-2017")
	if err != nil {
		return control{}, err
	}
	rows, err := sweep.Run(ctx, sweep.Experiment{Job: cfg, Policies: []string{"tierml", "tierml-noswitch"}, Hours: []time.Duration{8 * time.Hour},
		Starts: sweep.Starts{Count: starts, Seed: 1}}, func(int, int) {})
	if err != nil {
		return control{}, err
	}
	r := result{Hours: 8, Policies: map[string][]run{}}
	for _, row := range rows {
		r.Policies[row.Policy] = append(r.Policies[row.Policy], runOf(row))
	}
	some := []result{r}
	return control{cost: -saves(some, "tierml", "tierml-noswitch"), time: (1+longer(some, "tierml"))/(1+longer(some, "tierml-noswitch")) - 1, starts: starts}, nil
}
