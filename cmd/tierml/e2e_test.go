package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// Whole runs, from outside: the program as a user has it, with real processes as machines. What must hold is read from the journal, the
// model file, the bills and the process table.

// A job grows, is evicted in bulk with a warning, grows again and loses an ActivePS without one; next to it, in the same directory and at
// the same time, the same job runs on the reliable machine alone. Both models are the same, byte for byte, and that of a single process.
func TestRunThroughEvictions(t *testing.T) {
	t.Parallel()
	for slower := 1; !runThroughEvictions(t, slower); slower *= 2 {
		if slower == 4 {
			t.Fatal("this machine is too busy: at a quarter of the speed, too, machines are taken before they have joined")
		}
	}
}

// runThroughEvictions returns false if the market was faster than this machine could start processes.
func runThroughEvictions(t *testing.T, slower int) (inTime bool) {
	s := newSite(t)
	// A market hour is five seconds. The trace raises the price from 1h12m to 1h48m.
	c := choices{Clocks: 45, Speed: 720 / slower, Flops: 10_000 / slower, Notice: strconv.Itoa(4*slower) + "s"}
	disturbed := s.start("run", "-y", s.job(c))
	s.poll("the first run's journal", func() bool { return len(s.journal("small-1")) > 0 })
	alone := c
	alone.Policy, alone.Flops = "on-demand", 10*c.Flops
	undisturbed := s.start("run", "-y", s.job(alone))
	const victimsRoles = "worker, ActivePS"
	s.until(disturbed, "small-1", "clock 30 after the eviction", func(entries []journal.Entry) bool {
		return clockIs(30)(entries) && count(entries, journal.Evicted) == 4 && (rejoined(entries, victimsRoles) || clockIs(40)(entries)) || !startedInTime(entries)
	})
	if entries := s.journal("small-1"); !startedInTime(entries) || !rejoined(entries, victimsRoles) {
		disturbed.abandon()
		undisturbed.abandon()
		s.nothingRuns()
		return false
	}
	victim := joined(t, s.journal("small-1"), victimsRoles)
	s.order("small-1", "kill "+victim)
	printed := disturbed.wait(0)
	undisturbed.wait(0)
	s.nothingRuns()

	entries := s.journal("small-1")
	checkEntries(t, entries)
	checkEntries(t, s.journal("small-2"))
	checkEvictions(t, entries, victim)
	s.report("small-1")
	s.report("small-2")
	want := s.modelOfOneProcess(s.path("small-tierml.yaml"))
	for _, run := range []string{"small-1", "small-2"} {
		if !bytes.Equal(s.read(run, rundir.ModelFile), want) {
			t.Errorf("the model of %s is not that of a single process", run)
		}
	}
	for _, words := range []string{"small: finished", "eviction notice for ", "roll-back to the cut at clock",
		"equals the cloud's own bill", "Report   tierml report runs/small-1"} {
		if !strings.Contains(printed, words) {
			t.Errorf("%q is not in what the run prints:\n%s", words, printed)
		}
	}
	return true
}

// startedInTime reports whether all machines had joined before the price rose.
func startedInTime(entries []journal.Entry) bool {
	joined := 0
	for _, e := range entries {
		switch {
		case e.Kind == journal.Join && e.Tier == "transient":
			joined++
		case e.Kind == journal.Notice:
			return joined == 4
		}
	}
	return true // there is a notice, which checkEvictions requires
}

// rejoined reports whether a machine has joined with these roles since the last notice: it becomes known only later that the cloud took the
// machines.
func rejoined(entries []journal.Entry, roles string) bool {
	for _, e := range slices.Backward(entries) {
		if e.Kind == journal.Notice {
			return false
		}
		if e.Kind == journal.Join && strings.HasSuffix(e.Why, ": "+roles) {
			return true
		}
	}
	return false
}

