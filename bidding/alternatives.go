package bidding

import "fmt"

// Where the provider chooses (State.Chooses), a purchase names, besides the best pool, those that are as good by the policy's
// own rule. A provider knows how deep its pools are, which prices do not show; a policy only knows its own order, and how exact
// the estimates are that it rests on.

const (
	// equallyGood is by how much dearer, as a share, work may be in a pool that the provider may choose: prices of today move by as
	// much within days, and an estimate of what evictions cost is no more exact.
	equallyGood = 0.05
	// worseNow is by how much cheaper work must be elsewhere to leave a pool that the provider may have chosen: twice that, so that
	// what was as good when it was bought is not left at the next change of price.
	worseNow = 2 * equallyGood
	// maxChoices keeps requests short; a fleet of EC2 takes 300 pools.
	maxChoices = 50
)

// alternatives returns the pools that may be bought from instead of the first, in the order given: where a machine counts for as
// much and does as much work, so that it does not matter how many come from which, and where its cost is within equallyGood.
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

// orOthers returns the words of a plan's reason for a choice that the provider makes.
func orOthers(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", or of %d %s as good, as the provider chooses", n, plural("pool", n))
}
