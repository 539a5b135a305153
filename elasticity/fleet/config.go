// Package fleet decides which machines a run has: it asks the policy (bidding), buys, bills and terminates machines, follows the provider's
// reports, and finds the machines again after a restart of the controller. Demand sets how many there should be; Work reports when one may
// go. It knows nothing about what the machines do: no layout, no clock, no cut.
package fleet

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Config configures a Fleet: see elasticity.Config.
type Config struct {
	tempo.Settings
	Run         string
	Reliable    Reliable
	Want        bidding.Want // the unit that the job counts in
	Pools       []Pool
	Policy      bidding.Policy
	Job         bidding.Job // what the policy knows about the work in advance; the fleet adds what changes
	Substitutes bool        // spot machines may replace the reliable tier: the job has checkpoints to return to
	Past        *Ledger     // nil = a new run

	AskAgain   time.Duration
	Chooses    bool
	Rules      market.RuleBook
	WholeHours bool
	Billed     bool // the provider reports what machines have cost
	Firm       bool // fewer machines do less work and do not finish sooner: they stay to the end

	// Whole: the work needs the whole fleet at once. There are no tiers then, and the policy chooses all machines. It buys one machine
	// after another, as the answer to one purchase is input to the next decision, and machines that a plan gives up go when the purchase of
	// their replacement is answered. Crashes do not hold purchases back: the remaining machines cannot show that work can be done.
	Whole bool
	// Forgotten: machines of earlier controllers are ended for this reason; empty = they are taken over. Machines of unanswered launches
	// have no state yet, and are used like any others.
	Forgotten string
}

// due returns what an hour of a machine at this price adds to the bill.
func (c *Config) due(pool market.Pool, price market.USD) market.USD {
	if c.Rules == nil {
		return price
	}
	return c.Rules.Terms().Fees.Due(pool, price)
}

// Reliable is the reliable tier: on-demand machines.
type Reliable struct {
	Pool  market.Pool
	Type  market.InstanceType
	Count int
}

// Pool is a pool that the job allows for transient machines.
type Pool struct {
	Pool     market.Pool
	Type     market.InstanceType
	MaxPrice market.USD    // 0 = the job sets no limit
	Hints    bidding.Hints // from providers and earlier runs
	// Availability is known up to now; CapacityChanged adds to it. nil = not observed.
	Availability *market.Availability
	History      *market.History // up to now; the fleet appends to it. Of an on-demand pool: its constant price
}

// Demand is the number of machines wanted.
type Demand struct {
	Workers  bidding.Want // transient machines
	Asked    bool         // the number overrides the job's own: surplus machines go at once
	Awaited  bool         // a caller waits for this number: surplus machines go as well
	Paused   string       // why there should be no transient machines for now
	Reliable int
	Leaves   step.ID // the reliable machine that goes when there is one too many; empty = the youngest
}

// Work is the work of a run, as the fleet sees it.
type Work interface {
	// Need returns what the work currently needs of its machines.
	Need() step.Need
	// Progress returns how far the work has got.
	Progress() step.Progress
	// Enter adds a bought machine; Entered follows after its earlier reports have been processed.
	Enter(m *step.Machine, kind step.Kind)
	Entered(m *step.Machine)
	// Warned announces that a machine will go, and reports whether a decision may be due at once.
	Warned(m *step.Machine) (due bool)
	// Lose removes a machine from the work: nothing more is expected of it.
	Lose(m *step.Machine)
	// Rearrange announces that the set of staying machines has changed.
	Rearrange()
	// Holds reports whether a departing machine still has something that others need, Idle whether it has no work, and Connected whether
	// its agent has been heard recently.
	Holds(m *step.Machine) bool
	Idle(m *step.Machine) bool
	Connected(m *step.Machine) bool
	// Archive forgets machines that are archived.
	Archive()
}

// Tiers is what the reliable tier's machines do for Work; not called for fleets that are needed whole.
type Tiers interface {
	// Bare reports whether anything lacks a second copy.
	Bare() bool
	// Short returns why the remaining reliable machines, each with at least memoryMiB, cannot hold the job; nil if they can.
	Short(wanted int, name string, memoryMiB int64) error
	// Rejoin lets the remaining reliable machines resume the job.
	Rejoin(name string, memoryMiB int64)
	// EndAtCut makes an ending run return to the committed cut, rather than complete the current clock.
	EndAtCut(why string)
}

// Ledger is what earlier controllers' journal entries say about machines.
type Ledger struct {
	Machines []PastMachine // machines that may still exist, or whose bill is not yet written; as launched
	Open     []PastLaunch  // launches whose answer was not completely written
	Refused  []PastLaunch  // launches that failed, or supplied fewer machines than requested: more may still appear
	Settled  market.USD    // cost of machines that are not in Machines: their bills are written
	Bought   int           // total number of machines
	Switch   *PastSwitch   // the last one, possibly still in progress
	Lives    []market.Usage
	Prices   map[string]time.Time // time of the last price written, by pool
	Known    map[string]bool      // launched instances, including those not in Machines
}

// PastMachine is a machine of the past.
type PastMachine struct {
	Instance provisioner.Instance // with its end, if known
	Tier     step.Tier
	Number   int       // in order of purchase
	Joined   int       // rank in the order of joining; 0 = did not take part
	Left     bool      // it was given up
	Deadline time.Time // of an announced eviction; zero = none
	Charged  int       // bill lines written; the writer may have died before the last one
	Moved    int64     // bytes of the run's state fetched from another region
	Released string    // why it goes at the end of its paid time; empty = it stays
}

// PastSwitch is a proactive switch from one pool to another.
type PastSwitch struct {
	From, To market.Pool
	Token    string // token of the launch in the new pool
}

// PastLaunch is an earlier controller's launch; Count is the number of its machines that are unaccounted for.
type PastLaunch struct {
	Token string
	Tier  step.Tier
	Pool  market.Pool
	Bid   market.USD
	Or    []bidding.Choice // pools that the provider may have chosen instead
	Count int
	Asked int       // machines requested
	At    time.Time // when
	Why   string

	failed bool
}

// chosen reports whether the policy chooses the machines of a tier.
func (c *Config) chosen(tier step.Tier) bool { return c.Whole || tier == step.Transient }

// want returns how many transient machines there should be.
func (d *Demand) want() bidding.Want {
	if d.Paused != "" {
		return bidding.Want{}
	}
	return d.Workers
}
