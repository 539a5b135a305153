// Package restart is the deciding core of a run by kill and restart, the way that jobs are run on spot machines
// without a reliable tier: one fleet trains, saves a checkpoint now and then, and when any machine of it goes, all
// training stops until a whole fleet has been bought again and the last checkpoint has been read. TierML
// (CMU-PDL-16-102, section 4) compares itself with it, and so does everything here.
//
// It is a Controller beside elasticity.Controller, in the same words: events in, actions out, the same bidding.Policy
// asked, the same lines in the journal. It knows machines, launches, checkpoints and bills. It refuses to know how
// training works on a fleet, and what a checkpoint is made of: Train and Save name that. A simulation does as they say by
// a rate; a Run does on real machines.
package restart

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// Config is what a controller needs to know beforehand. Durations are market time.
type Config struct {
	tempo.Settings
	Run    string // names the run in tokens: unique per run
	Clocks ps.Clock
	// Want is the whole fleet: nothing is trained with less.
	Want   bidding.Want
	Pools  []elasticity.Pool // sorted by pool
	Policy bidding.Policy
	// Job is what the policy knows of the work; the controller keeps what changes in it up to date, and what follows from
	// the settings.
	Job bidding.Job
	// Restart is how long a fleet whose agents have all called takes until it works: it loads its data and the checkpoint.
	Restart time.Duration
	// Continuous saving loses nothing and takes no time of its own: what it costs is part of the time that a fleet
	// takes to begin, as Can't Be Late (NSDI 24, section 3.1) has it. Without, a checkpoint is taken as often as the
	// policy's plan says.
	Continuous bool
	// SaveEvery is how often checkpoints are taken, whatever the policy's plan says; 0 = as it says.
	SaveEvery time.Duration
	// ResumeAt is the clock of the checkpoint that the run goes on from; 0 = it begins. Past is what a controller before
	// has written down that did not end in order: its machines are ended, as all of a fleet goes or nothing.
	ResumeAt ps.Clock
	Past     *elasticity.Past
	// AskAgain: a launch that the controller before decided within that time, and has no answer to, is asked for again; 0 = none
	// is.
	AskAgain time.Duration

	MaxDuration time.Duration // the run ends in order after this; 0 = never
	Silent      bool          // nobody reads the journal: Step gives no Record. Totals tells what the run comes to
	Rules       market.RuleBook
}

// Controller is the state of a run. It is not safe for concurrent use: one driver steps it.
type Controller struct {
	cfg Config
	now time.Time
	out []elasticity.Action

	started     time.Time
	awake       step.Awake // what machines are waited for by
	prices      map[market.Pool]*market.History
	pricesKnown time.Time                 // every price change until then has been told
	deferred    map[market.Pool]time.Time // pools without capacity, until when
	launches    map[string]*launch        // by token
	counter     int                       // of tokens
	machines    map[ps.ServerID]*machine
	roster      []*machine // all of them, in the order of launch
	wantPlan    bool
	nextPlan    time.Time
	considered  []bidding.Considered // by the plan that is being carried out
	seen        bidding.State        // by the policy, the last time it was asked
	seenWell    bool                 // its pools and machines are still so: prices change nothing of them

	attempt   *attempt // nil while no fleet trains
	attempts  uint64
	saveEvery time.Duration // as the policy's last plan has it
	saved     ps.Clock      // the newest checkpoint
	reached   ps.Clock      // the highest clock that any attempt is known to have reached

	crashes  fleet.Crashes
	crashLog string // of the agent whose crash ends the run

	stopWhy  string // an orderly end is wanted
	enough   string // why the model is good enough before all clocks are done
	ending   bool   // machines are being terminated for good
	outcome  string
	finished bool
	totals   elasticity.Totals
}

// New returns a controller; its first Step asks the policy for a fleet.
func New(cfg Config) *Controller {
	cfg.Job.Startup, cfg.Job.Notice, cfg.Job.Lag = cfg.Startup-cfg.Begin+cfg.Restart, cfg.Notice, cfg.Lag
	c := &Controller{
		cfg:      cfg,
		prices:   map[market.Pool]*market.History{},
		deferred: map[market.Pool]time.Time{},
		launches: map[string]*launch{},
		machines: map[ps.ServerID]*machine{},
		awake:    step.NewAwake(cfg.BootWithin),
		saved:    cfg.ResumeAt, reached: cfg.ResumeAt,
	}
	for _, p := range cfg.Pools {
		c.prices[p.Pool] = p.History
	}
	return c
}

