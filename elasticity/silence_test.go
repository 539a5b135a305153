package elasticity

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// time returns the time on the controller's clock.
func (w *world) time() time.Time { return w.now.Add(w.clock) }

// pause stops the controller for a time. Events wait for it. With cut, machines end streams that get no answer, and call again soon after
// its return.
func (w *world) pause(d time.Duration, cut bool) {
	if w.absent || w.stopped || w.outcome != "" {
		return
	}
	w.stopped = true
	life := w.life
	if cut {
		for _, n := range w.order {
			w.after(d/2, func() {
				if w.stopped && w.life == life {
					n.breakStream(d/2 + w.delay(1200*time.Millisecond))
				}
			})
		}
	}
	w.after(d, func() {
		if !w.stopped || w.life != life {
			return // it was killed
		}
		w.stopped, w.wakeAt = false, time.Time{}
		missed := w.missed
		w.missed = nil
		if w.rng.IntN(2) == 0 {
			missed = append([]Event{Wake{}}, missed...)
		}
		for _, e := range append(missed, Wake{}) {
			if w.life == life {
				w.step(e)
			}
		}
	})
}

// setClock sets the host's clock forward or back. A running controller does not notice, as its time continues by itself.
func (w *world) setClock(back bool, d time.Duration) {
	if back {
		d = -d
	}
	w.wall += d
}

// silenceMost cuts most machines off at once.
func (w *world) silenceMost(place float64, d time.Duration) {
	all := append(w.machinesOf(market.OnDemand), w.spot()...)
	for _, id := range all[:int((0.5+place/2)*float64(len(all)))] {
		w.nodes[id].fallSilent(d)
	}
}

// undisturbedBy fails if a machine is given up, bought or rolled back after a time.
func (w *world) undisturbedBy(at time.Duration) {
	w.onEntry = func(e journal.Entry) {
		if w.now.Sub(epoch) < at {
			return
		}
		switch e.Kind {
		case journal.Failed, journal.Intent, journal.Rollback:
			w.failf("nothing has happened but to the controller: %s\n%s", line(e), w.describe())
		}
	}
}

// A controller that is stopped for longer than machines may be silent finds all as they were: none is given up, and nothing is bought or
// repeated, whatever it looks at first.
func TestControllerThatWasStopped(t *testing.T) {
	for _, stopped := range []time.Duration{time.Second, 4 * time.Second, 12 * time.Second, 2 * time.Minute} {
		for _, cut := range []bool{false, true} {
			for seed := range uint64(8) {
				s := plain()
				s.clocks, s.transient = 100, []int{1, 4, 17}[seed%3]
				s.rough = seed%2 == 0
				w := newWorld(seed, s)
				at := 6*time.Second + w.delay(time.Second)
				w.after(at, func() {
					w.undisturbedBy(at)
					w.pause(stopped, cut)
				})
				err := w.run()
				if err == nil {
					err = w.check("finished")
				}
				if err != nil {
					t.Fatalf("stopped for %v, streams cut: %v, seed %d: %v", stopped, cut, seed, err)
				}
			}
		}
	}
}

// stopAgainAndAgain repeatedly stops the controller, for longer than it runs in between.
func (w *world) stopAgainAndAgain(times int) {
	for i := range times {
		w.after(6*time.Second+time.Duration(i)*2*time.Second, func() { w.pause(1100*time.Millisecond, false) })
	}
}

// Nor does it wait forever for most machines to return: only ten times as long as one may be silent.
func TestMostAreGoneAndControllerStopsAgainAndAgain(t *testing.T) {
	s := plain()
	s.saveEvery = time.Second
	w := newWorld(1, s)
	w.after(6*time.Second, func() { w.silenceMost(0.99, time.Hour) })
	w.stopAgainAndAgain(300)
	finish(t, w, "finished")
	if w.count(journal.Failed) == 0 {
		t.Error("nobody was given up")
	}
}

// A controller that is repeatedly stopped, for longer than it runs in between, still finds a machine that is silent.
func TestControllerThatIsStoppedAgainAndAgain(t *testing.T) {
	s := plain()
	s.clocks = 100
	w := newWorld(1, s)
	var silent ps.ServerID
	w.after(6*time.Second, func() {
		silent = w.spot()[3]
		w.nodes[silent].fallSilent(time.Hour)
	})
	w.stopAgainAndAgain(30)
	finish(t, w, "finished")
	if e := w.only(t, journal.Failed); e.Instance != string(silent) || e.T.Sub(epoch) > 40*time.Second {
		t.Error(line(e))
	}
}

// Most machines fall silent together: none is given up and nothing is bought until they report again.
func TestMostFallSilentTogether(t *testing.T) {
	for seed := range uint64(8) {
		s := plain()
		s.clocks, s.transient = 100, []int{2, 5, 17}[seed%3]
		w := newWorld(seed, s)
		w.after(6*time.Second, func() {
			w.undisturbedBy(6 * time.Second)
			w.silenceMost(0.99, 20*time.Second)
		})
		finish(t, w, "finished")
		lines := w.lines(journal.Silence)
		if len(lines) != 2 || lines[0].To != journal.Waiting || lines[1].To != journal.Heard {
			t.Errorf("seed %d: %+v", seed, lines)
		}
	}
}

// They never report again: after ten times as long as one may be silent they are given up, and the run continues with others.
func TestMostAreGoneInSilence(t *testing.T) {
	s := plain()
	s.saveEvery = time.Second
	w := newWorld(1, s)
	w.after(6*time.Second, func() { w.silenceMost(0.99, time.Hour) })
	finish(t, w, "finished")
	first := time.Duration(0)
	for _, e := range w.lines(journal.Failed) {
		if at := e.T.Sub(epoch); first == 0 || at < first {
			first = at
		}
	}
	if begun, over := 9*time.Second, 9*time.Second+training.OutageFor*s.deadAfter; first < over-time.Second || first > over+2*time.Second {
		t.Errorf("given up at %v: silent from %v on, want %v", first, begun, over)
	}
}

// The provider's word holds: machines that it has ended are gone, even while most are silent. So are those whose hosts end their streams.
func TestMostEndInSilence(t *testing.T) {
	for _, silent := range []bool{true, false} {
		s := plain()
		s.clocks = 100
		w := newWorld(1, s)
		w.after(6*time.Second, func() {
			if silent {
				for _, id := range w.spot() {
					w.nodes[id].fallSilent(time.Hour)
				}
			}
		})
		end := 7 * time.Second
		if silent {
			end = 10 * time.Second
		}
		w.after(end, func() {
			for _, id := range w.spot() {
				w.kill(id)
			}
		})
		finish(t, w, "finished")
		if back := w.only(t, journal.Rollback).T.Sub(epoch); back > end+2500*time.Millisecond {
			t.Errorf("silent first: %v: rolled back at %v, and they ended at %v", silent, back, end)
		}
		if outages := w.count(journal.Silence); (outages > 0) != silent {
			t.Errorf("silent first: %v: %d lines about it", silent, outages)
		}
	}
}

// The host's clock is changed by an hour, and another controller takes over: it knows all machines, gives up none, and finishes.
func TestClockSetBeforeATakeover(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(by, " ", seed), func(t *testing.T) {
				s := plain()
				s.clocks = 100
				w := newWorld(seed, s)
				w.after(6*time.Second, func() {
					w.setClock(false, by)
					w.undisturbedBy(6 * time.Second)
					w.killController(2 * time.Second)
				})
				finish(t, w, "finished")
			})
		}
	}
}
