// Package sim simulates runs: the same elasticity.Controller, policies and ledger as on clouds and laptops, driven by a
// queue of events in market time, with simulated machines whose durations come from rates. It answers "what would this
// job have cost" in milliseconds, and the same inputs give the same journal, byte for byte.
//
// It knows how a provider sells and reclaims machines, and how long work takes. It knows nothing about what is trained,
// the origin of prices and the use of the results; sim/sweep runs many starts.
package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Config is one run to simulate.
type Config struct {
	Name  string
	Seed  uint64 // for random choices: the targets of faults
	Start time.Time
	Job   Workload
	// Programs has the job run the user's own programs, which share Job's work evenly; nil = it trains.
	Programs *Programs

	Policy   bidding.Policy
	Rules    market.RuleBook
	Want     bidding.Want
	Pools    []bidding.Candidate // sorted by pool, spot and on-demand; with all prices, including future ones
	Capacity map[market.Pool]int // the most machines of a pool; no entry = no limit
	// Allocation is how the provider chooses among the pools of a purchase; empty = each purchase is in one pool.
	Allocation provisioner.Allocation
	Reliable   elasticity.Reliable
	// Equivalent is the on-demand fleet that the ledger compares with; none if its Count is 0.
	Equivalent elasticity.Reliable
	Stages     tiers.Thresholds

	FLOPSPerVCPU float64 // floating-point operations per wall-clock second
	Timing       Timing
	Settings     tempo.Settings // of the controller
	Faults       []Fault
	// Hazard has the evictions that prices do not show; nil = none. A replayed run has its own.
	Hazard *hazard.Hazard
	// Recording replays a real run: nil = everything is simulated.
	Recording  *Recording
	Deadline   time.Time  // for the policy; zero = none
	Budget     market.USD // the run ends cleanly before its cost exceeds this; 0 = none
	Overspends bool       // Budget only informs the policy
	PerHour    market.USD // limit for the hourly cost of all machines; 0 = no limit
	// ValueOfTime is the value of an hour to the policy; see bidding.Job.
	ValueOfTime market.USD
	// Checkpoints is their cost, for jobs without reliable machines.
	Checkpoints Checkpoints
	// Continuous saving loses nothing and takes no time; for policies by restart. See restart.Config.
	Continuous bool
	// MaxDuration ends the run cleanly, Horizon abruptly; 0 = never.
	MaxDuration, Horizon time.Duration

	Observers
}

// Observers are called as the run proceeds; nil = no observer.
type Observers struct {
	// Record gets every journal entry, in order. If it is nil, no journal is written, and the run takes a
	// fraction of the time. The others see all events only if Record is set.
	Record func(journal.Entry)
	// Watch gets the events of each step and the controller's actions.
	Watch func(time.Time, []elasticity.Event, []elasticity.Action)
	// Worked gets each period in which machines worked, when it ends, even if the work was lost.
	Worked func(from, to time.Time)
}

// Workload is the amount and form of the work, without its content.
type Workload struct {
	Clocks     ps.Clock
	Splits     int
	Partitions int
	Work       float64 // of all clocks, in floating-point operations
	// Coarse clocks stand for many short ones each: work can change hands within them.
	Coarse bool
	// Standby: reliable machines hold splits only while no other machine can. Passes: a machine computes one of its
	// splits, and the others skip the clock: fewer machines do less work, and do not finish earlier. This applies to
	// replicas of one model.
	Standby, Passes bool
}

// Result is the outcome of a run.
type Result struct {
	Start     time.Time
	Outcome   string // "finished", "interrupted", "failed"
	Runtime   time.Duration
	Cost      market.USD
	Moved     market.USD // part of Cost: transfer of state from another region
	Machines  int        // machines bought
	Evictions int
	Switches  int
	Rollbacks int
	Lost      int64   // clocks that roll-backs undid
	Clocks    int64   // clocks done, each counted once
	Saved     float64 // for programs, the share of their work that is done and saved
	Bought    string  // kinds of machines, such as "c3.xlarge spot, t2.micro on-demand"
	Why       string  // why the run ended before its work was done and before the horizon; empty = it did not
}

