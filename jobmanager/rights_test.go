package jobmanager

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/watch/shared/sharedtest"
)

// grouped submits a job of a group, for a client.
func (s *site) grouped(group, client string, r record) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Client = client
	text := strings.ReplaceAll(localJob, "HOME", s.home)
	if group != "" {
		text += "group: " + group + "\n"
	}
	j, err := s.enter("job", []byte(text), nil, r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.nudge()
	return j.ID
}

// Each call of the API and each page, with each right, to jobs of the token's group and of others.
func TestRightsOfGroups(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning, s.cfg.Allow = 8, []string{s.home}
	s.cfg.Quotas = map[string]Quota{"speech": {Jobs: 97}}
	s.begin()
	gate := access.NewGate(access.Random(), false, time.Now, slog.New(slog.DiscardHandler))
	handler := gate.Handler(s.Handler())
	tokens := map[string]access.Token{}
	grant := func(name string, rights map[string]access.Right) {
		tokens[name] = access.Random()
		for group, right := range rights {
			sum, err := access.ParseSum(tokens[name].SHA256())
			if err != nil {
				t.Fatal(err)
			}
			gate.Grant(right, group, sum)
		}
	}
	grant("watch vision", map[string]access.Right{"vision": access.Watch})
	grant("submit vision", map[string]access.Right{"vision": access.Submit})
	grant("submit vision, watch all", map[string]access.Right{"vision": access.Submit, access.All: access.Watch})
	grant("administer vision", map[string]access.Right{"vision": access.Administer})
	grant("submit all", map[string]access.Right{access.All: access.Submit})
	grant("watch all", map[string]access.Right{access.All: access.Watch})
	grant("administer all", map[string]access.Right{access.All: access.Administer})
	jobs := map[string]string{"vision": s.grouped("vision", "", record{Trials: 1}), "speech": s.grouped("speech", "", record{Trials: 1}), "none": s.grouped("", "", record{Trials: 1}),
		"own": s.grouped("vision", tokens["submit vision"].SHA256(), record{Trials: 1})}
	ask := func(token, method, path, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", tokens[token].Bearer())
		if strings.HasSuffix(path, "/act") {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	sharing := []string{}
	for _, id := range jobs {
		sharing = append(sharing, id)
	}
	hosts := s.dir("shared-1") // managed by the manager
	if err := sharedtest.Write(hosts, sharing...); err != nil {
		t.Fatal(err)
	}
	leave, err := rundir.HoldUntil(hosts)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	for _, id := range sharing {
		s.clocks(id, 1)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // until the board has found it
			if code, _ := ask("administer all", http.MethodGet, "/runs/"+id+"/files/journal.jsonl", ""); code == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("no page of", id)
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // until the board has read about the hosts
		if _, text := ask("administer all", http.MethodGet, "/api/v1/hosts", ""); strings.Contains(text, sharedtest.Transient) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the shared hosts are not shown")
		}
	}
	submitted := func(group string) string {
		text := strings.ReplaceAll(localJob, "HOME", s.home)
		if group != "none" {
			text += "group: " + group + "\n"
		}
		return fmt.Sprintf(`{"job": %q, "secrets": {"no": "such secret"}}`, text) // if it passes the gate it is refused for this reason
	}
	const see, change, submit, input, all = "see", "change", "submit", "input", "all"
	type probe struct{ kind, body string }
	probes := map[string]probe{
		"GET /api/v1/jobs/{id}": {see, ""}, "GET /api/v1/jobs/{id}/why": {see, ""}, "GET /api/v1/sweeps/{id}": {see, ""}, "GET /api/v1/jobs/{id}/events": {see, ""},
		"GET /api/v1/jobs/{id}/logs": {see, ""}, "GET /api/v1/jobs/{id}/files/{name}": {see, ""}, "GET /api/v1/jobs/{id}/state/{program}": {see, ""},
		"POST /api/v1/jobs/{id}/stop": {change, `{"program": "task-1"}`}, "POST /api/v1/jobs/{id}/resume": {change, ""}, "POST /api/v1/jobs/{id}/scale": {change, `{"workers": 1}`},
		"DELETE /api/v1/jobs/{id}": {change, ""},
		"POST /api/v1/jobs":        {submit, ""}, "POST /api/v1/plan": {submit, ""},
		"HEAD /api/v1/inputs/{sum}/{name}": {input, ""}, "PUT /api/v1/inputs/{sum}/{name}": {input, "x"}, "PUT /api/v1/inputs/{sum}": {input, "x"},
		"GET /runs/{id}": {see, ""}, "GET /runs/{id}/events": {see, ""}, "GET /runs/{id}/logs": {see, ""}, "GET /runs/{id}/files/{name}": {see, ""}, "GET /sweeps/{id}": {see, ""},
		"GET /api/runs/{id}": {see, ""}, "GET /api/sweeps/{id}": {see, ""}, "POST /runs/{id}/act": {change, "act=nothing"}, "GET /metrics": {all, ""},
	}
	lists := []string{"GET /api/v1/jobs", "GET /api/v1/groups", "GET /api/v1/hosts", "GET /api/v1/"} // below
	for pattern := range (api{s.Manager}).calls() {
		if _, is := probes[pattern]; !is && !slices.Contains(lists, pattern) {
			t.Errorf("nobody has tried %s with each right", pattern)
		}
	}
	everyone, ofVision := "vision speech none own", "vision own"
	for token, may := range map[string]map[string]string{
		"watch vision":             {see: ofVision},
		"submit vision":            {see: ofVision, change: "own", submit: "vision own none", input: everyone}, // a token without a group belongs to vision
		"submit vision, watch all": {see: everyone, submit: "vision own none", input: everyone, all: everyone},
		"administer vision":        {see: ofVision, change: ofVision, submit: "vision own none", input: everyone},
		"submit all":               {see: everyone, submit: everyone, input: everyone, all: everyone},
		"watch all":                {see: everyone, all: everyone},
		"administer all":           {see: everyone, change: everyone, submit: everyone, input: everyone, all: everyone},
	} {
		for pattern, p := range probes {
			for whose, id := range jobs {
				method, path, _ := strings.Cut(strings.NewReplacer("{id}", id, "{name}", "journal.jsonl", "{program}", "rank-0", "{sum}", strings.Repeat("0", 64)).Replace(pattern), " ")
				body := p.body
				if p.kind == submit {
					body = submitted(strings.Replace(whose, "own", "vision", 1))
				}
				code, text := ask(token, method, path, body)
				hidden := code == http.StatusNotFound && (strings.Contains(text, "may watch") || strings.Contains(text, "There is no") || strings.Contains(text, "there is no sweep"))
				if refused := code == http.StatusForbidden || hidden; refused == slices.Contains(strings.Fields(may[p.kind]), whose) || code == http.StatusUnauthorized {
					t.Errorf("%s: %s of %s: %d %s", token, pattern, whose, code, text)
				}
				if code == http.StatusForbidden && method != http.MethodHead && !strings.Contains(pattern, "/act") && !strings.Contains(text, "right \\\"") && !strings.Contains(text, `right "`) {
					t.Errorf("%s: %s of %s does not say which right it needs: %s", token, pattern, whose, text)
				}
				if (hidden || code == http.StatusForbidden) && id != jobs[whose] {
					t.Errorf("%s: %s names a job of others: %s", token, pattern, text)
				}
			}
		}
		for _, list := range []string{"/api/v1/jobs", "/", "/api/runs", "/api/v1/hosts", "/hosts", "/api/hosts"} {
			_, text := ask(token, http.MethodGet, list, "")
			for whose, id := range jobs {
				if strings.Contains(text, id) != slices.Contains(strings.Fields(may[see]), whose) {
					t.Errorf("%s: %s of the job of %s: %s", token, list, whose, text)
				}
			}
		}
		if _, home := ask(token, http.MethodGet, "/", ""); strings.Contains(home, "jobs: 97") != (may[see] == everyone) {
			t.Errorf("%s: the quota of a group that it may not watch, or none of one that it may: %s", token, home)
		}
		_, text := ask(token, http.MethodGet, "/api/v1/hosts", "")
		if hidden := strings.Count(text, `"other_jobs":2`); hidden != map[bool]int{true: 0, false: 2}[may[see] == everyone] || strings.Count(text, `"slots":4`) != 2 {
			t.Errorf("%s: on the shared hosts are %s", token, text)
		}
		_, text = ask(token, http.MethodGet, "/api/v1/groups", "")
		if sees := may[see] == everyone; strings.Contains(text, "speech") != sees || strings.Contains(text, "total_usd") != sees || !strings.Contains(text, "vision") {
			t.Errorf("%s: %s", token, text)
		}
	}
}

// A job submitted with a token of a group belongs to that group and to the token, also for the next manager.
func TestSubmitToAGroup(t *testing.T) {
	s := newSite(t)
	s.cfg.Quotas = map[string]Quota{"vision": {Machines: 8}}
	s.begin()
	token := access.Random()
	sum, err := access.ParseSum(token.SHA256())
	if err != nil {
		t.Fatal(err)
	}
	gate := access.NewGate(access.Random(), false, time.Now, slog.New(slog.DiscardHandler))
	gate.Grant(access.Submit, "vision", sum)
	server := httptest.NewServer(gate.Handler(s.Handler()))
	defer server.Close()
	client, err := call.New(server.URL, token, "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	submission, _ := demo(t, client)
	if _, err := client.Submit(t.Context(), submission); err == nil || !strings.Contains(err.Error(), "resources.vcpu: group vision has a quota of machines") {
		t.Errorf("a job of vCPUs: %v", err)
	}
	submission.Job = strings.Replace(submission.Job, "vcpu: 64", "count: 16", 1)
	for more, want := range map[string]string{
		"group: speech\n": `a job of group speech needs the right "submit" of that group; this token has submit of vision`,
		"group: vision\n": "resources.count: 17 machines, with the 1 of reliable.count, are more than the quota of group vision, 8",
		"":                "resources.count: 17 machines, with the 1 of reliable.count, are more than the quota of group vision, 8",
	} {
		if _, err := client.Submit(t.Context(), call.Submission{Job: submission.Job + more}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", more, err)
		}
	}
	submission.Job = strings.Replace(submission.Job, "count: 16", "count: 4", 1)
	job, err := client.Submit(t.Context(), submission)
	if err != nil || job.Group != "vision" {
		t.Fatalf("%+v, %v", job, err)
	}
	s.begin()
	s.when(job.Run, "of vision, and the token's own", func(r record) bool { return r.Client == token.SHA256() && r.Group == "vision" })
	if group := groupOf(s.dir(job.Run)); group != "vision" {
		t.Errorf("its file is of group %q", group)
	}
}

// Jobs beyond their group's quota wait, with the reason, in the order of submission; others do not. The next manager keeps this.
func TestQuotas(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning = 8
	s.cfg.Quotas = map[string]Quota{"vision": {Jobs: 1}, "speech": {Machines: 40}}
	s.begin()
	vision := []string{s.grouped("vision", "", record{}), s.grouped("vision", "", record{}), s.grouped("vision", "", record{})}
	speech := []string{s.grouped("speech", "", record{}), s.grouped("speech", "", record{}), s.grouped("speech", "", record{})} // of 16 machines each
	none := s.grouped("", "", record{})
	for range 2 {
		_, client := s.served()
		for _, id := range []string{vision[0], speech[0], speech[1], none} {
			s.clocks(id, 1)
		}
		for id, want := range map[string]string{
			vision[1]: "waits for the quota of group vision (jobs: 1)", vision[2]: "waits for the quota of group vision (jobs: 1)",
			speech[2]: "waits for the quota of group speech (machines: 40): earlier jobs may have 34, and this one 17",
		} {
			job, err := client.Job(t.Context(), id)
			why, whyErr := client.Why(t.Context(), id)
			if err != nil || whyErr != nil || job.State != string(call.Queued) || job.Why != want || why.Grant.Why != want || job.Starts > 0 {
				t.Errorf("%s: %+v, %+v, %v, %v", id, job, why, err, whyErr)
			}
		}
		if err := client.Scale(t.Context(), speech[0], call.Scale{Workers: -1}, func(call.Standing) {}); err != nil {
			t.Errorf("fewer machines: %v", err)
		}
		s.begin()
	}
	s.tell(vision[0], "finish")
	s.tell(speech[1], "finish")
	s.clocks(vision[1], 1)
	s.clocks(speech[2], 1)
	if r := s.until(vision[2], call.Queued); r.Starts > 0 {
		t.Errorf("two jobs of vision: %+v", r)
	}
}

// A scheduler considers no job beyond its group's quota, however much is free.
func TestQuotaOfScheduledJobs(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning = sched.FIFO{}, 64, 8
	s.cfg.Quotas = map[string]Quota{"vision": {Jobs: 1}}
	s.begin()
	first, second, other := s.grouped("vision", "", record{}), s.grouped("vision", "", record{}), s.grouped("speech", "", record{})
	s.clocks(first, 1)
	s.clocks(other, 1)
	_, client := s.served()
	if why, err := client.Why(t.Context(), second); err != nil || !strings.HasPrefix(why.Grant.Why, "waits for the quota of group vision") {
		t.Errorf("%+v, %v", why, err)
	}
	if r := s.until(second, call.Queued); r.Granted > 0 {
		t.Errorf("%+v", r)
	}
	s.tell(first, "finish")
	s.clocks(second, 1)
}

func TestReadGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "groups.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b := access.Random().SHA256(), access.Random().SHA256()
	write("vision:\n  submit: [" + a + ", " + b + "]\n  watch: " + b + "\n  quota: {jobs: 4, machines: 32, per_hour: $20}\n  budget: $200\n\"*\": {administer: [" + a + "]}\n")
	groups, err := ReadGroups(path)
	vision := groups["vision"]
	if err != nil || len(groups) != 2 || len(vision.Tokens[access.Submit]) != 2 || len(vision.Tokens[access.Watch]) != 1 || len(groups[access.All].Tokens[access.Administer]) != 1 ||
		vision.Quota != (Quota{Jobs: 4, Machines: 32, PerHour: 20 * market.Dollar}) || vision.Budget != 200*market.Dollar {
		t.Errorf("%+v, %v", groups, err)
	}
	page, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	write(block)
	if groups, err = ReadGroups(path); err != nil || len(groups) != 3 || len(groups["vision"].Tokens[access.Submit]) != 2 {
		t.Errorf("the page's example: %+v, %v", groups, err)
	}
	for text, want := range map[string]string{
		"vision:\n  sumbit: [" + a + "]\n":        `:2: there is no "sumbit": write submit`,
		"vision:\n  submit: [secret]\n":           `:2: submit: "secret": a token's SHA-256 has 64 hexadecimal digits`,
		"vision: {quota: {jobs: 0}}\n":            `:1: quota.jobs: "0" is not a number from 1 on`,
		"vision: {quota: {slots: 3}}\n":           `:1: there is no "slots": there are jobs, machines, per_hour`,
		"vision: {budget: much}\n":                `:1: budget: "much" is not an amount of dollars`,
		"vision: {}\nvision: {}\n":                "vision",
		"\"*\": {quota: {jobs: 1}}\n":             "--max-running",
		"vision: [" + a + "]\n":                   "group vision is not a mapping",
		"vision: {watch: {a: b}}\n":               "write a list of tokens",
		"\t":                                      "not valid YAML",
		"vision: {watch: [" + sumOfNothing + "]}": "the SHA-256 of nothing",
	} {
		write(text)
		if _, err := ReadGroups(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bytes.TrimSpace([]byte(text)), err)
		}
	}
	if _, err := ReadGroups(path + "x"); err == nil {
		t.Error("no file")
	}
}

const sumOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// gossip is a policy whose reasons name all jobs.
type gossip struct{ sched.Policy }

func (p gossip) Plan(s sched.State) sched.Plan {
	plan := p.Policy.Plan(s)
	for _, g := range plan.Grants {
		plan.Why += " for " + g.Job + ","
	}
	for i := range plan.Grants {
		plan.Grants[i].Why = "shares" + plan.Why
	}
	return plan
}

// What a group reads about its jobs neither names another group's jobs nor shows their cost.
func TestReasonsAreOfOnesOwnGroup(t *testing.T) {
	s := newSite(t)
	s.market()
	s.cfg.Allow = []string{s.home}
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning, s.cfg.MaxQueued = gossip{sched.DRF{}}, 16, 8, 8
	s.cfg.Fences = map[string]Fence{"vision": nil, "speech": nil}
	s.begin()
	clients := s.members("vision", "speech")
	body := func(name string) string {
		return submissionOf(t, strings.NewReplacer("HOME", s.home, "name: job", "name: "+name).Replace(localJob))
	}
	for i, name := range []string{"canary", "open"} {
		if code, text := clients[i].ask(http.MethodPost, "/api/v1/jobs", body(name)); code != http.StatusCreated {
			t.Fatal(code, text)
		}
	}
	speech := clients[1]
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if code, text := speech.ask(http.MethodGet, "/api/v1/jobs/open-1/why", ""); code == http.StatusOK && strings.Contains(text, "for open-1,") && strings.Contains(text, anotherJob) {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(code, text)
		}
	}
	read := func(canary string) {
		t.Helper()
		for _, call := range []string{"GET /api/v1/jobs/open-1/why", "GET /api/v1/jobs", "GET /api/v1/hosts", "GET /api/v1/groups", "GET /", "GET /runs/open-1", "POST /api/v1/plan?outlook=only"} {
			method, path, _ := strings.Cut(call, " ")
			if code, text := speech.ask(method, path, body("new")); strings.Contains(text, canary) {
				t.Errorf("%s: %d %s", call, code, text)
			}
		}
	}
	read("canary")
	s.mu.Lock()
	s.jobs["canary-1"].unrated = true
	if why := (bounds{s.Manager}).unrated(limited{all: true}, s.jobs["open-1"]); why != "what another group's job costs an hour is not known yet" {
		t.Errorf("%q", why)
	}
	if n := s.scheduler.standing(time.Now(), func(group string) bool { return group == "speech" }).Workers; n != s.scheduler.last.Of("open-1").Workers {
		t.Errorf("%d workers", n)
	}
	s.decided[limited{all: true}] = budget.Decision{Do: budget.Pause, Why: "$123.45 are spent"}
	why := bounds{s.Manager}.heldBy(s.jobs["open-1"])
	s.mu.Unlock()
	if why != limitOfAllJobs {
		t.Errorf("%q", why)
	}
	read("123.45")
}
