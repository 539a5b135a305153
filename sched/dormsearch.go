package sched

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// answer is units of every app on every host.
type answer struct {
	on     [][]int
	counts []int
	free   []Resources
	loss   float64
	noise  *rand.Rand // places units at random among hosts, preferring best fit; nil = best fit
}

func (p *problem) valueOf(x *answer) float64 {
	sum := 0.
	for i, a := range p.apps {
		sum += a.value * float64(x.counts[i])
	}
	return sum
}

func (p *problem) resized(x *answer) int {
	n := 0
	for i, a := range p.apps {
		if a.old && !slices.Equal(a.held, x.on[i]) {
			n++
		}
	}
	return n
}

func (p *problem) lossOf(i, units int) float64 {
	return math.Abs(p.apps[i].share*float64(units) - p.apps[i].fair)
}

// missing is the weight of a missing share relative to one of unfairness.
const missing = 1e3

// lacking returns an answer's distance from feasibility: the shares of units below the least, then unfairness beyond the bound.
func (p *problem) lacking(x *answer) float64 {
	sum := 0.
	for i, a := range p.apps {
		sum += a.share * float64(max(a.least-x.counts[i], 0))
	}
	return missing*sum + max(x.loss-p.unfair-rounding, 0)
}

// better compares answers: first by feasibility, then by value.
func (p *problem) better(a, b *answer) bool {
	if b == nil {
		return true
	}
	if c := cmp.Compare(p.lacking(a), p.lacking(b)); c != 0 {
		return c < 0
	}
	return p.valueOf(a) > p.valueOf(b)+rounding
}

// tries is the number of sets of resized jobs considered, one job more at a time.
const tries = 400

// search searches for an answer; false = it found none within the bounds. Old jobs to resize are chosen one after another, each time the
// one that gives the best answer; among many jobs, those that would change most if all could be resized.
func (p *problem) search() (*answer, bool) {
	if p.crowded() {
		return nil, false
	}
	p.relax()
	p.looks = looks
	var old []int
	for i, a := range p.apps {
		if a.old {
			old = append(old, i)
		}
	}
	fixed := make([]bool, len(p.apps))
	for _, i := range old {
		fixed[i] = true
	}
	starts := []*answer{p.fill(fixed)}
	switch {
	case p.resize >= len(old):
		starts = append(starts, p.fill(make([]bool, len(p.apps))))
	case p.resize*len(old) > tries:
		p.looks = looks / 2 // for each of two
		for _, i := range p.mostChanged(old)[:p.resize] {
			fixed[i] = false
		}
		starts = append(starts, p.fill(fixed))
	default:
		starts = append(starts, p.oneByOne(fixed, old)...)
	}
	slices.SortStableFunc(starts, func(a, b *answer) int { return boolean(p.better(b, a)) - boolean(p.better(a, b)) })
	if p.lacking(starts[0]) > 0 && p.small() {
		starts[0] = p.repair(starts[0])
	}
	best := p.polish(starts)
	return best, p.lacking(best) == 0
}

// crowded reports whether the sum of all leasts exceeds the capacity.
func (p *problem) crowded() bool {
	need := make(Resources, len(p.total))
	for _, a := range p.apps {
		for k, v := range a.demand {
			need[k] += v * float64(a.least)
		}
	}
	return !fits(p.total, need)
}

// oneByOne allows one more old app to be resized each time, the one that gives the best answer. It returns the best of each round, and all
// of the last.
func (p *problem) oneByOne(fixed []bool, old []int) (all []*answer) {
	for left := p.resize; left > 0; left-- {
		chosen := -1
		var round *answer
		for _, i := range old {
			if !fixed[i] {
				continue
			}
			fixed[i] = false
			x := p.fill(fixed)
			if p.better(x, round) {
				round, chosen = x, i
			}
			if left == 1 {
				all = append(all, x)
			}
			fixed[i] = true
		}
		if fixed[chosen] = false; left > 1 {
			all = append(all, round)
		}
	}
	return all
}

// mostChanged sorts old jobs by how much of a share they would gain or lose if all could be resized.
func (p *problem) mostChanged(old []int) []int {
	x := p.fill(make([]bool, len(p.apps)))
	change := func(i int) float64 { return p.apps[i].share * math.Abs(float64(x.counts[i]-p.apps[i].holds)) }
	sorted := slices.Clone(old)
	slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(change(b), change(a)) })
	return sorted
}

// fill returns the better of two answers in which the fixed apps do not change: one spends fairness where it buys the most, the other on
// the largest gains first. If units are large, one GPU of five, the first has too little left for the next one; among many apps that evens
// out.
func (p *problem) fill(fixed []bool) *answer {
	x := p.grow(fixed, func(gain, loss float64) float64 { return gain / loss })
	if len(p.apps) > shortlist {
		return x
	}
	if y := p.grow(fixed, func(gain, _ float64) float64 { return gain }); p.better(y, x) {
		return y
	}
	return x
}

