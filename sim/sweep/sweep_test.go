package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func small(t testing.TB) Experiment {
	return Experiment{Job: demo(t), Policies: []string{"tierml", "on-demand"}, Hours: []time.Duration{time.Hour, 2 * time.Hour},
		Starts: Starts{Count: 8, Seed: 7}}
}

// TestCoresDoNotMatter: the rows are the same, in the same order, on one core and on many, with MTTFs measured anew each time.
func TestCoresDoNotMatter(t *testing.T) {
	p := small(t)
	var done atomic.Int64
	many, err := Run(t.Context(), p, func(int, int) { done.Add(1) })
	if err != nil || len(many) != 2*2*8 || done.Load() != 2*2*8 {
		t.Fatal(len(many), done.Load(), err)
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	one, err := Run(t.Context(), p, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(one, many) {
		t.Error("one core and many differ")
	}
	for i, r := range many {
		if i%16 >= 8 {
			continue // on-demand has no MTTF
		}
		cfg := OnEC2(p.Job, r.Compute)
		cfg.Start = r.Start
		alone, err := sim.Run(cfg)
		if err != nil || alone != r.Result {
			t.Errorf("with memory %+v\nwithout %+v (%v)", r.Result, alone, err)
		}
	}
}

// TestReliableMachinesKeepTheWorkInTheirRegion: policies with reliable machines use no pool of another region, however cheap, and this is
// reported.
func TestReliableMachinesKeepTheWorkInTheirRegion(t *testing.T) {
	p := small(t)
	want, err := Run(t.Context(), p, func(int, int) {})
	if err != nil || p.tooFarSaid() != "" {
		t.Fatal(err, p.tooFarSaid())
	}
	far := p.Job.Pools[0]
	far.Pool.Region, far.Pool.Zone, far.Type.OnDemand = "us-west-9", "us-west-9a", far.Type.OnDemand/2
	p.Job.Pools = append(slices.Clone(p.Job.Pools), far)
	got, err := Run(t.Context(), p, func(int, int) {})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a pool of another region changes a run with reliable machines (%v)", err)
	}
	if said := p.LeftOut(); len(said) == 0 || !strings.Contains(said[0], "use no pools of us-west-9") {
		t.Errorf("said: %q", said)
	}
	if p.Policies = []string{"checkpoint", "on-demand"}; p.tooFarSaid() != "" {
		t.Errorf("kill and restart goes there: %s", p.tooFarSaid())
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rows, err := Run(ctx, small(t), func(done, _ int) {
		if done == 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(rows) < 5 || len(rows) == 32 {
		t.Errorf("%d rows, error %v", len(rows), err)
	}
}

func TestStarts(t *testing.T) {
	cfg := OnEC2(demo(t), 2*time.Hour)
	first, last := window(&cfg)
	var begin, end time.Time
	for _, p := range cfg.Pools {
		if at, _ := p.History.First(); at.At.After(begin) {
			begin = at.At
		}
		if at, _ := p.History.Last(); at.At.After(end) {
			end = at.At
		}
	}
	if first.Sub(begin) < history || first.Sub(begin) >= history+time.Minute {
		t.Errorf("the first start is %s after the first price", first.Sub(begin))
	}
	if room := end.Sub(last); room < Horizon(2*time.Hour) || room >= Horizon(2*time.Hour)+time.Minute {
		t.Errorf("the last start is %s before the last price", room)
	}
	every, err := Starts{Every: true}.Times(&cfg)
	if err != nil || !every[0].Equal(first) || !every[len(every)-1].Equal(last) || every[1].Sub(every[0]) != time.Minute {
		t.Errorf("every minute: %d starts, %v", len(every), err)
	}
	some, err := Starts{Count: 50, Seed: 3}.Times(&cfg)
	if err != nil || len(some) != 50 {
		t.Fatal(len(some), err)
	}
	for i, at := range some {
		if at.Before(first) || at.After(last) || i > 0 && !at.After(some[i-1]) {
			t.Errorf("start %d is %s", i, at)
		}
	}
	again, _ := Starts{Count: 50, Seed: 3}.Times(&cfg)
	other, _ := Starts{Count: 50, Seed: 4}.Times(&cfg)
	if !reflect.DeepEqual(some, again) || reflect.DeepEqual(some, other) {
		t.Error("the seed must choose the starts, and nothing else")
	}
	cfg.Horizon = 1000 * 24 * time.Hour
	if _, err := (Starts{Every: true}).Times(&cfg); err == nil {
		t.Error("starts without room behind them")
	}
	for _, text := range []string{"0", "-3", "sometimes", "2014-04-11"} {
		if _, err := ParseStarts(text, 1); err == nil {
			t.Errorf("starts %q are taken", text)
		}
	}
}

func TestSummarize(t *testing.T) {
	var rows []Row
	for i := range 20 { // costs 1 to 20 dollars
		rows = append(rows, Row{Policy: "p", Rules: "r", Compute: 2 * time.Hour, OnDemand: 10.5, Result: sim.Result{Start: time.Unix(int64(i), 0),
			Cost: market.USD(i+1) * market.Dollar, Runtime: time.Duration(i+1) * time.Hour, Evictions: i % 2, Outcome: "finished",
			Moved: market.USD(i%2) * market.Dollar / 4,
		}})
	}
	rows = append(rows, Row{Policy: "q", Compute: 3 * time.Hour, Result: sim.Result{Outcome: "finished"}})
	got := Summarize(rows)
	if len(got) != 2 || got[1].Policy != "q" || got[1].CostSD != 0 || got[1].Compared != 1 {
		t.Fatalf("%+v", got)
	}
	s := got[0]
	want := math.Sqrt(35) // of 1..20, by (n^2-1)/12 x n/(n-1)
	if s.Starts != 20 || s.Finished != 20 || s.Compared != 20 || s.CostMean != 10.5 || s.CostP5 != 1 || s.CostP50 != 10 || s.CostP95 != 19 ||
		math.Abs(s.CostSD-want) > 1e-9 || s.Beats != 0.5 || s.EvictionsMean != 0.5 || s.EgressMean != 0.125 || s.RuntimeP95 != 19 || s.ComputeHours != 2 {
		t.Errorf("%+v; sd wanted %v", s, want)
	}
}

// TestFiguresAreOfEqualWork: every figure covers only the starts from which all compared policies did all the work; a policy that hardly
// ever does is shown so, excludes no start for the others, and has no figures: not 0, which would be one.
func TestFiguresAreOfEqualWork(t *testing.T) {
	var rows []Row
	add := func(policy string, cost, start int, outcome string) {
		r := Row{Policy: policy, OnDemand: 5, Oracle: market.Dollar, OracleKnown: true, Result: sim.Result{Start: time.Unix(int64(start), 0),
			Cost: market.USD(cost) * market.Dollar, Runtime: time.Duration(cost) * time.Hour, Evictions: cost, Outcome: outcome}}
		rows = append(rows, r)
	}
	for i := range 10 {
		add("all", 10+i, i, "finished")
	}
	for i := range 10 { // it stops early where "all" is dear, so its mean over all starts would be 2.2
		if i < 6 {
			add("some", 3, i, "finished")
		} else {
			add("some", 1, i, []string{"interrupted", "failed"}[i%2])
		}
	}
	for i := range 10 {
		add("hardly", 1, i, []string{"finished", "failed"}[min(i, 1)])
	}
	for i := range 10 {
		add(OracleFullBid, 2, i, "finished")
	}
	for i := range 10 {
		add(Oracle, 1, i, "finished")
	}
	got := Summarize(rows)
	all, some, hardly, full, least := got[0], got[1], got[2], got[3], got[4]
	if all.Finished != 10 || all.Compared != 6 || all.CostMean != 12.5 || all.CostP95 != 15 || all.RuntimeMean != 12.5 || all.Beats != 0 {
		t.Errorf("a policy that always finishes: %+v", all)
	}
	if some.Finished != 6 || some.Failed != 2 || some.Compared != 6 || some.CostMean != 3 || some.EvictionsMean != 3 || some.Beats != 1 {
		t.Errorf("a policy that stops early: %+v", some)
	}
	if hardly.Finished != 1 || hardly.Compared != 0 || hardly.OracleCost != nil || hardly.Regret != nil {
		t.Errorf("a policy that hardly finishes: %+v", hardly)
	}
	for _, s := range []Summary{all, some, full, least} {
		if s.RegretOf != OracleFullBid || s.Regret == nil || *s.Regret != s.CostMean/2-1 {
			t.Errorf("%s regrets %v against %s: one oracle is the measure of all", s.Policy, s.Regret, s.RegretOf)
		}
	}
	text, err := json.Marshal(hardly)
	var fields map[string]any
	if err = errors.Join(err, json.Unmarshal(text, &fields)); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		_, figure := value.(float64)
		if strings.HasPrefix(name, "cost_") || strings.HasPrefix(name, "runtime_") || strings.HasPrefix(name, "evictions_") || name == "beats_ondemand" {
			if value != nil {
				t.Errorf("%s is %v, and there is none", name, value)
			}
		} else if name == "starts" && !figure {
			t.Errorf("%s: %s", name, text)
		}
	}
	if len(fields) < 20 {
		t.Errorf("%d fields: %s", len(fields), text)
	}
}

// TestRunsGoToTheirEnd: a run that max_duration would have ended continues, so that all do the same work, and is counted.
func TestRunsGoToTheirEnd(t *testing.T) {
	p := Experiment{Job: demo(t), Policies: []string{"tierml", "on-demand"}, Starts: Starts{Count: 6, Seed: 1}}
	p.Job.MaxDuration = 6 * time.Hour
	rows, err := Run(t.Context(), p, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Summarize(rows) {
		if s.Finished != 6 || s.Compared != 6 || s.TooLong != 6 || s.RuntimeP5 <= 6 {
			t.Errorf("%s: %d of %d done, %d compared, %d too long, in %.1f h", s.Policy, s.Finished, s.Starts, s.Compared, s.TooLong, s.RuntimeP5)
		}
	}
}

// TestStreamStops: an error of the rows' consumer ends everything, and no row follows it.
func TestStreamStops(t *testing.T) {
	full, taken := errors.New("no space left"), 0
	err := Stream(t.Context(), small(t), func(Row) error {
		if taken++; taken == 3 {
			return full
		}
		return nil
	}, func(int, int) {})
	if !errors.Is(err, full) || taken != 3 {
		t.Errorf("%d rows, error %v", taken, err)
	}
}

// TestRecollectionForgets: the memory does not grow with the number of starts.
func TestRecollectionForgets(t *testing.T) {
	r, made := newRecollection(8*time.Hour), 0
	recall := func(key int) int {
		return r.Recall(key, func() any { made++; return key }).(int)
	}
	for start := range 1000 {
		for hour := range 8 { // a run uses as many forecasts as it has hours
			if key := start/4 + hour; recall(key) != key {
				t.Fatalf("%d is remembered as %d", key, recall(key))
			}
		}
	}
	if made != 250+7 || len(r.known) > r.most || len(r.order) > r.most {
		t.Errorf("%d made of 257, %d kept of at most %d", made, len(r.known), r.most)
	}
}

// TestOnDemandPolicy: the whole fleet on demand, whatever prices do.
func TestOnDemandPolicy(t *testing.T) {
	cfg := OnEC2(demo(t), 2*time.Hour)
	r, err := sim.Run(WithPolicy(cfg, bidding.OnDemand{}))
	if err != nil || !r.Finished() || r.Machines != 16 || r.Evictions != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if want := 3 * 16 * 239 * market.Dollar / 1000; r.Cost != want { // three started hours: two and the start-up
		t.Errorf("it cost %s, want %s", r.Cost, want)
	}
}

// TestWorkersShareNothing: policies that cache results do so per worker, so that several workers may run starts of the same policy; and the
// cache changes no result.
func TestWorkersShareNothing(t *testing.T) {
	p := small(t)
	p.Policies, p.Hours, p.Starts.Count = []string{"deadline", "cost-per-work"}, p.Hours[1:], 3*blockLength
	before := runtime.GOMAXPROCS(3)
	defer runtime.GOMAXPROCS(before)
	many, err := Run(t.Context(), p, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GOMAXPROCS(1)
	one, err := Run(t.Context(), p, func(int, int) {})
	if err != nil || !reflect.DeepEqual(one, many) {
		t.Errorf("one worker and three differ (%v)", err)
	}
}
