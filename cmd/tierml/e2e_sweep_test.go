package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched/grants"
	"github.com/tierml/tierml/watch/dashboard"
)

// sixSlots are three hosts with two slots each, some of which the market reclaims, and one reliable host for all trials.
const sixSlots = `name: shared
cloud: local
resources: {count: 3, any_of: [{type: c3.xlarge}]}
reliable: {type: c3.8xlarge, count: 1}
policy: tierml-noswitch
hosts: {wait: 100h}
max_duration: 1000h
orphan_after: 2m
local:
  prices: prices.csv
  catalog: catalog.csv
  start: 2014-04-01T00:00:00Z
  flops_per_vcpu: 200k
  script:
    - {at: 2h, do: evict}
    - {at: 4h30m, do: kill}
    - {at: 7h30m, do: evict}
`

const sweepOfRates = `name: rates
cloud: local
resources: {count: 1..6, any_of: [{type: c3.large}]}
start_with: 2
reliable: {type: c3.large}
policy: tierml-noswitch
orphan_after: 2m
max_duration: 1000h
train: {app: logistic, data: %s, clocks: 40, evaluate_every: 5, splits: 12, partitions: 4}
sweep: {params: {step: log 1e-3..10}, samples: 12, feedback: [{at: 10, keep: 3}]}
local:
  prices: prices.csv
  catalog: catalog.csv
  start: 2014-04-01T00:00:00Z
  flops_per_vcpu: 200k
`

// sharing is a job server with a scheduler, in the folder work.
type sharing struct {
	*site
	server  *process
	address string
}

