package sweep

import (
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Summary is what all starts of one policy and length came to. Money is in dollars, times are in hours. Percentiles
// are by nearest rank: the smallest figure that so many percent do not exceed. Runs that were not done by their horizon
// count with what they had cost and taken by then.
type Summary struct {
	Policy       string  `json:"policy"`
	Rules        string  `json:"rules"`
	ComputeHours float64 `json:"compute_hours"` // of the work on the on-demand fleet, undisturbed
	Starts       int     `json:"starts"`
	Finished     int     `json:"finished"` // starts from which all work was done by the horizon

	CostMean float64 `json:"cost_mean"`
	CostSD   float64 `json:"cost_sd"`
	CostP5   float64 `json:"cost_p5"`
	CostP50  float64 `json:"cost_p50"`
	CostP95  float64 `json:"cost_p95"`
	// OnDemandCost is that of the undisturbed work on the on-demand fleet, without start-up and rounding up of hours.
	OnDemandCost float64 `json:"ondemand_cost"`
	Beats        float64 `json:"beats_ondemand"` // share of starts that cost less, from 0 to 1
	// OracleCost is the mean of the least that runs from the same starts could have cost; nil when it is not known.
	OracleCost *float64 `json:"oracle_cost"`
	// Regret is by what share of the oracle's the mean cost is higher; nil when there is none.
	Regret *float64 `json:"regret,omitempty"`

	RuntimeMean float64 `json:"runtime_mean"`
	RuntimeSD   float64 `json:"runtime_sd"`
	RuntimeP5   float64 `json:"runtime_p5"`
	RuntimeP50  float64 `json:"runtime_p50"`
	RuntimeP95  float64 `json:"runtime_p95"`

	EvictionsMean float64 `json:"evictions_mean"` // machines that the provider took, per run
	EvictionsSD   float64 `json:"evictions_sd"`
	EvictionsP5   float64 `json:"evictions_p5"`
	EvictionsP50  float64 `json:"evictions_p50"`
	EvictionsP95  float64 `json:"evictions_p95"`
}

// Summarize sums rows up by length and policy, in the order of their first row.
func Summarize(rows []Row) []Summary {
	type group struct {
		policy  string
		compute time.Duration
	}
	members := map[group][]Row{}
	var order []group
	for _, r := range rows {
		g := group{r.Policy, r.Compute}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], r)
	}
	out := []Summary{}
	for _, g := range order {
		out = append(out, summarize(members[g]))
	}
	return out
}

func summarize(rows []Row) Summary {
	first := rows[0]
	s := Summary{
		Policy: first.Policy, Rules: first.Rules, ComputeHours: first.Compute.Hours(), Starts: len(rows), OnDemandCost: first.OnDemand,
	}
	var costs, times, evictions []float64
	for _, r := range rows {
		if r.Finished() {
			s.Finished++
		}
		if dollars(r.Cost) < r.OnDemand {
			s.Beats++
		}
		costs = append(costs, dollars(r.Cost))
		times = append(times, r.Runtime.Hours())
		evictions = append(evictions, float64(r.Evictions))
	}
	s.Beats /= float64(len(rows))
	s.OracleCost = oracleCost(rows)
	s.CostMean, s.CostSD, s.CostP5, s.CostP50, s.CostP95 = distribution(costs)
	if s.OracleCost != nil && *s.OracleCost > 0 {
		regret := s.CostMean/(*s.OracleCost) - 1
		if math.Abs(regret) < 1e-9 { // sums in another order: the oracle has none against itself
			regret = 0
		}
		s.Regret = &regret
	}
	s.RuntimeMean, s.RuntimeSD, s.RuntimeP5, s.RuntimeP50, s.RuntimeP95 = distribution(times)
	s.EvictionsMean, s.EvictionsSD, s.EvictionsP5, s.EvictionsP50, s.EvictionsP95 = distribution(evictions)
	return s
}

// oracleCost is the mean over all rows, when it is known of all.
func oracleCost(rows []Row) *float64 {
	mean := 0.0
	for _, r := range rows {
		if !r.OracleKnown {
			return nil
		}
		mean += dollars(r.Oracle) / float64(len(rows))
	}
	return &mean
}

// distribution gives mean, standard deviation (of the sample) and percentiles; it sorts.
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
