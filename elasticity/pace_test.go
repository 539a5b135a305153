package elasticity

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
)

const mega = 1 << 20

// In a run: changes at 4 MB/s must be flushed to one backup at 10 MB/s within half of a warning of 2 s, so cuts come more often than the
// configured three seconds; when almost nothing changes any more, the interval returns to that.
func TestCutsComeInTimeForAFlush(t *testing.T) {
	for seed := range uint64(6) {
		s := six()
		s.clocks = 95
		w := newWorld(seed, s)
		w.ctrl.configure(func(c *Config) { c.Notice = 2 * time.Second })
		growth := 4e6
		w.when(func() bool { return w.ctrl.training.Clocks.Done > 60 }, func() { growth = 1 })
		w.cutSize = func(since time.Duration) (int64, float64) {
			bytes := growth * since.Seconds()
			return int64(bytes), bytes / 10e6
		}
		finish(t, w, "finished")
		var at time.Time
		var paced []string
		shortest, last := time.Hour, time.Duration(0)
		for _, e := range w.lines(journal.Cut) {
			if !at.IsZero() && e.Clock < 95 {
				last = e.T.Sub(at)
				shortest = min(shortest, last)
			}
			at = e.T
			if strings.HasPrefix(e.Why, "cuts every") {
				paced = append(paced, e.Why)
			}
		}
		if shortest > 2700*time.Millisecond || shortest < 1500*time.Millisecond {
			t.Errorf("seed %d: the shortest time between cuts is %v, want about 2.1 s and the cut's own time", seed, shortest)
		}
		if len(paced) == 0 || len(paced) > 4 {
			t.Errorf("seed %d: %d times the pace changed: %q", seed, len(paced), paced)
		}
	}
}

// More changes than before, and the next cut is far away: it does not wait until it is due.
func TestMoreChangesBringTheNextCutForward(t *testing.T) {
	w := newWorld(1, six())
	w.until(8 * time.Second)
	c := w.ctrl
	m := c.training.Nodes.ByID[c.training.Layout.Route.Owner[0]]
	report := func(bytes int64) (at time.Time) {
		c.training.Cuts.Cut, c.training.Cuts.Due = nil, c.step.Now.Add(10*time.Second)
		c.training.Cuts.Pace.Limit, c.training.Cuts.Pace.Every, c.training.Cuts.Pace.At = 50*mega, 20*time.Second, c.step.Now.Add(-10*time.Second)
		h := m.Stats
		h.CutBytes = bytes
		c.training.TakeReport(m.ID, h)
		return c.training.Cuts.Due
	}
	if at := report(49 * mega); !at.After(c.step.Now) {
		t.Error("a cut is due without a reason")
	}
	if at := report(60 * mega); at.After(c.step.Now) {
		t.Errorf("%d bytes are dirty, at most %d can be flushed, and the next cut waits for %v", c.training.Cuts.Pace.Dirty, c.training.Cuts.Pace.Limit, at.Sub(c.step.Now))
	}
	c.training.Lose(m.Machine)
	if c.training.Cuts.Pace.Dirty > mega {
		t.Errorf("%d bytes of a machine that is gone", c.training.Cuts.Pace.Dirty)
	}
}