func count(entries []journal.Entry, kind journal.Kind) (n int) {
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// joined returns the last machine that joined with these roles.
func joined(t *testing.T, entries []journal.Entry, roles string) string {
	t.Helper()
	for _, e := range slices.Backward(entries) {
		if e.Kind == journal.Join && strings.HasSuffix(e.Why, ": "+roles) {
			return e.Instance
		}
	}
	t.Fatalf("no machine joined as %s", roles)
	return ""
}

// checkEntries checks what holds in every journal.
func checkEntries(t *testing.T, entries []journal.Entry) {
	t.Helper()
	launched, ended := map[string]bool{}, map[string]bool{}
	var done, best, cut int64
	for i, e := range entries {
		if err := e.Validate(); err != nil {
			t.Errorf("line %d: %v", i+1, err)
		}
		if i > 0 && e.T.Before(entries[i-1].T) {
			t.Errorf("line %d: the time goes back from %v to %v", i+1, entries[i-1].T, e.T)
		}
		switch e.Kind {
		case journal.Launch:
			launched[e.Instance] = true
		case journal.Evicted, journal.Terminated, journal.Failed:
			if e.Ended != nil {
				ended[e.Instance] = true
			}
		case journal.ClockDone:
			if e.Clock != done+1 {
				t.Errorf("line %d: clock %d comes after clock %d", i+1, e.Clock, done)
			}
			if e.Redone != (e.Clock <= best) {
				t.Errorf("line %d: clock %d says redone %v; %d were done", i+1, e.Clock, e.Redone, best)
			}
			done, best = e.Clock, max(best, e.Clock)
		case journal.Cut:
			if e.Clock < cut {
				t.Errorf("line %d: a cut at clock %d after one at clock %d", i+1, e.Clock, cut)
			}
			cut = e.Clock
		case journal.Rollback:
			if strings.Contains(e.Why, "back to the checkpoint") || strings.Contains(e.Why, "back to the beginning") {
				cut = e.Clock
			}
			if e.Clock != cut {
				t.Errorf("line %d: back to clock %d; the last cut is at clock %d", i+1, e.Clock, cut)
			}
			done = e.Clock
		}
	}
	for id := range launched {
		if !ended[id] {
			t.Errorf("%s was launched, and its end is not in the journal", id)
		}
	}
	if last := entries[len(entries)-1]; last.Kind != journal.Done {
		t.Errorf("the last line is %+v", last)
	}
}

// checkEvictions checks the one story that TestRunThroughEvictions stages.
func checkEvictions(t *testing.T, entries []journal.Entry, victim string) {
	t.Helper()
	failed := 0
	stages := ""
	for i, e := range entries {
		switch e.Kind {
		case journal.Failed:
			failed++
		case journal.Stage:
			stages += e.To
		case journal.Rollback:
			if failed == 0 {
				t.Errorf("line %d: a roll-back, though nothing but a warned eviction has happened: %s", i+1, e.Why)
			}
		}
	}
	if notices := count(entries, journal.Notice); notices != 4 {
		t.Errorf("%d notices; want 4", notices)
	}
	checkLosses(t, entries, victim, 1)
	// Up, down with the bulk eviction, up again, down to three machines with the kill; perhaps up again. Machines and notices that arrive
	// one by one lead through stage 2.
	if !upDownUpDown.MatchString(stages) && len(suspects(entries, victim)) == 0 {
		t.Errorf("stages %s; want %s", stages, upDownUpDown)
	}
	if last := entries[len(entries)-1]; last.Outcome != "finished" || last.Clock != 45 {
		t.Errorf("the last line is %+v", last)
	}
}

var upDownUpDown = regexp.MustCompile(`^1?2?32?12?32`)

// checkLosses checks that the victim is the only machine lost without a warning and that its loss took this many roll-backs. A machine that
// got no processor time for dead_after is rightly given up too: that may happen next to other tests, and each such machine may cost a
// roll-back. One machine can fail twice: given up by the controller first, ended by the cloud later.
func checkLosses(t *testing.T, entries []journal.Entry, victim string, rollbacks int) {
	t.Helper()
	slow := suspects(entries, victim)
	sound := true
	wrong := func(format string, args ...any) {
		sound = false
		t.Errorf(format, args...)
	}
	failed := map[string]bool{}
	for _, e := range entries {
		if e.Kind == journal.Failed && !slow[e.Instance] {
			failed[e.Instance] = true
		}
	}
	if len(failed) != 1 || !failed[victim] {
		wrong("lost without a warning, beside %d that were too slow: %v; want %s", len(slow), slices.Sorted(maps.Keys(failed)), victim)
	}
	if n := count(entries, journal.Rollback); n < rollbacks || n > rollbacks+len(slow) {
		wrong("%d roll-backs; want %d, beside %d machines that were too slow", n, rollbacks, len(slow))
	}
	for _, e := range entries {
		if !sound && (e.Kind == journal.Failed || e.Kind == journal.Rollback) {
			t.Logf("%s %s %s: %s", e.T.Format("15:04:05.000"), e.Kind, e.Instance, e.Why)
		}
	}
}

// suspects returns the machines other than the victim that were given up as silent.
func suspects(entries []journal.Entry, victim string) map[string]bool {
	slow := map[string]bool{}
	for _, e := range entries {
		if e.Kind == journal.Failed && e.Instance != victim && strings.HasPrefix(e.Why, "silent for ") {
			slow[e.Instance] = true
		}
	}
	return slow
}

// modelOfOneProcess returns the model file of a job trained in this process: no machine, no network.
func (s *site) modelOfOneProcess(jobFile string) []byte {
	s.t.Helper()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	job, err := config.Load(jobFile)
	must(err)
	splits := s.t.TempDir()
	program, _, err := prepare.Data(s.t.Context(), job, splitdir.Create(splits))
	must(err)
	open := func(id ps.Split) (io.ReadCloser, error) { return splitdir.Open(splits, id) }
	trainer, err := local.New(program, ps.Schema{Splits: job.Train.Splits, Seed: job.Seed}, open)
	must(err)
	for range job.Train.Clocks {
		_, err := trainer.Step(false)
		must(err)
	}
	m, err := program.Export(trainer, open)
	must(err)
	if m.Metadata == nil {
		m.Metadata = map[string]string{}
	}
	m.Metadata["clock"], m.Metadata["seed"] = strconv.Itoa(job.Train.Clocks), strconv.FormatUint(job.Seed, 10)
	file := filepath.Join(splits, "model")
	must(m.Save(file))
	text, err := os.ReadFile(file)
	must(err)
	return text
}

// trainedAsAlone checks that a run's model file is that of its job in one process, byte for byte.
func (s *site) trainedAsAlone(run, jobFile string) {
	s.t.Helper()
	if !bytes.Equal(s.read(run, rundir.ModelFile), s.modelOfOneProcess(jobFile)) {
		s.t.Errorf("the model of %s is not that of a single process", run)
	}
}

// noMachineLeft checks that a cloud's machines have ended, or are about to.
func (s *site) noMachineLeft(endpoint string) {
	s.t.Helper()
	for _, i := range s.instances(endpoint) {
		if i.State != "terminated" && i.State != "shutting-down" {
			s.t.Errorf("%s is left behind: %s", i.ID, i.State)
		}
	}
}

// killAll kills a run and then its machines.
func (s *site) killAll(run *process) {
	s.t.Helper()
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	for _, pid := range s.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	s.nothingRuns()
}

// nothingRuns waits until no process of this directory is left.
func (s *site) nothingRuns() {
	s.t.Helper()
	s.poll("the end of all machines", func() bool { return len(s.processesBelow()) == 0 })
}

func clockIs(n int64) func([]journal.Entry) bool {
	return func(entries []journal.Entry) bool {
		return slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Kind == journal.ClockDone && e.Clock >= n })
	}
}

