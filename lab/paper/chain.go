package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// chain is a Markov market: the price of the next step depends only on the present one, with the frequencies of a
// recording. For such a market one can compute the result of the best policy that knows all odds, but not the future
// (reach).
type chain struct {
	prices   []market.USD // of the levels, ascending; everything above the on-demand price is one level
	onDemand market.USD
	next     [][]step // by level
	recorded []int    // levels of the recording
}

// step is a possible next level, with its probability.
type step struct {
	to int
	p  float64
}

const (
	chainStep  = 5 * time.Minute // about a machine's start-up time
	hourSteps  = int(time.Hour / chainStep)
	mostLevels = 40
)

// fitChain counts transitions.
func fitChain(h *market.History, onDemand market.USD) *chain {
	first, _ := h.First()
	last, _ := h.Last()
	var seen []market.USD
	for at := first.At; at.Before(last.At); at = at.Add(chainStep) {
		price, _ := h.At(at)
		seen = append(seen, price)
	}
	c := &chain{onDemand: onDemand}
	at := c.levels(seen)
	c.recorded = at
	counts := make([]map[int]float64, len(c.prices))
	for i := 1; i <= len(at); i++ { // the last is followed by the first, so that every level has a successor
		from, to := at[i-1], at[i%len(at)]
		if counts[from] == nil {
			counts[from] = map[int]float64{}
		}
		counts[from][to]++
	}
	c.next = make([][]step, len(c.prices))
	for i, row := range counts {
		total := 0.0
		for _, n := range row {
			total += n
		}
		for j := range c.prices {
			if n := row[j]; n > 0 {
				c.next[i] = append(c.next[i], step{j, n / total})
			}
		}
	}
	return c
}

// levels returns at most mostLevels levels with about equal frequencies, plus one for everything above the
// on-demand price.
func (c *chain) levels(seen []market.USD) (at []int) {
	sorted := slices.Sorted(slices.Values(seen))
	var tops []market.USD // the highest price of each level
	begin := 0
	for i := range sorted {
		within := sorted[i] <= c.onDemand
		final := i+1 == len(sorted) || within != (sorted[min(i+1, len(sorted)-1)] <= c.onDemand)
		enough := (i+1-begin)*(mostLevels-2) >= len(sorted) && within
		if !final && (!enough || sorted[i+1] == sorted[i]) {
			continue
		}
		mean := 0.0
		for _, price := range sorted[begin : i+1] {
			mean += float64(price) / float64(i+1-begin)
		}
		tops = append(tops, sorted[i])
		c.prices = append(c.prices, market.USD(mean))
		begin = i + 1
	}
	for _, price := range seen {
		i, _ := slices.BinarySearch(tops, price)
		at = append(at, i)
	}
	return at
}

// bids returns the levels that can be bid; among equivalent ones, the highest.
func (c *chain) bids() int {
	n := len(c.prices)
	if c.prices[n-1] > c.onDemand {
		n--
	}
	return n
}

// draw returns a path of this many steps.
func (c *chain) draw(from, steps int, random *rand.Rand) []int {
	path := make([]int, steps+1)
	path[0] = from
	for i := 1; i <= steps; i++ {
		x, row := random.Float64(), c.next[path[i-1]]
		path[i] = row[len(row)-1].to
		for _, s := range row {
			if x -= s.p; x < 0 {
				path[i] = s.to
				break
			}
		}
	}
	return path
}

// history returns a path as recorded prices.
func (c *chain) history(path []int, from time.Time) *market.History {
	var points []market.PricePoint
	for i, level := range path {
		if i == 0 || level != path[i-1] || i%(24*hourSteps) == 0 {
			points = append(points, market.PricePoint{At: from.Add(time.Duration(i) * chainStep), Price: c.prices[level]})
		}
	}
	return market.NewHistory(points)
}

