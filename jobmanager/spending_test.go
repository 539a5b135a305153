package jobmanager

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/market"
)

// Above a limit nothing more is started; when the total is used up, running jobs are ended cleanly, and can continue once it is raised.
func TestLimitsOfAllJobs(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning = 4
	s.begin()
	_, client := s.served()
	first := s.submit()
	s.clocks(first, 1)
	bounds{s.Manager}.keepTo(t.Context(), budget.Decision{Do: budget.Pause, Why: "too dear"})
	second := s.submit()
	s.clocks(first, 5) // running jobs continue
	if job, err := client.Job(t.Context(), second); err != nil || job.State != string(call.Queued) || job.Why != "held: too dear" {
		t.Errorf("%+v, %v", job, err)
	}
	bounds{s.Manager}.keepTo(t.Context(), budget.Decision{Do: budget.Warn, Why: "near"})
	s.clocks(second, 1)
	bounds{s.Manager}.keepTo(t.Context(), budget.Decision{Do: budget.Stop, Why: "the budget of the job server, $1.00, is used up"})
	for _, id := range []string{first, second} {
		if r := s.until(id, call.Stopped); !strings.HasPrefix(r.Why, "the budget of the job server") {
			t.Errorf("%+v", r)
		}
	}
	if err := s.Resume(first); err != nil {
		t.Fatal(err)
	}
	if r := s.until(first, call.Queued); r.Starts != 1 {
		t.Errorf("%+v", r)
	}
	bounds{s.Manager}.keepTo(t.Context(), budget.Decision{})
	s.until(first, call.Running)
}

// With a limit in dollars per hour, jobs that are submitted together do not all start just because none costs anything yet.
func TestJobsThatStartTogetherKeepToPerHour(t *testing.T) {
	for name, limit := range map[string]func(*Config){
		"of the job server": func(c *Config) { c.Limits.PerHour = market.Dollar },
		"of a group":        func(c *Config) { c.Quotas = map[string]Quota{"": {PerHour: market.Dollar}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.cfg.MaxRunning = 4
			limit(&s.cfg)
			s.begin()
			_, client := s.served()
			first, second := s.submit(), s.submit()
			s.clocks(first, 1)
			if job, err := client.Job(t.Context(), second); err != nil || job.Starts != 0 || job.Why != "held: what "+first+" costs an hour is not known yet" {
				t.Errorf("%+v, %v", job, err)
			}
			if err := s.Stop(t.Context(), first, "ann", false); err != nil {
				t.Fatal(err)
			}
			s.until(first, call.Stopped)
			s.until(second, call.Running)
		})
	}
}
