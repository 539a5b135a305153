package elasticity

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
)

const mega = 1 << 20

// The contract, Cuts: the interval follows from bandwidth: dirty bytes per BackupPS stay below what it can take in within the
// shortest warning, less a margin.
func TestCutIntervalFollowsFromBandwidth(t *testing.T) {
	for _, c := range []struct {
		what                                string
		bytes                               int64
		rate, gathered, base, notice, clock float64
		want                                float64
		why                                 string
	}{
		{"nothing is known", 0, 0, 10, 1.5, 4, 0.1, 1.5, ""},
		{"little changes", mega, 100 * mega, 10, 1.5, 4, 0.1, 1.5, ""},
		{"a tenth of the link: 5 s of delivery", 50 * mega, 10 * mega, 60, 1.5, 120, 1, 50, "would take more than 10 %"},
		{"60 s of a warning, at 10 MB/s gathered", 600 * mega, 100 * mega, 60, 900, 120, 10, 500, "flushed within 50 % of a warning of 120.0 s"},
		{"a shorter warning", 600 * mega, 100 * mega, 60, 900, 30, 5, 100, "warning of 30.0 s, less a clock of 5.00 s"},
		{"no warning at all", 600 * mega, 100 * mega, 60, 900, 0, 5, 900, ""},
		{"a clock that is longer than the warning", 600 * mega, 100 * mega, 60, 900, 30, 20, 900, ""},
		{"next to nothing", 1000, 1, 60, 1.5, 30, 1, 1.5, ""},
		{"more than a warning can carry", 3000 * mega, 100 * mega, 60, 1.5, 30, 5, 60, "a flush will not be in time"},
	} {
		p := pace{rate: c.rate}
		got, why := p.interval(c.bytes, c.gathered, c.base, c.notice, c.clock)
		if math.Abs(got-c.want) > 1e-9 || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: every %g s because %q, want %g s because %q", c.what, got, why, c.want, c.why)
		}
	}
}

// Whatever the figures: cuts take half of the link at most; a tenth, unless the warning asks for more; and what gathers
// evenly until the next one can be flushed, unless half of the link is not enough for that.
func TestCutIntervalKeepsItsBounds(t *testing.T) {
	figure := rapid.Float64Range(0.01, 1000)
	rapid.Check(t, func(t *rapid.T) {
		bytes, rate := rapid.Int64Range(tellingBytes, 1e12).Draw(t, "bytes"), rapid.Float64Range(1, 1e10).Draw(t, "rate")
		gathered, base, notice, clock := figure.Draw(t, "gathered"), figure.Draw(t, "base"), figure.Draw(t, "notice"), figure.Draw(t, "clock")
		p := pace{rate: rate}
		every, _ := p.interval(bytes, gathered, base, notice, clock)
		deliver, room := float64(bytes)/rate, flushMargin*notice-clock
		then := deliver / gathered * every // to deliver what gathers until then
		const slack = 1 + 1e-9
		switch share := deliver / every; {
		case share > mostShare*slack:
			t.Fatalf("cuts take %g of the link", share)
		case share > usualShare*slack && (room <= 0 || then < room/slack):
			t.Fatalf("cuts take %g of the link, and the warning would leave room: %g s of %g s", share, then, room)
		case room > 0 && then > room*slack && every > deliver/mostShare*slack:
			t.Fatalf("%g s to deliver in %g s, and cuts take only %g of the link", then, room, share)
		case every > max(base, deliver/usualShare)*slack:
			t.Fatalf("%g s are longer than anybody wants", every)
		}
	})
}

// A link's rate is learned from deliveries that fill it, never beyond what is declared.
func TestRateIsLearned(t *testing.T) {
	var p pace
	p.received(1000, 0.01, 0)
	p.received(500, 0.01, 0) // round trips: it says nothing about the link
	if p.rate != 100_000 {
		t.Errorf("after small deliveries %g", p.rate)
	}
	for range 50 {
		p.received(10*mega, 1, 0)
	}
	if math.Abs(p.rate-10*mega) > 1 {
		t.Errorf("after large ones %g", p.rate)
	}
	p.received(10*mega, 0.001, 20*mega)
	if p.rate != 20*mega {
		t.Errorf("beyond the link: %g", p.rate)
	}
	p.received(0, 0, 0)
	if p.rate != 20*mega {
		t.Errorf("nothing came, and it is %g", p.rate)
	}
}

