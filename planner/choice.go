package planner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
)

// Wish is what a job optimises: what it costs, and what the hours that it takes are worth to its owner.
type Wish struct {
	// ValueOfTime is what an hour less is worth: candidates compare by cost + ValueOfTime x hours.
	ValueOfTime market.USD
	// Within and Budget bound the 95th percentiles of run time and cost; 0 = no bound.
	Within time.Duration
	Budget market.USD
}

// Trial is a candidate's result from one start in the past.
type Trial struct {
	Cost  float64 // dollars
	Hours float64
	// GivenUp: it took too long, and what was left of it counts as done on demand.
	GivenUp bool `json:",omitempty"`
}

// Trials are one candidate's results, from the same starts for all candidates.
type Trials struct {
	Policy  string
	Runs    []Trial
	Refused string // why it cannot run the job; "" = it can
}

// Sample is a start in the past, and how much it counts.
type Sample struct {
	Start  time.Time
	Weight float64
}

// Choice is how `policy: auto` was decided.
type Choice struct {
	Policy     string
	Why        string
	Wish       Wish
	Candidates []Judged // the best first, those that cannot run the job last
}

// Judged is a candidate with its figures: weighted means and percentiles over past starts.
type Judged struct {
	Policy            string
	Starts            int
	Cost, CostP95     float64 // dollars
	Hours, HoursP95   float64
	Mean              float64 // dollars, of cost + value of time x hours
	Against, StdError float64 // mean difference of that from the default's, and its standard error, as shares of the default's mean
	Why               string  // why it is not chosen, where that is not for its mean
}

// of is the figure that candidates are compared by, in dollars.
func (w Wish) of(t Trial) float64 {
	return t.Cost + float64(w.ValueOfTime)/float64(market.Dollar)*t.Hours
}

const (
	// MinTrials is how many past starts a choice needs.
	MinTrials = 8
	// sure is how many standard errors a candidate has to be dearer than the best by to be ruled out early.
	sure = 3
)

// Choose takes the candidate with the least mean of cost + value of time x hours over past starts, and the default without enough of
// them. Samples are those of all runs; candidates that were dropped early have fewer.
func Choose(w Wish, standard string, samples []Sample, candidates []Trials) Choice {
	c := Choice{Policy: standard, Wish: w}
	var base *Trials
	for i := range candidates {
		if candidates[i].Policy == standard && candidates[i].Refused == "" {
			base = &candidates[i]
		}
	}
	if len(samples) < MinTrials || base == nil {
		c.Why = fmt.Sprintf("%s, the default: %s", standard, tooFew(len(samples), MinTrials))
		return c
	}
	for i := range candidates {
		c.Candidates = append(c.Candidates, judge(w, &candidates[i], base, samples))
	}
	c.pick(standard, samples)
	return c
}

// Promising are the candidates that the first starts do not rule out: those whose mean is not above the best one's by three standard
// errors or more. The best is one that keeps to the wish's bounds, where any does. All are promising, where the starts are too few.
func Promising(w Wish, samples []Sample, candidates []Trials) map[string]bool {
	keep := map[string]bool{}
	var best *Trials
	var least Judged
	for i := range candidates {
		t := &candidates[i]
		if keep[t.Policy] = t.Refused == ""; !keep[t.Policy] || len(t.Runs) < len(samples) {
			continue
		}
		j := judge(w, t, t, samples)
		if best == nil || least.Why != "" && j.Why == "" || (least.Why == "") == (j.Why == "") && j.Mean < least.Mean {
			best, least = t, j
		}
	}
	for i := range candidates {
		t := &candidates[i]
		if len(samples) >= MinTrials && best != nil && keep[t.Policy] {
			j := judge(w, t, best, samples)
			keep[t.Policy] = len(t.Runs) == len(samples) && (t == best || j.Against < sure*j.StdError)
		}
	}
	return keep
}

