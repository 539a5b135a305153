package bidding

import (
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// priceOdds is what the past of a pool says about the next billing increment, given the present price: the moments of the
// lookback at which the price was about the same, and how far it then rose, and when. Prices count as multiples of the
// price of the moment, so that a moment at another level still tells something.
type priceOdds struct {
	moments []moment
}

// moment is one instant of the past.
type moment struct {
	logPrice float64
	// rises are the instants at which the price reached a new maximum within the increment, in order.
	rises []rise
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
	// Gaussian weight. A tenth tells the levels of a market apart, and is more than its noise.
	likeness = 0.1
	// unlike is the weight of moments at any other price, so that a price never seen before still has an priceOdds.
	unlike = 0.02
)

// lookOut gathers the moments of [until-lookback, until), as far as the increment after them is over.
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
	var rises []rise
	var begins []int // of each moment, in rises
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
		begins = append(begins, len(rises))
		highest, end := price, at.Add(increment)
		for i := next; i < len(points) && points[i].At.Before(end); i++ {
			if p := points[i].Price; p > highest {
				highest = p
				rises = append(rises, rise{after: points[i].At.Sub(at), factor: float64(p) / float64(price)})
			}
		}
		o.moments = append(o.moments, moment{logPrice: math.Log(float64(price))})
	}
	// Only now, so that moments share one array and none of those that it outgrew: forecasts are kept by the dozen.
	rises = slices.Clone(rises)
	for i := range o.moments {
		end := len(rises)
		if i+1 < len(begins) {
			end = begins[i+1]
		}
		o.moments[i].rises = rises[begins[i]:end:end]
	}
	return o
}

// prospect is what is to be expected of a machine over one increment.
type prospect struct {
	hours float64 // of time that pass until it is evicted or the increment is over
	work  float64 // hours of work
	paid  float64 // probability that the increment is paid for
	lost  float64 // probability that the machine is evicted in it
}

// span is the input of a priceOdds' prospects.
type span struct {
	increment time.Duration // that is paid in one piece
	startup   time.Duration // of it, until the machine works
	handover  time.Duration // working time that is lost with an eviction beside it
	notice    time.Duration // between a crossing and the eviction
	left      time.Duration // working time after which the job is done; machines are then given back, and paid for
	free      bool          // an interrupted increment costs nothing
}

// prospects returns what is to be expected at each of some bids, in ascending order, as multiples of the present price. It is
// false when there is no past to go by.
func (o *priceOdds) prospects(price float64, factors []float64, s span, out []prospect) bool {
	clear(out)
	total, logPrice := 0.0, math.Log(price)
	for i := range o.moments {
		m := &o.moments[i]
		distance := (m.logPrice - logPrice) / likeness
		weight := unlike
		if distance < 4 && distance > -4 {
			weight += math.Exp(-distance * distance / 2)
		}
		total += weight
		next := 0
		for j, factor := range factors {
			for next < len(m.rises) && m.rises[next].factor <= factor {
				next++
			}
			c := s.untilEnd()
			if next < len(m.rises) {
				c = s.untilCrossing(m.rises[next].after)
			}
			out[j].add(c, weight)
		}
	}
	if total == 0 {
		return false
	}
	for j := range out {
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

// untilEnd is the prospect without a crossing.
func (s *span) untilEnd() prospect {
	work := min(s.increment-s.startup, s.left)
	return prospect{hours: (s.startup + work).Hours(), work: work.Hours(), paid: 1}
}

// untilCrossing is that with one. Who has finished before pays as if there were none; who is warned too late to be taken
// within the increment has paid for it, and will not pay for the next. Warned machines work no more: they hand over what
// they hold.
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
