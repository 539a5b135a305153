package tuning

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
)

// fleet simulates a job: its clocks take the time of its setting, and a change takes effect a clock later.
type fleet struct {
	machines int
	rate     float64
	clock    int64
	in       Setting
	moving   bool
	rng      *rand.Rand
	lines    []Past
	steps    map[string]int
}

func newFleet(machines int) *fleet {
	return &fleet{machines: machines, rate: 1, in: Setting{Servers: machines / 2}, rng: rand.New(rand.NewPCG(1, 2)), steps: map[string]int{}}
}

// pace is best with a quarter of the machines serving and not working.
func (f *fleet) pace() float64 {
	serve := 1.2 / float64(max(f.in.Servers, 1))
	workers := f.machines
	if f.in.Apart {
		workers -= f.in.Servers
	} else {
		serve *= 2
	}
	return (serve + 4/float64(workers) + .1*float64(f.in.Servers)) * (1 + .02*f.rng.NormFloat64())
}

// step does a clock, which the market may disturb.
func (f *fleet) step(b *Brain, disturbed bool) {
	f.clock++
	r := Report{Clock: f.clock, Seconds: f.pace(), Fleet: Fleet{Machines: f.machines, Rate: f.rate}, Default: Setting{Servers: f.machines / 2}, Moving: f.moving, Disturbed: disturbed}
	if disturbed {
		r.Seconds *= 3
	}
	f.moving = false
	d, ok := b.Clock(r)
	if !ok {
		return
	}
	f.lines = append(f.lines, Past{f.clock, d.Details})
	f.steps[d.Details.Step]++
	if d.Setting != nil {
		f.moving, f.in = *d.Setting != f.in, *d.Setting
	}
}

func options(clocks int) Options { return Options{Clocks: clocks, Partitions: 32, Seed: 3} }

// The market disturbs a third of the clocks and triples their length: the choice is as good as without.
func TestTheMarketDoesNotTeach(t *testing.T) {
	for _, share := range []float64{0, 1. / 3} {
		f, b := newFleet(16), New(options(600))
		before := f.pace()
		for f.clock < 600 {
			f.step(b, f.rng.Float64() < share)
		}
		if after := f.pace(); after > .82*before {
			t.Errorf("disturbed %.2f: %.3f s by default, %.3f s with %+v", share, before, after, f.in)
		}
		if f.steps["trial"] != usualTrials || f.steps["default"] != 1 || f.steps["stay"] == 0 {
			t.Errorf("disturbed %.2f: %v", share, f.steps)
		}
	}
}

// A brain restored from the journal midway decides like the original.
func TestRemember(t *testing.T) {
	f, b := newFleet(16), New(options(600))
	for f.clock < 300 {
		f.step(b, f.clock%7 == 0)
	}
	text, err := json.Marshal(f.lines)
	if err != nil {
		t.Fatal(err)
	}
	var lines []Past
	if err := json.Unmarshal(text, &lines); err != nil {
		t.Fatal(err)
	}
	next := New(options(600))
	last, ok := next.Remember(lines)
	if !ok || last.Setting == nil || *last.Setting != f.in {
		t.Fatalf("in use is %+v, remembered %+v", f.in, last.Setting)
	}
	x, _, _ := b.now.tuner.Best()
	y, _, _ := next.now.tuner.Best()
	if !reflect.DeepEqual(x, y) || next.now.samples != b.now.samples || next.now.best != b.now.best {
		t.Errorf("best %v, remembered %v; %d and %d samples", x, y, b.now.samples, next.now.samples)
	}
	for f.clock < 600 {
		f.step(next, false)
	}
	if f.steps["trial"] != usualTrials || f.steps["default"] != 1 {
		t.Errorf("tried again: %v", f.steps)
	}
}

