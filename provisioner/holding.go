package provisioner

import "time"

// Holding is a machine that costs money, with the facts of its tags: it is for when no record remembers what was bought.
type Holding struct {
	Instance
	Job, Owner string
	Expires    time.Time // when its lease ends; zero = its tags do not say
}

// Overdue reports whether a machine's lease has expired. Callers that end it pass the earliest that now may be
// (clock.Between).
func (h Holding) Overdue(now time.Time) bool { return !h.Expires.IsZero() && now.After(h.Expires) }
