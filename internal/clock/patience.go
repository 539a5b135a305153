package clock

import (
	"context"
	"time"
)

// WithPatience returns a context that ends with a cause when this process has waited this long. Time in which the process was suspended or
// the host slept does not count: nothing could have been received.
func WithPatience(ctx context.Context, patience time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	beat := min(max(patience/20, time.Millisecond), time.Second)
	tick := time.NewTicker(beat)
	go func() {
		defer tick.Stop()
		var waited time.Duration
		for last := time.Now(); waited < patience; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				now := time.Now()
				waited += min(now.Sub(last), 2*beat)
				last = now
			}
		}
		cancel(cause)
	}()
	return ctx, func() { cancel(context.Canceled) }
}
