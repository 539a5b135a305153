package status

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
)

// Machines are counted once by their activity, from launch to end, and the cost falls only when an hour that its provider interrupts
// becomes free.
func TestStory(t *testing.T) {
	s := New()
	bought, ended := map[string]bool{}, map[string]bool{}
	var spentBefore int64
	for i, e := range journaltest.New(1).Entries {
		s.Feed(e)
		switch e.Kind {
		case journal.Launch:
			bought[e.Instance] = true
		case journal.Evicted, journal.Terminated, journal.Failed:
			if e.Ended != nil {
				ended[e.Instance] = true
			}
		}
		held, training := 0, 0
		for _, g := range s.Groups() {
			held += g.Joined + g.Starting + g.Leaving
			training += g.Joined
		}
		if want := len(bought) - len(ended); held != want {
			t.Fatalf("entry %d, %s: %d machines are held; want %d", i+1, e.Kind, held, want)
		}
		if transient, reliable := s.Counts(); transient+reliable != training {
			t.Fatalf("entry %d: %d transient and %d reliable machines are counted; want %d in all", i+1, transient, reliable, training)
		}
		spent, ok := s.Spent(s.Now)
		if i > 0 && !ok || int64(spent) < spentBefore && e.EndedBy != "provider" {
			t.Fatalf("entry %d: spent %v, known %v", i+1, spent, ok)
		}
		spentBefore = int64(spent)
	}
	if s.Outcome != "finished" || s.Clock == 0 || len(s.Events(3)) != 3 {
		t.Errorf("at the end: %q, clock %d, events %v", s.Outcome, s.Clock, s.Events(3))
	}
}

// The result's loss is the one measured on the saved model, as in the report, not the last clock's.
func TestLossOfTheResult(t *testing.T) {
	s := New()
	last, result := 4.0213, 4.0193
	s.Feed(journal.Entry{Kind: journal.ClockDone, Clock: 320, TestLoss: &last})
	if s.Test == nil || *s.Test != last {
		t.Fatalf("after a clock: %v; want %v", s.Test, last)
	}
	s.Feed(journal.Entry{Kind: journal.Export, Clock: 320, TestLoss: &result})
	s.Feed(journal.Entry{Kind: journal.Export, Clock: 320})
	if *s.Test != result {
		t.Errorf("after the export: %v; want %v", *s.Test, result)
	}
}

// A job with a target says how many clocks remain until it, no more than it has; once it has ended, nothing.
func TestClocksLeft(t *testing.T) {
	s := New()
	details, err := journal.Pack(journal.StartDetails{Clock: "real", Rules: "ec2-now", Metric: "rmse", TargetLoss: .5, Clocks: 100})
	if err != nil {
		t.Fatal(err)
	}
	s.Feed(journal.Entry{Kind: journal.Start, Details: details})
	for clock := int64(1); clock <= 40; clock++ {
		if _, ok := s.Left(); ok && clock < 9 {
			t.Fatalf("estimated after %d losses", clock-1)
		}
		loss := 4 / (1 + .1*float64(clock)) // .5 at clock 70
		s.Feed(journal.Entry{Kind: journal.ClockDone, Clock: clock, TestLoss: &loss})
	}
	e, ok := s.Left()
	if !ok || e.Low > 30 || e.High < 30 || e.High > 60 {
		t.Errorf("30 clocks are left, estimated %+v, %v", e, ok)
	}
	if text := s.LeftText(); !strings.Contains(text, " clocks to rmse 0.5, by estimates of which ") {
		t.Errorf("%q", text)
	}
	s.Feed(journal.Entry{Kind: journal.Done, Outcome: "finished"})
	if _, ok := s.Left(); ok {
		t.Error("a run that is over has clocks left")
	}
}

// Until it is resumed, a paused run says so; other numbers do not end a pause by a limit.
func TestPaused(t *testing.T) {
	s := New()
	scale := func(d journal.ScaleDetails) {
		t.Helper()
		details, err := journal.Pack(d)
		if err != nil {
			t.Fatal(err)
		}
		s.Feed(journal.Entry{Kind: journal.Scale, Details: details})
	}
	scale(journal.ScaleDetails{Paused: "tierml pause"})
	if s.Why != "paused: tierml pause" {
		t.Errorf("%q", s.Why)
	}
	scale(journal.ScaleDetails{Servers: 2})
	if s.Why != "" {
		t.Errorf("resumed: %q", s.Why)
	}
	s.Feed(journal.Entry{Kind: journal.Budget, To: journal.Paused, Why: "too dear"})
	scale(journal.ScaleDetails{Servers: 3})
	if s.Why != "paused: too dear" {
		t.Errorf("a request in a pause by a limit: %q", s.Why)
	}
}