// Ctrl-C once ends the run cleanly; it can be resumed, to the same model.
func TestCtrlCAndResume(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 80, Speed: 120}) // long enough that a busy machine interrupts it in time
	run := s.start("run", "-y", job)
	s.until(run, "small-1", "clock 8", clockIs(8))
	run.signal(os.Interrupt)
	printed := run.wait(cli.ExitInterrupted)
	if left := s.processes(); len(left) > 0 { // no wait: a run ends after its machines
		t.Errorf("%d processes are left", len(left))
	}
	if !strings.Contains(printed, "Resume   tierml run --resume runs/small-1") {
		t.Errorf("how to resume is not in what the run prints:\n%s", printed)
	}
	checkEntries(t, s.journal("small-1"))
	s.report("small-1")

	resumed := s.start("run", "-y", "--resume", filepath.Join("runs", "small-1"))
	resumed.wait(0)
	s.nothingRuns()
	checkEntries(t, s.journal("small-1"))
	s.report("small-1")
	s.trainedAsAlone("small-1", s.path(job))
	s.start("run", "-y", "--resume", filepath.Join("runs", "small-1")).wait(cli.ExitUsage) // it is finished
}

// Ctrl-C twice terminates every machine at once.
func TestCtrlCTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	run := s.start("run", "-y", s.job(choices{Clocks: 1000, Speed: 120, Flops: 2000})) // clocks of a second or more
	s.until(run, "small-1", "all machines", func(entries []journal.Entry) bool {
		return slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Kind == journal.Stage && e.To == "3" })
	})
	run.signal(os.Interrupt)
	run.signal(syscall.SIGTERM) // two signals of a kind can merge
	if printed := run.wait(cli.ExitInterrupted); !strings.Contains(printed, "Nothing was saved") {
		t.Errorf("that nothing was saved is not in what the run prints:\n%s", printed)
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
	checkEntries(t, s.journal("small-1"))
	s.report("small-1")
}