// The contract, Warned eviction: the plan is made with the seconds left, the dirty bytes of each owner and the bandwidth at the receivers;
// tasks that cannot finish in time are not started. With notices of 120 s, 30 s and none.
func TestEndOfLifeIsPlannedByBytesAndSecondsLeft(t *testing.T) {
	for _, c := range []struct {
		notice           time.Duration
		megabytes, clock float64
		staleness, ahead ps.Clock
		want             training.Rescue
		why              string
	}{
		{120 * time.Second, 900, 2, 0, 0, training.FlushAll, "2.00 s of work and 900.0 MB in 90.00 s fit into the 120.00 s left; nothing is given up"},
		{120 * time.Second, 1500, 2, 0, 0, training.GiveUpRest, "do not fit into the 120.00 s left; work since the last cut is given up"},
		{30 * time.Second, 200, 2, 0, 0, training.FlushAll, "nothing is given up"},
		{30 * time.Second, 200, 4, 3, 2, training.CutOnly, "4.00 s of work and 200.0 MB in 20.00 s fit into the 30.00 s left; what is begun beyond it, 12.00 s, is given up"},
		{30 * time.Second, 200, 12, 3, 2, training.GiveUpRest, "do not fit"},
		{0, 0, 0.01, 0, 0, training.GiveUpRest, "do not fit into the 0.00 s left"},
	} {
		w := newWorld(1, six())
		w.until(8 * time.Second)
		ctl := w.ctrl
		ctl.training.Cuts.Pace.Rate, ctl.training.Clocks.Seconds = 10e6, c.clock
		ctl.configure(func(cfg *Config) { cfg.Job.Schema.Staleness = c.staleness })
		for i := range ctl.training.Clocks.Marks {
			ctl.training.Clocks.Marks[i] = ctl.training.Clocks.Done + 1 + c.ahead
		}
		owners := holdersOf(ctl.training.Layout.Route.Owner)
		for _, id := range owners {
			m := ctl.training.Nodes.ByID[id]
			m.Stats.CutBytes = int64(c.megabytes * 1e6 / float64(len(owners)))
			m.Warned, m.Deadline = true, ctl.step.Now.Add(c.notice+time.Minute)
		}
		ctl.training.Nodes.ByID[owners[0]].Deadline = ctl.step.Now.Add(c.notice) // the first counts
		if p := ctl.training.Cuts.PlanEndOfLife(); p.Do != c.want || !strings.Contains(p.String(), c.why) {
			t.Errorf("%v, %g MB: %d, %s; want %d, %s", c.notice, c.megabytes, p.Do, p, c.want, c.why)
		}
	}
}

// A flush that cannot finish in time is not begun: the journal says so, no worker is parked, and the last committed cut serves.
func TestFlushTooLargeForTheWarning(t *testing.T) {
	for seed := range uint64(6) {
		s := six()
		s.clocks = 95
		w := newWorld(seed, s)
		w.cutSize = func(time.Duration) (int64, float64) { return 100 * mega, 10 }
		w.settled(func() {
			w.dirty = 100 * mega
			w.after(time.Second, func() {
				w.policy.count = 0
				w.evict(2*time.Second, w.spot()...)
			})
		})
		halted := false
		w.hooks["delivering"] = func(*node) {
			halted = halted || w.ctrl.training.Halt != nil && w.ctrl.training.Halt.Purpose == training.Flush
		}
		finish(t, w, "finished")
		if e := w.lines(journal.Flush); len(e) == 0 || !strings.Contains(e[0].Why, "nothing can be flushed") {
			t.Errorf("seed %d: %+v", seed, e)
		}
		if halted || w.count(journal.Rollback) == 0 {
			t.Errorf("seed %d: halted %v, %d roll-backs", seed, halted, w.count(journal.Rollback))
		}
	}
}

// Partitions that cannot leave a machine in time do not begin to move: their last committed cut serves.
func TestMovesThatDoNotFit(t *testing.T) {
	w := newWorld(1, six())
	w.until(8 * time.Second)
	c := w.ctrl
	m := c.training.Nodes.ByID[c.training.Layout.Route.Owner[0]]
	state := float64(c.cfg.Job.Schema.StateBytes()) / float64(len(c.training.Layout.Route.Owner)) // of one partition
	c.training.Cuts.Pace.Rate = state                                                             // one a second
	for left, want := range map[time.Duration]int{8 * time.Second: 4, 4 * time.Second: 3, time.Second: 0, -time.Second: 0} {
		m.Warned, m.Deadline = true, c.step.Now.Add(left)
		if got := c.training.Cuts.DrainsInTime(m, 4); got != want {
			t.Errorf("with %v left: %d partitions, want %d", left, got, want)
		}
	}
	m.Warned = false
	if got := c.training.Cuts.DrainsInTime(m, 4); got != 4 {
		t.Errorf("without a warning: %d partitions", got)
	}
}
