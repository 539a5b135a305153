package elasticity

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// tunable returns a world in which the settings matter: 8 machines, 12 splits and 24 partitions.
func tunable() shape {
	s := plain()
	s.transient, s.partitions, s.splits, s.clocks = 8, 24, 12, 280
	s.cutEvery = 5 * time.Second
	s.tuned = &tuning.Options{Clocks: s.clocks, Partitions: s.partitions, Every: 3, Seed: 1}
	return s
}

// Seconds that a worker takes for a split, and that a clock waits for each partition of the busiest server: half of that if the server does
// not work as well.
const (
	splitTime     = 60 * time.Millisecond
	partitionTime = 80 * time.Millisecond
)

// modelPace returns the length of a clock in a layout: the slowest worker, and the busiest server.
func modelPace(owners, workers []ps.ServerID) time.Duration {
	var work, serve time.Duration
	for _, id := range holdersOf(workers) {
		work = max(work, time.Duration(count(workers, id))*splitTime)
	}
	for _, id := range holdersOf(owners) {
		each := partitionTime
		if !slices.Contains(workers, id) {
			each /= 2
		}
		serve = max(serve, time.Duration(count(owners, id))*each)
	}
	return work + serve
}

func count(in []ps.ServerID, id ps.ServerID) (n int) {
	for _, other := range in {
		if other == id {
			n++
		}
	}
	return n
}

// newTunable returns a world whose clocks take the time in modelPace.
func newTunable(seed uint64, s shape) *world {
	w := newWorld(seed, s)
	w.longer = 20 * time.Minute
	w.computing = func(*node) time.Duration {
		la := w.ctrl.training.Layout
		var workers []ps.ServerID
		for _, split := range la.Splits {
			workers = append(workers, split.Holder)
		}
		return modelPace(la.Route.Owner, workers)
	}
	return w
}

// chosen returns the pace of the layout that training is in, or is changing to.
func (w *world) chosen() time.Duration {
	target := w.ctrl.training.Layout.Target
	return modelPace(target.Route.Owner, target.Worker)
}

// paceOf returns the pace of the run's last setting on its whole fleet, before it ends.
func paceOf(t *testing.T, w *world) (pace time.Duration) {
	t.Helper()
	w.onEntry = func(e journal.Entry) {
		if c := w.ctrl.training; e.Kind == journal.ClockDone && e.Transient == w.shape.transient && c.Settled() {
			pace = w.chosen()
		}
	}
	finish(t, w, "finished")
	return pace
}

// A job of 280 clocks finds a setting that is much better than the stage's own, the model stays the same to the bit (toy_test.go checks
// each read and the result), and no clock is repeated.
func TestTuningFindsABetterSetting(t *testing.T) {
	untuned := tunable()
	untuned.tuned = nil
	before := paceOf(t, newTunable(1, untuned))
	for seed := range uint64(2) {
		w := newTunable(seed, tunable())
		after := paceOf(t, w)
		if best := bestPace(8); after > best*5/4 || after >= before {
			t.Errorf("seed %d: a clock takes %v untuned, %v tuned, %v at best", seed, before, after, best)
		}
		if w.count(journal.Rollback) > 0 {
			t.Errorf("seed %d: %d roll-backs", seed, w.count(journal.Rollback))
		}
		steps := map[string]int{}
		for _, e := range w.lines(journal.Tune) {
			d, err := e.TuneDetails()
			if err := errors.Join(err, e.Validate()); err != nil {
				t.Fatal(err)
			}
			steps[d.Step]++
		}
		t.Logf("seed %d: %v untuned, %v tuned; %v", seed, before, after, steps)
		if steps["default"] != 1 || steps["trial"] != 6 || steps["explore"] == 0 {
			t.Errorf("seed %d: steps %v", seed, steps)
		}
	}
}

