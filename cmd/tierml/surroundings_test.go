package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// This file tests what goes wrong around a command: the disk, the output, ports, other processes, signals.

// alone is a job without a cloud.
const alone = "name: alone\ncloud: none\ntrain: {app: mf, data: ratings.csv, clocks: 8, splits: 12, params: {rank: 4}}\n"

// disk mounts a small file system in memory in a site, with a job without a cloud and its data.
func (s *site) disk() (dir string) {
	s.t.Helper()
	dir = s.path("disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", dir).CombinedOutput(); err != nil {
		s.t.Skipf("mounting a small file system needs root on Linux: %v: %s", err, out)
	}
	s.t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			s.t.Errorf("umount: %v: %s", err, out)
		}
	})
	s.write("disk/alone.yaml", alone)
	s.write("disk/ratings.csv", ratings())
	return dir
}

// refuses runs commands in an unwritable folder: each says why and what to do, and leaves the folder as it was.
func (s *site) refuses(dir, want string, more ...[]string) {
	s.t.Helper()
	before := names(s.t, dir)
	for _, args := range append(more,
		[]string{"train", "alone.yaml"},
		[]string{"predict", s.modelAlone(), "ratings.csv", "--into", "predictions.csv"},
		[]string{"init", "new.yaml", "--data", "ratings.csv", "--cloud", "none"},
		[]string{"prices", "import", s.path("prices.csv"), "--store", "prices.db"},
	) {
		cmd := exec.Command(builtBinary(s.t), args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			s.t.Errorf("%v: %v, without %q:\n%s", args, err, want, out)
		}
		if after := names(s.t, dir); after != before {
			s.t.Errorf("%v left %s where %s was", args, after, before)
		}
	}
}

// names returns the files below a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// fill leaves only some bytes free on a disk.
func fill(t *testing.T, dir string, room int) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size := int64(0)
	for block := make([]byte, 4096); err == nil; {
		var n int
		n, err = file.Write(block)
		size += int64(n)
	}
	if err := file.Truncate(size - int64(room)); err != nil {
		t.Fatal(err)
	}
}

func (s *site) modelAlone() string {
	s.t.Helper()
	s.write("alone.yaml", alone)
	s.start("train", "alone.yaml", "--into", "alone.safetensors").wait(0)
	return s.path("alone.safetensors")
}

