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

// orPlanned asks the provider for prices, until it refuses; from then on those of the plan hold.
type orPlanned struct {
	providers.Account
	planned providers.Planned
	denied  atomic.Bool
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
