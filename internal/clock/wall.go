package clock

import (
	"sync"
	"time"
)

// Wall returns the time of day, as the host's clock had it when the process started, advanced by elapsed time, including while the host
// slept. Setting the host's clock does not change it: no machine is judged, billed or ended by an hour that never happened. It follows the
// host's gradual corrections.
func Wall() time.Time { return host.wall() }

// Between returns the earliest and the latest possible time of day: by elapsed time since the process started (Wall), and by the host's
// clock. They differ once the clock was set, and which is right is unknown. Times at which others end machines count from the latest;
// ending machines waits for the earliest.
func Between() (earliest, latest time.Time) { return host.between() }

var host = newSource(time.Now, clocks)

// source is a host's time of day without the jumps when it is set.
type source struct {
	now    func() time.Time
	clocks func() (day, steady time.Duration, ok bool) // steady: it cannot be set, and runs while the host sleeps

	mu    sync.Mutex
	known bool          // ahead is
	ahead time.Duration // of the time of day before the steady clock, at the last reading
	set   time.Duration // by how much the host's clock was set forward so far
}

func newSource(now func() time.Time, clocks func() (day, steady time.Duration, ok bool)) *source {
	s := &source{now: now, clocks: clocks}
	s.setForward()
	return s
}

func (s *source) wall() time.Time {
	for {
		before := s.setForward()
		now := s.now().Round(0)
		if s.setForward() == before { // otherwise it was just set
			return now.Add(-before)
		}
	}
}

func (s *source) between() (earliest, latest time.Time) {
	earliest, latest = s.wall(), s.now().Round(0)
	if latest.Before(earliest) {
		return latest, earliest
	}
	return earliest, latest
}

// leastSet is the minimum difference of a clock that was set: less is a correction by the host itself.
const leastSet = 500 * time.Millisecond

// apart bounds the time between two readings of clocks to be compared. On a busy host this process may be suspended between them.
const apart = 10 * time.Millisecond

// setForward returns by how much the host's clock was set forward since the process started.
func (s *source) setForward() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 10 {
		_, early, ok := s.clocks()
		day, steady, _ := s.clocks()
		if !ok {
			break
		}
		if steady-early > apart {
			continue
		}
		if by := day - steady - s.ahead; s.known && by.Abs() >= leastSet {
			s.set += by
		}
		s.ahead, s.known = day-steady, true
		break
	}
	return s.set
}
