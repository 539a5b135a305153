package bidding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tierml/tierml/market"
)

// MostReliable chooses the replacement when no reliable machine is available (TierML, CMU-PDL-16-102, footnote 7), from
// the pools that can be bought from now. Spot pools are ranked by MTTF at the bid of the on-demand price, unknown ones
// last; ties go to the cheapest per machine, then to the first by pool. On-demand pools come first if onDemandFirst,
// and otherwise last: the job may prefer spot machines, but an expensive replacement costs less than a fleet that
// waits. Machines held on demand do not wait for a spot machine either: each of its evictions would leave them all paid
// for nothing.
func MostReliable(s State, onDemandFirst bool) (best Considered, found bool) {
	onDemandFirst = onDemandFirst || fleetOf(s).anyOnDemand(s)
	var open []Considered
	for i := range s.Pools {
		c := &s.Pools[i]
		seen := look(c, s, BidOnDemand)
		if whyNot(c, &seen, s) != "" {
			continue
		}
		seen.Why = "no reliable machine is available, and this one, on demand, is not taken"
		switch {
		case !c.OnDemand():
			seen.MTTF = market.MTTF(c.History, s.Now, seen.Bid)
			seen.Why = fmt.Sprintf("no reliable machine is available: the most reliable serves, with checkpoints; its MTTF is %s",
				mttfText(seen.MTTF))
		case !onDemandFirst:
			seen.Why = "no spot machine that could serve is available; this one, on demand, is not taken"
		}
		open = append(open, seen)
	}
	if len(open) == 0 {
		return Considered{}, false
	}
	rank := func(c Considered) (tier int, hours float64) {
		switch {
		case c.Pool.Class == market.OnDemand && onDemandFirst:
			return 0, 0
		case c.Pool.Class == market.OnDemand:
			return 3, 0
		case !c.MTTF.Known:
			return 2, 0
		}
		return 1, -c.MTTF.Expected().Hours()
	}
	return slices.MinFunc(open, func(a, b Considered) int {
		ta, ha := rank(a)
		tb, hb := rank(b)
		return cmp.Or(cmp.Compare(ta, tb), cmp.Compare(ha, hb), cmp.Compare(a.Price, b.Price), a.Pool.Compare(b.Pool))
	}), true
}
