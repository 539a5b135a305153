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
	moments  []moment
	rises    []rise      // of all moments, one after the other
	outcomes []*outcomes // by span: of machines that are to be bought, and that are held
}

// moment is one instant of the past.
type moment struct {
	logPrice float64
	// begin and end are where its rises are: the instants at which the price reached a new maximum within the increment, in order.
	begin, end int
}

// outcomes are what follows for a span of time from the past alone, and a cache of earlier results: thousands of
// starts look at the same hours at the same prices.
type outcomes struct {
	span  span
	rises []prospect // Index: rise; of a machine that is lost by it
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

// lookOut gathers the moments of [until-lookback, until), as far as the increment after each has ended.
func lookOut(h *market.History, until time.Time, lookback, increment time.Duration) priceOdds {
	var o priceOdds
	first, known := h.First()
	from := until.Add(-lookback)
	if !known {
		return o
	}
	if first.At.After(from) {
		from = first.At
	}
	points := h.Points(from, until)
	price, known := h.At(from)
	next := 0 // the first point after the moment
	for at := from.Truncate(momentEvery); at.Before(until.Add(-increment)); at = at.Add(momentEvery) {
		if at.Before(from) {
			continue
		}
		for next < len(points) && !points[next].At.After(at) {
			price, known = points[next].Price, true
			next++
		}
		if !known || price <= 0 {
			continue
		}
		begin := len(o.rises)
		highest, end := price, at.Add(increment)
		for i := next; i < len(points) && points[i].At.Before(end); i++ {
			if p := points[i].Price; p > highest {
				highest = p
				o.rises = append(o.rises, rise{after: points[i].At.Sub(at), factor: float64(p) / float64(price)})
			}
		}
		o.moments = append(o.moments, moment{logPrice: math.Log(float64(price)), begin: begin, end: len(o.rises)})
	}
	o.rises = slices.Clone(o.rises) // forecasts are kept by the dozen
	return o
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

// outcomesOf returns those of a span.
func (o *priceOdds) outcomesOf(s span) *outcomes {
	for _, known := range o.outcomes {
		if known.span == s {
			return known
		}
	}
	all := &outcomes{span: s, rises: make([]prospect, len(o.rises)), known: map[market.USD][]prospect{}}
	for i := range o.rises {
		all.rises[i] = s.untilCrossing(o.rises[i].after)
	}
	if s.left == s.increment { // otherwise it is the end of a job, and a little later another span
		o.outcomes = append(o.outcomes, all)
	}
	return all
}

// prospectsAt returns those of some bids, which are always the same at a price.
func (o *priceOdds) prospectsAt(price market.USD, factors []float64, s span) ([]prospect, bool) {
	s.left = min(s.left, s.increment) // what comes after does not matter
	known := o.outcomesOf(s).known
	out, ok := known[price]
	if !ok {
		out = make([]prospect, len(factors))
		if !o.prospects(float64(price), factors, s, out) {
			out = nil
		}
		known[price] = out
	}
	return out, out != nil
}

// prospects returns what is to be expected at each of some bids, in ascending order, as multiples of the present price. It is
// false when there is no past to go by.
func (o *priceOdds) prospects(price float64, factors []float64, s span, out []prospect) bool {
	clear(out)
	s.left = min(s.left, s.increment) // what comes after does not matter
	total, logPrice, crossed, end := 0.0, math.Log(price), o.outcomesOf(s).rises, s.untilEnd()
	weight, of, whole := 0.0, math.NaN(), make([]float64, len(factors))
	for i := range o.moments {
		m := &o.moments[i]
		if m.logPrice != of { // prices mostly stay for more than a moment
			weight, of = unlike, m.logPrice
			if distance := (m.logPrice - logPrice) / likeness; distance < 4 && distance > -4 {
				weight += math.Exp(-distance * distance / 2)
			}
		}
		total += weight
		next, j := m.begin, 0
		for ; j < len(factors); j++ {
			for next < m.end && o.rises[next].factor <= factors[j] {
				next++
			}
			if next == m.end {
				whole[j] += weight // neither this bid is crossed nor any above it
				break
			}
			out[j].add(crossed[next], weight)
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
