package sweep

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/sim"
)

// cut removes the prices between two times from a job's recording.
func cut(cfg sim.Config, from, to time.Time) sim.Config {
	points := map[market.Pool][]market.PricePoint{}
	for _, p := range cfg.Pools {
		last, _ := p.History.Last()
		for _, point := range p.History.Points(time.Time{}, last.At) {
			if p.Pool.Class == market.Spot && (!point.At.After(from) || !point.At.Before(to)) {
				points[p.Pool] = append(points[p.Pool], point)
			}
		}
	}
	recorded := trace.New(trace.Of(points), trace.Summary{})
	pools := cfg.Pools
	cfg.Pools = nil
	for _, p := range pools {
		if h := recorded.History(p.Pool); h != nil {
			p.History = h
		}
		cfg.Pools = append(cfg.Pools, p)
	}
	return cfg
}

// TestNoStartMeetsAHole: if 16 days were not recorded, no start counts whose work would fall into them, or begin soon after; the others
// count as before, and omissions are reported.
func TestNoStartMeetsAHole(t *testing.T) {
	from, to := time.Date(2014, 3, 10, 0, 0, 0, 0, time.UTC), time.Date(2014, 3, 26, 0, 0, 0, 0, time.UTC)
	whole := demo(t)
	cfg := OnEC2(cut(whole, from, to), 8*time.Hour)
	inHole := func(at time.Time) bool {
		return at.Add(8*time.Hour).After(from) && at.Before(to.Add(3*24*time.Hour))
	}
	for _, s := range []Starts{{Count: 100, Seed: 1}, {Every: true}} {
		starts, err := s.Times(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		after := 0
		for i, at := range starts {
			if inHole(at) {
				t.Fatalf("start %d of %+v, %s, is in the hole", i, s, at)
			}
			if i > 0 && !at.After(starts[i-1]) {
				t.Fatalf("start %d, %s, is not after the one before", i, at)
			}
			if at.After(to) {
				after++
			}
		}
		if s.Count > 0 && len(starts) != s.Count || after == 0 || after == len(starts) {
			t.Errorf("%+v: %d starts, %d after the hole", s, len(starts), after)
		}
		if said := (Experiment{Job: cut(whole, from, to), Hours: []time.Duration{8 * time.Hour}, Starts: s}).LeftOut(); len(said) != 1 || !strings.Contains(said[0], "not recorded") {
			t.Errorf("%+v: %q", s, said)
		}
	}
	named := Experiment{Job: cut(whole, from, to), Hours: []time.Duration{8 * time.Hour}, Starts: Starts{At: from.Add(24 * time.Hour)}}
	if said := named.LeftOut(); len(said) != 1 || !strings.Contains(said[0], "2014-03-11T00:00:00Z") {
		t.Errorf("a start that is named: %q", said)
	}
	for _, s := range []Starts{{Count: 9}, {Every: true}, {At: to}} {
		if said := (Experiment{Job: whole, Hours: []time.Duration{8 * time.Hour}, Starts: s}).LeftOut(); len(said) > 0 {
			t.Errorf("without a hole: %q", said)
		}
	}
}

// TestPastLeavesOutHoles: the estimate of a plan does the same, and reports how many.
func TestPastLeavesOutHoles(t *testing.T) {
	cfg, in := pastJob(t, always)
	all := estimate(t, cfg, in)
	if strings.Contains(all.Basis, "left out") {
		t.Fatalf("without a hole: %s", all.Basis)
	}
	some := estimate(t, cut(cfg, cfg.Start.Add(-5*24*time.Hour), cfg.Start.Add(-3*24*time.Hour)), in)
	if !some.Cost.Known || !strings.Contains(some.Basis, "starts are left out, as prices were not recorded") || strings.HasPrefix(some.Basis, "169 ") {
		t.Errorf("%s", some.Basis)
	}
	none := estimate(t, cut(cfg, cfg.Start.Add(-29*24*time.Hour), cfg.Start.Add(-4*time.Hour)), in)
	if none.Cost.Known || !strings.Contains(none.Basis, "not recorded") {
		t.Errorf("%+v", none)
	}
}
