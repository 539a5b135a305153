package cost

import (
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// priceBook keeps the prices of all pools in the journal.
type priceBook map[market.Pool]*poolPrices

// poolPrices makes a history of the points lazily, and only when they have changed.
type poolPrices struct {
	points  []market.PricePoint
	history *market.History
}

func (b priceBook) add(pool market.Pool, p market.PricePoint) {
	prices, ok := b[pool]
	if !ok {
		prices = &poolPrices{}
		b[pool] = prices
	}
	prices.points = append(prices.points, p)
	prices.history = nil
}

// len returns how many points of a pool are known.
func (b priceBook) len(pool market.Pool) int {
	if prices, ok := b[pool]; ok {
		return len(prices.points)
	}
	return 0
}

// history returns nil, which has no prices, for a pool that was never mentioned.
func (b priceBook) history(pool market.Pool) *market.History {
	prices, ok := b[pool]
	if !ok {
		return nil
	}
	if prices.history == nil {
		prices.history = market.NewHistory(prices.points)
	}
	return prices.history
}

// pools lists all pools in order.
func (b priceBook) pools() []market.Pool {
	var pools []market.Pool
	for pool := range b {
		pools = append(pools, pool)
	}
	slices.SortFunc(pools, market.Pool.Compare)
	return pools
}

// between returns a pool's price as steps within [from, to]: the first is in force at from, or starts where the price becomes known.
func (b priceBook) between(pool market.Pool, from, to time.Time) []market.PricePoint {
	h := b.history(pool)
	var steps []market.PricePoint
	if price, ok := h.At(from); ok {
		steps = append(steps, market.PricePoint{At: from, Price: price})
	}
	return append(steps, h.Changes(from, to)...)
}
