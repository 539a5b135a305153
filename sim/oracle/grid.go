package oracle

import (
	"math"
	"time"

	"github.com/tierml/tierml/market"
)

const hour = 60 // minutes

// grid has the events of each minute, with all rounding in the oracle's favour.
type grid struct {
	first   time.Time
	minutes int
	options []series
}

// series is one option, minute by minute. Money is in dollars for the whole fleet.
type series struct {
	spot  bool
	rate  float64 // work per minute of the whole fleet
	start []bool  // machines can be bought in this minute and are not reclaimed within it

	hourly []float64 // the lowest price per hour in the minute
	sum    []float64 // prefix sums of whole minutes' costs; for terms by the second
	// crossing is the minute of the first instant, at or after the minute's beginning, at which the price first exceeds
	// the bid, and taken the minute in which machines are then gone; both lie beyond the grid if it never does.
	crossing, taken []int32

	// Lower bids: a machine is reclaimed when the price exceeds all prices since its launch, if its bid was that price.
	// These have the first such rise for a machine bought in the minute, or one whose hour ends then.
	bought, renewed []int32 // indices into rises
	rises           []rise
}

// rise is a price change that can reclaim machines.
type rise struct {
	minute, taken int32
	next          int32 // the next one that exceeds it
}

// never lies beyond any grid.
const never = math.MaxInt32 / 2

func newGrid(c Config) grid {
	g := grid{first: c.First.Truncate(time.Minute)}
	g.minutes = int(c.Last.Sub(g.first)/time.Minute) + 1
	for _, o := range c.Options {
		s := series{spot: o.Bid > 0, rate: o.Rate * float64(o.Machines) / hour}
		s.prices(g, o)
		s.crossings(g, o, c.Notice)
		s.lowerBids(g, o, c.Notice, c.LowerBids)
		g.options = append(g.options, s)
	}
	return g
}

// minute returns the index of the minute of an instant.
func (g *grid) minute(t time.Time) int { return int(t.Sub(g.first) / time.Minute) }

// prices goes through the price changes once. Paying the bid means paying at least the price.
func (s *series) prices(g grid, o Option) {
	s.hourly, s.sum, s.start = make([]float64, g.minutes), make([]float64, g.minutes+1), make([]bool, g.minutes)
	fleet := float64(o.Machines)
	price, known := o.Prices.At(g.first)
	cost := func() float64 {
		switch {
		case !known:
			return math.Inf(1)
		case o.Bid > 0:
			return fleet * dollars(min(price, o.Bid))
		}
		return fleet * dollars(price)
	}
	points := o.Prices.Points(g.first, g.first.Add(time.Duration(g.minutes)*time.Minute))
	for i := range g.minutes {
		begin := g.first.Add(time.Duration(i) * time.Minute)
		end := begin.Add(time.Minute)
		lowest, spent, since := cost(), 0.0, begin
		for len(points) > 0 && points[0].At.Before(end) {
			if known {
				spent += cost() * points[0].At.Sub(since).Hours()
			}
			price, known, since = points[0].Price, true, points[0].At
			points = points[1:]
			lowest = min(lowest, cost())
		}
		s.hourly[i] = lowest
		if known {
			spent += cost() * end.Sub(since).Hours()
		}
		s.sum[i+1] = s.sum[i] + spent
		s.start[i] = known && (o.Bid == 0 || price <= o.Bid)
	}
}

// crossings computes when the price first exceeds the bid, from the last time to the first.
func (s *series) crossings(g grid, o Option, notice time.Duration) {
	s.crossing, s.taken = make([]int32, g.minutes+1), make([]int32, g.minutes+1)
	for i := range s.crossing {
		s.crossing[i], s.taken[i] = never, never
	}
	if o.Bid == 0 {
		return
	}
	above := false
	if price, known := o.Prices.At(g.first); known {
		above = price > o.Bid
	}
	for _, p := range o.Prices.Points(g.first, g.first.Add(time.Duration(g.minutes)*time.Minute)) {
		if p.Price > o.Bid && !above {
			if i := g.minute(p.At); i < g.minutes && s.crossing[i] == never {
				s.crossing[i], s.taken[i] = int32(i), int32(g.minute(p.At.Add(notice)))
			}
		}
		above = p.Price > o.Bid
	}
	for i := g.minutes - 1; i >= 0; i-- {
		if s.crossing[i] == never {
			s.crossing[i], s.taken[i] = s.crossing[i+1], s.taken[i+1]
		}
	}
}

// cheapestWork returns the lowest price per unit of work at any time.
func (g *grid) cheapestWork() float64 {
	lowest := math.Inf(1)
	for i := range g.options {
		s := &g.options[i]
		for _, price := range s.hourly {
			if price > 0 {
				lowest = min(lowest, price/(s.rate*hour))
			}
		}
	}
	if math.IsInf(lowest, 1) {
		return 1e-9
	}
	return lowest
}

// lowerBids links each price with the next higher one.
func (s *series) lowerBids(g grid, o Option, notice time.Duration, wanted bool) {
	s.bought, s.renewed = make([]int32, g.minutes+1), make([]int32, g.minutes+1)
	fill := func(row []int32, x int32) {
		for i := range row {
			row[i] = x
		}
	}
	var points []market.PricePoint
	if wanted && o.Bid > 0 {
		points = o.Prices.Points(g.first.Add(-hour*time.Minute), g.first.Add(time.Duration(g.minutes)*time.Minute))
	}
	none := int32(len(points)) // sentinel for no further rise
	fill(s.bought, none)
	fill(s.renewed, none)
	s.rises = make([]rise, len(points)+1)
	s.rises[none] = rise{never, never, none}
	if none == 0 {
		return
	}
	for i := len(points) - 1; i >= 0; i-- {
		next := int32(i + 1)
		for next < none && points[next].Price <= points[i].Price {
			next = s.rises[next].next
		}
		at := points[i].At
		s.rises[i] = rise{int32(floorMinute(at.Sub(g.first))), int32(floorMinute(at.Add(notice).Sub(g.first))), next}
	}
	// A purchase uses the lowest price of the minute; a renewed machine has lived through an hour.
	highest := make([]int32, g.minutes) // index of the highest price in force in the minute; none if unknown
	now, j := none, 0
	for ; j < len(points) && !points[j].At.After(g.first); j++ {
		now = int32(j)
	}
	for i := range g.minutes {
		end := g.first.Add(time.Duration(i+1) * time.Minute)
		low, high := now, now
		for ; j < len(points) && points[j].At.Before(end); j++ {
			now = int32(j)
			if low == none || points[now].Price <= points[low].Price {
				low = now
			}
			if high == none || points[now].Price > points[high].Price {
				high = now
			}
		}
		highest[i] = high
		s.bought[i] = s.rises[low].next
		if low == none { // the price is older than the points
			s.bought[i] = int32(j)
		}
	}
	for i := hour; i < g.minutes; i++ {
		top := none
		for _, h := range highest[i-hour+1 : i] {
			if h != none && (top == none || points[h].Price > points[top].Price) {
				top = h
			}
		}
		if s.renewed[i] = s.rises[top].next; top == none {
			s.renewed[i] = s.bought[i]
		}
	}
	copy(s.renewed[:min(hour, g.minutes)], s.bought)
}

// floorMinute rounds down to whole minutes, including negative ones.
func floorMinute(d time.Duration) int {
	return int(math.Floor(d.Minutes()))
}
