package node

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node/link"
)

func all(splits ...ps.Split) []tiers.SplitAt {
	var out []tiers.SplitAt
	for _, s := range splits {
		out = append(out, tiers.SplitAt{Split: s, Clock: 1})
	}
	return out
}

func TestOneNodeTrainsAndStops(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 10)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		w.awaitClock(10)
		w.do("i-1", tiers.Stop{Why: "done"})
		<-m.ended
		if m.outcome != nil {
			t.Errorf("a node that was told to stop gave %v", m.outcome)
		}
		w.sameAsUndisturbed(10)
	})
}

// Held-out examples are evaluated every EvalEvery clocks and at the last one.
func TestEvaluationFollowsTheWelcome(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 10)
		w.do("i-1", tiers.Load{Splits: []ps.Split{0, 1, 2, 3, 4, 5}}) // so that all begin together
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		w.awaitClock(10)
		var measured []ps.Clock
		for _, r := range w.said() {
			if p, ok := r.Report.(tiers.Progress); ok && p.Splits[0].TestCount > 0 {
				measured = append(measured, p.Clock)
			}
		}
		if want := []ps.Clock{4, 8, 10}; !slices.Equal(measured, want) {
			t.Errorf("measured at clocks %v; want %v", measured, want)
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// Splits change hands while both nodes train: no clock of a split is lost or repeated.
func TestSplitsChangeHands(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		const until = 60
		first, second := w.join("i-1", 1, until), w.join("i-2", 2, until)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		ids := []ps.ServerID{"i-1", "i-2"}
		for turn := range 12 {
			w.awaitClock(ps.Clock(1 + 4*turn))
			giver, taker := ids[turn%2], ids[1-turn%2]
			moving := []ps.Split{ps.Split(turn % 6), ps.Split((turn + 3) % 6)}
			released := w.do(giver, tiers.Release{Splits: moving}).(tiers.Released)
			if len(released.Splits) > 0 {
				w.do(taker, tiers.Assign(released))
			}
		}
		w.awaitClock(until)
		w.sameAsUndisturbed(until)
		for what, n := range w.parties.counted() {
			if n != 1 {
				t.Errorf("split@clock %s counted %d times", what, n)
			}
		}
		if n := len(w.parties.counted()); n != until*w.schema.Splits {
			t.Errorf("%d contributions of a split; want %d", n, until*w.schema.Splits)
		}
		if err := errors.Join(first.end(), second.end()); err != nil {
			t.Error(err)
		}
	})
}

// Data that was there before is not read again (the contract, Data and memory): splits that move back and forth are read once by each
// machine that works on them.
func TestReturningSplitsAreNotReread(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		first, second := w.join("i-1", 1, 40), w.join("i-2", 2, 40)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		moving := []ps.Split{0, 3}
		w.do("i-2", tiers.Load{Splits: moving})
		once, twice := first.bytesRead.Load(), second.bytesRead.Load()
		if once == 0 || twice == 0 || twice >= once {
			t.Fatalf("%d bytes of six splits, %d of two", once, twice)
		}
		ids := []ps.ServerID{"i-1", "i-2"}
		for turn := range 6 {
			w.awaitClock(ps.Clock(1 + 4*turn))
			released := w.do(ids[turn%2], tiers.Release{Splits: moving}).(tiers.Released)
			w.do(ids[1-turn%2], tiers.Assign(released))
		}
		w.awaitClock(40)
		if a, b := first.bytesRead.Load(), second.bytesRead.Load(); a != once || b != twice {
			t.Errorf("%d and %d bytes were read, %d and %d more than when the splits came first", a, b, a-once, b-twice)
		}
		w.sameAsUndisturbed(40)
		if err := errors.Join(first.end(), second.end()); err != nil {
			t.Error(err)
		}
	})
}

