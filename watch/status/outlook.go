package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/market"
)

// Outlook is the forecast for a running run, at the pace of the later half of its clocks and at the present price of its
// machines. What interrupted that half counts; what may come does not.
type Outlook struct {
	Left  time.Duration // market time until all clocks, steps or tasks are done
	Speed float64       // of the market: market time per wall-clock time
	Total market.USD    // what the whole run will have cost
	// Planned are the plan's ranges: US dollars, and seconds of market time; zero where the plan had none.
	PlannedUSD, PlannedSeconds journal.Estimate
}

// marks are when clocks were done for the first time: at most keepMarks, evenly spread.
type marks struct {
	at    []mark
	every int64 // clocks from one to the next
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

// perClock returns the market time that a clock took since the middle of those that are done.
func (m *marks) perClock(now time.Time) time.Duration {
	n := len(m.at)
	if n < 2 {
		return 0
	}
	from, last := m.at[n/2-1], m.at[n-1]
	return now.Sub(from.t) / time.Duration(max(last.clock-from.clock, 1))
}

// Outlook is known once a few clocks are done of a run that says how many there will be.
func (s *Status) Outlook(now time.Time) (o Outlook, ok bool) {
	pace := s.marks.perClock(now)
	spent, _, known := s.Money(now)
	if s.Outcome != "" || s.Start.Clocks == 0 || pace == 0 || !known {
		return o, false
	}
	clocks := float64(max(s.Start.Clocks-s.Clock, 0))
	o = Outlook{Left: time.Duration(clocks * float64(pace)), Speed: s.Mapping.Speed, PlannedUSD: s.planned.Cost, PlannedSeconds: s.planned.Runtime}
	o.Total = spent + market.USD(float64(s.Ledger.Rate(now))*o.Left.Hours())
	return o, true
}

// Cost returns the run's expected cost in words, against the plan.
func (o Outlook) Cost() string {
	text := "about " + o.Total.Cents() + " at the end"
	if p := o.PlannedUSD; p.High > 0 {
		text += fmt.Sprintf(" (plan: $%.2f to $%.2f)", p.Low, p.High)
	}
	return text
}

// Time returns the time left in words: by the wall clock, and that of the market where it runs faster. It also returns the plan for the
// whole run; empty where there was none.
func (o Outlook) Time() (left, market, planned string) {
	left = "0 s" // all is done, and machines are being released
	if o.Left > 0 {
		left = words.Duration(o.Left.Seconds() / max(o.Speed, 1))
	}
	if o.Left > 0 && o.Speed > 1 {
		market = words.Duration(o.Left.Seconds()) + " of the market"
	}
	if p := o.PlannedSeconds; p.High > 0 {
		planned = fmt.Sprintf("plan: %s to %s in all", words.Duration(p.Low), words.Duration(p.High))
	}
	return left, market, planned
}
