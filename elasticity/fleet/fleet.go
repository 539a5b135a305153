// Package fleet decides which machines there are: it asks the policy (bidding), buys and ends machines, takes in what the
// provider says of them, writes bills, and finds all of them again when the controller is started again. How many there
// should be it is told (Demand), and when one may go it asks the work (Work). It refuses to know what the machines do: it
// knows no layout, no clock and no cut.
//
// Each file uses those before it: markets, machine, launches, charges, view, crashes, and then what needs all of them:
// buying, reliable, ends, strangers, reconcile, wanted.
package fleet

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
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
	// Done is how much of the work is done, of how much.
	Done() (done, of int64)
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

// Fleet is the state of the machines.
type Fleet struct {
	*step.Step
	cfg    *Config
	work   Work
	demand *Demand

	markets  *markets
	roster   *roster
	buys     *purchases
	accounts *accounts
	view     *view

	Reliable  securing
	NextPlan  time.Time
	WantPlan  bool
	Switching *switchover // a proactive switch under way
	crashes   Crashes

	early    map[step.ID]*early // what was heard of machines whose launch is not answered yet
	bought   int
	listed   time.Time // when the provider was last asked for all machines
	surveyed bool      // the provider has said which machines there are of a run that is taken over
	Totals   Totals
}

// Totals is what a fleet has come to.
type Totals struct {
	Machines  int // bought
	Evictions int // machines that the provider took
	Switches  int
}

// New returns a fleet without machines. The work is known to it before its first step.
func New(cfg *Config, s *step.Step, demand *Demand) *Fleet {
	f := &Fleet{Step: s, cfg: cfg, demand: demand, early: map[step.ID]*early{}, bought: cfg.FirstNumber}
	f.markets = &markets{Step: s, cfg: cfg, Prices: map[market.Pool]*market.History{}, deferred: map[market.Pool]time.Time{},
		lifetimes: map[market.Pool]*market.Lifetimes{}}
	for _, p := range cfg.Pools {
		f.markets.Prices[p.Pool] = p.History
	}
	f.roster = &roster{cfg: cfg, byID: map[step.ID]*Machine{}}
	f.buys = &purchases{Step: s, cfg: cfg, open: map[string]*launch{}, refused: map[string]*launch{}}
	f.accounts = &accounts{Step: s, cfg: cfg, markets: f.markets, roster: f.roster}
	f.view = &view{Step: s, cfg: cfg, demand: demand, markets: f.markets, roster: f.roster, buys: f.buys, accounts: f.accounts}
	return f
}

// Serve has the fleet work for somebody, with the machines that earlier controllers have left.
func (f *Fleet) Serve(work Work) {
	f.work, f.view.work = work, work
	if f.cfg.Past != nil {
		f.remember(f.cfg.Past)
	}
}

// Begin is the first step.
func (f *Fleet) Begin() {
	f.WantPlan = true
	for _, m := range f.roster.list { // of earlier controllers
		m.SawEnd = f.Awake.Now()
		if m.unwritten {
			f.Record(func() journal.Entry { return m.line(journal.Leave) })
		}
		if m.Lost && !m.Ended {
			f.Terminate(&m.Machine, "it had been given up before the controller was started again")
		}
	}
	for _, p := range f.cfg.Pools {
		for _, point := range f.cfg.Past.Unwritten(p.Pool, p.History) {
			f.markets.recordPrice(p.Pool, point)
		}
	}
}

// Machine returns one that was bought; nil = nobody knows it.
func (f *Fleet) Machine(id step.ID) *Machine { return f.roster.byID[id] }

// Machines returns those of which something may still come, in the order of joining.
func (f *Fleet) Machines() []*Machine { return f.roster.list }

// Capacity is how much a machine counts for in what the job wants.
func (f *Fleet) Capacity(m *Machine) int { return f.roster.capacity(m) }

// MachinesFor is how many machines satisfy a want.
func (f *Fleet) MachinesFor(want bidding.Want) int { return f.roster.MachinesFor(want) }

// UsualVCPU is what one machine counts for where vCPUs are wanted.
func (f *Fleet) UsualVCPU() int { return f.roster.UsualVCPU() }

// State is what the policy sees now. Its slices are good until the next Step, and not to be changed.
func (f *Fleet) State() bidding.State { return f.view.State() }

// Stale: what the policy sees may have changed.
func (f *Fleet) Stale() { f.view.well = false }

// Crashes are the crashes since work was last committed.
func (f *Fleet) Crashes() *Crashes { return &f.crashes }

// Charged is what the bills that are written come to.
func (f *Fleet) Charged() market.USD { return f.accounts.charged }

// TakePrice hears of a price.
func (f *Fleet) TakePrice(e PriceChanged) { f.WantPlan = f.markets.takePrice(e) || f.WantPlan }

