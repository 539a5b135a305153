package planner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
)

// Wish is a job's objective: its cost, and the value of the owner's time.
type Wish struct {
	// ValueOfTime is the value of an hour less: candidates compare by cost + ValueOfTime x hours.
	ValueOfTime market.USD
	// Within and Budget bound the 95th percentiles of run time and cost; 0 = no bound.
	Within time.Duration
	Budget market.USD
}

// Trial is a candidate's result from one start in the past.
type Trial struct {
	Cost  float64 // dollars
	Hours float64
	// GivenUp: it took too long, and the figures extrapolate its own pace.
	GivenUp bool `json:",omitempty"`
}

// Trials are one candidate's results, from the same starts for all candidates.
type Trials struct {
	Policy  string
	Runs    []Trial
	Refused string // why it cannot run the job; "" = it can
	Dropped string // why it was simulated from fewer starts than others (RuledOut); "" = it was not
}

// Sample is a run in which candidates are tried, and its weight.
type Sample struct {
	Start  time.Time // in the past, or now
	Draw   int       // of the evictions that prices do not show; 0 is the start's own
	Now    bool      // the prices of the start are constant; otherwise the run meets the following ones
	Weight float64
}

// Choice is how `policy: auto` was decided.
type Choice struct {
	Policy     string
	Why        string
	Wish       Wish
	Candidates []Judged // the best first, then those that were dropped early, and those that cannot run the job last
}

// Judged is a candidate with its figures: weighted means and percentiles over its past starts.
type Judged struct {
	Policy          string
	Starts          int
	Cost, CostP95   float64 // dollars
	Hours, HoursP95 float64
	Mean            float64 // dollars, of cost + value of time x hours
	// Against is the mean difference from the chosen policy over the common starts, and StdError its standard error, as shares of the
	// chosen one's mean there.
	Against, StdError float64
	Dropped           bool   // it was simulated from fewer starts than the chosen policy: its means are not comparable with others
	Why               string // why it is not chosen, if not because of its mean
}

// figure returns the figure by which candidates are compared, in dollars.
func (w Wish) figure(t Trial) float64 {
	return t.Cost + float64(w.ValueOfTime)/float64(market.Dollar)*t.Hours
}

const (
	// MinTrials is the number of past starts that a choice needs.
	MinTrials = 8
	// sure is how many standard errors above the best a candidate's cost must be for it to be ruled out early.
	sure = 3
)

// Choose returns the candidate with the least mean of cost + value of time x hours over past starts, or the default if there are too few
// starts. Samples are those of all runs; candidates that were dropped early have fewer.
func Choose(w Wish, standard string, samples []Sample, candidates []Trials) Choice {
	c := Choice{Policy: standard, Wish: w}
	base := -1
	for i := range candidates {
		if candidates[i].Policy == standard && candidates[i].Refused == "" {
			base = i
		}
	}
	if len(samples) < MinTrials || base < 0 {
		c.Why = fmt.Sprintf("%s, the default: %s", standard, tooFew(len(samples), MinTrials))
		return c
	}
	most := 0
	for i := range candidates {
		most = max(most, len(candidates[i].Runs))
		c.Candidates = append(c.Candidates, judge(w, &candidates[i], samples))
	}
	chosen := base
	for i, j := range c.Candidates {
		if j.Starts == most && (c.Candidates[chosen].Starts < most || c.before(j, c.Candidates[chosen])) {
			chosen = i
		}
	}
	c.explain(chosen, samples[:most])
	for i := range candidates {
		j := &c.Candidates[i]
		j.Against, j.StdError = against(w, &candidates[i], &candidates[chosen], samples)
		if j.Dropped = j.Starts > 0 && j.Starts < most; j.Dropped {
			j.Why = cmp.Or(candidates[i].Dropped, j.Why)
		}
	}
	c.sort()
	return c
}

// RuledOut returns, by name of the candidate, why the first starts rule it out: its mean is above the best one's by three standard errors
// or more. The best must satisfy the wish's bounds. None is ruled out if no candidate does, or the starts are too few. Candidates that
// cannot run the job, or were already ruled out, are ignored.
func RuledOut(w Wish, samples []Sample, candidates []Trials) map[string]string {
	out := map[string]string{}
	if len(samples) < MinTrials {
		return out
	}
	var best *Trials
	var least Judged
	for i := range candidates {
		t := &candidates[i]
		if t.Refused != "" || len(t.Runs) < len(samples) {
			continue
		}
		j := judge(w, t, samples)
		if best == nil || least.Why != "" && j.Why == "" || (least.Why == "") == (j.Why == "") && j.Mean < least.Mean {
			best, least = t, j
		}
	}
	if best == nil || least.Why != "" {
		return out
	}
	for i := range candidates {
		t := &candidates[i]
		if t == best || t.Refused != "" || len(t.Runs) < len(samples) {
			continue
		}
		if more, err := against(w, t, best, samples); more >= sure*err {
			out[t.Policy] = fmt.Sprintf("%.1f ± %.1f %% dearer in %d starts than %s", 100*more, 100*err, len(samples), best.Policy)
			if more == 0 {
				out[t.Policy] = fmt.Sprintf("the same in %d starts as %s", len(samples), best.Policy)
			}
		}
	}
	return out
}