// In a run: what changes at 4 MB/s must be flushed to one backup at 10 MB/s within half of a warning of 2 s, so cuts come
// more often than the three seconds that were configured; when next to nothing changes any more, they go back to that.
func TestCutsComeInTimeForAFlush(t *testing.T) {
	for seed := range uint64(6) {
		s := six()
		s.clocks = 95
		w := newWorld(seed, s)
		w.ctrl.cfg.Notice = 2 * time.Second
		growth := 4e6
		w.when(func() bool { return w.ctrl.progress.done > 60 }, func() { growth = 1 })
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
func TestCutThatDoesNotWait(t *testing.T) {
	w := newWorld(1, six())
	w.until(8 * time.Second)
	c := w.ctrl
	m := c.machines[c.route.Owner[0]]
	report := func(bytes int64) (at time.Time) {
		c.cut, c.cutDue = nil, c.now.Add(10*time.Second)
		c.pace.limit, c.pace.every, c.pace.at = 50*mega, 20*time.Second, c.now.Add(-10*time.Second)
		h := m.stats
		h.CutBytes = bytes
		c.takeReport(m.id, h)
		return c.cutDue
	}
	if at := report(49 * mega); !at.After(c.now) {
		t.Error("a cut is due without a reason")
	}
	if at := report(60 * mega); at.After(c.now) {
		t.Errorf("%d bytes are dirty, at most %d can be flushed, and the next cut waits for %v", c.pace.dirty, c.pace.limit, at.Sub(c.now))
	}
	c.lose(m)
	if c.pace.dirty > mega {
		t.Errorf("%d bytes of a machine that is gone", c.pace.dirty)
	}
}

// The contract, Warned eviction: the plan is made with the seconds left, the dirty bytes of each owner and the bandwidth at
// the receivers; what cannot finish in time is not started. With notices of 120 s, 30 s and none.
func TestEndOfLifeIsPlannedByBytesAndSecondsLeft(t *testing.T) {
	for _, c := range []struct {
		notice           time.Duration
		megabytes, clock float64
		staleness, ahead ps.Clock
		want             salvage
		why              string
	}{
		{120 * time.Second, 900, 2, 0, 0, flushAll, "2.00 s of work and 900.0 MB in 90.00 s fit into the 120.00 s left; nothing is given up"},
		{120 * time.Second, 1500, 2, 0, 0, giveUpRest, "do not fit into the 120.00 s left; work since the last cut is given up"},
		{30 * time.Second, 200, 2, 0, 0, flushAll, "nothing is given up"},
		{30 * time.Second, 200, 4, 3, 2, cutOnly, "4.00 s of work and 200.0 MB in 20.00 s fit into the 30.00 s left; what is begun beyond it, 12.00 s, is given up"},
		{30 * time.Second, 200, 12, 3, 2, giveUpRest, "do not fit"},
		{0, 0, 0.01, 0, 0, giveUpRest, "do not fit into the 0.00 s left"},
	} {
		w := newWorld(1, six())
		w.until(8 * time.Second)
		ctl := w.ctrl
		ctl.pace.rate, ctl.progress.seconds, ctl.cfg.Job.Schema.Staleness = 10e6, c.clock, c.staleness
		for i := range ctl.progress.marks {
			ctl.progress.marks[i] = ctl.progress.done + 1 + c.ahead
		}
		owners := holdersOf(ctl.route.Owner)
		for _, id := range owners {
			m := ctl.machines[id]
			m.stats.CutBytes = int64(c.megabytes * 1e6 / float64(len(owners)))
			m.warned, m.deadline = true, ctl.now.Add(c.notice+time.Minute)
		}
		ctl.machines[owners[0]].deadline = ctl.now.Add(c.notice) // the first counts
		if p := ctl.planEndOfLife(); p.do != c.want || !strings.Contains(p.String(), c.why) {
			t.Errorf("%v, %g MB: %d, %s; want %d, %s", c.notice, c.megabytes, p.do, p, c.want, c.why)
		}
	}
}

// A flush that cannot be in time is not begun: the journal says so, nobody is parked, and the last committed cut serves.
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
		w.hooks["delivering"] = func(*node) { halted = halted || w.ctrl.halt != nil && w.ctrl.halt.purpose == flush }
		finish(t, w, "finished")
		if e := w.lines(journal.Flush); len(e) == 0 || !strings.Contains(e[0].Why, "nothing can be flushed") {
			t.Errorf("seed %d: %+v", seed, e)
		}
		if halted || w.count(journal.Rollback) == 0 {
			t.Errorf("seed %d: halted %v, %d roll-backs", seed, halted, w.count(journal.Rollback))
		}
	}
}

// Partitions that cannot leave a machine in time are not begun to be moved: their last committed cut serves.
func TestMovesThatDoNotFit(t *testing.T) {
	w := newWorld(1, six())
	w.until(8 * time.Second)
	c := w.ctrl
	m := c.machines[c.route.Owner[0]]
	state := float64(c.cfg.Job.Schema.StateBytes()) / float64(len(c.route.Owner)) // of one partition
	c.pace.rate = state                                                           // one a second
	for left, want := range map[time.Duration]int{8 * time.Second: 4, 4 * time.Second: 3, time.Second: 0, -time.Second: 0} {
		m.warned, m.deadline = true, c.now.Add(left)
		if got := c.leavesInTime(m, 4); got != want {
			t.Errorf("with %v left: %d partitions, want %d", left, got, want)
		}
	}
	m.warned = false
	if got := c.leavesInTime(m, 4); got != 4 {
		t.Errorf("without a warning: %d partitions", got)
	}
}