// The others wait for a split that lags behind. Its new owner must work on it although it waits itself.
func TestTakingOverAnOldSplitDoesNotLockUp(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 5)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4)})
		w.awaitReport("i-1", func(r tiers.Report) bool { p, ok := r.(tiers.Progress); return ok && p.Clock == 1 })
		synctest.Wait() // now it waits to begin clock 2, because of split 5
		w.do("i-1", tiers.Assign{Splits: all(5)})
		w.awaitClock(5)
		w.sameAsUndisturbed(5)
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// A split that waits to begin has not begun: it is given away at once, at the clock that it waits for.
func TestReleaseDoesNotWaitForWhatHasNotBegun(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 5)
		w.do("i-1", tiers.Assign{Splits: all(0, 1)})
		w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Progress); return ok })
		synctest.Wait()
		got := w.do("i-1", tiers.Release{Splits: []ps.Split{1, 4}}).(tiers.Released)
		if want := []tiers.SplitAt{{Split: 1, Clock: 2}}; !slices.Equal(got.Splits, want) {
			t.Errorf("released %v; want %v, and nothing of a split that it does not have", got.Splits, want)
		}
		if parked := w.do("i-1", tiers.Park{}).(tiers.Parked); parked.Begun != 1 {
			t.Errorf("parked with clock %d begun; want 1, since 2 waits for other splits", parked.Begun)
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// A clock that has begun is committed before its split is given away, and the answer comes after the progress.
func TestReleaseWaitsForWhatHasBegun(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		w.schema.Splits = 1
		w.parties = newDataPlane(&w.schema)
		m := w.start("i-1", func(m *machine) { m.flops = testWork / 10 }) // 10 s each clock
		w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok })
		w.do("i-1", w.welcome(1, 5))
		w.do("i-1", tiers.Assign{Splits: all(0)})
		time.Sleep(15 * time.Second)
		asked := time.Now()
		got := w.do("i-1", tiers.Release{Splits: []ps.Split{0}}).(tiers.Released)
		if want := []tiers.SplitAt{{Split: 0, Clock: 3}}; !slices.Equal(got.Splits, want) {
			t.Errorf("released %v; want %v", got.Splits, want)
		}
		if waited := time.Since(asked); waited < 4*time.Second || waited > 6*time.Second {
			t.Errorf("answered after %v; the clock under way ended after 5 s", waited)
		}
		if n := w.parties.counted()["0@2"]; n != 1 {
			t.Errorf("clock 2 counted %d times when its split was given away", n)
		}
		time.Sleep(time.Minute)
		if n := w.parties.counted()["0@3"]; n != 0 {
			t.Error("worked on after giving its last split away")
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestParkAndUnpark(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 1000000)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		w.awaitClock(5)
		parked := w.do("i-1", tiers.Park{}).(tiers.Parked)
		w.awaitClock(parked.Begun)
		time.Sleep(time.Minute)
		if folded := w.parties.folded(); folded != parked.Begun {
			t.Errorf("a minute after parking at clock %d, clock %d is done", parked.Begun, folded)
		}
		w.do("i-1", tiers.Unpark{Until: parked.Begun + 3})
		w.awaitClock(parked.Begun + 3)
		time.Sleep(time.Minute)
		if folded := w.parties.folded(); folded != parked.Begun+3 {
			t.Errorf("clock %d is done, beyond %d", folded, parked.Begun+3)
		}
		w.do("i-1", tiers.Unpark{Until: parked.Begun + 5})
		w.awaitClock(parked.Begun + 5)
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// After a roll-back all splits are at the clock after the cut, whichever machine had them before, and the model is the same.
func TestRecoverReturnsToTheCut(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		const until = 40
		first, second := w.join("i-1", 1, until), w.join("i-2", 2, until)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2)})
		w.do("i-2", tiers.Assign{Splits: all(3, 4, 5)})
		w.awaitClock(3)
		w.do("i-1", tiers.Park{})
		begun := w.do("i-2", tiers.Park{}).(tiers.Parked).Begun + 2
		w.do("i-1", tiers.NameCut{Cut: begun})
		w.do("i-1", tiers.Unpark{Until: until})
		w.do("i-2", tiers.Unpark{Until: until})
		w.awaitClock(begun + 4)
		w.do("i-1", tiers.CommitCut{Cut: begun})

		w.do("i-1", tiers.Park{}) // a roll-back ends it
		for _, id := range []ps.ServerID{"i-1", "i-2"} {
			w.do(id, tiers.FenceGeneration{Generation: 1})
		}
		w.do("i-1", tiers.Recover{Generation: 1, Cut: begun, Splits: []ps.Split{0, 5}})
		w.do("i-2", tiers.Recover{Generation: 1, Cut: begun, Splits: []ps.Split{1, 2, 3, 4}})
		w.awaitReport("i-2", func(r tiers.Report) bool {
			p, ok := r.(tiers.Progress)
			return ok && p.Generation == 1 && p.Clock == until
		})
		synctest.Wait()
		w.sameAsUndisturbed(until)
		if h := w.awaitReport("i-1", func(r tiers.Report) bool {
			h, ok := r.(tiers.Heartbeat)
			return ok && h.Generation == 1
		}).(tiers.Heartbeat); h.Owned == 0 || h.BytesIn != 5 {
			t.Error("a heartbeat without the server's and the client's figures")
		}
		if err := errors.Join(first.end(), second.end()); err != nil {
			t.Error(err)
		}
	})
}

