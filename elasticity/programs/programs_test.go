package programs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/tiers"
)

var rates = []trials.Range{{Name: "RATE", Low: 1e-4, High: 1, Log: true}}

var kinds = map[string]programs.Config{
	"one":          {Count: 1, State: true},
	"gang":         {Count: 3, State: true, SaveEvery: 5 * time.Second},
	"tasks":        {Count: 3, Tasks: 7, State: true},
	"without":      {Count: 2, Tasks: 4},
	"tpe":          {Count: 2, Tasks: 7, State: true, Sweep: &trials.Sweep{TPE: true, Samples: 7, Ranges: rates}},
	"tpe sweep":    {Count: 3, Tasks: 9, State: true, Sweep: &trials.Sweep{TPE: true, Samples: 9, Ranges: rates, Rungs: []trials.Rung{{At: 10, Keep: 4}, {At: 20, Keep: 2}}}},
	"sweep":        {Count: 3, Tasks: 9, State: true, Sweep: &trials.Sweep{Samples: 9, Rungs: []trials.Rung{{At: 10, Keep: 4}, {At: 20, Keep: 2}}}},
	"gang without": {Count: 2},
	"elastic":      {Count: 3, State: true, Elastic: true},
}

// A program that is warned ends cleanly: the next machine continues at exactly that step. One whose machine is killed continues from the
// last saved state.
func TestOneProgram(t *testing.T) {
	w := newWorld(t, kinds["one"])
	w.seconds(12)
	first := w.running("rank-0")
	w.warn(first)
	w.seconds(1)
	w.end(first, market.ByProvider)
	second := w.running("rank-0")
	if second == nil || second == first || second.step < first.step || second.step > first.step+1 {
		t.Fatalf("it was at step %d when it was warned; then %+v", first.step, second)
	}
	for second.saveIn != 2 {
		w.seconds(1)
	}
	before := second.step
	w.end(second, market.ByProvider)
	w.seconds(1)
	third := w.running("rank-0")
	if third == nil || third.step > before || third.step < before-5 {
		t.Fatalf("killed at step %d, it goes on with %+v", before, third)
	}
	w.seconds(60)
	if got := w.ends("rank-0"); w.outcome != "finished" || !slices.Equal(got, []string{"stopped", "lost", "finished"}) {
		t.Errorf("%s: %v", w.outcome, got)
	}
	if totals := w.r.Totals(); totals.Clocks != of || totals.Rollbacks != 1 || totals.Lost == 0 {
		t.Errorf("%+v", totals)
	}
}

// A program that does not read its state starts over: one line says so, the steps count as lost, and another line says when it has caught
// up.
func TestProgramThatDoesNotReadItsState(t *testing.T) {
	w := newWorld(t, kinds["one"])
	w.seconds(12)
	first := w.running("rank-0")
	before := first.run.Attempt
	w.forgets = true
	w.warn(first)
	w.seconds(1)
	w.end(first, market.ByProvider)
	w.seconds(1)
	saved := w.store[w.running("rank-0").run.Resume]
	w.seconds(25)
	var began, back []journal.Entry
	for _, e := range w.lines(journal.ProgramStep) {
		if e.Generation == before {
			continue
		}
		if e.Why != "" {
			began = append(began, e)
		} else if !e.Redone {
			back = append(back, e)
		}
	}
	if len(began) != 1 || len(back) == 0 || back[0].Clock != saved || !strings.Contains(began[0].Why, fmt.Sprintf("it began at step 1 and not at %d", saved)) {
		t.Errorf("%+v, then %d lines", began, len(back))
	}
	if totals := w.r.Totals(); int64(totals.Lost) != saved-1 {
		t.Errorf("its state is of step %d, and %d steps are lost", saved, totals.Lost)
	}
}

