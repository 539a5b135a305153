package bidding

import (
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// offer is a pool in CostPerWork's forward model: the whole fleet bought there.
type offer struct {
	history  *market.History
	machines int
	rate     float64    // work per hour of the fleet
	bound    market.USD // the highest bid; on demand the price
	onDemand bool
}

// sized returns the offer for this many machines.
func (o *offer) sized(machines int) offer {
	some := *o
	some.machines, some.rate = machines, 0
	if o.machines > 0 {
		some.rate = o.rate / float64(o.machines) * float64(machines)
	}
	return some
}

// perHour returns the fleet's hourly cost at a price.
func (o *offer) perHour(price market.USD) float64 { return float64(price) * float64(o.machines) }

// perWork returns the cost of its work at a price, without upkeep.
func (o *offer) perWork(price market.USD) float64 { return o.perHour(price) / o.rate }

// worthBids are the rules' bids, as multiples of the price; the last is the bound.
var worthBids = [...]float64{1, 1.02, 1.2, 1000}

// worth returns the achievable cost of a unit of work, including upkeep: the least that simple rules would have paid
// over the lookback. Each rule buys in the pool that is cheapest per work at the moment, bids a multiple of the price,
// and waits while that pool costs more than some multiple of the median price; on-demand machines at any time bound it
// from above.
//
// Rules are tried on the whole past, so the figure includes how often machines are reclaimed without charge, the
// share of their life that start-up takes, and the wait for cheap times.
func worth(offers []offer, from, to time.Time, upkeep float64, s span) float64 {
	least := 0.0
	var spot []offer
	for _, o := range offers {
		if !o.onDemand {
			spot = append(spot, o)
			continue
		}
		if w := o.perWork(o.bound) + upkeep/o.rate; least == 0 || w < least {
			least = w
		}
	}
	median, ok := medianPerWork(spot, from, to)
	if !ok {
		if least == 0 && len(spot) > 0 { // the past is unknown: use the highest allowed bid
			least = spot[0].perWork(spot[0].bound) + upkeep/spot[0].rate
		}
		return least
	}
	for _, factor := range worthBids {
		for _, reserve := range [...]float64{1.15, 1.5, 3, 1000} {
			rule := rule{offers: spot, reserve: reserve * median, factor: factor, upkeep: upkeep, span: s}
			w, waited, ok := rule.costPerWork(from, to)
			if ok && (least == 0 || w < least) {
				least = w
			}
			if !waited { // nor does one with a lower reserve
				break
			}
		}
	}
	return least
}

// path is an offer's price over time; next is how far it has been followed.
type path struct {
	*offer
	points []market.PricePoint
	before market.USD // the price at the beginning
	known  bool
	next   int
}

// pathsOf returns the paths of some offers.
func pathsOf(offers []offer, from, to time.Time) []path {
	all := make([]path, len(offers))
	for i := range offers {
		c := &all[i]
		c.offer, c.points = &offers[i], offers[i].history.Points(from, to)
		c.before, c.known = offers[i].history.At(from)
	}
	return all
}

// priceAt follows the path to a time, which must not precede the last one, and returns the price.
func (c *path) priceAt(t time.Time) (market.USD, bool) {
	for c.next < len(c.points) && !c.points[c.next].At.After(t) {
		c.next++
	}
	if c.next > 0 {
		return c.points[c.next-1].Price, true
	}
	return c.before, c.known
}

// crossing returns how long after the present position the price first exceeds a bid; false = not within the limit.
func (c *path) crossing(t time.Time, bid market.USD, within time.Duration) (time.Duration, bool) {
	for _, p := range c.points[c.next:] {
		after := p.At.Sub(t)
		if after >= within {
			break
		}
		if p.Price > bid {
			return after, true
		}
	}
	return 0, false
}

// medianPerWork returns the median of the lowest price per work of all pools, over equal steps of time.
func medianPerWork(offers []offer, from, to time.Time) (float64, bool) {
	var all []float64
	paths := pathsOf(offers, from, to)
	for at := from; at.Before(to); at = at.Add(momentEvery) {
		if _, price, ok := cheapest(paths, at); ok {
			all = append(all, price)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return nthElement(all, len(all)/2), true
}

// cheapest returns the offer with the lowest price per work at a time, among those within their bound.
func cheapest(offers []path, at time.Time) (best int, perWork float64, ok bool) {
	for i := range offers {
		o := &offers[i]
		price, known := o.priceAt(at)
		if !known || price > o.bound {
			continue
		}
		if w := o.perWork(price); !ok || w < perWork {
			best, perWork, ok = i, w, true
		}
	}
	return best, perWork, ok
}

// rule is one way to buy, tried on the past.
type rule struct {
	offers  []offer
	reserve float64 // the highest price per work at which it buys
	factor  float64 // the bid as a multiple of the price, up to the bound
	upkeep  float64
	span    span
}

// costPerWork follows the rule from one time to another. It reports whether the rule waited for its reserve.
func (r *rule) costPerWork(from, to time.Time) (perWork float64, waited, ok bool) {
	var paid, work, hours float64
	paths := pathsOf(r.offers, from, to)
	for at := from; at.Before(to); {
		i, now, ok := cheapest(paths, at)
		if !ok || now > r.reserve {
			waited = waited || ok
			hours += momentEvery.Hours()
			at = at.Add(momentEvery)
			continue
		}
		o := &paths[i]
		price, _ := o.priceAt(at)
		bid := o.bound
		if b := float64(price) * r.factor; b < float64(bid) {
			bid = market.USD(b)
		}
		c := r.span.untilEnd()
		if after, crosses := o.crossing(at, bid, r.span.increment); crosses { // a later crossing comes when the increment ends
			c = r.span.untilCrossing(after)
		}
		if c.lost == 0 {
			c.hours -= r.span.startup.Hours() // the next machines start while these still work
		}
		paid += float64(c.paid * o.perHour(price))
		work += float64(c.work * o.rate)
		hours += c.hours
		at = at.Add(max(time.Duration(c.hours*float64(time.Hour)), time.Second))
	}
	if work <= 0 {
		return 0, waited, false
	}
	return (paid + float64(r.upkeep*hours)) / work, waited, true
}

// nthElement returns the element that would be at index n in ascending order.
func nthElement(x []float64, n int) float64 {
	slices.Sort(x)
	return x[n]
}