// bestPace returns the pace of the best layout on this many transient machines and a reliable one.
func bestPace(machines int) time.Duration {
	best := time.Hour
	s := tunable()
	var members []tiers.Member
	for i := range machines + 1 {
		m := tiers.Member{ID: ps.ServerID(rune('a' + i)), Tier: tiers.Transient, Joined: i + 1, VCPU: 4}
		if i == 0 {
			m.Tier = tiers.Reliable
		}
		members = append(members, m)
	}
	now := tiers.Layout{Route: ps.Route{Owner: make([]ps.ServerID, s.partitions), Backup: make([]ps.ServerID, s.partitions)}, Worker: make([]ps.ServerID, s.splits)}
	for stage := tiers.Stage1; stage <= tiers.Stage3; stage++ {
		for servers := 1; servers <= machines; servers++ {
			for only := 0; only <= servers && only < machines; only++ {
				of := slices.Clone(members)
				for i := range only {
					of[i+1].NoWork = true
				}
				l := tiers.Arrange(now, of, stage, servers)
				best = min(best, modelPace(l.Route.Owner, l.Worker))
			}
		}
	}
	return best
}

// Under 20 random evictions the chosen setting is within 5 % of the undisturbed run's pace: the market must not teach the tuner.
func TestTuningUnderEvictions(t *testing.T) {
	s := tunable()
	undisturbed := paceOf(t, newTunable(1, s))
	for seed := range uint64(2) {
		w := newTunable(seed, s)
		rng := rand.New(rand.NewPCG(seed, 9))
		evictions := 0
		w.settled(func() {
			var next func()
			next = func() {
				if spot := w.spot(); evictions < 20 && len(spot) > 0 && w.outcome == "" {
					evictions++
					w.evict(time.Duration(rng.Int64N(int64(4*time.Second))), spot[rng.IntN(len(spot))])
					w.after(time.Duration(rng.Int64N(int64(14*time.Second))), next)
				}
			}
			next()
		})
		if pace := paceOf(t, w); evictions < 20 || pace > undisturbed*105/100 {
			t.Errorf("seed %d: after %d evictions a clock of the chosen setting takes %v, without any %v", seed, evictions, pace, undisturbed)
		} else {
			t.Logf("seed %d: %v with %d evictions, %v without", seed, pace, evictions, undisturbed)
		}
	}
}

// A job that is too short is not tuned, and says why; its layout is the stage's own.
func TestTooShortToTune(t *testing.T) {
	s := tunable()
	s.clocks, s.tuned.Clocks = 95, 95
	w := newTunable(1, s)
	finish(t, w, "finished")
	e := w.lines(journal.Tune)
	if want := "not tuned: trying 7 settings for 3 clocks each takes 21 of the job's "; len(e) != 1 || !strings.HasPrefix(e[0].Why, want) || e[0].To != "" {
		t.Errorf("%+v", e)
	}
}

// A restarted controller continues with what its predecessor had learned: no setting is tried twice.
func TestTuningOutlivesItsController(t *testing.T) {
	for seed := range uint64(2) {
		w := newTunable(seed, tunable())
		for _, after := range []ps.Clock{60, 110, 180} {
			w.when(func() bool { return w.ctrl.training.Clocks.Done > after && w.ctrl.training.Recovery == nil }, func() { w.killController(time.Second) })
		}
		finish(t, w, "finished")
		steps, lives := map[string]int{}, w.count(journal.TakeOver)
		for _, e := range w.lines(journal.Tune) {
			d, _ := e.TuneDetails()
			steps[d.Step]++
		}
		if lives != 3 || steps["default"] != 1 || steps["trial"] != 6 || steps["explore"] == 0 {
			t.Errorf("seed %d: %d controllers more, steps %v", seed, lives, steps)
		}
	}
}

// Servers are requested while the job is tuned: they are provided, and the tuner leaves them alone.
func TestScaleGoesBeforeTuning(t *testing.T) {
	w := newTunable(1, tunable())
	w.policy.asked = true
	asked := 0
	w.when(func() bool { return w.ctrl.training.Clocks.Done > 100 }, func() {
		w.ask(0, 1)
		asked = w.count(journal.Tune)
	})
	finish(t, w, "finished")
	if n := len(w.scaled); n != 2 || !w.scaled[1].Reached || w.count(journal.Tune) != asked {
		t.Errorf("%+v, %d questions before and %d in all", w.scaled, asked, w.count(journal.Tune))
	}
}