// judge works out a candidate's figures, from the starts that it has in common with another.
func judge(w Wish, t, base *Trials, samples []Sample) Judged {
	j := Judged{Policy: t.Policy, Why: t.Refused}
	n := min(len(t.Runs), len(base.Runs))
	if t.Refused != "" || n == 0 {
		return j
	}
	j.Starts = len(t.Runs)
	var sum, standard float64
	for i, r := range t.Runs[:n] {
		weight := samples[i].Weight
		sum += weight
		j.Against += weight * (w.of(r) - w.of(base.Runs[i]))
		standard += weight * w.of(base.Runs[i])
	}
	mean := j.Against / sum
	// Starts of one day meet the same prices: days are what varies independently.
	days := map[int64]float64{}
	for i, r := range t.Runs[:n] {
		days[samples[i].Start.Unix()/86400] += samples[i].Weight * (w.of(r) - w.of(base.Runs[i]) - mean)
	}
	variance := 0.0
	for _, day := range slices.Sorted(maps.Keys(days)) {
		variance += days[day] * days[day]
	}
	if standard > 0 {
		j.Against, j.StdError = j.Against/standard, math.Sqrt(variance)/standard
	}
	sum = 0
	for i, r := range t.Runs {
		weight := samples[i].Weight
		sum += weight
		j.Mean += weight * w.of(r)
		j.Cost += weight * r.Cost
		j.Hours += weight * r.Hours
	}
	j.Mean, j.Cost, j.Hours = j.Mean/sum, j.Cost/sum, j.Hours/sum
	j.CostP95 = weighted(t.Runs, samples, func(r Trial) float64 { return r.Cost })
	j.HoursP95 = weighted(t.Runs, samples, func(r Trial) float64 { return r.Hours })
	switch {
	case w.Within > 0 && j.HoursP95 > w.Within.Hours():
		j.Why = "its 95th percentile is later than the deadline"
	case w.Budget > 0 && j.CostP95 > float64(w.Budget)/float64(market.Dollar):
		j.Why = "its 95th percentile is above the budget"
	}
	return j
}

// weighted is the 95th percentile of a figure.
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

// pick names the best and says why.
func (c *Choice) pick(standard string, samples []Sample) {
	most := 0
	var best *Judged
	for i := range c.Candidates {
		most = max(most, c.Candidates[i].Starts)
	}
	for i := range c.Candidates {
		if j := &c.Candidates[i]; j.Why == "" && j.Starts == most && (best == nil || j.Mean < best.Mean) {
			best = j
		}
	}
	first, last := samples[0].Start, samples[0].Start
	for _, s := range samples[:most] {
		if s.Start.Before(first) {
			first = s.Start
		} else if s.Start.After(last) {
			last = s.Start
		}
	}
	basis := fmt.Sprintf("by %d past starts from %s to %s, in the rules and prices of this job", most, first.UTC().Format(timeForm),
		last.UTC().Format(timeForm))
	if best != nil {
		c.Policy, c.Why = best.Policy, "the best "+basis
	} else {
		c.Why = "no policy keeps the deadline and the budget in 19 of 20 cases; " + standard + " is the default, " + basis
	}
	slices.SortStableFunc(c.Candidates, func(a, b Judged) int {
		return cmp.Or(compareBool(a.Starts == 0, b.Starts == 0), cmp.Compare(b.Starts, a.Starts), cmp.Compare(a.Mean, b.Mean))
	})
}

// details returns the choice as the journal keeps it.
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
			HoursP95: j.HoursP95, Against: j.Against, StdError: j.StdError, Chosen: j.Policy == c.Policy, Why: j.Why})
	}
	return a
}

// writeChoice shows the table that `policy: auto` was decided by.
func (p *Plan) writeChoice(b *terminal.Text, s Style) {
	c := p.Choice
	if c == nil {
		return
	}
	for _, line := range wrap("Policy auto is "+c.Policy+": "+c.Why+".", Width-2) {
		b.WriteString("  " + line + "\n")
	}
	if len(c.Candidates) > 0 {
		s.paint(b, "", faint, fmt.Sprintf("     %-22s %10s %9s %8s %8s %7s  %s", "POLICY", "MEAN COST", "P95", "HOURS", "P95", "STARTS", "AGAINST THE DEFAULT"))
		for _, j := range c.Candidates {
			mark, code := " ", ""
			if j.Policy == c.Policy {
				mark, code = "✓", green
			}
			line := fmt.Sprintf("   %s %-22s", mark, j.Policy)
			if j.Starts > 0 {
				line += fmt.Sprintf(" %10s %9s %8.1f %8.1f %7d  %+.1f %% ± %.1f", "$"+fmt.Sprintf("%.2f", j.Cost), fmt.Sprintf("$%.2f", j.CostP95), j.Hours, j.HoursP95,
					j.Starts, 100*j.Against, 100*j.StdError)
			}
			s.paint(b, "", code, line)
			if j.Why != "" {
				for _, text := range wrap(j.Why, Width-8) {
					s.paint(b, "        ", faint, text)
				}
			}
		}
		if c.Wish.ValueOfTime > 0 {
			s.paint(b, "  ", faint, "An hour counts "+c.Wish.ValueOfTime.Cents()+".")
		}
	}
	b.WriteString("\n")
}
