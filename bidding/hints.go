package bidding

import (
	"cmp"
	"math"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
)

// Hints are a pool's capacity, by the provider and our own machines. Zero values are unknown.
type Hints struct {
	// Interruptions is the share of machines that the provider interrupted in the last month, from 0 to 1: the middle
	// of the Spot Advisor's band.
	Interruptions Hint
	// Uptime is for how many hours the provider expects most machines to run at least, as Compute Engine's capacity advice
	// says it: at most LongestUptime, whatever there is.
	Uptime Hint
	// Placement is the provider's score, from 1 (unlikely) to 10 (likely), of a launch of the wanted size: EC2's placement
	// score, or ten times Compute Engine's obtainability. It says nothing of how long machines are kept.
	Placement Hint
	// Lifetimes are those of our own machines of this pool.
	Lifetimes market.Lifetimes
}

// Hint is a figure from an outside source. It is unknown when At is zero.
type Hint struct {
	Value float64
	At    time.Time // when it was published
}

// Known reports whether there is a figure.
func (h Hint) Known() bool { return !h.At.IsZero() }

const (
	// LongestUptime is the longest that Compute Engine promises of any machine. Where it is promised, it says that half of the
	// machines at least outlive it, and leaves open by how much.
	LongestUptime = time.Hour
	// placementHalfLife is after how long half of what a score said is forgotten: it is of the moment, and is followed by what
	// happens to our own launches.
	placementHalfLife = time.Hour
	// leastChance keeps a score from promising that a pool gives nothing ever.
	leastChance = 0.1
	// launchAgain is how long until a launch is tried again that was not met.
	launchAgain = 5 * time.Minute
)

// told returns the evictions per machine hour that follow from the provider's reports, if there are any.
func (h Hints) told() (rate float64, told bool) {
	if share := h.Interruptions; share.Known() && share.Value >= 0 && share.Value < 1 {
		rate, told = max(hazard.OfMonth(share.Value), hazard.OfMonth(1e-4)), true
	}
	if life := h.Uptime; life.Known() && life.Value > 0 && life.Value < LongestUptime.Hours() {
		rate, told = max(rate, math.Ln2/LongestUptime.Hours()), true // else the longest were promised, which half outlive
	}
	return rate, told
}

// Prior is what is expected of a pool's machines before anything was watched.
type Prior struct {
	hazard.Life
	Told    bool // by the provider
	assumed hazard.Assumption
}

// Source says where it comes from.
func (p Prior) Source() string {
	if p.Told {
		return "by the provider's word of each pool"
	}
	return p.assumed.Says()
}

// openBand is the share of interruptions above which the Spot Instance Advisor's highest band, which has no upper end, begins.
const openBand = 0.2

// EvictionPrior returns what the provider reports of a pool, or else what is assumed (hazard.Assume). A simulation's machines live by it, and
// policies begin with it.
func EvictionPrior(c *Candidate, terms market.Terms) Prior {
	assumed := hazard.Assume(cmp.Or(terms.Provider, c.Pool.Provider), c.Type)
	rate, told := c.Hints.told()
	if !told || c.Hints.Interruptions.Value > openBand && assumed.PerHour() > rate {
		return Prior{assumed.Life, false, assumed}
	}
	return Prior{Life: hazard.Constant(rate), Told: true}
}

// launchWait returns for how long launches are tried in the mean before one is met, by the provider's score. The score weighs
// less with every hour, and nothing from when on a machine of our own was seen in the pool: then its refusals are better evidence
// (Candidate.NoCapacityUntil).
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

// byPlacement puts the pool first whose launches are met sooner.
func byPlacement(a, b *Candidate, now time.Time) int {
	return cmp.Compare(a.Hints.launchWait(now), b.Hints.launchWait(now))
}
