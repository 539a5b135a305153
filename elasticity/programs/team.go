package programs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/tiers"
)

// begin assigns programs to machines.
func (w *Work) begin() {
	if w.Closing() || w.takingOver {
		return
	}
	if !w.cfg.apart() {
		w.beginGang()
		return
	}
	for _, x := range w.roster {
		if !x.idle() {
			continue
		}
		next := w.next()
		if next == nil {
			return
		}
		w.start(next, []*worker{x})
	}
}

// next returns the task to run next: of a sweep's trials with settings, one that has reached the fewest rungs, so that the others need not
// wait for its feedback.
func (w *Work) next() (next *unit) {
	for _, it := range w.items {
		if drawn := w.cfg.Sweep == nil || w.settings[it.number] != nil; drawn && it.waiting() && it.alone(w) && (next == nil || len(it.losses) < len(next.losses)) {
			next = it
		}
	}
	return next
}

// idle reports whether a machine can be assigned a program.
func (x *worker) idle() bool { return x.called && x.broken.IsZero() && x.on == nil && x.Staying() }

// beginGang starts the program when a whole fleet is ready.
func (w *Work) beginGang() {
	if !w.items[0].waiting() || !w.items[0].alone(w) || w.fleet.Awaiting() {
		return
	}
	var team []*worker
	for _, x := range w.roster {
		if !x.Staying() {
			continue
		}
		if !x.idle() {
			return // the others wait for it
		}
		team = append(team, x)
	}
	if len(team) >= w.cfg.least() {
		team = team[:min(len(team), w.cfg.Count)]
		w.items[0].resize(len(team), w.cfg)
		w.start(w.items[0], team)
	}
}

// worthGrowing is the minimum ratio of a gang's running time to the length of its last start before it restarts on more machines: so
// restarts take at most a tenth of its time, without an estimate of its remaining time.
const worthGrowing = 10

// grow restarts a gang on more machines, if there are some and a state of all ranks has just been saved.
func (w *Work) grow() {
	it := w.items[0]
	saved := it.whole
	it.whole = false
	if w.cfg.apart() || !saved || it.ready.IsZero() || !it.winding.IsZero() || len(it.ranks) >= w.cfg.Count || w.fleet.Awaiting() {
		return
	}
	more := 0
	for _, x := range w.roster {
		switch {
		case x.idle():
			more++
		case x.Staying() && x.on == nil:
			return // it is booting: all start together
		}
	}
	more = min(more, w.cfg.Count-len(it.ranks))
	start := it.ready.Sub(it.began)
	if more == 0 || w.Now.Sub(it.ready) < worthGrowing*start {
		return
	}
	if w.cfg.Length > 0 {
		now, then := float64(len(it.ranks)), float64(len(it.ranks)+more)
		if left := float64(max(w.cfg.Length-it.ran, 0)) * float64(w.cfg.Count); left/now-left/then <= float64(start) {
			return
		}
	}
	w.wind(it, fmt.Sprintf("it continues with %d machines instead of %d", len(it.ranks)+more, len(it.ranks)))
}

func (w *Work) start(it *unit, team []*worker) {
	w.attempt++
	it.attempt, it.began, it.started, it.open = w.attempt, w.Now, 0, false
	for i, x := range team {
		it.ranks[i] = rank{key: it.ranks[i].key, w: x, loss: it.ranks[i].loss}
		x.on, x.rank, x.heard = it, i, w.Awake.Now() // it sends heartbeats from now on
	}
	w.join(team)
	if w.tuned != nil {
		w.settings[it.number] = w.tuned.begin(len(team))
	}
	for i := range it.ranks {
		r := &it.ranks[i]
		do := tiers.RunProgram{
			Spec: w.cfg.Spec, Secrets: w.cfg.Secrets, Heartbeat: w.cfg.Heartbeat, OrphanAfter: w.cfg.OrphanAfter,
			Attempt: it.attempt, Key: r.key, Settings: w.settings[it.number], Resume: it.kept.ofRank(i).manifest, ResumeDigest: it.kept.ofRank(i).digest, Rank: i, Ranks: len(it.ranks), Master: team[0].address,
		}
		switch {
		case w.cfg.Tasks > 0:
			do.Task, do.Tasks = it.number, w.cfg.Tasks
		case w.cfg.Elastic:
			do.Rank, do.Ranks, do.Master, do.Elastic = it.number, w.cfg.Count, w.cfg.Master, true
			it.peers = elastic{w}.peersOf(it)
			do.Peers = it.peers
		}
		w.send(r.w, do)
	}
}