// When a machine of a gang is warned the others are saved with it, so that all continue from the same step.
func TestGangIsSavedTogether(t *testing.T) {
	w := newWorld(t, kinds["gang"])
	w.seconds(13)
	gone := w.running("rank-1")
	w.warn(gone)
	w.seconds(2)
	w.end(gone, market.ByProvider)
	w.seconds(1)
	var steps []int64
	for _, key := range []string{"rank-0", "rank-1", "rank-2"} {
		m := w.running(key)
		if m == nil {
			t.Fatal(key + " does not run")
		}
		if m.run.Ranks != 3 || m.run.Master != string(w.running("rank-0").id)+":1" {
			t.Errorf("%+v", m.run)
		}
		steps = append(steps, w.store[m.run.Resume])
	}
	if slices.Max(steps)-slices.Min(steps) > 1 || slices.Min(steps) < gone.step-1 {
		t.Errorf("warned at step %d, they go on at %v", gone.step, steps)
	}
}

// A state that only some ranks have saved is useless: all return to the round before.
func TestRoundsAreComplete(t *testing.T) {
	w := newWorld(t, kinds["gang"])
	w.seconds(8) // a round
	one := w.running("rank-0")
	w.saves++
	w.store["half"] = one.step
	w.report(one, tiers.ProgramSaved{Attempt: one.run.Attempt, Manifest: "half", Step: one.step, Round: 99})
	w.end(w.running("rank-2"), market.ByProvider)
	w.seconds(1)
	if again := w.running("rank-0"); again == nil || again.run.Resume == "half" || again.run.Resume == "" {
		t.Errorf("%+v", again)
	}
}

// Ranks that cannot save at the same times get requests for one round until all have it; a rank that has it gets no more, as its store
// keeps two.
func TestRoundsMeet(t *testing.T) {
	w := newWorld(t, kinds["gang"])
	w.seconds(8) // a round
	for n := range 5 {
		for rank, away := range []bool{n%2 == 0, n%2 == 1, false} {
			w.running(fmt.Sprint("rank-", rank)).away = away
		}
		w.seconds(5)
	}
	saved := map[string][]uint64{}
	for _, e := range w.lines(journal.ProgramSaved) {
		of := append(saved[e.Program], e.Round)
		saved[e.Program] = of
		if n := len(of); n > 1 && of[n-1] != of[n-2]+1 {
			t.Errorf("%s saves rounds %v", e.Program, of)
		}
	}
	if len(saved["rank-2"]) < 3 || len(saved["rank-2"]) > len(saved["rank-0"])+1 || len(saved["rank-2"]) > len(saved["rank-1"])+1 {
		t.Errorf("rounds are %v", saved)
	}
}

// If two machines both believe that they are rank 0, the older one is ignored.
func TestOldAttemptIsFenced(t *testing.T) {
	w := newWorld(t, kinds["one"])
	w.seconds(8)
	zombie := w.running("rank-0")
	w.tell(elasticity.Disconnected{ID: zombie.id}) // and the provider does not know that it is gone
	w.now = w.now.Add(3 * time.Second)
	zombie.mute = true
	w.seconds(4)
	zombie.mute, zombie.dead = false, false
	lines := len(w.lines(journal.ProgramSaved))
	w.report(zombie, tiers.ProgramSaved{Attempt: zombie.run.Attempt, Manifest: "of the past", Step: 39})
	w.report(zombie, tiers.ProgramExited{Attempt: zombie.run.Attempt, Phase: "run"})
	if got := len(w.lines(journal.ProgramSaved)); got != lines {
		t.Error("its state was taken")
	}
	w.seconds(80)
	for _, e := range w.lines(journal.ProgramStart) {
		if e.Model == "of the past" {
			t.Error("a program went on from a fenced state")
		}
	}
	if w.outcome != "finished" {
		t.Errorf("the run is %q", w.outcome)
	}
}

func exits(code int, phase string) tiers.ProgramExited {
	return tiers.ProgramExited{Code: code, Phase: phase, Tail: "one\nit is broken"}
}

// A program's own failure is retried as often as the job says, on the same machine; an eviction does not count.
func TestRetries(t *testing.T) {
	cfg := kinds["one"]
	cfg.Retries = 2
	w := newWorld(t, cfg)
	fails := 0
	w.exit = func(run tiers.RunProgram, step int64) (tiers.ProgramExited, bool) {
		if step != 20 {
			return tiers.ProgramExited{}, false
		}
		fails++
		e := exits(7, "run")
		e.Attempt = run.Attempt
		return e, true
	}
	w.seconds(10)
	w.end(w.running("rank-0"), market.ByProvider)
	w.seconds(100)
	done := w.entries[len(w.entries)-1]
	if w.outcome != "failed" || fails != 3 || !strings.Contains(done.Why, "failed 3 times") || !strings.Contains(done.Why, "exit code 7: it is broken") {
		t.Errorf("%d failures: %+v", fails, done)
	}
	if len(w.order) != 2 {
		t.Errorf("%d machines were bought", len(w.order))
	}
}

