package programs

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// Take processes an event.
func (w *Work) Take(e step.Event) {
	switch e := e.(type) {
	case elasticity.Listed:
		if w.listed.IsZero() {
			w.listed = w.Awake.Now()
		}
	case elasticity.Disconnected:
		if x := w.workers[e.ID]; x != nil && x.called && x.broken.IsZero() {
			x.broken = w.Awake.Now()
		}
	case elasticity.Reported:
		w.takeReport(e.ID, e.Report)
	}
}

func (w *Work) takeReport(id step.ID, report tiers.Report) {
	x := w.workers[id]
	if hello, calls := report.(tiers.Hello); calls {
		w.takeHello(id, x, hello)
		return
	}
	if x == nil || x.Lost {
		return
	}
	if w.takingOver && x.claim != 0 && ofProgram(report) {
		x.aside = append(x.aside, report)
		return
	}
	if !x.heard.IsZero() {
		x.heard = w.Awake.Now()
	}
	switch r := report.(type) {
	case tiers.Heartbeat:
		x.heard = w.Awake.Now()
	case tiers.Crashed:
		w.fleet.Crashed(x.Machine, "its agent ended by itself: "+r.Error, r.Log)
	case tiers.Answer:
		if r.Code != tiers.CodeOK {
			w.fleet.Crashed(x.Machine, "its agent could not start the program: "+r.Error, "")
		}
	case tiers.Warned:
		if !r.Rebalance {
			x.warned, x.deaf = true, time.Time{}
		}
		w.fleet.Warned(id, r.Deadline, r.Rebalance)
	case tiers.ProgramStarted:
		w.ofAttempt(x, r.Attempt, func(it *unit, rank *rank) { w.takeStarted(it, rank, r) })
	case tiers.ProgramAdvanced:
		w.ofAttempt(x, r.Attempt, func(it *unit, rank *rank) { w.takeAdvanced(it, rank, r) })
	case tiers.ProgramSaved:
		w.ofAttempt(x, r.Attempt, func(it *unit, rank *rank) { w.takeSaved(it, rank, r) })
	case tiers.ProgramSaveFailed:
		w.ofAttempt(x, r.Attempt, func(it *unit, rank *rank) { w.takeSaveFailed(it, rank, r) })
	case tiers.ProgramExited:
		quiet(w.items, x)
		w.ofAttempt(x, r.Attempt, func(it *unit, rank *rank) { w.takeExited(it, rank, r) })
	}
}

// ofProgram reports whether a report concerns a machine's program.
func ofProgram(r tiers.Report) bool {
	switch r.(type) {
	case tiers.ProgramStarted, tiers.ProgramAdvanced, tiers.ProgramSaved, tiers.ProgramSaveFailed, tiers.ProgramExited:
		return true
	}
	return false
}

// ofAttempt calls f with a machine's program if the report is about its present attempt. Reports of older attempts are fenced: they no
// longer describe the rank.
func (w *Work) ofAttempt(x *worker, attempt uint64, f func(*unit, *rank)) {
	if it := x.on; it != nil && it.attempt == attempt {
		f(it, it.rankOf(x))
	}
}

// takeHello handles an agent's call. An agent without a program that should have one has restarted.
func (w *Work) takeHello(id step.ID, x *worker, hello tiers.Hello) {
	if x == nil {
		w.early[id] = hello
		w.fleet.Called(id)
		return
	}
	if w.takingOver {
		w.attempt = max(w.attempt, x.claimed(hello)) // it is never reused, though the journal may not have it
	}
	x.address, x.broken = hello.Address, time.Time{}
	if !x.heard.IsZero() {
		x.heard = w.Awake.Now()
	}
	if !x.called {
		w.takeCall(x)
		return
	}
	if it := x.on; it != nil && hello.Incarnation == 0 {
		w.stop(it, journal.Lost, "the agent of machine "+string(id)+" began anew")
	}
}

// takeCall handles the call of an agent that has no state.
func (w *Work) takeCall(x *worker) {
	if x.called || !x.Staying() {
		return
	}
	x.called = true
	if !x.met {
		x.met = true
		w.fleet.Ready(x.Machine)
	}
}

// takeStarted handles a started rank. Work counts from when all ranks run.
func (w *Work) takeStarted(it *unit, r *rank, e tiers.ProgramStarted) {
	if !r.startedAt.IsZero() {
		return
	}
	r.startedAt = w.Now
	from := it.kept.ofRank(it.rankNumber(r))
	r.step = max(r.step, e.Step)
	r.resumed = e.Step
	it.prepared = max(it.prepared, w.cfg.Market(time.Duration((e.Fetch+e.Setup)*float64(time.Second))))
	w.Record(func() journal.Entry {
		details, _ := json.Marshal(journal.ProgramStartDetails{Fetch: e.Fetch, Setup: e.Setup, Restore: e.Restore, Settings: w.settings[it.number]}) // consists of numbers and strings
		return journal.Entry{Kind: journal.ProgramStart, OfProgram: journal.OfProgram{Program: r.key}, Instance: string(r.w.ID), Generation: it.attempt, Clock: e.Step,
			Bytes: e.Bytes, Model: from.manifest, Details: details, Why: step.Printable(e.Note)}
	})
	for ; it.started < len(it.ranks); it.started++ {
		if it.ranks[it.started].startedAt.IsZero() {
			return
		}
	}
	it.since, it.ready = w.Now, w.Now
	w.scheduleSave(it)
}

