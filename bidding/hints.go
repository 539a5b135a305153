package bidding

import (
	"cmp"
	"math"
	"time"

	"github.com/tierml/tierml/market"
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

// EvictionRate returns the evictions per machine hour that follow from the provider's reports, if there are any.
func (h Hints) EvictionRate() (rate float64, told bool) {
	if share := h.Interruptions; share.Known() && share.Value >= 0 && share.Value < 1 {
		rate, told = max(-math.Log1p(-share.Value), 1e-4)/hoursInMonth, true
	}
	if life := h.Uptime; life.Known() && life.Value > 0 && life.Value < LongestUptime.Hours() {
		if !told {
			rate = unknownRate
		}
		rate, told = max(rate, math.Ln2/LongestUptime.Hours()), true // else the longest were promised, which half of them outlive
	}
	return rate, told
}

// evictionPrior returns the evictions per machine hour that are expected before anything was watched.
func (h Hints) evictionPrior() float64 {
	if rate, told := h.EvictionRate(); told {
		return rate
	}
	return unknownRate
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
