package market

import (
	"math"
	"time"
)

// EndedBy is the side that ended a machine; bills depend on it.
type EndedBy string

const (
	// Running machines have not ended.
	Running EndedBy = ""
	// ByUser: the buyer terminated it, or it stopped by itself.
	ByUser EndedBy = "user"
	// ByProvider: the provider reclaimed it.
	ByProvider EndedBy = "provider"
)

// Usage is one machine's life, as billing sees it. Times are whole seconds of market time.
type Usage struct {
	Pool    Pool
	Bid     USD // highest price per hour that the buyer accepted; 0 for on-demand
	Start   time.Time
	End     time.Time // zero while running
	EndedBy EndedBy
	Moved   int64 // bytes of the run's state fetched from another region
}

// Charge is one line of a bill.
type Charge struct {
	From, To time.Time
	Rate     USD // per hour
	Amount   USD // 0 when Free
	Free     bool
	Note     string // for example "interrupted hour"
}

// RuleBook is a provider's billing in one period of its history.
//
// Invariant: charges are a function of the usage, the prices and asOf. Each is rounded once, by USD.For, half up to the billionth of a
// dollar, and sums are of rounded charges: so journal, report and the fake cloud's bill agree to the billionth. (A slot's share of a host's
// charge is rounded down, so that shares never exceed it.)
//
// Prices of the usage's own pool are read from h; an on-demand pool's history is its constant price. A running machine is billed for the
// sum due at asOf. It is an error if a needed price is unknown.
type RuleBook interface {
	Name() string
	Terms() Terms
	Charges(u Usage, h *History, asOf time.Time) ([]Charge, error)
}

// Terms are a rule book's properties, for decisions before the bill is written. Charges is authoritative.
type Terms struct {
	// Provider is the provider whose machines the book bills: they are evicted according to its rules, whatever a price trace calls its
	// pools.
	Provider string
	// Increment is the time that is billed as a whole, counted from launch, at the price in force at its beginning; 0 = each second at its
	// own price.
	Increment time.Duration
	// Minimum is the least that is billed for a machine that its buyer ends.
	Minimum time.Duration
	// FreeIncrement: the increment in which the provider reclaims a spot machine is free.
	FreeIncrement bool
	// FreeWithin: a spot machine that the provider reclaims before it has run this long is free; 0 = never.
	FreeWithin time.Duration
	// PayBid: spot machines cost their bid, not the price.
	PayBid bool
	// Notice is how long before reclaiming a machine the provider warns. No provider guarantees it.
	Notice time.Duration
	// MaxLife is the age at which the provider reclaims every spot machine; 0 = no limit.
	MaxLife time.Duration
	// MaxBid is the highest bid that the provider accepts, in multiples of the on-demand price; 0 = bids have no meaning.
	MaxBid int
	// Fees are the machines' disks, addresses and traffic, if declared.
	Fees Fees
}

// Billed converts a machine's hours on demand into billed hours.
func (t Terms) Billed(hours float64) float64 {
	if step := t.Increment.Hours(); step > 0 {
		hours = math.Ceil(hours/step) * step
	}
	return max(hours, t.Minimum.Hours())
}
