package programs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Work is the state of all programs of a run; it is a restart.Work.
//
// Invariants:
//   - Of each program one attempt counts. Its number is higher than that of any before, by all controllers, and reports of others are dropped
//     (ofAttempt): a machine that was given up may run on.
//   - Of each program at most one copy runs (alone): one that was given up counts until its machine is gone, or it must have ended by itself.
//   - A program begins from a state that all of its ranks saved in one round (savedStates), so that a gang stands at one step.
//
// The life of an attempt:
//  1. begin gives it to idle machines: a whole gang at once, or one for a task. start numbers it, and sends each rank the state to begin with.
//  2. save asks the ranks of a gang for a round now and then; single ranks save by themselves.
//  3. wind stops it cleanly when it is to go elsewhere or the run ends: each rank saves its last state. A machine with a notice does so by itself.
//  4. settle ends it when all ranks have ended well (done), when the last states are safe, or when SaveWithin has passed.
//  5. A machine that is lost ends it at once (Lose); what was done beyond the saved state is lost.
//
// An unrequested exit is judged late (judgeExits): a rank often fails because another's machine is gone, which is detected later. Only if
// no machine is to blame has the program itself failed, which Retries limits.
type Work struct {
	*step.Step
	cfg    *Config
	fleet  *fleet.Fleet
	demand *fleet.Demand

	workers map[step.ID]*worker
	roster  []*worker // machines that are not archived, in order of purchase
	joins   int

	items      []*unit
	settings   []map[string]string     // of programs: a sweep's trials have some; nil = none, or not drawn yet
	tuned      *tuned                  // nil = the program has no knobs
	compare    bool                    // trials have reached a rung, or their end
	attempt    uint64                  // so far, of all programs and controllers
	command    uint64                  // the last one's number
	early      map[step.ID]tiers.Hello // of agents whose launch is unanswered
	takingOver bool                    // from a previous controller: it is not known yet what its machines run
	listed     time.Time               // by Step.Awake, when the provider had listed them
	breaks     int                     // attempts that ended early
	lost       int64                   // steps lost by them
	shaken     time.Time               // by Step.Awake, when an elastic gang last lost a rank with its machine; zero = never
}

func newWork(cfg *Config, s *step.Step, f *fleet.Fleet, demand *fleet.Demand) *Work {
	w := &Work{Step: s, cfg: cfg, fleet: f, demand: demand, workers: map[step.ID]*worker{}, early: map[step.ID]tiers.Hello{},
		command: cfg.FirstID, takingOver: cfg.Past != nil && cfg.TakesOver}
	for i := range cfg.programs() {
		w.items = append(w.items, newItem(i, cfg))
	}
	w.settings = make([]map[string]string, len(w.items))
	if s := cfg.Sweep; s != nil {
		w.compare = true
		for i, settings := range s.Trials() {
			if s.Ready(i, 0) {
				w.settings[i] = settings
			}
		}
	}
	w.tuned = newTuned(w)
	if p := cfg.Past; p != nil {
		if w.tuned != nil {
			w.tuned.remember(p.Tuning)
		}
		w.attempt = p.Attempt
		for _, it := range w.items {
			w.recall(it, p.Programs[it.number])
		}
	}
	return w
}

// recall restores a program from an earlier controller's journal.
func (w *Work) recall(it *unit, was PastProgram) {
	it.over, it.ok, it.dropped = was.Finished || was.Dropped || was.Cancelled, was.Finished || was.Dropped, was.Dropped
	it.losses = was.Losses
	if w.cfg.apart() {
		it.ranks[0].loss = was.Last
	}
	if was.Settings != nil {
		w.settings[it.number] = was.Settings
	}
	if was.Cancelled {
		it.cancel = "before"
	}
	if n := len(was.Resume); n > 0 && n < len(it.ranks) { // a gang on fewer machines than its maximum
		it.resize(n, w.cfg)
		it.kept.set = make([]saved, n)
	}
	for i := range min(len(it.ranks), len(was.Resume)) {
		it.kept.set[i] = saved{was.Resume[i], was.Digests[i], was.Steps[i]}
	}
	it.kept.newest = slices.Clone(it.kept.set)
	if at := it.kept.step(); w.cfg.Of > 0 {
		it.ran = time.Duration(float64(w.cfg.Length) * float64(at) / float64(w.cfg.Of))
	}
}

// Begin adopts the previous controller's machines, and records what has ended with it.
func (w *Work) Begin() {
	for _, x := range w.roster {
		x.since = w.Awake.Now()
		w.joins = max(w.joins, x.Joined)
	}
	p := w.cfg.Past
	if p == nil {
		return
	}
	for _, it := range w.items { // the previous controller may have been killed while waiting for copies to end
		if w.Now.Sub(p.Programs[it.number].Lost) < w.cfg.Orphaned {
			it.orphaned(w, nil)
		}
	}
	if !w.takingOver {
		adoption{w}.forget(func(PastAttempt) bool { return true })
	}
}

