package gce

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
)

// orListed asks the provider for prices, until it refuses; from then on those of a list hold.
type orListed struct {
	providers.Account
	list   listed
	denied atomic.Bool
}

func (o *orListed) SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	if !o.denied.Load() {
		prices, err := o.Account.SpotPrices(ctx, pools, since, until)
		if !errors.Is(err, provisioner.ErrDenied) {
			return prices, err
		}
		o.denied.Store(true)
	}
	return o.list.SpotPrices(ctx, pools, since, until)
}

// listed answers from a price list in place of the provider.
type listed struct {
	providers.Account
	history map[market.Pool]*market.History
}

func (l listed) SpotPrices(_ context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	prices := map[market.Pool][]market.PricePoint{}
	for _, p := range pools {
		h := l.history[p]
		if h == nil {
			continue // nothing is known
		}
		if inForce, ok := h.Until(since).Last(); ok {
			prices[p] = append(prices[p], inForce)
		}
		prices[p] = append(prices[p], h.Points(since, until)...)
	}
	return prices, nil
}
