package market

import (
	"testing"
	"time"
)

func TestLifetimes(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour) }
	var l Lifetimes
	if l.Watched != 0 {
		t.Errorf("nothing was watched: %+v", l)
	}
	l.Add(Usage{Start: hour(0)}, hour(5))
	l.Add(Usage{Start: hour(0), End: hour(3), EndedBy: ByUser}, hour(5))
	if l.Evicted != 0 || l.Watched != 8*time.Hour {
		t.Errorf("5 h running and 3 h ended by us, no eviction: %+v", l)
	}
	l.Add(Usage{Start: hour(1), End: hour(2), EndedBy: ByProvider}, hour(5))
	l.Add(Usage{Start: hour(1), End: hour(7), EndedBy: ByProvider}, hour(5)) // at hour 5 it ran
	l.Add(Usage{Start: hour(6)}, hour(5))                                    // and this one was not there
	if l.Evicted != 1 || l.Watched != 13*time.Hour {
		t.Errorf("13 h watched, one eviction: %+v", l)
	}
	other := Lifetimes{Machines: 2, Evicted: 1, Watched: time.Hour, Since: hour(-3), Newest: hour(-2)}
	if sum := l.Join(other); sum != other.Join(l) || sum.Machines != 6 || sum.Evicted != 2 || sum.Watched != 14*time.Hour ||
		!sum.Since.Equal(hour(-3)) || !sum.Newest.Equal(hour(5)) {
		t.Errorf("joined: %+v", sum)
	}
	if l.Machines != 4 || !l.Since.Equal(start) || !l.Newest.Equal(hour(5)) {
		t.Errorf("%+v", l)
	}
}
