package sched

import (
	"math"
	"strings"
	"testing"
)

// sold returns a market of 100 slots at a price, in addition to reliable ones for 40 cents, with this many held.
func sold(price float64, held int) *Market {
	return &Market{Wait: 180, Held: []Held{{Offer: Offer{Transient, held, price}, Host: "h0"}},
		Offers: []Offer{{Reliable, 100, .4}, {Transient, 100, price}}}
}

// alone returns a job that is not compared with others, 4 workers of which take 10 s for a clock: 8 s shared by them and 2 s not.
func alone(id string, workers int, pace ...int) Job {
	j := Job{ID: id, Sweep: id, Phase: Training, Demand: Resources{1}, WantWorkers: 4, Workers: workers, Total: 1000, Done: 100}
	for _, w := range pace {
		j.Pace = append(j.Pace, Measured{Workers: w, Speed: 1 / (32/float64(w) + 2)})
	}
	return j
}

// One more of u workers saves 32/u² s of a clock and costs 2 s of a worker. With the reliable price of 4 workers as the value of time this
// pays up to the root of 4 x 16 x the discount: 8 workers at the reliable price, 16 at a quarter of it.
func TestJobsGrowWhilePricesAreLow(t *testing.T) {
	for _, c := range []struct {
		price float64
		job   Job
		want  Supply
	}{
		{.4, alone("a", 8, 4, 8), Supply{}},
		{.1, alone("a", 8, 4, 8), Supply{Acquire: 8}},
		{.8, alone("a", 8, 4, 8), Supply{}}, // dearer than reliable slots, which are for sale
		{.1, alone("a", 4, 4), Supply{}},    // nothing is known yet: twice as many are tried
		{.1, alone("a", 8), Supply{}},       // not even this
		{.1, Job{ID: "a", Phase: Queued, Demand: Resources{2}, WantWorkers: 4}, Supply{Acquire: 8}}, // units of two slots
	} {
		s := onHosts(8, c.job)
		s.Market = sold(c.price, 8)
		p := EarlyFeedback{}.Plan(s)
		if err := Check(s, p); err != nil {
			t.Error(err)
		}
		if p.Supply == nil || p.Supply.Acquire != c.want.Acquire || p.Supply.Release != c.want.Release || !strings.Contains(p.Supply.Why, "are held") {
			t.Errorf("%+v at $%v: %+v, want %+v", c.job, c.price, p.Supply, c.want)
		}
	}
	s := onHosts(8, alone("a", 8, 4, 8))
	if p := (EarlyFeedback{}).Plan(s); p.Supply != nil {
		t.Errorf("without a market: %+v", p.Supply)
	}
	s.Market = sold(.1, 8)
	if p := (EarlyFeedback{Unpriced: true}).Plan(s); p.Supply != nil {
		t.Errorf("without prices: %+v", p.Supply)
	}
}

// Unusable slots are released, and so are slots for a job that ends before it would get them, or whose weight says that it can wait.
func TestIdleSlotsGoBack(t *testing.T) {
	s := onHosts(20)
	s.Market = sold(.1, 20)
	if p := (EarlyFeedback{}).Plan(s); p.Supply.Release != 20 || p.Supply.Acquire != 0 {
		t.Errorf("no jobs: %+v", p.Supply)
	}
	ends, light, limited := alone("a", 8, 4, 8), alone("a", 8, 4, 8), alone("a", 8, 4, 8)
	ends.Done = ends.Total - 10
	light.Weight = .25
	limited.MostWorkers = 6
	limited.Workers = 6
	for _, c := range []struct {
		job  Job
		back int
	}{{ends, 16}, {light, 12}, {limited, 14}} {
		s := onHosts(20, c.job)
		s.Market = sold(.1, 20)
		if p := (EarlyFeedback{}).Plan(s); p.Supply.Release != c.back {
			t.Errorf("%+v: %+v, want %d back", c.job, p.Supply, c.back)
		}
	}
}

// Of two trials the one with slightly worse feedback continues if it costs much less to its end; by feedback alone the other one does.
func TestImprovementPerDollar(t *testing.T) {
	better, cheaper := running("better", 0, 0, .1), running("cheaper", 0, 0, .2)
	for _, j := range []*Job{&better, &cheaper} {
		j.Phase, j.Total, j.Spent = Paused, 400, 1
	}
	better.Done, cheaper.Done = 100, 300
	s := onHosts(12, better, cheaper)
	s.Market = sold(.1, 12)
	if got := counts(EarlyFeedback{}.Plan(s)); got != "better 0+0, cheaper 8+4" {
		t.Error(got)
	}
	s.Market = nil
	if got := counts(EarlyFeedback{}.Plan(s)); got != "better 8+4, cheaper 0+0" {
		t.Error(got)
	}
}