func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := s.disk()
	fill(t, dir, 0)
	s.refuses(dir, "no space left on device; make room on that disk, or choose a place on another one, and start again")

	// If a disk fills up while a model is trained, nothing is lost: the model is saved elsewhere.
	fill(t, dir, 4096) // the copy of the job file
	cmd := exec.Command(builtBinary(t), "train", "alone.yaml")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+s.dir)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no space left on device; the model is saved as "+s.dir) {
		t.Errorf("%v:\n%s", err, out)
	}
	saved, _ := filepath.Glob(s.path("tierml-model-*", rundir.ModelFile))
	if len(saved) != 1 || !bytes.Equal(contents(t, saved[0]), contents(t, s.modelAlone())) {
		t.Errorf("the saved models are %v", saved)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, rundir.Root, "*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// If a disk fills up during a run, the run ends, whichever file is written next, and nothing is lost.
func TestDiskFillsDuringARun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := s.disk()
	job := s.job(choices{Clocks: 40, Speed: 120, Flops: 100_000})
	for _, name := range []string{job, "ratings.csv", "prices.csv", "catalog.csv"} {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), contents(t, s.path(filepath.Base(name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	onDisk := *s
	onDisk.dir = dir
	run := onDisk.start("run", "-y", filepath.Base(job))
	onDisk.poll("a clock", func() bool { return count(onDisk.journal("small-1"), journal.ClockDone) > 0 })
	fill(t, dir, 0)
	if said := run.wait(cli.ExitFailed); !strings.Contains(said, "no space left on device") ||
		!strings.Contains(said, "runs/small-1, which tierml run --resume runs/small-1 continues; make room on that disk") {
		t.Errorf("it says:\n%s", said)
	}
	onDisk.nothingRuns()
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	onDisk.start("run", "-y", "--resume", filepath.Join(rundir.Root, "small-1")).wait(cli.ExitDone)
	if !bytes.Equal(onDisk.read("small-1", rundir.ModelFile), s.modelOfOneProcess(s.path(job))) {
		t.Error("the model is another one")
	}
}

func TestFolderIsReadOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir, want := s.path("folder"), "permission denied; change its permissions, or choose another place"
	if os.Geteuid() == 0 { // permissions do not bind root
		dir, want = s.disk(), "read-only file system; choose a place that can be written"
		if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
			t.Skipf("mount: %v: %s", err, out)
		}
	} else {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s.write("folder/alone.yaml", alone)
		s.write("folder/ratings.csv", ratings())
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	s.refuses(dir, want, []string{"train", "alone.yaml", "--into", "here.safetensors"})
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Commands whose output is closed, as in `tierml ... | head -1`, end without messages about it, and the files that they write are complete.
func TestReaderGoesAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job, model := s.job(choices{Clocks: 8}), s.modelAlone()
	closed := func(both bool, args ...string) string {
		t.Helper()
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = read.Close()
		defer write.Close()
		var errOut bytes.Buffer
		cmd := exec.Command(builtBinary(t), args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, write, &errOut
		if both {
			cmd.Stderr = write
		}
		if err := cmd.Run(); err == nil {
			t.Errorf("%v ends as if it had been read", args)
		}
		if text := errOut.String(); strings.Contains(text, "goroutine ") {
			t.Errorf("%v prints\n%s", args, text)
		}
		return errOut.String()
	}
	for _, args := range [][]string{
		{"--help"}, {"plan", job}, {"doctor", job}, {"dry-run", job, "--starts", "2", "-o", "csv"},
		{"market", "--prices", "prices.csv"}, {"predict", model, "ratings.csv"},
	} {
		closed(false, args...)
	}
	for _, both := range []bool{false, true} { // the trained model is saved, and nothing else is left
		said := closed(both, "train", "alone.yaml")
		if !both && !strings.Contains(said, "broken pipe") {
			t.Errorf("it says\n%s", said)
		}
	}
	for _, run := range []string{"alone-1", "alone-2"} {
		if len(s.read(run, rundir.ModelFile)) == 0 {
			t.Errorf("%s has no model", run)
		}
		if _, err := os.Stat(s.path(rundir.Root, run, rundir.SplitsDir)); err == nil {
			t.Errorf("%s still has its splits", run)
		}
	}
}

func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, args := range [][]string{
		{"dashboard"}, {"server"}, {"fakecloud", "--prices", "prices.csv", "--catalog", "catalog.csv"},
	} {
		cmd := exec.Command(builtBinary(t), append(args, "--listen", taken.Addr().String())...)
		cmd.Dir = s.dir
		out, err := cmd.CombinedOutput()
		if want := "address already in use; end the program that has it, or choose another port with --listen"; err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v, without %q:\n%s", args, err, want, out)
		}
	}
}

// Commands that run at the same time have directories of their own; a file that they share is complete, from one command.
func TestTrainingsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := contents(t, s.modelAlone())
	var all []*process
	for range 3 {
		all = append(all, s.start("train", "alone.yaml"), s.start("train", "alone.yaml", "--into", "shared.safetensors"))
	}
	for _, p := range all {
		p.wait(0)
	}
	for _, path := range []string{"shared.safetensors", "runs/alone-1/model.safetensors", "runs/alone-2/model.safetensors", "runs/alone-3/model.safetensors"} {
		if !bytes.Equal(contents(t, s.path(path)), model) {
			t.Errorf("%s is another model", path)
		}
	}
	if left, _ := filepath.Glob(s.path(".unfinished-*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// In whatever phase a run is ended, in order or not, nothing keeps running, no directory is unusable, and the job has its model in the end.
func TestEndedInEachPhase(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"before the journal", "starting", "saving", "ended"} {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			t.Run(fmt.Sprintf("%s, %v", phase, signal), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				job := s.job(choices{Clocks: 12, Speed: 120, Flops: 100_000})
				run := s.start("run", "-y", job)
				s.inPhase(phase)
				_ = run.cmd.Process.Signal(signal) // it may have ended
				<-run.ended
				s.nothingRuns()
				if _, err := os.Stat(s.path(rundir.Root)); err == nil && strings.Contains(run.out.String(), "before anything was started") {
					t.Error("a run that Ctrl-C ended while it was planned has left its directory")
				}
				s.finishes(job)
			})
		}
	}
}

// inPhase waits for a phase of the run small-1, which may have passed when it returns.
func (s *site) inPhase(phase string) {
	s.t.Helper()
	s.poll(phase, func() bool {
		if phase == "before the journal" {
			_, err := os.Stat(s.path(rundir.Root, "small-1"))
			return err == nil
		}
		kind := map[string]journal.Kind{"starting": journal.Launch, "saving": journal.Export, "ended": journal.Done}[phase]
		return count(s.journal("small-1"), kind) > 0
	})
}

// finishes resumes the run small-1 if there is something to resume, and otherwise starts the job again.
func (s *site) finishes(job string) {
	s.t.Helper()
	again := s.start("run", "-y", "--resume", filepath.Join(rundir.Root, "small-1"))
	<-again.ended
	said, name := again.out.String(), "small-1"
	switch code := again.cmd.ProcessState.ExitCode(); {
	case code == 0, code == cli.ExitUsage && strings.Contains(said, "is done: all 12 clocks"):
	case code == cli.ExitUsage && (strings.Contains(said, "start the job again") || strings.Contains(said, "it is not a run's directory")):
		s.start("run", "-y", job).wait(0)
		if _, err := os.Stat(s.path(rundir.Root, "small-2")); err == nil {
			name = "small-2"
		}
	default:
		s.t.Fatalf("exit code %d:\n%s", code, said)
	}
	s.nothingRuns()
	checkEntries(s.t, s.journal(name))
	s.report(name)
	s.trainedAsAlone(name, s.path(job))
}
