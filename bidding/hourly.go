package bidding

import (
	"fmt"

	"github.com/tierml/tierml/market"
)

// Policies know markets; limits on the cost of all machines per hour (Job.PerHour) and in total (Job.Budget) are
// enforced here, in one place for all: an excess machine is not bought, because the budget watcher would release all
// again, or its first hour would exceed the budget.

// Margin is the share of the hourly limit that purchases leave free, as a divisor: prices move, and the next one must
// not exceed the limit. A pause ends with the same margin (jobrun/budget).
const Margin = 20

// fewest is the smallest step, as a divisor of what is wanted, by which a fleet kept small by the limit grows: each
// newcomer moves splits, so machines must not come one by one as a price falls.
const fewest = 8

// Ask returns the policy's plan, without machines that the remaining work does not pay for, or that the hourly limit
// and the budget have no room for.
func Ask(p Policy, s State) Plan {
	wanted := s.Want
	end, ends := endOf(p, &s)
	if s.covered = end.covered; ends {
		s.Want = end.want()
	}
	plan := keepPromise(p, &s, wanted)
	if ends {
		end.finish(&plan)
	}
	if len(plan.Acquire) == 0 {
		return plan
	}
	return limit(p, s, plan)
}

// limit returns a plan without the machines for which the hourly limit and the budget have no room. It has its own
// copies: few of thousands of plans buy anything, and those of the others then stay off the heap.
func limit(p Policy, s State, plan Plan) Plan {
	h := hourly{State: &s, plan: &plan}
	if !h.limited() {
		return plan
	}
	if whole(p, &s) || plan.Switch != nil {
		h.allOrNothing()
	} else {
		h.trim()
	}
	plan.Spent = h.budget && len(plan.Acquire) == 0 && fleetOf(s).total() == 0
	h.wait()
	return plan
}

// wait postpones purchases that the budget cannot cover in addition to the increments that held machines begin before
// they are gone: machines that leave may be gone by then.
func (h *hourly) wait() {
	j := &h.Job
	if j.Budget <= 0 || j.Overspends || len(h.Held) == 0 || len(h.plan.Acquire) == 0 {
		return
	}
	room := j.pays(j.Owed) - j.Upkeep
	for _, a := range h.plan.Acquire {
		room -= market.USD(a.Count) * h.dearest(&a)
	}
	if room < 0 {
		h.plan.Acquire, h.plan.Release, h.plan.Switch = nil, nil, nil
		h.plan.Why += "; the budget does not pay for it and for the next hours of the machines that run"
	}
}

// limited sets the room that the limits leave, and reports whether there are any limits.
func (h *hourly) limited() bool {
	j := &h.Job
	if j.PerHour > 0 {
		h.room, h.limit = j.PerHour-j.PerHour/Margin-h.rate(), "limits.per_hour, "+j.PerHour.Cents()
	}
	if j.Budget <= 0 || j.Overspends {
		return j.PerHour > 0
	}
	if room := j.pays(j.Spent) - j.Upkeep; j.PerHour <= 0 || room < h.room {
		h.room, h.limit, h.budget = room, "the budget, "+j.Budget.Cents(), true
	}
	return true
}

// pays returns the hourly cost of machines that start and end at once that stays within the budget, with this much due
// otherwise.
func (j *Job) pays(due market.USD) market.USD {
	return market.USD(float64(j.Budget-due) / j.LeastHours())
}

// LeastHours returns how many hours a machine costs that is bought now and ended at once.
func (j *Job) LeastHours() float64 {
	return max(max(j.Terms.Increment, j.Startup+2*j.Leave).Hours(), 1e-3)
}

// Pays reports whether the budget has room for machines that cost perHour.
func Pays(s State, perHour market.USD) bool {
	return s.Job.Budget <= 0 || s.Job.Overspends || perHour <= s.Job.pays(s.Job.Spent)
}

// Room reports whether the hourly limit has room for machines that cost perHour.
func Room(s State, perHour market.USD) bool {
	return s.Job.PerHour <= 0 || perHour <= s.Job.PerHour-s.Job.PerHour/Margin-s.rate()
}

// rate returns the present hourly cost of all machines, including warned and draining ones until they are gone.
func (s *State) rate() market.USD {
	sum := max(s.Job.Upkeep, s.Job.Reliable)
	for _, a := range s.Held {
		if c := s.candidate(a.Pool); c != nil {
			sum += market.USD(a.Count) * s.price(c, a.Bid)
		}
	}
	return sum
}

func (s *State) candidate(pool market.Pool) *Candidate {
	for i := range s.Pools {
		if s.Pools[i].Pool == pool {
			return &s.Pools[i]
		}
	}
	return nil
}

// price returns a machine's present price, never above its bid; if unknown, the most that it can be.
func (s *State) price(c *Candidate, bid market.USD) market.USD {
	price, known := c.History.At(s.Now)
	switch {
	case !known && bid > 0:
		return bid
	case !known:
		return c.Type.OnDemand
	case bid > 0:
		return min(price, bid)
	}
	return price
}

// hourly limits a plan to the room that is left.
type hourly struct {
	*State
	plan   *Plan
	room   market.USD // per hour
	limit  string     // the tightest limit
	budget bool       // that limit is the budget
}

