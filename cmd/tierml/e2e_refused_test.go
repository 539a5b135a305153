package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// refusing is a proxy before a fake cloud that answers in its place from a moment on.
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

// refusals are how a cloud, or what stands before it, answers for good: it refuses, breaks, hangs, or is a page that wants a login.
var refusals = map[string]func(http.ResponseWriter, *http.Request){
	"401":     ec2Refusal(http.StatusUnauthorized, "AuthFailure"),
	"403":     ec2Refusal(http.StatusForbidden, "UnauthorizedOperation"),
	"429":     ec2Refusal(http.StatusTooManyRequests, "RequestLimitExceeded"),
	"500":     ec2Refusal(http.StatusInternalServerError, "InternalError"),
	"expired": ec2Refusal(http.StatusBadRequest, "RequestExpired"),
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

// refusedRun is a run whose provider answers as one of refusals.
type refusedRun struct {
	*site
	name     string
	cloud    *process
	endpoint string
	proxy    *refusing
	run      *process
}

// The program is done, and from then on the provider refuses every call: the console and the journal say so, SIGTERM ends the run, whose error
// names the machine that is still paid for, and a resumed run ends the machine once the provider answers again. All answers are tried at once, as most of
// the time is waiting.
func TestProviderRefusesForGood(t *testing.T) {
	t.Parallel()
	var all []*refusedRun
	for _, name := range slices.Sorted(maps.Keys(refusals)) {
		r := &refusedRun{site: newSite(t), name: name}
		job := r.programJob("run: sh count.sh", "envs: {UNTIL: '5', "+r.gate(3)+"}", oneMachine)
		r.replace(job, "orphan_after: 1500ms", "orphan_after: 10m")
		r.cloud, r.endpoint = r.site.cloud("60", "20000")
		r.proxy = refuse(t, r.endpoint)
		r.run = r.start("run", "-y", "--plain", "--endpoint", r.proxy.URL, job)
		all = append(all, r)
	}
	for _, r := range all {
		r.until(r.run, "own-1", "the program", has(journal.ProgramStart, 1))
		answer := refusals[r.name]
		r.proxy.answer.Store(&answer)
		r.gate(5)
	}
	for _, r := range all {
		r.until(r.run, "own-1", r.name+": a line about the provider", has(journal.Provider, 1))
		r.run.signal(syscall.SIGTERM)
	}
	for _, r := range all {
		r.run.wait(cli.ExitFailed)
		machines := r.running()
		if out := r.run.out.String(); len(machines) != 1 || !strings.Contains(out, "the provider refuses calls") || !strings.Contains(out, machines[0]) || !strings.Contains(out, "--resume") {
			t.Errorf("%s: machines %v still cost; the run said:\n%s", r.name, machines, out)
		}
		r.proxy.answer.Store(nil)
		r.run = r.start("run", "-y", "--resume", "runs/own-1")
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
		if bill := r.billOf(r.endpoint); bill.Total != charged {
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
