package main

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/python/pythontest"
)

// regression is a linear regression in numpy on tiers, with an optimizer that has momentum. Each step prints a line. It does not pass the
// step in the file GATE: what a test does happens before the program ends, however busy this machine is.
const regression = `
import os, time
import numpy as np
import tierml

rng = np.random.default_rng(1)
X = rng.normal(size=(512, 300)).astype(np.float32)
w = rng.normal(size=300).astype(np.float32)
examples = list(zip(X, X @ w))
data = tierml.Batches(examples, 16, seed=1)
model = {"w": np.zeros(300, np.float32), "seen": np.zeros(1, np.int64)}

class Momentum:
    def __init__(self): self.v = np.zeros(300, np.float32)
    def state_dict(self): return {"v": self.v}
    def load_state_dict(self, state): self.v = state["v"]
    def step(self, g):
        self.v = np.float32(0.5) * self.v + g
        model["w"] -= np.float32(0.002) * self.v

optimizer = Momentum()
with tierml.DiLoCo(model, optimizer) as run:
    for step in run.steps():
        gate = os.environ.get("GATE")
        while gate and step >= int(open(gate).read() or 0): time.sleep(0.02)
        x, y = data[run.replica, step]
        e = x @ model["w"] - y
        optimizer.step(x.T @ e)
        run.progress(float((e * e).mean()))
        print("step", step, "of replica", run.replica, flush=True)
        time.sleep(float(os.environ.get("PAUSE", 0)))
`

