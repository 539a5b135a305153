package jobmanager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched"
)

// market is a market of one type, four of which are the shared hosts of keepHosts: with eight slots of localJob each.
func (s *site) market() {
	s.t.Helper()
	for name, text := range map[string]string{
		"catalog.csv": "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c3.large,2,3.75,0.120\nus-west-1,c3.2xlarge,8,15,0.480\n",
		"prices.csv": "timestamp,zone,instance_type,product,price\n2014-03-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.025\n" +
			"2014-03-01T00:00:00Z,us-west-1a,c3.2xlarge,Linux/UNIX,0.1\n2014-06-01T00:00:00Z,us-west-1a,c3.2xlarge,Linux/UNIX,0.1\n",
	} {
		if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// asked waits until the last request to a run was for want workers.
func (s *site) asked(id, want string) {
	s.t.Helper()
	s.when(id, "asked for "+want, func(record) bool {
		entries, _, err := journal.ReadFile(filepath.Join(s.dir(id), rundir.JournalFile))
		last := ""
		for _, e := range entries {
			if e.Kind == journal.Scale {
				last = e.To + " " + e.Why
			}
		}
		return err == nil && strings.HasPrefix(last, want+" scheduler drf: ")
	})
}

// wanted waits until the last request to a run was for want workers, whatever it began with.
func (s *site) wanted(id string, want int) {
	s.t.Helper()
	s.when(id, fmt.Sprintf("asked for %d", want), func(record) bool {
		entries, _, err := journal.ReadFile(filepath.Join(s.dir(id), rundir.JournalFile))
		own, more := 0, 0
		for _, e := range entries {
			if e.Kind == journal.Scale {
				if _, err := fmt.Sscanf(e.To, "%d%d", &own, &more); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		return err == nil && own+more == want
	})
}

// A scheduler grants jobs slots: a new job waits until an earlier one has received a request to release some, and the next manager
// continues with the last decision.
func TestScheduler(t *testing.T) {
	s := newSite(t)
	s.market()
	s.keepHosts()
	s.cfg.Scheduler, s.cfg.MaxRunning = sched.DRF{}, 10
	s.begin()
	a := s.submit()
	s.asked(a, "16+0")
	if args := s.args(a); !strings.Contains(args, "granted.yaml") {
		t.Errorf("it was started by %q", args)
	}
	b := s.submit()
	s.asked(a, "16-8")
	s.asked(b, "8+0")
	s.begin()
	c := s.submit()
	s.asked(c, "5+0")
	for id, want := range map[string]string{a: "16-10", b: "8-3"} {
		s.asked(id, want)
	}
	why, err := s.scheduler.why(s.Manager, c)
	if err != nil || why.Workers != 5 || why.Action != sched.Start || why.Most != 16 || why.Else["fifo"] != 0 || len(why.Jobs) != 3 ||
		!strings.Contains(why.Grant.Why, "dominant share") {
		t.Errorf("why: %+v, %v", why, err)
	}
	// A host of four is reclaimed, and another one is bought later.
	launch := `{"kind":"launch","instance":"i-%d","tier":"transient","pool":"ec2/us-west-1/us-west-1a/c3.2xlarge/spot"}`
	s.says("shared-1", fmt.Sprintf(launch, 1), fmt.Sprintf(launch, 2), fmt.Sprintf(launch, 3), fmt.Sprintf(launch, 4),
		`{"kind":"notice","instance":"i-4","deadline":"2014-04-01T01:00:00Z"}`)
	for id, want := range map[string]string{a: "16-11", b: "8-4", c: "5-1"} { // 12 slots, and one on another host
		s.asked(id, want)
	}
	s.says("shared-1", fmt.Sprintf(launch, 5))
	for id, want := range map[string]string{a: "16-10", b: "8-3", c: "5+0"} {
		s.asked(id, want)
	}
	// A person pauses a job: others have its slots until it is resumed.
	s.says(c, `{"kind":"scale","to":"paused","details":{"paused":"ann"}}`)
	for id, want := range map[string]string{a: "16-8", b: "8+0"} {
		s.asked(id, want)
	}
	if got := s.summary(nil).Grants; got.Workers != 16 || got.Paused != 1 || got.Longest != 0 {
		t.Errorf("in all: %+v", got)
	}
	if why, err := s.scheduler.why(s.Manager, c); err != nil || why.Workers != 0 || !strings.Contains(why.Grant.Why, "ann") {
		t.Errorf("why of a paused job: %+v, %v", why, err)
	}
	s.says(c, `{"kind":"scale","to":"resumed"}`) // it wants as many as before: no request is needed
	for id, want := range map[string]string{a: "16-10", b: "8-3"} {
		s.asked(id, want)
	}
	if why, err := s.scheduler.why(s.Manager, c); err != nil || why.Workers != 5 {
		t.Errorf("why of a job that was resumed: %+v, %v", why, err)
	}
	if got := s.summary(nil).Grants; got.Workers != 16 || got.Paused != 0 || got.Longest != 0 {
		t.Errorf("in all: %+v", got)
	}
	s.tell(a, "finish")
	s.until(a, call.Finished)
	s.asked(b, "8+0")
	s.asked(c, "5+3")
	for id, starts := range map[string]int{a: 1, b: 1, c: 1} {
		if r := s.when(id, "there", func(record) bool { return true }); r.Starts != starts {
			t.Errorf("%s was started %d times", id, r.Starts)
		}
	}
	if _, err := s.scheduler.why(s.Manager, "shared-1"); err == nil {
		t.Error("hosts are granted something")
	}
}

// Jobs with their own machines share a total: a new job waits until an earlier one has ended the requested number, according to its
// journal, even with the next manager.
func TestSchedulerOfOwnMachines(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots, s.cfg.MaxRunning = sched.DRF{}, 16, 10
	s.begin()
	a := s.submit("keeps")
	s.asked(a, "16+0")
	b := s.submit()
	s.asked(a, "16-8")
	s.begin()
	s.asked(a, "16-8")
	s.mu.Lock()
	jobs, err := s.scheduler.jobs()
	s.mu.Unlock()
	if err != nil || len(jobs) != 2 || jobs[0].Held != 16 || jobs[1].Began {
		t.Errorf("%s keeps its machines, and the scheduler sees %+v, %v", a, jobs, err)
	}
	if err := os.Remove(filepath.Join(s.dir(a), "keeps")); err != nil {
		t.Fatal(err)
	}
	s.wanted(b, 8) // it may have begun with fewer, as the other's machines ended
	s.tell(a, "finish")
	s.until(a, call.Finished)
	s.wanted(b, 16)
	if args := s.args(b); strings.Contains(args, "--on") {
		t.Errorf("it was started by %q", args)
	}
}

func TestSchedulerNeedsMachines(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler = sched.DRF{}
	if _, err := Open(s.cfg); err == nil || !strings.Contains(err.Error(), "--slots") {
		t.Errorf("a scheduler of nothing: %v", err)
	}
	s.market()
	s.keepHosts()
	s.cfg.Slots = 4
	if _, err := Open(s.cfg); err == nil || !strings.Contains(err.Error(), "the shared hosts shared-1 still run") {
		t.Errorf("a scheduler of hosts and of slots: %v", err)
	}
	s.cfg.Hosts, s.cfg.Allow = "", []string{s.home}
	submitted := strings.Replace(strings.ReplaceAll(localJob, "HOME", s.home), "count: 1..16", "vcpu: 16", 1)
	submitted = strings.Replace(submitted, "start_with: 12\n", "", 1)
	m := &Manager{cfg: s.cfg, inputs: inputs{cfg: s.cfg, dir: filepath.Join(s.home, inputsDir)}, scheduler: &scheduler{offered: offered{machines: 4}}}
	if _, _, err := m.judgeJob(space{&m.inputs, m.inputs.dir}, submitted); err == nil || !strings.Contains(err.Error(), "write count") {
		t.Errorf("a job of vCPUs: %v", err)
	}
	if _, _, err := m.judgeJob(space{&m.inputs, m.inputs.dir}, strings.Replace(submitted, "vcpu: 16", "count: 5..16", 1)); err == nil || !strings.Contains(err.Error(), "needs 5 workers") {
		t.Errorf("a job that would wait forever: %v", err)
	}
}

// A job's deadline is in market time: by its run's clock, 500 s are left for 1000 clocks of a second each with four workers. So it gets
// more.
func TestSchedulerByDeadlines(t *testing.T) {
	s := newSite(t)
	s.cfg.Scheduler, s.cfg.Slots = sched.Deadline{}, 16
	s.begin()
	text := strings.ReplaceAll(localJob, "HOME", s.home)
	for old, replacement := range map[string]string{"start_with: 12": "start_with: 4\ndeadline: 2014-04-04T11:20:00Z", "clocks: 1000000,": "clocks: 1000,"} {
		text = strings.Replace(text, old, replacement, 1)
	}
	id, err := s.Submit("job", []byte(text), nil, "", "")
	if err != nil {
		t.Fatal(err)
	}
	s.wanted(id, 4)
	passes := clock.Mapping{Wall: time.Now(), Market: time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC), Speed: 600}
	lines := []string{fmt.Sprintf(`{"kind":"start","details":{"clock":%q}}`, passes)}
	for range 6 {
		lines = append(lines, `{"kind":"clock","clock":1,"transient":4,"seconds":1}`)
	}
	s.says(id, lines...)
	s.wanted(id, 8)
	why, err := s.scheduler.why(s.Manager, id)
	if err != nil || !strings.Contains(why.Grant.Why, "is late by its pace with 4 workers") {
		t.Errorf("why: %+v, %v", why, err)
	}
}
