package jobmanager

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

// A client sees its uploads under its own names, and no path of the job server's host, in everything that it can get about its jobs.
func TestClientsSeeNoPathOfTheHost(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning = 8
	s.begin()
	c := s.members("vision")[0]
	body := submissionOf(t, strings.NewReplacer("HOME/prices.csv", c.upload("data.csv", "1,2\n"), "HOME/catalog.csv", c.upload("types.csv", "")).Replace(localJob))
	var ids []string
	for range 2 {
		code, text := c.ask(http.MethodPost, "/api/v1/jobs", body)
		var job call.Job
		if err := json.Unmarshal([]byte(text), &job); code != http.StatusCreated || err != nil {
			t.Fatal(code, text)
		}
		s.clocks(job.Run, 1)
		s.leavePaths(job.Run)
		ids = append(ids, job.Run)
	}
	var paths []string
	for _, pattern := range slices.Concat(slices.Collect(maps.Keys(api{s.Manager}.calls())), s.board.Patterns()) {
		path, isGet := strings.CutPrefix(pattern, "GET ")
		path = strings.NewReplacer("{$}", "", "{name}", ids[0], "{id}", ids[0]).Replace(path)
		switch {
		case !isGet:
		case strings.Contains(pattern, "/files/"):
			for _, name := range append(slices.Clone(call.Files), "controller.log") {
				paths = append(paths, strings.NewReplacer("files/"+ids[0], "files/"+name, "{file}", name).Replace(path))
			}
		default:
			paths = append(paths, path, path+"?name=controller&of=controller&run="+ids[0]+"&run="+ids[1], path+"?of=rank-0.1&name=rank-0")
		}
	}
	shown := map[string]bool{}
	see := func(what string, code int, text string) {
		if strings.Contains(text, s.home) {
			t.Errorf("%s shows a path of the host: %d %s", what, code, text)
		}
		shown[what] = strings.Contains(text, call.Uploaded)
	}
	for _, id := range ids { // the board scans once a second
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if code, _ := c.ask(http.MethodGet, "/runs/"+id+"/logs", ""); code == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the board does not know %s", id)
			}
		}
	}
	for _, path := range paths {
		code, text := c.ask(http.MethodGet, path, "")
		see(path, code, text)
	}
	code, text := c.ask(http.MethodPost, "/api/v1/plan", body)
	see("plan", code, text)
	s.tell(ids[0], "refuse")
	s.kill(ids[0])
	s.until(ids[0], call.Failed)
	code, text = c.ask(http.MethodGet, "/api/v1/jobs/"+ids[0], "")
	see("refusal", code, text)
	run, api := "/runs/"+ids[0], "/api/v1/jobs/"+ids[0]
	for _, path := range []string{"plan", "refusal", run + "/files/job.yaml", run + "/files/journal.jsonl", run + "/files/controller.log", run + "/logs?of=rank-0.1&name=rank-0",
		api + "/files/job.yaml", api + "/files/submitted.yaml", api + "/files/journal.jsonl",
		api + "/events", api + "/logs?name=controller&of=controller&run=" + ids[0] + "&run=" + ids[1]} {
		if !shown[path] {
			t.Errorf("%s does not show what was uploaded; of those that do: %v", path, shown)
		}
	}
}

// leavePaths makes a run leave what real ones leave, with paths of its inputs.
func (s *site) leavePaths(id string) {
	s.t.Helper()
	dir := s.dir(id)
	job, err := config.Load(filepath.Join(dir, submittedFile))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{rundir.JobFile, rundir.LogsDir + "/controller.log", rundir.LogsDir + "/rank-0.1.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), job.Resolved(), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	asJSON, err := json.Marshal(job)
	if err != nil {
		s.t.Fatal(err)
	}
	details, err := journal.Pack(journal.StartDetails{Name: job.Name, Job: asJSON})
	if err != nil {
		s.t.Fatal(err)
	}
	line, err := json.Marshal(journal.Entry{Kind: journal.Start, Details: details})
	if err != nil {
		s.t.Fatal(err)
	}
	s.says(id, string(line))
	s.when(id, "at its second start", func(record) bool {
		entries, _, err := journal.ReadFile(filepath.Join(dir, rundir.JournalFile))
		return err == nil && slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Details != nil })
	})
}
