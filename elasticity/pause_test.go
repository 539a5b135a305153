package elasticity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// request makes a request with a new number.
func (w *world) request(e ScaleWanted) {
	if !w.absent {
		e.ID, e.By = uint64(len(w.scaled)+1), "a test"
		w.step(e)
	}
}

// atRest reports whether no transient machine is left and none works.
func (w *world) atRest() bool { return w.ctrl.atRest() && len(w.spot()) == 0 }

// A paused run gives up all its transient machines, does no clock until it is resumed, rolls nothing back, and computes the same model
// (finish). Its numbers apply again afterwards.
func TestPauseAndResume(t *testing.T) {
	stale := counting()
	stale.clocks = 120
	for _, s := range []shape{elastic(), stale} {
		for seed := range uint64(6) {
			stood, back := false, false
			w := newElastic(seed, s, func(w *world) {
				asked := w.now
				w.request(ScaleWanted{Pause: true})
				w.when(w.atRest, func() {
					if took := w.now.Sub(asked); took > 2*time.Second {
						t.Errorf("seed %d: it rests after %v", seed, took)
					}
					clock, cut := w.ctrl.training.Clocks.Done, w.ctrl.training.Cuts.Committed
					if cut != clock || !w.scaled[len(w.scaled)-1].Reached {
						t.Errorf("seed %d: it rests at clock %d, the cut is of %d; %+v", seed, clock, cut, w.scaled)
					}
					w.request(ScaleWanted{Workers: 1})
					if err := w.scaled[len(w.scaled)-1].Err; err == nil || !strings.Contains(err.Error(), "resume it first") {
						t.Errorf("seed %d: more workers in a pause: %v", seed, err)
					}
					w.after(5*time.Second, func() {
						stood = w.ctrl.training.Clocks.Done == clock && len(w.spot()) == 0
						w.request(ScaleWanted{Resume: true})
						w.when(func() bool { return w.scaled[len(w.scaled)-1].Reached }, func() { back = w.ctrl.Scale().Workers == 6 })
					})
				})
			})
			w.neverBack()
			finish(t, w, "finished")
			if !stood || !back {
				t.Errorf("seed %d: it stood still: %v, and came back: %v", seed, stood, back)
			}
		}
	}
}

// Pauses at random moments of a run with faults of all kinds, and sometimes a killed controller: promises are kept.
func TestPausesAtRandom(t *testing.T) {
	paused := 0
	first, seeds := setting("TIERML_FIRST", 0), setting("TIERML_SEEDS", 150)
	for seed := first; seed < first+seeds; seed++ {
		r := rand.New(rand.NewPCG(seed, 6))
		p := drawPlan(rand.New(rand.NewPCG(seed, 2)))
		for range 1 + r.IntN(2) {
			p = append(p, drawFault(r, kindOf("rest"), time.Duration(r.Int64N(int64(12*time.Second)))))
		}
		w := newWorld(seed, drawn(rand.New(rand.NewPCG(seed, 3))))
		w.play(p)
		err := w.run()
		if err == nil {
			err = w.check(p.outcomes()...)
		}
		if err != nil {
			t.Fatalf("seed %d: %v\nTIERML_TRACE=1 TIERML_SEED=%d TIERML_FAULTS='%s' go test ./elasticity -run TestRandomSchedules", seed, err, seed, p)
		}
		for _, e := range w.lines(journal.Scale) {
			if e.From == e.To && strings.Contains(e.To, "paused") {
				paused++
			}
		}
	}
	if paused < int(seeds)/3 {
		t.Errorf("only %d pauses were complete", paused)
	}
}

// A controller that takes over a paused run keeps it paused; a run that is stopped in a pause saves its model while paused.
func TestPauseOutlivesItsController(t *testing.T) {
	for seed := range uint64(6) {
		rested := false
		w := newElastic(seed, elastic(), func(w *world) {
			w.request(ScaleWanted{Pause: true})
			w.when(w.atRest, func() {
				w.killController(time.Second)
				w.after(6*time.Second, func() {
					clock := w.ctrl.training.Clocks.Done
					if !w.atRest() || !w.ctrl.Scale().Paused {
						t.Errorf("seed %d: another controller does not let it rest", seed)
					}
					w.after(2*time.Second, func() {
						rested = w.ctrl.training.Clocks.Done == clock
						w.step(StopWanted{Why: "a test"})
					})
				})
			})
		})
		w.neverBack()
		finish(t, w, "interrupted")
		if !rested || w.exported == 0 {
			t.Errorf("seed %d: it rests: %v, saved at clock %d", seed, rested, w.exported)
		}
	}
}

