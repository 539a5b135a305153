package wrap

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// RetryConfig says how patient Retry is. Zero values have the defaults named.
type RetryConfig struct {
	Attempts int           // tries in all (default 6)
	Base     time.Duration // longest first wait, doubled from try to try (default 200 ms)
	Max      time.Duration // longest wait (default 20 s)
}

func (c RetryConfig) withDefaults() RetryConfig {
	if c.Attempts <= 0 {
		c.Attempts = 6
	}
	if c.Base <= 0 {
		c.Base = 200 * time.Millisecond
	}
	if c.Max <= 0 {
		c.Max = 20 * time.Second
	}
	return c
}

// Retry makes a call again when it failed in a way that passes (provisioner.Retryable) and in no other. A
// Launch goes out with the same token, so that it buys nothing twice. Waits are drawn evenly from zero up to
// a bound that doubles ("full jitter": many clients that failed together do not come back together). A
// Notify that fails so is begun again, which may repeat notices; it has its full number of tries again after
// each notice.
func Retry(cloud provisioner.Cloud, c RetryConfig, random *rand.Rand, clock Clock) provisioner.Cloud {
	return &retry{Cloud: cloud, config: c.withDefaults(), random: random, clock: clock}
}

type retry struct {
	provisioner.Cloud
	config RetryConfig
	clock  Clock

	mu     sync.Mutex // random is not for concurrent use
	random *rand.Rand
}

func (r *retry) Launch(ctx context.Context, q provisioner.Request) (instances []provisioner.Instance, err error) {
	err = r.do(ctx, func(func()) error {
		instances, err = r.Cloud.Launch(ctx, q)
		return err
	})
	return instances, err
}

func (r *retry) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	return r.do(ctx, func(func()) error { return r.Cloud.Terminate(ctx, ids...) })
}

func (r *retry) List(ctx context.Context) (instances []provisioner.Instance, err error) {
	err = r.do(ctx, func(func()) error {
		instances, err = r.Cloud.List(ctx)
		return err
	})
	return instances, err
}

func (r *retry) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	err := r.do(ctx, func(progress func()) error {
		return r.Cloud.Notify(ctx, func(n provisioner.Notice) {
			progress()
			f(n)
		})
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// do calls until it works, fails for good, or the tries are used up. The call may report progress, which
// gives it all its tries again.
func (r *retry) do(ctx context.Context, call func(progress func()) error) error {
	for failed := 0; ; {
		err := call(func() { failed = 0 })
		if err == nil || !provisioner.Retryable(err) {
			return err
		}
		if failed++; failed >= r.config.Attempts {
			return fmt.Errorf("given up after %d tries: %w", failed, err)
		}
		if wait := r.clock.Sleep(ctx, r.wait(failed)); wait != nil {
			return fmt.Errorf("%w while waiting to try again after: %w", wait, err)
		}
	}
}

// wait draws the time before the next try.
func (r *retry) wait(failed int) time.Duration {
	bound := r.config.Max
	if shift := failed - 1; shift < 32 && r.config.Base<<shift < bound && r.config.Base<<shift > 0 {
		bound = r.config.Base << shift
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.random.Int64N(int64(bound) + 1))
}
