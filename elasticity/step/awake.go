package step

import "time"

// Awake is a clock that stops while its owner is not stepped: suspended, swapped out, or on a sleeping laptop. It measures the silence of
// others, because silence proves nothing while the controller was not listening. The zero value is invalid: see NewAwake.
type Awake struct {
	patience time.Duration // the shortest silence that is judged by this clock
	last     time.Time     // the owner's time at its last step
	now      time.Time     // this clock's time
	resumed  time.Time     // this clock's time at the end of the last absence; zero = none
}

// NewAwake returns a clock to judge silence of that length by.
func NewAwake(patience time.Duration) Awake { return Awake{patience: patience} }

// beat returns the maximum that one step adds: a longer gap is an absence. The owner must be woken before that (NextBeat).
func (a *Awake) beat() time.Duration { return max(a.patience/6, 1) }

// Step advances the clock to the owner's time. Repeating a time, or an earlier one, adds nothing.
func (a *Awake) Step(now time.Time) {
	if a.last.IsZero() {
		a.last, a.now = now, now
	}
	gap := now.Sub(a.last)
	a.last, a.now = now, a.now.Add(max(min(gap, a.beat()), 0))
	// An owner that is repeatedly absent must still detect dead machines.
	if gap > a.beat() && (a.resumed.IsZero() || a.now.Sub(a.resumed) >= 2*a.patience) {
		a.resumed = a.now
	}
}

// Resume restarts waiting, as after an absence.
func (a *Awake) Resume() { a.resumed = a.now }

// Now returns this clock's time, the reference of Over.
func (a *Awake) Now() time.Time { return a.now }

// Over reports whether the owner has waited for d since a time of this clock. After an absence it waits for d again, at most for the
// patience: messages sent meanwhile are still unread, and machines whose streams broke have yet to reconnect. A longer wait might never end
// for an owner that stalls all the time.
func (a *Awake) Over(t time.Time, d time.Duration) bool { return !a.now.Before(a.end(t, d)) }

func (a *Awake) end(t time.Time, d time.Duration) time.Time {
	end := t.Add(d)
	if again := a.resumed.Add(min(d, a.patience)); t.Before(a.resumed) && again.After(end) {
		end = again
	}
	return end
}

// JustResumed reports whether an absence ended within the patience before a time of this clock.
func (a *Awake) JustResumed(t time.Time) bool {
	return !a.resumed.IsZero() && t.Before(a.resumed.Add(a.patience))
}

// Due returns the owner's earliest time at which a wait can end.
func (a *Awake) Due(t time.Time, d time.Duration) time.Time {
	return a.last.Add(a.end(t, d).Sub(a.now))
}

// NextBeat returns the latest time for the owner's next step. Drivers are late: the last quarter of a beat allows for that.
func (a *Awake) NextBeat() time.Time { return a.last.Add(max(a.beat()*3/4, 1)) }