// A machine that was welcomed before a roll-back, and took no part in it, works in the new generation.
func TestWelcomedBeforeARollBack(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		const until = 12
		first, late := w.join("i-1", 1, until), w.join("i-2", 2, until)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		w.awaitClock(2)
		w.do("i-1", tiers.FenceGeneration{Generation: 2})
		w.do("i-1", tiers.Recover{Generation: 2, Splits: []ps.Split{0, 1, 2, 3, 4, 5}})
		w.do("i-2", tiers.SetRoute{Generation: 2})
		w.do("i-2", tiers.Assign{Splits: w.do("i-1", tiers.Release{Splits: []ps.Split{3, 4, 5}}).(tiers.Released).Splits})
		w.awaitReport("i-2", func(r tiers.Report) bool {
			p, ok := r.(tiers.Progress)
			return ok && p.Generation == 2 && p.Clock == until
		})
		synctest.Wait()
		w.sameAsUndisturbed(until)
		if err := errors.Join(first.end(), late.end()); err != nil {
			t.Error(err)
		}
	})
}

// Fencing ends work in progress at once, and releases that wait for it are still answered.
func TestFencingAnswersWaitingReleases(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 5)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		synctest.Wait() // clock 1 is being computed
		asked := time.Now()
		release := w.order("i-1", tiers.Release{Splits: []ps.Split{0, 1, 2, 3, 4, 5}})
		w.do("i-1", tiers.FenceGeneration{Generation: 1})
		if a := w.answer("i-1", release); a.Code != tiers.CodeFailed || time.Since(asked) > 0 {
			t.Errorf("answered %+v after %v; want a failure at once", a, time.Since(asked))
		}
		w.do("i-1", tiers.Recover{Generation: 1, Splits: []ps.Split{0, 1, 2, 3, 4, 5}})
		w.awaitClock(5)
		w.sameAsUndisturbed(5)
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// A worker that was given up must not continue.
func TestAFencedProcessEnds(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 1000000)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		w.awaitClock(3)
		w.order("i-1", tiers.FenceWorker{Incarnation: 1})
		<-m.ended
		if !errors.Is(m.outcome, ErrFenced) {
			t.Errorf("a fenced process ended with %v", m.outcome)
		}
	})
}