// grow returns an answer: the apps that are not fixed at their fair shares first, then moves that add value while fairness lasts, the most
// valuable first.
func (p *problem) grow(fixed []bool, worth func(gain, loss float64) float64) *answer {
	x := &answer{counts: make([]int, len(p.apps))}
	for _, c := range p.caps {
		x.free = append(x.free, slices.Clone(c))
	}
	var order []int
	for i, a := range p.apps {
		x.on = append(x.on, make([]int, len(p.caps)))
		if fixed[i] {
			for h, n := range a.held {
				p.put(x, i, h, n)
			}
		} else {
			order = append(order, i)
		}
	}
	// The scarce first: those that fit on few hosts.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.apps[b].share, p.apps[a].share) })
	p.fairly(x, order)
	p.improve(x, order, worth)
	return x
}

// fairly places apps that have nothing yet: the least of each in this order, and then one unit each in turn, up to the fair shares.
func (p *problem) fairly(x *answer, order []int) {
	for _, i := range order {
		for x.counts[i] < p.apps[i].least && p.place(x, i) {
		}
	}
	for again := true; again; {
		again = false
		for _, i := range order {
			n := x.counts[i]
			if n < p.apps[i].most && n >= p.apps[i].least && p.lossOf(i, n+1) < p.lossOf(i, n) && p.place(x, i) {
				again = true
			}
		}
	}
	x.loss = 0
	for i := range p.apps {
		x.loss += p.lossOf(i, x.counts[i])
	}
}

// put adds units of an app to a host, or removes them with n < 0.
func (p *problem) put(x *answer, i, host, n int) {
	x.on[i][host] += n
	x.counts[i] += n
	for k, v := range p.apps[i].demand {
		x.free[host][k] -= v * float64(n)
	}
}

func fits(free, demand Resources) bool {
	for k, v := range demand {
		if v > free[k]+rounding {
			return false
		}
	}
	return true
}

// host returns where a unit fits with the least left over, preferring the app's present hosts among equals; -1 = nowhere.
func (p *problem) host(x *answer, i int) int {
	best, least := -1, math.Inf(1)
	for h, free := range x.free {
		if !fits(free, p.apps[i].demand) {
			continue
		}
		over := 0.
		for k, v := range free {
			if p.total[k] > 0 {
				over += v / p.total[k]
			}
		}
		if x.on[i][h] < p.apps[i].held[h] {
			over -= rounding
		}
		if x.noise != nil {
			over *= x.noise.Float64()
		}
		if over < least {
			best, least = h, over
		}
	}
	return best
}

func (p *problem) place(x *answer, i int) bool {
	h := p.host(x, i)
	if h < 0 {
		return false
	}
	p.put(x, i, h, 1)
	return true
}

// looks is the number of moves considered for one answer.
const looks = 4_000_000

// improve makes moves host by host: a unit more, or a unit of another app instead of one or two. First those that cost no fairness, then
// those with the most value for their cost in fairness, down to any that adds value while fairness lasts.
func (p *problem) improve(x *answer, open []int, worth func(gain, loss float64) float64) {
	left, most := p.looks, 0.
	var spare []int // apps that can give up a unit on a host
	for _, part := range []float64{math.Inf(1), .7, .5, .35, .25, .15, .08, 0} {
		least := 0.
		if part > 0 {
			least = most * part
			if math.IsInf(part, 1) {
				least = free
			}
		}
		for moved := true; moved && left > 0; {
			moved = false
			lists := p.shortlists(x, open)
			for h := range x.free {
				best := move{by: worth}
				spare = spare[:0]
				for _, i := range open {
					if x.on[i][h] > 0 && x.counts[i] > p.apps[i].least {
						spare = append(spare, i)
					}
				}
				for _, j := range lists[p.types[h]] {
					if x.counts[j] < p.apps[j].most {
						p.onHost(x, h, j, spare, &best, &left)
					}
				}
				if best.worth < free {
					most = max(most, best.worth)
				}
				if best.worth > 0 && best.worth >= least {
					p.make(x, best)
					moved = true
				}
			}
		}
	}
}

// shortlist is the number of apps considered for a host; if there are more, those to which a unit is worth the most beyond its price.
const shortlist = 24

