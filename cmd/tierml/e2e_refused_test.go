package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// refusing is a proxy for a fake cloud that from some moment answers instead of it.
type refusing struct {
	*httptest.Server
	answer atomic.Pointer[func(w http.ResponseWriter, r *http.Request)]
}

func refuse(t *testing.T, endpoint string) *refusing {
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p, through := &refusing{}, httputil.NewSingleHostReverseProxy(target)
	through.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := p.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(p.CloseClientConnections)
	return p
}

// refusals are how a cloud, or a proxy, fails permanently: it refuses, breaks, hangs, or shows a login page.
var refusals = map[string]func(http.ResponseWriter, *http.Request){
	"401":     ec2Refusal(http.StatusUnauthorized, "AuthFailure"),
	"403":     ec2Refusal(http.StatusForbidden, "UnauthorizedOperation"),
	"429":     ec2Refusal(http.StatusTooManyRequests, "RequestLimitExceeded"),
	"500":     ec2Refusal(http.StatusInternalServerError, "InternalError"),
	"expired": ec2Refusal(http.StatusBadRequest, "RequestExpired"),
	"closed":  func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
	"hang":    func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
	"html": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>Please log in to the network.</body></html>")
	},
}

func ec2Refusal(status int, code string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>%s</Code><Message>No.</Message></Error></Errors><RequestID>r-1</RequestID></Response>`, code)
	}
}

// refusedRun is a run whose provider answers with one of the refusals.
type refusedRun struct {
	*site
	name     string
	start    func(*refusedRun)
	answer   func(http.ResponseWriter, *http.Request)
	passes   bool // the provider answers again before the run is stopped
	store    string
	cloud    *process
	endpoint string
	proxy    *refusing
	run      *process
}

// begin starts the program.
func (r *refusedRun) begin(args ...string) *process {
	cmd := exec.Command(builtBinary(r.t), args...)
	cmd.Env = append(os.Environ(), "STORAGE_EMULATOR_HOST="+r.store)
	return r.startCommand(cmd)
}

// onEC2 starts a run on a fake EC2 behind the proxy.
func (r *refusedRun) onEC2() {
	job := r.programJob("run: sh count.sh", "envs: {UNTIL: '5', "+r.gate(3)+"}", oneMachine)
	r.replace(job, "orphan_after: 1500ms", "orphan_after: 10m")
	r.write("prices.csv", steadyPrices) // slow processes must not meet a rising price
	r.cloud, r.endpoint = r.site.cloud("60", "20000")
	r.proxy = refuse(r.t, r.endpoint)
	r.run = r.begin("run", "-y", "--plain", "--endpoint", r.proxy.URL, job)
}

// onComputeEngine starts one on a fake Compute Engine.
func (r *refusedRun) onComputeEngine() {
	program := []byte("#!/bin/bash\nexec " + builtBinary(r.t) + " \"$@\"\n")
	r.store = googleStore(r.t, program)
	sum := sha256.Sum256(program)
	r.write("catalog.csv", gceCatalog)
	r.write("prices.csv", gcePrices)
	r.cloud, r.endpoint = r.computeEngine(r.store)
	r.proxy = refuse(r.t, r.endpoint)
	job := r.programJob("run: sh count.sh", "envs: {UNTIL: '5', "+r.gate(3)+"}", "resources: {count: 1, any_of: [{type: n2-standard-2}], zones: [us-central1-a]}")
	r.replace(job, "orphan_after: 1500ms", "orphan_after: 10m")
	r.replace(job, "cloud: local", "cloud: gce")
	written, err := os.ReadFile(r.path(job))
	if err != nil {
		r.t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(written), "local:\n")
	_, block, _ := strings.Cut(fmt.Sprintf(gceJob, hex.EncodeToString(sum[:]), r.proxy.URL), "gce:\n")
	r.write(job, text+"gce:\n"+block)
	r.run = r.begin("run", "-y", "--plain", job)
}

// The program is done, and from then on the provider refuses every call: the console and the journal say so, SIGTERM ends the run, whose
// error names the machine that is still paid for, and a resumed run ends the machine once the provider answers again. A run that is not
// stopped by then ends by itself. All answers are tried at once, as most of the time is waiting. TestProviderThatFailsIsReported checks how
// soon all that happens, by its own clock.
func TestProviderRefusesForGood(t *testing.T) {
	t.Parallel()
	refuseTogether(t, refusedRuns(t, func(name string, passes bool) bool {
		return !passes && name != "Compute Engine, 429" || name == "500 for a while" || name == "Compute Engine, 429 for a while"
	}), false)
}

// Each answer, permanent and for a minute, on both clouds, a few at a time: on a quiet computer each is reported within 30 s, and SIGTERM
// ends a run within 10 s.
func TestProviderRefusesInTime(t *testing.T) {
	only := os.Getenv("TIERML_TEST_REFUSALS")
	if only == "" {
		t.Skip("its times are those of a quiet computer: make refusals")
	}
	runs := refusedRuns(t, func(name string, _ bool) bool { return regexp.MustCompile(only).MatchString(name) })
	for some := range slices.Chunk(runs, 2) {
		refuseTogether(t, some, true)
	}
}

// refusedRuns returns the chosen runs: for each answer of each cloud, permanent or temporary.
func refusedRuns(t *testing.T, chosen func(name string, passes bool) bool) (all []*refusedRun) {
	add := func(name string, answer func(http.ResponseWriter, *http.Request), start func(*refusedRun)) {
		for _, passes := range []bool{false, true} {
			if passes {
				name += " for a while"
			}
			if chosen(name, passes) {
				all = append(all, &refusedRun{site: newSite(t), name: name, answer: answer, passes: passes, start: start})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refusals)) {
		add(name, refusals[name], (*refusedRun).onEC2)
	}
	if _, err := exec.LookPath("curl"); err == nil { // machines run their first script with it
		answers := map[string]func(http.ResponseWriter, *http.Request){"hang": refusals["hang"], "html": refusals["html"], "closed": refusals["closed"]}
		for status, word := range map[int]string{401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"} {
			answers[fmt.Sprint(status)] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"error": {"code": %d, "message": "No.", "status": %q}}`, status, word)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(answers)) {
			add("Compute Engine, "+name, answers[name], (*refusedRun).onComputeEngine)
		}
	}
	return all
}