// join makes machines take part from their first program on.
func (w *Work) join(team []*worker) {
	fresh := slices.DeleteFunc(slices.Clone(team), func(x *worker) bool { return x.Joined > 0 })
	for _, x := range fresh {
		w.joins++
		x.Joined = w.joins
	}
	if len(fresh) > 0 {
		w.fleet.Reorder()
		w.fleet.View.Stale()
	}
	for _, x := range fresh {
		w.fleet.Joined(x.Machine, func() journal.Entry { return journal.Entry{Why: "it is given a program"} })
	}
}

// scheduleSave sets the next round of a gang.
func (w *Work) scheduleSave(it *unit) {
	if it.saveAt = (time.Time{}); w.cfg.State && w.cfg.SaveEvery > 0 && w.cfg.ranks() > 1 {
		it.saveAt = w.Now.Add(w.cfg.SaveEvery)
	}
}

// lateAfter is the number of intervals without a complete save after which it is reported, as for single programs (package program).
const lateAfter = 3

// overdue records once that a gang's rounds fail.
func (w *Work) overdue(it *unit) {
	if it.late || it.since.IsZero() || w.Now.Sub(it.since) <= lateAfter*w.cfg.SaveEvery {
		return
	}
	it.late = true
	r := it.unsaved()
	w.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.ProgramSaveFailed, OfProgram: journal.OfProgram{Program: r.key}, Instance: string(r.w.ID), Generation: it.attempt,
			Why: fmt.Sprintf("the newest save of all ranks is older than %d times state.every: this rank has not sent round %d", lateAfter, it.round)}
	})
}

// unsaved returns the first rank that has not saved the current round.
func (it *unit) unsaved() *rank {
	for i := range it.ranks {
		if it.kept.rounds[i] != it.round {
			return &it.ranks[i]
		}
	}
	return &it.ranks[0]
}

// save starts a round of saves of all ranks of a gang when one is due. A round that some have not saved is requested from them again:
// otherwise incomplete rounds would push the newest set out of the store, which keeps two states per rank.
func (w *Work) save() {
	for _, it := range w.items {
		if it.running() && !it.saveAt.IsZero() {
			w.overdue(it)
		}
		if !it.running() || !it.winding.IsZero() || it.saveAt.IsZero() || w.Now.Before(it.saveAt) {
			continue
		}
		if !it.open && (it.round == 0 || !slices.Contains(it.kept.rounds, it.round)) {
			it.round++
		}
		it.open = true
		for i := range it.ranks {
			if r := &it.ranks[i]; !r.exited && it.kept.rounds[i] != it.round {
				w.send(r.w, tiers.SaveProgram{Attempt: it.attempt, Round: it.round})
			}
		}
		w.scheduleSave(it)
	}
}

// stopInOrder gracefully stops programs that should move, or when the run should end: their state is saved, and they restart from it.
func (w *Work) stopInOrder() {
	for _, it := range w.items {
		if !it.running() || !it.winding.IsZero() {
			continue
		}
		switch {
		case w.Stop != "":
			w.wind(it, w.Stop)
		case it.some(func(x *worker) bool { return x.Leaving }):
			w.wind(it, "the policy moves the job")
		case it.some(func(x *worker) bool { return !x.deaf.IsZero() && w.Awake.Over(x.deaf, w.patience()) }):
			elastic{w}.shake()
			w.wind(it, goingAway)
		case it.asked():
			elastic{w}.shake()
			w.wind(it, goingAway)
		}
	}
}

