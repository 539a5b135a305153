package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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

// refusals are how a cloud, or what stands before it, answers for good: it refuses, hangs, or is a page that wants a login. All kinds are tried by
// elasticity/runner's TestProviderThatFailsIsReported, without processes.
var refusals = map[string]func(http.ResponseWriter, *http.Request){
	"403":  ec2Refusal(http.StatusForbidden, "UnauthorizedOperation"),
	"hang": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
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

// The program is done, and from then on the provider refuses every call: the console and the journal say so, SIGTERM ends the run, whose error
// names the machine that is still paid for, and a resumed run ends the machine once the provider answers again.
func TestProviderRefusesForGood(t *testing.T) {
	t.Parallel()
	for name, answer := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			gate := s.gate(3)
			job := s.programJob("run: sh count.sh", "envs: {UNTIL: '5', "+gate+"}", oneMachine)
			s.replace(job, "orphan_after: 1500ms", "orphan_after: 10m")
			cloud, endpoint := s.cloud("60", "20000")
			proxy := refuse(t, endpoint)
			run := s.start("run", "-y", "--plain", "--endpoint", proxy.URL, job)
			s.until(run, "own-1", "the program", has(journal.ProgramStart, 1))
			proxy.answer.Store(&answer)
			s.gate(5)
			s.until(run, "own-1", "a line about the provider", has(journal.Provider, 1))
			run.signal(syscall.SIGTERM)
			run.wait(cli.ExitFailed)
			var machine string
			for _, i := range s.instances(endpoint) {
				if i.State == "running" {
					machine = i.ID
				}
			}
			if out := run.out.String(); machine == "" || !strings.Contains(out, "the provider refuses calls") || !strings.Contains(out, machine) || !strings.Contains(out, "--resume") {
				t.Errorf("machine %q still costs; the run said:\n%s", machine, out)
			}
			proxy.answer.Store(nil)
			s.start("run", "-y", "--resume", "runs/own-1").wait(0)
			for _, i := range s.instances(endpoint) {
				if i.State == "running" {
					t.Errorf("%s still runs", i.ID)
				}
			}
			var charged market.USD
			for _, e := range s.journal("own-1") {
				if e.Kind == journal.Charge {
					usd, err := market.ParseUSD(e.USD)
					if err != nil {
						t.Error(err)
					}
					charged += usd
				}
			}
			if bill := s.billOf(endpoint); bill.Total != charged {
				t.Errorf("the run charged %s, and the cloud %s", charged, bill.Total)
			}
			cloud.signal(syscall.SIGINT)
			cloud.wait(0)
			s.nothingRuns()
		})
	}
}
