package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPacingHoldsWorkToTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{rate: 2e6}
		began := time.Now()
		for range 10 {
			started := time.Now()
			time.Sleep(100 * time.Millisecond) // the computation itself
			if err := p.wait(t.Context(), started, 1e6); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("10 times 1 Mflop at 2 Mflop/s took %v", took)
		}
	})
}

// The delay of one computation is made up by the next, so that delays do not add up; but a long stall is not followed by a burst.
func TestPacingMakesUpForSmallDelaysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{rate: 1e6}
		step := func(computing time.Duration) time.Duration {
			started := time.Now()
			time.Sleep(computing)
			if err := p.wait(t.Context(), started, 1e6); err != nil {
				t.Fatal(err)
			}
			return time.Since(started)
		}
		for i, c := range []struct{ computing, want time.Duration }{
			{time.Second + 30*time.Millisecond, time.Second + 30*time.Millisecond},
			{0, time.Second - 30*time.Millisecond},
			{0, time.Second},
			{time.Minute, time.Minute},
			{0, time.Second - mostCredit},
			{0, time.Second},
		} {
			if got := step(c.computing); got != c.want {
				t.Errorf("step %d took %v; want %v", i, got, c.want)
			}
		}
	})
}

func TestPacingCanBeBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("rolled back")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer time.AfterFunc(time.Second, func() { cancel(why) }).Stop()
		p := pacer{rate: 1}
		began := time.Now()
		if err := p.wait(ctx, began, 1e9); !errors.Is(err, why) || time.Since(began) != time.Second {
			t.Errorf("gave %v after %v", err, time.Since(began))
		}
	})
}

func TestWithoutARateThereIsNoPacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		began := time.Now()
		if err := p.wait(t.Context(), began, 1e18); err != nil || time.Since(began) != 0 {
			t.Errorf("waited %v, %v", time.Since(began), err)
		}
	})
}