// A spending limit and a person pause for separate reasons: each ends only its own pause.
func TestPausedForTwoReasons(t *testing.T) {
	w := newElastic(3, elastic(), func(w *world) {
		w.request(ScaleWanted{Pause: true})
		w.when(w.atRest, func() {
			w.step(BudgetChanged{Do: BudgetPauses, Why: "too dear", USD: market.Dollar})
			w.request(ScaleWanted{Resume: true})
			clock := w.ctrl.training.Clocks.Done
			w.when(func() bool { return w.ctrl.training.Clocks.Done > clock+2 }, func() {
				if len(w.spot()) > 0 {
					t.Error("it is resumed, and too dear: the reliable machine trains alone")
				}
				w.step(BudgetChanged{Do: BudgetGoesOn, Why: "cheap again"})
			})
		})
	})
	w.neverBack()
	finish(t, w, "finished")
	if n := w.count(journal.Budget); n != 2 {
		t.Errorf("%d lines about the budget", n)
	}
}

// A scheduler resumes what a scheduler has paused, and a person what a person has, even after pausing it again; another controller knows
// whose pause it is, even from journals without the field.
func TestPauseIsLiftedByItsOwnKind(t *testing.T) {
	person, scheduler := ScaleWanted{By: "ann"}, ScaleWanted{By: "drf", Scheduled: true}
	ask := func(who ScaleWanted, pause bool) ScaleWanted {
		who.Pause, who.Resume = pause, !pause
		return who
	}
	for _, c := range []struct {
		asks    []ScaleWanted
		refused int // index of the refused request; -1 = none
		paused  bool
	}{
		{[]ScaleWanted{ask(scheduler, true), ask(scheduler, false)}, -1, false},
		{[]ScaleWanted{ask(scheduler, true), ask(person, false)}, 1, true},
		{[]ScaleWanted{ask(person, true), ask(scheduler, false)}, 1, true},
		{[]ScaleWanted{ask(person, true), ask(scheduler, true), ask(scheduler, false)}, 2, true},
		{[]ScaleWanted{ask(scheduler, true), ask(person, true), ask(person, false)}, -1, false},
		{[]ScaleWanted{ask(scheduler, false)}, -1, false}, // a repeated request changes nothing
	} {
		w := newElastic(2, elastic(), func(w *world) {
			for _, a := range c.asks {
				w.request(a)
			}
			if got := w.ctrl.Scale().Paused; got != c.paused {
				t.Errorf("%+v: paused is %v", c.asks, got)
			}
			past, err := ReadPast(w.entries)
			if err != nil {
				t.Fatal(err)
			}
			if next := targetOf(past.Target); next.paused != w.ctrl.target.paused || next.scheduled != w.ctrl.target.scheduled {
				t.Errorf("%+v: another controller goes on with %+v instead of %+v", c.asks, next, w.ctrl.target)
			}
			if c.paused {
				w.request(ask(person, true))
				w.request(ask(person, false))
			}
		})
		finish(t, w, "finished")
		for i, answer := range w.scaled {
			if i < len(c.asks) && (answer.Err != nil) != (i == c.refused) {
				t.Errorf("%+v: answer %d is %v", c.asks, i, answer.Err)
			}
		}
	}
	for former, scheduled := range map[string]bool{`{"paused":"scheduler drf: waits"}`: true, `{"paused":"ann"}`: false} {
		if d, err := (journal.Entry{Kind: journal.Scale, Details: []byte(former)}).ScaleDetails(); err != nil || targetOf(d).scheduled != scheduled {
			t.Errorf("a former journal's %s: by a scheduler is %v (%v)", former, d.Scheduled, err)
		}
	}
}

