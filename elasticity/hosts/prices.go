package hosts

import (
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// SlotPrices returns the spot prices of slots of a type, or of a size of their own, from since until until, beginning with the price in force at since: their share of
// the cheapest host. On-demand slots cost their share of a reliable host, which is constant.
func (b *Brain) SlotPrices(kind string, own Size, class market.Class, since, until time.Time) (points []market.PricePoint) {
	size, known := b.Book.rules.sizeOf(kind, own)
	if !known {
		return nil
	}
	if class == market.OnDemand {
		if b.cfg.Reliable.Count == 0 {
			return nil
		}
		return []market.PricePoint{{At: since, Price: perHour(size, b.cfg.Reliable.Type, b.cfg.Reliable.Type.OnDemand)}}
	}
	var times []time.Time
	var inForce time.Time // of the prices at since, the last to begin
	for _, p := range b.cfg.Pools {
		for _, point := range p.History.Points(since, until) {
			times = append(times, point.At)
		}
		if before := p.History.Points(time.Time{}, since); len(before) > 0 && before[len(before)-1].At.After(inForce) {
			inForce = before[len(before)-1].At
		}
	}
	if !inForce.IsZero() {
		times = append(times, inForce)
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, at := range slices.CompactFunc(times, time.Time.Equal) {
		var least market.USD
		found := false
		for _, p := range b.cfg.Pools {
			if price, known := p.History.At(at); known {
				share := perHour(size, p.Type, price)
				if !found || share < least {
					least, found = share, true
				}
			}
		}
		if found && (len(points) == 0 || points[len(points)-1].Price != least) {
			points = append(points, market.PricePoint{At: at, Price: least})
		}
	}
	return points
}

// perHour returns what a slot pays per hour of a host.
func perHour(slot Size, host market.InstanceType, price market.USD) market.USD {
	from := time.Time{}
	to := from.Add(time.Hour)
	return Share(slot, SizeOf(host), 0, from, to, []market.Charge{{From: from, To: to, Amount: price}})
}
