package api

import (
	"context"
	"time"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Notify polls the machines and the project's operations, and reports each change once, in the order of ids. It is the
// second source: a machine's own metadata report a preemption at once (see notice). It also deletes machines that
// stopped on their own: their disks would still cost money.
func (c *Cloud) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	var last []machine // as reported last
	return adapter.Watch(ctx, c.config.Log, c.config.PollInterval, func(ctx context.Context) ([]adapter.Shown, error) {
		c.sweep(ctx, last)
		machines, err := c.look(ctx)
		if err != nil {
			return nil, err
		}
		shown := make([]adapter.Shown, len(machines))
		for n, m := range machines {
			shown[n].Instance = m.Instance
			if !m.warned.IsZero() {
				shown[n].Deadline = c.deadline(m)
			}
		}
		last = machines
		return shown, nil
	}, f)
}

// deadline returns the market time at which a preempted machine ends: the notice in its own scheduling, plus the time
// of a shutdown, both wall-clock lengths. A machine that is already shutting down has only the latter.
func (c *Cloud) deadline(m machine) time.Time {
	whole := m.warned.Add(c.config.Clock.ToMarket(m.extra + c.config.ShutdownTime))
	if m.State == provisioner.Stopping {
		if rest := c.config.Clock.Now().Add(c.config.Clock.ToMarket(c.config.ShutdownTime)); rest.Before(whole) {
			return rest
		}
	}
	return whole
}

// sweep deletes the remains of machines that have stopped.
func (c *Cloud) sweep(ctx context.Context, machines []machine) {
	for _, m := range machines {
		if !m.there || m.State != provisioner.Terminated {
			continue
		}
		if err := c.delete(ctx, m.zone, m.ID); err != nil && ctx.Err() == nil {
			c.config.Log.Warn("deleting a machine that has stopped", "instance", m.ID, "err", err)
		}
	}
}