// refuseTogether makes the provider refuse all runs at once. inTime: the bounds on wall-clock time are checked, and temporary refusals last
// a minute.
func refuseTogether(t *testing.T, all []*refusedRun, inTime bool) {
	for _, r := range all {
		r.start(r)
	}
	for _, r := range all {
		r.until(r.run, "own-1", "the program", has(journal.ProgramStart, 1))
		r.proxy.answer.Store(&r.answer)
		r.gate(5)
	}
	refused := time.Now()
	for _, r := range all {
		r.until(r.run, "own-1", r.name+": a line about the provider", has(journal.Provider, 1))
		if after := time.Since(refused); inTime && after > 30*time.Second {
			t.Errorf("%s: reported after %v", r.name, after)
		}
	}
	t.Logf("%d runs said within %v that their provider refuses", len(all), time.Since(refused))
	stopped := time.Now()
	for _, r := range all {
		if !r.passes {
			r.run.signal(syscall.SIGTERM)
		}
	}
	for _, r := range all {
		if r.passes {
			continue
		}
		r.run.wait(cli.ExitFailed)
		machines := r.running()
		if out := r.run.out.String(); len(machines) != 1 || !strings.Contains(out, "the provider refuses calls") || !strings.Contains(out, machines[0]) || !strings.Contains(out, "--resume") {
			t.Errorf("%s: machines %v still cost; the run said:\n%s", r.name, machines, out)
		}
		if after := time.Since(stopped); inTime && after > 10*time.Second {
			t.Errorf("%s: SIGTERM ended it after %v", r.name, after)
		}
	}
	t.Logf("SIGTERM ended them within %v", time.Since(stopped))
	if inTime && slices.ContainsFunc(all, func(r *refusedRun) bool { return r.passes }) {
		time.Sleep(time.Until(refused.Add(time.Minute)))
	}
	for _, r := range all {
		r.proxy.answer.Store(nil)
	}
	for _, r := range all {
		if !r.passes {
			r.run = r.begin("run", "-y", "--resume", "runs/own-1")
		}
	}
	for _, r := range all {
		r.run.wait(0)
		if left := r.running(); len(left) > 0 {
			t.Errorf("%s: %v still run", r.name, left)
		}
		var charged market.USD
		for _, e := range r.journal("own-1") {
			if e.Kind == journal.Charge {
				usd, err := market.ParseUSD(e.USD)
				if err != nil {
					t.Error(err)
				}
				charged += usd
			}
		}
		if bill := r.billOf(r.endpoint); r.store == "" && bill.Total != charged { // the fake Compute Engine bills no disks
			t.Errorf("%s: the run charged %s, and the cloud %s", r.name, charged, bill.Total)
		}
		r.cloud.signal(syscall.SIGINT)
		r.cloud.wait(0)
		r.nothingRuns()
	}
}

// running returns the machines that the cloud still bills.
func (r *refusedRun) running() (ids []string) {
	for _, i := range r.instances(r.endpoint) {
		if i.State == "running" {
			ids = append(ids, i.ID)
		}
	}
	return ids
}