// Finished reports whether all work was done.
func (r Result) Finished() bool { return r.Outcome == "finished" }

// world is a running simulation.
//
// Invariant: everything follows from Config alone. The queue has a total order (time, rank, order of scheduling),
// random numbers come from seeds, and no decision depends on map order.
//
// The loop of Run:
//  1. All events of an instant happen, those of a lower rank first: what prices do precedes the notices that follow from it, then losses,
//     arrivals and reports. What the controller is to hear of them gathers in news.
//  2. decide gives it all news of the instant in one step, as the real driver does with events that have come together. What its actions bring
//     about may happen at the same instant: then 1 and 2 are repeated.
//  3. settleInstant has the machines work on, once for all commands of the instant, and the time leaps to the next event.
//
// Nothing polls. Work appears as the events at which it ends; whatever changes rates meanwhile (a machine that dies, a
// split that moves) first brings it up to date. The controller is called at the time that it requests (NextWake), and
// not earlier.
type world struct {
	cfg     Config
	elapsed time.Duration // since the start
	rank    rank          // of the current event
	queue   queue
	random  *rand.Rand
	// history and availability contain the future: only the cloud uses them.
	history      map[market.Pool]*market.History
	availability map[market.Pool]*market.Availability
	ctrl         brain
	cloud        cloud
	staff        agents
	ledger       cost.Ledger
	news, told   []elasticity.Event // this instant's undecided events; told is kept to reuse its memory
	early        int                // number of leading events in news that precede machines' reports of the same instant
	result       Result
	err          error

	wake      time.Time     // when the controller asks to be called
	wakeAt    time.Duration // when that event is scheduled; 0 = none
	wakeUp    func()        // callController: a method that is passed on takes memory each time
	knownPast time.Duration // the last scheduled PricesKnown, at least 1
}

// endless is the period for which evictions are drawn if nothing bounds the run.
const endless = 100 * 24 * time.Hour

const horizonReached = "the horizon is reached"

// usualFleet is the initial capacity for machines.
const usualFleet = 64

// maxEvents stops a run that makes no progress: a mistake in here, or in the controller.
const maxEvents = 5_000_000

// Run simulates a run to its end.
func Run(cfg Config) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, fmt.Errorf("simulating %s: %w", cfg.Name, err)
	}
	w := &world{
		cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 1)),
		history: map[market.Pool]*market.History{}, availability: map[market.Pool]*market.Availability{},
		result: Result{Start: cfg.Start},
	}
	w.cloud = cloud{w: w, byID: make(map[instanceID]*machine, usualFleet)}
	if err := w.begin(); err != nil {
		return Result{}, fmt.Errorf("simulating %s from %s: %w", cfg.Name, cfg.Start.Format(time.RFC3339), err)
	}
	for n := 0; w.result.Outcome == "" && w.err == nil; n++ {
		if w.queue.empty() || w.queue.due() > w.elapsed {
			if len(w.news) > 0 {
				w.decide()
				continue // it may have scheduled something at once
			}
			w.staff.settleInstant()
		}
		if w.queue.empty() || n > maxEvents {
			w.err = fmt.Errorf("stuck after %d events, %s after its start, at clock %d", n, w.elapsed, w.result.Clocks)
			break
		}
		var e event
		w.elapsed, w.rank, e = w.queue.pop()
		e.happen()
	}
	if w.err == nil {
		w.sumUp()
	}
	if w.err != nil {
		return w.result, fmt.Errorf("simulating %s from %s: %w", cfg.Name, cfg.Start.Format(time.RFC3339), w.err)
	}
	return w.result, nil
}

