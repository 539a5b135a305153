package oracle

import (
	"math"
	"time"

	"github.com/tierml/tierml/market"
)

// group is the number of consecutive starts, in minutes, that share their programmes: each run's end is rounded
// up to it, as more time can only make a run cheaper. An hour is a multiple of it.
const group = 20

// Search answers queries to an oracle. It is for one goroutine; searches are fastest in order of their starts.
type Search struct {
	*Oracle
	program program
	group   int // group of the starts whose programmes are cached
	kept    map[key][]float64
	likely  int   // the ladder's step that was best for the last start
	hint    []int // by step: the price of work that was best for the last start; -1 = none yet
}

// program computes values backward from a run's end at a price for work.
type program interface {
	run(from, end int, lambda float64)
	idle(i int) float64
}

type key struct{ step, lambda int }

func (h *hours) idle(i int) float64   { return h.off[i] }
func (s *seconds) idle(i int) float64 { return s.off[i] }

// Search returns a new search.
func (o *Oracle) Search() *Search {
	s := &Search{Oracle: o, group: -1, kept: map[key][]float64{}, hint: make([]int, o.ladder.steps)}
	for j := range s.hint {
		s.hint[j] = -1
	}
	s.hint[0] = lambdas / 4
	if o.ladder.whole {
		s.program = &hours{Oracle: o}
	} else {
		s.program = &seconds{Oracle: o}
	}
	return s
}

// Cost returns the least that this work can cost from a start: no run within the horizon is cheaper. It returns false
// if the work cannot be done.
func (s *Search) Cost(start time.Time, work float64) (market.USD, bool) {
	begin := s.grid.minute(start)
	if begin < 0 || begin >= s.grid.minutes {
		return 0, false
	}
	if g := (begin + 1) / group; g != s.group {
		s.group = g
		clear(s.kept)
	}
	best := math.Inf(1)
	s.lengths(begin, work, s.likely, s.likely, &best) // so that others soon prove more expensive
	s.lengths(begin, work, 0, s.ladder.steps-1, &best)
	if math.IsInf(best, 1) {
		return 0, false
	}
	// Floating-point sums: subtract a billionth, to be safe.
	return market.USD(max(0, best*(1-1e-9)) * float64(market.Dollar)), true
}

// lengths searches for the cheapest length of a run between two steps of the ladder: the bound combines the shortest
// run's payment for reliable machines and the longest run's for the others.
func (s *Search) lengths(begin int, work float64, from, to int, best *float64) {
	paid := s.ladder.paid(from)
	others := s.highest(to, *best-paid, from == to, func(k int) float64 { return s.rounded(begin, to, work, k) })
	switch {
	case paid+others >= *best:
	case from == to:
		others = s.highest(to, *best-paid, true, func(k int) float64 { return s.exact(begin, to, work, k) })
		if paid+others < *best {
			*best, s.likely = paid+others, from
		}
	default:
		middle := (from + to) / 2
		s.lengths(begin, work, from, middle, best)
		s.lengths(begin, work, middle+1, to, best)
	}
}

// highest returns the best lower bound that a price of work gives for a step of the ladder, or one that is sufficient.
// A bound is concave in the price, so it climbs from the last start's best price; if climb is false, it tries that
// price alone.
func (s *Search) highest(step int, enough float64, climb bool, bound func(k int) float64) float64 {
	k := s.hint[step]
	if k < 0 {
		k = s.hint[s.likely]
	}
	best := bound(k)
	for by, failed := 1, 0; climb && best < enough && failed < 2; {
		next := min(max(k+by, 0), lambdas-1)
		switch b := bound(next); {
		case b > best:
			k, best, by, failed = next, b, 2*by, 0
		case by == 1 || by == -1: // no higher bound on this side
			by, failed = -by, failed+1
		default:
			by /= 2
		}
	}
	if climb {
		s.hint[step] = k
	}
	return max(0, best)
}

// rounded returns the bound by a price of work for runs whose end is rounded up to a step of the ladder.
func (s *Search) rounded(begin, step int, work float64, k int) float64 {
	first := s.group*group - 1 // the group's first start
	end := min(first+group+s.ladder.end(step), s.grid.minutes-1)
	values, ok := s.kept[key{step, k}]
	if !ok {
		from := max(0, first+s.stand())
		values = make([]float64, group)
		if from < end {
			s.program.run(from, end, s.price(k))
			for i := range values {
				if at := first + i + s.stand(); at >= from && at < end {
					values[i] = s.program.idle(at - from)
				}
			}
		}
		s.kept[key{step, k}] = values
	}
	return s.price(k)*s.left(work, end-begin) + values[begin-first]
}

// exact returns that bound for runs that end with the step itself.
func (s *Search) exact(begin, step int, work float64, k int) float64 {
	from, end := begin+s.stand(), min(begin+s.ladder.end(step)+1, s.grid.minutes-1)
	places := 0.0
	if from < end {
		s.program.run(from, end, s.price(k))
		places = s.program.idle(0)
	}
	return s.price(k)*s.left(work, end-begin) + places
}

// stand returns the number of whole minutes before anything except the reliable machines can be bought.
func (s *Search) stand() int { return int(s.cfg.Reliable.Stand / time.Minute) }

// left returns the work that the reliable machines cannot do in this many minutes.
func (s *Search) left(work float64, minutes int) float64 {
	r := &s.cfg.Reliable
	return max(0, work-r.Rate/hour*max(0, float64(minutes)-r.Stand.Minutes()))
}
