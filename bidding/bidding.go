// Package bidding decides which pools to hold, at what bid, and when to switch. A Policy maps a State to a Plan; it never buys
// (provisioner does) and keeps no memory between calls.
//
// It knows nothing about how machines are bought and what runs on them.
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
	// Plan returns what to acquire and release now. Equal states give equal plans. To carry a plan out, get it from Ask, which
	// keeps to Job.PerHour.
	Plan(State) Plan
}

// State is all that a policy may look at.
type State struct {
	Now   time.Time
	Want  Want
	Job   Job
	Pools []Candidate // sorted by pool; the spot and on-demand pools that the job allows
	// Chooses: a purchase may name several pools, and the provider chooses among them; see Acquire.Or.
	Chooses bool
	// Firm: this number was requested explicitly. The machines stay to the end, whatever the rest of the work pays for.
	Firm bool
	// StepsOnly asks for the steps only: reasons for plans without steps, and for pools not bought in, may be missing. They
	// would cost time at each of thousands of price changes.
	StepsOnly bool
	// Due is what the job's machines cost until a time, if they stay until then; nil = unknown. Afforded is the last plan's.
	Due      func(time.Time) market.USD
	Afforded time.Time
	// Begins is when the next increment of one of these machines begins after a time; zero = none does. It is set with Due.
	Begins func(time.Time) time.Time
	// covered: the machines held are paid for until the work is done, so a switch would pay for it twice (ending).
	covered bool
	Held    []Allocation // sorted by pool, then launch; machines that are starting, running or draining; pools among Pools
}

// Job is the work, its limits and its reliable machines. Work is counted in vCPU hours of the machines' declared rates (see
// market.InstanceType). The zero value means that nothing is known.
type Job struct {
	Started  time.Time
	Deadline time.Time  // when the work should be done; zero = none
	Work     float64    // all of it; 0 = unknown
	Done     float64    // as far as it has come
	Saved    float64    // of Done, what is in the newest checkpoint, where the rest is lost with the machines
	Budget   market.USD // that the run may cost; 0 = no limit. Ask keeps to it, unless the run Overspends
	Spent    market.USD // what is due for all machines until now; set only with a Budget
	Owed     market.USD // and until they can be gone
	PerHour  market.USD // that all machines together may cost in an hour; 0 = no limit. Ask keeps to it
	// Overspends: Budget is for the policy alone; the run continues above it.
	Overspends bool

	// Upkeep is what the reliable machines cost per hour, whatever the policy does.
	Upkeep market.USD
	// ValueOfTime is what its owner would pay for being done an hour earlier. Policies that weigh time by money count it as Upkeep.
	ValueOfTime market.USD
	// alone: no reliable tier stands behind the machines (RolledBack).
	alone bool
	// Reliable is what the present ones cost per hour, where that differs: one more, or a spot machine instead of one. Set
	// only with PerHour, or without a reliable tier.
	Reliable market.USD
	// ReliableRate is the work per hour that they do while there are no others.
	ReliableRate float64

	// Startup is the time from the request for a machine until it works.
	Startup time.Duration
	// Notice is how long before an eviction the provider warns; warned machines hand over what they hold.
	Notice time.Duration
	// Handover is the working time that is lost when all transient machines are evicted, apart from the start-up of
	// others: it follows from the controller's settings, as the controller waits for machines that are nearly ready so
	// that work moves once.
	Handover time.Duration
	// SaveTime is how long training stops for a checkpoint, where it is by checkpoints that a job outlives its
	// machines; 0 = it continues meanwhile.
	SaveTime time.Duration
	// State is how many bytes a checkpoint has, and Home the region that has the newest; empty = there is none. A fleet in another
	// region fetches it from there (Terms.Fees.Moving).
	State int64
	Home  string
	// SaveEvery is how often checkpoints are taken, whatever the plan says; 0 = as it says.
	SaveEvery time.Duration
	// Undone is how much of a machine's work an eviction undoes at the most, where machines keep their own: what was done since it was
	// saved, or all of it; 0 = what is warned loses nothing. Together: all machines fall back when one is evicted, and wait for another.
	Undone   time.Duration
	Together bool
	Program  bool // its machines keep their own work
	// Splits are the pieces that each clock's work comes in, which machines share; 0 = unknown.
	Splits int
	// Lag is how much later than it happened a loss may be noticed, or a machine that was ended be gone.
	Lag time.Duration
	// Leave is how long before the end of its paid time a released machine is terminated, to be on the safe side.
	Leave time.Duration
	// Terms are the provider's, by which machines are billed.
	Terms market.Terms
}

