package cost

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// Decision is a plan or a purchase, with its reason and the alternatives.
type Decision struct {
	T       time.Time  `json:"t"`
	Kind    string     `json:"kind"` // "plan" or "intent"
	Pool    string     `json:"pool,omitempty"`
	Tier    string     `json:"tier,omitempty"`
	Count   int        `json:"count,omitempty"`
	Bid     market.USD `json:"bid,omitempty"` // 0 = without one
	Why     string     `json:"why,omitempty"`
	Options []Option   `json:"options,omitempty"` // the chosen ones first, then by the price of a vCPU
}

// Option is a pool as it was seen at a decision.
type Option struct {
	Pool         string      `json:"pool"`
	Price        *market.USD `json:"price,omitempty"`    // per machine and hour; absent if unknown
	PerVCPU      float64     `json:"per_vcpu,omitempty"` // US dollars an hour
	OnDemand     market.USD  `json:"on_demand,omitempty"`
	Bid          market.USD  `json:"bid,omitempty"`
	MTTF         float64     `json:"mttf,omitempty"` // market seconds; 0 = unknown
	MTTFCensored bool        `json:"mttf_censored,omitempty"`
	Chosen       bool        `json:"chosen,omitempty"`
	Cheaper      bool        `json:"cheaper,omitempty"` // a vCPU cost less than in the chosen ones
	Why          string      `json:"why,omitempty"`     // or why not
}

// decide records a plan or an intent.
func (l *Ledger) decide(e journal.Entry) {
	d := Decision{T: e.T, Kind: string(e.Kind), Pool: e.Pool, Tier: e.Tier, Count: e.Count, Why: e.Why}
	if bid, err := market.ParseUSD(e.Bid); err == nil {
		d.Bid = bid
	}
	var seen []journal.PlanPool
	if e.Kind == journal.Plan {
		seen = l.plan.Pools
	} else if told, err := e.IntentDetails(); err == nil {
		seen = told.Considered
	} else if e.Tier == transientTier {
		seen = l.pricesAt(e)
	}
	for _, p := range seen {
		d.Options = append(d.Options, l.option(p))
	}
	best := 0.0
	for _, o := range d.Options {
		if o.Chosen && o.PerVCPU > 0 && (best == 0 || o.PerVCPU < best) {
			best = o.PerVCPU
		}
	}
	for i, o := range d.Options {
		d.Options[i].Cheaper = !o.Chosen && o.PerVCPU > 0 && o.PerVCPU < best
	}
	slices.SortStableFunc(d.Options, func(a, b Option) int { return cmp.Compare(a.rank(), b.rank()) })
	l.decisions = append(l.decisions, d)
}

// rank orders options: chosen ones, those with a price by that of a vCPU, the others.
func (o Option) rank() float64 {
	switch {
	case o.Chosen:
		return -1
	case o.Price == nil:
		return 1e18
	}
	return o.PerVCPU
}

// pricesAt returns what the journal knows about an intent without its alternatives: the prices at that time.
func (l *Ledger) pricesAt(e journal.Entry) (seen []journal.PlanPool) {
	for _, pool := range l.prices.pools() {
		p := journal.PlanPool{Pool: pool.String(), Chosen: pool.String() == e.Pool}
		if price, ok := l.prices.history(pool).At(e.T); ok {
			p.Price = price.String()
		}
		if p.Chosen {
			p.Why, p.Bid = e.Why, e.Bid
		}
		seen = append(seen, p)
	}
	return seen
}

func (l *Ledger) option(p journal.PlanPool) Option {
	o := Option{Pool: p.Pool, MTTF: p.MTTF, MTTFCensored: p.MTTFCensored, Chosen: p.Chosen, Why: p.Why}
	o.Bid, _ = market.ParseUSD(p.Bid) // absent = 0
	pool, err := market.ParsePool(p.Pool)
	if err != nil {
		return o
	}
	of := l.types[pool.Type]
	if o.OnDemand = of.price; p.OnDemand != "" {
		if told, err := market.ParseUSD(p.OnDemand); err == nil {
			o.OnDemand = told
		}
	}
	if price, err := market.ParseUSD(p.Price); err == nil && p.Price != "" {
		o.Price = &price
		if of.VCPU > 0 {
			o.PerVCPU = dollars(price) / float64(of.VCPU)
		}
	}
	return o
}

// Considered returns the expected time, in market seconds, that each pool would last, as last seen; pools without one are absent.
func (l *Ledger) Considered() map[string]float64 {
	out := map[string]float64{}
	for _, d := range l.decisions {
		for _, o := range d.Options {
			if o.MTTF > 0 {
				out[o.Pool] = o.MTTF
			}
		}
	}
	return out
}
