package bidding

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// gang treats the state as one fleet in one pool that is bought and lost together.
type gang struct {
	State
	fleet fleet
	plan  Plan
	open  []int // candidates that can be bought from now
}

func newGang(s State, bids BidRule) *gang {
	g := &gang{State: s, fleet: fleetOf(s)}
	g.plan.Considered = make([]Considered, len(s.Pools))
	for i := range s.Pools {
		seen := &g.plan.Considered[i]
		*seen = look(&s.Pools[i], s, bids)
		if seen.Why = whyNot(&s.Pools[i], seen, s); seen.Why == "" {
			seen.Why = whyShort(&s.Pools[i], seen.Count, s)
		}
		if seen.Why == "" {
			g.open = append(g.open, i)
		}
	}
	return g
}

// whyShort returns why a pool has too few machines; "" if it has enough, or if that is unknown.
func whyShort(c *Candidate, count int, s State) string {
	if free, known := c.Availability.At(s.Now); known && free < count && !c.OnDemand() {
		return fmt.Sprintf("%d of %d machines are available", free, count)
	}
	return ""
}

func (g *gang) heldIn(candidate int) int {
	h, _ := g.fleet.in(candidate)
	return h.machines
}

// whole returns the pool with a whole fleet held; of several, the one with the cheapest work.
func (g *gang) whole() (best holding, found bool) {
	for _, h := range g.fleet.holdings {
		if h.units >= g.Want.total() && (!found || g.perWork(h.candidate) < g.perWork(best.candidate)) {
			best, found = h, true
		}
	}
	return best, found
}

// perWork returns the cost of a unit of work in a pool at the present price.
func (g *gang) perWork(candidate int) float64 {
	return float64(g.plan.Considered[candidate].Price) / g.Pools[candidate].Type.WorkRate()
}

// rest returns the cost of a unit of the remaining work in a pool: at the present price, including the cost of fetching
// the state.
func (g *gang) rest(candidate int) float64 {
	price, move := g.perWork(candidate), g.Job.moving(g.Pools[candidate].Pool)
	if move == 0 {
		return price
	}
	return price + float64(move)/max(g.Job.Work-g.Job.Saved, 0) // +Inf if the work is unknown or done: the job stays
}

// cheapest returns the candidate with the cheapest work now, -1 if there is none. Ties go to the one with the most
// machines held.
func (g *gang) cheapest() int {
	if len(g.open) == 0 {
		return -1
	}
	return slices.MinFunc(g.open, func(i, j int) int {
		return cmp.Or(cmp.Compare(g.rest(i), g.rest(j)), cmp.Compare(g.heldIn(j), g.heldIn(i)), cmp.Compare(i, j))
	})
}

// keep keeps the held fleet.
func (g *gang) keep(h holding, saveEvery time.Duration) {
	c := &g.plan.Considered[h.candidate]
	c.Chosen, c.Why = true, "held"
	g.plan.SaveEvery = saveEvery
	g.plan.Why = "the fleet is whole in " + c.Pool.String()
	g.release(h.candidate, "the fleet is whole in another pool")
	g.explain()
}

// move buys what is missing for a whole fleet in a pool, and gives up what is held in others.
func (g *gang) move(to int, why string) {
	c := &g.plan.Considered[to]
	c.Chosen, c.Why = true, why
	if count := c.Count - g.heldIn(to); count > 0 {
		g.plan.Acquire = append(g.plan.Acquire, Acquire{Pool: c.Pool, Bid: c.Bid, Count: count, Why: why})
	}
	g.release(to, why)
}

// release gives up what is held in all pools except one; -1 = in all.
func (g *gang) release(but int, why string) {
	for _, h := range g.fleet.holdings {
		if h.candidate != but {
			g.plan.Release = append(g.plan.Release, Release{Pool: g.Pools[h.candidate].Pool, Why: why})
		}
	}
}

// explain gives a reason to the candidates that have none yet.
func (g *gang) explain() {
	if g.StepsOnly {
		return
	}
	for i := range g.plan.Considered {
		if c := &g.plan.Considered[i]; c.Why == "" {
			c.Why = fmt.Sprintf("$%s an hour is not the cheapest per work", c.Price)
		}
	}
}
