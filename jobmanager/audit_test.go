package jobmanager

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/jobmanager/call"
)

// Each call that may change something is in the audit log: who, what, when, from where, for which group, and the answer; reads are not.
func TestAuditLog(t *testing.T) {
	s := newSite(t)
	s.begin()
	clients := s.members("vision", "speech")
	vision, speech := clients[0], clients[1]
	name := vision.upload("prices.csv", "")
	job := strings.NewReplacer("HOME/prices.csv", name, "HOME/catalog.csv", name).Replace(localJob)
	text, err := json.Marshal(call.Submission{Job: job, User: "ann@laptop"})
	if err != nil {
		t.Fatal(err)
	}
	if code, said := vision.ask("POST", "/api/v1/jobs", string(text)); code != 201 || !strings.Contains(said, `"user":"ann@laptop"`) {
		t.Fatal(code, said)
	}
	speech.ask("POST", "/api/v1/jobs/job-1/stop", "{}")
	vision.ask("GET", "/api/v1/jobs", "")
	vision.ask("POST", "/api/v1/jobs/job-1/stop", `{"by":"ann"}`)
	lines, err := os.ReadFile(filepath.Join(s.home, AuditFile))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for text := range strings.Lines(string(lines)) {
		var line AuditLine
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.T.IsZero() || line.From == "" || line.Rights == "" || line.Token != vision.token.SHA256() && line.Token != speech.token.SHA256() {
			t.Errorf("%s: %v", text, err)
		}
		who := map[string]string{vision.token.SHA256(): "vision", speech.token.SHA256(): "speech"}[line.Token]
		path, _, _ := strings.Cut(line.Call, "/inputs/")
		got = append(got, strings.Join([]string{who, path, line.Job, line.Group, line.User, map[bool]string{true: "ok", false: "refused"}[line.Status < 400]}, " "))
	}
	want := "vision PUT /api/v1    ok\nvision POST /api/v1/jobs job-1 vision ann@laptop ok\nspeech POST /api/v1/jobs/job-1/stop    refused\nvision POST /api/v1/jobs/job-1/stop job-1 vision ann ok"
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\n\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if info, err := os.Stat(filepath.Join(s.home, AuditFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
