package budget

import (
	"cmp"
	"fmt"

	"github.com/tierml/tierml/market"
)

// Cluster are the limits of all jobs of a job server together. A zero limit is none.
type Cluster struct {
	Of      string     // whose jobs; empty = the job server's
	Total   market.USD // of all runs in the job server's directory, including ended ones
	PerHour market.USD // of running ones
	WarnAt  float64    // the share of a limit that causes a warning
	// Over is the action above a limit: Warn, Pause (waiting jobs are not started) or Stop (running ones are also ended cleanly, above the
	// total).
	Over Do
}

// Judge returns what to do, from the cost of all jobs so far and per hour; an empty Do: nothing.
func (c Cluster) Judge(spent, rate market.USD) Decision {
	switch {
	case c.Total > 0 && spent >= c.Total:
		return Decision{c.Over, fmt.Sprintf("the budget of %s, %s, is used up: %s are spent", c.of(), c.Total.Cents(), spent.Cents()), spent}
	case c.PerHour > 0 && rate > c.PerHour:
		return Decision{c.overHour(), fmt.Sprintf("the jobs of %s cost %s an hour, above its limit, %s", c.of(), rate.Cents(), c.PerHour.Cents()), rate}
	case c.Total > 0 && c.WarnAt > 0 && float64(spent) >= c.WarnAt*float64(c.Total):
		return Decision{Warn, fmt.Sprintf("%s of the budget of %s, %s, are spent", spent.Cents(), c.of(), c.Total.Cents()), spent}
	case c.PerHour > 0 && c.WarnAt > 0 && float64(rate) >= c.WarnAt*float64(c.PerHour):
		return Decision{Warn, fmt.Sprintf("the jobs of %s cost %s of its limit of %s an hour", c.of(), rate.Cents(), c.PerHour.Cents()), rate}
	}
	return Decision{}
}

func (c Cluster) of() string { return cmp.Or(c.Of, "the job server") }

// overHour is Over for an hourly rate. A rate falls again by itself, so it never ends a run.
func (c Cluster) overHour() Do {
	if c.Over == Stop {
		return Pause
	}
	return c.Over
}
