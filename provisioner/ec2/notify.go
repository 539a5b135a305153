package ec2

import (
	"context"
	"errors"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Notify polls the state of machines and of their spot requests, and tells each change once. EC2's warning is
// in the spot request's status some seconds after it is in the machine's own metadata (see notice), so this
// is the second line: for machines whose agent does not answer, and the only one that tells of ends. Raised
// risk (rebalance) is not in this API at all.
func (c *Cloud) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	told := map[noticeKey]bool{}
	for {
		machines, err := c.describe(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, provisioner.ErrDenied), errors.Is(err, provisioner.ErrInvalid):
			return err // it will not pass
		case err != nil:
			c.config.Log.Warn("looking for notices", "err", err)
		default:
			told = c.tell(machines, told, f)
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

// tell calls f for what is new, in the order of ids, and gives what has been told of the machines still
// shown.
func (c *Cloud) tell(machines []machine, before map[noticeKey]bool, f func(provisioner.Notice)) map[noticeKey]bool {
	after := map[noticeKey]bool{}
	for _, m := range machines {
		if key := (noticeKey{provisioner.Eviction, m.ID}); before[key] || !m.warned.IsZero() {
			if !before[key] {
				f(provisioner.Notice{Kind: provisioner.Eviction, ID: m.ID, Deadline: c.deadline(m.warned)})
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

// deadline gives the market time at which a marked machine ends: the warning has a wall-clock length.
func (c *Cloud) deadline(marked time.Time) time.Time {
	return marked.Add(c.config.Clock.ToMarket(c.config.NoticeLength))
}
