package tiers

import (
	"strings"
	"testing"
	"time"
)

// The rule as a table: each row is a number of equal cuts, and the resulting count.
func TestCount(t *testing.T) {
	rule := CountRule{High: 3, Low: 0.5, Calm: 4, Gain: 0.1}
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type row struct {
		cuts     int
		seconds  float64
		machines int
		want     int
		why      string
	}
	for name, c := range map[string]struct {
		flush float64
		most  int
		rows  []row
	}{
		"in time":               {60, 4, []row{{100, 29, 2, 2, ""}}},
		"no limit is known":     {-1, 4, []row{{100, 1e6, 2, 2, ""}}},
		"now and then too long": {60, 4, []row{{2, 31, 2, 2, ""}, {1, 29, 2, 2, ""}, {2, 31, 2, 2, ""}}},
		"the interval":          {60, 4, []row{{2, 31, 2, 2, ""}, {1, 31, 2, 3, "takes 31.00 s to take in a cut, for 3 cuts above the 30.00 s that the time between cuts"}}},
		"the warning":           {10, 4, []row{{2, 11, 2, 2, ""}, {1, 11, 2, 3, "above the 10.00 s that a flush within an eviction's warning"}}},
		"no room":               {60, 2, []row{{100, 31, 2, 2, ""}}},
		"none may be asked for": {60, 0, []row{{100, 31, 2, 2, ""}}},
		"up to the most, and back": {60, 4, []row{
			{3, 60, 2, 3, ""}, {2, 40, 3, 3, ""}, {1, 40, 3, 4, ""}, {100, 31, 4, 4, ""},
			{3, 7, 4, 4, ""}, {1, 7, 4, 3, "9.33 s with a reliable machine less"}, {7, 7, 3, 3, ""}, {1, 7, 3, 2, ""}, {100, 7, 2, 2, ""}}},
		"a machine less would have no room": {60, 4, []row{{3, 31, 2, 3, ""}, {1000, 10.1, 3, 3, ""}}},
		"no help":                           {60, 4, []row{{3, 31, 2, 3, ""}, {2, 30.5, 3, 3, ""}, {1, 30.5, 3, 2, "was no help"}, {1000, 31, 2, 2, ""}}},
		"never below the plan":              {60, 4, []row{{1000, 0, 2, 2, ""}}},
		"one of those planned is lost":      {60, 4, []row{{1000, 0, 1, 1, ""}}},
	} {
		var count Counter
		for i, row := range c.rows {
			for n := range row.cuts {
				s := Strain{Seconds: row.seconds, Interval: 30, Flush: c.flush, Machines: row.machines, Planned: 2, Most: c.most}
				if c.flush < 0 {
					s.Interval, s.Flush = 0, 0
				}
				got, why := count.Cut(epoch, s, rule)
				want, wantWhy := row.machines, ""
				if n == row.cuts-1 {
					want, wantWhy = row.want, row.why
				}
				if got != want || (got != row.machines) != (why != "") || !strings.Contains(why, wantWhy) {
					t.Errorf("%s, row %d, cut %d: %d because %q, want %d because %q", name, i, n, got, why, want, wantWhy)
				}
			}
		}
	}
}

// A machine billed by the hour is released when an hour ends, unless it is too late for that.
func TestCountGivesBackAtTheEndOfAPaidHour(t *testing.T) {
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	paid := epoch.Add(time.Hour)
	for after, want := range map[time.Duration]int{0: 2, 55 * time.Minute: 2, 56 * time.Minute: 1, 58 * time.Minute: 1, 59 * time.Minute: 2} {
		var count Counter
		s := Strain{Interval: 30, Machines: 2, Planned: 1, Most: 2, Paid: paid, Lead: 4 * time.Minute, Leave: 2 * time.Minute}
		got, _ := count.Cut(epoch.Add(after), s, CountRule{High: 3, Low: 0.5, Calm: 1, Gain: 0.1})
		if got != want {
			t.Errorf("after %v: %d machines, want %d", after, got, want)
		}
	}
}
