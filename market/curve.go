package market

import (
	"slices"
	"sort"
	"sync/atomic"
	"time"
)

// book holds the curves of a history for itself and its views. Each is computed at the first use of its bid.
type book struct {
	curves atomic.Pointer[[]*curve] // a list is never changed, only replaced
}

// maxCurves bounds the bids in a book: more than a job's policies use.
const maxCurves = 64

func (b *book) find(bid USD) *curve {
	if list := b.curves.Load(); list != nil {
		for _, c := range *list {
			if c.bid == bid {
				return c
			}
		}
	}
	return nil
}

func (b *book) keep(c *curve) {
	for {
		old := b.curves.Load()
		list := []*curve{c}
		if old != nil && len(*old) < maxCurves {
			list = append(slices.Clone(*old), c)
		}
		if b.curves.CompareAndSwap(old, &list) {
			return
		}
	}
}

// add extends all curves. The history must not be used concurrently, as with all appending.
func (b *book) add(points []PricePoint) {
	if list := b.curves.Load(); list != nil {
		for _, c := range *list {
			c.add(points)
		}
	}
}

// curve returns the history's sums at a bid.
func (h *History) curve(bid USD) *curve {
	if h.book != nil {
		if c := h.book.find(bid); c != nil {
			return c
		}
	}
	points := h.points
	if h.ahead != nil {
		points = h.ahead
	}
	c := &curve{bid: bid}
	for i, eighths := range bandEighths {
		c.edges[i] = bid/8*eighths + bid%8*eighths/8 // rounded down: whole prices pass the same test
	}
	c.add(points)
	if h.book != nil {
		h.book.keep(c)
	}
	return c
}

// curve is a history seen from one bid: the band of each point, and sums up to each point, so that any interval is a difference of two
// sums. Times are Unix nanoseconds; sums of their products are exact, so that they do not depend on where the history begins.
type curve struct {
	bid   USD
	edges [bands]USD

	times     []int64 // index: point
	bands     []uint8 // index: point
	all       []sums  // index: point. Of all bands, up to the point
	own       [bands]bandSums
	total     [bands + 1]sums // up to the last point
	crossings []crossing
}

// sums are for the steps within the bid, or for those in one band, up to an instant.
type sums struct {
	exposure int64  // of lengths, in nanoseconds
	squares  int128 // of the square of each step's end less that of its beginning
}

// every is the index of all bands together, after those of single bands.
const every = bands

type bandSums struct {
	points []int32 // in the band
	sums   []sums  // of the band, up to each
}

// crossing is a point at which the price rises above the bid.
type crossing struct {
	point  int32
	at     int64
	before [bands + 1]sums
	// ends sums up, for each earlier step, its length times twice the instant of the first crossing after it.
	ends [bands + 1]int128
}

func (s sums) plus(from, to int64) sums {
	return sums{s.exposure + to - from, s.squares.plus(product(to, to)).minus(product(from, from))}
}

func unixNano(t time.Time) int64 {
	if t.Unix() < 0 { // a price that has always held
		return 0
	}
	return t.UnixNano()
}

// add adds the new points.
func (c *curve) add(points []PricePoint) {
	n := len(c.times)
	c.times, c.bands, c.all = slices.Grow(c.times, len(points)-n), slices.Grow(c.bands, len(points)-n), slices.Grow(c.all, len(points)-n)
	for i, p := range points[n:] {
		c.addPoint(int32(n+i), unixNano(p.At), bandOf(p.Price, &c.edges))
	}
}

func (c *curve) addPoint(i int32, at int64, band int) {
	before := above
	if i > 0 {
		before = int(c.bands[i-1])
	}
	if before != above {
		began := c.times[i-1]
		c.total[before] = c.total[before].plus(began, at)
		c.total[every] = c.total[every].plus(began, at)
	}
	c.times, c.bands, c.all = append(c.times, at), append(c.bands, uint8(band)), append(c.all, c.total[every])
	switch {
	case band != above:
		own := &c.own[band]
		own.points, own.sums = append(own.points, i), append(own.sums, c.total[band])
	case before != above || i == 0:
		c.cross(i, at)
	}
}

func (c *curve) cross(i int32, at int64) {
	x := crossing{point: i, at: at, before: c.total}
	var last crossing
	if n := len(c.crossings); n > 0 {
		last = c.crossings[n-1]
	}
	for b := range x.ends {
		x.ends[b] = last.ends[b].plus(product(2*at, x.before[b].exposure-last.before[b].exposure))
	}
	c.crossings = append(c.crossings, x)
}

// until returns the sums of a band, or of every one, up to an instant at which a point is in force.
func (c *curve) until(at int64, point, band int) sums {
	s := c.all[point]
	if band != every {
		s = c.total[band]
		own := &c.own[band]
		if i, _ := slices.BinarySearch(own.points, int32(point)); i < len(own.points) {
			s = own.sums[i]
		}
	}
	if in := int(c.bands[point]); in != above && (band == every || band == in) {
		s = s.plus(c.times[point], at)
	}
	return s
}

// crossed returns the crossings after one point, up to another.
func (c *curve) crossed(after, to int) []crossing {
	first := sort.Search(len(c.crossings), func(i int) bool { return int(c.crossings[i].point) > after })
	last := first + sort.Search(len(c.crossings)-first, func(i int) bool { return int(c.crossings[first+i].point) > to })
	return c.crossings[first:last]
}

// nextCrossing returns the first crossing at or after a point; if there is none, a number beyond all points.
func (c *curve) nextCrossing(from int) (point int) {
	i := sort.Search(len(c.crossings), func(i int) bool { return int(c.crossings[i].point) >= from })
	if i == len(c.crossings) {
		return len(c.times)
	}
	return int(c.crossings[i].point)
}
