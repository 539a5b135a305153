package wrap

import (
	"context"
	"sync"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Limit keeps calls below a rate: at most `burst` at once, and perSecond on average. Calls that are too many
// wait for their turn, in the order in which they came. A Notify counts as one call.
func Limit(cloud provisioner.Cloud, perSecond float64, burst int, clock Clock) provisioner.Cloud {
	if perSecond <= 0 || burst < 1 {
		panic("wrap.Limit: want a rate above 0 and a burst of at least 1")
	}
	gap := time.Duration(float64(time.Second) / perSecond)
	return &limit{Cloud: cloud, clock: clock, gap: gap, slack: gap * time.Duration(burst-1)}
}

// limit is a leaky bucket in its queue form: `next` is when the next call would be due if all came evenly
// spaced, and a call may be early by slack.
type limit struct {
	provisioner.Cloud
	clock      Clock
	gap, slack time.Duration

	mu   sync.Mutex
	next time.Time
}

func (l *limit) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	if err := l.turn(ctx); err != nil {
		return nil, err
	}
	return l.Cloud.Launch(ctx, r)
}

func (l *limit) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	if err := l.turn(ctx); err != nil {
		return err
	}
	return l.Cloud.Terminate(ctx, ids...)
}

func (l *limit) List(ctx context.Context) ([]provisioner.Instance, error) {
	if err := l.turn(ctx); err != nil {
		return nil, err
	}
	return l.Cloud.List(ctx)
}

func (l *limit) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	if l.turn(ctx) != nil {
		return nil
	}
	return l.Cloud.Notify(ctx, f)
}

// turn waits until a call may go out.
func (l *limit) turn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if wait := l.reserve(); wait > 0 {
		return l.clock.Sleep(ctx, wait)
	}
	return nil
}

// reserve takes the next place and gives the time until it is due.
func (l *limit) reserve() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if l.next.Before(now) {
		l.next = now
	}
	due := l.next.Add(-l.slack)
	l.next = l.next.Add(l.gap)
	return due.Sub(now)
}
