package jobmanager

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/watch/dashboard"
)

// sweepOfJobs submits localJob as a sweep with this many trials, and more fields of sweep.
func (s *site) sweepOfJobs(trials int, more string) []string {
	s.t.Helper()
	text := strings.ReplaceAll(localJob, "HOME", s.home) + fmt.Sprintf("sweep: {params: {step: log 1e-3..1}, samples: %d%s}\n", trials, more)
	path := filepath.Join(s.home, "sweep.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	job, err := config.Load(path)
	if err != nil {
		s.t.Fatal(err)
	}
	ids, err := sweeps{s.Manager}.submit(job, job.Resolved(), nil, "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// A job server that is killed while it accepts a sweep leaves all trials or none, wherever it is killed: even while the next one removes
// them.
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
		if left < len(ids) { // the previous one was killed before it had accepted this one, or after it had removed it
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

// More trials than runs are allowed at a time are trained one after the other, the listing has all, the best first, and two submissions of
// a sweep are ranked separately.
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
	why := bounds{s.Manager}.waitsFor(s.jobs[ids[2]])
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

// A sweep above its limits is stopped as a whole, including waiting trials, and everybody can read why.
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
		{"1.5", "2", ""}, {"2", "2", "the sweep's budget of $2.00 is spent: $2.00, with hours that have begun"}, {"", "2", ""}, {"3", "", ""},
	} {
		if why := aboveLimits(dashboard.Sweep{Spent: c.spent, Budget: c.budget}); why != c.want {
			t.Errorf("%s of %s: %q", c.spent, c.budget, why)
		}
	}
}

// With search: tpe the first quarter of trials starts at once, and the others as results arrive. A manager that is killed at any point of
// drawing leaves trials that the next one draws identically; none is started without its settings, and none twice.
func TestSweepByResults(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning = sched.FIFO{}, 24, 8
	s.begin()
	ids := s.sweepOfJobs(5, ", search: tpe, feedback: [{at: 500000, keep: 1}]")
	file, err := config.Load(filepath.Join(s.dir(ids[0]), sweepFile))
	if err != nil {
		t.Fatal(err)
	}
	search := file.TrialsOfParams()
	results := make([]trials.Result, 2, 5)
	for i := range results {
		s.clocks(ids[i], 1)
		results[i].Settings = search.Trials()[i]
	}
	s.says(ids[0], `{"kind":"clock","clock":500000,"test_loss":0.5}`)
	var listed []dashboard.Trial
	s.when(ids[0], "compared", func(record) bool {
		listed = sweeps{s.Manager}.all(s.list())[0].Trials
		return len(listed[0].Losses) == 1
	})
	for _, trial := range listed {
		if waits := trial.Run != ids[0] && trial.Run != ids[1]; waits != (trial.Why == awaits) || waits != (len(trial.Params) == 0) || trial.Params == nil {
			t.Errorf("after one result: %+v", trial)
		}
	}
	if _, err := s.scheduler.why(s.Manager, ids[2]); err == nil || !strings.Contains(err.Error(), awaits) {
		t.Errorf("why of a trial without settings: %v", err)
	}
	s.says(ids[1], `{"kind":"clock","clock":500000}`) // it diverged
	results[0].Loss, results[1].Loss = .5, math.NaN()
	drawn := func(i int) {
		t.Helper()
		r := s.when(ids[i], "drawn", func(r record) bool { return !r.Awaits })
		want := search.Next(i, results)
		trial, err := config.Load(filepath.Join(s.dir(ids[i]), submittedFile))
		if err != nil || r.Settings["step"] != want["step"] || fmt.Sprint(trial.Train.Params["step"]) != want["step"] {
			t.Errorf("trial %d has %v in its record and %v in its file, not %v: %v", i, r.Settings, trial.Train.Params, want, err)
		}
	}
	drawn(2)
	drawn(3)
	// The record of trial 2 was not on disk yet, and trial 3 did not even have its file.
	s.end()
	r := s.when(ids[4], "waiting", func(record) bool { return true })
	if !r.Awaits {
		t.Errorf("after two results: %+v", r)
	}
	other := s.jobs[ids[4]].dir
	for _, i := range []int{2, 3} {
		r := s.jobs[ids[i]].record
		r.Awaits, r.Settings = true, nil
		if err := r.write(s.dir(ids[i])); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(other, submittedFile))
	if err == nil {
		err = replaceFile(filepath.Join(s.dir(ids[3]), submittedFile), text)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.begin()
	drawn(2)
	drawn(3)
	s.tell(ids[0], "fail") // after its feedback: its report counts
	s.tell(ids[1], "finish")
	for _, i := range []int{2, 3} {
		s.clocks(ids[i], 1)
		s.says(ids[i], fmt.Sprintf(`{"kind":"clock","clock":500000,"test_loss":%g}`, .1*float64(i)))
	}
	s.when(ids[4], "drawn", func(r record) bool { return !r.Awaits })
	matches := false
	for _, more := range [][]int{{2}, {3}, {2, 3}} { // the last trial needs three results, whichever come first
		with := slices.Clone(results)
		for _, i := range more {
			with = append(with, trials.Result{Settings: search.Next(i, results), Loss: .1 * float64(i)})
		}
		s.mu.Lock()
		matches = matches || search.Next(4, with)["step"] == s.jobs[ids[4]].Settings["step"]
		s.mu.Unlock()
	}
	if !matches {
		t.Errorf("the last trial has %v", s.jobs[ids[4]].Settings)
	}
	for i, id := range ids {
		if i > 1 {
			s.clocks(id, 1)
			s.tell(id, "finish")
			s.until(id, call.Finished)
		}
		if r := s.when(id, "there", func(record) bool { return true }); r.Starts != 1 {
			t.Errorf("%s was started %d times", id, r.Starts)
		}
	}
}