// tiersJob writes a job that trains regression.
func (s *site) tiersJob(name string, fields ...string) string {
	s.t.Helper()
	if err := os.MkdirAll(s.path("work"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	s.write("work/train.py", regression)
	s.write(name+".yaml", "name: "+name+"\ncloud: local\nworkdir: work\nrun: "+pythontest.Interpreter(s.t, "numpy")+" train.py\nhours: 0.1\norphan_after: 1500ms\n"+
		"checkpoint: {every_clocks: 2}\nprogress: {of: 96}\n"+strings.Join(fields, "\n")+`
local:
  prices: prices.csv
  catalog: catalog.csv
  start: 2014-04-01T00:00:00Z
  speed: 60
  notice: 4s
  boot: 100ms
`)
	return name + ".yaml"
}

// The on-demand price is above max_price: if the cloud has no more spot machines, there are none.
const fourReplicas = "reliable: {type: c3.large}\nresources: {count: 4, any_of: [{type: c3.large, max_price: 0.10}]}"

var replicaStep = regexp.MustCompile(`(?m)^step (\d+) of replica (\d+)$`)

// replicaSteps counts how often each replica did each step.
func (s *site) replicaSteps(run string) map[[2]int]int {
	s.t.Helper()
	logs, err := filepath.Glob(s.path("runs", run, rundir.LogsDir, "i-*.*.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	done := map[[2]int]int{}
	for _, log := range logs {
		for _, m := range replicaStep.FindAllStringSubmatch(string(must(os.ReadFile(log))(s.t)), -1) {
			step, _ := strconv.Atoi(m[1])
			replica, _ := strconv.Atoi(m[2])
			done[[2]int{replica, step}]++
		}
	}
	return done
}

// A deterministic job's model is the same, byte for byte, on four machines and on one, through the eviction of all machines, a kill, and a
// controller that is killed and resumed.
func TestTiersAreDeterministic(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const deterministic = "tiers: {parameters: 300, every: 8, transport: int8, deterministic: true}"
	s.start("run", "-y", s.tiersJob("calm", fourReplicas, deterministic)).wait(0)
	want := s.read("calm-1", rundir.ModelFile)

	job := s.tiersJob("rough", fourReplicas, deterministic, "envs: {"+s.gate(24)+"}")
	s.replace(job, "boot: 100ms", "boot: 100ms\n  capacity: {c3.large: 1}\n  script: [{at: 30s, do: kill, target: all}]")
	run := s.start("run", "-y", job)
	s.until(run, "rough-1", "the first rounds", clockIs(2))
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	s.nothingRuns()
	s.write("work/train.py", regression+"print('another')\n")
	s.replace("runs/rough-1/job.yaml", "every: 8", "every: 6")
	if out := s.start("run", "-y", "--resume", filepath.Join("runs", "rough-1")).wait(cli.ExitUsage); !strings.Contains(out, "tiers.every was 8 and is 6; train.py in the workdir is another; put back") {
		t.Errorf("it says\n%s", tail(out, 3000))
	}
	s.write("work/train.py", regression)
	s.replace("runs/rough-1/job.yaml", "every: 6", "every: 8")
	s.write("gate", "72\n")
	run = s.start("run", "-y", "--resume", filepath.Join("runs", "rough-1"))
	s.until(run, "rough-1", "more rounds", clockIs(7))
	s.order("rough-1", "evict all")
	s.write("gate", "96\n")
	run.wait(0)
	s.nothingRuns()
	checkEntries(t, s.journal("rough-1"))
	if got := s.read("rough-1", rundir.ModelFile); !bytes.Equal(got, want) {
		t.Error("the model on one machine, disturbed, is not that of four machines, undisturbed")
	}
}

// At a notice a replica delivers its part of the round: no step is repeated. At a kill the others lose nothing.
func TestTiersThroughEvictions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("password", "hidden-from-files")
	job := s.tiersJob("tiered", fourReplicas, "tiers: {parameters: 300, every: 8}", "envs: {PAUSE: 0.02, "+s.gate(24)+"}", "secrets: {PASSWORD: {file: password}}")
	s.write("work/train.py", regression+"print('the password is', os.environ['PASSWORD'])\n")
	run := s.start("run", "-y", job)
	s.until(run, "tiered-1", "the first rounds", clockIs(2))
	s.order("tiered-1", "evict oldest")
	s.write("gate", "48\n")
	s.until(run, "tiered-1", "the machine's end", has(journal.Evicted, 1))
	s.until(run, "tiered-1", "more rounds", clockIs(5))
	before := s.replicaSteps("tiered-1")
	s.order("tiered-1", "kill oldest")
	s.write("gate", "96\n")
	run.wait(0)
	s.nothingRuns()
	s.addsUp("tiered-1")
	checkEntries(t, s.journal("tiered-1"))
	for at, times := range before {
		if times > 1 {
			t.Errorf("step %d of replica %d was done %d times, with no machine lost unwarned", at[1], at[0], times)
		}
	}
	for at, times := range s.replicaSteps("tiered-1") {
		if times > 2 {
			t.Errorf("step %d of replica %d was done %d times", at[1], at[0], times)
		}
	}
	if len(s.read("tiered-1", rundir.ModelFile)) < 300*4 {
		t.Error("the model is missing")
	}
	masked := 0
	if err := filepath.WalkDir(s.path("runs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("hidden-from-files")) {
			t.Errorf("%s has the secret", path)
		}
		masked += bytes.Count(text, []byte("the password is ***"))
		return err
	}); err != nil || masked == 0 {
		t.Errorf("%d programs were given the secret: %v", masked, err)
	}
}

// A script that fails ends the run with its traceback, after its retries.
func TestTiersScriptThatFails(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.tiersJob("failing", strings.Replace(fourReplicas, "count: 4", "count: 1", 1), "tiers: {parameters: 300, every: 8}", "retries: 1")
	s.write("work/train.py", strings.Replace(regression, "e = x @", "if step == 9: raise ValueError('no good')\n        e = x @", 1))
	out := s.start("run", "-y", job).wait(1)
	if !strings.Contains(out, "ValueError: no good") || !strings.Contains(out, "exit code 1") {
		t.Errorf("it says\n%s", tail(out, 3000))
	}
	s.nothingRuns()
	if out := s.start("report", "failing-1").wait(0); !strings.Contains(out, "ValueError: no good") {
		t.Errorf("the report has no traceback:\n%s", out)
	}
	done := s.replicaSteps("failing-1")
	if done[[2]int{0, 9}] != 0 || done[[2]int{0, 8}] != 2 {
		t.Errorf("step 8 was done %d times and step 9 %d times, with one retry", done[[2]int{0, 8}], done[[2]int{0, 9}])
	}
	s.write("work/train.py", strings.Replace(regression, "steps()", "steps(95)", 1))
	if out := s.start("run", "-y", job).wait(1); !strings.Contains(out, "the script asks for steps(95) and the job file has progress: {of: 96}") {
		t.Errorf("it says\n%s", tail(out, 3000))
	}
}

// growing is a program whose model grows by 1 in each step, and is large for its steps: exchange dominates its rounds.
const growing = `
import os, time
import numpy as np
import tierml

model = {"w": np.zeros(1_000_000, np.float32)}
with tierml.DiLoCo(model) as run:
    for step in run.steps():
        gate = os.environ.get("GATE")
        while gate and step >= int(open(gate).read() or 0): time.sleep(0.02)
        model["w"] += 1
        print("step", step, "of replica", run.replica, flush=True)
`

// grown checks that each of growing's rounds counts once in a run's model: it recomputes the outer step from what each round added.
func (s *site) grown(run string, rounds []float64) {
	s.t.Helper()
	w, v := 0.0, 0.0
	for _, steps := range rounds {
		v = 0.9*v - steps
		w -= 0.7 * (0.9*v - steps)
	}
	text := s.read(run, rundir.ModelFile)
	last := text[len(text)-4:]
	got := math.Float32frombits(uint32(last[0]) | uint32(last[1])<<8 | uint32(last[2])<<16 | uint32(last[3])<<24)
	if math.Abs(float64(got)/w-1) > 1e-4 {
		s.t.Errorf("the model is %v, want %v", got, w)
	}
}

// The reliable machine is lost while rounds are exchanged: training returns to the last save, and contributions computed for the earlier
// model are discarded.
func TestTiersWithoutTheirReliableMachine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.tiersJob("lost", fourReplicas, "tiers: {parameters: 1M, every: 2}")
	s.write("work/train.py", growing)
	run := s.start("run", "-y", job)
	s.until(run, "lost-1", "the first rounds", clockIs(4))
	for _, e := range s.journal("lost-1") {
		if e.Kind == journal.Launch && e.Tier == "reliable" {
			s.order("lost-1", "kill "+e.Instance)
		}
	}
	run.wait(0)
	s.nothingRuns()
	if count(s.journal("lost-1"), journal.Launch) < 6 {
		t.Error("no other reliable machine was launched")
	}
	checkEntries(t, s.journal("lost-1"))
	s.grown("lost-1", slices.Repeat([]float64{2}, 48))
}

// All machines are evicted in the first round: each delivers the steps that it has done, and others continue with the second.
func TestTiersWithoutMachinesInTheFirstRound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.tiersJob("bare", fourReplicas, "tiers: {parameters: 1M, every: 8}", "envs: {"+s.gate(3)+"}")
	s.write("work/train.py", growing)
	run := s.start("run", "-y", job)
	s.poll("three steps on all machines", func() bool { return len(s.replicaSteps("bare-1")) == 12 })
	s.order("bare-1", "evict all")
	s.until(run, "bare-1", "the notices", has(journal.Notice, 4))
	s.write("gate", "96\n")
	run.wait(0)
	s.nothingRuns()
	checkEntries(t, s.journal("bare-1"))
	var done [4]float64
	for at, times := range s.replicaSteps("bare-1") {
		if at[1] >= 8 {
			continue
		}
		if done[at[0]]++; times > 1 {
			t.Errorf("step %d of replica %d was done %d times", at[1], at[0], times)
		}
	}
	sum, weight := 0.0, 0.0
	for _, steps := range done { // it moves by its number of steps, and is weighted by it
		sum, weight = sum+steps*steps, weight+steps
	}
	s.grown("bare-1", append([]float64{sum / weight}, slices.Repeat([]float64{8}, 11)...))
}
