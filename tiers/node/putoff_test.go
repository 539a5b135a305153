package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A machine that would end by itself postpones that while it has a controller, and no longer.
func TestEndIsPutOffWhileThereIsAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		n := &node{log: quiet(), cfg: Config{PutOff: func(context.Context) error {
			calls.Add(1)
			return errors.New("once in a while it fails") // which ends nothing
		}}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.putOff(ctx) }()
		pass := func(minutes, want int64) {
			t.Helper()
			calls.Store(0)
			time.Sleep(time.Duration(minutes) * time.Minute)
			synctest.Wait()
			if got := calls.Load(); got != want {
				t.Errorf("put off %d times in %d minutes, want %d", got, minutes, want)
			}
		}
		pass(10, 0)
		n.attached.Store(true)
		pass(10, 10)
		n.attached.Store(false)
		pass(10, 0)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
