package sweep

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

// Evictions that prices do not show are rare, and drawn: one draw per past start would leave the choice to chance. So
// each start is drawn as often as needed for enough trials. If past prices hardly changed, or none are known, the past
// adds nothing to the present price: then all trials start now and the price stays, so that the result does not depend
// on the length of the history.
const (
	enoughTrials = 256 // at past starts, whose prices also differ
	drawsNow     = 384 // at the same price; forecasts too, so that their mean is the one that the policy was chosen by
	bundledDraws = 96  // for fleets in bundles, which take longer per run
	bundledRuns  = 56  // the part of these at past starts
)

// trialID identifies a candidate's trial.
type trialID struct {
	start time.Time
	draw  int
	now   bool // nothing after the start is known: prices stay
}

func idOf(s planner.Sample) trialID { return trialID{s.Start, s.Draw, s.Now} }

func (a trialID) compare(b trialID) int {
	return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.draw, b.draw))
}

// drawn returns the samples with enough draws of evictions, and the numbers of samples after which clearly worse
// candidates are dropped.
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

// drawsOf returns the runs for a forecast, latest first: from past starts, each drawn often enough to make as many runs
// as a long history has, or all from now.
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

// drawsEach returns the number of draws for each past start. Fewer are enough for fleets in bundles, whose runs take
// longer to simulate: they are so large that most runs lose machines, and no mean depends on a rare draw.
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

// rounds returns the numbers of starts after which clearly worse candidates are dropped.
func rounds(samples int) (out []int) {
	for _, part := range []int{4, 2} {
		if n := samples / part; n >= planner.MinTrials {
			out = append(out, n)
		}
	}
	return append(out, samples)
}

// moving returns the number of starts after which a price, or a pool's availability, changes within a time.
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

// atPricesOf returns a run with the prices known at a time, the last of which stay. Its evictions come after the same
// times for every start.
func atPricesOf(cfg sim.Config, now time.Time) sim.Config {
	cfg.Pools = knownUntil(cfg.Pools, now)
	if cfg.Hazard.Draws() {
		timeless := *cfg.Hazard
		timeless.Timeless = true
		cfg.Hazard = &timeless
	}
	return cfg
}

// knownUntil removes later prices and availability of pools.
func knownUntil(pools []bidding.Candidate, now time.Time) []bidding.Candidate {
	pools = slices.Clone(pools)
	for i := range pools {
		pools[i].History = pools[i].History.Until(now)
		pools[i].Availability = pools[i].Availability.Until(now)
	}
	return pools
}
