package sweep

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Summary has the results of all starts for one policy and length. Money is in dollars, times are in hours. Percentiles
// use the nearest rank: the smallest figure that at least this percentage does not exceed.
//
// All figures of a length cover the same starts for all policies: those from which each policy did all the work
// (Compared). A mean over runs that stopped early, or over starts that happened to suit one policy, would compare
// unequal work. A policy that finished from fewer than half of its starts is not compared, so that it does not remove
// the others' starts.
type Summary struct {
	Policy       string  `json:"policy"`
	Rules        string  `json:"rules"`
	ComputeHours float64 `json:"compute_hours"` // of the undisturbed work on the on-demand fleet
	Starts       int     `json:"starts"`
	Finished     int     `json:"finished"` // starts from which all work was done by the horizon
	Failed       int     `json:"failed"`   // starts from which the work is impossible; the others were given up at the horizon
	Limited
	// Compared is the number of starts that the figures below cover; 0 = there are no figures.
	Compared int `json:"compared"`

	CostMean float64 `json:"cost_mean"`
	CostSD   float64 `json:"cost_sd"`
	CostP5   float64 `json:"cost_p5"`
	CostP50  float64 `json:"cost_p50"`
	CostP95  float64 `json:"cost_p95"`
	// OnDemandCost is the cost of the undisturbed work on the on-demand fleet, without start-up and rounding up of
	// hours.
	OnDemandCost float64 `json:"ondemand_cost"`
	Beats        float64 `json:"beats_ondemand"` // share of starts that cost less, from 0 to 1
	// OracleCost is the mean of the least that runs of this policy could have cost; nil if unknown.
	OracleCost *float64 `json:"oracle_cost"`
	// Regret is the share by which the mean cost exceeds RegretOf's, the first oracle among the policies; nil without
	// one.
	Regret   *float64 `json:"regret,omitempty"`
	RegretOf string   `json:"regret_of,omitempty"`
	// Kept is this policy's share of the clairvoyant's saving against on demand; nil if the clairvoyant is not among
	// the policies, or saves nothing.
	Kept *float64 `json:"kept,omitempty"`

	RuntimeMean float64 `json:"runtime_mean"`
	RuntimeSD   float64 `json:"runtime_sd"`
	RuntimeP5   float64 `json:"runtime_p5"`
	RuntimeP50  float64 `json:"runtime_p50"`
	RuntimeP95  float64 `json:"runtime_p95"`

	EvictionsMean float64 `json:"evictions_mean"` // machines that the provider reclaimed, per run
	EvictionsSD   float64 `json:"evictions_sd"`
	EvictionsP5   float64 `json:"evictions_p5"`
	EvictionsP50  float64 `json:"evictions_p50"`
	EvictionsP95  float64 `json:"evictions_p95"`

	// EgressMean is the part of the cost for state that moved between regions.
	EgressMean float64 `json:"egress_mean,omitempty"`
}

// Limited is the effect of the job's limits on its runs.
type Limited struct {
	TooLong int `json:"too_long"` // finished after the job's max_duration, at which a real run is ended
	TooDear int `json:"too_dear"` // finished above its budget, at which a real run is ended
	// Ended describes the last run that was ended cleanly before its work was done; empty = none was.
	Ended string `json:"ended,omitempty"`
}

// MarshalJSON writes null for missing figures: 0 would look like a value.
func (s Summary) MarshalJSON() ([]byte, error) {
	type plain Summary
	if s.Compared > 0 {
		return json.Marshal(plain(s))
	}
	return json.Marshal(struct {
		plain
		CostMean      *float64 `json:"cost_mean"`
		CostSD        *float64 `json:"cost_sd"`
		CostP5        *float64 `json:"cost_p5"`
		CostP50       *float64 `json:"cost_p50"`
		CostP95       *float64 `json:"cost_p95"`
		Beats         *float64 `json:"beats_ondemand"`
		RuntimeMean   *float64 `json:"runtime_mean"`
		RuntimeSD     *float64 `json:"runtime_sd"`
		RuntimeP5     *float64 `json:"runtime_p5"`
		RuntimeP50    *float64 `json:"runtime_p50"`
		RuntimeP95    *float64 `json:"runtime_p95"`
		EvictionsMean *float64 `json:"evictions_mean"`
		EvictionsSD   *float64 `json:"evictions_sd"`
		EvictionsP5   *float64 `json:"evictions_p5"`
		EvictionsP50  *float64 `json:"evictions_p50"`
		EvictionsP95  *float64 `json:"evictions_p95"`
	}{plain: plain(s)})
}

// Tally collects rows for summaries. It keeps a few numbers per row.
type Tally struct {
	groups []*group // in the order of their first rows
	First  time.Time
	Last   time.Time // over all starts
	Rules  string
	Rows   int
}

// group has the runs of a policy and length.
type group struct {
	Summary
	compute time.Duration
	runs    []outcome
}

// outcome is the part of a row that is kept.
type outcome struct {
	start       int64 // Unix seconds
	cost        market.USD
	oracle      market.USD
	moved       market.USD
	runtime     time.Duration
	evictions   int32
	finished    bool
	oracleKnown bool
}