// Machines whose controller was killed end by themselves, and the killed run still has its report.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	run := s.start("run", "-y", s.job(choices{Clocks: 1000}))
	s.until(run, "small-1", "clock 5", clockIs(5))
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	s.nothingRuns() // after orphan_after
	report := s.report("small-1")
	if report.Run.Finished || report.Run.Outcome != "unfinished" || report.Training.Clocks < 5 {
		t.Errorf("the report says finished %v, %q, %d clocks", report.Run.Finished, report.Run.Outcome, report.Training.Clocks)
	}
}

// Whatever happens to the process of a transient machine, the model stays the same.
func TestMachinesDisturbed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, role string
		disturb    func(s *site, pid int)
		rollbacks  int
	}{
		{"killed ActivePS", "worker, ActivePS", kill, 1},
		{"killed worker", "worker", kill, 0},
		{"stopped ActivePS", "worker, ActivePS", stop, 1},
		{"stopped worker", "worker", stop, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			job := s.job(choices{Clocks: 40, Flops: 20_000})
			run := s.start("run", "-y", job)
			s.until(run, "small-1", "clock 12 and all machines", func(entries []journal.Entry) bool {
				return clockIs(12)(entries) && has(journal.Join, 5)(entries)
			})
			victim := joined(t, s.journal("small-1"), c.role)
			c.disturb(s, s.machine("small-1", victim))
			run.wait(0)
			s.nothingRuns()
			entries := s.journal("small-1")
			checkEntries(t, entries)
			checkLosses(t, entries, victim, c.rollbacks)
			s.report("small-1")
			s.trainedAsAlone("small-1", s.path(job))
		})
	}
}

func kill(s *site, pid int) {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// stop stops a process until it has been given up, and then lets it continue.
func stop(s *site, pid int) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	s.poll("the stopped machine's loss", func() bool { return count(s.journal("small-1"), journal.Failed) > 0 })
	_ = syscall.Kill(pid, syscall.SIGCONT) // it may have been killed by now
}

// The only reliable machine dies: another one is bought, everything returns to one cut, and the model is the same.
func TestReliableMachineLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, policy, want string }{
		{"owners have the cut", "tierml", "which backed partitions up, is gone"},
		{"from a checkpoint", "on-demand", "back to the checkpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			job := s.job(choices{Clocks: 40, Policy: c.policy, Flops: 20_000, Limits: "checkpoint: {every_clocks: 3}"})
			run := s.start("run", "-y", job)
			s.until(run, "small-1", "clock 12 and a checkpoint", func(entries []journal.Entry) bool {
				return clockIs(12)(entries) && has(journal.Checkpoint, 1)(entries) && (c.policy == "on-demand" || ownedElsewhere(entries))
			})
			victim := ""
			for _, e := range s.journal("small-1") {
				if e.Kind == journal.Join && e.Tier == "reliable" {
					victim = e.Instance
				}
			}
			kill(s, s.machine("small-1", victim))
			run.wait(0)
			s.nothingRuns()
			entries := s.journal("small-1")
			checkEntries(t, entries)
			if !slices.ContainsFunc(entries, func(e journal.Entry) bool {
				return e.Kind == journal.Rollback && strings.Contains(e.Why, c.want)
			}) {
				t.Errorf("no roll-back says %q", c.want)
			}
			s.report("small-1")
			s.trainedAsAlone("small-1", s.path(job))
		})
	}
}

