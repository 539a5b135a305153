// Package wrap adds to any provisioner.Cloud what every cloud needs and none should have to write: retries,
// a rate limit, observation, a dry run, and faults for tests. Each wrapper is a Cloud again, so they stack:
//
//	cloud = wrap.Retry(wrap.Limit(wrap.Observe(cloud, ...), ...), ...)
//
// A wrapper refuses to know which provider is below it, and what the machines are for.
package wrap

import (
	"context"
	"time"
)

// Op names a method of provisioner.Cloud.
type Op string

// The methods that wrappers act on.
const (
	OpLaunch    Op = "launch"
	OpTerminate Op = "terminate"
	OpList      Op = "list"
	OpNotify    Op = "notify"
)

// Clock is the time that wrappers live in. It is wall-clock time: the provider counts calls in it.
type Clock struct {
	Now func() time.Time
	// Sleep waits for d, or ends early with ctx's error.
	Sleep func(ctx context.Context, d time.Duration) error
}

// RealClock is the machine's clock.
func RealClock() Clock { return Clock{Now: time.Now, Sleep: sleep} }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