func (s *site) serverOf(scheduler string, more ...string) sharing {
	s.t.Helper()
	s.t.Cleanup(s.killBelow)
	if err := os.MkdirAll(s.path("work"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	c := sharing{site: s, address: "127.0.0.1:" + strconv.Itoa(freePort(s.t))}
	c.begin(scheduler, more...)
	return c
}

// begin starts a job server in the folder, and waits until it answers.
func (c *sharing) begin(scheduler string, more ...string) {
	c.t.Helper()
	c.serve(append([]string{"--hosts", "shared.yaml", "--scheduler", scheduler}, more...)...)
}

func (c *sharing) serve(flags ...string) {
	c.t.Helper()
	c.server = c.start(append([]string{"server", "--directory", "work", "--listen", c.address}, flags...)...)
	c.poll("the job server", func() bool {
		response, err := http.Get("http://" + c.address + "/login")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return true
	})
}

// ask runs a client command.
func (c *sharing) ask(args ...string) *process {
	return c.start(append(args, "--server", "http://"+c.address, "--token-file", filepath.Join("work", "token"))...)
}

// jobs returns the job server's jobs, without the shared hosts.
func (c *sharing) jobs() (jobs []call.Job) {
	c.t.Helper()
	text := c.ask("ps", "-q", "-o", "json").wait(0)
	if err := json.Unmarshal([]byte(text), &jobs); err != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	return slices.DeleteFunc(jobs, func(j call.Job) bool { return j.Hosts })
}

// awaitAll waits until all jobs have ended, and returns them.
func (c *sharing) awaitAll(within time.Duration) (jobs []call.Job) {
	c.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(time.Second) {
		if jobs = c.jobs(); !slices.ContainsFunc(jobs, func(j call.Job) bool { return !call.State(j.State).Over() }) {
			return jobs
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("after %s not all jobs have ended: %+v", within, jobs)
		}
	}
}

// decisions returns the scheduler's decisions.
func (c *sharing) decisions() (all []grants.Decision) {
	c.t.Helper()
	text, err := os.ReadFile(c.path("work", jobmanager.ScheduleFile))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var d grants.Decision
		if !strings.HasSuffix(line, "\n") {
			break // still being written
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func (c *sharing) linesOf(run string) []journal.Entry {
	c.t.Helper()
	entries, _, err := journal.ReadFile(c.path("work", rundir.Root, run, rundir.JournalFile))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return entries
}

// finish returns the hosts and ends the job server.
func (c *sharing) finish() {
	c.t.Helper()
	c.ask("stop", "shared-1").wait(0)
	c.poll("the end of the shared hosts", func() bool { return count(c.linesOf("shared-1"), journal.Done) > 0 })
	c.server.signal(syscall.SIGTERM)
	c.server.wait(0)
	c.nothingRuns()
}

// Twelve trials over four decades of learning rates share six slots, whose hosts are sometimes reclaimed, under three schedulers: the feedback
// scheduler learns sooner than kill, and kill sooner than fifo; the best trial has the model that it has alone, byte for byte, and is the
// best of all twelve alone. make -C lab sweep runs it: it takes minutes and needs data outside the repository.
func TestSweepOfRates(t *testing.T) {
	data := os.Getenv("TIERML_TEST_SWEEP")
	if data == "" {
		t.Skip("make -C lab sweep runs it")
	}
	if _, err := os.Stat(data); err != nil {
		t.Fatalf("a9a of the LIBSVM data sets is needed: %v", err)
	}
	means := map[string]float64{}
	schedulers := []string{"feedback", "kill", "fifo"}
	if only := os.Getenv("TIERML_SCHEDULERS"); only != "" {
		schedulers = strings.Split(only, ",")
	}
	for _, scheduler := range schedulers {
		s := newSite(t)
		s.write("catalog.csv", "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c3.large,2,3.75,0.120\nus-west-1,c3.xlarge,4,7.5,0.240\nus-west-1,c3.8xlarge,32,60,1.92\n")
		var prices strings.Builder
		prices.WriteString("timestamp,zone,instance_type,product,price\n")
		for _, at := range []string{"2014-03-01T00:00:00Z", "2014-03-31T00:00:00Z", "2014-06-01T00:00:00Z"} {
			fmt.Fprintf(&prices, "%s,us-west-1a,c3.large,Linux/UNIX,0.025\n%[1]s,us-west-1a,c3.xlarge,Linux/UNIX,0.05\n", at)
		}
		s.write("prices.csv", prices.String())
		s.write("shared.yaml", sixSlots)
		s.write("rates.yaml", fmt.Sprintf(sweepOfRates, data))
		c := s.serverOf(scheduler)
		if printed := c.ask("run", "-y", "rates.yaml").wait(0); !strings.Contains(printed, "the first of 12 trials, up to rates-12") {
			t.Errorf("the sweep was submitted:\n%s", printed)
		}
		began := time.Now()
		jobs := c.awaitAll(30 * time.Minute)
		took := time.Since(began)
		first := map[string]float64{} // seconds to the feedback, as the scheduler saw it
		for _, d := range c.decisions() {
			for _, g := range d.Grants {
				i := slices.IndexFunc(jobs, func(j call.Job) bool { return j.Run == g.Job })
				if _, known := first[g.Job]; !known && g.Seen.Rungs > 0 && i >= 0 {
					first[g.Job] = d.T.Sub(*jobs[i].Submitted).Seconds()
					means[scheduler] += first[g.Job] / 12
				}
			}
		}
		if len(jobs) != 12 || len(first) != 12 {
			t.Fatalf("%s: %d trials, and %d have given feedback: %+v", scheduler, len(jobs), len(first), jobs)
		}
		hosts := c.linesOf("shared-1")
		lost := count(hosts, journal.Evicted) + count(hosts, journal.Failed)
		if lost == 0 {
			t.Errorf("%s: no host was taken", scheduler)
		}
		finished, redone, slots := 0, 0, 0.
		best, least := "", math.Inf(1)
		for _, j := range jobs {
			for _, e := range c.linesOf(j.Run) {
				if e.Kind == journal.ClockDone {
					redone += map[bool]int{true: 1}[e.Redone]
					slots += e.Seconds * float64(e.Transient) / 3600
				}
				if e.Kind == journal.Export && e.Outcome == journal.Finished {
					finished++
					if e.TestLoss != nil && *e.TestLoss < least {
						best, least = j.Run, *e.TestLoss
					}
				}
			}
		}
		t.Logf("%s: feedback after %.0f s on average, all over after %.0f s; %d trials finished, %.2f slot hours in clocks, %d hosts lost, %d clocks redone; the best is %s with %.5f; %s",
			scheduler, means[scheduler], took.Seconds(), finished, slots, lost, redone, best, least, c.standstill(jobs))
		if want := map[string]int{"fifo": 12}[scheduler]; finished < 3 || want > 0 && finished != want {
			t.Errorf("%s: %d trials finished", scheduler, finished)
		}
		var listed dashboard.Sweep
		text := c.ask("sweep", "-q", "rates", "-o", "json").wait(0)
		if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed.Trials) != 12 || listed.Best != best || listed.Model == "" || len(listed.Trials[0].Losses) != 1 {
			t.Errorf("%s: %v in the list of trials:\n%s", scheduler, err, text)
		}
		t.Logf("%s", c.ask("sweep", "-q", "rates").wait(0))
		alone, lowest := c.bestAlone(jobs)
		if best != alone {
			t.Errorf("%s: the best trial is %s with %g; alone it is %s with %g", scheduler, best, least, alone, lowest)
		}
		dir := c.path("work", rundir.Root, best)
		model, err := os.ReadFile(filepath.Join(dir, rundir.ModelFile))
		if err != nil || !bytes.Equal(model, c.modelOfOneProcess(filepath.Join(dir, "submitted.yaml"))) {
			t.Errorf("%s: the model of %s is not that of the trial alone (%v)", scheduler, best, err)
		}
		c.finish()
	}
	for i, scheduler := range schedulers[1:] {
		if sooner := schedulers[i]; means[sooner] >= means[scheduler] {
			t.Errorf("feedback comes after %.0f s with %s, and after %.0f s with %s", means[sooner], sooner, means[scheduler], scheduler)
		}
	}
}

var testLine = regexp.MustCompile(`(?m)^Test +error rate ([0-9.]+)`)

// bestAlone trains each trial in one process, and returns the best.
func (c *sharing) bestAlone(jobs []call.Job) (best string, least float64) {
	c.t.Helper()
	least = math.Inf(1)
	for _, j := range jobs {
		printed := c.start("train", "-q", "--deterministic", "--into", "alone.safetensors", c.path("work", rundir.Root, j.Run, "submitted.yaml")).wait(0)
		found := testLine.FindStringSubmatch(printed)
		if found == nil {
			c.t.Fatalf("tierml train printed:\n%s", printed)
		}
		if loss, _ := strconv.ParseFloat(found[1], 64); loss < least {
			best, least = j.Run, loss
		}
	}
	return best, least
}

// standstill measures the cost of changing the number of workers: how much longer clocks took, from a request until two clocks after it was
// carried out, than other clocks with the same number of workers. All trials have the same work, so their clocks are compared with each
// other; as longer and shorter ones both count, delays by a busy computer cancel out. The clock in which a trial was paused or resumed is
// excluded: it includes the pause. The interval is two standard errors.
func (c *sharing) standstill(jobs []call.Job) string {
	const disturbed = 2
	type clock struct {
		workers int
		seconds float64
		after   int // 1: fewer workers were requested; 2: more; 0: nothing was
	}
	var clocks []clock
	changes := [3]int{}
	all := 0.
	for _, j := range jobs {
		kind, left, workers, wanted, pending, skip := 0, 0, 0, 0, false, false
		for _, e := range c.linesOf(j.Run) {
			switch e.Kind {
			case journal.Scale:
				if workers == 0 { // requested before it began
					continue
				}
				if e.Seconds > 0 { // done
					pending, left = false, disturbed
					continue
				}
				want := 0 // it is paused
				if d, err := e.ScaleDetails(); err == nil && d.Paused == "" && d.Want != nil {
					want = d.Want.Machines
				}
				if want == wanted {
					continue
				}
				if kind, pending = 2, true; want < wanted {
					kind = 1
				}
				skip = skip || want == 0 || wanted == 0
				wanted = want
				changes[kind]++
			case journal.ClockDone:
				first := workers == 0
				workers = e.Transient
				if first {
					wanted = workers
				}
				if e.Redone || first || skip {
					skip = false
					continue
				}
				at := clock{e.Transient, e.Seconds, 0}
				if pending || left > 0 {
					at.after = kind
				}
				if !pending {
					left--
				}
				clocks, all = append(clocks, at), all+e.Seconds
			}
		}
	}
	sum, squares, number := map[int]float64{}, map[int]float64{}, map[int]float64{}
	for _, at := range clocks {
		if at.after == 0 {
			sum[at.workers] += at.seconds
			squares[at.workers] += at.seconds * at.seconds
			number[at.workers]++
		}
	}
	var lost, spread [3]float64
	for _, at := range clocks {
		if n := number[at.workers]; at.after > 0 && n > 1 {
			mean := sum[at.workers] / n
			lost[at.after] += at.seconds - mean
			spread[at.after] += (squares[at.workers]/n - mean*mean) * (1 + 1/n)
		}
	}
	share := 100 * (lost[1] + lost[2]) / all
	return fmt.Sprintf("%d changes of numbers, %.1f per hour of training, take %.2f ± %.2f %% of it; a removal %.2f ± %.2f s (of %d)", changes[1]+changes[2],
		3600*float64(changes[1]+changes[2])/all, share, 200*math.Sqrt(spread[1]+spread[2])/all, lost[1]/max(float64(changes[1]), 1),
		2*math.Sqrt(spread[1])/max(float64(changes[1]), 1), changes[1])
}