// A trial is stopped once as many better ones as may continue have given feedback, even if those have ended; and new trials take units from
// others that they did not request before any job is paused.
func TestFeedbackCountsFinishedTrials(t *testing.T) {
	late := running("late", 8, 4, .5)
	late.Rungs = []float64{.5}
	s := onHosts(24, late)
	s.Past = []Job{{ID: "past", Rungs: []float64{.4}}}
	for most, want := range map[int]Action{1: Kill, 2: Grow} {
		if g := (EarlyFeedback{Most: most}).Plan(s).Grants[0]; g.Action != want {
			t.Errorf("of %d: %+v", most, g)
		}
	}
	s = onHosts(30, running("a", 20, 10, .5), submitted(8, 4))
	if got := counts(EarlyFeedback{}.Plan(s)); got != "a 9+5, new 8+4" {
		t.Error(got)
	}
}

// Without a price, a job gets no more units once two thirds of its clock do not shrink with them.
func TestSaturated(t *testing.T) {
	for units, want := range map[int]bool{6: false, 47: false, 49: true} { // 6/u + 1/4: at 48 units a third is shared
		j := Job{Workers: units, Pace: Pace{{Workers: 6, Speed: 1 / 1.25}, {Workers: 12, Speed: 1 / .75}}}
		if got := (&draft{Job: j}).saturated(); got != want {
			t.Errorf("%d units: %t", units, got)
		}
	}
	if (&draft{Job: Job{Workers: 99}}).saturated() {
		t.Error("without a pace")
	}
}

func TestAmdahl(t *testing.T) {
	shared, rest, known := alone("a", 8, 4, 8, 16).Pace.amdahl()
	if !known || math.Abs(shared-32) > 1e-9 || math.Abs(rest-2) > 1e-9 {
		t.Error(shared, rest, known)
	}
	if _, _, known := (Pace{{4, 0, 1}, {4, 0, 2}}).amdahl(); known {
		t.Error("one number of workers tells nothing")
	}
}

// A budget bounds how many units a job is worth: 100 clocks with 8 workers, at 32 + 2 x 8 worker seconds each, have cost a dollar, and the
// remaining 900 cost $9. A job whose budget is spent comes last.
func TestBudgets(t *testing.T) {
	for budget, want := range map[float64]int{0: 16, 100: 16, 12: 13, 10: 8, 5: 4} { // $11 allow 11/9 x 48 = 32 + 2 x 13.3 worker seconds
		j := alone("a", 8, 4, 8)
		j.Spent, j.Budget = 1, budget
		s := onHosts(16, j)
		s.Market = sold(.1, 8)
		p := EarlyFeedback{}.Plan(s)
		if got := 8 + p.Supply.Acquire - p.Supply.Release; got != want || p.Grants[0].Workers != max(want, 8) {
			t.Errorf("a budget of $%g: %d slots are worth it, want %d: %+v", budget, got, want, p.Grants[0])
		}
	}
	spent, other := running("spent", 0, 0, .1), running("other", 0, 0, .2)
	for _, j := range []*Job{&spent, &other} {
		j.Phase, j.Done, j.Total, j.Spent = Paused, 100, 400, 1
	}
	spent.Budget = 1
	s := onHosts(12, spent, other)
	s.Market = sold(.1, 12)
	p := EarlyFeedback{}.Plan(s)
	if got := counts(p); got != "other 8+4, spent 0+0" || !strings.Contains(p.Grants[0].Why, "it has cost $1, and about $3 more to its end") {
		t.Error(got, p.Grants[0].Why)
	}
}

func TestMoved(t *testing.T) {
	for price, want := range map[float64]bool{.1: false, .109: false, .112: true, .08: true} {
		if got := sold(price, 1).Moved(sold(.1, 2)); got != want {
			t.Errorf("from $0.1 to $%g: %t", price, got)
		}
	}
	none := (*Market)(nil)
	if !none.Moved(sold(.1, 1)) || !sold(.1, 1).Moved(none) || none.Moved(nil) {
		t.Error("prices that come and go")
	}
}
