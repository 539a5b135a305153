package elasticity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// elastic returns a world of stage 2 in which people change numbers: three servers, three more workers, one reliable machine.
func elastic() shape {
	s := six()
	s.partitions, s.splits, s.clocks = 12, 24, 95
	return s
}

// newElastic returns one whose policy holds as many machines as are wanted, and calls f when it has settled.
func newElastic(seed uint64, s shape, f func(w *world)) *world {
	w := newWorld(seed, s)
	w.policy.asked = true
	w.settled(func() { f(w) })
	return w
}

func (w *world) ask(workers, servers int) {
	w.step(ScaleWanted{ID: uint64(len(w.lines(journal.Scale)) + 1), Workers: workers, Servers: servers, By: "a test"})
}

// The four calls, one after the other, while training continues: every request is reached, no worker is parked, nothing is repeated, and
// the model is the undisturbed one, bit for bit (toy_test.go).
func TestTheFourCalls(t *testing.T) {
	for seed := range uint64(10) {
		var steps []string
		w := newElastic(seed, elastic(), func(w *world) {
			calls := []struct{ workers, servers int }{{4, 0}, {0, 2}, {-3, 0}, {0, -4}, {2, 1}}
			var next func()
			next = func() {
				if len(calls) == 0 {
					return
				}
				call, before := calls[0], len(w.scaled)
				calls = calls[1:]
				w.ask(call.workers, call.servers)
				w.when(func() bool { return len(w.scaled) > before+1 }, func() {
					s := w.scaled[len(w.scaled)-1]
					steps = append(steps, fmt.Sprintf("%d/%d", s.Scale.Workers, s.Scale.Servers))
					next()
				})
			}
			next()
		})
		w.neverBack()
		finish(t, w, "finished")
		if got, want := strings.Join(steps, " "), "10/5 10/7 7/7 7/3 9/4"; got != want {
			t.Fatalf("seed %d: workers/servers became %s, want %s\n%v", seed, got, want, w.scaled)
		}
		for _, s := range w.scaled {
			if s.Err != nil {
				t.Errorf("seed %d: %v", seed, s.Err)
			}
		}
		for i, e := range w.lines(journal.Scale) {
			if reached := i%2 == 1; reached != (e.From == e.To) || reached != (e.Seconds > 0) {
				t.Errorf("seed %d: line %d is %s from %q to %q after %g s", seed, i, line(e), e.From, e.To, e.Seconds)
			}
		}
		for _, s := range w.sent {
			if _, parks := s.Command.Do.(tiers.Park); parks && w.ctrl.training.Clocks.Done < ps.Clock(w.shape.clocks) {
				t.Fatalf("seed %d: %s was parked", seed, s.ID)
			}
		}
	}
}

// No worker waits for a change of scale: the clocks during one take no longer than the longest before it, within 100 ms.
func TestScalingBlocksNoWorker(t *testing.T) {
	for seed := range uint64(6) {
		var before, during float64
		scaling := false
		w := newElastic(seed, elastic(), func(w *world) {
			scaling = true
			w.ask(1, 1)
			w.when(func() bool { return len(w.scaled) == 2 }, func() {
				w.ask(-1, -1)
				w.when(func() bool { return len(w.scaled) == 4 }, func() { scaling = false })
			})
		})
		w.onEntry = func(e journal.Entry) {
			if e.Kind != journal.ClockDone || e.Clock < 3 {
				return
			}
			if scaling {
				during = max(during, e.Seconds)
			} else if during == 0 {
				before = max(before, e.Seconds)
			}
		}
		finish(t, w, "finished")
		if during == 0 || during > before+0.1 {
			t.Errorf("seed %d: the longest clock took %.3f s while the scale changed, %.3f s before", seed, during, before)
		}
	}
}

// Impossible requests are refused with figures, and nothing happens.
func TestScaleRefuses(t *testing.T) {
	for _, c := range []struct {
		workers, servers int
		want             string
	}{
		{0, 0, "nothing was asked for"},
		{-7, 0, "7 workers cannot be removed: 6 are wanted"},
		{0, 10, "13 servers are more than the 12 partitions"},
		{0, -3, "3 of 3 servers cannot be removed: the last one, a reliable machine if there is no other"},
		{-2, 2, "4 transient machines cannot be 5 servers"},
	} {
		w := newElastic(1, elastic(), func(w *world) { w.ask(c.workers, c.servers) })
		w.neverBack()
		finish(t, w, "finished")
		if len(w.scaled) != 1 || w.scaled[0].Err == nil || !strings.Contains(w.scaled[0].Err.Error(), c.want) {
			t.Errorf("%+d workers %+d servers: %+v, want %q", c.workers, c.servers, w.scaled, c.want)
		}
		if n := w.count(journal.Scale); n > 0 {
			t.Errorf("%+d workers %+d servers: %d lines in the journal", c.workers, c.servers, n)
		}
	}
	w := newWorld(1, elastic())
	w.step(Wake{})
	w.step(ScaleWanted{ID: 1, Workers: 1})
	if len(w.scaled) != 1 || w.scaled[0].Err == nil || !strings.Contains(w.scaled[0].Err.Error(), "still starting") {
		t.Errorf("before the job stands: %+v", w.scaled)
	}
}

