package bidding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tierml/tierml/market"
)

// MostReliable is the pool whose machines can be expected to stay longest, of those that can be bought from now: where no
// reliable machine can be had, it serves (TierML, CMU-PDL-16-102, footnote 7). On-demand pools, where they may be looked
// at, come before all others; then the highest MTTF at the bid of the on-demand price counts, unknown ones last. Of equals
// it is the cheapest per machine, then the first by pool.
func MostReliable(s State, e market.Estimator, onDemand bool) (best Considered, found bool) {
	var open []Considered
	for i := range s.Pools {
		c := &s.Pools[i]
		seen := look(c, s, BidOnDemand)
		if c.OnDemand() && !onDemand || whyNot(c, &seen, s) != "" {
			continue
		}
		seen.Why = "no reliable machine can be had, and this one, on demand, is not taken"
		if !c.OnDemand() {
			seen.MTTF = e.MTTF(c.History, s.Now, seen.Bid)
			seen.Why = fmt.Sprintf("no reliable machine can be had: the most reliable serves, with checkpoints; its MTTF is %s",
				mttfText(seen.MTTF))
		}
		open = append(open, seen)
	}
	if len(open) == 0 {
		return Considered{}, false
	}
	rank := func(c Considered) (tier int, hours float64) {
		switch {
		case c.Pool.Class == market.OnDemand:
			return 0, 0
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
