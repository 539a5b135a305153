package sweep

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

// Evictions that prices do not show are rare, and drawn: one draw for each past start would leave a choice to chance. So each start is drawn
// as often as makes enough trials. Where past prices hardly changed, or none are known, the past says nothing that the price of now does
// not: then all trials start now and the price stays, so that the result is the same whatever the length of the history.
const (
	enoughTrials = 256 // at past starts, which also differ by their prices
	drawsNow     = 384 // at the same price; of a forecast too, so that it is the mean that the policy was chosen by
	bundledDraws = 96  // of fleets in bundles, which take longer each
	bundledRuns  = 56  // of these, at past starts
)

// trialID says which run of a candidate a trial is.
type trialID struct {
	start time.Time
	draw  int
	now   bool // nothing is known behind the start: prices stay
}

func idOf(s planner.Sample) trialID { return trialID{s.Start, s.Draw, s.Now} }

func (a trialID) compare(b trialID) int {
	return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.draw, b.draw))
}

// drawn returns the samples with as many draws of evictions as are enough, and after how many candidates that are clearly worse are
// dropped.
func (c *Chooser) drawn(now time.Time, past []planner.Sample) (samples []planner.Sample, parts []int) {
	if !c.job.Hazard.Draws() {
		return past, rounds(len(past))
	}
	starts := make([]time.Time, len(past))
	for i, s := range past {
		starts[i] = s.Start
	}
	if moving(&c.job, starts, c.patience) < planner.MinTrials && anyPriceAt(c.job.Pools, now) {
		n := drawsFromNow(c.size)
		for draw := range n {
			samples = append(samples, planner.Sample{Start: now, Draw: draw, Now: true, Weight: 1})
		}
		return samples, append([]int{n / 8}, rounds(n)...)
	}
	for draw := range drawsEach(enoughTrials, len(past), c.size) {
		for _, s := range past {
			s.Draw = draw
			samples = append(samples, s)
		}
	}
	parts = rounds(len(past))
	if len(samples) > len(past) {
		parts = append(parts, len(samples))
	}
	return samples, parts
}

// drawsOf returns the runs that a forecast rests on, the latest first: from past starts, each drawn as often as makes as many runs as there are
// of a long history, or from now on.
func drawsOf(cfg *sim.Config, starts []time.Time, length time.Duration, now time.Time, size float64) (ids []trialID) {
	draws := 1
	if cfg.Hazard.Draws() {
		if moving(cfg, starts, length) < planner.MinStarts && anyPriceAt(cfg.Pools, now) {
			for draw := range drawsFromNow(size) {
				ids = append(ids, trialID{now, draw, true})
			}
			return ids
		}
		draws = drawsEach(usualRuns(cfg, size), len(starts), size)
	}
	for _, start := range starts {
		for draw := range draws {
			ids = append(ids, trialID{start, draw, false})
		}
	}
	return ids
}

// drawsEach returns how often each of some past starts is drawn. Of fleets in bundles, whose runs take longer each to simulate, fewer are enough:
// they are so large that most runs lose machines, and no mean rests on a rare draw.
func drawsEach(enough, starts int, size float64) int {
	starts = max(starts, 1)
	if size > 1 {
		return max(1, min(enough, bundledRuns)/starts)
	}
	return (enough + starts - 1) / starts
}

func drawsFromNow(size float64) int {
	if size > 1 {
		return bundledDraws
	}
	return drawsNow
}

// rounds are from how many starts candidates are simulated before those that are clearly worse are dropped.
func rounds(samples int) (out []int) {
	for _, part := range []int{4, 2} {
		if n := samples / part; n >= planner.MinTrials {
			out = append(out, n)
		}
	}
	return append(out, samples)
}

// moving is after how many of the starts a price changes, or what a pool gives, within a time.
func moving(cfg *sim.Config, starts []time.Time, within time.Duration) (n int) {
	for _, start := range starts {
		if slices.ContainsFunc(cfg.Pools, func(p bidding.Candidate) bool {
			return len(p.History.Changes(start, start.Add(within))) > 0 || len(p.Availability.Points(start, start.Add(within))) > 0
		}) {
			n++
		}
	}
	return n
}

// atPricesOf returns a run in the prices that are known at a time, the last of which stay. Its evictions come at the same times after any start.
func atPricesOf(cfg sim.Config, now time.Time) sim.Config {
	cfg.Pools = knownUntil(cfg.Pools, now)
	if cfg.Hazard.Draws() {
		timeless := *cfg.Hazard
		timeless.Timeless = true
		cfg.Hazard = &timeless
	}
	return cfg
}

// knownUntil hides what is known of pools later.
func knownUntil(pools []bidding.Candidate, now time.Time) []bidding.Candidate {
	pools = slices.Clone(pools)
	for i := range pools {
		pools[i].History = pools[i].History.Until(now)
		pools[i].Availability = pools[i].Availability.Until(now)
	}
	return pools
}
