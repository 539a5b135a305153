package jobmanager

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched"
)

// The job server predicts what its scheduler then decides, and a plan there ends with the prediction. Predicting decides nothing.
func TestOutlook(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning, s.cfg.Allow = sched.DRF{}, 16, 10, []string{s.home}
	s.begin()
	_, client := s.served()
	submission := call.Submission{Job: strings.ReplaceAll(localJob, "HOME", s.home)}
	ask := func() call.Outlook {
		t.Helper()
		o, err := client.Outlook(t.Context(), submission)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := ask(); !o.Starts || o.Workers != 16 || o.Wait != 0 || o.Policy != "drf" {
		t.Errorf("with all slots free: %+v", o)
	}
	a := s.submit()
	s.asked(a, "16+0")
	o := ask()
	if !o.Starts || o.Workers != 8 || len(o.Else) != len(Schedulers)-1 || o.Else[0].Sooner(o.Else[1]) > 0 {
		t.Errorf("with one job running: %+v", o)
	}
	if last := o.Else[len(o.Else)-1]; last.Starts {
		t.Errorf("fifo and others that resize no job have no room, and a's pace is unknown: %+v", o.Else)
	}
	var plan strings.Builder
	if err := client.Plan(t.Context(), submission, &plan); err != nil || !strings.Contains(plan.String(), "a plan for") ||
		!strings.Contains(plan.String(), "Start    at once with 8 workers (drf: ") {
		t.Errorf("the plan: %s, %v", &plan, err)
	}
	s.asked(a, "16+0")
	b := s.submit()
	s.asked(a, "16-8")
	s.wanted(b, 8)
}

// Without a scheduler jobs start in the order of their submission.
func TestOutlookOfAQueue(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning, s.cfg.Allow = 1, []string{s.home}
	s.begin()
	_, client := s.served()
	submission := call.Submission{Job: strings.ReplaceAll(localJob, "HOME", s.home)}
	if o, err := client.Outlook(t.Context(), submission); err != nil || !o.Starts || o.Workers != 16 {
		t.Errorf("an empty job server: %+v, %v", o, err)
	}
	s.submit()
	if o, err := client.Outlook(t.Context(), submission); err != nil || o.Starts || !strings.Contains(o.Why, "1 jobs are before it") {
		t.Errorf("behind a job: %+v, %v", o, err)
	}
}
