package bidding

import (
	"cmp"
	"math"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
)

// Hints describe a pool's capacity, according to the provider and our own machines. Zero values mean unknown.
type Hints struct {
	// Interruptions is the share of machines that the provider interrupted in the last month, from 0 to 1: the middle
	// of the Spot Advisor's band.
	Interruptions Hint
	// Uptime is the least number of hours that the provider expects most machines to run, from Compute Engine's
	// capacity advice: at most LongestUptime, whatever the capacity.
	Uptime Hint
	// Placement is the provider's score, from 1 (unlikely) to 10 (likely), for a launch of the wanted size: EC2's
	// placement score, or ten times Compute Engine's obtainability. It says nothing about how long machines are kept.
	Placement Hint
	// Lifetimes are the lifetimes of our own machines in this pool.
	Lifetimes market.Lifetimes
}

// Hint is a figure from an outside source. It is unknown if At is zero.
type Hint struct {
	Value float64
	At    time.Time // when it was published
}

// Known reports whether the figure is known.
func (h Hint) Known() bool { return !h.At.IsZero() }

const (
	// LongestUptime is the longest uptime that Compute Engine promises. It then means that at least half of the
	// machines outlive it, and leaves open by how much.
	LongestUptime = time.Hour
	// placementHalfLife is the half-life of a score's weight: it describes the moment, and our own launches' results
	// soon replace it.
	placementHalfLife = time.Hour
	// leastChance keeps a score from implying that a pool never has capacity.
	leastChance = 0.1
	// launchAgain is the time until an unfulfilled launch is tried again.
	launchAgain = 5 * time.Minute
)

// evictionRate returns the evictions per machine hour that the provider's reports imply, if there are any.
func (h Hints) evictionRate() (rate float64, told bool) {
	if share := h.Interruptions; share.Known() && share.Value >= 0 && share.Value < 1 {
		rate, told = max(hazard.OfMonth(share.Value), hazard.OfMonth(1e-4)), true
	}
	if life := h.Uptime; life.Known() && life.Value > 0 && life.Value < LongestUptime.Hours() {
		rate, told = max(rate, math.Ln2/LongestUptime.Hours()), true // otherwise the longest uptime, which half outlive, would have been promised
	}
	return rate, told
}

// Prior is the expectation for a pool's machines before any observation.
type Prior struct {
	hazard.Life
	Told    bool // from the provider
	assumed hazard.Assumption
}

// Source returns where the prior comes from.
func (p Prior) Source() string {
	if p.Told {
		return "by the provider's word of each pool"
	}
	return p.assumed.Says()
}

// openBand is the share of interruptions at which the Spot Instance Advisor's highest band begins, which has no upper
// end.
const openBand = 0.2

// EvictionPrior returns what the provider reports about a pool, or else what is assumed (hazard.Assume). A simulation's
// machines follow it, and policies start from it.
func EvictionPrior(c *Candidate, terms market.Terms) Prior {
	assumed := hazard.Assume(cmp.Or(terms.Provider, c.Pool.Provider), c.Type)
	rate, told := c.Hints.evictionRate()
	if !told || c.Hints.Interruptions.Value > openBand && assumed.PerHour() > rate {
		return Prior{assumed.Life, false, assumed}
	}
	return Prior{Life: hazard.Constant(rate), Told: true}
}

// launchWait returns the mean time for which launches are tried before one succeeds, according to the provider's score.
// The score's weight decays every hour, and ends once a machine of our own was seen in the pool: then the pool's
// refusals are better evidence (Candidate.NoCapacityUntil).
func (h Hints) launchWait(now time.Time) time.Duration {
	told := h.Placement
	if !told.Known() || told.Value <= 0 || h.Lifetimes.Newest.After(told.At) {
		return 0
	}
	age := max(now.Sub(told.At), 0)
	weight := math.Exp2(-age.Hours() / placementHalfLife.Hours())
	chance := 1 - float64((1-min(max(told.Value/10, leastChance), 1))*weight)
	return time.Duration((1 - chance) / chance * float64(launchAgain))
}

// byPlacement sorts pools with sooner launches first.
func byPlacement(a, b *Candidate, now time.Time) int {
	return cmp.Compare(a.Hints.launchWait(now), b.Hints.launchWait(now))
}
