package dashboard

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/watch/status"
)

// A run that a limit has paused says so, with the reason, until it continues or has ended.
func TestPauseIsShown(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &run{dir: "runs/demo-1", going: true, status: status.New()}
	r.status.Feed(journal.Entry{Kind: journal.Launch, Instance: "i-1"})
	r.status.Feed(journal.Entry{Kind: journal.Join, Instance: "i-1"})
	for i, c := range []struct {
		entry  journal.Entry
		paused bool
		why    string
	}{
		{journal.Entry{Kind: journal.ClockDone, Clock: 1}, false, ""},
		{journal.Entry{Kind: journal.Budget, To: journal.Warned, Why: "it is near"}, false, ""},
		{journal.Entry{Kind: journal.Budget, To: journal.Paused, Why: "it is above"}, true, "paused: it is above"},
		{journal.Entry{Kind: journal.ClockDone, Clock: 2}, true, "paused: it is above"},
		{journal.Entry{Kind: journal.Budget, To: journal.GoesOn, Why: "it is below"}, false, ""},
		{journal.Entry{Kind: journal.Budget, To: journal.Paused, Why: "above again"}, true, "paused: above again"},
		{journal.Entry{Kind: journal.Done, Outcome: "interrupted", Why: "asked"}, false, "asked"},
	} {
		c.entry.T = at.Add(time.Duration(i) * time.Minute)
		r.status.Feed(c.entry)
		if s := r.summary(c.entry.T); (s.State == status.Paused) != c.paused || s.Why != c.why {
			t.Errorf("after entry %d: %s, %q", i, s.State, s.Why)
		}
	}
}