// hour returns what an hour of the run costs its owner apart from transient machines.
func (j *Job) hour() market.USD { return j.Upkeep + j.ValueOfTime }

// moving returns what it costs a fleet of a pool to fetch the newest checkpoint from another region.
func (j *Job) moving(pool market.Pool) market.USD {
	if j.Home == "" || j.Home == pool.Region {
		return 0
	}
	return j.Terms.Fees.Moving(j.State)
}

// WorkLeft returns what is still to be done; false when that is unknown.
func (j Job) WorkLeft() (float64, bool) { return max(j.Work-j.Done, 0), j.Work > 0 }

// Want is how much the job asks for. Exactly one of the two is set.
type Want struct {
	Machines int // this many transient machines
	VCPU     int // or as many as give this many vCPUs
}

// Candidate is a pool that the job allows. Machines of an on-demand pool are bought without a bid, cost the same at all
// times (History is that constant) and are never taken back; otherwise they work as those of a spot pool do.
type Candidate struct {
	Pool     market.Pool
	Type     market.InstanceType
	History  *market.History // points at or before State.Now only
	MaxPrice market.USD      // the job's own limit on the bid; 0 = none
	// Availability is how many machines could be bought or kept, where that is recorded; nil = unknown.
	Availability *market.Availability
	// Hints are what is known about the pool's capacity besides prices.
	Hints Hints
	// NoCapacityUntil is when the pool may be tried again after the provider had none; zero = now.
	NoCapacityUntil time.Time
}

// OnDemand reports whether machines of the pool stay until they are released.
func (c *Candidate) OnDemand() bool { return c.Pool.Class == market.OnDemand }

// Allocation is a group of machines of one pool that were bought together at one bid.
type Allocation struct {
	Pool   market.Pool
	Bid    market.USD // as granted; 0 = as a new machine's, or bought on demand
	Count  int
	Ready  int // of Count, those that take part in training; the others are still starting
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
	// Considered has one entry per candidate, in the same order, with the reason for or against it.
	Considered []Considered
	// AskAgain is the latest time for the next Plan, if nothing happens before; zero = whenever.
	AskAgain time.Time
	// Afforded is until when the plan's machines cannot break the promise, whatever prices do: see keepPromise.
	Afforded time.Time
	// Settled is until when asking again gives no steps, whatever prices do, before a machine comes or goes: see promise.settled.
	Settled time.Time
	// SaveEvery is how often to take a checkpoint, for policies by restart; 0 = never.
	SaveEvery time.Duration
	// Spent: nothing is held, and the rest of the budget does not pay for what the policy would buy.
	Spent bool
	// Why is the plan in one sentence, also when there is nothing to do.
	Why string
}

// Acquire asks for machines.
type Acquire struct {
	Pool  market.Pool
	Bid   market.USD
	Count int
	Why   string
	// Or are pools that are as good by the policy's own rule, with their bids: the provider may choose them for all or some of
	// the machines. A machine counts for as much in each, and does as much work. Only where State.Chooses.
	Or []Choice
}

// Choice is a pool that would do as well, and the bid there.
type Choice struct {
	Pool market.Pool
	Bid  market.USD
}

// Release gives machines up: in a plan with a Switch once the new ones are ready, otherwise now. They work until the end of
// their paid time.
type Release struct {
	Pool   market.Pool
	Launch time.Time // of the allocation; zero = all machines of the pool
	Count  int       // of machines; 0 = all
	Why    string
}

// Of reports whether machines of a pool that were launched at a time are meant.
func (r Release) Of(pool market.Pool, launch time.Time) bool {
	return r.Pool == pool && (r.Launch.IsZero() || r.Launch.Equal(launch))
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
	ByHints  bool // MTTF is until an eviction for capacity, by hints and observation; else until the price exceeds the bid
	Count    int  // machines of this pool that would satisfy Want alone; 0 = unknown
	Chosen   bool // the job is, or will be, in this pool when the plan is done
	Why      string
}

// ByRestart is a policy for jobs without a reliable tier, whose machines are transient ones or on demand. When one is lost, what ran
// on it continues from what was saved (elasticity/restart): the whole job, or a task of it.
type ByRestart interface {
	Policy
	// ByRestart does nothing; it marks the policies without a reliable tier.
	ByRestart()
}

// SortHeld puts allocations in the order of State.Held.
func SortHeld(held []Allocation) {
	slices.SortStableFunc(held, func(a, b Allocation) int {
		return cmp.Or(a.Pool.Compare(b.Pool), a.Launch.Compare(b.Launch))
	})
}