// A request holds until it is changed: machines that the provider takes are replaced up to the requested number; the job's own numbers
// return on request.
func TestARequestHoldsUntilItIsChanged(t *testing.T) {
	for seed := range uint64(4) {
		s := elastic()
		var evicted, reset Scale
		w := newElastic(seed, s, func(w *world) {
			w.ask(-2, 0)
			w.when(func() bool { return w.grown(4) && len(w.scaled) == 2 }, func() {
				w.evict(3*time.Second, w.spot()[:2]...)
				w.after(200*time.Millisecond, func() {
					w.when(func() bool { return w.grown(4) && len(w.spot()) == 4 }, func() {
						evicted = w.ctrl.Scale()
						w.step(ScaleWanted{ID: 9, Reset: true})
						w.when(func() bool { return w.scaled[len(w.scaled)-1].Reached }, func() { reset = w.ctrl.Scale() })
					})
				})
			})
		})
		w.neverBack()
		finish(t, w, "finished")
		if evicted.Workers != 4 || evicted.Want.Machines != 4 {
			t.Errorf("seed %d: after an eviction %+v, want 4 as asked for", seed, evicted)
		}
		if reset.Workers != 6 || reset.Want != w.ctrl.cfg.Want {
			t.Errorf("seed %d: after the reset %+v, want the job's 6", seed, reset)
		}
	}
}

// Requesting the job's own numbers again ends the machines beyond them.
func TestResetEndsTheSurplus(t *testing.T) {
	for seed := range uint64(4) {
		var reset Scale
		w := newElastic(seed, elastic(), func(w *world) {
			w.ask(2, 0)
			w.when(func() bool { return w.grown(8) && len(w.scaled) == 2 }, func() {
				w.step(ScaleWanted{ID: 9, Reset: true})
				w.when(func() bool { return len(w.scaled) == 4 }, func() { reset = w.ctrl.Scale() })
			})
		})
		w.neverBack()
		finish(t, w, "finished")
		if reset.Workers != 6 || reset.Want != w.ctrl.cfg.Want {
			t.Errorf("seed %d: after the reset %+v, want the job's 6", seed, reset)
		}
	}
}

// A request that cannot be met before the run ends is answered with that.
func TestUnreachedRequestIsAnsweredAtTheEnd(t *testing.T) {
	w := newElastic(1, elastic(), func(w *world) {
		w.cloud.none = w.now.Add(time.Hour)
		w.ask(3, 0)
	})
	finish(t, w, "finished")
	if last := w.scaled[len(w.scaled)-1]; len(w.scaled) != 2 || last.Reached || last.Err == nil {
		t.Errorf("%+v", w.scaled)
	}
}

// Data that was there before is not sent again (the contract, Data and memory; EPS): splits that come back to a machine
// that had them are assigned without being loaded.
func TestInactiveSplitsAreNotLoadedAgain(t *testing.T) {
	for seed := range uint64(6) {
		type key struct {
			ps.ServerID
			ps.Split
		}
		loads, back := map[key]int{}, 0
		w := newElastic(seed, elastic(), func(w *world) {
			w.ask(3, 0) // three machines take splits from the six
			w.when(func() bool { return len(w.scaled) == 2 }, func() {
				w.ask(-3, 0) // and return them
			})
		})
		finish(t, w, "finished")
		for _, s := range w.sent {
			switch do := s.Command.Do.(type) {
			case tiers.Load:
				for _, split := range do.Splits {
					if loads[key{s.ID, split}]++; loads[key{s.ID, split}] > 1 {
						t.Fatalf("seed %d: split %d is loaded again by %s", seed, split, s.ID)
					}
				}
			case tiers.Assign:
				for _, at := range do.Splits {
					if at.Clock > 1 && loads[key{s.ID, at.Split}] == 1 {
						back++
					}
				}
			}
		}
		// The splits of the three that left are distributed among their previous holders: this loads hardly anything.
		last := w.lines(journal.Scale)[2]
		for _, e := range w.lines(journal.Scale)[3:] {
			if e.Clock < last.Clock {
				t.Errorf("%s", line(e))
			}
		}
		if back == 0 {
			t.Errorf("seed %d: no split came back", seed)
		}
	}
}

// The vCPUs that a job wants grow by whole machines of its most frequent type.
func TestScalingByVCPUs(t *testing.T) {
	w := newWorld(1, elastic())
	w.ctrl.configure(func(c *Config) { c.Want.Machines, c.Want.VCPU = 0, 24 })
	w.settled(func() { w.ask(2, 0) })
	finish(t, w, "finished")
	if got := w.scaled[0]; got.Err != nil || got.Scale.Want.VCPU != 32 || got.Scale.Want.Machines != 0 {
		t.Errorf("%+v", got)
	}
	if e := w.lines(journal.Scale)[0]; e.From != "24 vCPUs of workers, the stage's servers" || e.To != "32 vCPUs of workers, the stage's servers" {
		t.Errorf("from %q to %q", e.From, e.To)
	}
}