// TakeCapacity hears how many machines a pool gives, where somebody watches that. What it had refused is out of date.
func (f *Fleet) TakeCapacity(e CapacityChanged) { f.WantPlan = f.markets.takeCapacity(e) || f.WantPlan }

// TakePricesKnown hears that every price change until then has been told.
func (f *Fleet) TakePricesKnown(e PricesKnown) { f.markets.pricesKnown = e.At }

// Charge writes the bills of machines that have ended.
func (f *Fleet) Charge() {
	if f.accounts.charge() && !f.work.Need().TakingOver { // else somebody asks about them
		f.roster.archive(f.work.Idle)
		f.work.Archive()
	}
}

// End terminates all machines.
func (f *Fleet) End(why string) {
	for _, m := range f.roster.ordered(func(m *Machine) bool { return !m.Ended }) {
		f.Terminate(&m.Machine, why)
	}
}

// Over reports whether no machine is left and no launch unanswered, and every bill is written or waited for in vain. Bills
// that are not known are written down as such.
func (f *Fleet) Over() bool {
	if f.MayTurnUp() || f.buys.Awaited() {
		return false
	}
	for _, m := range f.roster.list {
		if !m.Ended || !m.Charged && !f.Awake.Over(m.SawEnd, ChargeWait(f.cfg.Settings)) {
			return false
		}
	}
	for _, m := range f.roster.list {
		if !m.Charged {
			f.Record(func() journal.Entry {
				return UnknownCharge(string(m.ID), m.Pool, m.Launched, m.EndedAt, ErrNoPrices)
			})
		}
	}
	return true
}

// Ready: a machine has answered its welcome.
func (f *Fleet) Ready(of *step.Machine) {
	m := f.roster.byID[of.ID]
	if m.Tier == step.Reliable {
		f.Reliable.tries = 0
	}
	f.Record(func() journal.Entry { return m.line(journal.Ready) })
}

// Reorder is due when machines have been given places in the order of joining.
func (f *Fleet) Reorder() { f.roster.Reorder() }

// Joined: a machine takes part. The line says how.
func (f *Fleet) Joined(of *step.Machine, line func() journal.Entry) {
	m := f.roster.byID[of.ID]
	f.Record(func() journal.Entry {
		e := line()
		e.Kind, e.Instance, e.Pool, e.Tier = journal.Join, string(m.ID), m.Pool.String(), string(m.Tier)
		return e
	})
	f.closeLaunch(m.Token)
}

// Lost: nothing more is expected of a machine. Ready: it had been.
func (f *Fleet) Lost(of *step.Machine, ready bool) {
	m, reliable := f.roster.byID[of.ID], of.Tier == step.Reliable
	f.WantPlan = true
	f.Reliable.lost = f.Reliable.lost || reliable
	if m.Joined == 0 {
		if reliable && !ready && m.Token != f.Reliable.token {
			f.Reliable.token = m.Token
			f.Reliable.tries++
		}
		f.closeLaunch(m.Token)
		return
	}
	f.Record(func() journal.Entry { return m.line(journal.Leave) })
	if !f.Ending && f.Switching != nil {
		f.Switching.settle(f)
	}
}

// Warned: a machine has heard of its own end.
func (f *Fleet) Warned(id step.ID, deadline time.Time, rebalance bool) (stirs bool) {
	return f.TakeWarned(Warned{ID: id, Deadline: deadline, Rebalance: rebalance})
}

// Surveyed reports whether the provider has said which machines there are of a run that is taken over.
func (f *Fleet) Surveyed() bool { return f.surveyed || !f.work.Need().TakingOver }

// TakenOver: all machines of earlier controllers are accounted for.
func (f *Fleet) TakenOver() {
	f.WantPlan, f.Reliable.lost = true, true // Secure looks whether that is so
	if f.Switching != nil {
		f.closeLaunch(f.Switching.token)
	}
}

// StartedOver: no reliable machine serves any more.
func (f *Fleet) StartedOver() { f.Reliable = securing{lost: true} }

// Demanded: the demand has changed.
func (f *Fleet) Demanded() { f.WantPlan, f.Reliable.lost = true, true } // Secure looks what is missing

// Replan has the policy asked again.
func (f *Fleet) Replan() { f.WantPlan = true }

// Progressed: work has been done that will not be lost.
func (f *Fleet) Progressed() {
	if f.crashes.Progressed() {
		f.WantPlan = true
	}
}

// NextDue calls by with each time at which there is something to do although nothing happens.
func (f *Fleet) NextDue(by func(time.Time)) {
	by(f.Reliable.After)
	for _, m := range f.roster.list {
		switch {
		case m.Ended && !m.Charged:
			by(m.EndedAt)
			by(f.Awake.Due(m.SawEnd, ChargeWait(f.cfg.Settings)))
		case m.Draining && !m.Leaving && !m.Lost && !m.Ended:
			by(f.paidUntil(m).Add(-f.cfg.DrainMargin))
		}
	}
}
