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

// lot is what a pool has for a purchase, and what is taken of it.
type stock struct {
	request provisioner.Request // for the one pool
	price   market.USD
	room    int
	count   int
	err     error // why it has no more
}

// sell takes a purchase's machines from its pools, as an instant fleet of EC2 does: the best pool by the allocation gives all that
// it has, then the next. Where several pools are named, refused says which had too few.
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

// survey asks each pool of a purchase what it has, in the order in which they are taken from: by price where the allocation goes by
// price and capacity, since what has room here is as deep as anything; by room where it goes by capacity alone.
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

// price returns what a machine of a pool costs now.
func (w *world) price(p market.Pool) market.USD {
	price, _ := w.history[p].At(w.now())
	return price
}
