package trials

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Rung is a step at which all trials are compared; the Keep best continue.
type Rung struct {
	At   int64
	Keep int
}

// Trial is a trial's progress.
type Trial struct {
	Settings map[string]string // nil = unknown
	Losses   []float64         // at each rung reached; lower is better, and NaN is the worst
	Ended    bool              // no more losses will come: it has succeeded before the remaining rungs, or failed, or was stopped
	Failed   bool
	Stopped  bool    // by somebody, before its end
	Last     float64 // at the end of a successful one
}

// Verdict is the decision on a trial, with its basis.
type Verdict struct {
	Decision Decision
	Rung     int // the last one reached
	Why      string
}

// Decision on a trial.
type Decision int

// Decisions.
const (
	Goes  Decision = iota // continues, to the next rung or its end
	Waits                 // waits at its rung until it is certain whether it continues
	Out                   // does not continue
)

// Decide compares trials at their rungs: early feedback (EPS, section 4.1) as successive halving that does not wait for the slowest. A
// trial continues as soon as it is among the best of its rung whatever the remaining ones report, and is out as soon as it cannot be. So
// which trials continue depends only on their losses: not on the order in which they arrive, nor on lost machines.
//
// Promotion by the ranks so far (ASHA) was rejected: different trials would continue when an eviction delays one.
func Decide(rungs []Rung, trials []Trial) []Verdict {
	verdicts := make([]Verdict, len(trials))
	entrants := len(trials)
	for k, rung := range rungs {
		var there []int
		for i, t := range trials {
			if (len(t.Losses) > k || t.Ended) && (k == 0 || verdicts[i].Decision == Goes) {
				there = append(there, i)
			}
		}
		slices.SortStableFunc(there, func(a, b int) int { return trials[a].compare(&trials[b], k) })
		toCome := entrants - len(there)
		for rank, i := range there {
			verdicts[i] = verdict(rung, k, rank, entrants, toCome)
		}
		entrants = min(entrants, rung.Keep)
	}
	return verdicts
}

func verdict(rung Rung, k, rank, entrants, toCome int) Verdict {
	v := Verdict{Rung: k}
	place := fmt.Sprintf("number %d at step %d, where the best %d of %d go on", rank+1, rung.At, min(rung.Keep, entrants), entrants)
	switch {
	case rank+toCome < rung.Keep:
		v.Decision, v.Why = Goes, place
	case rank >= rung.Keep:
		v.Decision, v.Why = Out, place
	default:
		v.Decision, v.Why = Waits, fmt.Sprintf("%s; %d have not come there yet", place, toCome)
	}
	return v
}

// compare orders trials at a rung, the best first: those that failed or were stopped earlier are last, then NaN losses.
func (t *Trial) compare(o *Trial, rung int) int {
	a, b := t.at(rung), o.at(rung)
	return cmp.Or(less(t.broke(rung), o.broke(rung)), less(math.IsNaN(a), math.IsNaN(b)), cmp.Compare(a, b))
}

func (t *Trial) broke(rung int) bool { return (t.Failed || t.Stopped) && len(t.Losses) <= rung }

// at returns the loss at a rung; for a trial that ended before it, the last one.
func (t *Trial) at(rung int) float64 {
	if len(t.Losses) == 0 {
		return math.NaN()
	}
	return t.Losses[min(rung, len(t.Losses)-1)]
}

func less(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Share returns the fraction of all trials' steps that is done when trials of this many steps are kept at rungs.
func Share(rungs []Rung, trials int, steps int64) float64 {
	if steps <= 0 || trials == 0 {
		return 1
	}
	done, running, before := 0.0, trials, int64(0)
	for _, r := range rungs {
		at := min(r.At, steps)
		done += float64(running) * float64(at-before)
		running, before = min(running, r.Keep), at
	}
	done += float64(running) * float64(steps-before)
	return done / (float64(trials) * float64(steps))
}
