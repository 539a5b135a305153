package runner_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// Here providers refuse calls in the middle of a run, or answer too late, with the real runner and adapters. Events depend on calls and on
// lines of the journal, never on time.

// refusal is the answer of a provider that refuses.
type refusal struct {
	status int
	body   string
}

func ec2Refusal(status int, code string) refusal {
	return refusal{status, `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>` + code +
		`</Code><Message>Not now.</Message></Error></Errors><RequestID>r-1</RequestID></Response>`}
}

func gceRefusal(status, reason string) refusal {
	code := http.StatusForbidden
	if status == "401" {
		code = http.StatusUnauthorized
	}
	return refusal{code, `{"error": {"code": ` + status + `, "message": "Not now.", "errors": [{"reason": "` + reason + `", "message": "Not now."}]}}`}
}

var refusals = map[string]map[string]refusal{
	"ec2": {"throttled": ec2Refusal(503, "RequestLimitExceeded"), "expired": ec2Refusal(400, "RequestExpired"), "denied": ec2Refusal(401, "AuthFailure")},
	"gce": {"throttled": gceRefusal("403", "rateLimitExceeded"), "denied": gceRefusal("401", "authError")},
}

// spell refuses a number of calls once it has begun.
type spell struct {
	refusal
	mu   sync.Mutex
	left int
}

func (s *spell) begin(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = calls
}

func (s *spell) meddle(w http.ResponseWriter, _ bool, forward func()) {
	s.mu.Lock()
	refuses := s.left > 0
	s.left = max(s.left-1, 0)
	s.mu.Unlock()
	if !refuses {
		forward()
		return
	}
	w.Header().Set("Content-Type", map[bool]string{true: "text/xml", false: "application/json"}[strings.HasPrefix(s.body, "<")])
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body)
}

// The reliable machine is up, and 30 calls are refused from the line that says that two more are wanted; when they have joined the run
// ends, and the next 6 calls are refused, for less time than it waits before it abandons its machines. Three machines were bought in all;
// each has ended and has its bill.
func TestRefusedInTheMiddleOfARun(t *testing.T) {
	for _, p := range providers() {
		for why, r := range refusals[p.name] {
			t.Run(p.name+" "+why, func(t *testing.T) {
				t.Parallel()
				s, bad := newStage(t, p, 0), &spell{refusal: r}
				s.meddle = bad.meddle
				var wanted, both sync.Once
				s.said = func(ctx context.Context, e journal.Entry, drive *runner.Runner) {
					switch {
					case e.Kind == journal.Intent && e.Tier == string(tiers.Transient):
						wanted.Do(func() { bad.begin(30) })
					case e.Kind == journal.Join && s.joined() >= 2:
						both.Do(func() {
							bad.begin(6)
							go drive.Stop(ctx, "both take part", true)
						})
					}
				}
				s.run(0)
				if s.bought != 3 {
					t.Errorf("%d machines were bought, want the reliable one and two", s.bought)
				}
			})
		}
	}
}

// The run ends during a purchase whose answer comes only when the other machines are being ended: its machines are ended, too, and billed.
func TestTheRunEndsWhileALaunchIsOpen(t *testing.T) {
	for _, p := range append(providers(), fleets()) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, p, 0)
			var mu sync.Mutex
			wanted, held := false, false // the transient machines are wanted; their launch is held
			ending, stop := make(chan struct{}), make(chan struct{})
			s.meddle = func(w http.ResponseWriter, changes bool, forward func()) {
				mu.Lock()
				hold := changes && wanted && !held
				held = held || hold
				mu.Unlock()
				if hold {
					close(stop)
					<-ending // the call arrives after the end of the run was decided
				}
				forward()
			}
			s.said = func(ctx context.Context, e journal.Entry, drive *runner.Runner) {
				if e.Kind != journal.Intent || e.Tier != string(tiers.Transient) {
					return
				}
				mu.Lock()
				first := !wanted
				wanted = true
				mu.Unlock()
				if first {
					go func() {
						<-stop
						drive.Stop(ctx, "a launch is open", true)
						close(ending)
					}()
				}
			}
			s.run(0)
			launched := 0
			for _, e := range s.entries {
				if e.Kind == journal.Launch {
					launched++
				}
			}
			if s.bought != launched || s.bought < 3 {
				t.Errorf("%d machines, of which %d are written down", s.bought, launched)
			}
		})
	}
}
