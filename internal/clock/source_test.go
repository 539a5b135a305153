package clock

import (
	"testing"
	"time"
)

// computer is a host whose clocks a test sets.
type computer struct {
	day    time.Time
	steady time.Duration
	halts  time.Duration // this process, after the time of day was read
}

func (c *computer) clocks() (day, steady time.Duration, ok bool) {
	day = time.Duration(c.day.UnixNano())
	c.pass(c.halts)
	return day, c.steady, true
}

// pass advances time, including time asleep: both clocks continue.
func (c *computer) pass(d time.Duration) { c.day, c.steady = c.day.Add(d), c.steady+d }

func (c *computer) set(by time.Duration) { c.day = c.day.Add(by) }

// Time continues by itself, whatever the host's clock is set to, and while the host sleeps.
func TestWall(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := &computer{day: start, steady: 77 * time.Hour}
	s := newSource(func() time.Time { return c.day }, c.clocks)
	want := start
	pass := func(d time.Duration) {
		c.pass(d)
		want = want.Add(d)
	}
	check := func(what string) {
		t.Helper()
		if got := s.wall(); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("at the start")
	pass(time.Minute)
	check("a minute later")
	for _, by := range []time.Duration{time.Hour, -time.Hour, -time.Hour, 20 * 365 * 24 * time.Hour, -time.Second} {
		c.set(by)
		check("set by " + by.String())
		pass(8 * time.Hour)
		check("asleep for 8 h, set by " + by.String())
		pass(3 * time.Hour)
		c.set(by)
		check("asleep for 3 h and set meanwhile by " + by.String())
	}
	for range 100 { // the host's clock was slow, and is corrected gradually
		pass(time.Minute)
		c.set(20 * time.Millisecond)
		want = want.Add(20 * time.Millisecond)
		check("corrected")
	}
}

// A clock that was set is not trusted for ending machines, nor for saying how long they are wanted.
func TestBetween(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, set := range []time.Duration{0, time.Hour, -time.Hour} {
		c := &computer{day: start}
		s := newSource(func() time.Time { return c.day }, c.clocks)
		c.pass(time.Minute)
		c.set(set)
		earliest, latest := s.between()
		if now := start.Add(time.Minute); !earliest.Equal(now.Add(min(set, 0))) || !latest.Equal(now.Add(max(set, 0))) {
			t.Errorf("set by %s: from %s to %s", set, earliest, latest)
		}
	}
}

// On a busy host the process may be halted for longer than leastSet between the two readings: that does not count as setting the clock.
func TestWallOnABusyHost(t *testing.T) {
	c := &computer{day: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), halts: time.Second}
	s := newSource(func() time.Time { return c.day }, c.clocks)
	for _, halts := range []time.Duration{0, time.Second, 0, 700 * time.Millisecond, 0} {
		c.halts = halts
		if s.wall(); s.set != 0 {
			t.Fatalf("halted for %v: the clock is taken for set by %v", halts, s.set)
		}
	}
}

// The host's own clocks agree with it.
func TestWallOfThisHost(t *testing.T) {
	if off := time.Until(Wall()).Abs(); off > time.Minute {
		t.Errorf("it is off by %v", off)
	}
}
