package tiers

import (
	"fmt"
	"time"
)

// Strain is the load of the reliable machines during a committed cut, and how their count may change.
type Strain struct {
	// Seconds is how long the busiest reliable machine needs to receive its part of the cut, at the measured rate. Interval and Flush are
	// how long that may take: as a share of the time between cuts, and of an eviction's warning; 0 = no limit. All are wall-clock time.
	Seconds, Interval, Flush float64

	Machines int // that hold the solution
	Planned  int // the fewest
	Most     int // upper bound; no more than Machines = none
	// Paid is the end of the paid hour of the machine that would go; zero = billed by the second. It may go in the time from Paid - Lead to
	// Paid - Leave.
	Paid        time.Time
	Lead, Leave time.Duration
}

// limit returns the shorter of the two.
func (s *Strain) limit() (seconds float64, what string) {
	if s.Flush > 0 && (s.Interval == 0 || s.Flush < s.Interval) {
		return s.Flush, "a flush within an eviction's warning leaves them"
	}
	return s.Interval, "the time between cuts leaves them"
}

// mayGo reports whether the machine's paid hour is about to end.
func (s *Strain) mayGo(now time.Time) bool {
	return s.Paid.IsZero() || !now.Before(s.Paid.Add(-s.Lead)) && !now.After(s.Paid.Add(-s.Leave))
}

// CountRule says which cuts change the count of reliable machines.
type CountRule struct {
	High int     // cuts in a row beyond the limit that request one more machine
	Low  float64 // share of the limit that cuts may take with one machine less
	Calm int     // cuts in a row below that before one is released, for the first time
	Gain float64 // share of their time by which another machine must shorten cuts; otherwise it goes, and no other is requested
}

// DefaultCountRule requests a machine after five cuts, and gives one back after sixty: with a cut each minute, after an hour.
func DefaultCountRule() CountRule { return CountRule{High: 5, Low: 0.5, Calm: 60, Gain: 0.1} }

// Counter turns the time of cuts into the count of reliable machines, with hysteresis: more machines receive less each. It never requests
// fewer than planned. Giving back each further machine takes twice as many calm cuts.
type Counter struct {
	machines   int
	high, calm int // cuts in a row
	falls      int
	before     float64 // time of the cut that led to the last request for a machine; 0 = judged
	useless    bool    // another machine did not help
}

// Again forgets the cuts so far: machines are coming or going.
func (c *Counter) Again() { c.high, c.calm = 0, 0 }

// Cut processes a cut's figures. It returns how many machines there should be, with a reason if the number changes.
func (c *Counter) Cut(now time.Time, s Strain, r CountRule) (count int, why string) {
	if s.Machines != c.machines {
		c.machines = s.Machines
		c.Again()
	}
	limit, what := s.limit()
	if limit <= 0 {
		return s.Machines, ""
	}
	fewer := s.Seconds // with one machine less
	if s.Machines > 1 {
		fewer *= float64(s.Machines) / float64(s.Machines-1)
	}
	switch {
	case s.Seconds > limit:
		c.high, c.calm = c.high+1, 0
	case fewer <= r.Low*limit:
		c.high, c.calm = 0, c.calm+1
	default:
		c.high, c.calm = 0, 0
	}
	if c.high >= r.High && c.before > 0 {
		c.useless = s.Seconds > (1-r.Gain)*c.before
		c.before = 0
	}
	switch {
	case c.useless && c.high >= r.High && s.Machines > s.Planned && s.mayGo(now):
		c.Again()
		return s.Machines - 1, fmt.Sprintf("cuts still take %.2f s: another reliable machine was no help, and no more are requested", s.Seconds)
	case !c.useless && c.high >= r.High && s.Machines < s.Most:
		c.Again()
		c.before = s.Seconds
		return s.Machines + 1, fmt.Sprintf("the busiest reliable machine takes %.2f s to take in a cut, for %d cuts above the %.2f s that %s",
			s.Seconds, r.High, limit, what)
	case c.calm >= r.Calm<<c.falls && s.Machines > s.Planned && s.mayGo(now):
		why = fmt.Sprintf("a cut would take %.2f s with a reliable machine less, for %d cuts at most %.0f %% of the %.2f s that %s",
			fewer, c.calm, 100*r.Low, limit, what)
		c.Again()
		c.falls, c.before = min(c.falls+1, 20), 0
		return s.Machines - 1, why
	}
	return s.Machines, ""
}
