package bidding

import (
	"math"
	"sort"
	"time"
)

// Machines that are paid by the hour and have little left to do are wasted: on average half of a fleet's last hour. So
// a job ends on as few machines as can finish it within an hour that is paid for.

// efficiency is the assumed share of its rate that a fleet achieves: changes of its size cost a little.
const efficiency = 0.97

// rest returns the work beyond what machines will do in time already paid; infinite if the work is unknown. Machines
// whose last decision was made count as paid for another increment, except the one left out. If machines keep their own
// work, others cannot do it in their paid time: it is then infinite, too.
func (b *budgeting) rest(undecided ...Allocation) float64 {
	left, known := b.Job.WorkLeft()
	if !known || b.Job.alone {
		return math.Inf(1)
	}
	for _, h := range b.Held {
		candidate := b.candidate(h.Pool)
		if h.Warned || candidate < 0 {
			continue
		}
		until := b.paidUntil(h)
		again := len(undecided) > 0 && undecided[0] == h
		if !h.Draining && !again && !b.Now.Before(b.last(h)) {
			until = until.Add(b.Job.Terms.Increment)
		}
		from := b.Now
		if h.Ready < h.Count {
			if ready := h.Launch.Add(b.Job.Startup); ready.After(from) {
				from = ready
			}
		}
		hours := max(until.Add(-b.Job.Leave).Sub(from).Hours(), 0)
		left -= float64(hours * float64(h.Count) * b.Pools[candidate].Type.WorkRate())
	}
	return left
}

// crew returns how many of a candidate's machines should do the rest, if paid from a time on and working a start-up
// later: as many as wanted, or, if one increment of all is more than needed, the number that costs least, including the
// increments of the reliable machines, which began with the job.
func (b *budgeting) crew(candidate int, wanted units, rest float64, from time.Time, startup time.Duration) int {
	t := b.Pools[candidate].Type
	most, increment := b.Want.machines(wanted, t), b.Job.Terms.Increment
	if math.IsInf(rest, 1) {
		return most
	}
	one := t.WorkRate() * efficiency
	least := int(math.Ceil(rest / (one * (increment - startup - b.Job.Leave).Hours())))
	if least >= most {
		return most
	}
	// Among fleets that finish within the same increment of the reliable machines, the smallest costs least.
	paid := func(n int) float64 {
		end := from.Add(startup + time.Duration(rest/(one*float64(n))*float64(time.Hour)))
		return math.Ceil(float64(end.Sub(b.Job.Started)+b.Job.Leave) / float64(increment))
	}
	cost := func(n int) float64 {
		return float64(n)*float64(b.plan.Considered[candidate].Price) + paid(n)*float64(b.Job.hour())*increment.Hours()
	}
	best := most
	for n := max(least, 1); n < most; {
		if cost(n) < cost(best) {
			best = n
		}
		same := paid(n)
		n += sort.Search(most-n, func(more int) bool { return paid(n+more) < same })
	}
	return best
}
