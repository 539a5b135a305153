// Package bidding decides which pools to hold, at what bid, and when to switch. A Policy maps a State to a Plan; it
// never buys (provisioner does) and keeps no state between calls.
//
// It knows nothing about how machines are bought and what they run.
package bidding

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Policy chooses pools.
type Policy interface {
	Name() string
	// Plan returns what to acquire and release now. Equal states give equal plans. Call it through Ask, which enforces
	// Job.PerHour, to carry the plan out.
	Plan(State) Plan
}

// State is everything that a policy may see.
type State struct {
	Now   time.Time
	Want  Want
	Job   Job
	Pools []Candidate // sorted by pool; the spot and on-demand pools that the job allows
	// Chooses: a purchase may name several pools, of which the provider chooses; see Acquire.Or.
	Chooses bool
	// Firm: this number was requested explicitly. The machines stay to the end, however little work is left.
	Firm bool
	// StepsOnly requests only the steps: reasons for plans without steps, and for pools not bought in, may be missing.
	// They would take time at each of thousands of price changes.
	StepsOnly bool
	// Due returns what the job's machines cost until a time, if they stay until then; nil = unknown. Afforded is from
	// the last plan.
	Due      func(time.Time) market.USD
	Afforded time.Time
	// Begins returns when the next increment of one of these machines begins after a time; zero = none does. It is set
	// with Due.
	Begins func(time.Time) time.Time
	// covered: the held machines are paid for until the work is done, so a switch would pay for it twice (ending).
	covered bool
	Held    []Allocation // sorted by pool, then launch; machines that are starting, running or draining; all pools are in Pools
}

// Job is the work, its limits and its reliable machines. Work is measured in vCPU hours at the machines' declared rates
// (see market.InstanceType). The zero value means that nothing is known.
type Job struct {
	Started  time.Time
	Deadline time.Time  // when the work must be done; zero = none
	Work     float64    // total; 0 = unknown
	Done     float64    // so far
	Saved    float64    // part of Done in the newest checkpoint, if the rest is lost with the machines
	Budget   market.USD // limit for the run's cost; 0 = no limit. Ask enforces it, unless the run Overspends
	Spent    market.USD // cost of all machines until now; set only with a Budget
	Owed     market.USD // and until they can be gone
	PerHour  market.USD // limit for the hourly cost of all machines; 0 = no limit. Ask enforces it
	// Overspends: Budget only informs the policy; the run continues above it.
	Overspends bool

	// Upkeep is the hourly cost of the reliable machines, whatever the policy does.
	Upkeep market.USD
	// ValueOfTime is what the owner would pay to finish an hour earlier. Policies that express time in money add it to
	// Upkeep.
	ValueOfTime market.USD
	// alone: there is no reliable tier (RolledBack).
	alone bool
	// Reliable is the hourly cost of the present reliable machines, if it differs: one more, or a spot machine instead
	// of one. Set only with PerHour, or without a reliable tier.
	Reliable market.USD
	// ReliableRate is the work that they do per hour while there are no others.
	ReliableRate float64

	// Startup is the time from the request for a machine until it works.
	Startup time.Duration
	// Notice is how long before an eviction the provider warns; warned machines hand over their work.
	Notice time.Duration
	// Handover is the working time that is lost when all transient machines are evicted, without the start-up of
	// others: it follows from the controller's settings, as the controller waits for machines that are nearly ready so
	// that work moves once.
	Handover time.Duration
	// SaveTime is how long training stops for a checkpoint, if the job survives the loss of its machines by
	// checkpoints; 0 = it continues meanwhile.
	SaveTime time.Duration
	// State is the size of a checkpoint in bytes, and Home the region with the newest one; empty = there is none. A
	// fleet in another region fetches it from there, at a cost (Terms.Fees.Moving).
	State int64
	Home  string
	// SaveEvery is the interval of checkpoints, whatever the plan says; 0 = as in the plan.
	SaveEvery time.Duration
	// Undone is the most work of a machine that an eviction undoes, if machines keep their own: what was done since the
	// last save, or all of it; 0 = a warned machine loses nothing. Together: all machines roll back when one is
	// evicted, and wait for another.
	Undone   time.Duration
	Together bool
	Program  bool // its machines keep their own work
	// Splits is the number of pieces of each clock's work, which machines share; 0 = unknown.
	Splits int
	// Lag is how late a loss may be noticed, or how long an ended machine may take to be gone.
	Lag time.Duration
	// Leave is how long before the end of its paid time a released machine is terminated, as a safety margin.
	Leave time.Duration
	// Terms are the provider's terms of billing.
	Terms market.Terms
}

// hour returns the hourly cost of the run to its owner apart from transient machines.
func (j *Job) hour() market.USD { return j.Upkeep + j.ValueOfTime }

// moving returns the cost for a pool's fleet of fetching the newest checkpoint from another region.
func (j *Job) moving(pool market.Pool) market.USD {
	if j.Home == "" || j.Home == pool.Region {
		return 0
	}
	return j.Terms.Fees.Moving(j.State)
}

