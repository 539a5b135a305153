package gce

import (
	"context"
	"errors"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Notify polls the machines and the project's operations, and tells each change once. It is the second line: a machine's
// own metadata tell of a preemption at once (see notice). It also deletes machines that have stopped by themselves: their
// disks would cost on.
func (c *Cloud) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	told := map[noticeKey]bool{}
	for {
		machines, err := c.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, provisioner.ErrDenied), errors.Is(err, provisioner.ErrInvalid):
			return err // it will not pass
		case err != nil:
			c.config.Log.Warn("looking for notices", "err", err)
		default:
			told = c.tell(machines, told, f)
			c.sweep(ctx, machines)
		}
		if pause(ctx, c.config.PollInterval) != nil {
			return nil
		}
	}
}

// noticeKey is the key of a notice.
type noticeKey struct {
	kind provisioner.NoticeKind
	id   provisioner.InstanceID
}

// tell calls f for what is new, in the order of ids, and gives what has been told of the machines still shown.
func (c *Cloud) tell(machines []machine, before map[noticeKey]bool, f func(provisioner.Notice)) map[noticeKey]bool {
	after := map[noticeKey]bool{}
	for _, m := range machines {
		if key := (noticeKey{provisioner.Eviction, m.ID}); before[key] || !m.warned.IsZero() {
			if !before[key] {
				f(provisioner.Notice{Kind: provisioner.Eviction, ID: m.ID, Deadline: c.deadline(m)})
			}
			after[key] = true
		}
		if key := (noticeKey{provisioner.Ended, m.ID}); m.State == provisioner.Terminated {
			if !before[key] {
				f(provisioner.Notice{Kind: provisioner.Ended, ID: m.ID, Instance: m.Instance})
			}
			after[key] = true
		}
	}
	return after
}

// deadline gives the market time at which a machine that is preempted ends: what its own scheduling says of the notice,
// and the time of a shutdown, both wall-clock lengths. One that is shutting down already has no more than the latter.
func (c *Cloud) deadline(m machine) time.Time {
	whole := m.warned.Add(c.config.Clock.ToMarket(m.extra + c.config.ShutdownTime))
	if m.State == provisioner.Stopping {
		if rest := c.config.Clock.Now().Add(c.config.Clock.ToMarket(c.config.ShutdownTime)); rest.Before(whole) {
			return rest
		}
	}
	return whole
}

// sweep deletes what is left of machines that have stopped.
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
