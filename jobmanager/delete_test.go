package jobmanager

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/market"
)

// ended puts a finished run into a site's directory, as an earlier job server left it.
func (s *site) ended(r record) {
	s.t.Helper()
	dir := s.dir(r.ID)
	if err := os.MkdirAll(filepath.Join(dir, rundir.LogsDir), 0o700); err != nil {
		s.t.Fatal(err)
	}
	var text strings.Builder
	lines := json.NewEncoder(&text)
	for _, e := range journaltest.New(1).Entries {
		if err := lines.Encode(e); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.JournalFile), []byte(text.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if r.Number > 0 {
		if err := r.write(dir); err != nil {
			s.t.Fatal(err)
		}
	}
}

// A job that is deleted on its page leaves its record: its cost stays in the accounts of all and of its group, its name is not reused, and
// the audit log says who did it. Only members of the group may do it, and not to a trial of an unfinished sweep.
func TestJobsAreDeleted(t *testing.T) {
	s := newSite(t)
	s.cfg.Budgets = map[string]market.USD{"vision": 1000 * market.Dollar}
	s.cfg.Quotas = map[string]Quota{"vision": {Machines: 1}} // one of its jobs waits, and costs nothing
	s.ended(record{ID: "job-1", Number: 1, State: call.Finished, Group: "vision", User: "ann"})
	s.ended(record{ID: "job-2", Number: 2, State: call.Finished, Group: "vision", Sweep: "job-2", Trials: 2})
	s.ended(record{ID: "byhand-1"})
	s.begin()
	clients := s.members("vision", "speech", "")
	vision, speech, all := clients[0], clients[1], clients[2]
	await := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it takes too long:", what)
			}
		}
	}
	listed := func() (n int) { return len(s.board.Summaries()) }
	await("three runs", func() bool {
		all := s.board.Summaries()
		return len(all) == 3 && all[0].State == "finished" && all[1].State == "finished" && all[2].State == "finished"
	})
	spent, _ := s.totals()
	group := s.Manager.accounts().groups["vision"].spent
	if spent == 0 || group == 0 {
		t.Fatal("the runs have cost nothing")
	}
	counts := func(when string) {
		t.Helper()
		if now, _ := s.totals(); now != spent {
			t.Errorf("%s: %v spent by all, %v before", when, now, spent)
		}
		if now := s.Manager.accounts().groups["vision"].spent; now != group {
			t.Errorf("%s: %v spent by the group, %v before", when, now, group)
		}
	}
	if code, text := speech.ask(http.MethodPost, "/runs/job-1/act", "act=delete"); code != http.StatusNotFound {
		t.Errorf("another group: %d %s", code, text)
	}
	if _, text := vision.ask(http.MethodGet, "/runs/job-1", ""); !strings.Contains(text, `value="delete"`) {
		t.Error("its page does not offer to delete it")
	}
	if code, text := vision.ask(http.MethodPost, "/runs/job-1/act", "act=delete"); code != http.StatusOK || !strings.Contains(text, "still counts") {
		t.Fatal(code, text)
	}
	files, err := os.ReadDir(s.dir("job-1"))
	if err != nil || len(files) != 1 || files[0].Name() != recordFile {
		t.Errorf("there is left %v, %v", files, err)
	}
	await("the board forgets it", func() bool { return listed() == 2 })
	counts("deleted")
	view := s.summary(nil)
	if view.Deleted != nil || len(view.Jobs) != 2 {
		t.Errorf("the list has %d jobs", len(view.Jobs))
	}
	if _, text := vision.ask(http.MethodGet, "/?q=nothing", ""); strings.Contains(text, "job-1") || !strings.Contains(text, `<a href="/?user=ann">ann</a>`) {
		t.Errorf("the list: %s", text)
	}

	// A trial of an unfinished sweep stays.
	id := s.grouped("vision", "", record{Sweep: "job-2", Trials: 2})
	if id == "job-1" {
		t.Error("a deleted job's name is used again")
	}
	if code, text := vision.ask(http.MethodPost, "/runs/job-2/act", "act=delete"); code != http.StatusConflict || !strings.Contains(text, "belongs to the sweep job-2") {
		t.Errorf("a trial: %d %s", code, text)
	}
	// A run that nobody submitted is deleted in the same way, here by the API.
	if code, text := all.ask(http.MethodDelete, "/api/v1/jobs/byhand-1", ""); code != http.StatusNoContent {
		t.Error(code, text)
	}

	// The next job server completes an interrupted deletion.
	rest := filepath.Join(s.dir("job-1"), rundir.JournalFile)
	if err := os.WriteFile(rest, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.begin()
	if _, err := os.Stat(rest); err == nil {
		t.Error("a file of a deleted job is left")
	}
	await("the trial's cost", func() bool {
		now, _ := s.totals()
		return now >= spent
	})
	counts("after a restart")

	lines, err := os.ReadFile(filepath.Join(s.home, AuditFile))
	if err != nil {
		t.Fatal(err)
	}
	var got []AuditLine
	for text := range strings.Lines(string(lines)) {
		var line AuditLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if len(got) != 4 || got[0].Job != "" || got[0].Status != http.StatusNotFound || got[1].Act != "delete" || got[1].Job != "job-1" || got[1].Group != "vision" ||
		got[1].Token != vision.token.SHA256() || got[1].Status != http.StatusOK || got[2].Status != http.StatusConflict || got[3].Job != "byhand-1" {
		t.Errorf("the audit log has %+v", got)
	}
}