// ownedElsewhere reports whether all machines are there, the partitions have moved to the transient ones, and a cut was committed since.
func ownedElsewhere(entries []journal.Entry) bool {
	moved, cut, stage := false, false, ""
	for _, e := range entries {
		switch e.Kind {
		case journal.Stage:
			cut, stage = false, e.To
		case journal.Move:
			moved, cut = false, false
		case journal.Moved:
			moved = true
		case journal.Cut:
			cut = moved
		}
	}
	return cut && stage == "3" && has(journal.Join, 5)(entries)
}

// A journal that cannot be written ends the run: what is not in it cannot be accounted for.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 1000, Flops: 1_000_000})
	run := s.startCommand(exec.Command("sh", "-c", `ulimit -f 120 && exec "$0" run -y "$1"`, builtBinary(t), job)) // 60 kB: all machines are in it by then
	printed := run.wait(cli.ExitFailed)
	if left := s.processes(); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
	if !strings.Contains(printed, "journal") || !strings.Contains(printed, "file too large") {
		t.Errorf("the error is not in what the run prints:\n%s", printed)
	}
	s.report("small-1")
}

// A run whose output is closed, as in `tierml run ... | head`, continues without it.
func TestOutputClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(builtBinary(t), "run", "-y", s.job(choices{Clocks: 12}))
	cmd.Stdout = write
	run := s.startCommand(cmd)
	s.until(run, "small-1", "clock 3", clockIs(3))
	if err := errors.Join(read.Close(), write.Close()); err != nil {
		t.Fatal(err)
	}
	if printed := run.wait(cli.ExitFailed); !strings.Contains(printed, "broken pipe") {
		t.Errorf("it says\n%s", printed)
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
	entries := s.journal("small-1")
	checkEntries(t, entries)
	s.report("small-1")
	if last := entries[len(entries)-1]; last.Why != "" || len(s.read("small-1", rundir.ReportHTML)) == 0 || len(s.read("small-1", rundir.ModelFile)) == 0 {
		t.Errorf("it ends with %+v, or the page or the model is empty", last)
	}
}

// A run ends before it exceeds its budget, and does not continue unless it is raised.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	run := s.start("run", "-y", s.job(choices{Clocks: 1000, Speed: 720, Limits: "budget: $0.30"})) // $0.20 an hour
	run.wait(cli.ExitLimit)
	if report := s.report("small-1"); report.Totals.Total > 30*market.Dollar/100 {
		t.Errorf("it cost $%s", report.Totals.Total)
	}
	before := len(s.journal("small-1"))
	s.start("run", "-y", "--resume", filepath.Join("runs", "small-1")).wait(cli.ExitLimit)
	if after := len(s.journal("small-1")); after != before {
		t.Errorf("the second run has written %d lines", after-before)
	}
	s.nothingRuns()
}

// A job that cannot be run starts nothing and creates no directory.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	good := s.job(choices{Clocks: 10})
	s.write("bad.yaml", "name: x\ncloud: local\nclocks: 3\n")
	s.write("none.yaml", "name: x\ncloud: none\ntrain: {app: mf, data: ratings.csv, clocks: 3}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", good}, "add -y to proceed without asking"},
		{[]string{"run", "-y", "bad.yaml"}, "bad.yaml:3:1: clocks: does not belong here; there is train.clocks"},
		{[]string{"run", "-y", "none.yaml"}, "write cloud: local"},
		{[]string{"run", "-y", "absent.yaml"}, "absent.yaml: cannot be read"},
		{[]string{"run", "-y", "--resume", "runs/absent-1"}, "absent-1"},
		{[]string{"run", "-y", "--resume", "runs/absent-1", good}, "leave the job file out"},
		{[]string{"run"}, "name a job file"},
	} {
		if printed := s.start(c.args...).wait(cli.ExitUsage); !strings.Contains(printed, c.want) {
			t.Errorf("%v prints\n%s\nwithout %q", c.args, printed, c.want)
		}
		if found, _ := filepath.Glob(s.path(rundir.Root, "*")); len(found) > 0 {
			t.Errorf("%v has left %v", c.args, found)
		}
	}
}
