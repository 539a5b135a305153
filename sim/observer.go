package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// observer watches a run for what makes its course.
type observer struct {
	policy  bidding.ByPrices
	w       *world
	plans   []asking // the first only
	steps   []asking // those that bought or released something
	wakeful []span
	awake   bool
	refused bool // the provider did not give all that was asked for
	asked   map[string]time.Duration
}

// asking is one time that the policy was asked.
type asking struct {
	at   time.Duration
	plan bidding.Plan
}

// Name and Plan make the observer the policy of the run that it watches.
func (o *observer) Name() string { return o.policy.Name() }

// Plan is that of the policy.
func (o *observer) Plan(s bidding.State) bidding.Plan {
	plan := o.policy.Plan(s)
	if len(o.plans) == 0 {
		o.plans = append(o.plans, asking{at: o.w.elapsed})
	}
	if len(plan.Acquire)+len(plan.Release) > 0 || plan.Switch != nil || !plan.AskAgain.IsZero() {
		o.steps = append(o.steps, asking{at: o.w.elapsed, plan: plan})
	}
	return plan
}

// before and after report each step of a controller to the observer.
func (o *observer) before(c *elasticity.Controller, events []elasticity.Event) {
	for _, e := range events {
		if _, wake := e.(elasticity.Wake); wake && !o.awake && c.NeedsFullStep(o.w.now()) {
			o.wakeful = append(o.wakeful, span{o.w.elapsed, o.w.elapsed})
		}
		if _, failed := e.(elasticity.LaunchFailed); failed {
			o.refused = true
		}
	}
}

func (o *observer) after(c *elasticity.Controller) {
	stirred := c.NeedsFullStep(o.w.now())
	switch {
	case stirred && !o.awake:
		o.wakeful = append(o.wakeful, span{from: o.w.elapsed})
		fallthrough
	case o.awake:
		o.wakeful[len(o.wakeful)-1].to = o.w.elapsed
	}
	o.awake = stirred
}

// launch takes down what the provider is asked for.
func (o *observer) launch(r provisioner.Request) {
	if o.asked == nil {
		o.asked = map[string]time.Duration{}
	}
	o.asked[r.Token] = o.w.elapsed
}

// spans returns the wakeful times, those that touch put together.
func (o *observer) spans() []span {
	slices.SortFunc(o.wakeful, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	kept := o.wakeful[:0]
	for _, s := range o.wakeful {
		if n := len(kept); n > 0 && s.from <= kept[n-1].to {
			kept[n-1].to = max(kept[n-1].to, s.to)
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// usages returns the lives of all machines, those of equal ones put together.
func (o *observer) usages(cfg *Config) (all []usage) {
	for _, m := range o.w.cloud.machines {
		u := usage{
			pool: m.Pool, bid: m.Bid, asked: o.asked[m.Token], from: m.Launched.Sub(cfg.Start), to: m.Ended.Sub(cfg.Start),
			endedBy: m.EndedBy, machines: 1,
		}
		if i := slices.IndexFunc(all, func(k usage) bool {
			return k.pool == u.pool && k.bid == u.bid && k.asked == u.asked && k.from == u.from && k.to == u.to && k.endedBy == u.endedBy
		}); i >= 0 {
			all[i].machines++
			continue
		}
		u.candidate = slices.IndexFunc(cfg.Pools, func(p bidding.Candidate) bool { return p.Pool == m.Pool })
		if m.Pool.Class == market.OnDemand {
			price := cfg.Reliable.Type.OnDemand
			if u.candidate >= 0 {
				price = cfg.Pools[u.candidate].Type.OnDemand
			}
			u.constant = market.Constant(price)
		}
		all = append(all, u)
	}
	return all
}
