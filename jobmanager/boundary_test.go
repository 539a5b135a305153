package jobmanager

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// member makes requests with the token of one group.
type member struct {
	t       *testing.T
	token   access.Token
	handler http.Handler
}

func (c member) ask(method, path, body string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", c.token.Bearer())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl declares any body
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// upload sends a file and returns its name for a job file.
func (c member) upload(name, content string) string {
	c.t.Helper()
	if code, text := c.ask(http.MethodPut, "/api/v1/inputs/"+sumOf(content)+"/"+name, content); code != http.StatusCreated {
		c.t.Fatal(code, text)
	}
	return call.Uploaded + sumOf(content) + "/" + name
}

// submissionOf returns the body that submits a job.
func submissionOf(t *testing.T, job string) string {
	t.Helper()
	text, err := json.Marshal(call.Submission{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// members are clients of one job server, each with the right to administer one group.
func (s *site) members(groups ...string) (all []member) {
	gate := access.NewGate(access.Random(), false, time.Now, slog.New(slog.DiscardHandler))
	handler := gate.Handler(s.Handler())
	for _, group := range groups {
		token := access.Random()
		sum, err := access.ParseSum(token.SHA256())
		if err != nil {
			s.t.Fatal(err)
		}
		gate.Grant(access.Administer, group, sum)
		all = append(all, member{s.t, token, handler})
	}
	return all
}

// contents returns the SHA-256 of all files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = sumOf(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// One group tries each call of the router with names, sums and paths of another: nothing of the other group is read, replaced or changed. A
// new call, or a new part of an address, fails the test until it is tried here.
func TestGroupsAreABoundary(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning, s.cfg.MaxQueued = 8, 100
	s.begin()
	clients := s.members("vision", "speech")
	vision, speech := clients[0], clients[1]
	const data, companion = "swordfish,1\n", "swordfish-companion"
	name := vision.upload("data.csv", data)
	vision.upload("words.txt", companion)
	listing := sumOf(data) + " data.csv\n" + sumOf(companion) + " words.txt\n"
	if code, text := vision.ask(http.MethodPut, "/api/v1/inputs/"+sumOf(listing), listing); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	file := func(name, data string) string {
		return strings.ReplaceAll(strings.NewReplacer("name: job", "name: "+name, "HOME/prices.csv, params", data+", params").Replace(localJob), "HOME/prices.csv", data)
	}
	catalog := vision.upload("catalog.csv", "")
	submission := func(job string) string { return submissionOf(t, job) }
	code, text := vision.ask(http.MethodPost, "/api/v1/jobs", submission(strings.ReplaceAll(file("canary", name), "HOME/catalog.csv", catalog)))
	var job call.Job
	if err := json.Unmarshal([]byte(text), &job); code != http.StatusCreated || err != nil {
		t.Fatal(code, text)
	}
	s.clocks(job.Run, 1)
	if err := keepSecrets(s.dir(job.Run), map[string]string{"KEY": "swordfish"}); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(s.inputs.dir, vision.token.SHA256())
	before := contents(t, theirs)
	if len(before) < 4 {
		t.Fatal(before)
	}

	path := filepath.Join(theirs, sumOf(data), "data.csv")
	ids := []string{job.Run, "canary", "latest", "..", "%2e%2e%2f" + job.Run, "." + job.Run, job.Run + "%2f", "..%2fruns%2f" + job.Run, strings.ToUpper(job.Run)}
	sums := []string{sumOf(data), sumOf(companion), sumOf(listing), strings.ToUpper(sumOf(data)), "..", vision.token.SHA256(), "..%2f" + vision.token.SHA256(),
		"..%2f" + vision.token.SHA256() + "%2f" + sumOf(data), "%2e%2e"}
	names := []string{"data.csv", "words.txt", ".listing", "..%2fdata.csv", "submission.json", "secrets.json", "journal.jsonl", "submitted.yaml", "..%2f..%2ftoken"}
	parts := map[string][]string{"id": ids, "sum": sums, "name": names, "program": {"rank-0", "..", "rank-0%2f.."}, "file": {"journal.jsonl", "job.yaml", "secrets.json", "..%2fsecrets.json"}}
	pagesName := "{name}" // of a run or sweep, in the dashboard's patterns
	var jobs []string
	for _, data := range []string{name, call.Uploaded + sumOf(listing) + "/data.csv", path, "file://" + path, filepath.Join(s.inputs.dir, "..", "inputs", vision.token.SHA256(), sumOf(data), "data.csv"),
		call.Uploaded + "../" + vision.token.SHA256() + "/" + sumOf(data) + "/data.csv", filepath.Join(s.dir(job.Run), "secrets.json"), s.inputs.dir, theirs,
		call.Uploaded + vision.token.SHA256() + "/" + sumOf(data)} {
		for _, group := range []string{"", "group: vision\n", "group: speech\n"} {
			jobs = append(jobs, submission(strings.ReplaceAll(file("try", data), "HOME/catalog.csv", data)+group))
		}
	}
	bodies := map[string][]string{
		"POST /api/v1/jobs": jobs, "POST /api/v1/plan": jobs, "POST /api/v1/jobs/{id}/resume": {""}, "DELETE /api/v1/jobs/{id}": {""},
		"POST /api/v1/jobs/{id}/stop":     {`{"now": true}`, `{"program": "rank-0"}`},
		"POST /api/v1/jobs/{id}/scale":    {`{"workers": 1}`, `{"reliable": 4}`, `{"servers": 2}`, `{"pause": true}`, `{"restore": true}`},
		"PUT /api/v1/inputs/{sum}/{name}": {"evil", "swordfish"}, "PUT /api/v1/inputs/{sum}": {"evil", listing, sumOf("evil") + " data.csv\n"},
		"POST /runs/{name}/act": {"act=stop", "act=scale&workers=1", "act=drill", "act=archive", "act=delete"},
	}
	patterns := append(slices.Sorted(maps.Keys(api{s.Manager}.calls())), s.board.Patterns()...)
	part := regexp.MustCompile(`\{([a-z]+)\}`)
	tries := 0
	crosses := func(pattern, path, body string) {
		method, _, _ := strings.Cut(pattern, " ")
		code, text := speech.ask(method, path, body)
		tries++
		if strings.Contains(text, "swordfish") || strings.Contains(text, "canary") && !strings.Contains(path, "canary") || strings.Contains(text, vision.token.SHA256()) && !strings.Contains(path+body, vision.token.SHA256()) {
			t.Errorf("%s %s %.200s: %d %.300s", pattern, path, body, code, text)
		}
		if given := strings.Contains(pattern, "{id}") || strings.HasPrefix(pattern, "HEAD"); given && code < 300 && path != strings.ReplaceAll(path, job.Run, "") {
			t.Errorf("%s %s: %d %.300s", pattern, path, code, text)
		}
	}
	for _, pattern := range patterns {
		method, template, _ := strings.Cut(pattern, " ")
		changing := method != http.MethodGet && method != http.MethodHead
		if changing && bodies[pattern] == nil {
			t.Errorf("nobody has tried %s with what is another group's", pattern)
		}
		paths := []string{strings.TrimSuffix(template, "{$}")}
		for _, found := range part.FindAllStringSubmatch(template, -1) {
			values := parts[found[1]]
			if !strings.Contains(template, "/api/v1/") && found[0] == pagesName {
				values = ids
			}
			if values == nil {
				t.Errorf("%s: nobody has tried values of %s that are another group's", pattern, found[0])
			}
			var more []string
			for _, p := range paths {
				for _, v := range values {
					more = append(more, strings.Replace(p, found[0], v, 1))
				}
			}
			paths = more
		}
		for _, p := range paths {
			if _, err := url.Parse(p); err != nil {
				t.Fatal(err)
			}
			if !changing {
				crosses(pattern, p+"?manifest=1-1&digest="+sumOf(data)+"&name=controller", "")
			}
			for _, body := range bodies[pattern] {
				crosses(pattern, p, body)
			}
		}
	}
	if tries < 200 {
		t.Errorf("%d tries only", tries)
	}
	t.Logf("%d tries over %d calls and pages", tries, len(patterns))
	if after := contents(t, theirs); !maps.Equal(before, after) {
		t.Errorf("the other group's inputs were %v, and are %v", before, after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[job.Run]; j.State != call.Running || j.Stop || j.Starts != 1 {
		t.Errorf("the other group's job is %+v", j.record)
	}
	for id, j := range s.jobs {
		submitted, err := os.ReadFile(filepath.Join(j.dir, submittedFile))
		if id != job.Run && (err != nil || strings.Contains(string(submitted), vision.token.SHA256()) || j.Group != "speech") {
			t.Errorf("%s of group %s reads what is another's: %s, %v", id, j.Group, submitted, err)
		}
	}
	entries, _, err := journal.ReadFile(filepath.Join(s.dir(job.Run), rundir.JournalFile))
	if err != nil || slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Kind == journal.Scale || e.Kind == journal.Done }) {
		t.Errorf("the other group's run was changed: %v, %v", entries, err)
	}
}

// Whatever a client sends under a sum, what becomes visible there has that sum, for that client alone; and input that changed on disk
// afterwards does not start.
func TestInputsAreWhatTheirSumSays(t *testing.T) {
	s := newSite(t)
	s.begin()
	c := s.members("vision")[0]
	c.upload("a.csv", "one")
	c.upload("b.csv", "two")
	c.upload("b.csv", "one") // the same content with another name
	listing := sumOf("one") + " a.csv\n" + sumOf("two") + " b.csv\n"
	for what, bad := range map[string][2]string{
		"another sum than that of the listing": {sumOf("x"), listing}, "a file that was not uploaded": {"", sumOf("three") + " c.csv\n"},
		"a name that leads away": {"", sumOf("one") + " ../a.csv\n"}, "no sum": {"", "one a.csv\n"}, "the same name twice": {"", sumOf("one") + " a.csv\n" + sumOf("two") + " a.csv\n"},
		"nothing": {"", ""}, "a hidden name": {"", sumOf("one") + " .listing\n"},
	} {
		sum := bad[0]
		if sum == "" {
			sum = sumOf(bad[1])
		}
		if code, text := c.ask(http.MethodPut, "/api/v1/inputs/"+sum, bad[1]); code/100 != 4 {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
	if code, text := c.ask(http.MethodPut, "/api/v1/inputs/"+sumOf(listing), listing); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	if code, text := c.ask(http.MethodPut, "/api/v1/inputs/"+sumOf("one")+"/a.csv?own="+sumOf("evil"), "evil"); code != http.StatusBadRequest {
		t.Errorf("another file in its place: %d %s", code, text)
	}
	mine := filepath.Join(s.inputs.dir, c.token.SHA256())
	folders, err := os.ReadDir(mine)
	if err != nil || len(folders) != 3 {
		t.Errorf("%v, %v", folders, err)
	}
	together := filepath.Join(mine, sumOf(listing), "a.csv")
	single := filepath.Join(mine, sumOf("one"), "b.csv")
	all := []string{together, single, "/etc/hostname", filepath.Join(mine, sumOf("gone"), "x.csv")}
	if err := VerifyInputs(s.inputs.dir, all); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func() error{
		"a file":         func() error { return replaceFile(single, []byte("evil")) },
		"a companion":    func() error { return replaceFile(filepath.Join(mine, sumOf(listing), "b.csv"), []byte("evil")) },
		"a planted file": func() error { return replaceFile(filepath.Join(mine, sumOf(listing), "c.csv"), []byte("evil")) },
		"another's listing": func() error {
			return replaceFile(filepath.Join(mine, sumOf(listing), listingFile), []byte(sumOf("evil")+" a.csv\n"))
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		path := map[string]string{"a file": single, "a planted file": filepath.Join(mine, sumOf(listing), "c.csv")}[what]
		if path == "" {
			path = together
		}
		if err := VerifyInputs(s.inputs.dir, []string{path}); err == nil || !strings.Contains(err.Error(), "is not what was uploaded") {
			t.Errorf("%s: %v", what, err)
		}
		for _, folder := range []string{sumOf(listing), sumOf("one")} {
			if err := os.RemoveAll(filepath.Join(mine, folder)); err != nil {
				t.Fatal(err)
			}
		}
		c.upload("a.csv", "one")
		c.upload("b.csv", "one")
		if code, text := c.ask(http.MethodPut, "/api/v1/inputs/"+sumOf(listing), listing); code != http.StatusCreated {
			t.Fatal(code, text)
		}
	}
}

// Many concurrent uploads of the same names, right and wrong ones: what is visible at any time is right.
func TestUploadsAtOnce(t *testing.T) {
	s := newSite(t)
	s.begin()
	c := s.members("vision")[0]
	done := make(chan string, 64)
	for i := range cap(done) {
		go func() {
			content := []string{"right", fmt.Sprint("wrong", i)}[i%2]
			code, text := c.ask(http.MethodPut, "/api/v1/inputs/"+sumOf("right")+"/x.csv", content)
			if (code == http.StatusCreated) != (content == "right") {
				done <- fmt.Sprintf("%s: %d %s", content, code, text)
				return
			}
			done <- ""
		}()
	}
	for range cap(done) {
		if said := <-done; said != "" {
			t.Error(said)
		}
		if err := VerifyInputs(s.inputs.dir, []string{filepath.Join(s.inputs.dir, c.token.SHA256(), sumOf("right"), "x.csv")}); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.inputs.dir, "*", coming+"*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