// dearest returns the highest price of a machine in a purchase, whichever pool it comes from.
func (h *hourly) dearest(a *Acquire) market.USD {
	c := h.candidate(a.Pool)
	if c == nil {
		return 0
	}
	most := h.due(c, a.Bid)
	for _, other := range a.Or {
		if c := h.candidate(other.Pool); c != nil {
			most = max(most, h.due(c, other.Bid))
		}
	}
	return most
}

// due returns what an hour of a machine bought now adds to the bill.
func (h *hourly) due(c *Candidate, bid market.USD) market.USD {
	if h.budget && h.Job.Terms.PayBid && bid > 0 && !c.OnDemand() {
		return bid
	}
	return h.price(c, bid)
}

// trim limits purchases to the machines that there is room for, in the plan's order.
func (h *hourly) trim() {
	var kept []Acquire
	wanted, bought := 0, 0
	for _, a := range h.plan.Acquire {
		each, n := h.dearest(&a), a.Count
		wanted += n
		if each > 0 {
			n = int(min(market.USD(n), max(0, h.room/each)))
		}
		c, room := h.candidate(a.Pool), n
		if n < a.Count && c != nil {
			if n = h.useful(n, bought, c); h.tooFew(n, c) {
				n = 0
			}
		}
		switch {
		case n == 0:
			h.note(a.Pool, "has no room for it")
			continue
		case n < room:
			a.Why += fmt.Sprintf("; %d of %d, as %s, has no room for all, and %d would be no faster", n, a.Count, h.limit, room)
		case n < a.Count:
			a.Why += fmt.Sprintf("; %d of %d, as %s, has no room for more", n, a.Count, h.limit)
		}
		bought += n
		a.Count, h.room = n, h.room-market.USD(n)*each
		kept = append(kept, a)
	}
	h.plan.Acquire = kept
	if bought < wanted {
		h.plan.Why += fmt.Sprintf("; %s, has room for %d", h.limit, bought)
	}
}

// tooFew reports whether a few more machines are not worth the moves, if there are others.
func (h *hourly) tooFew(n int, c *Candidate) bool {
	held := fleetOf(*h.State).total()
	return held > 0 && units(n)*h.Want.each(c.Type)*fewest < h.Want.total()
}

// useful returns how many additional machines are as fast as all: a clock takes as long as the machine with the most
// splits, so that 22 machines do 64 splits as fast as 31. If machines differ in speed, all are useful.
func (h *hourly) useful(more, bought int, c *Candidate) int {
	held := bought
	for _, x := range fleetOf(*h.State).holdings {
		if held += x.machines; h.Pools[x.candidate].Type.WorkRate() != c.Type.WorkRate() {
			return more
		}
	}
	if h.Job.Splits <= 0 || more <= 0 {
		return more
	}
	each := (h.Job.Splits + held + more - 1) / (held + more)
	return min(max((h.Job.Splits+each-1)/each-held, 0), more)
}

// allOrNothing is for a switch, and for a fleet that is needed whole: half of it is useless, and the old one stays
// until the new one works.
func (h *hourly) allOrNothing() {
	var sum market.USD
	for i := range h.plan.Acquire {
		sum += market.USD(h.plan.Acquire[i].Count) * h.dearest(&h.plan.Acquire[i])
	}
	if sum <= max(0, h.room) || h.makeRoom(sum) {
		return
	}
	what := "a whole fleet"
	if h.plan.Switch != nil {
		what = "a move"
	}
	for _, a := range h.plan.Acquire {
		h.note(a.Pool, "has no room for it")
	}
	for _, r := range h.plan.Release {
		h.note(r.Pool, "has no room for what is to take its place")
	}
	h.plan.Acquire, h.plan.Release, h.plan.Switch = nil, nil, nil
	h.plan.Why = fmt.Sprintf("%s, has no room for %s, which costs %s an hour besides what is held: %s", h.limit, what, sum.Cents(), h.plan.Why)
}

// makeRoom releases the present fleet before an on-demand one is bought, if the limit has room for either but not for
// both. A plan buys on demand when there is no time for anything else, and the purchase can wait a little. It reports
// whether the plan now does so.
func (h *hourly) makeRoom(sum market.USD) bool {
	freed := market.USD(0)
	for _, r := range h.plan.Release {
		for _, a := range h.Held {
			if r.Of(a.Pool, a.Launch) && !a.Draining {
				if c := h.candidate(a.Pool); c != nil {
					freed += market.USD(a.Count) * h.price(c, a.Bid)
				}
			}
		}
	}
	if h.budget || h.plan.Switch != nil || len(h.plan.Acquire) != 1 || h.plan.Acquire[0].Pool.Class != market.OnDemand || sum > max(0, h.room+freed) {
		return false
	}
	h.note(h.plan.Acquire[0].Pool, "has no room for it besides what is held, which goes first")
	h.plan.Acquire = nil
	h.plan.Why = fmt.Sprintf("%s, has no room for both fleets; the one that is held goes first: %s", h.limit, h.plan.Why)
	return true
}

// note adds the effect of the limit to a pool's reason.
func (h *hourly) note(pool market.Pool, what string) {
	for i := range h.plan.Considered {
		c := &h.plan.Considered[i]
		if c.Pool != pool {
			continue
		}
		held := false
		for _, a := range h.Held {
			held = held || a.Pool == pool && !a.Warned && !a.Draining
		}
		c.Chosen = held
		c.Why = fmt.Sprintf("%s, %s: %s", h.limit, what, c.Why)
	}
}
