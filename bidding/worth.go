package bidding

import (
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// offer is a pool as the forward model of CostPerWork sees it: the whole fleet bought there.
type offer struct {
	history  *market.History
	machines int
	rate     float64    // work per hour of the fleet
	bound    market.USD // the highest bid; on demand the price
	onDemand bool
}

// of returns the offer of this many machines.
func (o *offer) of(machines int) offer {
	some := *o
	some.machines, some.rate = machines, 0
	if o.machines > 0 {
		some.rate = o.rate / float64(o.machines) * float64(machines)
	}
	return some
}

// perHour returns what the fleet costs per hour at a price.
func (o *offer) perHour(price market.USD) float64 { return float64(price) * float64(o.machines) }

// perWork returns what its work costs at a price, without upkeep.
func (o *offer) perWork(price market.USD) float64 { return o.perHour(price) / o.rate }

// worthBids are the bids of the rules, as multiples of the price; the last is the bound.
var worthBids = [...]float64{1, 1.02, 1.2, 1000}

// worth returns what a unit of work has to cost, upkeep included: the least that simple rules would have paid over the
// lookback. Each rule buys in the pool that is cheapest per work at the moment, bids a multiple of the price, and waits
// while that pool asks more than some multiple of the median price; on-demand machines at any time bound it from above.
//
// Rules are tried on what has happened, as a whole: so that the figure has in it how often machines are taken for
// nothing, how long start-up takes of their life, and how long cheap times are waited for.
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
		if least == 0 && len(spot) > 0 { // of the past nothing is known: the highest bid that is allowed
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
			if !waited { // nor does one that waits for less
				break
			}
		}
	}
	return least
}

// path is what an offer's price did in a time; next is how far it has been followed.
type path struct {
	*offer
	points []market.PricePoint
	before market.USD // the price at the beginning
	known  bool
	next   int
}

// pathsOf returns those of some offers.
func pathsOf(offers []offer, from, to time.Time) []path {
	all := make([]path, len(offers))
	for i := range offers {
		c := &all[i]
		c.offer, c.points = &offers[i], offers[i].history.Points(from, to)
		c.before, c.known = offers[i].history.At(from)
	}
	return all
}

// at follows the path to a time, which must not be earlier than the last, and returns the price.
func (c *path) at(t time.Time) (market.USD, bool) {
	for c.next < len(c.points) && !c.points[c.next].At.After(t) {
		c.next++
	}
	if c.next > 0 {
		return c.points[c.next-1].Price, true
	}
	return c.before, c.known
}

// crossing returns how long after a time that it was followed to the price exceeds a bid that it does not exceed yet; false = not for so long.
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

// medianPerWork returns that of the lowest price per work of all pools, over equal steps of time.
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
		price, known := o.at(at)
		if !known || price > o.bound {
			continue
		}
		if w := o.perWork(price); !ok || w < perWork {
			best, perWork, ok = i, w, true
		}
	}
	return best, perWork, ok
}

// rule is one way to buy, to be tried on the past.
type rule struct {
	offers  []offer
	reserve float64 // the highest price per work at which it buys
	factor  float64 // bids are this multiple of the price, up to the bound
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
		price, _ := o.at(at)
		bid := o.bound
		if b := float64(price) * r.factor; b < float64(bid) {
			bid = market.USD(b)
		}
		c := r.span.untilEnd()
		if after, crosses := o.crossing(at, bid, r.span.increment); crosses { // a later one comes when the increment ends
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
