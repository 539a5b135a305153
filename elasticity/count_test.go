package elasticity

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// strained returns a world whose cuts take the time in load, divided by the number of machines that back up.
func strained(seed uint64, load *float64) *world {
	s := elastic()
	s.clocks, s.cutEvery = 95, 500*time.Millisecond
	w := newWorld(seed, s)
	w.longer = 10 * time.Minute
	w.computing = func(*node) time.Duration { return 500 * time.Millisecond }
	w.growing()
	w.cutSize = func(time.Duration) (int64, float64) {
		seconds := *load / float64(max(len(holdersOf(w.ctrl.training.Layout.Route.Backup)), 1))
		return int64(seconds * 10 * mega), seconds
	}
	return w
}

// growing makes the count follow cuts, sooner than usual.
func (w *world) growing() {
	w.ctrl.configure(func(c *Config) {
		c.Grows, c.CutsUnpaced, c.Count = true, true, tiers.CountRule{High: 3, Low: 0.5, Calm: 8, Gain: 0.1}
	})
}

// counts returns the changes of the wanted number, and the reasons.
func (w *world) counts() (to, why []string) {
	for _, e := range w.lines(journal.Scale) {
		_, text, _ := strings.Cut(e.To, "servers")
		to, why = append(to, strings.TrimPrefix(text, ", ")), append(why, e.Why)
	}
	return to, why
}

// Cuts take longer than the time between them leaves, then little: a reliable machine is requested and released, nothing is done
// twice, and the model is the undisturbed one (promise_test.go).
func TestReliableTierGrowsWithItsCuts(t *testing.T) {
	for seed := range uint64(6) {
		load, most := 0.35, 0
		w := strained(seed, &load)
		w.when(func() bool { return len(w.machinesOf(market.OnDemand)) == 2 && w.ctrl.scaled() }, func() {
			most = len(w.machinesOf(market.OnDemand))
			w.after(5*time.Second, func() { load = 0.01 })
		})
		w.neverBack()
		finish(t, w, "finished")
		to, why := w.counts()
		if most != 2 || strings.Join(to, "; ") != "2 reliable machines; " || len(w.machinesOf(market.OnDemand)) > 1 {
			t.Fatalf("seed %d: at most %d machines, wanted %q because %q", seed, most, to, why)
		}
		if !strings.Contains(why[0], "takes 0.35 s to take in a cut, for 3 cuts above the 0.25 s") || !strings.Contains(why[1], "with a reliable machine less") {
			t.Errorf("seed %d: because %q", seed, why)
		}
	}
}

// A controller that takes over the run keeps the count, and returns the machine when cuts are short.
func TestTakeoverKeepsTheCount(t *testing.T) {
	for seed := range uint64(6) {
		load, kept := 0.35, 0
		w := strained(seed, &load)
		w.when(func() bool { return len(w.machinesOf(market.OnDemand)) == 2 && w.ctrl.scaled() }, func() {
			w.killController(200 * time.Millisecond)
			w.when(func() bool { return !w.absent && w.count(journal.TakeOver) == 1 && w.ctrl.scaled() }, func() {
				w.growing()
				kept = w.ctrl.wantReliable()
				load = 0.01
			})
		})
		finish(t, w, "finished")
		if to, why := w.counts(); kept != 2 || strings.Join(to, "; ") != "2 reliable machines; " {
			t.Errorf("seed %d: %d kept, wanted %q because %q", seed, kept, to, why)
		}
	}
}

// What keeps the tier from growing: a declared number, a requested number, an hourly limit without room, as many machines as partitions,
// and cuts in time.
func TestReliableTierStays(t *testing.T) {
	for name, change := range map[string]func(*world, *float64){
		"declared": func(w *world, _ *float64) { w.ctrl.configure(func(c *Config) { c.Grows = false }) },
		"asked for": func(w *world, _ *float64) {
			w.ctrl.target.reliable = 1
		},
		"no room in the hour": func(w *world, _ *float64) { w.ctrl.configure(func(c *Config) { c.PerHour = market.Dollar }) },
		"over its budget":     func(w *world, _ *float64) { w.ctrl.overBudget = "a test" },
		"in time":             func(_ *world, load *float64) { *load = 0.2 },
	} {
		load := 0.35
		w := strained(1, &load)
		change(w, &load)
		finish(t, w, "finished")
		if n := w.count(journal.Scale); n > 0 {
			t.Errorf("%s: %d changes: %+v", name, n, w.lines(journal.Scale))
		}
	}
}

// Cuts are alternately long and short, in random worlds with faults of all kinds: promises are kept while the tier grows and shrinks.
func TestGrowthAtRandom(t *testing.T) {
	changes, seeds := 0, setting("TIERML_SEEDS", 100)
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 11))
		s := drawn(r)
		if s.reliable == 0 {
			s.reliable = 1
		}
		w := newWorld(seed, s)
		w.growing()
		w.ctrl.configure(func(c *Config) { c.Count.High, c.Count.Calm = 1, 2 })
		w.cutSize = func(time.Duration) (int64, float64) {
			seconds := w.shape.cutEvery.Seconds() * float64(w.now.Sub(epoch)/(3*time.Second)%2)
			return int64(seconds*10*mega) + 1000, seconds + 0.01
		}
		p := drawPlan(r)
		w.play(p)
		err := w.run()
		if err == nil {
			err = w.check(p.outcomes()...)
		}
		if err != nil {
			t.Errorf("seed %d, faults %s: %v", seed, p, err)
		}
		for _, e := range w.lines(journal.Scale) {
			if strings.Contains(e.Why, "cut") {
				changes++
			}
		}
	}
	if changes < int(seeds/5) {
		t.Errorf("the tier has changed %d times", changes)
	}
}
