package main

import (
	"context"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim/sweep"
)

// control is what switching is worth where it should be: as shares of cost and run time without it.
type control struct {
	cost, time float64
	starts     int
}

// turns are two types of the same price per vCPU on demand. Each is calm for 12 hours, at a fifth of that price; then, for 12 hours, it is at two
// fifths, and above it for 10 minutes of every hour. While one is calm the other is not.
func turns() cell {
	const days = 30
	c := cell{recording: "control"}
	for i, t := range []market.InstanceType{{Name: "c4.xlarge", VCPU: 4, OnDemand: 209_000_000}, {Name: "c4.2xlarge", VCPU: 8, OnDemand: 418_000_000}} {
		begin := time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)
		low, high := t.OnDemand/5, t.OnDemand*3/2
		points := []market.PricePoint{{At: begin, Price: low}}
		for day := range days {
			noon := begin.Add(time.Duration(24*day+12*i) * time.Hour)
			for hour := range 12 {
				at := noon.Add(time.Duration(hour) * time.Hour)
				points = append(points, market.PricePoint{At: at.Add(time.Minute), Price: 2 * low}, market.PricePoint{At: at.Add(30 * time.Minute), Price: high},
					market.PricePoint{At: at.Add(40 * time.Minute), Price: 2 * low})
			}
			points = append(points, market.PricePoint{At: noon.Add(12 * time.Hour), Price: low})
		}
		points = append(points, market.PricePoint{At: begin.Add((days + 1) * 24 * time.Hour), Price: low})
		pool := market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: t.Name, Class: market.Spot}
		c.pools = append(c.pools, bidding.Candidate{Pool: pool, Type: t, History: market.NewHistory(points)})
	}
	return c
}

// inTurns runs the control.
func inTurns(ctx context.Context, f fleet, starts int) (control, error) {
	cfg, err := turns().config(f, f.machines-f.reliable, "ec2-2017")
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
