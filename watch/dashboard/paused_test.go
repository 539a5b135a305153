package dashboard

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
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

// While a killed run is being resumed, and its journal does not say so yet, its machines do not cost until now.
func TestCostBeforeAResumedRunBegins(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	dir := write(t, root, "a-1", story[:len(story)/2])
	b, _ := boardAt(t, root, wallOf(story[:len(story)/2]).Add(10*time.Minute))
	until := func(what string, done func(Summary) bool) (s Summary) {
		for {
			if all := b.Summaries(); len(all) == 1 && done(all[0]) {
				return all[0]
			}
			select {
			case <-t.Context().Done():
				t.Fatal("there never was " + what)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	killed := until("a killed run", func(s Summary) bool { return s.State == status.Killed })
	hold(t, dir)
	if s := until("a resumed run", func(s Summary) bool { return s.State == status.Running && caughtUp(b.find("a-1")) }); s.Spent != killed.Spent {
		t.Errorf("$%s is spent, and was $%s when it was killed", s.Spent, killed.Spent)
	}
	f, err := os.OpenFile(filepath.Join(dir, rundir.JournalFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := json.NewEncoder(f).Encode(story[len(story)/2]); err != nil {
		t.Fatal(err)
	}
	until("a cost that grows", func(s Summary) bool { return dollars(s.Spent) > dollars(killed.Spent) })
}

func caughtUp(r *run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.caught
}