// A setup that fails ends the run: it would fail on every machine.
func TestSetupFails(t *testing.T) {
	for _, name := range []string{"one", "tasks"} {
		w := newWorld(t, kinds[name])
		w.exit = func(run tiers.RunProgram, _ int64) (tiers.ProgramExited, bool) {
			e := exits(1, "setup")
			e.Attempt = run.Attempt
			return e, true
		}
		w.seconds(60)
		if done := w.entries[len(w.entries)-1]; w.outcome != "failed" || done.Why != "setup failed once: one / it is broken" || len(w.order) > 3 {
			t.Errorf("%d machines; %+v", len(w.order), done)
		}
	}
}

// A task that fails does not end the others; the run reports it at its end.
func TestOneTaskFails(t *testing.T) {
	w := newWorld(t, kinds["tasks"])
	w.exit = func(run tiers.RunProgram, step int64) (tiers.ProgramExited, bool) {
		e := exits(3, "run")
		e.Attempt = run.Attempt
		return e, run.Task == 2 && step == 5
	}
	w.seconds(400)
	if done := w.entries[len(w.entries)-1]; w.outcome != "failed" || done.Why != "1 of 7 tasks failed: task-2" || w.r.Totals().Clocks != 6 {
		t.Errorf("%+v", done)
	}
}

// A rank that breaks because another's machine is lost is no failure of the program, in whichever order the two are reported.
func TestExitWithALostMachine(t *testing.T) {
	w := newWorld(t, kinds["gang"])
	w.seconds(8)
	other, gone := w.running("rank-0"), w.running("rank-1")
	other.runs, gone.runs = false, false
	w.report(other, tiers.ProgramExited{Attempt: other.run.Attempt, Code: 1, Phase: "run"})
	w.seconds(1)
	w.end(gone, market.ByProvider)
	w.seconds(100)
	if got := w.ends("rank-0"); w.outcome != "finished" || slices.Contains(got, journal.Failure) {
		t.Errorf("%s: %v", w.outcome, got)
	}
}

// A clean stop saves running programs; the run continues from there.
func TestStopInOrder(t *testing.T) {
	for name, cfg := range kinds {
		w := newWorld(t, cfg)
		w.seconds(9)
		w.tell(elasticity.StopWanted{Why: "enough"})
		w.seconds(10)
		if w.outcome != "interrupted" {
			t.Errorf("%s: the run is %q", name, w.outcome)
		}
		past, err := programs.ReadPast(w.entries, cfg.Count, cfg.Count, cfg.Tasks, cfg.Elastic)
		if err != nil || len(past.Open) > 0 {
			t.Errorf("%s: %+v, %v", name, past, err)
		}
		if cfg.State && past.Programs[0].Steps[0] < 7 {
			t.Errorf("%s: it goes on from %+v", name, past.Programs[0])
		}
	}
}

// Machines beyond the number of remaining tasks are released.
func TestMachinesLeaveWithTheTasks(t *testing.T) {
	w := newWorld(t, programs.Config{Count: 3, Tasks: 4, State: true})
	w.seconds(43)
	alive := 0
	for _, m := range w.machines {
		if !m.dead {
			alive++
		}
	}
	if alive != 1 || w.running("task-3") == nil {
		t.Errorf("%d machines for the last task", alive)
	}
	w.seconds(60)
	if w.outcome != "finished" || len(w.order) != 3 {
		t.Errorf("%s with %d machines", w.outcome, len(w.order))
	}
}

