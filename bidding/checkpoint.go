package bidding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Checkpoint is the standard way to use spot machines, which TierML (CMU-PDL-16-102, section 4) is compared with: all
// machines are of one type and pool, the cheapest per work at the start and at each restart, spot or on demand. There is
// no reliable tier: a checkpoint is taken at the interval that Flint (EuroSys 16) takes from the MTTF, and when the
// machines are lost the job starts again from it. The zero value bids the on-demand price.
type Checkpoint struct {
	Bids      BidRule
	Estimator market.Estimator
}

// unknownMTTF is taken where history says nothing.
const unknownMTTF = time.Hour

// minSaveEvery keeps checkpoints apart where they cost next to nothing.
const minSaveEvery = time.Minute

// Name gives "checkpoint", "checkpoint-aggressive".
func (p Checkpoint) Name() string {
	if p.Bids != BidOnDemand {
		return "checkpoint-" + string(p.Bids)
	}
	return "checkpoint"
}

// ByRestart says that no reliable tier stands behind it.
func (Checkpoint) ByRestart() {}

// CheckpointInterval is the one at which checkpoints and the work that failures undo cost least together, to first order:
// sqrt(2 x save x mttf) (Young, CACM 1974; Flint, EuroSys 16, section 3).
func CheckpointInterval(save, mttf time.Duration) time.Duration {
	return max(minSaveEvery, time.Duration(math.Sqrt(2*save.Seconds()*mttf.Seconds())*float64(time.Second)))
}

// Plan keeps what is held as long as it is a whole fleet; otherwise it buys one in the cheapest pool.
func (p Checkpoint) Plan(s State) Plan {
	r := newGang(s, p.Bids)
	if h, ok := r.whole(); ok {
		r.keep(h, p.saveEvery(s, h))
		return r.plan
	}
	best := r.cheapest()
	if best < 0 {
		r.plan.Why = "no pool can be bought from now"
		r.explain()
		return r.plan
	}
	c := &r.plan.Considered[best]
	why := fmt.Sprintf("the cheapest per work at $%s an hour", c.Price)
	r.move(best, why)
	r.plan.Why = fmt.Sprintf("%d machines of %s: %s", c.Count, c.Pool, why)
	r.plan.SaveEvery = p.saveEvery(s, holding{candidate: best, bid: c.Bid})
	r.explain()
	return r.plan
}

// saveEvery is the interval for machines of a pool at a bid; none on demand.
func (p Checkpoint) saveEvery(s State, h holding) time.Duration {
	c := &s.Pools[h.candidate]
	if c.OnDemand() {
		return 0
	}
	e := p.Estimator.MTTF(c.History, s.Now, h.bid)
	mttf := unknownMTTF
	if e.Known && e.Mean > 0 {
		mttf = e.Mean // at least, when no crossing was seen
	}
	return CheckpointInterval(s.Job.SaveTime, mttf)
}

// gang is the state seen as one fleet in one pool that is bought and lost together.
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

// whyShort says why a pool has too few machines; "" when it has enough, or when nobody knows.
func whyShort(c *Candidate, count int, s State) string {
	if free, known := c.Availability.At(s.Now); known && free < count && !c.OnDemand() {
		return fmt.Sprintf("%d of %d machines can be had", free, count)
	}
	return ""
}

func (g *gang) heldIn(candidate int) int {
	h, _ := g.fleet.in(candidate)
	return h.machines
}

// whole gives the pool in which a whole fleet is held.
func (g *gang) whole() (holding, bool) {
	for _, h := range g.fleet.holdings {
		if h.units >= g.Want.total() {
			return h, true
		}
	}
	return holding{}, false
}

// perWork is what a unit of work costs in a pool at the present price.
func (g *gang) perWork(candidate int) float64 {
	return float64(g.plan.Considered[candidate].Price) / g.Pools[candidate].Type.WorkRate()
}

// cheapest gives the candidate that work costs least in now, -1 when there is none. Of equals it is the one in which
// most machines are held.
func (g *gang) cheapest() int {
	if len(g.open) == 0 {
		return -1
	}
	return slices.MinFunc(g.open, func(i, j int) int {
		return cmp.Or(cmp.Compare(g.perWork(i), g.perWork(j)), cmp.Compare(g.heldIn(j), g.heldIn(i)), cmp.Compare(i, j))
	})
}

// keep goes on with the fleet that is held.
func (g *gang) keep(h holding, saveEvery time.Duration) {
	c := &g.plan.Considered[h.candidate]
	c.Chosen, c.Why = true, "held"
	g.plan.SaveEvery = saveEvery
	g.plan.Why = "the fleet is whole in " + c.Pool.String()
	g.release(h.candidate, "the fleet is whole in another pool")
	g.explain()
}

// move buys what lacks of a whole fleet in a pool, and gives up what is held in others.
func (g *gang) move(to int, why string) {
	c := &g.plan.Considered[to]
	c.Chosen, c.Why = true, why
	if count := c.Count - g.heldIn(to); count > 0 {
		g.plan.Acquire = append(g.plan.Acquire, Acquire{Pool: c.Pool, Bid: c.Bid, Count: count, Why: why})
	}
	g.release(to, why)
}

// release gives up what is held in all pools but one; -1 is none.
func (g *gang) release(but int, why string) {
	for _, h := range g.fleet.holdings {
		if h.candidate != but {
			g.plan.Release = append(g.plan.Release, Release{Pool: g.Pools[h.candidate].Pool, Why: why})
		}
	}
}

// explain gives a reason to the candidates that have none yet.
func (g *gang) explain() {
	if g.Brief {
		return
	}
	for i := range g.plan.Considered {
		if c := &g.plan.Considered[i]; c.Why == "" {
			c.Why = fmt.Sprintf("$%s an hour is not the cheapest per work", c.Price)
		}
	}
}