// Step takes in an event and gives what to do about it, in order.
func (c *Controller) Step(now time.Time, e elasticity.Event) []elasticity.Action {
	switch e.(type) {
	case elasticity.PriceChanged, elasticity.PricesKnown, elasticity.Wake, elasticity.Trained, elasticity.Saved:
	default: // what may change what is held
		c.seenWell = false
	}
	return c.step(now, func() { c.take(e) })
}

// step lets something happen and gives what to do about it.
func (c *Controller) step(now time.Time, happens func()) []elasticity.Action {
	c.now, c.out = now, nil
	c.awake.Step(now)
	if c.finished {
		return nil
	}
	if c.started.IsZero() {
		c.begin()
	}
	happens()
	c.advance()
	for _, a := range c.out {
		if _, save := a.(elasticity.Save); !save { // what was done changes what is held
			c.seenWell = false
		}
	}
	return c.out
}

func (c *Controller) begin() {
	c.started, c.wantPlan = c.now, true
	for _, p := range c.cfg.Pools {
		for _, point := range c.cfg.Past.Unwritten(p.Pool, p.History) {
			c.recordPrice(p.Pool, point)
		}
	}
	if c.cfg.Past != nil {
		c.remember(c.cfg.Past)
	}
}

func (c *Controller) take(e elasticity.Event) {
	switch e := e.(type) {
	case elasticity.PriceChanged:
		c.takePrice(e)
	case elasticity.PricesKnown:
		c.pricesKnown = e.At
	case elasticity.CapacityChanged:
		c.takeCapacity(e)
	case elasticity.Launched:
		c.takeLaunched(e)
	case elasticity.LaunchFailed:
		c.takeLaunchFailed(e)
	case elasticity.Listed:
		c.takeListed(e)
	case elasticity.InstanceEnded:
		c.takeEnded(e.Instance)
	case elasticity.Warned:
		c.takeWarned(e)
	case elasticity.Disconnected:
		if m := c.machines[e.ID]; m != nil && !m.lost {
			c.lose(m)
		}
	case elasticity.Reported: // the first thing that an agent says; what follows is the driver's
		if m := c.machines[e.ID]; m != nil && !m.ready && m.staying() {
			m.ready = true
			c.record(func() journal.Entry {
				return journal.Entry{Kind: journal.Ready, Instance: string(m.id), Pool: m.pool.String(), Tier: m.tier()}
			})
		}
	case elasticity.Trained:
		c.takeTrained(e)
	case elasticity.Saved:
		c.takeSaved(e)
	case elasticity.StopWanted:
		c.takeStop(e)
	case elasticity.BudgetSpoke:
		c.takeBudget(e)
	}
}

// advance does whatever the state asks for now. Each part looks at the state alone, so that their order matters for
// promptness only.
func (c *Controller) advance() {
	if c.cfg.MaxDuration > 0 && c.stopWhy == "" && c.now.Sub(c.started) >= c.cfg.MaxDuration {
		c.stopWhy = "max_duration " + c.cfg.MaxDuration.String() + " is over"
	}
	c.giveUpSilent()
	c.checkCrashes()
	c.plan()
	c.train()
	c.save()
	c.retire()
	c.charge()
	c.end()
}

// NextWake is when Step wants to be called again at the latest. It is always later than the last Step.
func (c *Controller) NextWake() time.Time {
	wake := c.now.Add(c.cfg.PlanEvery)
	by := func(t time.Time) {
		if t.After(c.now) && t.Before(wake) {
			wake = t
		}
	}
	by(c.nextPlan)
	if c.cfg.MaxDuration > 0 {
		by(c.started.Add(c.cfg.MaxDuration))
	}
	if c.attempt != nil && !c.attempt.saving {
		by(c.attempt.saveAt)
	}
	for _, m := range c.roster {
		switch {
		case m.charged:
		case m.ended:
			by(m.endedAt)
			if c.ending {
				by(c.awake.Due(m.sawEnd, c.chargeWait()))
				by(c.awake.NextBeat())
			}
		case !m.ready && !m.lost:
			by(c.awake.Due(m.heard, c.cfg.BootWithin))
			by(c.awake.NextBeat())
		}
	}
	return wake
}

