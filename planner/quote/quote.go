// Package quote says what each pool costs and how long its machines can be expected to stay: the table that people consult before they
// write a job file.
//
// Every value comes with its basis, and what is unknown is reported as unknown. It does not choose: that is bidding's task.
package quote

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/advisor"
	"github.com/tierml/tierml/market/trace"
)

// Query is a question.
type Query struct {
	At      time.Time     // later prices are ignored
	Bid     Bid           // per hour
	Horizon time.Duration // of the job; 0 = none
	Catalog *market.Catalog
	Advisor *advisor.Table // nil = unknown
}

// Bid is the bid in each pool: an amount, or a share of the pool's on-demand price.
type Bid struct {
	Amount market.USD
	Share  float64 // used when Amount is 0
}

func (b Bid) in(onDemand market.USD) market.USD {
	if b.Amount > 0 {
		return b.Amount
	}
	return market.USD(float64(onDemand) * b.Share)
}

// Quote is what is known about a pool. Pointers are nil if a value is unknown.
type Quote struct {
	Pool     market.Pool `json:"pool"`
	VCPU     int         `json:"vcpu,omitempty"`
	Price    *market.USD `json:"price"`     // per hour
	PriceAge *Seconds    `json:"price_age"` // since the point that has it
	OnDemand *market.USD `json:"on_demand"`
	Saving   *float64    `json:"saving"` // share of the on-demand price
	PerVCPU  *market.USD `json:"per_vcpu_hour"`
	Bid      *market.USD `json:"bid"`
	MTTF     *MTTF       `json:"mttf"`
	// Probability that the price exceeds the bid within an hour and within the job.
	InHour *float64 `json:"eviction_in_hour"`
	InJob  *float64 `json:"eviction_in_job"`
	// What the estimates are based on.
	Points  int             `json:"points"`
	Span    Seconds         `json:"span"`
	Advice  *AdvisorBand    `json:"advisor"`
	Recent  []float64       `json:"-"` // mean share of the on-demand price per sixth of a day, for the last week
	History *market.History `json:"-"`
}

// Seconds is a duration that JSON has in seconds.
type Seconds time.Duration

// MarshalJSON returns seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return appendSeconds(time.Duration(s)), nil }

// MTTF is the mean time until the price exceeds the bid, given the price now.
type MTTF struct {
	Mean      Seconds `json:"seconds"`
	AtLeast   bool    `json:"at_least"`  // no crossing was seen
	Crossings int     `json:"crossings"` // on which it is based
}

// AdvisorBand is the provider's own word.
type AdvisorBand struct {
	Interrupted string `json:"interrupted"` // share of machines in a month, "<5%"
	Saving      int    `json:"saving"`      // percent
}

// Make returns the quotes of markets, sorted by price per vCPU (unknown last), then pool.
func Make(markets []trace.Market, q Query) []Quote {
	quotes := make([]Quote, 0, len(markets))
	for _, m := range markets {
		quotes = append(quotes, q.quote(m))
	}
	slices.SortStableFunc(quotes, func(a, b Quote) int {
		if (a.PerVCPU == nil) != (b.PerVCPU == nil) {
			if a.PerVCPU == nil {
				return 1
			}
			return -1
		}
		order := 0
		if a.PerVCPU != nil {
			order = cmp.Compare(*a.PerVCPU, *b.PerVCPU)
		}
		return cmp.Or(order, a.Pool.Compare(b.Pool))
	})
	return quotes
}

func (q Query) quote(m trace.Market) Quote {
	past := m.History.Until(q.At)
	out := Quote{Pool: m.Pool, Points: past.Len(), History: past}
	if first, ok := past.First(); ok {
		out.Span = Seconds(q.At.Sub(first.At))
	}
	if a, ok := q.Advisor.Lookup(m.Pool.Region, m.Pool.Type); ok {
		out.Advice = &AdvisorBand{Interrupted: a.Band.Label, Saving: a.Saving}
	}
	price, priced := past.At(q.At)
	if priced {
		last, _ := past.Last()
		age := Seconds(q.At.Sub(last.At))
		out.Price, out.PriceAge = &price, &age
	}
	var kind market.InstanceType
	if q.Catalog != nil {
		kind, _ = q.Catalog.Lookup(m.Pool.Region, m.Pool.Type)
	}
	out.VCPU = kind.VCPU
	if kind.OnDemand > 0 {
		out.OnDemand = &kind.OnDemand
	}
	if priced && out.OnDemand != nil {
		saving := 1 - float64(price)/float64(kind.OnDemand)
		out.Saving = &saving
		out.Recent = recent(past, q.At, kind.OnDemand)
	}
	if priced && kind.VCPU > 0 {
		each := price / market.USD(kind.VCPU)
		out.PerVCPU = &each
	}
	if bid := q.Bid.in(kind.OnDemand); bid > 0 {
		out.Bid = &bid
		q.estimate(&out, past, bid)
	}
	return out
}

func (q Query) estimate(out *Quote, past *market.History, bid market.USD) {
	if e := market.MTTF(past, q.At, bid); e.Known {
		out.MTTF = &MTTF{Mean: Seconds(e.Mean), AtLeast: e.Censored, Crossings: e.Episodes}
	}
	within := func(d time.Duration) *float64 {
		p, known := market.EvictionProbability(past, q.At, bid, d)
		if !known {
			return nil
		}
		return &p
	}
	out.InHour = within(time.Hour)
	if q.Horizon > 0 {
		out.InJob = within(q.Horizon)
	}
}

// recent returns the mean price of each four hours of the last week, as a share of the on-demand price; -1 = unknown.
func recent(h *market.History, at time.Time, onDemand market.USD) []float64 {
	const step, steps = 4 * time.Hour, 42
	out := make([]float64, steps)
	for i := range out {
		from := at.Add(-time.Duration(steps-i) * step)
		out[i] = -1
		if mean, known := h.Mean(from, from.Add(step)); known {
			out[i] = float64(mean) / float64(onDemand)
		}
	}
	return out
}
