package status

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
)

// After half of the clocks at ten minutes each, as long again is left, at what the machines cost now.
func TestOutlook(t *testing.T) {
	s := New()
	for _, e := range journaltest.New(1).Entries {
		if e.Kind == journal.ClockDone {
			break
		}
		s.Feed(e)
	}
	if _, ok := s.Outlook(s.Now); ok {
		t.Error("there is an outlook before anything is done")
	}
	half, at := s.Start.Clocks/2, s.Now
	for clock := range half {
		at = at.Add(10 * time.Minute)
		s.Feed(journal.Entry{T: at, Kind: journal.ClockDone, Clock: clock + 1})
	}
	o, ok := s.Outlook(at)
	want := time.Duration(s.Start.Clocks-half) * 10 * time.Minute
	if !ok || math.Abs(o.Left.Hours()-want.Hours()) > 0.01*want.Hours() {
		t.Errorf("%s left, not %s", o.Left, want)
	}
	spent, _, _ := s.Money(at)
	rate := float64(s.Ledger.Rate(at))
	if math.Abs(float64(o.Total-spent)-rate*o.Left.Hours()) > 1e3 || rate == 0 {
		t.Errorf("%s at the end: %s now and %.3f an hour", o.Total.Cents(), spent.Cents(), rate/1e9)
	}
	if d, err := plan(journaltest.New(1).Entries); err == nil && o.PlannedUSD != d.Cost {
		t.Errorf("the plan was %+v, not %+v", d.Cost, o.PlannedUSD)
	}
	s.Feed(journal.Entry{T: at, Kind: journal.Done, Outcome: "finished"})
	if _, ok := s.Outlook(at); ok {
		t.Error("a run that has ended has an outlook")
	}
}

func plan(entries []journal.Entry) (d journal.PlanDetails, err error) {
	for _, e := range entries {
		if e.Kind == journal.Plan {
			return e.PlanDetails()
		}
	}
	return d, errors.New("there is no plan")
}

// The memory for clocks stays small, and spans all.
func TestMarks(t *testing.T) {
	var m marks
	began := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for clock := range int64(100_000) {
		m.add(clock+1, began.Add(time.Duration(clock+1)*time.Second))
	}
	if len(m.at) > keepMarks || len(m.at) < keepMarks/4 {
		t.Errorf("%d marks", len(m.at))
	}
	if got := m.perClock(began.Add(100_000 * time.Second)); got < 990*time.Millisecond || got > 1010*time.Millisecond {
		t.Errorf("%s a clock, not a second", got)
	}
}

// When all clocks are done the time left is none, not unknown.
func TestNoTimeLeft(t *testing.T) {
	if left, market, _ := (Outlook{}).Time(); left != "0 s" || market != "" {
		t.Errorf("%q, %q", left, market)
	}
}

// On a replayed market the time that a person waits comes first.
func TestTimeLeftByTwoClocks(t *testing.T) {
	if left, market, _ := (Outlook{Left: 9 * time.Hour, Speed: 600}).Time(); left != "54 s" || market != "9.0 h of the market" {
		t.Errorf("%q, %q", left, market)
	}
}