// CutShort forgets running programs: all machines are being terminated, and save what they can.
func (w *Work) CutShort() {
	for _, it := range w.items {
		if it.running() {
			if it.winding.IsZero() {
				w.wind(it, "the run is over")
			}
			w.stop(it, journal.Lost, "the run is over")
		}
	}
}

// Busy reports whether a graceful end has to wait.
func (w *Work) Busy() bool {
	return w.takingOver || slices.ContainsFunc(w.items, (*unit).running)
}

// Clock returns 0: programs count in steps and tasks.
func (w *Work) Clock() ps.Clock { return 0 }

// Sum adds the completed work: finished tasks, or saved steps of the program.
func (w *Work) Sum(t *elasticity.Totals) {
	t.Rollbacks, t.Lost = w.breaks, clock(w.lost)
	if w.cfg.Tasks > 0 {
		t.Clocks = clock(int64(w.count(func(it *unit) bool { return it.over && it.ok })))
		return
	}
	for _, it := range w.items {
		t.Clocks = max(t.Clocks, clock(it.kept.step()))
		if it.ok && w.cfg.Of > 0 {
			t.Clocks = clock(w.cfg.Of)
		}
	}
}

func (w *Work) count(of func(*unit) bool) (n int) {
	for _, it := range w.items {
		if of(it) {
			n++
		}
	}
	return n
}

func (it *unit) unfinished() bool { return !it.over }

// Implementation of fleet.Work.

// Need returns what the work currently needs of its machines.
func (w *Work) Need() step.Need {
	return step.Need{Standing: !w.takingOver, Begun: true, TakingOver: w.takingOver, Done: !slices.ContainsFunc(w.items, (*unit).unfinished)}
}

// Progress returns how far the work has got, in millionths of programs.
func (w *Work) Progress() step.Progress {
	p := step.Progress{Whole: int64(len(w.items)) * whole}
	for _, it := range w.items {
		done, kept := it.parts(w.Now, w.cfg)
		p.Done, p.Saved = p.Done+done, p.Saved+kept
	}
	return p
}

// Enter adds a bought machine.
func (w *Work) Enter(m *step.Machine, _ step.Kind) {
	x := &worker{Machine: m, since: w.Awake.Now()}
	w.workers[m.ID] = x
	w.roster = append(w.roster, x)
}

// Entered handles an agent that called before its launch was answered.
func (w *Work) Entered(m *step.Machine) {
	x := w.workers[m.ID]
	hello := w.early[m.ID]
	delete(w.early, m.ID)
	w.takeHello(m.ID, x, hello)
}

// Warned handles a notice. The machine's own agent should also have received it, and ends its program gracefully. If its metadata service
// does not respond it has not, and the controller sends it the notice a little later.
func (w *Work) Warned(m *step.Machine) (due bool) {
	if x := w.workers[m.ID]; !x.warned {
		x.deaf = w.Awake.Now()
	}
	return true
}

// Lose removes a machine from the work; its program restarts elsewhere.
func (w *Work) Lose(m *step.Machine) {
	x := w.workers[m.ID]
	x.Lost = true
	if it := x.on; it != nil {
		w.leave(it, x)
	}
	w.fleet.Lost(m, x.met)
}

// leave ends an attempt that has lost a machine, unless the machine had finished its part.
func (w *Work) leave(it *unit, x *worker) {
	r := it.rankOf(x)
	if !r.exited {
		it.orphaned(w, x)
	}
	if r.exited && !it.winding.IsZero() {
		return // the others still finish
	}
	elastic{w}.shake()
	w.stop(it, journal.Lost, "machine "+string(x.ID)+" is gone")
}

// Rearrange changes nothing: programs stay where they are.
func (w *Work) Rearrange() {}

// Holds reports whether a departing machine is still running something, which is saved first.
func (w *Work) Holds(m *step.Machine) bool { return w.workers[m.ID].on != nil }

// Idle reports whether a machine has no work; a lost one has none.
func (w *Work) Idle(*step.Machine) bool { return true }

// Connected reports whether a machine's agent has been heard recently.
func (w *Work) Connected(m *step.Machine) bool {
	x := w.workers[m.ID]
	return x != nil && x.called && x.broken.IsZero() && !x.Lost
}

// Archive removes archived machines.
func (w *Work) Archive() {
	w.roster = slices.DeleteFunc(w.roster, func(x *worker) bool { return x.Archived })
}