// against returns the weighted mean difference of a candidate from another over the common starts, and its standard error, as shares of the
// other's mean.
func against(w Wish, t, other *Trials, samples []Sample) (share, stdError float64) {
	n := min(len(t.Runs), len(other.Runs))
	var difference, weights, base float64
	for i, s := range samples[:n] {
		weights += s.Weight
		difference += s.Weight * (w.figure(t.Runs[i]) - w.figure(other.Runs[i]))
		base += s.Weight * w.figure(other.Runs[i])
	}
	if base <= 0 {
		return 0, 0
	}
	mean := difference / weights
	// Starts of one day meet the same prices: days are the independent unit. If there is only one start, draws are.
	group := func(s Sample) int64 { return s.Start.Unix() / 86400 }
	if oneStart(samples) {
		group = func(s Sample) int64 { return int64(s.Draw) }
	}
	groups := map[int64]float64{}
	for i, s := range samples[:n] {
		groups[group(s)] += s.Weight * (w.figure(t.Runs[i]) - w.figure(other.Runs[i]) - mean)
	}
	variance := 0.0
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		variance += groups[g] * groups[g]
	}
	return difference / base, math.Sqrt(variance) / base
}

// oneStart reports whether samples differ only in the drawn evictions.
func oneStart(samples []Sample) bool {
	return !slices.ContainsFunc(samples, func(s Sample) bool { return !s.Start.Equal(samples[0].Start) })
}

// judge computes a candidate's own figures.
func judge(w Wish, t *Trials, samples []Sample) Judged {
	j := Judged{Policy: t.Policy, Why: t.Refused, Starts: len(t.Runs)}
	if t.Refused != "" || len(t.Runs) == 0 {
		j.Starts = 0
		return j
	}
	sum := 0.0
	for i, r := range t.Runs {
		weight := samples[i].Weight
		sum += weight
		j.Mean += weight * w.figure(r)
		j.Cost += weight * r.Cost
		j.Hours += weight * r.Hours
	}
	j.Mean, j.Cost, j.Hours = j.Mean/sum, j.Cost/sum, j.Hours/sum
	j.CostP95 = weighted(t.Runs, samples, func(r Trial) float64 { return r.Cost })
	j.HoursP95 = weighted(t.Runs, samples, func(r Trial) float64 { return r.Hours })
	switch {
	case w.Within > 0 && j.HoursP95 > w.Within.Hours():
		j.Why = fmt.Sprintf("its 95th percentile exceeds the %.4g h that max_duration and deadline leave", w.Within.Hours())
	case w.Budget > 0 && j.CostP95 > float64(w.Budget)/float64(market.Dollar):
		j.Why = "its 95th percentile is above the budget"
	}
	return j
}

// before reports whether a candidate is the better choice: one that satisfies the wish's bounds, by its mean, or if none does the one that
// misses them by least. Misses count in tenths of the bound: twice the cost for an hour less beyond a day is no better.
func (c *Choice) before(a, b Judged) bool {
	tenths := func(j Judged) float64 {
		if by := c.Wish.missedBy(j); by > 0 {
			return 1 + math.Floor(10*by)
		}
		return 0
	}
	if a, b := tenths(a), tenths(b); a != b {
		return a < b
	}
	return a.Mean < b.Mean
}

// missedBy returns the share by which a candidate's 95th percentiles exceed the bounds; 0 = it satisfies them.
func (w Wish) missedBy(j Judged) float64 {
	by := 0.0
	if w.Within > 0 {
		by = max(by, j.HoursP95/w.Within.Hours()-1)
	}
	if w.Budget > 0 {
		by = max(by, j.CostP95/(float64(w.Budget)/float64(market.Dollar))-1)
	}
	return by
}

// weighted returns the 95th percentile of a figure.
func weighted(runs []Trial, samples []Sample, figure func(Trial) float64) float64 {
	type entry struct{ figure, weight float64 }
	entries, total := make([]entry, len(runs)), 0.0
	for i, r := range runs {
		entries[i] = entry{figure(r), samples[i].Weight}
		total += samples[i].Weight
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.figure, b.figure) })
	sum := 0.0
	for _, e := range entries {
		if sum += e.weight; sum >= 0.95*total {
			return e.figure
		}
	}
	return entries[len(entries)-1].figure
}

