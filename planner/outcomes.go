package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Level is how expensive work is at some time: in any unit, as only ratios count. 0 = unknown.
type Level struct {
	Today float64 // at the prices in force
	Usual float64 // at the mean prices of the week before
}

func (l Level) known() bool { return l.Today > 0 && l.Usual > 0 }

// at returns the level on which costs depend: between the usual one (0) and today's (1).
func (l Level) at(share float64) float64 { return l.Usual * math.Pow(l.Today/l.Usual, share) }

// Outcomes are the results of a job from starts in the past, and the basis of the forecast for another start.
type Outcomes struct {
	Runs   []Run // the earliest start first
	Starts int   // that fit in the past; each may have several runs, which differ by the simulated evictions
	Start  time.Time
	Level  Level         // at Start
	Lag    time.Duration // after which the result of a start is known
	// Now: the past says nothing that the prices at Start do not. All runs start there, at constant prices.
	Now bool
}

const (
	// outcomeHalf is the time in which the weight of a past start halves.
	outcomeHalf = 7 * 24 * time.Hour
	tiny        = 1e-9 // of logarithms: where all costs are equal
	// apart is how long after a run's end another start meets different prices.
	apart = 12 * time.Hour
)

// Forecast projects the outcomes to the start. Each past cost counts relative to the prices at its own start, as far as past costs depended
// on prices; the ranges are wide enough to have held nine tenths of the forecasts that could have been made at the past starts.
func (o Outcomes) Forecast(every time.Duration) Forecast {
	if len(o.Runs) < MinStarts || !o.Now && o.Starts < MinStarts {
		return Forecast{Basis: tooFew(o.Starts, MinStarts)}
	}
	if o.Now {
		o.Lag = 0
	}
	f := Forecast{Level: o.Level, Evictions: rangeOf(o.Runs, func(r Run) int { return r.Evictions })}
	f.Cost, f.CostRecord = project(o, []float64{0, .25, .5, .75, 1}, func(r Run) market.USD { return r.Cost })
	f.Time, f.TimeRecord = project(o, nil, func(r Run) time.Duration { return r.Time })
	f.Basis = o.basis(every)
	return f
}

func (o Outcomes) basis(every time.Duration) string {
	first, last := o.Runs[0].Start, o.Runs[len(o.Runs)-1].Start
	basis := fmt.Sprintf("%d past starts, one every %s from %s to %s, simulated with this policy", o.Starts, short(every),
		first.UTC().Format(timeForm), last.UTC().Format(timeForm))
	if o.Now {
		basis = fmt.Sprintf("%d draws of evictions at the prices of %s, simulated with this policy: past prices tell no more", len(o.Runs), first.UTC().Format(timeForm))
	} else if len(o.Runs) > o.Starts {
		basis += fmt.Sprintf(", with %d draws of evictions", len(o.Runs))
	}
	open, paced := 0, 0
	for _, r := range o.Runs {
		switch {
		case !r.Finished:
			open++
		case r.Paced:
			paced++
		}
	}
	if paced > 0 {
		basis += fmt.Sprintf("; %d had not finished by now and continue at their own pace", paced)
	}
	if open > 0 {
		basis += fmt.Sprintf("; %d had not finished by now", open)
	}
	return basis
}

// project returns the range of a figure for the start, and how many of the equivalent forecasts at past starts held. Shares are the weights
// of today's price on which the figure may depend; nil = it does not.
func project[T market.USD | time.Duration](o Outcomes, shares []float64, figure func(Run) T) (Range[T], Record) {
	s := series{outcomes: o, shares: shares}
	for _, r := range o.Runs {
		s.figures = append(s.figures, max(1, float64(figure(r))))
	}
	s.backtest()
	p, known := s.at(o.Start, o.Level)
	if !known {
		return Range[T]{}, Record{}
	}
	by, _ := s.needed(o.Start)
	p = p.widened(by)
	r := Range[T]{Known: true, Low: T(math.Round(p.low)), Middle: T(math.Round(p.middle)), High: T(math.Round(p.high))}
	if math.IsInf(p.high, 1) {
		r.HighOpen = true
		r.High = r.Middle
		for _, run := range o.Runs {
			r.High = max(r.High, figure(run))
		}
	}
	return r, s.record
}

// series is one figure of the outcomes.
type series struct {
	outcomes Outcomes
	shares   []float64
	figures  []float64
	misses   []miss // by run, for the forecast made at its start
	record   Record
}

// miss holds the factors, as logarithms, by which a figure lies below a projection and above it; a negative one means inside. Unknown =
// there was no projection.
type miss struct {
	below, above float64
	known        bool
}

// projection is a forecast of a figure.
type projection struct{ low, middle, high float64 }

// widened returns the projection with its ends moved by factors, given as logarithms. Negative ones narrow it.
func (p projection) widened(by miss) projection {
	return projection{min(p.low*math.Exp(-by.below), p.middle), p.middle, max(p.high*math.Exp(by.above), p.middle)}
}

func (p projection) miss(figure float64) miss {
	m := miss{below: math.Log(p.low / figure), known: true}
	if !math.IsInf(p.high, 1) { // nothing lies above an open end
		m.above = math.Log(figure / p.high)
	}
	return m
}