// WorkLeft returns the remaining work; false if it is unknown.
func (j Job) WorkLeft() (float64, bool) { return max(j.Work-j.Done, 0), j.Work > 0 }

// Want is the size that the job wants. Exactly one of the two fields is set.
type Want struct {
	Machines int // number of transient machines
	VCPU     int // or total vCPUs
}

// Candidate is a pool that the job may use. Machines of an on-demand pool are bought without a bid, have a constant
// price (as is History) and are never reclaimed; otherwise they work as those of a spot pool do.
type Candidate struct {
	Pool     market.Pool
	Type     market.InstanceType
	History  *market.History // only points at or before State.Now
	MaxPrice market.USD      // the job's own limit for the bid; 0 = none
	// Availability is how many machines could be bought or kept, if recorded; nil = unknown.
	Availability *market.Availability
	// Hints are what is known about the pool's capacity in addition to prices.
	Hints Hints
	// NoCapacityUntil is when to retry the pool after the provider had no capacity; zero = now.
	NoCapacityUntil time.Time
}

// OnDemand reports whether machines of the pool stay until released.
func (c *Candidate) OnDemand() bool { return c.Pool.Class == market.OnDemand }

// Allocation is a group of machines of one pool that were bought together with one bid.
type Allocation struct {
	Pool   market.Pool
	Bid    market.USD // as granted; 0 = like a new machine's, or on demand
	Count  int
	Ready  int // number of machines that take part in training; the others are still starting
	Launch time.Time
	// Draining machines were released: a better pool has replaced them, and they work only until
	// their paid hour ends.
	Draining bool
	// Warned machines have an eviction notice and do not count as held.
	Warned bool
}

// Plan is the steps to take now, with a reason for each.
type Plan struct {
	Acquire []Acquire
	Release []Release
	// Switch is set when the plan moves from a working pool to a better one.
	Switch *Switch
	// Considered has one entry per candidate, in the same order, with the reason for or against it.
	Considered []Considered
	// AskAgain is the latest time for the next Plan, if nothing happens before; zero = any time.
	AskAgain time.Time
	// Afforded is the time until which the plan's machines cannot break the promise, whatever prices do: see
	// keepPromise.
	Afforded time.Time
	// Settled is the time until which another call gives no steps, whatever prices do, unless a machine comes or goes:
	// see promise.settled.
	Settled time.Time
	// SaveEvery is the interval of checkpoints, for policies by restart; 0 = never.
	SaveEvery time.Duration
	// Spent: nothing is held, and the rest of the budget does not cover what the policy would buy.
	Spent bool
	// Why explains the plan in one sentence, even if there is nothing to do.
	Why string
}

// Acquire requests machines.
type Acquire struct {
	Pool  market.Pool
	Bid   market.USD
	Count int
	Why   string
	// Or are pools that are as good by the policy's own rule, with their bids: the provider may choose them for all or
	// some machines. A machine counts for as much, and does as much work, in each pool. Set only if State.Chooses.
	Or []Choice
}

// Choice is an equally good pool, with the bid there.
type Choice struct {
	Pool market.Pool
	Bid  market.USD
}

// Release gives up machines: in a plan with a Switch once the new ones are ready, otherwise now. They work until the
// end of their paid time.
type Release struct {
	Pool   market.Pool
	Launch time.Time // of the allocation; zero = all of the pool's machines
	Count  int       // number of machines; 0 = all
	Why    string
}

// Of reports whether the release includes a pool's machines that were launched at a time.
func (r Release) Of(pool market.Pool, launch time.Time) bool {
	return r.Pool == pool && (r.Launch.IsZero() || r.Launch.Equal(launch))
}

// Switch is the proactive move from one pool to another.
type Switch struct {
	From, To         market.Pool
	FromMTTF, ToMTTF time.Duration
	Why              string
}

// Considered is a pool with its figures and its verdict.
type Considered struct {
	Pool     market.Pool
	Price    market.USD
	HasPrice bool // false: the spot price is unknown and Price means nothing
	OnDemand market.USD
	Bid      market.USD
	MTTF     market.Estimate
	ByHints  bool // MTTF is the time until an eviction for capacity, by hints and observation; else until the price exceeds the bid
	Count    int  // machines of this pool that alone would satisfy Want; 0 = unknown
	Chosen   bool // the job is in this pool now, or will be after the plan
	Why      string
}

// ByRestart is a policy for jobs without a reliable tier; their machines are transient or on demand. When one is lost,
// its work continues from what was saved (elasticity/restart): the whole job, or one of its tasks.
type ByRestart interface {
	Policy
	// ByRestart does nothing; it marks the policies without a reliable tier.
	ByRestart()
}

// SortHeld sorts allocations in the order of State.Held.
func SortHeld(held []Allocation) {
	slices.SortStableFunc(held, func(a, b Allocation) int {
		return cmp.Or(a.Pool.Compare(b.Pool), a.Launch.Compare(b.Launch))
	})
}
