package provisioner

import "time"

// Holding is a machine that costs money, with the facts in its tags: it is for cases in which no record remembers what was bought.
type Holding struct {
	Instance
	Job, Owner string
	Expires    time.Time // when its lease ends; zero = its tags do not say
}

// Overdue reports whether a machine's lease has expired. Callers that end it pass the earliest possible current time (clock.Between).
func (h Holding) Overdue(now time.Time) bool { return !h.Expires.IsZero() && now.After(h.Expires) }