func (c *Config) check() error {
	switch {
	case c.Policy == nil || c.Rules == nil:
		return errors.New("it needs a policy and a rule book")
	case c.Job.Clocks < 1 || c.Job.Splits < 1 || c.Job.Partitions < 1 || !(c.Job.Work > 0):
		return fmt.Errorf("a job of %d clocks, %d splits, %d partitions and %g operations has no work", c.Job.Clocks,
			c.Job.Splits, c.Job.Partitions, c.Job.Work)
	case !c.byRestart() && c.Reliable.Count < 1 && !c.Checkpoints.taken():
		return errors.New("without a reliable machine it needs checkpoints to go back to")
	case c.Reliable.Count > 0 && c.Reliable.Type.VCPU < 1:
		return errors.New("the vCPUs of its reliable machines are unknown")
	case !(c.FLOPSPerVCPU > 0) || !(c.Timing.Speed > 0) || c.Settings.Speed != c.Timing.Speed:
		return errors.New("it needs a compute rate and a speed above zero, the same in its timing and its settings")
	}
	return nil
}

// byRestart reports whether the run has no reliable tier.
func (c *Config) byRestart() bool {
	if c.Programs != nil {
		return true
	}
	_, ok := c.Policy.(bidding.ByRestart)
	return ok
}

// begin writes the journal's first lines and reports the initial facts.
func (w *world) begin() error {
	for _, p := range w.cfg.Pools {
		if p.Type.VCPU < 1 {
			return fmt.Errorf("the vCPUs of %s are unknown", p.Type.Name)
		}
		w.history[p.Pool], w.availability[p.Pool] = p.History, p.Availability
	}
	if w.cfg.Record != nil {
		if err := w.writeStart(); err != nil {
			return err
		}
	}
	w.ctrl, w.staff = newBrain(w)
	end := w.cfg.Start.Add(100 * 365 * 24 * time.Hour)
	for _, p := range w.cfg.Pools {
		w.cloud.followPrices(p.Pool, p.History.Points(w.cfg.Start, end))
		w.cloud.followAvailability(p.Pool, p.Availability.Points(w.cfg.Start, end))
	}
	for _, f := range w.cfg.faults() {
		w.after(f.At, losses, func() { w.cloud.fault(f) })
	}
	if w.cfg.Recording == nil {
		w.cloud.followHazard(w.cfg.Hazard.Events(w.cfg.Start, cmp.Or(w.cfg.Horizon, w.cfg.MaxDuration, endless)))
	}
	if w.cfg.Horizon > 0 {
		w.after(w.cfg.Horizon, wakeUps, func() { w.step(elasticity.StopWanted{Why: horizonReached, Now: true}) })
	}
	w.step(elasticity.Wake{})
	w.decide()
	return nil
}

func (w *world) now() time.Time { return w.cfg.Start.Add(w.elapsed) }

func (w *world) after(d time.Duration, r rank, do func()) { w.queue.push(w.elapsed+max(d, 0), r, do) }

// at schedules a call at a time, or now if that has passed.
func (w *world) at(t time.Time, r rank, do func()) { w.after(t.Sub(w.now()), r, do) }

// worked reports work that has ended.
func (w *world) worked(from, to time.Duration) {
	if w.cfg.Worked != nil && to > from {
		w.cfg.Worked(w.cfg.Start.Add(from), w.cfg.Start.Add(to))
	}
}

func (w *world) workPerSplit() float64 {
	return w.cfg.Job.Work / float64(w.cfg.Job.Clocks) / float64(w.cfg.Job.Splits)
}

// rate returns the work of a pool's machine per hour, in vCPU hours.
func (w *world) rate(p market.Pool) float64 {
	for i := range w.cfg.Pools {
		if c := &w.cfg.Pools[i]; c.Pool == p {
			return c.Type.WorkRate()
		}
	}
	if p.Class == market.OnDemand {
		return w.cfg.Reliable.Type.WorkRate()
	}
	return 0
}

// step passes the controller an event, with all others of its instant: the loss of a thousand machines at once is one
// decision, as for a real controller (elasticity/runner).
func (w *world) step(e elasticity.Event) {
	if w.rank < reports {
		w.early = len(w.news) + 1
	}
	w.news = append(w.news, e)
}