// Add adds a row. Rows of a policy and length must be consecutive, as from Stream.
func (t *Tally) Add(r Row) {
	if t.Rows == 0 || r.Start.Before(t.First) {
		t.First = r.Start
	}
	if r.Start.After(t.Last) {
		t.Last = r.Start
	}
	t.Rows, t.Rules = t.Rows+1, r.Rules
	n := len(t.groups)
	if n == 0 || t.groups[n-1].Policy != r.Policy || t.groups[n-1].compute != r.Compute {
		t.groups = append(t.groups, &group{compute: r.Compute, Summary: Summary{Policy: r.Policy, Rules: r.Rules,
			ComputeHours: r.Compute.Hours(), OnDemandCost: r.OnDemand}})
		n++
	}
	g := t.groups[n-1]
	g.Starts++
	switch {
	case r.Finished():
		g.Finished++
	case r.Outcome == "failed":
		g.Failed++
	}
	if r.Finished() && r.TooLong {
		g.TooLong++
	}
	if r.Finished() && r.TooDear {
		g.TooDear++
	}
	if r.Outcome == "interrupted" && r.Why != "" {
		g.Ended = fmt.Sprintf("%s after %.1f h with %.0f %% of the work done, as %s", r.Cost.Cents(), r.Runtime.Hours(), 100*r.Done, r.Why)
	}
	g.runs = append(g.runs, outcome{r.Start.Unix(), r.Cost, r.Oracle, r.Moved, r.Runtime, int32(r.Evictions), r.Finished(), r.OracleKnown})
}

// Summaries returns a summary for each policy and length, in the order of their first rows.
func (t *Tally) Summaries() []Summary {
	out := []Summary{}
	for first := 0; first < len(t.groups); {
		end := first
		for end < len(t.groups) && t.groups[end].compute == t.groups[first].compute {
			end++
		}
		out = append(out, compare(t.groups[first:end])...)
		first = end
	}
	return out
}

// compare summarises the policies of a length.
func compare(groups []*group) (out []Summary) {
	most := 0
	for _, g := range groups {
		most = max(most, g.Starts)
	}
	compared := func(g *group) bool { return 2*g.Finished >= most && g.Finished > 0 }
	finished, policies := map[int64]int{}, 0 // by start: number of compared policies that finished
	for _, g := range groups {
		if !compared(g) {
			continue
		}
		policies++
		for i := range g.runs {
			if g.runs[i].finished {
				finished[g.runs[i].start]++
			}
		}
	}
	var oracle *Summary
	for _, g := range groups {
		s := g.Summary
		if compared(g) {
			s.figures(g.runs, func(o *outcome) bool { return finished[o.start] == policies })
		}
		out = append(out, s)
	}
	for i := range out {
		if oracle == nil && IsOracle(out[i].Policy) && out[i].Compared > 0 {
			oracle = &out[i]
		}
	}
	compareWithClairvoyant(out)
	for i := range out {
		if s := &out[i]; oracle != nil && s.Compared > 0 {
			s.RegretOf = oracle.Policy
			if oracle.CostMean > 0 {
				regret := s.CostMean/oracle.CostMean - 1
				s.Regret = &regret
			}
		}
	}
	return out
}

// compareWithClairvoyant compares policies' savings with the clairvoyant's.
func compareWithClairvoyant(all []Summary) {
	n := slices.IndexFunc(all, func(s Summary) bool { return s.Policy == Clairvoyant && s.Compared > 0 })
	if n < 0 || all[n].CostMean >= all[n].OnDemandCost {
		return
	}
	most := all[n].OnDemandCost - all[n].CostMean
	for i := range all {
		if s := &all[i]; s.Compared > 0 {
			kept := (s.OnDemandCost - s.CostMean) / most
			s.Kept = &kept
		}
	}
}

// figures computes the figures from the runs that count.
func (s *Summary) figures(runs []outcome, counts func(*outcome) bool) {
	var costs, times, evictions []float64
	least, known := 0.0, true
	for i := range runs {
		r := &runs[i]
		if !counts(r) {
			continue
		}
		s.Compared++
		if dollars(r.cost) < s.OnDemandCost {
			s.Beats++
		}
		costs = append(costs, dollars(r.cost))
		times = append(times, r.runtime.Hours())
		evictions = append(evictions, float64(r.evictions))
		least, known = least+dollars(r.oracle), known && r.oracleKnown
		s.EgressMean += dollars(r.moved)
	}
	if s.Compared == 0 {
		return
	}
	s.Beats /= float64(s.Compared)
	s.EgressMean /= float64(s.Compared)
	if known {
		least /= float64(s.Compared)
		s.OracleCost = &least
	}
	s.CostMean, s.CostSD, s.CostP5, s.CostP50, s.CostP95 = distribution(costs)
	s.RuntimeMean, s.RuntimeSD, s.RuntimeP5, s.RuntimeP50, s.RuntimeP95 = distribution(times)
	s.EvictionsMean, s.EvictionsSD, s.EvictionsP5, s.EvictionsP50, s.EvictionsP95 = distribution(evictions)
}

// Summarize summarises rows by length and policy, in the order of their first rows.
func Summarize(rows []Row) []Summary {
	var t Tally
	for _, r := range rows {
		t.Add(r)
	}
	return t.Summaries()
}

// distribution returns mean, standard deviation (of the sample) and percentiles; it sorts x.
func distribution(x []float64) (mean, sd, p5, p50, p95 float64) {
	slices.Sort(x)
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	if len(x) > 1 {
		for _, v := range x {
			sd += (v - mean) * (v - mean) / float64(len(x)-1)
		}
	}
	rank := func(p int) float64 { return x[max(1, (len(x)*p+99)/100)-1] }
	return mean, math.Sqrt(sd), rank(5), rank(50), rank(95)
}

func dollars(u market.USD) float64 { return float64(u) / float64(market.Dollar) }
