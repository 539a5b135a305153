package fleet

import (
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
)

// view is what the policy sees.
type view struct {
	*step.Step
	cfg      *Config
	work     Work
	demand   *Demand
	markets  *markets
	roster   *roster
	buys     *purchases
	accounts *accounts
	seen     bidding.State // at its last decision
	afforded time.Time     // until when the last plan stays within the spending limit
	well     bool          // pools and machines are current except for prices
}

// State returns what the policy sees now. Its slices are valid until the next Step, and must not be changed.
func (v *view) State() bidding.State {
	if !v.well {
		v.seen.Pools, v.seen.Held = v.seePools(v.seen.Pools[:0]), v.seeHeld(v.seen.Held[:0])
		v.well = true
	}
	v.seen.Now, v.seen.Want, v.seen.Job, v.seen.Chooses = v.Now, v.demand.want(), v.jobState(), v.cfg.Chooses
	if v.seen.Afforded = v.afforded; v.seen.Due == nil && v.cfg.Rules != nil {
		v.seen.Due, v.seen.Begins = v.accounts.due, v.accounts.begins
	}
	v.seen.Firm = v.cfg.Firm || v.demand.Asked || v.demand.Awaited
	return v.seen
}

// seePools returns the pools with everything known about them except prices.
func (v *view) seePools(pools []bidding.Candidate) []bidding.Candidate {
	for _, p := range v.cfg.Pools {
		pools = append(pools, bidding.Candidate{
			Pool: p.Pool, Type: p.Type, History: p.History, MaxPrice: p.MaxPrice, Hints: p.Hints,
			Availability: p.Availability, NoCapacityUntil: v.markets.deferred[p.Pool],
		})
		if own := v.markets.lifetimes[p.Pool]; own != nil {
			l := &pools[len(pools)-1].Hints.Lifetimes
			*l = l.Join(*own)
		}
	}
	return pools
}

// seeHeld returns the machines held or launching.
func (v *view) seeHeld(all []bidding.Allocation) []bidding.Allocation {
	v.buys.unanswered(v.cfg.chosen, func(l *launch) {
		all = append(all, bidding.Allocation{Pool: l.pool, Bid: l.bid, Count: l.count, Launch: l.at})
	})
	type group struct {
		token            string
		pool             market.Pool
		draining, warned bool
	}
	var groups []group // of all[wanted:]
	wanted, i := len(all), -1
	var last *Machine // of group i; machines of a launch are mostly adjacent
	for _, m := range v.roster.List {
		if !v.cfg.chosen(m.Tier) || m.Lost || m.Ended || m.Terminating {
			continue
		}
		goes := m.Draining || m.Leaving
		if last == nil || last.Token != m.Token || last.Pool != m.Pool || last.Warned != m.Warned || (last.Draining || last.Leaving) != goes {
			g := group{m.Token, m.Pool, goes, m.Warned}
			if i = slices.Index(groups, g); i < 0 {
				i = len(groups)
				groups = append(groups, g)
				all = append(all, bidding.Allocation{
					Pool: m.Pool, Bid: m.bid, Launch: m.Launched, Draining: g.draining, Warned: g.warned,
				})
			}
		}
		last = m
		held := &all[wanted+i]
		held.Count++
		if m.Joined > 0 {
			held.Ready++
		}
	}
	bidding.SortHeld(all)
	return all
}

// brief returns the State for a plan of which only the steps are used, and the description recorded with a purchase: for fleets that are
// needed whole, policies give the reasons against other pools on request only.
func (v *view) brief() bidding.State {
	s := v.State()
	s.StepsOnly = v.Silent || !v.cfg.Whole
	return s
}

// jobState returns the job as the policy sees it.
func (v *view) jobState() bidding.Job {
	j := v.cfg.Job
	j.Started = v.Started
	p := v.work.Progress()
	if j.Home = p.Home; p.Whole > 0 {
		j.Done, j.Saved = j.Work*float64(p.Done)/float64(p.Whole), j.Work*float64(p.Saved)/float64(p.Whole)
	}
	if v.cfg.Rules != nil {
		j.Terms = v.cfg.Rules.Terms()
	}
	if j.Budget > 0 {
		requested := v.requested(&j)
		j.Spent, j.Owed = v.accounts.due(v.Now)+requested, v.accounts.due(v.Now.Add(v.ending(p)))+requested
	}
	if j.PerHour > 0 || v.cfg.Reliable.Count == 0 && !v.cfg.Whole {
		j.Reliable = v.reliableRate()
	}
	return j
}

// requested returns the least that transient machines cost which are requested and not bought yet: another purchase may be decided before
// the provider has answered.
func (v *view) requested(j *bidding.Job) (sum market.USD) {
	transient := func(t step.Tier) bool { return t == "" || v.cfg.chosen(t) }
	v.buys.unanswered(transient, func(l *launch) {
		price := l.bid
		if h := v.markets.prices[l.pool]; h != nil && !(j.Terms.PayBid && l.bid > 0) {
			if p, known := h.At(v.Now); known && (l.bid == 0 || p < l.bid) {
				price = p
			}
		}
		if price == 0 {
			price = v.markets.typeOf(l.pool).OnDemand
		}
		sum += market.USD(float64(l.count) * float64(v.cfg.due(l.pool, price)) * j.LeastHours())
	})
	return sum
}

// ending returns the longest time that a run takes to end gracefully.
func (v *view) ending(p step.Progress) time.Duration {
	return v.cfg.StopTakes + v.cfg.Job.SaveTime + p.Clock
}

// reliableRate returns the current hourly cost of the reliable machines, including those that are starting.
func (v *view) reliableRate() (sum market.USD) {
	price := func(pool market.Pool, bid market.USD) market.USD {
		if pool.Class == market.OnDemand {
			return v.cfg.due(pool, v.markets.typeOf(pool).OnDemand)
		}
		if h := v.markets.prices[pool]; h != nil && (v.cfg.Rules == nil || !v.cfg.Rules.Terms().PayBid) {
			if p, known := h.At(v.Now); known {
				return min(p, bid)
			}
		}
		return bid
	}
	reliable := func(t step.Tier) bool { return !v.cfg.chosen(t) }
	v.buys.unanswered(reliable, func(l *launch) {
		sum += market.USD(l.count) * price(l.pool, l.bid)
	})
	for _, m := range v.roster.List {
		if reliable(m.Tier) && !m.Ended {
			sum += price(m.Pool, m.bid)
		}
	}
	return sum
}

// Stale marks the view as outdated: machines may have changed.
func (v *view) Stale() { v.well, v.accounts.grouped = false, false }