// goingAway is the reason for most stops.
const goingAway = "one of its machines is about to be reclaimed"

// asked reports whether a rank has ended because of a notice.
func (it *unit) asked() bool {
	for i := range it.ranks {
		if it.ranks[i].exited && it.ranks[i].asked {
			return true
		}
	}
	return false
}

// wind begins to stop a program.
func (w *Work) wind(it *unit, why string) {
	it.winding, it.why = w.Awake.Now(), why
	for i := range it.ranks {
		if r := &it.ranks[i]; !r.exited {
			w.send(r.w, tiers.StopProgram{Attempt: it.attempt, Grace: w.cfg.Grace, Save: w.cfg.State})
		}
	}
}

// judgeExits decides what an unrequested exit means: if a machine of the program is going or gone that is the cause, otherwise it is the
// program's own failure.
func (w *Work) judgeExits() {
	for _, it := range w.items {
		if it.suspected.IsZero() || !it.running() {
			continue
		}
		going := it.some(func(x *worker) bool { return x.Warned || x.Lost || x.Ended || !x.broken.IsZero() })
		switch {
		case going && it.winding.IsZero():
			it.suspected = w.Awake.Now() // it ends with the machine
			elastic{w}.shake()
			w.wind(it, goingAway)
		case it.winding.IsZero() && (elastic{w}).wasShaken():
			w.wind(it, "it ended when another rank's machine went")
		case !going && w.Awake.Over(it.suspected, w.patience()):
			w.fail(it)
		}
	}
}

// settle ends attempts that have finished.
func (w *Work) settle() {
	for _, it := range w.items {
		if !it.running() {
			continue
		}
		all, well, safe := true, true, true
		for i := range it.ranks {
			r := &it.ranks[i]
			all, well = all && r.exited, well && r.well(w.cfg.State)
			safe = safe && r.exited && (r.final || !w.cfg.State)
		}
		switch {
		case well:
			w.done(it)
		case !it.winding.IsZero() && safe:
			w.stop(it, journal.Stopped, it.why)
		case !it.winding.IsZero() && (all || w.Awake.Over(it.winding, w.cfg.SaveWithin)):
			w.stop(it, journal.Lost, it.why)
		}
	}
}

// done handles a program that has succeeded.
func (w *Work) done(it *unit) {
	w.fleet.Progressed()
	for i := range it.ranks {
		r := &it.ranks[i]
		w.end(it, r, journal.Finished, "")
	}
	it.over, it.ok, w.compare = true, true, true
	w.free(it)
}

