// Package fleet decides which machines there are: it asks the policy (bidding), buys and ends machines, takes in what the
// provider says of them, writes bills, and finds all of them again when the controller is started again. How many there
// should be it is told (Demand), and when one may go it asks the work (Work). It refuses to know what the machines do: it
// knows no layout, no clock and no cut.
//
// Each file uses only those before it: events, crashes, config, machine, considered, markets, charges, launches, view, fleet,
// buying, reliable, wanted, past, ends, reconcile, answers, api.
package fleet

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Config is what a fleet needs to know beforehand: see elasticity.Config.
type Config struct {
	tempo.Settings
	Run         string
	Reliable    Reliable
	Want        bidding.Want // what the job counts in
	Pools       []Pool
	Policy      bidding.Policy
	Work        float64 // in vCPU hours at the declared rates; 0 = unknown
	Substitutes bool    // the job may stand on machines that can be taken: it has checkpoints to go back to
	Past        *Ledger // nil = the run begins
	FirstNumber int     // of machines: beyond those of earlier fleets of the run

	AskAgain   time.Duration
	Chooses    bool
	Deadline   time.Time
	Budget     market.USD
	PerHour    market.USD
	Rules      market.RuleBook
	WholeHours bool
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
	// Availability is up to now; CapacityChanged adds to it. nil = nobody watches it.
	Availability *market.Availability
	History      *market.History // up to now; the fleet appends to it. Of an on-demand pool: its constant price
}

// Demand is how many machines there should be.
type Demand struct {
	Workers  bidding.Want // transient machines
	Asked    bool         // for so many, in place of the job's own number: those beyond it go at once
	Paused   string       // why there are to be no transient machines for now
	Reliable int
}

// Work is what the machines are for, as the fleet sees it.
type Work interface {
	// Need is what the work asks for, as things are.
	Need() step.Need
	// Bare reports whether something has no second copy.
	Bare() bool
	// Enter takes a bought machine up; Entered follows when what was heard of it before has been taken in.
	Enter(m *step.Machine, kind step.Kind)
	Entered(m *step.Machine)
	// Warned: a machine will go. It reports whether there may be something to do about it at once.
	Warned(m *step.Machine) (stirs bool)
	// Lose takes a machine out of the work: nothing more is expected of it.
	Lose(m *step.Machine)
	// Rearrange: which machines stay has changed.
	Rearrange()
	// Holds reports whether a machine that is to leave still has something that others need, Idle whether it has no work, and
	// Talks whether it has been heard of lately.
	Holds(m *step.Machine) bool
	Idle(m *step.Machine) bool
	Talks(m *step.Machine) bool
	// Archive forgets machines that are archived.
	Archive()
	// Short says why the reliable machines that are left, each with so much memory at least, cannot do without the missing ones.
	Short(wanted int, name string, memoryMiB int64) error
	// StandAgain lets the reliable machines that are left take the job up again.
	StandAgain(name string, memoryMiB int64)
}

// Ledger is what earlier controllers of a run have written down of machines.
type Ledger struct {
	Machines []PastMachine // that may still be there, or whose bill is not written yet; as they were launched
	Open     []PastLaunch  // launches whose answer was not written down whole
	Refused  []PastLaunch  // launches that failed, or gave fewer than were asked for: machines may turn up all the same
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
	Charged  int       // lines of its bill that are written down; whoever wrote them may not have come to the last one
	Released string    // why it goes when what is paid for it is over; empty = it stays
}

// PastSwitch is a proactive switch from one pool to another.
type PastSwitch struct {
	From, To market.Pool
	Token    string // of the launch in the new pool
}

// PastLaunch is a launch of the past; Count is how many machines of it are not accounted for.
type PastLaunch struct {
	Token string
	Tier  step.Tier
	Pool  market.Pool
	Bid   market.USD
	Or    []bidding.Choice // pools that the provider may have chosen instead
	Count int
	Asked int       // how many machines were asked for
	At    time.Time // when
	Why   string

	failed bool
}

// want is how many transient machines there should be.
func (d *Demand) want() bidding.Want {
	if d.Paused != "" {
		return bidding.Want{}
	}
	return d.Workers
}
