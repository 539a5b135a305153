// Package fleet decides which machines a run has: it asks the policy (bidding), buys, bills and terminates machines, follows the
// provider's reports, and finds the machines again after a restart of the controller. Demand sets how many there should be; Work
// reports when one may go. It knows nothing about what the machines do: no layout, no clock, no cut.
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
	Want        bidding.Want // what the job counts in
	Pools       []Pool
	Policy      bidding.Policy
	Job         bidding.Job // what the policy knows of the work beforehand; the fleet adds what changes
	Substitutes bool        // spot machines may stand in for the reliable tier: the job has checkpoints to return to
	Past        *Ledger     // nil = the run begins

	AskAgain   time.Duration
	Chooses    bool
	Rules      market.RuleBook
	WholeHours bool
	Billed     bool // the provider says what machines have cost
	Firm       bool // fewer machines do less work and are done no sooner: they stay to the end

	// Whole: the work needs the whole fleet at once. So there are no tiers, the policy chooses all machines. It buys one after the
	// other, as the answer to one purchase is part of what decides the next, and what a plan gives up goes when the purchase in its
	// place is answered. Crashes hold no purchase back: the machines that are left cannot show that work can be done.
	Whole bool
	// Forgotten: machines of earlier controllers are ended for this reason; empty = they are taken over. Those of launches
	// without an answer know nothing yet, and serve as any others.
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
	MaxPrice market.USD    // 0 = no limit of the job's own
	Hints    bidding.Hints // from providers and earlier runs
	// Availability is up to now; CapacityChanged adds to it. nil = it is not watched.
	Availability *market.Availability
	History      *market.History // up to now; the fleet appends to it. Of an on-demand pool: its constant price
}

// Demand is how many machines there should be.
type Demand struct {
	Workers  bidding.Want // transient machines
	Asked    bool         // the number overrides the job's own: surplus machines go at once
	Awaited  bool         // a caller waits for this number: surplus machines go as well
	Paused   string       // why there are to be no transient machines for now
	Reliable int
	Leaves   step.ID // the reliable machine that goes when there is one too many; empty = the youngest
}

// Work is the training, as the fleet sees it.
type Work interface {
	// Need is what the work needs of its machines now.
	Need() step.Need
	// Progress is how far the work has come.
	Progress() step.Progress
	// Enter adds a bought machine; Entered follows when its earlier reports have been taken in.
	Enter(m *step.Machine, kind step.Kind)
	Entered(m *step.Machine)
	// Warned announces that a machine will go, and reports whether there may be something to do at once.
	Warned(m *step.Machine) (due bool)
	// Lose takes a machine out of the work: nothing more is expected of it.
	Lose(m *step.Machine)
	// Rearrange announces that other machines stay than before.
	Rearrange()
	// Holds reports whether a machine that is to leave still has something that others need, Idle whether it has no work, and
	// Connected reports whether its agent has been learned of lately.
	Holds(m *step.Machine) bool
	Idle(m *step.Machine) bool
	Connected(m *step.Machine) bool
	// Archive forgets machines that are archived.
	Archive()
}

// Tiers is what the reliable tier's machines do for Work; not called where the fleet is needed whole.
type Tiers interface {
	// Bare reports whether something has no second copy.
	Bare() bool
	// Short returns why the remaining reliable machines, each with at least memoryMiB, cannot hold the job; nil if they can.
	Short(wanted int, name string, memoryMiB int64) error
	// Rejoin lets the remaining reliable machines resume the job.
	Rejoin(name string, memoryMiB int64)
	// EndAtCut has a run that is to end return to the committed cut, rather than complete the clock under way.
	EndAtCut(why string)
}

// Ledger is what the journal of earlier controllers has about machines.
type Ledger struct {
	Machines []PastMachine // that may still be there, or whose bill is not written yet; as they were launched
	Open     []PastLaunch  // launches whose answer was not written down whole
	Refused  []PastLaunch  // launches that failed, or gave fewer machines than requested: more may still appear
	Settled  market.USD    // what machines have cost that are not among Machines: their bills are written down
	Bought   int           // machines in all
	Switch   *PastSwitch   // the last one: it may be under way
	Lives    []market.Usage
	Prices   map[string]time.Time // of the last price that is written down, by pool
	Known    map[string]bool      // instances that were launched, also those that are not in Machines
}

// PastMachine is a machine of the past.
type PastMachine struct {
	Instance provisioner.Instance // with its end, if that is known
	Tier     step.Tier
	Number   int       // in the order in which machines were bought
	Joined   int       // place in the order of joining; 0 = it took no part
	Left     bool      // it was given up
	Deadline time.Time // of an eviction that was announced; zero = none was
	Charged  int       // lines of its bill that are written down; the writer may have died before the last one
	Moved    int64     // bytes of the run's state that it fetched from another region
	Released string    // why it goes at the end of its paid time; empty = it stays
}

// PastSwitch is a proactive switch from one pool to another.
type PastSwitch struct {
	From, To market.Pool
	Token    string // of the launch in the new pool
}

// PastLaunch is an earlier controller's launch; Count is how many of its machines are unaccounted for.
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