// reach is an idealised endless job on a chain: machines are paid by the hour, free if interrupted within it, take a
// step to start, and work next to reliable ones that cost upkeep. All rounding is in its favour: machines that are kept
// or replaced at the end of their hour work at once, at any new bid. It works backward in time, at a price for work,
// over expectations where the future is unknown (expect) and over prices where it is known (follow).
type reach struct {
	*chain
	upkeep float64 // dollars per hour and machine
	lambda float64 // dollars per hour of work
	now    outcome // the expectation with no knowledge of the future
}

// outcome is the result from a moment on, by level: the payments less lambda for each hour of work.
type outcome struct {
	idle []float64 // nothing is held
	end  []float64 // an hour of a machine has ended
	// An hour in progress, by level, bid and step: its outcome without its price, and the probability that it is
	// paid. The last bid is a machine on demand.
	rest, paid [][][hourSteps]float64
}

func (r *reach) empty() outcome {
	n := len(r.prices)
	o := outcome{idle: make([]float64, n), end: make([]float64, n), rest: make([][][hourSteps]float64, n), paid: make([][][hourSteps]float64, n)}
	for i := range n {
		o.rest[i], o.paid[i] = make([][hourSteps]float64, r.bids()+1), make([][hourSteps]float64, r.bids()+1)
	}
	return o
}

// clear resets a level.
func (o *outcome) clear(i int) {
	o.idle[i], o.end[i] = 0, 0
	clear(o.rest[i])
	clear(o.paid[i])
}

// noticeHours is how long machines work after a crossing.
const noticeHours = 2.0 / 60

// work handles a transition: it adds to out, with a weight, what follows from a step to level j.
func (r *reach) work(out, then *outcome, i, j int, weight float64) {
	hours := chainStep.Hours()
	for b := range out.rest[i] {
		crossed := b < r.bids() && j > b
		for k := range hourSteps {
			rest, paid := hours*(r.upkeep-r.lambda), 1.0
			switch {
			case crossed && k+1 < hourSteps:
				rest, paid = rest+then.idle[j]-noticeHours*r.lambda, 0
			case crossed:
				rest += then.idle[j]
			case k+1 == hourSteps:
				rest += then.end[j]
			default:
				rest, paid = rest+then.rest[j][b][k+1], then.paid[j][b][k+1]
			}
			out.rest[i][b][k] += weight * rest
			out.paid[i][b][k] += weight * paid
		}
	}
	out.idle[i] += weight * (hours*r.upkeep + then.idle[j]) // if it waits
}

// wait is the bid of a policy that buys nothing.
const wait = -1

// decide chooses the best for a level whose hours have been computed, and returns what to bid when nothing is held,
// and at the end of an hour.
func (r *reach) decide(out *outcome, i int) (idle, end int) {
	start := chainStep.Hours() * r.lambda
	best, bid := math.Inf(1), wait
	for b := min(i, r.bids()); b <= r.bids(); b++ {
		if v := r.price(i, b)*out.paid[i][b][0] + out.rest[i][b][0]; v < best {
			best, bid = v, b
		}
	}
	idle, end = wait, bid
	if best+start < out.idle[i] {
		out.idle[i], idle = best+start, bid
	}
	if out.end[i] = best; out.idle[i] < best {
		out.end[i], end = out.idle[i], wait
	}
	return idle, end
}

// price returns the price of an hour with a bid at a level.
func (r *reach) price(level, bid int) float64 {
	if bid == r.bids() {
		return dollars(r.onDemand)
	}
	return dollars(r.prices[level])
}

func dollars(u market.USD) float64 { return float64(u) / float64(market.Dollar) }

// expect goes back one step without knowledge of the next.
func (r *reach) expect() {
	out := r.empty()
	for i := range r.prices {
		for _, s := range r.next[i] {
			r.work(&out, &r.now, i, s.to, s.p)
		}
		r.decide(&out, i)
	}
	r.now = out
}

