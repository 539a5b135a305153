package planner

import (
	"fmt"
	"math"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// Details returns the plan in the journal's form.
func (p *Plan) Details() journal.PlanDetails {
	d := journal.PlanDetails{
		Policy:  p.Input.Policy.Name(),
		Basis:   p.Forecast.Basis,
		Sources: p.Input.Sources,
		Tuning:  p.Input.Tuning,
		Pools:   []journal.PlanPool{},
		Cost:    estimate(p.Forecast.Cost, func(u market.USD) float64 { return float64(u) / float64(market.Dollar) }),
		Runtime: estimate(p.Forecast.Time, time.Duration.Seconds),
		OnDemand: journal.OnDemandPlan{
			Pool: p.OnDemand.Fleet.Pool.String(), Count: p.OnDemand.Fleet.Count,
			Hours: p.OnDemand.Time.Hours(), USD: p.OnDemand.Cost.String(), Beside: p.OnDemand.Beside.Seconds(),
		},
	}
	if own := p.Input.Program; own != nil {
		d.Program = &journal.PlanProgram{Tasks: own.Tasks, Hours: own.Hours, On: own.On, Basis: own.Basis, Workdir: own.Workdir.Packed,
			State: own.StateBytes, Store: own.Store}
	}
	if run := p.Prediction; run != nil {
		d.Prediction = &journal.Prediction{USD: run.Cost.String(), Seconds: run.Time.Seconds(), Finished: run.Finished, Done: run.Done, Why: run.Why, Bought: run.Bought,
			Basis: run.Basis, Skipped: run.Skipped}
	}
	d.Worth, d.Own = p.Worth.details(), p.Own.details()
	for _, a := range p.Assumed {
		d.Assumed = append(d.Assumed, a.Text)
	}
	d.Auto = p.Choice.details()
	for _, o := range p.Sizing.shown() {
		d.Reliable = append(d.Reliable, journal.PlanReliable{Type: o.Type.Name, Count: o.Count, USD: o.PerHour.String(),
			Memory: o.Memory, HasMemory: o.HasMemory, Network: math.Round(o.Network), HasNetwork: o.HasNetwork, Refused: o.Refused})
	}
	for _, pool := range p.Pools {
		d.Pools = append(d.Pools, pool.details())
	}
	return d
}

func (p Pool) details() journal.PlanPool {
	d := journal.PlanPool{
		Pool: p.Pool.String(), OnDemand: p.OnDemand.String(), Capacity: "no known limit",
		MTTF: p.MTTF.Mean.Seconds(), MTTFCensored: p.MTTF.Censored,
		Count: p.Count, Chosen: p.Chosen, Why: p.Why,
	}
	d.Hints = hints(p.Hints)
	if p.Pool.TakesBids() || p.Pool.Class == market.OnDemand {
		d.Bid = p.Bid.String()
	} else if !p.ByHints {
		d.MTTF, d.MTTFCensored = 0, false // a limit that the provider never sees: nothing is lost at it
	}
	if p.HasPrice {
		d.Price = p.Price.String()
	}
	if p.Limited {
		d.Capacity = fmt.Sprint(p.Capacity)
	}
	d.Saving, _ = p.Saving()
	return d
}

// hints returns a policy's knowledge other than prices, so that its decision can be reproduced.
func hints(h bidding.Hints) *journal.PoolHints {
	one := func(h bidding.Hint) *journal.PoolHint {
		if !h.Known() {
			return nil
		}
		return &journal.PoolHint{Value: h.Value, At: h.At.UTC()}
	}
	told := journal.PoolHints{Interrupted: one(h.Interruptions), Uptime: one(h.Uptime), Placement: one(h.Placement)}
	if told == (journal.PoolHints{}) {
		return nil
	}
	return &told
}

// estimate returns zeros for unknown values.
func estimate[T interface{ market.USD | time.Duration }](r Range[T], number func(T) float64) journal.Estimate {
	return journal.Estimate{Low: number(r.Low), Mid: number(r.Middle), High: number(r.High)}
}
