package bidding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// With whole-hour billing, a fleet's last hour is paid for little work: on average half of it is wasted. So under any
// policy, no more machines are kept for another hour, or bought, than the remaining work pays for. CostPerWork does so
// by itself, from cost alone; policies by restart need the whole fleet.
//
// With R machine hours of work left, n machines cost n more hours, and take R / n. Of a fleet of N that has worked for
// some hours,
//
//	n = sqrt(R N)
//
// is where one more machine would raise the run's cost by the same share as it shortens it. (Before any work is done
// every n satisfies that: then there are as many as the job wants.) It does not depend on prices.

// leaves is how many times a machine's Leave an hour must be: if leaving takes a good part of the hour, as on a market
// replayed at hundreds of times its speed, going a little earlier saves nothing.
const leaves = 10

// ending is the demand of the remaining work.
type ending struct {
	*State
	rest     float64 // work beyond what machines will do in time already paid
	unitRate float64 // work per hour of one wanted unit, on the slowest type in reach
	staying  units   // held and not about to be decided
	due      []int   // indices in Held: their paid time is nearly over
	dueUnits units
	need     units // in addition to staying
	covered  bool  // the work is done before another hour of the held machines is paid: also before any work is done
	nearly   bool  // the paid time of the held machines covers all but an hour of it
}

// endsEarly reports whether machines may be released at the end of a job with this policy.
func endsEarly(p Policy, s *State) bool {
	_, known := s.Job.WorkLeft()
	_, restarts := p.(ByRestart)
	_, byItself := p.(CostPerWork)
	return !s.Firm && known && !restarts && !byItself && s.Want.total() > 0 && s.Job.Terms.Increment >= leaves*s.Job.Leave && s.Job.Terms.Increment > 0
}

// endOf computes the demand at the end of a job. It returns false if this job's end is not decided here.
func endOf(p Policy, s *State) (e ending, decided bool) {
	if !endsEarly(p, s) {
		return e, false
	}
	left, _ := s.Job.WorkLeft()
	e = ending{State: s, rest: left / efficiency}
	if e.far(left) {
		return e, false
	}
	e.unitRate = s.slowest(e.unit)
	if e.unitRate == 0 {
		return e, false
	}
	var due []int // of its own: a list appended to through e would put e, and the state, on the heap
	for i := range s.Held {
		if e.count(i) {
			due = append(due, i)
		}
	}
	e.due = due
	e.nearly = e.rest < float64(e.staying+e.dueUnits)*e.unitRate*s.Job.Terms.Increment.Hours()
	machineHours := max(e.rest, 0) / e.unitRate
	within := (s.Job.Terms.Increment - s.Job.Leave - s.Job.Startup).Hours()
	e.need = units(math.Ceil(max(machineHours/max(within, 0.1), math.Sqrt(machineHours*float64(s.Want.total())))))
	e.need = min(e.need, max(s.Want.total()-e.staying, 0))
	e.covered = len(s.Held) > 0 && e.rest <= 0
	return e, s.Job.Done > 0
}

// far reports whether there is work for two more increments of everything wanted, on the fastest type, or held: then
// everything is worth its next increment. Most of thousands of price changes return here.
func (e *ending) far(left float64) bool {
	held, fastest := 0.0, 0.0
	for i := range e.Held {
		if c := e.candidate(e.Held[i].Pool); c != nil {
			held += float64(e.Held[i].Count) * c.Type.WorkRate()
		}
	}
	for i := range e.Pools {
		fastest = max(fastest, e.unit(i))
	}
	return left > 2*max(held, float64(e.Want.total())*fastest)*e.Job.Terms.Increment.Hours()
}

// unit returns the work per hour of one wanted unit in a pool; 0 = unknown.
func (e *ending) unit(candidate int) float64 {
	t := e.Pools[candidate].Type
	each := e.Want.each(t)
	if each <= 0 {
		return 0
	}
	return t.WorkRate() / float64(each)
}

// count adds the time for which machines are paid. It reports whether that is nearly over.
func (e *ending) count(i int) (due bool) {
	h := &e.Held[i]
	c := e.candidate(h.Pool)
	if h.Warned || c == nil {
		return false
	}
	until := e.paidUntil(h)
	held := units(h.Count) * e.Want.each(c.Type)
	switch {
	case h.Draining:
	case !e.Now.Before(e.last(h)):
		due = true
		e.dueUnits += held
	default:
		e.staying += held
	}
	from := e.Now
	if ready := h.Launch.Add(e.Job.Startup); h.Ready < h.Count && ready.After(from) {
		from = ready
	}
	hours := max(until.Add(-e.Job.Leave).Sub(from).Hours(), 0)
	e.rest -= float64(hours * float64(h.Count) * c.Type.WorkRate())
	return due
}

// paidUntil returns the end of a machine's present increment, and last, the time to decide whether it stays for
// another.
func (e *ending) paidUntil(h *Allocation) time.Time {
	n := e.Now.Sub(h.Launch)/e.Job.Terms.Increment + 1
	return h.Launch.Add(n * e.Job.Terms.Increment)
}

func (e *ending) last(h *Allocation) time.Time {
	return e.paidUntil(h).Add(-e.Job.Leave - e.Job.Leave/4)
}

// want returns what to request from the policy: no more than the remaining work pays for.
func (e *ending) want() Want {
	w, total := e.Want, e.staying+e.need
	if total >= w.total() { // the end is far
		return w
	}
	if w.VCPU > 0 {
		w.VCPU = int(total)
	} else {
		w.Machines = int(total)
	}
	return w
}

// finish gives back the excess, the most expensive work first, and has Plan run again when it must decide.
func (e *ending) finish(p *Plan) {
	if !e.nearly {
		return
	}
	for i := range e.Held {
		h := &e.Held[i]
		if at := e.last(h); !h.Warned && !h.Draining && at.After(e.Now) && (p.AskAgain.IsZero() || at.Before(p.AskAgain)) {
			p.AskAgain = at
		}
	}
	surplus := e.dueUnits - e.need
	if p.Switch != nil || len(p.Acquire) > 0 {
		return // the end is not that near
	}
	slices.SortStableFunc(e.due, func(i, j int) int { return cmp.Compare(e.dear(j), e.dear(i)) })
	for _, i := range e.due {
		h := &e.Held[i]
		each := e.Want.each(e.candidate(h.Pool).Type)
		n := min(int(surplus/each), h.Count)
		if n <= 0 {
			continue
		}
		surplus -= units(n) * each
		r := Release{Pool: h.Pool, Launch: h.Launch, Why: "the rest of the work does not pay for another hour"}
		if n < h.Count {
			r.Count = n
		}
		p.Release = append(p.Release, r)
		p.Why = fmt.Sprintf("%d of %s are given back: %s", n, h.Pool, r.Why)
	}
}

// dear returns the present cost of a unit of work on held machines.
func (e *ending) dear(held int) float64 {
	h := &e.Held[held]
	c := e.candidate(h.Pool)
	return float64(e.price(c, h.Bid)) / c.Type.WorkRate()
}
