package bidding

import (
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// priceOdds is what the past of a pool says about the next billing increment, given the present price: the moments of the
// lookback at which the price was about the same, and how far it then rose, and when. Prices count as multiples of the
// price of the moment, so that a moment at another level still counts.
type priceOdds struct {
	parts []part
	known []outcomes // by span: of machines that are to be bought, and that are held
}

// part is some moments of a day.
type part struct {
	*day
	from, to int
}

// Days are the moments of pools by the day, which grow and never change: forecasts of successive hours share nearly all of their week. It
// serves one job, as a Memo does, and one goroutine.
type Days struct {
	known map[dayKey]*day
	last  forecastOf
}

// NewDays returns an empty Days.
func NewDays() *Days { return &Days{known: map[dayKey]*day{}} }

type dayKey struct {
	pool      market.Pool
	day       int64
	increment time.Duration
}

// mostDays are kept; then all are made again.
const mostDays = 2048

// day is the moments of 24 hours that are known.
type day struct {
	next      time.Time // the first that is not
	moments   []moment
	rises     []rise // of all moments, one after the other
	crossings []crossings
}

// moment is one instant of the past.
type moment struct {
	at       time.Time
	logPrice float64
	// begin and end are where its rises are: the instants at which the price reached a new maximum within the increment, in order.
	begin, end int
}

// crossings are what comes of machines that each rise takes, for a span of time.
type crossings struct {
	span  span
	rises []prospect // Index: rise
}

// outcomes is a cache of results for a span: thousands of starts look at the same hours at the same prices.
type outcomes struct {
	span  span
	known map[market.USD][]prospect
}

// rise is a new maximum, as a multiple of the moment's price, some time after it.
type rise struct {
	after  time.Duration
	factor float64
}

const (
	// momentEvery is the distance of moments. Prices change a few times an hour in busy markets.
	momentEvery = 15 * time.Minute
	// likeness is how near, in the logarithm, prices must be to count as about the same: the standard deviation of a
	// Gaussian weight. A tenth separates the levels of a market, and is more than its noise.
	likeness = 0.1
	// unlike is the weight of moments at any other price, so that a price never seen before still has odds.
	unlike = 0.02
)

// lookOut gathers the moments of [until-lookback, until), as far as the increment after each has ended. A nil Days keeps nothing.
func (d *Days) lookOut(pool market.Pool, h *market.History, until time.Time, lookback, increment time.Duration) priceOdds {
	var o priceOdds
	first, known := h.First()
	from := until.Add(-lookback)
	if !known {
		return o
	}
	if first.At.After(from) {
		from = first.At
	}
	before := func(m moment, at time.Time) int { return m.at.Compare(at) }
	for at := from.Truncate(24 * time.Hour); at.Before(until.Add(-increment)); at = at.Add(24 * time.Hour) {
		of := d.day(pool, at, increment)
		of.extend(h, at.Add(24*time.Hour), until, increment)
		p := part{day: of}
		p.from, _ = slices.BinarySearchFunc(of.moments, from, before)
		p.to, _ = slices.BinarySearchFunc(of.moments, until.Add(-increment), before)
		if p.from < p.to {
			o.parts = append(o.parts, p)
		}
	}
	return o
}

// day returns what is known of a day.
func (d *Days) day(pool market.Pool, at time.Time, increment time.Duration) *day {
	begun := &day{next: at}
	if d == nil {
		return begun
	}
	key := dayKey{pool, at.Unix(), increment}
	if known := d.known[key]; known != nil {
		return known
	}
	if len(d.known) >= mostDays {
		clear(d.known)
	}
	d.known[key] = begun
	return begun
}

// extend adds the moments before a day's end whose increment has ended by a time.
func (d *day) extend(h *market.History, dayEnd, until time.Time, increment time.Duration) {
	last := until.Add(-increment)
	if dayEnd.Before(last) {
		last = dayEnd
	}
	if !d.next.Before(last) {
		return
	}
	points := h.Points(d.next, until)
	price, known := h.At(d.next)
	for next := 0; d.next.Before(last); d.next = d.next.Add(momentEvery) { // next is the first point after the moment
		at := d.next
		for next < len(points) && !points[next].At.After(at) {
			price, known = points[next].Price, true
			next++
		}
		if !known || price <= 0 {
			continue
		}
		begin := len(d.rises)
		highest, end := price, at.Add(increment)
		for i := next; i < len(points) && points[i].At.Before(end); i++ {
			if p := points[i].Price; p > highest {
				highest = p
				d.rises = append(d.rises, rise{after: points[i].At.Sub(at), factor: float64(p) / float64(price)})
			}
		}
		d.moments = append(d.moments, moment{at: at, logPrice: math.Log(float64(price)), begin: begin, end: len(d.rises)})
	}
}

// crossed returns what comes of machines that each rise takes; nil = it is not kept, as a little later it is of another span: at the end of a job.
func (d *day) crossed(s span) []prospect {
	if s.left != s.increment {
		return nil
	}
	i := slices.IndexFunc(d.crossings, func(c crossings) bool { return c.span == s })
	if i < 0 {
		i = len(d.crossings)
		d.crossings = append(d.crossings, crossings{span: s})
	}
	of := &d.crossings[i]
	for _, r := range d.rises[len(of.rises):] {
		of.rises = append(of.rises, s.untilCrossing(r.after))
	}
	return of.rises
}

// prospect is what is to be expected of a machine over one increment.
type prospect struct {
	hours float64 // of time that pass until it is evicted or the increment ends
	work  float64 // hours of work
	paid  float64 // probability that the increment is paid for
	lost  float64 // probability that the machine is evicted in it
}

// span is what prospects depend on besides the odds.
type span struct {
	increment time.Duration // that is paid in one piece
	startup   time.Duration // of it, until the machine works
	handover  time.Duration // working time that is lost with an eviction, on top of it
	notice    time.Duration // between a crossing and the eviction
	left      time.Duration // working time after which the job is done; machines are then given back, and paid for
	free      bool          // an interrupted increment costs nothing
}

// prospectsAt returns those of some bids, which are always the same at a price.
func (o *priceOdds) prospectsAt(price market.USD, factors []float64, s span) ([]prospect, bool) {
	s.left = min(s.left, s.increment) // what comes after does not matter
	var known map[market.USD][]prospect
	for i := range o.known {
		if o.known[i].span == s {
			known = o.known[i].known
		}
	}
	out, ok := known[price]
	if ok {
		return out, out != nil
	}
	out = make([]prospect, len(factors))
	if !o.prospects(float64(price), factors, s, out) {
		out = nil
	}
	switch {
	case known != nil:
		known[price] = out
	case s.left == s.increment: // otherwise it is the end of a job, and a little later another span
		o.known = append(o.known, outcomes{span: s, known: map[market.USD][]prospect{price: out}})
	}
	return out, out != nil
}

// prospects returns what is to be expected at each of some bids, in ascending order, as multiples of the present price. It is
// false when there is no past to go by.
func (o *priceOdds) prospects(price float64, factors []float64, s span, out []prospect) bool {
	clear(out)
	s.left = min(s.left, s.increment) // what comes after does not matter
	total, logPrice, end := 0.0, math.Log(price), s.untilEnd()
	weight, of, whole := 0.0, math.NaN(), make([]float64, len(factors))
	var one prospect
	for _, p := range o.parts {
		crossed := p.crossed(s)
		for i := p.from; i < p.to; i++ {
			m := &p.moments[i]
			if m.logPrice != of { // prices mostly stay for more than a moment
				weight, of = unlike, m.logPrice
				if distance := (m.logPrice - logPrice) / likeness; distance < 4 && distance > -4 {
					weight += math.Exp(-distance * distance / 2)
				}
			}
			total += weight
			next, j, known := m.begin, 0, -1 // known is the rise of which one was computed
			for ; j < len(factors); j++ {
				for next < m.end && p.rises[next].factor <= factors[j] {
					next++
				}
				if next == m.end {
					whole[j] += weight // neither this bid is crossed nor any above it
					break
				}
				if next != known {
					if known = next; crossed != nil {
						one = crossed[next]
					} else {
						one = s.untilCrossing(p.rises[next].after)
					}
				}
				out[j].add(one, weight)
			}
		}
	}
	if total == 0 {
		return false
	}
	uncrossed := 0.0
	for j := range out {
		uncrossed += whole[j]
		out[j].add(end, uncrossed)
		out[j] = prospect{hours: out[j].hours / total, work: out[j].work / total, paid: out[j].paid / total, lost: out[j].lost / total}
	}
	return true
}

func (c *prospect) add(one prospect, weight float64) {
	c.hours += float64(weight * one.hours)
	c.work += float64(weight * one.work)
	c.paid += float64(weight * one.paid)
	c.lost += float64(weight * one.lost)
}

// untilEnd returns the prospect without a crossing.
func (s *span) untilEnd() prospect {
	work := min(s.increment-s.startup, s.left)
	return prospect{hours: (s.startup + work).Hours(), work: work.Hours(), paid: 1}
}

// untilCrossing is that with one. A machine that has finished before pays as if there were none; one warned too late to
// be taken within the increment has paid for it, and will not pay for the next. Warned machines work no more: they hand
// over what they hold.
func (s *span) untilCrossing(after time.Duration) prospect {
	end := after + s.notice
	if s.startup+s.left <= after || end >= s.increment {
		return s.untilEnd()
	}
	c := prospect{hours: after.Hours(), work: max(after-s.startup-s.handover, 0).Hours(), lost: 1}
	if !s.free {
		c.paid = end.Hours() / s.increment.Hours()
	}
	return c
}
