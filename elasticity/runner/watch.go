package runner

import (
	"context"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// Requests here fail for a while at times: calls are throttled for minutes, credentials expire and are renewed, the provider is down. None
// of that is a reason to stop trying, as machines cost money meanwhile; each failure is reported.

// Pauses before retries after refusals by the provider, doubling each time.
const (
	firstPause = 5 * time.Second
	lastPause  = 20 * time.Second
)

// insist retries f until it succeeds or ctx is done.
func insist(ctx context.Context, f func() error, failed func(err error, again time.Duration)) {
	pause := firstPause
	for {
		began := time.Now()
		err := f()
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastPause { // it had worked for a while
			pause = firstPause
		}
		failed(err, pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(spread(pause)):
		}
		pause = min(2*pause, lastPause)
	}
}

// renewLeases renews the leases of all machines that the cloud has of this run: unwanted ones are terminated, not left to expire. A failed
// renewal is retried long before the next one is due.
func (r *Runner) renewLeases(ctx context.Context) {
	if r.cfg.Renew == nil {
		return
	}
	every(ctx, r.cfg.RenewEvery, nil, func() error {
		insist(ctx, func() error {
			began := time.Now()
			err := r.renew(ctx)
			r.answers.took(renewing, began, err)
			return err
		}, func(err error, again time.Duration) {
			r.cfg.Log.Error("renewing the machines' leases failed; trying again", "in", again, "err", err)
		})
		return nil
	})
}

func (r *Runner) renew(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, r.cfg.Calls)
	defer cancel()
	instances, err := r.cfg.Cloud.List(call)
	if err != nil {
		return err
	}
	var live []provisioner.InstanceID
	for _, i := range instances {
		if i.State == provisioner.Pending || i.State == provisioner.Running {
			live = append(live, i.ID)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return r.cfg.Renew(call, live...)
}

// watchNotices watches the provider's notices. A denial may be temporary: credentials expire in the middle of a run. Meanwhile machines
// report their own evictions, and listings show ended machines.
func (r *Runner) watchNotices(ctx context.Context) {
	insist(ctx, func() error { return r.cfg.Cloud.Notify(ctx, func(n provisioner.Notice) { r.handleNotice(ctx, n) }) },
		func(err error, again time.Duration) {
			r.cfg.Log.Error("the provider's notices cannot be read; machines report their own; trying again", "in", again, "err", err)
		})
}

func (r *Runner) handleNotice(ctx context.Context, n provisioner.Notice) {
	id := ps.ServerID(n.ID)
	switch n.Kind {
	case provisioner.Ended:
		r.handle(ctx, elasticity.InstanceEnded{Instance: n.Instance})
	case provisioner.Eviction:
		r.handle(ctx, elasticity.Warned{ID: id, Deadline: n.Deadline})
	case provisioner.Rebalance:
		r.handle(ctx, elasticity.Warned{ID: id, Rebalance: true})
	}
}

// pricesAgain is the overlap, in market time, of price requests: a provider publishes changes late, and stamps them by its own clock, which
// may be behind this one.
const pricesAgain = 15 * time.Minute

func (r *Runner) watchPrices(ctx context.Context) {
	since := r.cfg.PricesFrom
	told := map[market.Pool]time.Time{} // the time of the last change
	every(ctx, r.cfg.PollPrices, r.ended, func() error {
		until, began := r.now(), time.Now()
		call, cancel := context.WithTimeout(ctx, r.cfg.Calls)
		defer cancel()
		prices, err := r.cfg.Prices.SpotPrices(call, r.cfg.Pools, since.Add(-pricesAgain), until)
		r.answers.took(pricing, began, err)
		if err != nil {
			if ctx.Err() == nil {
				r.cfg.Log.Warn("asking for prices failed; trying again", "err", err)
			}
			return err
		}
		for _, pool := range r.cfg.Pools { // in order, so that identical runs have identical journals
			for _, p := range prices[pool] {
				if p.At.After(told[pool]) {
					told[pool] = p.At
					r.handle(ctx, elasticity.PriceChanged{Pool: pool, At: p.At, Price: p.Price})
				}
			}
		}
		since = until
		r.handle(ctx, elasticity.PricesKnown{At: until})
		return nil
	})
}
