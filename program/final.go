package program

import "time"

const (
	// margin is reserved before a deadline: clocks differ, and the last object needs a round trip.
	margin = 500 * time.Millisecond
	// spare is how much slower than measured sending may be: all machines of a pool are often warned at the same time.
	spare = 1.5
	// leastGrace is the minimum time between SIGTERM and SIGKILL, if the deadline permits it.
	leastGrace = 200 * time.Millisecond
)

const (
	// longestNotice is the longest notice of any provider.
	longestNotice = 2 * time.Minute
	// undated is the assumed rest of a notice whose deadline has passed by this machine's clock: not trying to save would surely lose work.
	undated = 10 * time.Second
)

// byThisClock returns when a machine that was just warned goes. The provider's deadline is by its own clock, and this machine's may be
// wrong.
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

// killAt returns when a program must be gone so that its unsent files reach the store before the deadline.
func killAt(now, deadline time.Time, unsent int64, perSecond float64) time.Time {
	need := margin + time.Duration(spare*float64(unsent)/perSecond*float64(time.Second))
	at := deadline.Add(-need)
	// If not everything can be sent, none of it counts: the program may as well get a moment to end by itself.
	if least := now.Add(leastGrace); at.Before(least) {
		at = least
	}
	if latest := deadline.Add(-margin / 2); at.After(latest) {
		at = latest
	}
	return at
}
