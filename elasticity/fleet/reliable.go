package fleet

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// MaxReliableTries is the number of consecutive failed requests for the reliable tier after which a run that has not begun is given up. A
// request fails if no pool has a machine, or if its machines are lost before they are ready. Losing a machine that was ready is no failure:
// it was available, and so may the next one be.
const MaxReliableTries = 5

// spotTries is the number of consecutive failed requests for a serving spot machine, if the job wants one, before an on-demand machine is
// bought.
const spotTries = 2

// Secure requests missing reliable machines until the tier is complete: after failures, but also when one is lost while starting. Once the
// tier has been complete, the remaining machines continue meanwhile, and requests are repeated as long as necessary.
func (f *Fleet) Secure() {
	need := f.work.Need()
	if need.Standing && !f.Reliable.lost || need.Done || need.TakingOver || f.Closing() || need.Outage || f.Now.Before(f.Reliable.After) {
		return
	}
	missing := f.demand.Reliable
	for _, l := range f.buys.open {
		if l.tier == step.Reliable && !l.answered {
			missing -= l.count
		}
	}
	for _, m := range f.Roster.reliable {
		if m.Staying() {
			missing--
		}
	}
	if f.Reliable.After.After(f.Reliable.until) {
		f.Reliable.until = f.Reliable.After
		f.Reliable.tries++
	}
	switch {
	case missing <= 0:
		f.Reliable.lost = false
	case f.Reliable.tries >= MaxReliableTries && !need.Begun:
		why := fmt.Sprintf("no reliable machine was available in %d tries", MaxReliableTries)
		if f.Reliable.err != nil {
			why += ": " + f.Reliable.err.Error()
		}
		if f.Reliable.none && !f.cfg.Substitutes {
			why += "; with checkpoints (checkpoint.every) the most reliable spot machine would serve"
		}
		f.Fail(why)
	default:
		f.buyReliable(missing)
	}
	kind := f.LeastReliable()
	f.tiers.Rejoin(kind.Name, kind.MemoryMiB)
}

// If no reliable machine is available, the most reliable one available serves, with checkpoints (TierML, footnote 7). It is of the reliable
// tier in every respect except that it may be evicted: then the next one replaces it, from the committed cut if there is time after its
// warning, and from the newest checkpoint otherwise.

// buyReliable buys machines for the reliable tier: from its own pool, or the most reliable available.
func (f *Fleet) buyReliable(count int) {
	own := f.cfg.Reliable.Count > 0
	if own && !(f.Reliable.none && f.cfg.Substitutes) {
		why := "the reliable tier holds the solution"
		kind := f.LeastReliable()
		if err := f.tiers.Short(f.demand.Reliable, kind.Name, kind.MemoryMiB); err != nil {
			why += fmt.Sprintf("; training waits for it where it must: %v", err)
		}
		f.Spending.launch(bidding.Acquire{Pool: f.cfg.Reliable.Pool, Count: count, Why: why}, f.cfg.due(f.cfg.Reliable.Pool, f.cfg.Reliable.Type.OnDemand))
		return
	}
	best, found := bidding.MostReliable(f.View.State(), own || f.Reliable.tries >= spotTries)
	if !found { // the market, or the pool itself, may offer something later
		f.Reliable.none = false
		f.Reliable.err = fmt.Errorf("and no pool can be bought from now")
		f.putOffReliable()
		return
	}
	price := best.Price
	if f.cfg.Rules != nil && f.cfg.Rules.Terms().PayBid {
		price = max(price, best.Bid)
	}
	f.Spending.launch(bidding.Acquire{Pool: best.Pool, Bid: best.Bid, Count: count, Why: best.Why}, price)
	f.View.afforded, f.WantPlan = time.Time{}, true // it may cost more than the last one did
}

// putOffReliable delays the next request for a reliable machine. While none serves, the transient machines have nothing to do: they are
// released rather than paid to wait, and the policy buys others once one serves.
func (f *Fleet) putOffReliable() {
	f.Reliable.After = f.Now.Add(f.cfg.RetryCapacity)
	if need := f.work.Need(); !need.Begun || need.Standing || need.Recovering {
		return
	}
	for _, m := range f.Roster.ordered(func(m *Machine) bool { return m.Tier == step.Transient && m.Staying() }) {
		f.Release(&m.Machine, "no machine serves, and none that could can be bought now")
	}
}

// trimReliable releases surplus reliable machines, a named one or else the youngest first, once the staying ones hold what they should.
func (f *Fleet) trimReliable() {
	if need := f.work.Need(); !need.Standing || f.Closing() || need.Done || need.Recovering || f.tiers.Bare() {
		return
	}
	surplus := -f.demand.Reliable
	for _, m := range f.Roster.reliable {
		if m.Member() && m.Staying() {
			surplus++
		}
	}
	for ; surplus > 0; surplus-- {
		m := f.Roster.ByID[f.demand.Leaves]
		if m == nil || m.Tier != step.Reliable || !m.Member() || !m.Staying() {
			m = f.Roster.Youngest()
		}
		m.Leaving, m.Why = true, "fewer reliable machines were asked for"
		f.Roster.Goes(m)
		f.work.Rearrange()
		f.WantPlan = true
	}
}

// Youngest returns the reliable machine that would go first; nil if none takes part and stays.
func (r *roster) Youngest() *Machine {
	for i := len(r.reliable) - 1; i >= 0; i-- {
		if m := r.reliable[i]; m.Member() && m.Staying() {
			return m
		}
	}
	return nil
}

// LeastReliable returns the type of the reliable machine with the least memory: machines of a taken-over run may have other types than the
// job's.
func (f *Fleet) LeastReliable() market.InstanceType {
	kind := f.cfg.Reliable.Type
	for _, m := range f.Roster.reliable {
		if t := f.markets.typeOf(m.Pool); m.Member() && m.Staying() && t.MemoryMiB > 0 {
			if kind.MemoryMiB == 0 || t.MemoryMiB < kind.MemoryMiB {
				kind = t
			}
		}
	}
	return kind
}

// refuse records that a launch supplied fewer machines than requested, and avoids the pools that had too few for a while.
func (f *Fleet) refuse(l *launch, missing int, why string, refused []provisioner.Refusal) {
	pools := l.short(refused)
	f.Record(func() journal.Entry {
		e := journal.Entry{
			Kind: journal.LaunchFailed, Token: l.token, Tier: string(l.tier), Pool: pools[0].String(), Count: missing, Why: why,
		}
		for _, pool := range pools[1:] {
			e.Or = append(e.Or, journal.Choice{Pool: pool.String()})
		}
		return e
	})
	f.Reliable.lost = f.Reliable.lost || l.tier == step.Reliable
	if l.tier == step.Reliable && l.pool == f.cfg.Reliable.Pool {
		if !f.Reliable.none || !f.cfg.Substitutes {
			f.putOffReliable()
		}
		return
	}
	for _, pool := range pools {
		f.markets.deferred[pool] = f.Now.Add(f.cfg.RetryCapacity)
	}
	f.WantPlan = true
}
