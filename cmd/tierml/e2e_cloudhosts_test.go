package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/hosts/hostagent"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/raced"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/shared"
)

const ec2Hosts = `cloud: ec2
ec2:
  region: us-west-1
  cluster: prod
  owner: ann
  image: ami-12345678
  program: {url: "%s/tierml", sha256: %s}
  checkpoints: "%s"
  catalog: catalog.csv
  listen: 127.0.0.1:0
  endpoint: %s
`

// sharedCloud is a cloud that sells hosts, the jobs' settings for it, and the types of its hosts and slots.
type sharedCloud struct {
	process        *process
	endpoint, says string
	host, slot     string
}

func TestJobsShareHostsOnEC2(t *testing.T) {
	if raced.Detector {
		t.Skip("processes of the race detector's program are too slow, and TestJobsShareHosts races the same parts")
	}
	s, a := newAccount(t)
	s.sharedMarket()
	s.write("now.csv", "timestamp,zone,instance_type,product,price\n2026-01-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.025\n"+
		"2026-01-01T00:00:00Z,us-west-1a,c3.2xlarge,Linux/UNIX,0.1\n")
	cloud, endpoint := s.amazon("--rules", "ec2-now+disk=16x0.08+address=0.005", "--notice", "20s")
	s.jobsShare(sharedCloud{cloud, endpoint, fmt.Sprintf(ec2Hosts, a.program, a.sum, a.at("runs"), endpoint), "c3.2xlarge", "c3.large"})
}

func TestJobsShareHostsOnComputeEngine(t *testing.T) {
	if raced.Detector {
		t.Skip("processes of the race detector's program are too slow, and TestJobsShareHosts races the same parts")
	}
	s, a := newAccount(t)
	s.sharedMarket()
	s.write("catalog.csv", gceCatalog+"us-central1,n2-standard-8,8,32,0.388\n")
	s.write("prices.csv", gcePrices+"2026-01-01T00:00:00Z,us-central1-a,n2-standard-8,Linux/UNIX,0.092\n")
	store := googleStore(t, a.text)
	cloud, endpoint := s.computeEngine(store, "--rules", "gce-spot+disk=16x0.1") // machines' costs apart from their hours, as the provider bills them
	_, block, _ := strings.Cut(fmt.Sprintf(gceJob, a.sum, endpoint), "\ngce:\n")
	s.jobsShare(sharedCloud{cloud, endpoint, "cloud: gce\ngce:\n" + block, "n2-standard-8", "n2-standard-2"})
}