// record writes a journal line, when somebody reads it.
func (c *Controller) record(entry func() journal.Entry) {
	if c.cfg.Silent {
		return
	}
	e := entry()
	e.T = c.now
	c.out = append(c.out, elasticity.Record{Entry: e})
}

// Totals tells what the run has come to so far.
func (c *Controller) Totals() elasticity.Totals {
	t := c.totals
	t.Clocks = c.saved
	return t
}

func (c *Controller) takePrice(e elasticity.PriceChanged) {
	h := c.prices[e.Pool]
	if h == nil {
		return
	}
	if last, ok := h.Last(); ok && !e.At.After(last.At) {
		return // told before
	}
	point := market.PricePoint{At: e.At, Price: e.Price}
	if err := h.Append(point); err != nil {
		return // it cannot be: it is later than the last
	}
	c.recordPrice(e.Pool, point)
	c.wantPlan = true
}

func (c *Controller) takeCapacity(e elasticity.CapacityChanged) {
	for i := range c.cfg.Pools {
		p := &c.cfg.Pools[i]
		if p.Pool != e.Pool || p.Availability == nil {
			continue
		}
		if p.Availability.Tell(market.AvailabilityPoint{At: e.At, Count: e.Count}) == nil {
			delete(c.deferred, e.Pool) // what it had refused is out of date
			c.wantPlan = true
		}
	}
}

func (c *Controller) recordPrice(pool market.Pool, p market.PricePoint) {
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Price, Pool: pool.String(), USD: p.Price.String(), At: &p.At}
	})
}

func (c *Controller) takeStop(e elasticity.StopWanted) {
	c.stopWhy = cmp.Or(c.stopWhy, e.Why)
	if e.Now && !c.ending {
		c.outcome = "interrupted"
		c.endAll(e.Why)
	}
}

// takeBudget: without a reliable tier nothing can be kept that trains on, so a pause is an end in order.
func (c *Controller) takeBudget(e elasticity.BudgetSpoke) {
	if e.Do == elasticity.BudgetWarns {
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Budget, To: journal.Warned, USD: e.USD.String(), Why: e.Why}
		})
	}
	if e.Do == elasticity.BudgetPauses {
		c.stopWhy = cmp.Or(c.stopWhy, e.Why)
	}
}

// endAll terminates every machine. The run finishes when the provider says that all are gone.
func (c *Controller) endAll(why string) {
	c.ending, c.attempt = true, nil
	for _, m := range c.roster {
		c.terminate(m, why)
	}
}

// end finishes once every machine is gone and no launch is unanswered.
func (c *Controller) end() {
	if c.stopWhy != "" && c.attempt == nil && !c.ending {
		c.outcome = "interrupted"
		c.endAll(c.stopWhy)
	}
	if !c.ending || len(c.launches) > 0 {
		return
	}
	for _, m := range c.roster {
		if !m.ended || !m.charged && !c.awake.Over(m.sawEnd, c.chargeWait()) {
			return
		}
	}
	c.finished = true
	for _, m := range c.roster {
		if !m.charged {
			c.record(func() journal.Entry {
				return fleet.UnknownCharge(string(m.id), m.pool, m.launched, m.endedAt, fleet.ErrNoPrices)
			})
		}
	}
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Done, Outcome: c.outcome, Clock: int64(c.saved), Why: cmp.Or(c.stopWhy, c.enough), Log: c.crashLog}
	})
	c.out = append(c.out, elasticity.Finish{Outcome: c.outcome})
}

// chargeWait is how long the end of the run waits for the prices of a machine's bill.
func (c *Controller) chargeWait() time.Duration {
	return fleet.ChargeWait(c.cfg.Settings)
}

func (c *Controller) terminate(m *machine, why string) {
	if m.terminating || m.ended {
		return
	}
	m.terminating, m.why, m.terminated = true, why, c.now
	c.out = append(c.out, elasticity.Terminate{IDs: []provisioner.InstanceID{provisioner.InstanceID(m.id)}, Why: why})
}