// fail handles a program that has failed by itself. It is retried as often as the job allows.
func (w *Work) fail(it *unit) {
	it.failures++
	bad := it.failed()
	why := bad.words()
	if bad.note != "" && bad.phase == phaseRun {
		why += " (" + step.Printable(bad.note) + ")"
	}
	again := it.failures <= w.cfg.Retries
	for i := range it.ranks {
		r := &it.ranks[i]
		switch {
		case r == bad:
			w.end(it, r, journal.Failure, why)
		case r.exited:
			w.end(it, r, journal.Lost, journal.FailedElsewhere)
		}
	}
	phase, said := bad.phase, bad.lastLines(1)
	if phase == phaseSetup {
		said = bad.lastLines(3)
	}
	if !again {
		it.over, w.compare = true, true
	}
	w.stop(it, journal.Lost, journal.FailedElsewhere)
	switch {
	case again:
	case phase == phaseSetup: // would fail on all machines
		w.Fail(fmt.Sprintf("setup failed %s: %s", times(it.failures), said))
	case w.cfg.Tasks == 0:
		w.Fail(fmt.Sprintf("the program failed %s; the last time %s: %s", times(it.failures), why, said))
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// lastLines returns the last meaningful lines of output, or else the reason.
func (r *rank) lastLines(most int) string {
	var lines []string
	for line := range strings.Lines(r.tail) {
		if line = strings.TrimSpace(line); line != "" && !noise().MatchString(line) {
			lines = append(lines, script().ReplaceAllString(line, "$1: line "))
		}
	}
	switch {
	case len(lines) > 0:
		return step.Printable(strings.Join(lines[max(0, len(lines)-most):], " / "))
	case r.note != "":
		return step.Printable(r.note)
	}
	return "it printed nothing"
}

// noise matches lines that installers print after the meaningful one: notices, warnings and hints of pip and npm, and rulers.
var noise = pattern.Of(`^(\[notice\]|WARNING: |hint: |note: This (is|error) |npm notice|╰─> See |[-=╰╭│─> ]*$)`)

// script matches how bash begins a message about one of a job's scripts: with the path of the attempt's copy.
var script = pattern.Of(`^/\S*/attempts/[^/\s]+/([a-z_]+): line `)

// failed returns the rank whose exit is the failure: the first that ended by itself.
func (it *unit) failed() *rank {
	for i := range it.ranks {
		if r := &it.ranks[i]; r.exited && (r.code != 0 || r.phase != phaseRun || r.unsaved != "") {
			return r
		}
	}
	return &it.ranks[0]
}

// words describes how a program ended.
func (r *rank) words() string {
	cure := ""
	if r.code == 127 { // a shell's
		cure = " (the machine lacks a command: install it in setup, or choose an image that has it)"
	}
	switch {
	case r.phase != phaseRun:
		return r.phase + " failed with exit code " + fmt.Sprint(r.code) + cure
	case r.unsaved != "":
		return "the last state of " + r.key + " could not be saved: " + step.Printable(r.unsaved)
	case r.signal != "":
		return fmt.Sprintf("%s was ended by %s (exit code %d)", r.key, r.signal, r.code)
	}
	return fmt.Sprintf("%s ended with exit code %d%s", r.key, r.code, cure)
}

// stop ends an attempt: work since the saved state is lost. Remaining machines are free for other programs.
func (w *Work) stop(it *unit, outcome, why string) {
	if outcome == journal.Lost {
		if w.tuned != nil && it.winding.IsZero() {
			w.tuned.changing = nil // the market contributes to its cost
		}
		w.breaks++
		if at, safe := it.step(), it.kept.step(); at > safe && !(elastic{w}).others(it) {
			w.lost += at - safe
		}
	}
	for i := range it.ranks {
		r := &it.ranks[i]
		if r.w == nil {
			continue // already recorded
		}
		if !r.exited && it.winding.IsZero() && !r.w.Lost && !r.w.Ended {
			w.send(r.w, tiers.StopProgram{Attempt: it.attempt, Grace: w.cfg.Grace})
			it.orphaned(w, r.w)
		}
		w.end(it, r, outcome, why)
	}
	w.free(it)
	w.fleet.Replan()
}

// end records the end of a rank's attempt.
func (w *Work) end(it *unit, r *rank, outcome, why string) {
	w.Record(func() journal.Entry {
		e := journal.Entry{Kind: journal.ProgramEnd, OfProgram: journal.OfProgram{Program: r.key}, Instance: string(r.w.ID), Generation: it.attempt, Outcome: outcome,
			Clock: r.step, TrainLoss: r.loss, Why: why}
		if r.exited {
			e.Code, e.CPU, e.Wait, e.Memory = r.code, r.cpu, r.wait, r.memory
		}
		if outcome == journal.Failure {
			e.Log = step.Printable(r.tail)
		}
		return e
	})
	r.w.on, r.w = nil, nil
}

// free returns a program to waiting, or leaves it ended.
func (w *Work) free(it *unit) {
	for i := range it.ranks {
		if x := it.ranks[i].w; x != nil {
			x.on = nil
		}
		it.ranks[i] = rank{key: it.ranks[i].key, loss: it.ranks[i].loss}
	}
	it.attempt = 0
	it.since, it.winding, it.suspected, it.lineAt, it.saveAt, it.why = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}, ""
	it.late = false
	it.began, it.ready, it.prepared, it.whole = time.Time{}, time.Time{}, 0, false
	it.kept.discardAttempt()
}
