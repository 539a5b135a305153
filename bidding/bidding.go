// Package bidding decides which pools to hold, at what bid, and when to switch. A Policy returns a
// Plan over a State; it never buys (provisioner does) and keeps no memory of its own: everything that it
// looks at is in the State.
//
// It refuses to know how machines are bought, whether they came up, and what runs on them.
package bidding

import (
	"time"

	"github.com/tierml/tierml/market"
)

// Policy chooses pools.
type Policy interface {
	Name() string
	// Plan looks at the state and says what to acquire and release now. Equal states give equal plans.
	Plan(State) Plan
}

// State is all that a policy may look at.
type State struct {
	Now   time.Time
	Want  Want
	Pools []Candidate  // sorted by pool; the spot pools that the job allows
	Held  []Allocation // sorted by pool, then launch; machines that are starting, running or draining; pools among Pools
}

// Want is how much the job asks for. Exactly one of the two is set.
type Want struct {
	Machines int // this many transient machines
	VCPU     int // or as many as give this many vCPUs
}

// Candidate is a pool that the job allows.
type Candidate struct {
	Pool     market.Pool
	Type     market.InstanceType
	History  *market.History // points at or before State.Now only
	MaxPrice market.USD      // the job's own limit on the bid; 0 = none
	// NoCapacityUntil is when the pool may be tried again after the provider had none; zero = now.
	NoCapacityUntil time.Time
}

// Allocation is a group of machines of one pool that were bought together at one bid.
type Allocation struct {
	Pool   market.Pool
	Bid    market.USD // as granted; 0 = as a new machine's
	Count  int
	Launch time.Time
	// Draining machines were released: a better pool has taken their place, they only work until
	// their paid hour ends.
	Draining bool
	// Warned machines have an eviction notice and do not count as held.
	Warned bool
}

// Plan is what to do now, with a reason for each step.
type Plan struct {
	Acquire []Acquire
	Release []Release
	// Switch is set when the plan moves from a working pool to a better one.
	Switch *Switch
	// Considered has one entry per candidate, in the same order: what a person asks "why not?" about.
	Considered []Considered
	// Why says in one sentence what the plan comes to, also when there is nothing to do.
	Why string
}

// Acquire asks for machines.
type Acquire struct {
	Pool  market.Pool
	Bid   market.USD
	Count int
	Why   string
}

// Release gives up the machines of an allocation, once those acquired in the same plan are ready.
type Release struct {
	Pool market.Pool
	Why  string
}

// Switch is the proactive move from one pool to another.
type Switch struct {
	From, To         market.Pool
	FromMTTF, ToMTTF time.Duration
	Why              string
}

// Considered is a pool with its figures and the verdict on it.
type Considered struct {
	Pool     market.Pool
	Price    market.USD
	HasPrice bool // false: the spot price is unknown and Price means nothing
	OnDemand market.USD
	Bid      market.USD
	MTTF     market.Estimate
	Count    int  // machines of this pool that would satisfy Want alone; 0 = cannot be told
	Chosen   bool // the job is or goes on in this pool when the plan is done
	Why      string
}
