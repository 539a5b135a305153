package status

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/market"
)

// Outlook is the forecast for a running run, at the pace of the later half of its clocks, or of all its finished tasks, and the present price of
// its machines. It includes past interruptions in that time, but none that may come.
type Outlook struct {
	Left  time.Duration // market time until all clocks, steps or tasks are done
	Speed float64       // market time per wall-clock time
	Total market.USD    // what the whole run will have cost
	// The range holds nine of ten results if clocks keep their variance; zero while there are too few clocks.
	LeftLow, LeftHigh   time.Duration
	TotalLow, TotalHigh market.USD
	ByPlan              bool // no pace yet: the plan's estimate, less the time that has passed
	Steps               bool // it reports steps, or counts tasks
	// Planned are the plan's ranges, in US dollars and seconds of market time; zero if the plan had none.
	PlannedUSD, PlannedSeconds journal.Estimate
}

// marks are when clocks were first completed: at most keepMarks, evenly spread.
type marks struct {
	at    []mark
	every int64 // clocks between two marks
}

type mark struct {
	clock int64
	t     time.Time
}

const keepMarks = 256

func (m *marks) add(clock int64, t time.Time) {
	m.every = max(m.every, 1)
	if n := len(m.at); n > 0 && clock < m.at[n-1].clock+m.every {
		return
	}
	m.at = append(m.at, mark{clock, t})
	if len(m.at) > keepMarks {
		m.every *= 2
		odd := false
		m.at = slices.DeleteFunc(m.at, func(mark) bool { odd = !odd; return !odd })
	}
}

// perClock returns the market time per clock since the middle of the completed clocks.
func (m *marks) perClock(now time.Time) time.Duration {
	n := len(m.at)
	if n < 2 {
		return 0
	}
	from, last := m.at[n/2-1], m.at[n-1]
	return now.Sub(from.t) / time.Duration(max(last.clock-from.clock, 1))
}

// fewest is the number of marks needed for a meaningful variance.
const fewest = 7

// spread returns the nine-in-ten deviation of the remaining clocks' time from their mean, from the variance of past clocks. It returns
// false if there are too few.
func (m *marks) spread(clocks float64) (time.Duration, bool) {
	n := len(m.at)
	if n < fewest {
		return 0, false
	}
	done := float64(m.at[n-1].clock - m.at[0].clock)
	mean := m.at[n-1].t.Sub(m.at[0].t).Seconds() / done
	variance := 0.0 // of one clock
	for i, at := range m.at[1:] {
		k := float64(at.clock - m.at[i].clock)
		off := at.t.Sub(m.at[i].t).Seconds() - k*mean
		variance += off * off / k / float64(n-2)
	}
	const ninety = 1.645 // standard deviations
	return time.Duration(ninety * math.Sqrt(variance*clocks*(1+clocks/done)) * float64(time.Second)), true
}

// Outlook returns a forecast once a few clocks are done, if the run's total is known. For a program without progress reports it returns the
// plan's, until the planned time has passed.
func (s *Status) Outlook(now time.Time) (o Outlook, ok bool) {
	spent, known := s.Spent(now)
	if s.Outcome != "" || !known {
		return o, false
	}
	o = Outlook{Speed: s.Mapping.Speed, Steps: s.Start.Clocks > 0, PlannedUSD: s.planned.Cost, PlannedSeconds: s.planned.Runtime}
	switch mean := s.marks.perClock(now); {
	case s.Start.Clocks > 0 && mean > 0:
		clocks := float64(max(s.Start.Clocks-s.Clock, 0))
		o.Left = time.Duration(clocks * float64(mean))
		if s.Start.Program != nil && s.Start.Program.Tasks > 0 {
			o.Left = s.tasks.left(int64(clocks), now)
		}
		if by, known := s.marks.spread(clocks); known {
			o.LeftLow, o.LeftHigh = max(o.Left-by, 0), o.Left+by
		}
	case s.planned.Runtime.Mid > 0:
		passed, of := now.Sub(s.Began), s.planned.Runtime
		left := func(seconds float64) time.Duration { return time.Duration(seconds*float64(time.Second)) - passed }
		o.Left, o.LeftLow, o.LeftHigh, o.ByPlan = left(of.Mid), max(left(of.Low), 0), left(of.High), true
		if o.Left <= 0 {
			return o, false // longer than planned, by an unknown amount
		}
	default:
		return o, false
	}
	total := func(left time.Duration, planned float64) market.USD {
		if o.ByPlan && planned > 0 { // some of its machines may be missing
			return max(spent, market.USD(planned*float64(market.Dollar)))
		}
		return spent + market.USD(float64(s.Ledger.Rate(now))*left.Hours())
	}
	o.Total = total(o.Left, o.PlannedUSD.Mid)
	if o.LeftHigh > 0 {
		o.TotalLow, o.TotalHigh = total(o.LeftLow, o.PlannedUSD.Low), total(o.LeftHigh, o.PlannedUSD.High)
	}
	return o, true
}

// Cost returns the run's expected cost in words, with its range and against the plan.
func (o Outlook) Cost() string {
	text := "about " + o.Total.Cents() + " at the end"
	if low, high := o.TotalLow.Cents(), o.TotalHigh.Cents(); o.TotalHigh > 0 && low != high {
		text += fmt.Sprintf(", %s to %s", low, high)
	}
	if p := o.PlannedUSD; p.High > 0 && !o.ByPlan {
		text += fmt.Sprintf(" (plan: $%.2f to $%.2f)", p.Low, p.High)
	}
	return text
}

// Time is how long a run will take, in words.
type Time struct {
	Left    string // in wall-clock time
	Market  string // in market time, if that runs faster
	Range   string // of Left
	Basis   string // basis of the estimate
	Planned string // of the whole run; empty without a plan
}

// String returns a one-line summary.
func (t Time) String() string {
	text := t.Left
	if t.Market != "" {
		text += " (" + t.Market + ")"
	}
	return text
}

// Notes returns the details.
func (t Time) Notes() string {
	text := t.Basis
	if t.Market != "" {
		text = t.Market + ", " + text
	}
	if t.Range != "" {
		text += "; " + t.Range
	}
	if t.Planned != "" {
		text += "; " + t.Planned
	}
	return text
}

// Time returns the time left in words.
func (o Outlook) Time() Time {
	t := Time{Left: "0 s", Basis: "at the pace so far"} // all work is done, and machines are being released
	switch {
	case o.ByPlan && o.Steps:
		t.Basis = "by its plan: it has only begun"
	case o.ByPlan:
		t.Basis = "by its plan: it reports no steps"
	}
	wall := func(d time.Duration) string {
		if d <= 0 {
			return "0 s"
		}
		return words.Duration(d.Seconds() / max(o.Speed, 1))
	}
	if o.Left > 0 {
		t.Left = wall(o.Left)
		if o.Speed > 1 {
			t.Market = words.Duration(o.Left.Seconds()) + " of the market"
		}
	}
	if low, high := wall(o.LeftLow), wall(o.LeftHigh); o.LeftHigh > 0 && low != high {
		t.Range = low + " to " + high
	}
	if p := o.PlannedSeconds; p.High > 0 {
		t.Planned = "plan: " + words.Duration(p.Low)
		if high := words.Duration(p.High); high != words.Duration(p.Low) {
			t.Planned += " to " + high
		}
		t.Planned += " in all"
	}
	return t
}
