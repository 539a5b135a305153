package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// stock is what a pool can sell for a purchase, and what is bought from it.
type stock struct {
	request provisioner.Request // for this pool alone
	price   market.USD
	room    int
	count   int
	err     error // why it can sell no more
}

// sell takes a purchase's machines from its pools, as an instant fleet of EC2 does: the best pool by the allocation
// sells all that it has, then the next. If several pools are named, refused lists those that had too few.
func (c *cloud) sell(r provisioner.Request) (sold []stock, refused []provisioner.Refusal, err error) {
	if len(r.Or) == 0 {
		l := stock{request: r}
		l.count, err = c.available(r)
		return []stock{l}, nil, err
	}
	lots := c.survey(r)
	missing := r.Count
	for i := range lots {
		l := &lots[i]
		l.count = min(l.room, missing)
		missing -= l.count
		if l.count > 0 {
			sold = append(sold, *l)
		}
	}
	if missing == 0 {
		return sold, nil, nil
	}
	kind := provisioner.ErrPriceTooLow
	for _, l := range lots {
		if l.err == nil {
			l.err = fmt.Errorf("%w: %d were left", provisioner.ErrNoCapacity, l.count)
		}
		if !errors.Is(l.err, kind) {
			kind = provisioner.ErrNoCapacity
		}
		refused = append(refused, provisioner.Refusal{Pool: l.request.Pool, Err: l.err})
	}
	if len(sold) == 0 {
		err = fmt.Errorf("%w: %s", kind, provisioner.RefusalText(refused))
	}
	return sold, refused, err
}

// survey returns the stock of each pool of a purchase, in the order of buying: by price if the allocation considers
// price and capacity, as a pool with room counts as deep here; by room if it considers capacity alone.
func (c *cloud) survey(r provisioner.Request) []stock {
	one := r
	one.Or, one.Count = nil, math.MaxInt32
	lots := []stock{{request: one}}
	for _, choice := range r.Or {
		one.Pool, one.Bid = choice.Pool, choice.Bid
		lots = append(lots, stock{request: one})
	}
	for i := range lots {
		l := &lots[i]
		l.room, l.err = c.available(l.request)
		l.price = c.w.price(l.request.Pool)
	}
	slices.SortStableFunc(lots, func(a, b stock) int {
		if c.w.cfg.Allocation == provisioner.CapacityOptimized && r.Pool.Class == market.Spot {
			return b.room - a.room
		}
		return cmp.Compare(a.price, b.price)
	})
	return lots
}

// price returns the current price of a pool's machine.
func (w *world) price(p market.Pool) market.USD {
	price, _ := w.history[p].At(w.now())
	return price
}
