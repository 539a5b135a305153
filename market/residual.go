package market

import (
	"sort"
	"time"
)

// Bands of price relative to the bid, in eighths of it: up to 1/8, 1/4, 1/2, 3/4 and all of it. Calm markets stay in the low bands;
// the high bands show a rising price early.
var bandEighths = [bands]USD{1, 2, 4, 6, 8}

const (
	bands = 5
	above = bands // the band of prices above the bid
)

func bandOf(price USD, edges *[bands]USD) int {
	for i, edge := range edges {
		if price <= edge {
			return i
		}
	}
	return above
}

// tally sums the instants of a band.
type tally struct {
	left     float64       // time until the crossing, summed; square nanoseconds
	exposure time.Duration // measure of the instants
	ended    time.Duration // measure of those followed by a crossing
}

// window is an interval of a curve, in Unix nanoseconds, at whose end the price is within the bid.
type window struct {
	*curve
	known       int // points; the curve may have more
	from, to    int64
	first, last int        // the points in force then
	crossings   []crossing // between
}

func (e Estimator) window(h *History, now time.Time, bid USD) window {
	c := h.curve(bid)
	w := window{curve: c, known: len(h.points), to: unixNano(now)}
	w.from = max(w.to-int64(e.Lookback), c.times[0])
	w.first, w.last = w.inForce(w.from), w.inForce(w.to)
	w.crossings = c.crossed(w.first, w.last)
	return w
}

// inForce returns the point whose price holds at an instant that is not before the first.
func (w *window) inForce(at int64) int {
	if w.times[w.known-1] <= at { // queries are usually about now
		return w.known - 1
	}
	return sort.Search(w.known, func(i int) bool { return w.times[i] > at }) - 1
}

// tally sums up a band, or every one. An instant t of a step [a, b) that is followed by a crossing at x, or by the window's end, has x - t
// left; integrated over the step that is x (b - a) - (b² - a²) / 2.
func (w *window) tally(band int) (t tally) {
	begin, end := w.until(w.from, w.first, band), w.until(w.to, w.last, band)
	closed, twice := begin, int128{}
	if n := len(w.crossings); n > 0 {
		first, last := &w.crossings[0], &w.crossings[n-1]
		closed = last.before[band]
		twice = last.ends[band].minus(first.ends[band]).plus(product(2*first.at, first.before[band].exposure-begin.exposure))
	}
	twice = twice.plus(product(2*w.to, end.exposure-closed.exposure)).minus(end.squares.minus(begin.squares))
	return tally{
		left:     twice.float() / 2,
		exposure: time.Duration(end.exposure - begin.exposure),
		ended:    time.Duration(closed.exposure - begin.exposure),
	}
}

// within returns how many of a band's instants were followed by a crossing within horizon, and how many are old enough to know.
func (w *window) within(horizon time.Duration, band int) (followed, told time.Duration) {
	exposure := func(at int64) int64 { return w.until(at, w.inForce(at), band).exposure }
	begin := exposure(w.from)
	since, known := w.from, begin // the last crossing, and what had been seen until then
	for i := range w.crossings {
		x := &w.crossings[i]
		if soon := x.at - int64(horizon); soon > since {
			known = exposure(soon)
		}
		followed += time.Duration(x.before[band].exposure - known)
		since, known = x.at, x.before[band].exposure
	}
	if open := w.to - int64(horizon); open > since {
		known = exposure(open)
	}
	return followed, time.Duration(known - begin)
}

// observation holds the tallies of all bands and of the present band.
type observation struct {
	all, present tally
	crossings    int
}

func (w *window) observe() observation {
	return observation{all: w.tally(every), present: w.tally(w.present()), crossings: len(w.crossings)}
}

// present returns the band of the price at the window's end.
func (w *window) present() int { return int(w.bands[w.last]) }

// endedAtLeast is the inverse of the least share of instants that counts as ended.
const endedAtLeast = 20

// countsAsEnded returns the measure of the instants that count as ended.
func (t *tally) countsAsEnded() float64 {
	return float64(max(t.ended, t.exposure/endedAtLeast))
}

// estimate blends the present band with all bands.
func (e Estimator) estimate(o observation) Estimate {
	switch {
	case o.all.exposure == 0:
		return Estimate{}
	case o.all.ended == 0:
		return Estimate{Known: true, Mean: o.all.exposure, Censored: true}
	}
	weight := float64(e.Prior) / float64(o.all.exposure)
	left := o.present.left + float64(weight*o.all.left)
	ended := o.present.countsAsEnded() + float64(weight*o.all.countsAsEnded())
	return Estimate{Known: true, Mean: toDuration(left / ended), Episodes: o.crossings}
}

// shareWithin returns the share of sufficiently old instants that a crossing followed within horizon, in the same blend. It
// requires at least one crossing.
func (e Estimator) shareWithin(w *window, horizon time.Duration, o observation) float64 {
	weight := float64(e.Prior) / float64(o.all.exposure)
	soon, told := w.within(horizon, w.present())
	allSoon, allTold := w.within(horizon, every)
	return min((float64(soon)+float64(weight*float64(allSoon)))/(float64(told)+float64(weight*float64(allTold))), 1)
}
