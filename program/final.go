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
