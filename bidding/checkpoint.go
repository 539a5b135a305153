package bidding

import (
	"fmt"
	"math"
	"time"

	"github.com/tierml/tierml/market"
)

// Checkpoint is the standard way to use spot machines, with which TierML (CMU-PDL-16-102, section 4) is compared: all
// machines are of one type and pool, the cheapest per work at the start and at each restart, spot or on demand. There
// is no reliable tier: a checkpoint is taken at the interval that Flint (EuroSys 16) derives from the MTTF, and when
// the machines are lost the job restarts from it. The zero value bids the on-demand price.
type Checkpoint struct{ Bids BidRule }

// unknownMTTF is assumed if the history tells nothing.
const unknownMTTF = time.Hour

// minSaveEvery is the least interval of checkpoints, however little they cost.
const minSaveEvery = time.Minute

// Name returns "checkpoint", "checkpoint-aggressive".
func (p Checkpoint) Name() string {
	if p.Bids != BidOnDemand {
		return "checkpoint-" + string(p.Bids)
	}
	return "checkpoint"
}

// ByRestart marks a policy without a reliable tier.
func (Checkpoint) ByRestart() {}

// CheckpointInterval returns the interval that minimises, to first order, the cost of checkpoints plus the work that
// failures undo: sqrt(2 x save x mttf) (Young, CACM 1974; Flint, EuroSys 16, section 3).
func CheckpointInterval(save, mttf time.Duration) time.Duration {
	return max(minSaveEvery, time.Duration(math.Sqrt(2*save.Seconds()*mttf.Seconds())*float64(time.Second)))
}

// Plan keeps the fleet while it is complete; otherwise it buys one in the cheapest pool.
func (p Checkpoint) Plan(s State) Plan {
	if s.StepsOnly {
		if f := fleetOf(s); len(f.holdings) == 1 && f.holdings[0].units >= s.Want.total() {
			plan := Plan{SaveEvery: p.saveEvery(s, f.holdings[0])} // thousands of price changes return here
			if s.Pools[f.holdings[0].candidate].OnDemand() {
				plan.Settled = s.Now.Add(endless)
			}
			return plan
		}
	}
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
	r.plan.Why = fmt.Sprintf("%d %s of %s: %s", c.Count, plural("machine", c.Count), c.Pool, why)
	r.plan.SaveEvery = p.saveEvery(s, holding{candidate: best, bid: c.Bid})
	r.explain()
	return r.plan
}

// saveEvery returns the interval for a pool's machines at a bid; none on demand.
func (p Checkpoint) saveEvery(s State, h holding) time.Duration {
	c := &s.Pools[h.candidate]
	if c.OnDemand() {
		return 0
	}
	e := market.MTTF(c.History, s.Now, h.bid)
	mttf := unknownMTTF
	if e.Known && e.Mean > 0 {
		mttf = e.Mean // a lower bound if no crossing was seen
	}
	if s.Job.Terms.MaxBid == 0 {
		losses := fleetLosses(c, s.Job.Terms, s.Want.machines(s.Want.total(), c.Type), s.Now)
		if e.Known && e.Mean > 0 && !e.Censored { // otherwise prices evict no machine, however short their history
			losses += 1 / mttf.Hours()
		}
		mttf = time.Duration(float64(time.Hour) / max(losses, 1e-6))
	}
	return CheckpointInterval(s.Job.SaveTime, mttf)
}
