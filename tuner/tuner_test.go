package tuner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The six nodes of figure 5 on a small scale: the number of servers, threads, piece size, precision and order.
var nodes = Space{Knobs: []Knob{
	{Name: "servers", Low: 1, High: 5, Whole: true, Technique: "model"},
	{Name: "threads", Low: 1, High: 16, Whole: true, Log: true, Technique: "settings"},
	{Name: "piece", Low: 1 << 12, High: 1 << 22, Log: true, Technique: "settings"},
	{Name: "precision", Choices: []string{"float32", "bf16"}, Technique: "settings"},
	{Name: "order", Choices: []string{"rows", "columns", "mixed"}, Technique: "settings"},
}}

// paceOf returns a setting's seconds per clock, without noise: a ratio with an optimum in between, threads that compete, a piece size with
// a valley. The worst is about 15 times the best.
func paceOf(x Setting) float64 {
	workers := 6 - x[0]
	t := 4/workers/math.Min(x[1], 5) + .05*x[1] + 1.2/x[0]*(1-.4*x[3]) + .02*math.Pow(math.Log2(x[2])-15, 2)
	if x[4] == 1 {
		t *= 1.3
	}
	return t
}

// run trains a job under a tuner, and returns the total time, and the settings used, clock by clock.
func run(t testing.TB, tuner *Tuner, clocks, every int, seed uint64, disturb func(clock int) float64) (seconds float64, used []Setting, steps []Step) {
	r := rand.New(rand.NewPCG(seed, 5))
	for len(used) < clocks {
		a := tuner.Ask(1)
		if a.Why == "" {
			t.Fatalf("no reason for %+v", a)
		}
		steps = append(steps, a.Step)
		s := Sample{Setting: a.Setting, Loss: 1}
		if a.Change && len(used) > 0 {
			s.Change = .5
			if a.Setting[0] != used[len(used)-1][0] {
				s.Change = 2
			}
			seconds += s.Change
		}
		for range every {
			c := Clock{Seconds: paceOf(a.Setting) * (1 + .05*r.NormFloat64()), Loss: 1}
			if disturb != nil {
				if by := disturb(len(used)); by > 1 {
					c.Seconds, c.Disturbed = c.Seconds*by, true
				}
			}
			s.Clocks = append(s.Clocks, c)
			used, seconds = append(used, a.Setting), seconds+c.Seconds
		}
		if err := tuner.Tell(s); err != nil {
			t.Fatal(err)
		}
	}
	return seconds, used, steps
}

// hundred returns the average and best pace of 100 random settings, the paper's measure (section VI).
func hundred(seed uint64) (average, best float64) {
	best = math.Inf(1)
	r := rand.New(rand.NewPCG(seed, 9))
	for range 100 {
		u := make([]float64, len(nodes.Knobs))
		for i := range u {
			u[i] = r.Float64()
		}
		p := paceOf(nodes.at(u))
		average, best = average+p/100, min(best, p)
	}
	return average, best
}

