package oracle

import "math"

// hours is the backward programme for terms that bill whole hours, over the minutes [from, end] of the grid, at a price
// for work. Its values are the cost from a minute on, less the price of the work done, for one fleet's slot, which
// holds at most one fleet and one that is leaving.
//
// A leaving fleet works to the end of its paid hour, and until then its slot accepts no third fleet. That end is
// rounded down to a block of ten minutes: `left` counts the blocks from a minute's own to the one in which the leaving
// fleet is gone.
type hours struct {
	*Oracle
	from, end int
	lambda    float64
	open      []int // options that may be worth their price

	off    []float64   // the slot is empty; by minute
	wait   []float64   // the same while a fleet is leaving; by minute and left
	renew  [][]float64 // an hour of the option has ended and the option is kept; by option, minute
	launch [][]float64 // the option is bought now, while a fleet is leaving; by option, minute and left
	over   []float64   // a fleet is bought now or later, while another is leaving; by minute and left
	free   []stretch   // stretches of the present hour that a lower bid ends
}

const (
	block  = 10 // minutes
	blocks = hour/block + 1
)

func (h *hours) run(from, end int, lambda float64) {
	h.from, h.end, h.lambda = from, end, lambda
	n := end - from + 1
	h.off, h.wait, h.over = sized(h.off, n), sized(h.wait, n*blocks), sized(h.over, n*blocks)
	if h.renew == nil {
		h.renew, h.launch = make([][]float64, len(h.grid.options)), make([][]float64, len(h.grid.options))
	}
	for i := range h.renew {
		h.renew[i], h.launch[i] = sized(h.renew[i], n), sized(h.launch[i], n*blocks)
	}
	h.open = h.open[:0]
	for p := range h.grid.options {
		if s := &h.grid.options[p]; s.spot || s.hourly[from] < lambda*s.rate*hour {
			h.open = append(h.open, p)
		}
	}
	h.finish(n - 1)
	for i := n - 2; i >= 0; i-- {
		h.minute(i)
	}
}

func sized(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n+n/4)[:n]
	}
	return s[:n]
}

// finish sets the values at the end of the run, after which nothing is bought.
func (h *hours) finish(last int) {
	inf := math.Inf(1)
	h.off[last] = 0
	for k := range blocks {
		h.wait[last*blocks+k], h.over[last*blocks+k] = 0, inf
		for p := range h.launch {
			h.launch[p][last*blocks+k] = inf
		}
	}
	for p := range h.renew {
		h.renew[p][last] = 0
	}
}

// minute computes the values at a minute of the programme. Only exchanges from hours that begin anew in this minute
// depend on values of the same minute: a bought fleet is held for at least a minute.
func (h *hours) minute(i int) {
	at := h.from + i
	for _, p := range h.open {
		s := &h.grid.options[p]
		row := h.launch[p][i*blocks : (i+1)*blocks]
		fill(row, math.Inf(1))
		if s.start[at] { // after a crossing within the minute
			hour := h.stretch(p, i, at+1, h.startup)
			h.buy(row, i, &hour)
		}
		if int(s.crossing[at]) == at { // or before it
			hour := h.stretch(p, i, at, h.startup)
			h.buy(row, i, &hour)
		}
		if s.start[at] || int(s.crossing[at]) == at {
			h.lower(p, i, h.startup)
			for f := range h.free {
				h.buy(row, i, &h.free[f])
			}
		}
	}
	step := (at+1)/block - at/block // number of blocks that this minute completes
	h.empty(i, step)
	h.exchange(i, step)
	for _, p := range h.open {
		hour := h.stretch(p, i, at, 0)
		best := hour.value + min(h.ends(&hour, i, 0), h.leaves(&hour, i))
		h.lower(p, i, 0)
		for f := range h.free {
			s := &h.free[f]
			best = min(best, s.value+min(h.ends(s, i, 0), h.leaves(s, i)))
		}
		h.renew[p][i] = best
	}
}

func fill(row []float64, x float64) {
	for i := range row {
		row[i] = x
	}
}

// empty computes the values of the empty slot: it waits, or buys any option.
func (h *hours) empty(i, step int) {
	now, next := h.wait[i*blocks:(i+1)*blocks], h.wait[(i+1)*blocks:(i+2)*blocks]
	for k := range now {
		now[k] = next[max(0, k-step)]
	}
	for _, p := range h.open {
		for k, v := range h.launch[p][i*blocks : (i+1)*blocks] {
			now[k] = min(now[k], v)
		}
	}
	h.off[i] = now[0]
}

