package jobmanager

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/watch/dashboard"
)

// sweepOfJobs submits localJob as a sweep of so many trials, with more words of sweep.
func (s *site) sweepOfJobs(trials int, more string) []string {
	s.t.Helper()
	text := strings.Replace(strings.ReplaceAll(localJob, "HOME", s.home), "clocks: 10,", "clocks: 1000000,", 1) + fmt.Sprintf("sweep: {params: {step: log 1e-3..1}, samples: %d%s}\n", trials, more)
	path := filepath.Join(s.home, "sweep.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	job, err := config.Load(path)
	if err != nil {
		s.t.Fatal(err)
	}
	ids, err := sweeps{s.Manager}.submit(job, job.Resolved(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// A controller that is killed while it takes in a sweep leaves all trials or none, wherever it is killed: also while the next one removes them.
func TestSweepIsSubmittedAsAWhole(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots = sched.FIFO{}, 1
	open := func() *Manager {
		t.Helper()
		m, err := Open(s.cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open()
	s.Manager = m
	ids := s.sweepOfJobs(3, "")
	m.release()
	if m = open(); len(m.jobs) != 3 || m.jobs[ids[2]].Sweep != ids[0] || m.jobs[ids[0]].Half {
		t.Fatalf("after a restart: %+v", m.jobs)
	}
	m.release()
	first := s.dir(ids[0])
	text, err := os.ReadFile(filepath.Join(first, recordFile))
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r.Half = true // as before the last step
	for left := len(ids); left > 0; left-- {
		if left < len(ids) { // the one before was killed before it had taken in this one, or after it had removed it
			if err := os.RemoveAll(s.dir(ids[left])); err != nil {
				t.Fatal(err)
			}
		}
		other := filepath.Join(t.TempDir(), "home")
		if err := os.CopyFS(other, os.DirFS(s.home)); err != nil {
			t.Fatal(err)
		}
		if err := r.write(filepath.Join(other, rundir.Root, ids[0])); err != nil {
			t.Fatal(err)
		}
		cfg := s.cfg
		cfg.Home = other
		m, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		m.release()
		dirs, err := os.ReadDir(filepath.Join(other, rundir.Root))
		if err != nil || len(dirs) > 0 || len(m.jobs) > 0 {
			t.Errorf("killed after %d trials: %v and %+v are left, %v", left, dirs, m.jobs, err)
		}
	}
}

// More trials than may have a run at a time are trained one after the other, the listing has them all, the best first, and two submissions of a
// sweep are compared by themselves.
func TestSweepOfMoreTrialsThanRuns(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning = sched.EarlyFeedback{}, 24, 2
	s.begin()
	ids := s.sweepOfJobs(3, ", feedback: [{at: 500000, keep: 1}]")
	loss := func(id string, figure float64) {
		s.says(id, fmt.Sprintf(`{"kind":"clock","clock":500000,"test_loss":%g}`, figure))
	}
	s.clocks(ids[0], 1)
	s.clocks(ids[1], 1)
	if r := s.when(ids[2], "there", func(record) bool { return true }); r.Starts > 0 {
		t.Errorf("a third run was started, and two may be: %+v", r)
	}
	s.mu.Lock()
	why := s.waitsFor(s.jobs[ids[2]])
	s.mu.Unlock()
	if !strings.Contains(why, "--max-running") {
		t.Errorf("the third waits: %s", why)
	}
	for i, id := range ids[:2] {
		loss(id, .5-.1*float64(i))
	}
	sweep := func() dashboard.Sweep {
		all := sweeps{s.Manager}.all(s.list())
		if len(all) != 1 {
			t.Fatalf("%+v", all)
		}
		return all[0]
	}
	s.when(ids[2], "started", func(r record) bool { return r.Starts > 0 })
	if got := sweep(); got.ID != ids[0] || got.Of != 3 || len(got.Trials) != 3 || len(got.Feedback) != 1 || len(got.Trials[0].Params) != 1 {
		t.Errorf("%+v", got)
	}
	s.until(ids[0], call.Stopped) // the worse of two
	loss(ids[2], .3)
	s.until(ids[1], call.Stopped)
	s.tell(ids[2], "finish")
	s.until(ids[2], call.Finished)
	again := s.sweepOfJobs(2, ", feedback: [{at: 500000, keep: 1}]") // it has the same name
	s.clocks(again[0], 1)
	loss(again[0], .9)
	s.tell(again[0], "finish")
	s.until(again[0], call.Finished)
}

// A sweep above its limits is stopped as a whole, also trials that wait, and everybody reads why.
func TestSweepLimits(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning = sched.FIFO{}, 24, 2
	s.begin()
	ids := s.sweepOfJobs(3, ", max_duration: 1s")
	for _, id := range ids {
		s.until(id, call.Stopped)
	}
	got := sweeps{s.Manager}.all(s.list())[0]
	if !strings.Contains(got.Why, "max_duration of 1s") || len(got.Trials) != 3 {
		t.Errorf("%+v", got)
	}
	for _, trial := range got.Trials {
		if !strings.Contains(trial.Why, "max_duration of 1s") {
			t.Errorf("%s: %s", trial.Run, trial.Why)
		}
	}
	for _, c := range []struct{ spent, budget, want string }{
		{"1.5", "2", ""}, {"2", "2", "the sweep's budget of $2.00 is spent: $2.00"}, {"", "2", ""}, {"3", "", ""},
	} {
		if why := aboveLimits(dashboard.Sweep{Spent: c.spent, Budget: c.budget}); why != c.want {
			t.Errorf("%s of %s: %q", c.spent, c.budget, why)
		}
	}
}