// CheckSilence gives up machines that do not call, or have gone silent.
func (w *Work) CheckSilence() {
	for _, x := range w.roster {
		if x.Lost || x.Ended {
			continue
		}
		switch {
		case !x.called && w.Awake.Over(x.since, w.cfg.BootWithin):
			w.fleet.GiveUp(x.Machine, "its agent did not call")
		case !x.broken.IsZero() && w.Awake.Over(x.broken, w.cfg.BrokenAfter):
			w.fleet.GiveUp(x.Machine, "its agent's stream broke")
		case !x.heard.IsZero() && w.Awake.Over(x.heard, w.cfg.DeadAfter):
			w.fleet.GiveUp(x.Machine, fmt.Sprintf("no sign of life for %.3g s", w.Wall(w.cfg.DeadAfter)))
		}
	}
}

// NextDue calls by with each time at which something is due even without events.
func (w *Work) NextDue(by func(time.Time)) {
	due := func(since time.Time, d time.Duration) {
		if !since.IsZero() {
			by(w.Awake.Due(since, d))
			by(w.Awake.NextBeat())
		}
	}
	for _, x := range w.roster {
		switch {
		case x.Lost || x.Ended:
		case !x.called:
			due(x.since, w.cfg.BootWithin)
		default:
			due(x.broken, w.cfg.BrokenAfter)
			due(x.heard, w.cfg.DeadAfter)
			due(x.deaf, w.patience())
		}
	}
	if w.takingOver {
		due(w.listed, w.cfg.adoptWithin())
	}
	for _, it := range w.items {
		by(it.saveAt)
		for _, o := range it.orphans {
			due(o.since, w.cfg.Orphaned)
		}
		due(it.winding, w.cfg.SaveWithin)
		due(it.suspected, w.patience())
	}
}

// patience returns how long an exit waits for its cause: a lost machine is detected after its program has ended.
func (w *Work) patience() time.Duration { return max(w.cfg.Lag, w.cfg.BrokenAfter) }

// Advance does whatever the state now requires.
func (w *Work) Advance() {
	adoption{w}.takeOver()
	w.grow()
	w.save()
	w.stopInOrder()
	w.judgeExits()
	w.settle()
	w.cancelled()
	w.judgeTrials()
	w.finish()
	w.want()
	w.begin()
	elastic{w}.introduce()
}

// finish ends the run when all programs have ended.
func (w *Work) finish() {
	if w.Ending || w.takingOver || slices.ContainsFunc(w.items, (*unit).unfinished) {
		return
	}
	var bad []string
	for _, it := range w.items {
		if !it.ok && it.cancel == "" {
			bad = append(bad, it.ranks[0].key)
		}
	}
	if len(bad) > 0 {
		const most = 5
		names := strings.Join(bad[:min(len(bad), most)], ", ")
		if len(bad) > most {
			names += " and others"
		}
		w.Fail(fmt.Sprintf("%d of %d tasks failed: %s", len(bad), len(w.items), names))
		return
	}
	w.Outcome, w.Enough = journal.Finished, "the program is done"
	if w.cfg.Tasks > 0 {
		word := "tasks"
		if w.cfg.Sweep != nil {
			word = "trials"
		}
		w.Enough = fmt.Sprintf("all %d %s are done", w.cfg.Tasks, word)
		if gone := w.count(func(it *unit) bool { return it.cancel != "" && !it.ok }); gone > 0 {
			w.Enough = fmt.Sprintf("%d of %d %s are done, %d cancelled", w.cfg.Tasks-gone, w.cfg.Tasks, word, gone)
		}
		if dropped := w.count(func(it *unit) bool { return it.dropped }); dropped > 0 {
			w.Enough = fmt.Sprintf("%d of %d trials are done; %d were dropped after feedback", w.cfg.Tasks-dropped, w.cfg.Tasks, dropped)
		}
	}
	w.End("the run is over: " + w.Enough)
}

// want limits an array's demand to its tasks: surplus machines leave when they have none.
func (w *Work) want() {
	if !w.cfg.apart() || w.Closing() || w.takingOver {
		return
	}
	left := min(w.cfg.Count, w.count((*unit).unfinished))
	if w.demand.Workers.Machines != left {
		w.demand.Workers.Machines = left
		w.fleet.Replan()
	}
	surplus := -left
	for _, x := range w.roster {
		if x.Staying() {
			surplus++
		}
	}
	for _, x := range slices.Backward(w.roster) {
		if surplus > 0 && x.Staying() && x.on == nil {
			w.fleet.Terminate(x.Machine, "no task is left for it")
			w.fleet.View.Stale()
			surplus--
		}
	}
}

func (w *Work) send(x *worker, do tiers.Do) {
	w.command++
	w.Do(elasticity.Send{ID: x.ID, Command: tiers.Command{ID: w.command, Do: do}})
}
