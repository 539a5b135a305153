package program

import "time"

const (
	// margin is kept before a deadline: clocks differ, and the last object takes a round trip.
	margin = 500 * time.Millisecond
	// spare is by how much sending may turn out slower than measured: all machines of a pool are often warned at the same time.
	spare = 1.5
	// leastGrace is what a program has at least between SIGTERM and SIGKILL, if the deadline allows it.
	leastGrace = 200 * time.Millisecond
)

const (
	// longestNotice is the longest that a provider gives.
	longestNotice = 2 * time.Minute
	// undated is what is taken to be left of a notice whose deadline has passed by this machine's clock: that no save is tried loses work for sure.
	undated = 10 * time.Second
)

// byThisClock returns when a machine goes that was warned just now. The provider's deadline is by its own clock, and this machine's may be wrong.
func byThisClock(deadline, now time.Time) time.Time {
	switch {
	case deadline.IsZero():
	case !deadline.After(now):
		return now.Add(undated)
	case deadline.After(now.Add(longestNotice)):
		return now.Add(longestNotice)
	}
	return deadline
}

// killAt returns when a program must be gone so that what it leaves unsent is in the store before the deadline.
func killAt(now, deadline time.Time, unsent int64, perSecond float64) time.Time {
	need := margin + time.Duration(spare*float64(unsent)/perSecond*float64(time.Second))
	at := deadline.Add(-need)
	// Where everything cannot be sent, nothing of it counts: the program may as well have a moment to end by itself.
	if least := now.Add(leastGrace); at.Before(least) {
		at = least
	}
	if latest := deadline.Add(-margin / 2); at.After(latest) {
		at = latest
	}
	return at
}