// A run of a job server has at most what its file allows, and what the scheduler grants: when a person resumes it, the scheduler decides
// the time. Once resumed it wants what was granted meanwhile.
func TestBoundsOfAJobServer(t *testing.T) {
	person, scheduler := ScaleWanted{By: "ann"}, ScaleWanted{By: "drf", Scheduled: true}
	with := func(e ScaleWanted, f func(*ScaleWanted)) ScaleWanted { f(&e); return e }
	for _, c := range []struct {
		granted int
		ask     ScaleWanted
		refused string
		workers int
	}{
		{-1, with(person, func(e *ScaleWanted) { e.Workers = 1 }), "more than the 6 workers of the job's file", 6},
		{-1, with(person, func(e *ScaleWanted) { e.Servers = 8 }), "more than the 6 workers of the job's file", 6},
		{-1, with(person, func(e *ScaleWanted) { e.Reliable = 1 }), "reliable machines are more than the", 6},
		{-1, with(person, func(e *ScaleWanted) { e.Workers = -2 }), "", 4},
		{4, with(person, func(e *ScaleWanted) { e.Workers = -1 }), "nobody else changes their number", 4},
		{4, with(person, func(e *ScaleWanted) { e.Reset = true }), "nobody else changes their number", 4},
		{4, with(scheduler, func(e *ScaleWanted) { e.Workers, e.Reset = 2, true }), "", 8},
	} {
		c.ask.ID = 1
		w := newElastic(2, elastic(), func(w *world) {
			w.ctrl.cfg.Bounds = &Bounds{c.granted}
			w.ctrl.takeGrant()
			next, err := w.ctrl.retarget(c.ask)
			if err == nil {
				err = w.ctrl.bounded(c.ask, next)
			}
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%+v: %v", c.ask, err)
			}
			if err == nil {
				w.ctrl.target = next
			}
			if got := w.ctrl.wanted().Machines; got != c.workers {
				t.Errorf("%+v: it wants %d", c.ask, got)
			}
			w.ctrl.target, w.ctrl.cfg.Bounds = target{}, nil
		})
		finish(t, w, "finished")
	}
	bounds := func(granted int, was target) target {
		c := &Controller{target: was, cfg: Config{Want: bidding.Want{Machines: 6}, Reliable: Reliable{Count: 1}, Bounds: &Bounds{granted}}}
		c.takeGrant()
		return c.target
	}
	for _, c := range []struct {
		granted   int
		was, want target
	}{
		{4, target{}, target{asked: true, want: bidding.Want{Machines: 4}}},
		{6, target{asked: true, want: bidding.Want{Machines: 9}, servers: 8}, target{want: bidding.Want{Machines: 6}}},
		{4, target{paused: "drf", scheduled: true}, target{asked: true, want: bidding.Want{Machines: 4}}},
		{4, target{paused: "ann"}, target{paused: "ann", asked: true, want: bidding.Want{Machines: 4}}},
		{0, target{}, target{paused: "the scheduler", scheduled: true}},
		{0, target{paused: "ann"}, target{paused: "ann"}},
		{-1, target{asked: true, want: bidding.Want{Machines: 9}}, target{asked: true, want: bidding.Want{Machines: 9}}},
	} {
		if got := bounds(c.granted, c.was); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%d after %+v: %+v", c.granted, c.was, got)
		}
	}
}

// A reliable machine that is lost in a pause is replaced; work undone by the loss is repeated when the run continues.
func TestLossInAPause(t *testing.T) {
	for _, reliable := range []int{1, 2} {
		for seed := range uint64(4) {
			s := elastic()
			s.reliable, s.saveEvery = reliable, time.Second
			again := false
			w := newElastic(seed, s, func(w *world) {
				w.request(ScaleWanted{Pause: true})
				w.when(w.atRest, func() {
					w.kill(w.machinesOf(market.OnDemand)[0])
					w.after(200*time.Millisecond, func() {
						w.when(func() bool { return w.atRest() && w.ctrl.Scale().Reliable == reliable }, func() {
							again = true
							w.request(ScaleWanted{Resume: true})
						})
					})
				})
			})
			finish(t, w, "finished")
			if !again {
				t.Errorf("%d reliable, seed %d: it does not rest again", reliable, seed)
			}
		}
	}
}

// Impossible pauses are refused with the reason, and nothing happens.
func TestPauseRefuses(t *testing.T) {
	bare := elastic()
	bare.reliable, bare.saveEvery = 0, time.Second
	for _, c := range []struct {
		shape shape
		ask   ScaleWanted
		want  string
	}{
		{elastic(), ScaleWanted{Resume: true}, "the run is not paused"},
		{elastic(), ScaleWanted{Pause: true, Workers: 2}, "combined with other numbers"},
		{bare, ScaleWanted{Pause: true}, "nowhere to keep its state"},
	} {
		w := newElastic(1, c.shape, func(w *world) { w.request(c.ask) })
		finish(t, w, "finished")
		if len(w.scaled) != 1 || w.scaled[0].Err == nil || !strings.Contains(w.scaled[0].Err.Error(), c.want) {
			t.Errorf("%+v: %+v, want %q", c.ask, w.scaled, c.want)
		}
		if n := w.count(journal.Scale); n > 0 {
			t.Errorf("%+v: %d lines in the journal", c.ask, n)
		}
	}
}

// A pause copies only the cut: backups take over what transient machines served.
func TestPauseMovesNothing(t *testing.T) {
	moved := map[string]int{}
	w := newElastic(2, elastic(), func(w *world) {
		w.sent = nil
		w.request(ScaleWanted{Pause: true})
		w.when(w.atRest, func() {
			for _, s := range w.sent {
				switch s.Command.Do.(type) {
				case tiers.MoveOut, tiers.Promote:
					moved[fmt.Sprintf("%T", s.Command.Do)]++
				}
			}
			w.request(ScaleWanted{Resume: true})
		})
	})
	finish(t, w, "finished")
	if moved["tiers.MoveOut"] > 0 || moved["tiers.Promote"] != 1 {
		t.Errorf("%v", moved)
	}
}
