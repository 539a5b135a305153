package jobmanager

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched"
)

const hostsFile = `name: shared
cloud: local
resources: {count: 4, any_of: [{type: c3.2xlarge}]}
reliable: {type: c3.2xlarge, count: 1}
policy: tierml-noswitch
hosts: {wait: 20h}
local: {prices: prices.csv, catalog: catalog.csv, start: 2014-04-01T00:00:00Z}
`

// args returns the arguments of a run's last start.
func (s *site) args(id string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir(id), "args"))
	return string(text)
}

// begun waits until a run has begun this many times.
func (s *site) begun(id string, times int) {
	s.t.Helper()
	s.when(id, "begun", func(record) bool {
		entries, _, err := journal.ReadFile(filepath.Join(s.dir(id), rundir.JournalFile))
		starts := 0
		for _, e := range entries {
			if e.Kind == journal.Start {
				starts++
			}
		}
		return err == nil && starts >= times
	})
}

// keepHosts makes the next manager keep shared hosts.
func (s *site) keepHosts() {
	s.t.Helper()
	s.cfg.Hosts = filepath.Join(s.home, "shared.yaml")
	if err := os.WriteFile(s.cfg.Hosts, []byte(hostsFile), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// The manager keeps shared hosts, and jobs with cloud: local have slots there. The next manager finds the same hosts, whose process kept
// running, and restarts killed ones; jobs wait for them.
func TestSharedHosts(t *testing.T) {
	s := newSite(t)
	s.keepHosts()
	s.cfg.MaxRunning = 1 // the hosts are not a job
	s.begin()
	id := s.submit()
	s.clocks(id, 1)
	if args := s.args("shared-1"); !strings.HasPrefix(args, "hosts ") || !strings.Contains(args, "--into") {
		t.Errorf("the hosts were started by %q", args)
	}
	if args := s.args(id); !strings.Contains(args, "--on "+s.dir("shared-1")) {
		t.Errorf("the job was started by %q", args)
	}
	for kills := 1; kills <= 2; kills++ {
		s.begun("shared-1", kills)
		s.kill("shared-1")
		r := s.when("shared-1", "started again", func(r record) bool { return r.Starts > kills && r.State == call.Running })
		if r.Fruitless > 1 {
			t.Errorf("hosts that began again and again are given up after %d starts", patience)
		}
	}
	s.begun("shared-1", 3)
	s.begin()
	if r := s.until("shared-1", call.Running); r.Starts != 3 {
		t.Errorf("the hosts were started %d times", r.Starts)
	}
	if _, err := os.Stat(s.dir("shared-2")); err == nil {
		t.Error("there are other hosts beside those that go on")
	}
	s.tell(id, "finish")
	s.until(id, call.Finished)

	if err := s.Stop(t.Context(), "shared-1", "me", false); err != nil {
		t.Fatal(err)
	}
	s.until("shared-1", call.Stopped)
	waits := s.submit()
	s.mu.Lock()
	why := bounds{s.Manager}.waitsFor(s.jobs[waits])
	s.mu.Unlock()
	if !strings.Contains(why, "have ended (me)") {
		t.Errorf("a job without hosts waits for %q", why)
	}
	s.begin()
	s.clocks(waits, 1)
	if args := s.args(waits); !strings.Contains(args, "--on "+filepath.Join(s.home, rundir.Root, "shared-2")) {
		t.Errorf("the job was started by %q", args)
	}
}

// Groups are refused where all slots of a host are processes of one user, also on hosts of an earlier manager.
func TestGroupsOnHostsOfOneUser(t *testing.T) {
	s := newSite(t)
	s.cfg.Hosts = filepath.Join(s.home, "shared.yaml")
	text := "name: shared\ncloud: kubernetes\nresources: {count: 2, any_of: [{type: pod}]}\nreliable: {type: pod, count: 1}\nhosts: {wait: 20h}\n" +
		"kubernetes: {image: i, cpu: 4, memory: 8GB, region: any, nodes: plain, spot: $1, on_demand: $2, checkpoints: s3://b/c}\n"
	if err := os.WriteFile(s.cfg.Hosts, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(fences map[string]Fence) (refused bool) {
		t.Helper()
		s.cfg.Fences = fences
		m, err := Open(s.cfg)
		if err == nil {
			m.release()
		} else if !strings.Contains(err.Error(), "on Kubernetes all slots of a host are processes of one user") {
			t.Fatal(err)
		}
		return err != nil
	}
	if groups := (map[string]Fence{"vision": nil}); !open(groups) || open(nil) || !open(groups) {
		t.Error("groups are not refused, or hosts without groups are")
	} else if s.cfg.Hosts = ""; !open(groups) {
		t.Error("groups are not refused on hosts of an earlier manager")
	}
}

// A scheduler counts slots on Kubernetes by the size that a job says.
func TestUnitsOfPods(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.yaml")
	text := "name: small\ncloud: kubernetes\nrun: ./train\nresources: {count: 1..9, any_of: [{type: n2-standard-8}]}\nkubernetes: {image: i, cpu: 2, memory: 3GB, checkpoints: s3://b/c}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	job, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	o := offered{cloud: "kubernetes", hosts: 2, least: sched.Resources{7, 16 << 10, 0}}
	if a := o.asked(job); !slices.Equal(a.Unit, sched.Resources{2, 3 << 10, 0}) || o.room(a.Unit) != 6 {
		t.Errorf("a slot is %v, and %d fit", a.Unit, o.room(a.Unit))
	}
}