// explain names the chosen candidate and the reason.
func (c *Choice) explain(chosen int, samples []Sample) {
	c.Policy, c.Why = c.Candidates[chosen].Policy, "the best "+basisOf(samples)
	if c.Wish.missedBy(c.Candidates[chosen]) > 0 {
		c.Why = "no policy keeps the deadline and the budget in 19 of 20 cases, and it misses them by least, " + basisOf(samples)
	}
}

func basisOf(samples []Sample) string {
	first, last, starts := samples[0].Start, samples[0].Start, map[time.Time]bool{}
	for _, s := range samples {
		if starts[s.Start] = true; s.Start.Before(first) {
			first = s.Start
		} else if s.Start.After(last) {
			last = s.Start
		}
	}
	if oneStart(samples) {
		return fmt.Sprintf("by %d draws of evictions at the prices of %s, in the rules of this job", len(samples), first.UTC().Format(timeForm))
	}
	draws := ""
	if len(samples) > len(starts) {
		draws = fmt.Sprintf(" with %d draws of evictions", len(samples))
	}
	return fmt.Sprintf("by %d past starts from %s to %s%s, in the rules and prices of this job", len(starts), first.UTC().Format(timeForm),
		last.UTC().Format(timeForm), draws)
}

// sort puts the best first, then dropped ones, the last dropped first, and finally those that cannot run the job.
func (c *Choice) sort() {
	slices.SortStableFunc(c.Candidates, func(a, b Judged) int {
		figure := func(j Judged) float64 {
			if j.Dropped {
				return j.Against
			}
			return j.Mean
		}
		return cmp.Or(compareBool(a.Starts == 0, b.Starts == 0), cmp.Compare(b.Starts, a.Starts), cmp.Compare(figure(a), figure(b)))
	})
}

// details returns the choice in the journal's form.
func (c *Choice) details() *journal.PlanAuto {
	if c == nil {
		return nil
	}
	a := &journal.PlanAuto{Why: c.Why}
	if c.Wish.ValueOfTime > 0 {
		a.ValueOfTime = c.Wish.ValueOfTime.String()
	}
	for _, j := range c.Candidates {
		a.Candidates = append(a.Candidates, journal.PlanCandidate{Policy: j.Policy, Starts: j.Starts, Cost: j.Cost, CostP95: j.CostP95, Hours: j.Hours,
			HoursP95: j.HoursP95, Against: j.Against, StdError: j.StdError, Chosen: j.Policy == c.Policy, Dropped: j.Dropped, Why: j.Why})
	}
	return a
}

// writeChoice prints the table behind the decision of `policy: auto`.
func (p *Plan) writeChoice(b *terminal.Text, s Style) {
	c := p.Choice
	if c == nil {
		return
	}
	s.paragraph(b, 2, "", "Policy auto is "+c.Policy+": "+c.Why+".")
	if len(c.Candidates) > 0 {
		g := &grid.Grid{Head: []string{"", "POLICY", ">MEAN COST", ">P95", ">HOURS", ">P95", "AGAINST " + strings.ToUpper(c.Policy)}, Names: 2}
		judged := slices.Clone(c.Candidates)
		slices.SortStableFunc(judged, func(a, b Judged) int { return cmp.Compare(a.unjudged(), b.unjudged()) })
		for _, j := range judged {
			g.Add(j.cells(c.Policy)...)
			g.Remark(j.Why)
		}
		s.table(b, g, func(row int) string {
			if judged[row].Policy == c.Policy {
				return green
			}
			return ""
		})
		if c.Wish.ValueOfTime > 0 {
			s.paint(b, "  ", faint, "An hour counts "+c.Wish.ValueOfTime.Cents()+".")
		}
	}
	b.WriteString("\n")
}

// unjudged is 1 for a candidate that was dropped or not tried, which comes after the others.
func (j Judged) unjudged() int {
	if j.Dropped || j.Starts == 0 {
		return 1
	}
	return 0
}

// cells returns a candidate's cells in the table, if a policy is chosen.
func (j Judged) cells(chosen string) []string {
	dollars := func(x float64) string { return fmt.Sprintf("$%.2f", x) }
	hours := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	against := fmt.Sprintf("%+.1f %% ± %.1f", 100*j.Against, 100*j.StdError)
	switch {
	case j.Dropped:
		return []string{"", j.Policy, "", "", "", "", fmt.Sprintf("%s, dropped after %d starts", against, j.Starts)}
	case j.Starts == 0:
		return []string{"", j.Policy, "", "", "", "", ""}
	case j.Policy == chosen:
		return []string{"✓", j.Policy, dollars(j.Cost), dollars(j.CostP95), hours(j.Hours), hours(j.HoursP95), ""}
	}
	return []string{"", j.Policy, dollars(j.Cost), dollars(j.CostP95), hours(j.Hours), hours(j.HoursP95), against}
}
