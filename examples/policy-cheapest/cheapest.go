// Package cheapest is the smallest policy that buys: all machines in the pool whose work is cheapest now, at the on-demand price, until
// they are reclaimed. It shows what a policy has to decide; docs/extend.md walks through it.
package cheapest

import (
	"fmt"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

// Policy implements bidding.Policy. A program offers it by listing it in bidding's registry.
type Policy struct{}

// Name returns the value of policy in job files.
func (Policy) Name() string { return "cheapest" }

// Plan returns what to buy now. It is a pure function of the state: no clock, no randomness, no memory. History ends at State.Now, so that
// a policy cannot know the future.
func (Policy) Plan(s bidding.State) bidding.Plan {
	plan := bidding.Plan{Why: "all that is wanted is held"}
	best, lowest := -1, 0.0
	for i := range s.Pools {
		c := &s.Pools[i]
		price, known := c.History.At(s.Now)
		seen := bidding.Considered{Pool: c.Pool, Price: price, HasPrice: known, OnDemand: c.Type.OnDemand, Bid: c.Type.OnDemand,
			Count: wanted(s.Want, c.Type)}
		switch perWork := float64(price) / c.Type.WorkRate(); {
		case c.OnDemand():
			seen.Why = "bought on demand, which this policy leaves to the reliable machines"
		case !known || price > seen.Bid || c.MaxPrice > 0 && price > c.MaxPrice:
			seen.Why = "its price is unknown or above the bid"
		case s.Now.Before(c.NoCapacityUntil):
			seen.Why = "it had no machines a moment ago"
		case best < 0 || perWork < lowest:
			best, lowest = i, perWork
			seen.Why = "work costs least there now"
		default:
			seen.Why = "work costs more there now"
		}
		plan.Considered = append(plan.Considered, seen)
	}
	if missing := missing(s); best >= 0 && missing > 0 {
		c := &s.Pools[best]
		count := wanted(bidding.Want{Machines: min(missing, s.Want.Machines), VCPU: min(missing, s.Want.VCPU)}, c.Type)
		bid := c.Type.OnDemand
		if c.MaxPrice > 0 {
			bid = min(bid, c.MaxPrice)
		}
		plan.Considered[best].Chosen = true
		plan.Why = fmt.Sprintf("work costs least in %s", c.Pool)
		plan.Acquire = []bidding.Acquire{{Pool: c.Pool, Bid: bid, Count: count, Why: plan.Why}}
	}
	return plan
}

// wanted returns how many machines of a type cover the job's demand.
func wanted(w bidding.Want, t market.InstanceType) int {
	if w.VCPU > 0 && t.VCPU > 0 {
		return (w.VCPU + t.VCPU - 1) / t.VCPU
	}
	return w.Machines
}

// missing returns how much of the demand is not held, in machines or vCPUs. Warned machines do not count.
func missing(s bidding.State) int {
	left := s.Want.Machines + s.Want.VCPU // one is 0
	for _, a := range s.Held {
		if a.Warned || a.Draining {
			continue
		}
		each := 1
		for i := range s.Pools {
			if s.Want.VCPU > 0 && s.Pools[i].Pool == a.Pool {
				each = s.Pools[i].Type.VCPU
			}
		}
		left -= a.Count * each
	}
	return left
}
