package node

import (
	"context"
	"time"
)

// mostCredit bounds how much lateness of timers or computations can be made up for.
const mostCredit = 50 * time.Millisecond

// pacer slows work down to a declared rate, so that a process on a shared host takes as long as the machine that it simulates. Applications
// know nothing of it.
type pacer struct {
	rate float64 // floating-point operations per second; 0 = unlimited
	// credit is time already spent beyond what earlier work was worth. Timers always ring late: without credit, their delays would
	// accumulate over the clocks.
	credit time.Duration
}

// wait returns when work that began at started may end at this rate.
func (p *pacer) wait(ctx context.Context, started time.Time, work float64) error {
	if p.rate == 0 {
		return ctx.Err()
	}
	due := time.Duration(work/p.rate*float64(time.Second)) - p.credit
	if left := due - time.Since(started); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			p.credit = 0
			return context.Cause(ctx)
		}
	}
	p.credit = min(time.Since(started)-due, mostCredit)
	return ctx.Err()
}