// settle computes the expected outcome at a price of work, and the long-run value of an hour: positive if work
// costs more than that.
func (r *reach) settle(lambda float64, hours int) (gain float64) {
	r.lambda = lambda
	half := 0.0
	for n := range hours * hourSteps {
		if 2*n == hours*hourSteps {
			half = r.now.idle[0]
		}
		r.expect()
	}
	gain = 2 * (r.now.idle[0] - half) / float64(hours)
	zero := r.now.idle[0] // keeps values small
	for i := range r.prices {
		r.now.idle[i] -= zero
		r.now.end[i] -= zero
		for b := range r.now.rest[i] {
			for k := range hourSteps {
				r.now.rest[i][b][k] -= zero
			}
		}
	}
	return gain
}

// least returns the long-run cost of an hour of work to a policy that only knows the odds.
func (r *reach) least() float64 {
	r.now = r.empty()
	low, high := 0.0, dollars(r.onDemand)+r.upkeep
	for range 12 {
		middle := (low + high) / 2
		if r.settle(middle, 72) > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// advice is the next bid on a path of which some steps are known.
type advice struct{ idle, end int }

// follow goes back over the known steps of a path, from the last. It returns what to bid at each, except the last; the
// first keep are enough.
func (r *reach) follow(path []int, keep int, scratch *[2]outcome) []advice {
	out := make([]advice, min(keep, len(path)-1))
	then, here, other := &r.now, &scratch[0], &scratch[1]
	for at := len(path) - 2; at >= 0; at-- {
		here.clear(path[at])
		r.work(here, then, path[at], path[at+1], 1)
		idle, end := r.decide(here, path[at])
		if at < len(out) {
			out[at] = advice{idle, end}
		}
		then, here, other = here, other, here
	}
	return out
}

// run walks along a path, of which `ahead` steps are known at each moment, and returns the cost of an hour of
// work.
func (r *reach) run(path []int, ahead int) float64 {
	scratch := [2]outcome{r.empty(), r.empty()}
	plans := map[int]advice{}
	if ahead >= len(path)-1 {
		for at, a := range r.follow(path, len(path), &scratch) {
			plans[at] = a
		}
	}
	plan := func(at int) advice {
		a, ok := plans[at]
		switch {
		case ok:
		case ahead == 0:
			scratch[0].clear(path[at])
			for _, s := range r.next[path[at]] {
				r.work(&scratch[0], &r.now, path[at], s.to, s.p)
			}
			a.idle, a.end = r.decide(&scratch[0], path[at])
		default:
			a = r.follow(path[at:min(at+ahead+1, len(path))], 1, &scratch)[0]
		}
		return a
	}
	paid, worked := 0.0, 0.0
	hours := chainStep.Hours()
	for at, renewed := 0, false; at+hourSteps < len(path); {
		bid := plan(at).idle
		if renewed {
			bid = plan(at).end
		}
		if bid == wait {
			paid += r.upkeep * hours
			at, renewed = at+1, false
			continue
		}
		level, steps, free := path[at], hourSteps, false
		for k := 1; k <= hourSteps && bid < r.bids(); k++ {
			if path[at+k] > bid {
				steps, free = k, k < hourSteps
				break
			}
		}
		worked += float64(steps) * hours
		if !renewed {
			worked -= hours
		}
		if free {
			worked += noticeHours
		} else {
			paid += r.price(level, bid)
		}
		paid += float64(steps) * hours * r.upkeep
		at, renewed = at+steps, !(bid < r.bids() && path[at+steps] > bid)
	}
	return paid / worked
}

// known returns the cost of an hour of work to a policy that knows `ahead` steps of a path: it iterates to
// find worth.
func (r *reach) known(path []int, ahead int, worth float64) float64 {
	best := math.Inf(1)
	for range 4 {
		r.settle(worth, 24)
		got := r.run(path, ahead)
		if best = min(best, got); got > 0.999*worth {
			break
		}
		worth = got
	}
	return best
}