// While its stream is broken a node trains on; afterwards the controller hears everything once and in order, and repeated commands are
// executed once.
func TestTrainingContinuesWithoutTheController(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		const until = 12
		m := w.join("i-1", 1, until)
		w.do("i-1", tiers.Load{Splits: []ps.Split{0, 1, 2, 3, 4, 5}}) // so that all begin together
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		w.awaitClock(2)
		m.cut(true)
		w.await(0, func(r link.FromNode) bool { return r.Disconnected != nil })
		duringTheBreak := w.order("i-1", tiers.Park{})
		time.Sleep(5 * time.Second)
		if folded := w.parties.folded(); folded < 6 {
			t.Errorf("after 5 s without a controller only clock %d is done", folded)
		}
		m.cut(false)
		begun := w.answer("i-1", duringTheBreak).Result.(tiers.Parked).Begun
		if err := w.link.Send("i-1", tiers.Command{ID: duringTheBreak, Do: tiers.Park{}}); err != nil {
			t.Fatal(err)
		}
		w.do("i-1", tiers.Unpark{Until: until})
		w.awaitClock(until)

		var clocks []ps.Clock
		answers := 0
		for _, r := range w.said() {
			switch r := r.Report.(type) {
			case tiers.Progress:
				clocks = append(clocks, r.Clock)
			case tiers.Answer:
				if r.ID == duringTheBreak {
					answers++
				}
			}
		}
		if len(clocks) != until || !slices.IsSorted(clocks) {
			t.Errorf("heard of clocks %v; want 1 to %d, each once", clocks, until)
		}
		if answers != 1 || begun < 6 {
			t.Errorf("%d answers to a command that was sent twice, parked at %d", answers, begun)
		}
		w.sameAsUndisturbed(until)
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// A restarted controller knows nothing; the node tells it what it is, and answers only its commands.
func TestAnotherControllerTakesOver(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 7, 1000000)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		m.warn <- tiers.Warned{Deadline: time.Unix(5000, 0).UTC()}
		w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Warned); return ok })
		m.server.moving = make(chan struct{})
		move := w.order("i-1", tiers.MoveOut{Partition: 1, To: "i-2"})
		synctest.Wait()
		w.closeLink()
		close(m.server.moving) // its answer is for the old controller
		w.heard, w.lastID = nil, 0
		w.openLink()
		hello := w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok }).(tiers.Hello)
		if hello.Incarnation != 7 {
			t.Errorf("says hello as incarnation %d; want 7", hello.Incarnation)
		}
		w.do("i-1", w.welcome(7, 1000000))
		w.do("i-1", tiers.Park{})
		for _, r := range w.said() {
			if a, ok := r.Report.(tiers.Answer); ok && a.ID == move {
				t.Errorf("the new controller hears %+v, which it did not ask for", a)
			}
		}
		if got := w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Warned); return ok }).(tiers.Warned); got.Deadline.Unix() != 5000 {
			t.Errorf("warning %v", got)
		}
		if a := w.answer("i-1", w.order("i-1", w.welcome(8, 5))); a.Code != tiers.CodeFailed {
			t.Errorf("became another incarnation: %+v", a)
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnOrphanEnds(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 1000000)
		m.cut(true)
		lost := time.Now()
		<-m.ended
		if m.outcome != nil {
			t.Errorf("an orphan's end is clean, not %v", m.outcome)
		}
		if waited := time.Since(lost); waited < testOrphan || waited > testOrphan+2*time.Second {
			t.Errorf("ended after %v without a controller; want %v", waited, testOrphan)
		}
	})
}

func TestAnOrphanFromTheStartEnds(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		began := time.Now()
		m := w.start("i-1", func(m *machine) { m.broken = true })
		<-m.ended
		if waited := time.Since(began); m.outcome != nil || waited < firstOrphanAfter || waited > firstOrphanAfter+2*time.Second {
			t.Errorf("ended after %v with %v; want %v and nil", waited, m.outcome, firstOrphanAfter)
		}
	})
}

func TestARefusedNodeEnds(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.start("i-1", func(m *machine) { m.user.Token = "guessed" })
		<-m.ended
		if m.outcome == nil {
			t.Error("a node with a wrong token ended as if all were well")
		}
		if heard := w.said(); len(heard) > 0 {
			t.Errorf("a refused node was heard: %v", heard)
		}
	})
}

// A long move delays neither heartbeats nor later commands.
func TestLongCommandsHoldNothingUp(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 5)
		synctest.Wait()
		m.server.moving = make(chan struct{})
		move := w.order("i-1", tiers.MoveOut{Partition: 1, To: "i-2", Address: "127.0.0.1:1"})
		w.do("i-1", tiers.Load{Splits: []ps.Split{0, 1}})
		w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Heartbeat); return ok })
		close(m.server.moving)
		if a := w.answer("i-1", move); a.Code != tiers.CodeBusy {
			t.Errorf("the move was answered with %+v; want code %q", a, tiers.CodeBusy)
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// An error that other machines would also meet reaches the controller before the node ends.
func TestAnApplicationsErrorIsReported(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 5)
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, toyFailing)})
		failed := w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Failed); return ok }).(tiers.Failed)
		<-m.ended
		if m.outcome == nil || failed.Error != m.outcome.Error() {
			t.Errorf("reported %q and ended with %v", failed.Error, m.outcome)
		}
	})
}

func TestAnUnknownApplicationIsRefused(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.start("i-1")
		w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok })
		wrong := w.welcome(1, 5)
		wrong.App = "unknown"
		if a := w.answer("i-1", w.order("i-1", wrong)); a.Code != tiers.CodeFailed {
			t.Errorf("joined a job with an unknown application: %+v", a)
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}
