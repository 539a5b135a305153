package adapter

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Shown is a machine as seen by one poll.
type Shown struct {
	provisioner.Instance
	Deadline time.Time // when the provider takes it back; zero = nothing is announced
}

// Watch polls, and reports each change once, in the order of the machines: an announced eviction, and the machine's end. A failed poll is
// logged and followed by the next; one that was denied or refused ends the watch, as that will not pass.
func Watch(ctx context.Context, log *slog.Logger, every time.Duration, look func(context.Context) ([]Shown, error), f func(provisioner.Notice)) error {
	told := map[notice]bool{}
	for {
		machines, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, provisioner.ErrDenied), errors.Is(err, provisioner.ErrInvalid):
			return err
		case err != nil:
			log.Warn("looking for notices", "err", err)
		default:
			told = deliver(machines, told, f)
		}
		if Pause(ctx, every) != nil {
			return nil
		}
	}
}

// notice is what is reported once.
type notice struct {
	kind provisioner.NoticeKind
	id   provisioner.InstanceID
}

// deliver calls f for what is new, and returns what has been reported about the machines that are still listed.
func deliver(machines []Shown, before map[notice]bool, f func(provisioner.Notice)) map[notice]bool {
	after := map[notice]bool{}
	for _, m := range machines {
		if n := (notice{provisioner.Eviction, m.ID}); before[n] || !m.Deadline.IsZero() {
			if !before[n] {
				f(provisioner.Notice{Kind: n.kind, ID: n.id, Deadline: m.Deadline})
			}
			after[n] = true
		}
		if n := (notice{provisioner.Ended, m.ID}); m.State == provisioner.Terminated {
			if !before[n] {
				f(provisioner.Notice{Kind: n.kind, ID: n.id, Instance: m.Instance})
			}
			after[n] = true
		}
	}
	return after
}
