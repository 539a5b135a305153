package market

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// AvailabilityPoint is how many machines of a pool are available from an instant on.
type AvailabilityPoint struct {
	At    time.Time
	Count int
}

// Availability is how many machines of a pool were available over time: what matters on markets whose prices no longer follow demand. It is
// a step function like History, made from probes of a provider. Before its first point nothing is known, and for a recording nothing from
// its end on; a live observation holds until the next report. A nil Availability knows nothing.
//
// Points never change once in an Availability, so views of it (Until) share them.
type Availability struct {
	points []AvailabilityPoint // sorted by At; consecutive counts differ
	end    time.Time           // zero = none: it is being observed
}

// NewAvailability makes an Availability of points in order of time, known until end (zero = as long as it is observed). Points that repeat
// the previous count are dropped.
func NewAvailability(points []AvailabilityPoint, end time.Time) (*Availability, error) {
	a := &Availability{end: end}
	for i, p := range points {
		switch {
		case p.Count < 0:
			return nil, fmt.Errorf("%d machines at %s: a count is 0 or more", p.Count, p.At.Format(time.RFC3339))
		case i > 0 && !p.At.After(points[i-1].At), !end.IsZero() && !p.At.Before(end):
			return nil, fmt.Errorf("point %d at %s is out of order", i+1, p.At.Format(time.RFC3339))
		}
		if n := len(a.points); n == 0 || a.points[n-1].Count != p.Count {
			a.points = append(a.points, p)
		}
	}
	return a, nil
}

// Map returns the availability with each count mapped by f. A nil Availability stays nil.
func (a *Availability) Map(of func(int) int) *Availability {
	if a == nil {
		return nil
	}
	points := slices.Clone(a.points)
	for i := range points {
		points[i].Count = of(points[i].Count)
	}
	return &Availability{points: points, end: a.end}
}

// First returns the first point.
func (a *Availability) First() (AvailabilityPoint, bool) {
	if a == nil || len(a.points) == 0 {
		return AvailabilityPoint{}, false
	}
	return a.points[0], true
}

// End returns the time from which nothing is known; zero for live observations.
func (a *Availability) End() time.Time {
	if a == nil {
		return time.Time{}
	}
	return a.end
}

// Most returns the highest count.
func (a *Availability) Most() (most int) {
	if a == nil {
		return 0
	}
	for _, p := range a.points {
		most = max(most, p.Count)
	}
	return most
}

// At returns the count in force at t.
func (a *Availability) At(t time.Time) (count int, known bool) {
	i := a.countUntil(t)
	if i == 0 || a.over(t) {
		return 0, false
	}
	return a.points[i-1].Count, true
}

// over reports whether a recording has ended.
func (a *Availability) over(t time.Time) bool { return !a.end.IsZero() && !t.Before(a.end) }

// Until returns what was known at t, without copying it: input for a decision at t.
func (a *Availability) Until(t time.Time) *Availability {
	if a == nil {
		return nil
	}
	n := a.countUntil(t)
	return &Availability{points: a.points[:n:n]}
}

// Points returns the points after from, up to and including to. The slice is shared and read-only.
func (a *Availability) Points(from, to time.Time) []AvailabilityPoint {
	first, last := a.countUntil(from), a.countUntil(to)
	if first >= last {
		return nil
	}
	return a.points[first:last:last]
}

// Add records that a number of machines is available from an instant on, as known then. Repeating a known number is harmless; going back in
// time is an error, as decisions may depend on it.
func (a *Availability) Add(p AvailabilityPoint) error {
	n := len(a.points)
	if n > 0 && !p.At.After(a.points[n-1].At) {
		if last := a.points[n-1]; p.At.Equal(last.At) && p.Count == last.Count {
			return nil
		}
		return fmt.Errorf("%d machines at %s: the availability already reaches %s", p.Count, p.At.Format(time.RFC3339),
			a.points[n-1].At.Format(time.RFC3339))
	}
	if n == 0 || a.points[n-1].Count != p.Count {
		a.points = append(a.points, p)
	}
	return nil
}

// countUntil returns the number of points at or before t.
func (a *Availability) countUntil(t time.Time) int {
	if a == nil {
		return 0
	}
	return sort.Search(len(a.points), func(i int) bool { return a.points[i].At.After(t) })
}