// known returns how many runs, from the first, have a result at a given time.
func (s *series) known(at time.Time) int {
	n, _ := slices.BinarySearchFunc(s.outcomes.Runs, at.Add(-s.outcomes.Lag), func(r Run, t time.Time) int {
		if r.Start.After(t) {
			return 1
		}
		return -1
	})
	return n
}

// weight returns the weight of a run at a given time.
func (s *series) weight(i int, at time.Time) float64 {
	return math.Exp2(-at.Sub(s.outcomes.Runs[i].Start).Hours() / outcomeHalf.Hours())
}

// at returns the expectation for a start at a price level from the results that are known at a given time.
func (s *series) at(at time.Time, level Level) (projection, bool) {
	n := s.known(at)
	if n < MinStarts {
		return projection{}, false
	}
	weights, open, total := make([]float64, n), 0.0, 0.0
	for i := range weights {
		weights[i] = s.weight(i, at)
		total += weights[i]
		if !s.outcomes.Runs[i].Finished {
			open += weights[i]
		}
	}
	if 2*open >= total {
		return projection{}, false
	}
	priced := level.known()
	for i := range n {
		priced = priced && s.outcomes.Runs[i].Level.known()
	}
	var best []float64 // the ratio of each figure to its expectation
	middle, spread := 0.0, math.Inf(1)
	for k := -1; k < len(s.shares) && (k < 0 || priced); k++ { // first as if figures did not depend on prices
		now, levels := 1.0, make([]float64, n)
		var sum, base float64
		for i := range levels {
			if levels[i] = 1; k >= 0 {
				levels[i], now = s.outcomes.Runs[i].Level.at(s.shares[k]), level.at(s.shares[k])
			}
			sum += weights[i] * s.figures[i]
			base += weights[i] * levels[i]
		}
		ratios, variance := make([]float64, n), 0.0
		for i := range ratios {
			ratios[i] = s.figures[i] / (levels[i] * sum / base)
			variance += weights[i] * math.Log(ratios[i]) * math.Log(ratios[i]) / total
		}
		if variance < 0.98*spread-tiny { // else there is no sign that costs depend on prices
			best, middle, spread = ratios, now*sum/base, variance
		}
	}
	for i := range best {
		if !s.outcomes.Runs[i].Finished {
			best[i] = math.Inf(1)
		}
	}
	low, high := nineTenths(best, weights)
	return projection{low * middle, middle, high * middle}, true
}

// nineTenths returns the ends of the central range with nine tenths of the weight, except that weight left over by ties at the lower end
// goes to the upper one. Times have many ties: runs that lose nothing take equally long, and none is faster.
func nineTenths(figures, weights []float64) (low, high float64) {
	low = quantile(figures, weights, .05)
	below, total, met := 0.0, 0.0, false
	for i, f := range figures {
		if total += weights[i]; f < low || f == low && !met {
			below += weights[i]
			met = met || f == low
		}
	}
	return low, quantile(figures, weights, min(.95, .9+below/total))
}

// backtest makes the forecasts of all past starts from what was known at each.
func (s *series) backtest() {
	if s.outcomes.Now { // they are not in the past
		return
	}
	for i, r := range s.outcomes.Runs {
		p, known := s.at(r.Start, r.Level)
		s.misses = append(s.misses, miss{})
		if !known {
			continue
		}
		figure := s.figures[i]
		if !r.Finished {
			figure = math.Inf(1)
		}
		if by, enough := s.needed(r.Start); enough {
			s.record.Plans++
			if m := p.widened(by).miss(figure); max(m.below, m.above) <= tiny {
				s.record.Inside++
			}
		}
		s.misses[i] = p.miss(figure)
	}
	if runs := len(s.outcomes.Runs); runs > s.outcomes.Starts { // a plan for each start
		s.record = Record{s.record.Plans * s.outcomes.Starts / runs, s.record.Inside * s.outcomes.Starts / runs}
	}
}

// needed returns how far the ends of forecasts must be moved to hold nine tenths, judging by those whose result is known at a given time;
// false = too few are. The share is slightly higher, as starts close together meet the same prices and carry less information than
// independent ones. The lower end stays if no figure lay below it: no run is faster than one that loses nothing.
func (s *series) needed(at time.Time) (by miss, enough bool) {
	var misses, weights []float64
	passed := false // the lower end
	for i := range min(s.known(at), len(s.misses)) {
		if m := s.misses[i]; m.known {
			misses, weights = append(misses, max(m.below, m.above)), append(weights, s.weight(i, at))
			passed = passed || m.below > tiny
		}
	}
	if len(weights) < MinStarts {
		return miss{}, false
	}
	independent := 2 / math.Ln2 * float64(outcomeHalf) / float64(s.outcomes.Lag+apart)
	most := quantile(misses, weights, min(1, .9+.5/independent))
	by = miss{below: most, above: most}
	if !passed {
		by.below = min(most, 0)
	}
	return by, true
}

// quantile returns the smallest figure that a share of the weight does not exceed.
func quantile(figures, weights []float64, share float64) float64 {
	type entry struct{ figure, weight float64 }
	entries, total := make([]entry, len(figures)), 0.0
	for i := range figures {
		entries[i] = entry{figures[i], weights[i]}
		total += weights[i]
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.figure, b.figure) })
	sum := 0.0
	for _, e := range entries {
		if sum += e.weight; sum >= (share-1e-12)*total {
			return e.figure
		}
	}
	return entries[len(entries)-1].figure
}