// A gang with a range starts on the available machines, from its minimum on, and restarts on more when these come: from a complete state,
// and not before it has run ten times as long as it took to start. It continues with fewer when one is lost.
func TestGangGrowsAndShrinks(t *testing.T) {
	w := newWorldOf(t, programs.Config{Count: 4, Least: 2, State: true, SaveEvery: 5 * time.Second}, 1)
	w.seconds(8)
	if n := w.ranks(); n != 0 {
		t.Fatalf("%d ranks on one machine", n)
	}
	w.room = 3
	w.seconds(10)
	if n := w.ranks(); n != 3 {
		t.Fatalf("%d ranks on three machines", n)
	}
	before := w.running("rank-0").step
	w.room = 4
	w.seconds(14)
	four := w.running("rank-0")
	if n := w.ranks(); n != 4 || four.run.Ranks != 4 || four.step < before || w.running("rank-3").run.Resume != "" {
		t.Fatalf("%d ranks on four machines: %+v", n, four)
	}
	w.seconds(6) // a round of four
	w.room = 3
	w.end(w.running("rank-1"), market.ByProvider)
	w.seconds(8)
	three := w.running("rank-0")
	if n := w.ranks(); n != 3 || three.run.Ranks != 3 || three.run.Resume == "" {
		t.Fatalf("%d ranks when one of four is lost: %+v", n, three)
	}
	// A controller with only the journal knows how many there were.
	past, err := programs.ReadPast(w.entries, 2, 4, 0, false)
	if err != nil || len(past.Programs[0].Resume) < 3 || past.Programs[0].Steps[0] == 0 {
		t.Errorf("%+v, %v", past, err)
	}
	w.again()
	w.seconds(90)
	if w.outcome != "finished" || w.ranks() != 0 {
		t.Errorf("%s", w.outcome)
	}
	for _, e := range w.lines(journal.ProgramEnd) {
		if e.Outcome == journal.Stopped && strings.Contains(e.Why, "it continues with 4 machines instead of 3") {
			return
		}
	}
	t.Error("no line says why it started again")
}

// ranks returns the number of running ranks.
func (w *world) ranks() (n int) {
	for _, m := range w.machines {
		if m.runs && !m.dead {
			n++
		}
	}
	return n
}

// A task that a user cancels ends cleanly, running or not, and is not assigned again, even by later controllers; the others are done.
func TestCancel(t *testing.T) {
	w := newWorld(t, kinds["tasks"])
	cancel := func(task, refusal string) {
		t.Helper()
		w.answer = errors.New("no answer")
		w.tell(elasticity.ScaleWanted{ID: 1, Cancel: task, By: "ann"})
		if got := fmt.Sprint(w.answer); got != refusal {
			t.Errorf("%s: answered %s, want %s", task, got, refusal)
		}
	}
	const fine = "<nil>"
	w.seconds(9)
	at := w.running("task-1").step
	cancel("task-1", fine)
	cancel("task-1", fine) // already
	cancel("task-6", fine)
	cancel("task-99", "the run has no task-99: its tasks are 0 to 6")
	w.seconds(5)
	if got := w.ends("task-1"); !slices.Equal(got, []string{"stopped", "cancelled"}) {
		t.Errorf("task-1 has come to %v", got)
	}
	if saved := w.lines(journal.ProgramSaved); !slices.ContainsFunc(saved, func(e journal.Entry) bool { return e.Program == "task-1" && e.Clock >= at }) {
		t.Error("its state was not saved")
	}
	w.again() // the controller restarts
	w.seconds(60)
	cancel("task-0", "task-0 is done")
	w.seconds(200)
	if done := w.entries[len(w.entries)-1]; w.outcome != "finished" || done.Why != "5 of 7 tasks are done, 2 cancelled" {
		t.Errorf("%+v", done)
	}
	if got := w.ends("task-6"); !slices.Equal(got, []string{"cancelled"}) {
		t.Errorf("task-6 has come to %v", got)
	}
	w = newWorld(t, kinds["gang"])
	cancel("rank-1", "the run is one program and has no tasks; stop the run")
}

func (w *world) single() bool { return w.cfg.Tasks > 0 || w.cfg.Elastic || w.cfg.Count == 1 }

func (w *world) team(do tiers.RunProgram) string {
	if do.Tasks > 0 || do.Elastic {
		return do.Key
	}
	return "gang"
}