// exchange computes the values when a fleet leaves and another is bought before it is gone.
func (h *hours) exchange(i, step int) {
	now, next := h.over[i*blocks:(i+1)*blocks], h.over[(i+1)*blocks:(i+2)*blocks]
	now[0] = math.Inf(1)
	copy(now[step:], next)
	for _, p := range h.open {
		for k, v := range h.launch[p][i*blocks : (i+1)*blocks] {
			now[k] = min(now[k], v)
		}
	}
}

// stretch is the part of an option's hour that does not depend on what follows.
type stretch struct {
	option  int
	begin   int     // its first minute in the programme
	value   float64 // its cost, less the price of its work
	over    int     // the minute of the programme in which it or the run ends
	evicted bool
	next    int // when another fleet may be bought after an eviction: at the notice
}

// stretch returns the stretch from minute i of the programme on, with or without a start-up at its beginning. The
// price may end it from minute `alive` of the grid on, by exceeding the highest bid.
func (h *hours) stretch(p, i, alive int, startup float64) stretch {
	s := &h.grid.options[p]
	out := stretch{option: p, begin: i, over: min(h.from+i+hour, h.end) - h.from}
	crossing, taken := int(s.crossing[alive]), int(s.taken[alive])
	if crossing < h.from+i+hour || taken <= h.from+i+hour {
		return h.evicted(p, i, crossing, taken, startup)
	}
	out.value = s.hourly[h.from+i] - h.lambda*s.rate*max(0, float64(out.over-i)-startup)
	return out
}

// evicted returns a stretch that ends with an eviction. If machines are reclaimed in a later hour, this one is paid.
func (h *hours) evicted(p, i, crossing, taken int, startup float64) stretch {
	s, at := &h.grid.options[p], h.from+i
	paid, over := 0.0, taken
	if taken > min(at+hour, h.end) {
		paid, over = s.hourly[at], min(at+hour, h.end)
	}
	next := crossing
	if startup > 0 {
		next = max(next, at+1) // a fleet is held for at least a minute
	}
	work := s.rate * max(0, float64(min(taken+1, h.end)-at)-startup)
	return stretch{option: p, begin: i, value: paid - h.lambda*work, over: over - h.from, evicted: true, next: min(next, h.end) - h.from}
}

// lower lists the stretches that end when the price rises above a lower bid.
func (h *hours) lower(p, i int, startup float64) {
	s, at := &h.grid.options[p], h.from+i
	h.free = h.free[:0]
	first := s.renewed[at]
	if startup > 0 {
		first = s.bought[at]
	}
	for r := &s.rises[first]; int(r.minute) < min(at+hour, h.end); r = &s.rises[r.next] {
		if float64(r.taken) > float64(at)+startup {
			h.free = append(h.free, h.evicted(p, i, max(int(r.minute), at), int(r.taken), startup))
		}
	}
}

// ends returns the value after a stretch that is kept to its end; at its beginning another fleet was leaving for k more
// blocks.
func (h *hours) ends(s *stretch, i, k int) float64 {
	switch {
	case s.evicted:
		return h.wait[s.next*blocks+max(0, k-((h.from+s.next)/block-(h.from+i)/block))]
	case s.over == h.end-h.from:
		return 0
	}
	return min(h.renew[s.option][s.over], h.off[s.over])
}

// leaves returns the value when another fleet is bought from a minute on, while this one works to the end of its
// stretch.
func (h *hours) leaves(s *stretch, earliest int) float64 {
	if h.cfg.Exchange > 0 {
		earliest = max(earliest, s.begin+hour-int(math.Ceil(h.cfg.Exchange.Minutes())))
	}
	if earliest >= s.over {
		return math.Inf(1)
	}
	return h.over[earliest*blocks+(h.from+s.over)/block-(h.from+earliest)/block]
}

// buy lowers a row of launch to the value of a stretch for each number of blocks: this fleet stays until the other is
// gone.
func (h *hours) buy(row []float64, i int, s *stretch) {
	end := h.ends(s, i, 0)
	row[0] = min(row[0], s.value+min(end, h.leaves(s, i+1)))
	now := (h.from + i) / block
	for k := 1; k < blocks; k++ {
		best := end
		if s.evicted {
			best = h.ends(s, i, k)
		}
		row[k] = min(row[k], s.value+min(best, h.leaves(s, max(i+1, (now+k)*block-h.from))))
	}
}
