package bidding

import "fmt"

// If the provider chooses (State.Chooses), a purchase names not only the best pool but all that are as good by the
// policy's own rule. A provider knows how deep its pools are, which prices do not show; a policy only knows its own
// order, and how exact its estimates are.

const (
	// equallyGood is the share by which work may cost more in a pool that the provider may choose: prices move by as
	// much within days, and an estimate of the cost of evictions is no more exact.
	equallyGood = 0.05
	// worseNow is the share by which work must be cheaper elsewhere to leave a pool that the provider may have chosen:
	// twice that, so that the next change of price does not undo an equally good purchase.
	worseNow = 2 * equallyGood
	// maxChoices keeps requests short; EC2's fleets accept 300 pools.
	maxChoices = 50
)

// alternatives returns the pools that may be bought from instead of the first, in the given order: a machine must count
// for as much and do as much work, so that the mix does not matter, and its cost must be within equallyGood.
func (s *State) alternatives(considered []Considered, first int, others []int, cost func(candidate int) float64) (or []Choice) {
	if !s.Chooses {
		return nil
	}
	best, limit := &s.Pools[first], cost(first)*(1+equallyGood)
	for _, i := range others {
		c := &s.Pools[i]
		if i == first || len(or) == maxChoices || cost(i) > limit || c.Pool.Class != best.Pool.Class ||
			c.Pool.Provider != best.Pool.Provider || c.Pool.Region != best.Pool.Region ||
			c.Type.VCPU != best.Type.VCPU || c.Type.WorkRate() != best.Type.WorkRate() {
			continue
		}
		or = append(or, Choice{Pool: c.Pool, Bid: considered[i].Bid})
		considered[i].Why = fmt.Sprintf("as good as %s %s, within %.0f %%: the provider chooses", best.Pool.Zone, best.Pool.Type, 100*equallyGood)
	}
	return or
}

// orOthers returns the words for the provider's choice in a plan's reason.
func orOthers(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", or of %d %s as good, as the provider chooses", n, plural("pool", n))
}
