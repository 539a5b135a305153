package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/hosts/hostagent"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/shared"
)

// kinds of processes of a pool.
const (
	ofHost   = "a host"
	ofSlot   = "a slot"
	ofJob    = "a job's run"
	ofKeeper = "the process of the shared hosts"
)

// processesOf returns the program's processes of one kind, in numerical order.
func (c *sharing) processesOf(kind string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if exe, _ := os.Readlink(filepath.Join(dir, "exe")); err != nil || exe != builtBinary(c.t) {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may end meanwhile
		args := strings.Split(string(text), "\x00")
		environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
		is := ""
		switch inSlot := bytes.Contains(environment, []byte("\x00"+hostagent.EnvSlot+"=")); {
		case len(args) > 1 && args[1] == "agent" && inSlot:
			is = ofSlot
		case len(args) > 1 && args[1] == "agent":
			is = ofHost
		case len(args) > 1 && args[1] == "hosts" && slices.Contains(args, "--plain"):
			is = ofKeeper
		case len(args) > 1 && args[1] == "run" && slices.Contains(args, "--server") && slices.Contains(args, "none"):
			is = ofJob
		}
		if is == kind || kind == "" {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// kill kills a process of a kind. done: one existed and had not ended.
func (c *sharing) kill(random *rand.Rand, kind string) (what string, done bool) {
	pids := c.processesOf(kind)
	if len(pids) == 0 {
		return "there is no " + kind, false
	}
	pid := pids[random.IntN(len(pids))]
	return fmt.Sprintf("kill %d, %s", pid, kind), syscall.Kill(pid, syscall.SIGKILL) == nil
}

// evict makes the cloud of the shared hosts reclaim machines. done: there was a transient one without a notice.
func (c *sharing) evict(order string) (what string, done bool) {
	log, _ := os.ReadFile(c.path("work", rundir.Root, "shared-1", rundir.LogsDir, "controller.log"))
	at := bytes.LastIndex(log, []byte("endpoint=http://"))
	if at < 0 {
		return "there is no cloud yet", false
	}
	endpoint := strings.Fields(string(log[at+len("endpoint="):]))[0]
	all, err := instancesOf(endpoint)
	takes := slices.ContainsFunc(all, func(i fakecloud.InstanceView) bool {
		return i.Pool.Class == market.Spot && i.Ended.IsZero() && i.Deadline.IsZero()
	})
	return order, err == nil && takes && tellCloud(endpoint, order) == nil
}

// fault is a kind of fault that happens to a pool.
type fault struct {
	name  string
	often int // out of thirty
	do    func(*sharing, *rand.Rand) (what string, done bool)
}

var faults = []fault{
	{"eviction", 8, func(c *sharing, random *rand.Rand) (string, bool) {
		return c.evict([]string{"evict random", "evict all"}[random.IntN(2)])
	}},
	{"host", 6, func(c *sharing, random *rand.Rand) (string, bool) { return c.kill(random, ofHost) }},
	{"slot", 4, func(c *sharing, random *rand.Rand) (string, bool) { return c.kill(random, ofSlot) }},
	{"job", 6, func(c *sharing, random *rand.Rand) (string, bool) { return c.kill(random, ofJob) }},
	{"server", 4, func(c *sharing, _ *rand.Rand) (string, bool) {
		c.server.signal(syscall.SIGKILL)
		c.server.wait(-1)
		c.begin("fifo")
		return "kill the job server", true
	}},
	{"keeper", 2, func(c *sharing, random *rand.Rand) (string, bool) { return c.kill(random, ofKeeper) }},
}

// drawFaults returns faults in a random order, each kind at least once.
func drawFaults(random *rand.Rand, n int) []fault {
	drawn := slices.Clone(faults)
	var weighted []fault
	for _, f := range faults {
		weighted = append(weighted, slices.Repeat([]fault{f}, f.often)...)
	}
	for len(drawn) < n {
		drawn = append(drawn, weighted[random.IntN(len(weighted))])
	}
	random.Shuffle(len(drawn), func(a, b int) { drawn[a], drawn[b] = drawn[b], drawn[a] })
	return drawn
}

// cause makes a fault happen, as soon as there is something to disturb.
func (c *sharing) cause(random *rand.Rand, f fault) (what string) {
	c.poll("something that a fault can disturb: "+f.name, func() (done bool) {
		what, done = f.do(c, random)
		return done
	})
	return what
}

// Each kind of fault is drawn with every seed.
func TestDrawFaults(t *testing.T) {
	for seed := range uint64(200) {
		drawn := drawFaults(rand.New(rand.NewPCG(seed, 20)), 30)
		if len(drawn) != 30 {
			t.Fatalf("seed %d: %d faults", seed, len(drawn))
		}
		for _, f := range faults {
			if !slices.ContainsFunc(drawn, func(d fault) bool { return d.name == f.name }) {
				t.Errorf("seed %d: no fault of the kind %s", seed, f.name)
			}
		}
	}
}

// Twenty jobs are submitted at once to a job server with shared hosts, and thirty random faults hit its hosts, their slots, the jobs' runs,
// the job server and the process of the shared hosts, each kind at least once. All jobs finish with the models that they have alone, byte
// for byte; no process, host or slot is left; the jobs' reports, the idle share and the cloud's bill agree to the billionth. make pool runs
// it.
func TestTwentyJobsAndThirtyFaults(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("TIERML_TEST_POOL"), 10, 64)
	if err != nil {
		t.Skip("make pool runs it")
	}
	const jobs, disturbed = 20, 30
	s := newSite(t)
	s.sharedMarket()
	shared := strings.NewReplacer("count: 4", "count: 2", "type: c3.2xlarge, count: 1", "type: c3.2xlarge, count: 2").Replace(sharedHosts)
	s.write("shared.yaml", shared)
	trains := []struct{ name, train string }{
		{"mf", "  app: mf\n  clocks: 40\n  data: ratings.csv\n  params: {rank: 4, batches: 4}"},
		{"lda", "  app: lda\n  clocks: 25\n  data: docword.two.txt\n  params: {topics: 2}"},
		{"mlr", "  app: mlr\n  clocks: 800\n  data: classes.csv\n  params: {target: class}"},
		{"dnn", "  app: dnn\n  clocks: 16\n  data: classes.csv\n  params: {target: class}"},
	}
	c := s.serverOf("fifo")
	for i := range jobs {
		of := trains[i%len(trains)]
		name := fmt.Sprintf("%s%d", of.name, i)
		s.write(name+".yaml", fmt.Sprintf(sharingJob, name, of.train))
		c.ask("run", "-y", "--detach", name+".yaml").wait(0)
	}
	random := rand.New(rand.NewPCG(seed, 20))
	began := time.Now()
	for n, f := range drawFaults(random, disturbed) {
		time.Sleep(2*time.Second + time.Duration(random.IntN(8000))*time.Millisecond)
		what := c.cause(random, f)
		t.Logf("%4.0f s: fault %d: %s", time.Since(began).Seconds(), n+1, what)
	}
	all := c.awaitAll(30 * time.Minute)
	t.Logf("all over after %.0f s", time.Since(began).Seconds())
	starts := 0
	for _, j := range all {
		starts += j.Starts
		if j.State != string(call.Finished) {
			t.Errorf("%s is %s: %s", j.Run, j.State, j.Why)
			continue
		}
		dir := c.path("work", rundir.Root, j.Run)
		model, err := os.ReadFile(filepath.Join(dir, rundir.ModelFile))
		if err != nil || !bytes.Equal(model, s.modelOfOneProcess(filepath.Join(dir, "submitted.yaml"))) {
			t.Errorf("the model of %s is not that of a single process (%v)", j.Run, err)
		}
	}
	if len(all) != jobs {
		t.Errorf("%d jobs of %d", len(all), jobs)
	}
	c.ask("stop", "shared-1").wait(0)
	c.poll("the end of the shared hosts", func() bool { return count(c.linesOf("shared-1"), journal.Done) > 0 })
	c.server.signal(syscall.SIGTERM)
	c.server.wait(0)
	c.poll("the end of all processes", func() bool { return len(c.processesOf("")) == 0 })
	t.Log("no process is left")
	c.billsAddUp(all)
	t.Logf("%d jobs, %d faults, %d starts of runs", len(all), disturbed, starts)
}

// billsAddUp compares the jobs' reports, the shared hosts' bill and the cloud's own.
func (c *sharing) billsAddUp(jobs []call.Job) {
	c.t.Helper()
	root := filepath.Join("work", rundir.Root)
	lines, err := desk.ReadBook(c.path(root, "shared-1"))
	if err != nil {
		c.t.Fatal(err)
	}
	book := hosts.NewBook(hosts.Rules{})
	for _, l := range lines {
		if err := book.Apply(l); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, s := range book.Slots() {
		if s.Ended.IsZero() || !s.Charged {
			c.t.Errorf("slot %s of %s is left or not charged: %+v", s.ID, s.Job, s)
		}
	}
	var shown shared.View
	c.command(&shown, "hosts", "ps", filepath.Join(root, "shared-1"), "-o", "json")
	if len(shown.Hosts) > 0 {
		c.t.Errorf("hosts are left: %+v", shown.Hosts)
	}
	pays := map[string]market.USD{}
	var sum market.USD
	for _, row := range shown.Bill {
		name, _, _ := cutLastDash(row.Job)
		pays[name] += usd(c.t, row.USD)
		sum += usd(c.t, row.USD)
	}
	for _, j := range jobs {
		var report cost.Report
		c.command(&report, "report", filepath.Join(root, j.Run), "-o", "json")
		if report.Totals.Total != pays[j.Run] {
			c.t.Errorf("%s: its report says $%s, the shared hosts $%s", j.Run, report.Totals.Total, pays[j.Run])
		}
	}
	var bill fakecloud.Bill
	c.command(&bill, "fakecloud", "bill", filepath.Join(root, "shared-1", rundir.CloudFile), "--prices", "prices.csv", "--catalog", "catalog.csv", "-o", "json")
	if bill.Total != sum || sum != usd(c.t, shown.Total) || sum == 0 || pays[""] < 0 {
		c.t.Errorf("jobs and idle share come to $%s, the hosts to $%s, the cloud's bill to $%s; idle $%s", sum, shown.Total, bill.Total, pays[""])
	}
	c.t.Logf("%d slots; the cloud's bill, $%s, is the sum of %d jobs' and the idle share, $%s", len(book.Slots()), bill.Total, len(jobs), pays[""])
}

// cutLastDash cuts off the eight digits that distinguish runs of one name.
func cutLastDash(job string) (run, digits string, found bool) {
	if i := strings.LastIndexByte(job, '-'); i >= 0 {
		return job[:i], job[i+1:], true
	}
	return job, "", false
}
