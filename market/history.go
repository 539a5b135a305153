package market

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// PricePoint is a price per hour from an instant on.
type PricePoint struct {
	At    time.Time
	Price USD
}

// History is a pool's price as a step function: each point's price holds until the next point. Before the first point the price is unknown.
// A nil History knows nothing.
//
// Points never change once in a History, so views of it (Until) share them, and results computed from them: Append only adds behind what
// every view can see. A view to which the same points are appended again, as in replays, keeps sharing. Concurrent reads are safe while
// there is no Append.
type History struct {
	points []PricePoint // sorted by At, no two at the same instant
	ahead  []PricePoint // for a view: all points of its history, of which it sees the first; otherwise nil
	book   *book
	holes  []Hole
}

// Hole is a period for which prices were not recorded. The price before it is assumed to hold, which may be wrong.
type Hole struct {
	From, To time.Time
}

// SetHoles sets the periods for which the history was not recorded, in order. The reader of a recording calls it before
// anyone else uses the history.
func (h *History) SetHoles(holes []Hole) { h.holes = holes }

// Holes returns the holes, including those after the last point of a view.
func (h *History) Holes() []Hole {
	if h == nil {
		return nil
	}
	return h.holes
}

// NewHistory makes a History of points in any order. Of points at the same instant the last one wins. Points that repeat the previous price
// are kept: they are evidence that it still held.
func NewHistory(points []PricePoint) *History {
	sorted := slices.Clone(points)
	slices.SortStableFunc(sorted, func(a, b PricePoint) int { return a.At.Compare(b.At) })
	kept := sorted[:0]
	for _, p := range sorted {
		if n := len(kept); n > 0 && kept[n-1].At.Equal(p.At) {
			kept[n-1] = p
			continue
		}
		kept = append(kept, p)
	}
	return &History{points: kept, book: &book{}}
}

// Constant returns the history of a constant price, such as an on-demand pool's.
func Constant(price USD) *History {
	return &History{points: []PricePoint{{Price: price}}, book: &book{}}
}

// Map returns the history with each price mapped by f. A nil History stays nil.
func (h *History) Map(of func(USD) USD) *History {
	if h == nil {
		return nil
	}
	points := slices.Clone(h.points)
	for i := range points {
		points[i].Price = of(points[i].Price)
	}
	return &History{points: points, book: &book{}, holes: h.holes}
}

// Append adds a point that is later than all others. Repeating the last point is harmless; going back in time, or changing the price at the
// last instant, is an error: decisions may already depend on it.
func (h *History) Append(p PricePoint) error {
	if last, ok := h.Last(); ok && !p.At.After(last.At) {
		if p.At.Equal(last.At) && p.Price == last.Price {
			return nil
		}
		return fmt.Errorf("price %s at %s: the history already reaches %s; append in time order",
			p.Price, p.At.Format(time.RFC3339), last.At.Format(time.RFC3339))
	}
	n := len(h.points)
	switch {
	case n < len(h.ahead) && p.Price == h.ahead[n].Price && p.At.Equal(h.ahead[n].At):
		h.points = h.ahead[: n+1 : n+1]
		return nil
	case h.ahead != nil || h.book == nil: // it diverges from its history, or is the first point
		h.ahead, h.book = nil, &book{}
	}
	h.points = append(h.points, p)
	h.book.add(h.points)
	return nil
}

// Len returns the number of points.
func (h *History) Len() int { return len(h.all()) }

// First returns the earliest point.
func (h *History) First() (PricePoint, bool) {
	points := h.all()
	if len(points) == 0 {
		return PricePoint{}, false
	}
	return points[0], true
}

// Last returns the latest point.
func (h *History) Last() (PricePoint, bool) {
	points := h.all()
	if len(points) == 0 {
		return PricePoint{}, false
	}
	return points[len(points)-1], true
}

// At returns the price in force at t; a point holds from its own instant on.
func (h *History) At(t time.Time) (USD, bool) {
	if i := h.countUntil(t); i > 0 {
		return h.points[i-1].Price, true
	}
	return 0, false
}

// Until returns the history as it was known at t: the points at or before it, without copying them. It is the input for a decision at t.
func (h *History) Until(t time.Time) *History {
	if h == nil {
		return &History{}
	}
	n, ahead := h.countUntil(t), h.ahead
	if ahead == nil {
		ahead = h.points
	}
	return &History{points: h.points[:n:n], ahead: ahead, book: h.book, holes: h.holes}
}

// Points returns the points after from, up to and including to. The slice is shared and read-only.
func (h *History) Points(from, to time.Time) []PricePoint {
	first, end := h.countUntil(from), h.countUntil(to)
	if first >= end {
		return nil
	}
	return h.points[first:end:end]
}

// Changes returns the points after from, up to and including to, at which the price changed (or became known).
func (h *History) Changes(from, to time.Time) []PricePoint {
	var changes []PricePoint
	price, known := h.At(from)
	for _, p := range h.Points(from, to) {
		if !known || p.Price != price {
			changes = append(changes, p)
		}
		price, known = p.Price, true
	}
	return changes
}

// FirstAbove returns the first instant at or after from at which the price is above limit: from itself if the price in force then is.
func (h *History) FirstAbove(from time.Time, limit USD) (time.Time, bool) {
	if price, known := h.At(from); known && price > limit {
		return from, true
	}
	later := h.all()[h.countUntil(from):]
	if h != nil && h.book != nil {
		if c := h.book.find(limit); c != nil { // the expectation at this bid is known
			i := c.nextCrossing(len(h.points) - len(later))
			if i < len(h.points) {
				return h.points[i].At, true
			}
			return time.Time{}, false
		}
	}
	for _, p := range later {
		if p.Price > limit {
			return p.At, true
		}
	}
	return time.Time{}, false
}

// Mean returns the time-weighted mean price over [from, to), rounded half up to the billionth. It is unknown
// unless the price is known throughout. For an empty span it is the price at from.
func (h *History) Mean(from, to time.Time) (USD, bool) {
	price, known := h.At(from)
	if !known || to.Before(from) {
		return 0, false
	}
	if to.Equal(from) {
		return price, true
	}
	var hi, lo uint64 // price x nanoseconds: more than 64 bits within hours
	add := func(price USD, d time.Duration) {
		productHi, productLo := bits.Mul64(uint64(price), uint64(d))
		var carry uint64
		lo, carry = bits.Add64(lo, productLo, 0)
		hi, _ = bits.Add64(hi, productHi, carry)
	}
	since := from
	for _, p := range h.Points(from, to) {
		add(price, p.At.Sub(since))
		price, since = p.Price, p.At
	}
	add(price, to.Sub(since))
	return divideHalfUp(hi, lo, uint64(to.Sub(from)))
}

// all returns the points, also of a nil History.
func (h *History) all() []PricePoint {
	if h == nil {
		return nil
	}
	return h.points
}

// countUntil returns the number of points at or before t.
func (h *History) countUntil(t time.Time) int {
	points := h.all()
	if n := len(points); n == 0 || !points[n-1].At.After(t) {
		return n // queries are usually about now
	}
	return sort.Search(len(points), func(i int) bool { return points[i].At.After(t) })
}
