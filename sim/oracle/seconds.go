package oracle

import "math"

// seconds is the backward programme for terms that bill by the second; hours explains its values. A fleet may leave
// at any minute, and a replaced fleet works until its replacement has started.
type seconds struct {
	*Oracle
	from, end int
	lambda    float64

	off    []float64   // the slot is empty; by minute
	held   [][]float64 // the option is working; by option, minute
	launch [][]float64 // the option is bought now; by option, minute
}

func (s *seconds) run(from, end int, lambda float64) {
	s.from, s.end, s.lambda = from, end, lambda
	n := end - from + 1
	s.off = sized(s.off, n)
	if s.held == nil {
		s.held, s.launch = make([][]float64, len(s.grid.options)), make([][]float64, len(s.grid.options))
	}
	for p := range s.held {
		s.held[p], s.launch[p] = sized(s.held[p], n), sized(s.launch[p], n)
		s.held[p][n-1], s.launch[p][n-1] = 0, math.Inf(1)
	}
	s.off[n-1] = 0
	for i := n - 2; i >= 0; i-- {
		s.off[i] = s.off[i+1]
		for p := range s.launch {
			s.launch[p][i] = s.buy(p, i)
			s.off[i] = min(s.off[i], s.launch[p][i])
		}
		for p := range s.held {
			s.held[p][i] = s.hold(p, i)
		}
	}
}

// cost returns the cost of the option's fleet between two minutes of the programme.
func (s *seconds) cost(p, from, until int) float64 {
	sum := s.grid.options[p].sum
	return sum[s.from+max(from, until)] - sum[s.from+from]
}

// buy returns the value of a purchase within the minute, so that the rest of it need not be paid.
func (s *seconds) buy(p, i int) float64 {
	o := &s.grid.options[p]
	at, last, best := s.from+i, s.end-s.from, math.Inf(1)
	if o.start[at] {
		best = s.start(p, i, at+1)
	}
	if int(o.crossing[at]) == at {
		best = min(best, s.start(p, i, at))
	}
	if i >= last {
		return math.Inf(1)
	}
	return best
}

// start returns the value of a fleet's first period, until it works or is reclaimed. The price may reclaim it from
// minute `alive` of the grid on.
func (s *seconds) start(p, i, alive int) float64 {
	o, last := &s.grid.options[p], s.end-s.from
	begun := i + int(s.startup) // it works for the rest of that minute
	taken := int(o.taken[alive]) - s.from
	best := s.free(p, i, max(int(o.crossing[alive]), s.from+i+1), int(o.taken[alive]))
	for r := &o.rises[o.bought[s.from+i]]; int(r.taken) <= min(s.from+i+s.freeWithin(), s.end); r = &o.rises[r.next] {
		best = min(best, s.free(p, i, max(int(r.minute), s.from+i+1), int(r.taken)))
	}
	switch {
	case begun+1 >= last:
		return min(best, 0)
	case taken <= begun:
		return best
	}
	fraction := float64(begun+1-i) - s.startup
	return min(best, s.cost(p, i+1, begun+1)-s.lambda*o.rate*fraction+s.held[p][begun+1])
}

func (s *seconds) freeWithin() int { return int(s.cfg.Terms.FreeWithin.Minutes()) }

// free returns the value of a fleet that is reclaimed early enough to cost nothing.
func (s *seconds) free(p, i, crossing, taken int) float64 {
	if s.freeWithin() == 0 || taken > min(s.from+i+s.freeWithin(), s.end) {
		return math.Inf(1)
	}
	work := s.grid.options[p].rate * max(0, float64(min(taken+1, s.end)-s.from-i)-s.startup)
	return s.off[min(crossing, s.end)-s.from] - s.lambda*work
}

// hold returns the value of a working fleet: it continues, leaves, is replaced, or is reclaimed.
func (s *seconds) hold(p, i int) float64 {
	o, at, last := &s.grid.options[p], s.from+i, s.end-s.from
	crossing, taken := int(o.crossing[at])-s.from, int(o.taken[at])-s.from
	if crossing == i {
		gone := min(taken+1, last)
		return s.cost(p, i, min(taken, last)) - s.lambda*o.rate*float64(gone-i) + s.off[i]
	}
	// A fleet that leaves within the minute may be paid to the minute's beginning and have worked to its end.
	best := min(s.off[i]-s.lambda*o.rate, s.cost(p, i, i+1)-s.lambda*o.rate+s.held[p][i+1])
	for q := range s.launch {
		if q != p {
			best = min(best, s.launch[q][i]+min(s.beside(p, i, int(s.startup)), s.beside(p, i, int(s.startup)+exchange)))
		}
	}
	return best
}

// exchange is how many minutes two fleets may work at the same time when one replaces the other.
const exchange = 3

// beside returns the value of a fleet that works on for some more minutes.
func (s *seconds) beside(p, i, minutes int) float64 {
	o, last := &s.grid.options[p], s.end-s.from
	until := min(i+minutes, int(o.taken[s.from+i])-s.from, last)
	gone := min(until+1, last)
	return s.cost(p, i, until) - s.lambda*o.rate*float64(gone-i)
}
