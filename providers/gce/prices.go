package gce

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
)

// orPlanned gets prices from the provider until it refuses; from then on the plan's prices apply.
type orPlanned struct {
	providers.Account
	planned providers.Planned
	denied  atomic.Bool
}

// RunKeys returns the account's keys.
func (o *orPlanned) RunKeys(ctx context.Context, run string, folder location.Place) (blob.Keys, bool, error) {
	keys, ok := o.Account.(providers.RunKeys)
	if !ok {
		return blob.Keys{}, false, nil
	}
	return keys.RunKeys(ctx, run, folder)
}

func (o *orPlanned) SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	if !o.denied.Load() {
		prices, err := o.Account.SpotPrices(ctx, pools, since, until)
		if !errors.Is(err, provisioner.ErrDenied) {
			return prices, err
		}
		o.denied.Store(true)
	}
	return o.planned.SpotPrices(ctx, pools, since, until)
}
