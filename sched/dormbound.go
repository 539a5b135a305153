package sched

import (
	"math"
	"slices"
)

// bound returns an upper bound on P2's value: its value when capacity (6), fairness (15) and the number of resized jobs
// (16) have prices instead of bounds. Then the apps are independent, and the best for each is found directly;
// subgradients search for the prices with the least such value, towards a value that is known to be possible. Hosts of
// one type are merged (6 summed over them), which can only raise the bound.
func (p *problem) bound(reached float64) float64 {
	r := p.prices
	least := math.Inf(1)
	best := slices.Clone(r.price)
	const rounds = 400
	step, stuck := 1., 0
	for range rounds {
		value, slope := r.value()
		if value < least-1e-9 {
			least, stuck = value, 0
			copy(best, r.price)
		} else if stuck++; stuck == 15 {
			step, stuck = step/2, 0
		}
		square := 0.
		for c, g := range slope {
			scaled := g * r.unit(c)
			square += scaled * scaled
		}
		if square == 0 || least-reached < 1e-9 {
			break
		}
		length := step * (value - reached) / square
		for c, g := range slope {
			r.price[c] = max(r.price[c]-length*g*r.unit(c)*r.unit(c), 0)
		}
	}
	copy(r.price, best)
	return max(least, reached)
}

// relax computes the initial prices: from half of what would make the average unit pay for itself, towards the use of
// most of all resources.
func (p *problem) relax() {
	types, of := p.hostTypes()
	r := &relaxed{problem: p, types: types, price: make([]float64, len(types)*len(p.total)+2)}
	for _, a := range p.apps {
		r.room = append(r.room, r.fitting(a.demand))
		held := make([]float64, len(types))
		for h, n := range a.held {
			held[of[h]] += float64(n)
		}
		r.held = append(r.held, held)
	}
	for t := range types {
		for k, v := range p.total {
			if v > 0 {
				r.price[t*len(p.total)+k] = .5 / v
			}
		}
	}
	p.prices, p.types = r, of
	if len(p.apps) > shortlist {
		p.bound(.9 * float64(len(p.total)))
	}
}

func (r *relaxed) ofFairness() float64 { return r.price[len(r.price)-2] }

// relaxed is P2 with prices: per type of host and resource, then of fairness, then of a resized job.
type relaxed struct {
	*problem
	types []hostType
	price []float64
	room  []int       // per app: units that fit on all hosts when empty
	held  [][]float64 // per app: units on each type of host now
}

type hostType struct {
	one   Resources // per host
	total Resources // for all hosts
}

func (p *problem) hostTypes() (types []hostType, of []int) {
	for _, c := range p.caps {
		t := slices.IndexFunc(types, func(t hostType) bool { return slices.Equal(t.one, c) })
		if t < 0 {
			t = len(types)
			types = append(types, hostType{c, make(Resources, len(c))})
		}
		for k, v := range c {
			types[t].total[k] += v
		}
		of = append(of, t)
	}
	return types, of
}

// unit scales prices to a common unit.
func (r *relaxed) unit(c int) float64 {
	m := len(r.total)
	if c >= len(r.types)*m {
		return 1
	}
	if v := r.types[c/m].total[c%m]; v > 0 {
		return 1 / v
	}
	return 0
}

// value returns the relaxation's value, and its slope by the prices.
func (r *relaxed) value() (float64, []float64) {
	m := len(r.total)
	fairness, resized := len(r.price)-2, len(r.price)-1
	slope := make([]float64, len(r.price))
	sum := 0.
	for t, ty := range r.types {
		for k, v := range ty.total {
			slope[t*m+k] = v
			sum += r.price[t*m+k] * v
		}
	}
	slope[fairness], slope[resized] = r.unfair, float64(r.resize)
	sum += r.price[fairness]*r.unfair + r.price[resized]*float64(r.resize)
	for i, a := range r.apps {
		value, units, on := r.alone(i)
		if a.old {
			kept := a.value*float64(a.holds) - r.price[fairness]*r.lossOf(i, a.holds)
			for t, n := range r.held[i] {
				kept -= n * r.rent(t, a.demand)
			}
			if value -= r.price[resized]; kept >= value {
				sum += kept
				slope[fairness] -= r.lossOf(i, a.holds)
				for t, n := range r.held[i] {
					for k, v := range a.demand {
						slope[t*m+k] -= v * n
					}
				}
				continue
			}
			slope[resized]--
		}
		sum += value
		slope[fairness] -= r.lossOf(i, units)
		if on >= 0 {
			for k, v := range a.demand {
				slope[on*m+k] -= v * float64(units)
			}
		}
	}
	return sum, slope
}

// rent returns what a unit pays for a type of host.
func (r *relaxed) rent(t int, demand Resources) float64 {
	sum := 0.
	for k, v := range demand {
		sum += r.price[t*len(r.total)+k] * v
	}
	return sum
}

// alone returns the best for one app: all its units on the cheapest type on which one fits; the value is concave in their number, with a bend at
// the fair share, so the best number is at an end or next to the bend.
func (r *relaxed) alone(i int) (value float64, units, on int) {
	a := r.apps[i]
	on, rent := -1, math.Inf(1)
	for t, ty := range r.types {
		if c := r.rent(t, a.demand); c < rent && fits(ty.one, a.demand) {
			on, rent = t, c
		}
	}
	if on < 0 {
		return math.Inf(-1), a.least, -1
	}
	value = math.Inf(-1)
	bend := 0
	if a.share > 0 {
		bend = int(a.fair/a.share + rounding)
	}
	most := max(min(a.most, r.room[i]), a.least)
	for _, n := range []int{a.least, most, bend, bend + 1} {
		if n < a.least || n > most {
			continue
		}
		if v := (a.value-rent)*float64(n) - r.price[len(r.price)-2]*r.lossOf(i, n); v > value {
			value, units = v, n
		}
	}
	return value, units, on
}

func (r *relaxed) fitting(demand Resources) int {
	sum := 0.
	for _, c := range r.caps {
		fit := math.Inf(1)
		for k, v := range demand {
			if v > 0 {
				fit = min(fit, math.Floor((c[k]+rounding)/v))
			}
		}
		sum += fit
	}
	return int(min(sum, 1e9))
}