// decide passes the instant's events to the controller, and carries out its actions.
func (w *world) decide() {
	events, early := w.news, w.early
	w.news, w.told, w.early = w.told[:0], events, 0
	if w.result.Outcome != "" || w.err != nil || len(events) == 0 {
		return
	}
	w.staff.deliverBefore(w.elapsed)
	events = slices.Insert(events, early, w.staff.deliverNow(w.elapsed)...)
	actions := w.ctrl.Step(w.now(), events...)
	if w.cfg.Watch != nil {
		w.cfg.Watch(w.now(), events, actions)
	}
	w.do(actions)
	w.staff.deliverAll()
	w.wake = w.ctrl.NextWake()
	w.scheduleWake()
}

func (w *world) do(actions []elasticity.Action) {
	for _, a := range actions {
		w.act(a)
	}
}

func (w *world) act(a elasticity.Action) {
	switch a := a.(type) {
	case elasticity.Record:
		w.record(a.Entry)
	case elasticity.Launch:
		if w.cloud.replay(a.Request) {
			return
		}
		w.after(w.cfg.Timing.Launch, arrivals, func() { w.cloud.launch(a.Request) })
	case elasticity.Terminate:
		w.after(w.cfg.Timing.Reply, losses, func() { w.cloud.terminate(a.IDs) })
	case elasticity.Finish:
		if w.result.Outcome = a.Outcome; a.Outcome != "finished" && a.Why != horizonReached {
			w.result.Why = a.Why
		}
	default:
		w.staff.do(a)
	}
}

// scheduleWake schedules the controller's next call. If a later step postpones it, the event finds that and waits
// again.
func (w *world) scheduleWake() {
	at := max(w.wake.Sub(w.cfg.Start), w.elapsed+1)
	if w.wakeAt > w.elapsed && w.wakeAt <= at {
		return
	}
	w.wakeAt = at
	if w.wakeUp == nil {
		w.wakeUp = w.callController
	}
	w.queue.push(at, wakeUps, w.wakeUp)
}

// callController is the controller's next call.
func (w *world) callController() {
	if w.wakeAt != w.elapsed {
		return // an earlier one has replaced it
	}
	w.wakeAt = 0
	w.decide() // a present event may postpone it
	if w.wake.After(w.now()) {
		w.scheduleWake()
		return
	}
	if w.staff.skipCuts() {
		w.wake = w.ctrl.NextWake()
		w.scheduleWake()
		return
	}
	w.step(elasticity.Wake{})
}

// pricesKnown reports when prices up to now are known: bills wait for that.
func (w *world) pricesKnown() {
	if w.knownPast == w.elapsed {
		return
	}
	w.knownPast = w.elapsed
	now := w.now()
	w.after(w.cfg.Timing.PriceLag, reports, func() { w.step(elasticity.PricesKnown{At: now}) })
}

// record keeps a journal line for the bill, and passes it on.
func (w *world) record(e journal.Entry) {
	if err := w.ledger.Add(e); err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("keeping the ledger: %w", err))
	}
	w.cfg.Record(e)
}

// sumUp fills in the result. If there is a journal, the bill is made from it, as in real runs.
func (w *world) sumUp() {
	t := w.ctrl.Totals()
	r := &w.result
	r.Runtime, r.Cost, r.Moved = w.elapsed, t.Charged, t.Moved
	r.Machines, r.Evictions, r.Switches, r.Rollbacks = t.Machines, t.Evictions, t.Switches, t.Rollbacks
	r.Lost, r.Clocks = int64(t.Lost), int64(t.Clocks)
	if c, ok := w.ctrl.(*restart.Controller); ok && w.cfg.Programs != nil {
		job := c.State().Job
		r.Saved = job.Saved / job.Work
	}
	r.Bought = w.cloud.kinds()
	if w.cfg.Record != nil {
		r.Cost, w.err = w.ledger.Spent(w.ledger.AsOf())
	}
}
