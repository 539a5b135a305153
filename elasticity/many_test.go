package elasticity

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

const (
	// decidedWithin is the processor time within which a bulk eviction of a thousand is decided; no other step of the controller may take
	// longer.
	decidedWithin = 20 * time.Millisecond
	// slowerMachines is how many times longer it may take on processors that are slower than those of lab/bench/results.md, or shared.
	slowerMachines = 3
)

// The controller with a hundred agents, or with TIERML_MACHINES agents (`make -C lab many`), in one process: they join together, all
// transient ones are warned together and leave, and as many come back. No clock is repeated, joins, cuts and the flush are in time, and no
// step of the controller takes long.
func TestManyMachines(t *testing.T) {
	machines := 100
	if n, err := strconv.Atoi(os.Getenv("TIERML_MACHINES")); err == nil {
		machines = n
	}
	s := plain()
	s.transient, s.partitions, s.splits, s.clocks = machines, 64, machines+24, 30
	w := newWorld(1, s)
	w.longer = time.Hour
	w.unchecked = machines > 100
	w.computing = func(*node) time.Duration { return 500 * time.Millisecond }
	var steps int
	var longest, all time.Duration
	w.stepped = func(took time.Duration) {
		steps, longest, all = steps+1, max(longest, took), all+took
	}
	report := func(what string) {
		t.Logf("%s: %d steps, %v of processor time in all, the longest %v", what, steps, all.Round(time.Microsecond), longest.Round(time.Microsecond))
		if longest > slowerMachines*decidedWithin {
			t.Errorf("%s: a step of the controller took %v of processor time, more than %d times %v", what, longest, slowerMachines, decidedWithin)
		}
		steps, longest, all = 0, 0, 0
	}
	joined, notice := 0, 4*time.Second
	var bought, warned, cut, flushed time.Time // in the world's time
	w.onEntry = func(e journal.Entry) {
		switch {
		case e.Kind == journal.Launch && e.Tier == "transient":
			bought = w.now
		case e.Kind == journal.Join && w.nodes[ps.ServerID(e.Instance)].instance.Pool.Class == market.Spot:
			switch joined++; joined {
			case machines:
				report("all have joined")
				t.Logf("they joined %v after their purchase", w.now.Sub(bought))
				if took := w.now.Sub(bought); took > w.ctrl.cfg.BootWithin {
					t.Errorf("machines joined %v after their purchase, want %v at most", took, w.ctrl.cfg.BootWithin)
				}
				w.after(2*s.cutEvery, func() {
					report("training")
					if cut.IsZero() || w.now.Sub(cut) > 2*s.cutEvery {
						t.Errorf("no cut in %v, though one is due every %v", w.now.Sub(cut), s.cutEvery)
					}
					w.policy.count, warned = 0, w.now
					w.warnTogether(notice, w.spot()...)
					report("all are warned")
					w.after(notice+2*time.Second, func() {
						report("all have left")
						w.policy.count = machines
					})
				})
			case 2 * machines:
				report("as many have come back")
			}
		case e.Kind == journal.Cut:
			if cut = w.now; !warned.IsZero() && flushed.IsZero() {
				flushed = w.now
				t.Logf("flushed %v after the notice", flushed.Sub(warned))
			}
		case e.Kind == journal.Rollback || e.Redone:
			t.Errorf("a warned eviction must not lose work: %s", line(e))
		}
	}
	finish(t, w, "finished")
	report("until the end")
	if joined != 2*machines {
		t.Errorf("%d machines joined, want %d twice", joined, machines)
	}
	if flushed.IsZero() || flushed.Sub(warned) > notice {
		t.Errorf("flushed %v after a notice of %v", flushed.Sub(warned), notice)
	}
}

// BenchmarkNotice measures the controller's answer to a notice for one of 16 and of 1,000 training machines.
func BenchmarkNotice(b *testing.B) {
	for _, machines := range []int{16, 1000} {
		b.Run(strconv.Itoa(machines), func(b *testing.B) {
			var took time.Duration
			for range b.N {
				b.StopTimer()
				w := grownWorld(machines)
				id := w.spot()[0]
				b.StartTimer()
				took += processorTime(func() { w.ctrl.Step(w.time(), Warned{ID: id, Deadline: w.now.Add(time.Minute)}) })
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N), "processor-us/notice")
		})
	}
}

// warnTogether is evict with all notices in one step, as the driver reports them.
func (w *world) warnTogether(notice time.Duration, ids ...ps.ServerID) {
	var events []Event
	for _, id := range ids {
		n := w.nodes[id]
		n.warned, n.deadline = true, w.now.Add(notice)
		events = append(events, Warned{ID: id, Deadline: n.deadline})
		w.after(notice, func() { w.end(id, market.ByProvider, "Server.SpotInstanceTermination") })
	}
	w.step(events...)
}