// shortlists returns the apps that may get a unit on hosts of each type.
func (p *problem) shortlists(x *answer, open []int) [][]int {
	lists := make([][]int, len(p.prices.types))
	for t := range lists {
		lists[t] = open
		if len(open) <= shortlist {
			continue
		}
		var can []int
		worth := make([]float64, len(p.apps))
		for _, i := range open {
			if a, n := p.apps[i], x.counts[i]; n < a.most && fits(p.prices.types[t].one, a.demand) {
				worth[i] = a.value - p.prices.rent(t, a.demand) - p.prices.ofFairness()*(p.lossOf(i, n+1)-p.lossOf(i, n))
				can = append(can, i)
			}
		}
		slices.SortStableFunc(can, func(a, b int) int { return cmp.Compare(worth[b], worth[a]) })
		lists[t] = can[:min(len(can), shortlist)]
	}
	return lists
}

func (p *problem) make(x *answer, m move) {
	for _, i := range m.out[:m.outs] {
		p.put(x, i, m.host, -1)
	}
	p.put(x, m.in, m.host, m.count)
	x.loss += m.loss
}

// move puts count units of in on a host, replacing the units of others in out.
type move struct {
	host, in, count int
	out             [mostOut]int
	outs            int
	loss, worth     float64
	by              func(gain, loss float64) float64 // value of a move that costs fairness
}

// mostOut is the maximum number of units that may make room for one.
const mostOut = 6

// free is the least worth of a move that costs no fairness.
const free = 1e6

// onHost considers units of j on a host: one more, or as many as fit instead of one or two of others, or one instead of more.
func (p *problem) onHost(x *answer, h, j int, spare []int, best *move, left *int) {
	*left--
	m := move{host: h, in: j, count: 1}
	if fits(x.free[h], p.apps[j].demand) {
		best.consider(p, x, m)
		return
	}
	for at, i := range spare {
		if i == j {
			continue
		}
		m.out[0], m.outs = i, 1
		if p.inPlace(x, m, best, left) > 0 {
			continue
		}
		for _, l := range spare[at:] {
			if l != j && x.on[l][h] > boolean(l == i) && x.counts[l]-boolean(l == i) > p.apps[l].least {
				m.out[1], m.outs = l, 2
				p.inPlace(x, m, best, left)
			}
		}
	}
	p.largeInPlace(x, h, j, spare, best, left)
}

// inPlace considers replacing out by as many units of in as fit, and by one; it returns how many fit.
func (p *problem) inPlace(x *answer, m move, best *move, left *int) int {
	*left--
	count := p.apps[m.in].most - x.counts[m.in]
	for k, v := range p.apps[m.in].demand {
		if v <= 0 {
			continue
		}
		room := x.free[m.host][k] + rounding
		for _, i := range m.out[:m.outs] {
			room += p.apps[i].demand[k]
		}
		if room < v*float64(count) {
			count = int(room / v)
		}
	}
	for n := count; n > 0; n = boolean(n > 1) {
		m.count = n
		best.consider(p, x, m)
	}
	return count
}

// largeInPlace considers replacing three or more units, those of least value, by one.
func (p *problem) largeInPlace(x *answer, h, j int, spare []int, best *move, left *int) {
	m := move{host: h, in: j, count: 1}
	for m.outs < mostOut {
		*left -= len(spare)/4 + 1
		cheapest := -1
		for _, i := range spare {
			gone := 0
			for _, o := range m.out[:m.outs] {
				gone += boolean(o == i)
			}
			if i == j || x.on[i][h] <= gone || x.counts[i]-gone <= p.apps[i].least {
				continue
			}
			if cheapest < 0 || p.apps[i].value < p.apps[cheapest].value {
				cheapest = i
			}
		}
		if cheapest < 0 {
			return
		}
		m.out[m.outs] = cheapest
		if m.outs++; m.outs > 2 && p.inPlace(x, m, best, left) > 0 {
			return
		}
	}
}

// consider keeps a move that is better than the best so far: by value per fairness while there is some to spend; a move that makes the
// answer fairer if the bound is exceeded.
func (m *move) consider(p *problem, x *answer, c move) {
	gain := p.apps[c.in].value * float64(c.count)
	c.loss = p.lossOf(c.in, x.counts[c.in]+c.count) - p.lossOf(c.in, x.counts[c.in])
	for at, i := range c.out[:c.outs] {
		n := x.counts[i]
		for _, before := range c.out[:at] {
			n -= boolean(before == i)
		}
		gain -= p.apps[i].value
		c.loss += p.lossOf(i, n-1) - p.lossOf(i, n)
	}
	over := x.loss - p.unfair
	switch {
	case over > rounding: // fairer first
		if c.loss >= -rounding {
			return
		}
		c.worth = free * (1 - c.loss)
	case gain <= rounding || over+c.loss > rounding:
		return
	case c.loss <= rounding:
		c.worth = free * (1 + gain)
	default:
		c.worth = m.by(gain, c.loss)
	}
	if c.worth > m.worth {
		c.by = m.by
		*m = c
	}
}
