package oracle

import (
	"math"
	"time"

	"github.com/tierml/tierml/market"
)

// Clairvoyant returns the cost of the work from a start if at each instant the option with the cheapest work does it,
// bought and left at no cost, with no start-up, no reliable tier and no interruptions. It neither waits for lower
// prices nor uses free hours. It returns false if from some time on no option has a price within its bid.
func Clairvoyant(options []Option, start time.Time, work float64) (cost market.USD, known bool) {
	const years = 100 * 365 * 24 * time.Hour
	paths := make([]struct {
		price  market.USD
		known  bool
		points []market.PricePoint // future ones
	}, len(options))
	for i := range options {
		p := &paths[i]
		p.price, p.known = options[i].Prices.At(start)
		p.points = options[i].Prices.Points(start, start.Add(years))
	}
	spent := 0.0
	for now := start; ; {
		best, perWork, next := -1, math.Inf(1), time.Time{}
		for i := range options {
			o, p := &options[i], &paths[i]
			if len(p.points) > 0 && (next.IsZero() || p.points[0].At.Before(next)) {
				next = p.points[0].At
			}
			if w := float64(p.price) / o.Rate; p.known && (o.Bid == 0 || p.price <= o.Bid) && w < perWork {
				best, perWork = i, w
			}
		}
		if best >= 0 {
			rate := options[best].Rate * float64(options[best].Machines)
			done := work
			if !next.IsZero() {
				done = min(work, rate*next.Sub(now).Hours())
			}
			spent += done * perWork
			if work -= done; work <= 0 {
				return market.USD(spent), true
			}
		}
		if next.IsZero() {
			return 0, false
		}
		for i := range paths {
			p := &paths[i]
			for len(p.points) > 0 && !p.points[0].At.After(next) {
				p.price, p.known, p.points = p.points[0].Price, true, p.points[1:]
			}
		}
		now = next
	}
}