// Another number of machines, for longer than a replacement takes, is tuned on its own, using what the first has taught; a shorter change
// is not.
func TestFleetsOfTwoSizes(t *testing.T) {
	f, b := newFleet(16), New(options(2000))
	for f.clock < 400 {
		f.step(b, false)
	}
	f.machines = 15
	for range patience - 1 {
		f.step(b, false)
	}
	f.machines = 16
	for f.clock < 500 {
		f.step(b, false)
	}
	if len(b.plans) != 1 {
		t.Fatalf("%d plans after a short loss", len(b.plans))
	}
	f.rate = 1.1 // one is of another type
	for f.clock < 520 {
		f.step(b, false)
	}
	if len(b.plans) != 1 {
		t.Fatalf("%d plans after a machine was replaced", len(b.plans))
	}
	f.rate, f.machines, f.in = 1, 8, Setting{Servers: 4}
	trials := f.steps["trial"]
	for f.clock < 1000 {
		f.step(b, false)
	}
	if len(b.plans) != 2 || f.steps["trial"]-trials != knownTrials {
		t.Errorf("%d plans, %d more trials", len(b.plans), f.steps["trial"]-trials)
	}
	f.machines = 16
	for f.clock < 1100 {
		f.step(b, false)
	}
	if f.steps["default"] != 2 || b.now.Machines != 16 {
		t.Errorf("%v, for %d machines", f.steps, b.now.Machines)
	}
	f.rate = 2 // all are of another type
	for f.clock < 1200 {
		f.step(b, false)
	}
	if f.steps["default"] != 3 || len(b.plans) != 3 {
		t.Errorf("%v, %d plans", f.steps, len(b.plans))
	}
}

// Known settings shorten the beginning: a job too short for all trials has time for three.
func TestKnownSettings(t *testing.T) {
	if _, _, why := Outlook(options(120), 16); !strings.HasPrefix(why, "not tuned: trying 7 settings for 4 clocks each takes 28 of the job's 120 clocks") {
		t.Errorf("%q", why)
	}
	o := options(120)
	o.Known = []Known{{Machines: 32, Setting: map[string]int{servers: 8, serversWork: 0, reliable: 1}}}
	if _, _, why := Outlook(o, 16); why != "" {
		t.Errorf("%q", why)
	}
	f, b := newFleet(16), New(o)
	for f.clock < 120 {
		f.step(b, false)
	}
	if f.steps["trial"] != knownTrials {
		t.Errorf("%v", f.steps)
	}
	first := map[string]int{servers: 4, serversWork: 0, reliable: 1}
	if got := f.lines[1].Details; got.Step != "trial" || !reflect.DeepEqual(got.Setting, first) {
		t.Errorf("the first trial is %+v, want %v", got.Setting, first)
	}
	// One that is too short even for these gets the known setting at once.
	o.Clocks = 40
	f, b = newFleet(16), New(o)
	for f.clock < 40 {
		f.step(b, false)
	}
	if len(f.lines) != 1 || f.lines[0].Details.Step != "off" || f.in.Servers != 4 || !f.in.Apart {
		t.Errorf("%+v, in use %+v", f.lines, f.in)
	}
}

// A setting that is far worse than the best is abandoned early.
func TestHopelessSettings(t *testing.T) {
	f, b := newFleet(16), New(options(600))
	for f.clock < 100 {
		f.step(b, false)
	}
	short, best := 0, 0.
	for _, l := range f.lines {
		if s := l.Details.Sample; s != nil {
			if best > 0 && s.Pace > 1.2*hopeless*best {
				if short++; len(s.Clocks) > 2 {
					t.Errorf("%d clocks of %.2f s, the best took %.2f s", len(s.Clocks), s.Pace, best)
				}
			}
			if best == 0 || s.Pace < best {
				best = s.Pace
			}
		}
	}
	if short == 0 {
		t.Error("no trial is hopeless: this test shows nothing")
	}
}

// A run's result is the setting with the least mean of its samples, in the fleet that was measured most.
func TestLearned(t *testing.T) {
	line := func(machines, servers int, pace float64) journal.TuneDetails {
		return journal.TuneDetails{Machines: machines, Sample: &journal.TuneSample{Setting: map[string]int{"servers": servers}, Pace: pace, Default: 3}}
	}
	lines := []journal.TuneDetails{{Machines: 4}, line(4, 1, 3), line(4, 2, 1), line(4, 3, 2), line(4, 2, 4), line(8, 5, .1)}
	best, ok := Learned(lines)
	if !ok || best.Machines != 4 || best.Setting["servers"] != 3 || best.Pace != 2 || best.Default != 3 {
		t.Errorf("%+v %v", best, ok)
	}
	if _, ok := Learned(lines[:2]); ok {
		t.Error("one setting was compared with nothing")
	}
}