// jobsShare runs a job of each application and two programs on shared hosts of a cloud whose machines behave like its images. One host is
// evicted with a notice; a process of each kind is killed: a job's, the one that keeps the hosts, a host's agent and a slot's. The models
// are those of single processes, the programs repeat no step after a notice, shares and the idle part add up to the cloud's bill, and no
// machine is left.
func (s *site) jobsShare(c sharedCloud) {
	t, endpoint := s.t, c.endpoint
	for _, dir := range []string{filepath.Dir(s.dir), s.dir, binary.dir} { // slots run as users of their own
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	block := "policy: tierml-noswitch\nmax_duration: 100h\ndead_after: 10s\norphan_after: 2m\n" + c.says
	s.write("shared.yaml", "name: shared\nresources: {count: 4, any_of: [{type: "+c.host+"}]}\nreliable: {type: "+c.host+", count: 1}\nhosts: {keep: 5s}\n"+block)
	slots := "resources: {count: 2, any_of: [{type: " + c.slot + "}]}\nreliable: {type: " + c.slot + "}\n"
	for name, train := range map[string]string{
		"mf":  "app: mf, clocks: 120, data: ratings.csv, params: {rank: 4, batches: 4}",
		"mlr": "app: mlr, clocks: 400, data: classes.csv, params: {target: class}",
		"lda": "app: lda, clocks: 80, data: docword.two.txt, params: {topics: 2}",
		"dnn": "app: dnn, clocks: 80, data: classes.csv, params: {target: class}",
	} {
		s.write(name+".yaml", "name: "+name+"\n"+slots+"train: {splits: 8, partitions: 4, "+train+"}\n"+block)
	}
	if err := os.MkdirAll(s.path("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("work/count.sh", counting)
	programs := []string{"own", "two"}
	for _, name := range programs {
		s.write(name+".yaml", "name: "+name+"\nworkdir: work\nrun: bash count.sh\nstate: {dir: ckpt, every: 1s}\nprogress: {line: 'step (\\d+)', of: 160}\nhours: 0.1\n"+
			"resources: {count: 1, any_of: [{type: "+c.slot+"}]}\nenvs: {UNTIL: 160, "+s.gate(60)+"}\n"+strings.Replace(block, "tierml-noswitch", "capacity", 1))
	}

	keeper := s.start("hosts", "-y", "--plain", "shared.yaml")
	s.poll("the desk", func() bool { _, err := os.Stat(s.path(rundir.Root, "shared-1", desk.DoorFile)); return err == nil })
	names := append([]string{"mf", "mlr", "lda", "dnn"}, programs...)
	isProgram := func(name string) bool { return slices.Contains(programs, name) }
	runs := map[string]*process{}
	for _, name := range names {
		runs[name] = s.start("run", "-y", "--plain", "--on", "shared-1", name+".yaml")
	}
	for _, name := range names {
		s.until(runs[name], name+"-1", "its slots", func(entries []journal.Entry) bool {
			return count(entries, journal.Join) >= map[bool]int{true: 1, false: 3}[isProgram(name)]
		})
		if name == "mf" || name == programs[1] {
			runs[name].signal(syscall.SIGKILL)
			runs[name].wait(-1)
			runs[name] = s.start("run", "-y", "--plain", "--resume", filepath.Join(rundir.Root, name+"-1"))
		}
	}
	s.until(runs["own"], "own-1", "some steps", reached(10))
	var shown shared.View
	s.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
	for _, h := range shown.Hosts {
		if h.Slots == 0 {
			t.Errorf("a host is %+v", h)
		}
	}
	if own := s.usersOfSlots(); os.Geteuid() == 0 && own < 14 { // three for each training job, one for each program
		t.Errorf("the processes of fourteen slots have %d users", own)
	}
	victim := slices.IndexFunc(shown.Hosts, func(h shared.Host) bool {
		return slices.ContainsFunc(h.Jobs, func(j string) bool { return strings.HasPrefix(j, "own-1") })
	})
	s.tell(endpoint, "evict "+shown.Hosts[victim].Host)
	s.until(runs["own"], "own-1", "its second machine", func(e []journal.Entry) bool { return len(programLines(e, journal.ProgramStart, "")) == 2 })
	s.gate(120)
	keeper.signal(syscall.SIGKILL)
	keeper.wait(-1)
	keeper = s.start("hosts", "-y", "--plain", "--resume", filepath.Join(rundir.Root, "shared-1"))
	s.poll("the next process of the shared hosts", func() bool { return count(s.journal("shared-1"), journal.Start) == 2 })
	s.killHostAgent()
	s.killSlot(names)
	s.gate(160)
	for _, run := range runs {
		run.wait(0)
	}
	s.start("stop", "shared-1").wait(0)
	keeper.wait(0)

	s.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
	pays := map[string]market.USD{}
	var total market.USD
	for _, row := range shown.Bill {
		name, _, _ := strings.Cut(row.Job, "-")
		pays[name] = usd(t, row.USD)
		total += usd(t, row.USD)
	}
	if bill := s.billOf(endpoint); bill.Total != total || bill.Total != usd(t, shown.Total) || total == 0 || pays[""] < 0 {
		t.Errorf("jobs and idle share come to $%s, the hosts to $%s, the cloud's bill to $%s: %v", total, shown.Total, bill.Total, pays)
	}
	for _, name := range names {
		var report cost.Report
		s.command(&report, "report", filepath.Join(rundir.Root, name+"-1"), "-o", "json")
		if report.Totals.Total != pays[name] || pays[name] == 0 {
			t.Errorf("%s: its report says $%s, the shared hosts $%s", name, report.Totals.Total, pays[name])
		}
		if !isProgram(name) && !bytes.Equal(s.read(name+"-1", rundir.ModelFile), s.modelOfOneProcess(s.path(name+".yaml"))) {
			t.Errorf("the model of %s is not that of a single process", name)
		}
	}
	s.networkIsKnown(c.host)
	for _, name := range names {
		s.nothingLostAtNotices(name+"-1", isProgram(name))
	}
	for _, i := range s.instances(endpoint) {
		if i.State != "terminated" {
			t.Errorf("%s is left: %+v", i.ID, i)
		}
	}
	s.start("leaks", "shared.yaml").wait(0)
	c.process.signal(syscall.SIGTERM)
	c.process.wait(0)
	s.nothingRuns()
}

// networkIsKnown checks that the hosts know the network of their type, and have heard how many bytes a job's serving takes.
func (s *site) networkIsKnown(host string) {
	s.t.Helper()
	start, err := s.journal("shared-1")[0].StartDetails()
	if err != nil {
		s.t.Fatal(err)
	}
	if !slices.ContainsFunc(start.Machines, func(m journal.MachineType) bool { return m.Name == host && m.Network > 1e6 }) {
		s.t.Errorf("the network of %s is not known: %+v", host, start.Machines)
	}
	lines, err := desk.ReadBook(s.path(rundir.Root, "shared-1"))
	if err != nil {
		s.t.Fatal(err)
	}
	measured := func(bytes []int64) bool { return len(bytes) == 4 && slices.Min(bytes) > 0 }
	if !slices.ContainsFunc(lines, func(l hosts.Line) bool {
		return l.Kind == hosts.Profiled && measured(l.Profile.In) && measured(l.Profile.Out)
	}) {
		s.t.Error("no job has measured the bytes of its four partitions")
	}
}

// usersOfSlots returns how many other users the processes of slots run as.
func (s *site) usersOfSlots() int {
	users := map[uint32]bool{}
	for _, pid := range s.processesBelow() {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
			users[stat.Uid] = true
		}
	}
	return len(users)
}

// nothingLostAtNotices checks that training rolled back only after a machine had gone without a notice, and that a program which had one
// continued with the next step.
func (s *site) nothingLostAtNotices(run string, isProgram bool) {
	s.t.Helper()
	noticed, gone := map[string]bool{}, 0
	var starts []journal.Entry
	for _, e := range s.journal(run) {
		switch e.Kind {
		case journal.Notice:
			noticed[e.Instance] = true
		case journal.Failed, journal.Evicted, journal.Terminated:
			if !noticed[e.Instance] {
				gone++
			}
		case journal.Rollback:
			if gone == 0 {
				s.t.Errorf("%s rolls back before any machine has gone without a notice: %+v", run, e)
			}
		case journal.ProgramStart:
			starts = append(starts, e)
		}
	}
	for i := 1; isProgram && i < len(starts); i++ {
		before := starts[i-1]
		if !noticed[before.Instance] {
			continue
		}
		if _, stopped := s.counted(run, fmt.Sprintf("rank-0.%d.log", before.Generation)); starts[i].Clock != int64(stopped) {
			s.t.Errorf("%s: warned at step %d the program started again from %+v", run, stopped, starts[i])
		}
	}
	if run == "own-1" && len(starts) < 2 {
		s.t.Errorf("%s had no second machine: %+v", run, starts)
	}
}

// killSlot kills the process of a job's transient slot, and waits until the job knows.
func (s *site) killSlot(names []string) {
	s.t.Helper()
	slot := ""
	s.poll("a transient slot", func() bool {
		for _, pid := range s.processesBelow() {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			_, dir, inSlot := bytes.Cut(environ, []byte(hostagent.EnvSlot+"="))
			dir, _, _ = bytes.Cut(dir, []byte{0})
			slot = filepath.Base(string(dir))
			if inSlot && s.hasTransient(names, slot) {
				return syscall.Kill(pid, syscall.SIGKILL) == nil
			}
		}
		return false
	})
	s.poll("the end of "+slot, func() bool { return !s.hasTransient(names, slot) })
}

// hasTransient reports whether a slot is a transient machine that takes part in a job.
func (s *site) hasTransient(names []string, slot string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		has, joined := false, false
		for _, e := range s.journal(name + "-1") {
			if e.Instance != slot {
				continue
			}
			switch e.Kind {
			case journal.Launch:
				has = e.Tier == string(step.Transient)
			case journal.Join:
				joined = true
			case journal.Evicted, journal.Failed, journal.Terminated:
				has = false
			}
		}
		return has && joined
	})
}

// killHostAgent kills the agent of a transient host with slots: the first script of its machine ends with it.
func (s *site) killHostAgent() {
	s.t.Helper()
	var victim shared.Host
	s.poll("a transient host with slots", func() bool {
		var shown shared.View
		s.command(&shown, "hosts", "ps", "shared-1", "-o", "json")
		for _, h := range shown.Hosts {
			if h.Tier == "transient" && h.Slots > 0 {
				victim = h
			}
		}
		return victim.Slots > 0
	})
	for _, pid := range s.processesBelow() {
		log, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pid))
		slot, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if log == s.path("cloudlogs", victim.Host+".log") && !bytes.Contains(slot, []byte("TIERML_SLOT=")) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				s.t.Fatal(err)
			}
			s.poll("the end of "+victim.Host, func() bool {
				return slices.ContainsFunc(s.journal("shared-1"), func(e journal.Entry) bool {
					return e.Instance == victim.Host && (e.Kind == journal.Terminated || e.Kind == journal.Evicted)
				})
			})
			return
		}
	}
	s.t.Fatalf("no process is the agent of %s", victim.Host)
}