// Figure 5 and table III: at least .6 of the gap between the average of 100 random settings and their best is closed, including the
// initialisation, a fifth of the job.
func TestPaperGapIsClosed(t *testing.T) {
	const every, clocks = 4, 220
	var closed []float64
	for seed := range uint64(6) {
		tuner, err := New(nodes, Options{Default: Setting{3, 1, 4096, 0, 1}, Every: every, Clocks: clocks, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		seconds, _, _ := run(t, tuner, clocks, every, seed, nil)
		average, best := hundred(seed)
		closed = append(closed, (average*clocks-seconds)/((average-best)*clocks))
	}
	t.Logf("of the gap %.2f are closed in the median of %.2f", median(closed), closed)
	if median(closed) < .6 || slices.Min(closed) < .4 {
		t.Errorf("of the gap only %.2f are closed", closed)
	}
}

// Section III: the default, b settings, then by expected improvement; each with its reason.
func TestPaperPhases(t *testing.T) {
	tuner, err := New(nodes, Options{Default: Setting{3, 1, 4096, 0, 1}, Every: 5, Clocks: 300})
	if err != nil {
		t.Fatal(err)
	}
	_, used, steps := run(t, tuner, 100, 5, 1, nil)
	if steps[0] != First || !slices.Equal(used[0], Setting{3, 1, 4096, 0, 1}) {
		t.Errorf("the job starts with %s %v", steps[0], used[0])
	}
	for i, s := range steps[1:11] {
		if s != Trial {
			t.Errorf("question %d is answered by %s, want a trial", i+2, s)
		}
	}
	for _, s := range steps[11:] {
		if s != Explore && s != Back && s != Stay {
			t.Errorf("after the trials comes %s", s)
		}
	}
}

func TestShortJobIsNotTuned(t *testing.T) {
	o := Options{Default: Setting{3, 1, 4096, 0, 1}, Every: 4, Clocks: 219}
	tuner, err := New(nodes, o)
	if err != nil {
		t.Fatal(err)
	}
	const want = "not tuned: trying 11 settings for 4 clocks each takes 44 of the job's 219 clocks, more than a fifth"
	if a := tuner.Ask(1); a.Step != Off || a.Why != want || a.Change {
		t.Errorf("advice %+v, want %q", a, want)
	}
	o.Clocks = 220
	if tuner, _ = New(nodes, o); tuner.Off() != "" {
		t.Errorf("220 clocks: %s", tuner.Off())
	}
}

// Disturbed clocks teach nothing: a run whose disturbed clocks took a hundred times as long has the same settings as one where they took
// twice as long, and a sample of only disturbed clocks is repeated.
func TestDisturbedClocksTeachNothing(t *testing.T) {
	settings := func(factor float64) []Setting {
		tuner, err := New(nodes, Options{Default: Setting{3, 1, 4096, 0, 1}, Every: 4, Clocks: 300})
		if err != nil {
			t.Fatal(err)
		}
		_, used, steps := run(t, tuner, 160, 4, 3, func(clock int) float64 {
			if clock%7 == 0 || clock >= 12 && clock < 16 {
				return factor
			}
			return 1
		})
		if steps[4] != Again || !slices.Equal(used[12], used[16]) {
			t.Errorf("after a disturbed trial comes %s", steps[4])
		}
		return used
	}
	if a, b := settings(2), settings(100); !slices.EqualFunc(a, b, func(x, y Setting) bool { return slices.Equal(x, y) }) {
		t.Error("how long disturbed clocks took has changed what was chosen")
	}
}

// Section III-C: a change that costs more than it is expected to save is not made.
func TestPaperDearChangesAreNotMade(t *testing.T) {
	for _, c := range []struct {
		cost  float64
		moves bool
	}{{.1, true}, {1e6, false}} {
		tuner, err := New(nodes, Options{Default: Setting{3, 4, 65536, 0, 0}, Every: 4, Clocks: 300})
		if err != nil {
			t.Fatal(err)
		}
		moved := false
		for range 40 {
			a := tuner.Ask(1)
			s := Sample{Setting: a.Setting, Loss: 1}
			if a.Change {
				s.Change = c.cost
			}
			for range 4 {
				s.Clocks = append(s.Clocks, Clock{Seconds: paceOf(a.Setting)})
			}
			if err := tuner.Tell(s); err != nil {
				t.Fatal(err)
			}
			if a.Step == Explore || a.Step == Back {
				moved = true
				if a.Gain <= a.Cost {
					t.Errorf("%s gains %v and costs %v: %s", a.Step, a.Gain, a.Cost, a.Why)
				}
			}
			if a.Step == Stay && a.Change {
				t.Errorf("stays at another setting: %+v", a)
			}
		}
		if moved != c.moves {
			t.Errorf("changes of %v s: moved %v", c.cost, moved)
		}
	}
}

// A setting that looked good and then proves bad is abandoned.
func TestGoesBack(t *testing.T) {
	tuner, err := New(Space{Knobs: []Knob{{Name: "threads", Low: 1, High: 8, Whole: true}}}, Options{Default: Setting{4}, Every: 4, Trials: 4, Clocks: 400})
	if err != nil {
		t.Fatal(err)
	}
	tell := func(x Setting, seconds float64) {
		s := Sample{Setting: x}
		for range 4 {
			s.Clocks = append(s.Clocks, Clock{Seconds: seconds})
		}
		if err := tuner.Tell(s); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		a := tuner.Ask(0)
		tell(a.Setting, 2+math.Abs(a.Setting[0]-4))
	}
	tell(Setting{8}, 9)
	a := tuner.Ask(0)
	if best, _, _ := tuner.Best(); a.Step == Stay || a.Setting[0] == 8 || math.Abs(best[0]-4) > 1 {
		t.Errorf("after a bad setting: %+v; the best is %v", a, best)
	}
	if a.Step == Back && !strings.Contains(a.Why, "threads 8 -> ") {
		t.Errorf("reason %q", a.Why)
	}
}

// With a target, the loss is an input (section III-A): the time left falls as the loss falls, and settings are compared at the same loss. A
// setting that was used early, when much time was left, must not look worse than a slower one used late.
func TestPaperLossIsAnInput(t *testing.T) {
	space := Space{Knobs: []Knob{{Name: "threads", Low: 1, High: 8, Whole: true}}}
	tuner, err := New(space, Options{Default: Setting{1}, Every: 5, Trials: 7, Target: .01})
	if err != nil {
		t.Fatal(err)
	}
	loss := 10.
	pace := func(x Setting) float64 { return 1 + .3*math.Abs(x[0]-2) }
	for range 30 {
		a := tuner.Ask(loss)
		s := Sample{Setting: a.Setting, Loss: loss}
		for range 5 {
			loss *= .98
			s.Clocks = append(s.Clocks, Clock{Seconds: pace(a.Setting), Loss: loss})
		}
		if err := tuner.Tell(s); err != nil {
			t.Fatal(err)
		}
	}
	if best, seconds, ok := tuner.Best(); !ok || math.Abs(best[0]-2) > 1 || !(seconds > 0) {
		t.Errorf("best %v with %v s left, want 2 threads", best, seconds)
	}
}

// Infinite estimates, losses that rise, stagnate or are below the target: Ask continues.
func TestInfiniteEstimatesDoNotBreakAsk(t *testing.T) {
	tuner, err := New(nodes, Options{Default: Setting{3, 1, 4096, 0, 1}, Every: 4, Target: .5})
	if err != nil {
		t.Fatal(err)
	}
	losses := []float64{1, 1, 1.2, .9, .9, 1e-9, .8, math.Inf(1), .7, math.NaN(), .6, .6}
	for i := range 40 {
		a := tuner.Ask(losses[i%len(losses)])
		s := Sample{Setting: a.Setting, Loss: .7 + .1*float64(i%3)}
		for j := range 4 {
			s.Clocks = append(s.Clocks, Clock{Seconds: paceOf(a.Setting), Loss: losses[(i+j)%len(losses)]})
		}
		if err := tuner.Tell(s); err != nil {
			t.Fatal(err)
		}
		if !nodes.holds(a.Setting) || math.IsNaN(a.Gain) || math.IsNaN(a.Cost) {
			t.Fatalf("advice %+v", a)
		}
	}
	if _, seconds, ok := tuner.Best(); !ok || math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		t.Errorf("%v s are left", seconds)
	}
}

func TestSameJobSameAdvice(t *testing.T) {
	var runs []string
	for range 2 {
		tuner, err := New(nodes, Options{Default: Setting{3, 1, 4096, 0, 1}, Every: 4, Clocks: 400, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		_, used, _ := run(t, tuner, 120, 4, 2, nil)
		runs = append(runs, fmt.Sprint(used))
	}
	if runs[0] != runs[1] {
		t.Error("the same samples have given other settings")
	}
}

func TestOnlyAllowedSettings(t *testing.T) {
	space := nodes
	space.Allowed = func(x Setting) bool { return x[0]*x[1] <= 8 }
	tuner, err := New(space, Options{Default: Setting{3, 1, 4096, 0, 1}, Every: 4, Clocks: 400})
	if err != nil {
		t.Fatal(err)
	}
	_, used, _ := run(t, tuner, 160, 4, 2, nil)
	for _, x := range used {
		if !space.Allowed(x) {
			t.Fatalf("%s is not allowed", space.Text(x))
		}
	}
}

// Section V: the costs of techniques from changes that take several.
func TestPaperCostsPerTechnique(t *testing.T) {
	c := newCosts()
	r := rand.New(rand.NewPCG(1, 1))
	want := map[string]float64{"data": 8, "model": 3, "settings": .5}
	for i := range 30 {
		var used []string
		sum := 0.
		for _, name := range []string{"data", "model", "settings"} {
			if r.IntN(2) == 0 || i%3 == 0 {
				used, sum = append(used, name), sum+want[name]
			}
		}
		c.add(used, sum*(1+.05*r.NormFloat64()))
	}
	for name, seconds := range want {
		if got, known := c.expected([]string{name}); !known || math.Abs(got-seconds) > .15*seconds+.1 {
			t.Errorf("%s costs %v, want %v", name, got, seconds)
		}
	}
	if got, known := c.expected([]string{"threads"}); known || got < 7 {
		t.Errorf("a technique that was never seen costs %v, known %v", got, known)
	}
}

// Section III-B: outliers by studentised residuals, among the clocks of one setting.
func TestPaperOutliers(t *testing.T) {
	for _, c := range []struct {
		y    []float64
		want []int
	}{
		{[]float64{1, 1.02, .98, 1.01, 5}, []int{4}},
		{[]float64{1, 1.2, .8, 1.1, .9}, nil},
		{[]float64{1, 1, 1, 1, 1.0005}, nil},
		{[]float64{1, 9}, nil},
		{[]float64{1, 1.01, .99, 1, 1.02, 40, .98, 30, 1}, []int{5, 7}},
	} {
		var got []int
		for i, out := range outliers(c.y) {
			if out {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("outliers of %v: %v, want %v", c.y, got, c.want)
		}
	}
}

func TestBadSpacesAndOptions(t *testing.T) {
	for name, c := range map[string]struct {
		space   Space
		options Options
	}{
		"no knobs":            {Space{}, Options{Clocks: 300}},
		"turned round":        {Space{Knobs: []Knob{{Name: "a", Low: 2, High: 1}}}, Options{Default: Setting{1}, Clocks: 300}},
		"factors from 0":      {Space{Knobs: []Knob{{Name: "a", High: 1, Log: true}}}, Options{Default: Setting{1}, Clocks: 300}},
		"halves":              {Space{Knobs: []Knob{{Name: "a", High: 1.5, Whole: true}}}, Options{Default: Setting{1}, Clocks: 300}},
		"no default":          {nodes, Options{Clocks: 300}},
		"default outside":     {nodes, Options{Default: Setting{9, 1, 4096, 0, 1}, Clocks: 300}},
		"neither end":         {nodes, Options{Default: Setting{3, 1, 4096, 0, 1}}},
		"target not a number": {nodes, Options{Default: Setting{3, 1, 4096, 0, 1}, Target: math.NaN()}},
	} {
		if _, err := New(c.space, c.options); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Every setting of the space equals the one that its point of the cube represents.
func TestSettingsAndPoints(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		u := make([]float64, len(nodes.Knobs))
		for i := range u {
			u[i] = r.Float64()
		}
		x := nodes.at(u)
		back := nodes.at(nodes.unit(x))
		for i := range x {
			if math.Abs(x[i]-back[i]) > 1e-9*x[i] || !nodes.holds(x) {
				t.Fatalf("%v -> %v -> %v", u, x, back)
			}
		}
	}
}

// Ask with 200 samples, in processor time; the bound is 50 ms.
func BenchmarkAsk(b *testing.B) {
	for _, n := range []int{20, 60, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tuner, err := New(nodes, Options{Default: Setting{3, 1, 4096, 0, 1}, Every: 4, Clocks: 1e6})
			if err != nil {
				b.Fatal(err)
			}
			run(b, tuner, 4*n, 4, 1, nil)
			before := processorTime(b)
			for b.Loop() {
				if err := tuner.Tell(Sample{Setting: Setting{3, 2, 8192, 0, 1}, Loss: 1, Clocks: []Clock{{Seconds: 1}, {Seconds: 1.1}}}); err != nil {
					b.Fatal(err)
				}
				tuner.Ask(1)
				tuner.model.x, tuner.model.raw, tuner.model.process = tuner.model.x[:n], tuner.model.raw[:n], nil
			}
			b.ReportMetric((processorTime(b)-before)*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func processorTime(b *testing.B) float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