func (it *unit) rankNumber(of *rank) int {
	if w := of.w; w != nil && w.rank < len(it.ranks) && &it.ranks[w.rank] == of {
		return w.rank
	}
	for i := range it.ranks {
		if &it.ranks[i] == of {
			return i
		}
	}
	return 0
}

// takeAdvanced writes a line at intervals: programs may count thousands of steps a second. A program may continue from before its state's
// step, as it saves by itself at times, or has not read it.
func (w *Work) takeAdvanced(it *unit, r *rank, e tiers.ProgramAdvanced) {
	before := it.step()
	r.step = e.Step
	if e.HasLoss {
		r.loss = journal.Loss(e.Loss)
	}
	if w.takeFeedback(it, e) {
		return
	}
	if repeats(w, it, r, e.Step) {
		return
	}
	if w.tuned != nil {
		w.tuned.advance(it)
	}
	at := it.step()
	last := w.cfg.Of > 0 && at >= w.cfg.Of
	if at == before || !last && !it.lineAt.IsZero() && w.Now.Sub(it.lineAt) < w.cfg.StepEvery {
		return
	}
	it.lineAt = w.Now
	w.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.ProgramStep, OfProgram: journal.OfProgram{Program: r.key}, Generation: it.attempt, Clock: at, TrainLoss: r.loss, Redone: r.behind}
	})
}

// repeats compares an attempt's steps with the step of its initial state, and records if it began earlier, and when it reached that step
// again.
func repeats(w *Work, it *unit, r *rank, step int64) (written bool) {
	began := r.resumed > 0 && !r.behind && step < r.resumed
	again := r.behind && step >= r.resumed
	why := ""
	switch {
	case began:
		r.behind = true
		w.lost += r.resumed - step
		why = fmt.Sprintf("it began at step %d and not at %d, the step of its saved state: it has not read the state, or a file of it that is older; what lies between is done again", step, r.resumed)
	case r.behind && !again:
		return false
	default:
		r.resumed, r.behind = 0, false
	}
	if began || again {
		w.Record(func() journal.Entry {
			return journal.Entry{Kind: journal.ProgramStep, OfProgram: journal.OfProgram{Program: r.key}, Generation: it.attempt, Clock: step, TrainLoss: r.loss, Redone: began, Why: why}
		})
	}
	return began || again
}

func (w *Work) takeSaved(it *unit, r *rank, e tiers.ProgramSaved) {
	r.final = r.final || e.Final
	number := it.rankNumber(r)
	if it.kept.newest[number].manifest == e.Manifest {
		return // a repeated report
	}
	round := e.Round
	switch {
	case e.Final:
		round = last
	case len(it.ranks) == 1 || round == 0:
		round = 1
	}
	if len(it.ranks) > 1 && round < last {
		it.round = max(it.round, round)
	}
	r.step = max(r.step, e.Step)
	w.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.ProgramSaved, OfProgram: journal.OfProgram{Program: r.key, Digest: e.Digest, Round: round}, Instance: string(r.w.ID), Generation: it.attempt, Clock: e.Step,
			Model: e.Manifest, Bytes: e.Bytes, Seconds: e.Seconds}
	})
	if it.kept.keep(number, saved{e.Manifest, e.Digest, e.Step}, round) {
		it.ran, _ = it.worked(w.Now, w.cfg)
		it.whole, it.late, it.open = true, false, false
		if !it.since.IsZero() {
			it.since = w.Now
		}
		w.fleet.Progressed()
	}
}

// takeSaveFailed records it: the machine retries at its next interval, unless the program has ended.
func (w *Work) takeSaveFailed(it *unit, r *rank, e tiers.ProgramSaveFailed) {
	w.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.ProgramSaveFailed, OfProgram: journal.OfProgram{Program: r.key}, Instance: string(r.w.ID), Generation: it.attempt,
			Why: step.Printable(e.Error)}
	})
	if e.Final && !r.final {
		r.unsaved = e.Error
	}
}

func (w *Work) takeExited(it *unit, r *rank, e tiers.ProgramExited) {
	if r.exited {
		return
	}
	r.exited, r.asked, r.code, r.signal, r.phase, r.tail, r.note = true, e.Asked, e.Code, e.Signal, e.Phase, e.Tail, e.Note
	r.cpu, r.wait, r.memory = e.CPU, e.Wait, e.Memory
	switch {
	case r.well(w.cfg.State) || e.Asked || !it.winding.IsZero():
	case len(it.ranks) == 1 && !w.cfg.Elastic && e.Signal == "" && !r.w.Warned: // neither another machine nor a shutdown of this one can be the cause
		w.fail(it)
	case it.suspected.IsZero():
		it.suspected = w.Awake.Now()
	}
}
