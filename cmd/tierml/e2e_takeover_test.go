package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/tiers/checkpoint"
)

func has(kind journal.Kind, n int) func([]journal.Entry) bool {
	return func(entries []journal.Entry) bool { return count(entries, kind) >= n }
}

// A byte in the middle of the journal of a killed run is damaged, a machine's launch among the lines: the run says so and how to continue,
// and then continues from the newest checkpoint to the same model. Machines of the earlier part have ended.
func TestJournalDamagedInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 40, Speed: 120, Flops: 20_000, Limits: "checkpoint: {every_clocks: 3}"})
	run := s.start("run", "-y", job)
	s.until(run, "small-1", "a checkpoint", func(entries []journal.Entry) bool {
		return clockIs(12)(entries) && has(journal.Checkpoint, 2)(entries)
	})
	s.killAll(run)
	dir := filepath.Join("runs", "small-1")
	s.replace(filepath.Join(dir, rundir.JournalFile), `"kind":"launch"`, `"kind"#"launch"`)

	refused := s.start("run", "-y", "--resume", dir).wait(1)
	if !strings.Contains(refused, "is damaged") || !strings.Contains(refused, "--skip-damaged") {
		t.Errorf("of the damaged journal it says\n%s", refused)
	}
	printed := s.start("resume", "-y", dir, "--skip-damaged").wait(0)
	if !strings.Contains(printed, "Left out: journal line") {
		t.Errorf("of what was left out it says\n%s", printed)
	}
	s.nothingRuns()
	checkEntries(t, s.journal("small-1"))
	s.trainedAsAlone("small-1", s.path(job))
}

// Everything is killed at once, the controller and all machines. The checkpoints are in a store that speaks S3's protocol, and the newest
// is damaged there: the run says so, and continues from the one before, with different numbers of machines than at the start, to the same
// model. The bill covers both parts.
func TestEverythingKilledAndResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	store := s3mem.New()
	if err := store.CreateBucket("saved"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(store).Server())
	defer server.Close()
	place := "s3://saved/runs?region=us-east-1&anonymous=true&endpoint=" + server.URL
	job := s.job(choices{Clocks: 40, Speed: 120, Flops: 20_000, Limits: "checkpoint: {every_clocks: 3, to: '" + place + "'}\nsecurity: tls"})
	run := s.start("run", "-y", job)
	s.until(run, "small-1", "checkpoints after all have joined", func(entries []journal.Entry) bool {
		return clockIs(12)(entries) && has(journal.Checkpoint, 2)(entries)
	})
	s.killAll(run)
	before := s.journal("small-1")
	s.report("small-1")
	saved := s.damageNewest(filepath.Join("runs", "small-1"))
	s.replace(filepath.Join("runs", "small-1", rundir.JobFile), "count: 4", "count: 2")

	printed := s.start("run", "-y", "--resume", filepath.Join("runs", "small-1")).wait(0)
	if !strings.Contains(printed, "Not used: reading the checkpoint") || !strings.Contains(printed, "its checksum is") {
		t.Errorf("of the damaged checkpoint it says\n%s", printed)
	}
	s.nothingRuns()
	entries := s.journal("small-1")
	checkEntries(t, entries)
	back := int64(0)
	for _, e := range entries[len(before):] {
		if e.Kind == journal.Rollback && back == 0 {
			back = e.Clock
		}
	}
	if back != saved || saved == 0 {
		t.Errorf("it went on from clock %d; the newest checkpoint that is undamaged is of clock %d", back, saved)
	}
	s.report("small-1")
	s.trainedAsAlone("small-1", s.path(job))
	if left := s.checkpoints(filepath.Join("runs", "small-1")); len(left) != 2 {
		t.Errorf("%d checkpoints are kept; want 2", len(left))
	}
}

// checkpoints returns a run's complete checkpoints, the newest first.
func (s *site) checkpoints(run string) []checkpoint.Found {
	s.t.Helper()
	state, err := jobrun.ReadState(s.path(run))
	if err != nil {
		s.t.Fatal(err)
	}
	found, _, err := checkpoint.List(s.t.Context(), state.Checkpoints, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// damageNewest flips a bit in a run's newest checkpoint, and returns the clock of the one before.
func (s *site) damageNewest(run string) (before int64) {
	s.t.Helper()
	found := s.checkpoints(run)
	if len(found) < 2 {
		s.t.Fatalf("%d checkpoints", len(found))
	}
	m, err := checkpoint.ReadManifest(s.t.Context(), found[0].Manifest)
	if err != nil {
		s.t.Fatal(err)
	}
	object := strings.Replace(found[0].Manifest, m.Folder+".json", m.Folder+"/"+m.Parts[0].Object, 1)
	file, err := blob.Open(s.t.Context(), object)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		s.t.Fatal(err)
	}
	text[len(text)/2] ^= 4
	if err := blob.Write(s.t.Context(), object, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		s.t.Fatal(err)
	}
	return int64(found[1].Clock)
}

// replace replaces text in a file.
func (s *site) replace(file, old, new string) {
	s.t.Helper()
	text, err := os.ReadFile(s.path(file))
	if err != nil || !strings.Contains(string(text), old) {
		s.t.Fatalf("%s has no %q: %v", file, old, err)
	}
	s.write(file, strings.Replace(string(text), old, new, 1))
}

// An unwritable checkpoint directory ends nothing: the run says so and continues.
func TestCheckpointsCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("file", "not a folder")
	job := s.job(choices{Clocks: 20, Speed: 120, Policy: "on-demand", Flops: 25_000, Limits: "checkpoint: {to: " + s.path("file") + ", every_clocks: 3}"})
	printed := s.start("run", "-y", job).wait(0)
	entries := s.journal("small-1")
	checkEntries(t, entries)
	if count(entries, journal.SaveFailed) == 0 || count(entries, journal.Checkpoint) > 0 || !strings.Contains(printed, "no checkpoint could be saved") {
		t.Errorf("%d checkpoints failed and %d did not; it printed\n%s", count(entries, journal.SaveFailed), count(entries, journal.Checkpoint), printed)
	}
}

// cloud starts a fake cloud in its own process, and returns its endpoint.
func (s *site) cloud(speed, flops string) (p *process, endpoint string) {
	s.t.Helper()
	return s.cloudOf("--prices", "prices.csv", "--catalog", "catalog.csv", "--start", "2014-04-01T00:00:00Z",
		"--speed", speed, "--notice", "4s", "--set", "boot=100ms", "--set", "flops-per-vcpu="+flops, "--set", "log-dir=cloudlogs",
		"--instance-command", builtBinary(s.t)+" agent")
}

// cloudOf is cloud with other flags.
func (s *site) cloudOf(flags ...string) (p *process, endpoint string) {
	s.t.Helper()
	cmd := exec.Command(builtBinary(s.t), append([]string{"fakecloud"}, flags...)...)
	read, write, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout = write
	p = s.startCommand(cmd)
	_ = write.Close()
	lines := bufio.NewReader(read)
	first, err := lines.ReadString('\n')
	_, endpoint, found := strings.Cut(strings.TrimSpace(first), " at ")
	if err != nil || !found {
		s.t.Fatalf("the cloud says %q: %v", first, err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		_ = read.Close()
	}()
	return p, endpoint
}

// instances lists all machines that a cloud ever had.
func (s *site) instances(endpoint string) []fakecloud.InstanceView {
	s.t.Helper()
	all, err := instancesOf(endpoint)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func instancesOf(endpoint string) (all []fakecloud.InstanceView, err error) {
	response, err := http.Get(endpoint + "/_control/instances")
	if err != nil {
		return nil, err
	}
	return all, errors.Join(json.NewDecoder(response.Body).Decode(&all), response.Body.Close())
}

// The controller is killed midway, and another one started: it adopts the machines, which have trained on. Nothing is repeated, no machine
// is bought twice or left behind, and the model is the same.
func TestControllerKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := choices{Clocks: 60, Speed: 60, Flops: 20_000, Orphan: "2m", Limits: "security: tls"}
	job := s.job(c)
	cloud, endpoint := s.cloud("60", "20000")
	run := s.start("run", "-y", "--endpoint", endpoint, job)
	s.until(run, "small-1", "clock 12 and a cut after all have joined", func(entries []journal.Entry) bool {
		return clockIs(12)(entries) && has(journal.Join, 5)(entries) && entries[len(entries)-1].Kind == journal.ClockDone
	})
	again := []string{"run", "-y", "--resume", filepath.Join("runs", "small-1")}
	if printed := s.start(again...).wait(cli.ExitUsage); !strings.Contains(printed, "another process") {
		t.Errorf("beside a controller that runs, another one says\n%s", printed)
	}
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	before := s.journal("small-1")
	printed := s.start(again...).wait(0)
	entries := s.journal("small-1")
	checkEntries(t, entries)

	taken, slow := 0, 0 // machines that got no processor time for so long that giving them up is right
	for _, e := range entries {
		if e.Kind == journal.Failed && (strings.HasPrefix(e.Why, "silent for ") || strings.HasPrefix(e.Why, "it did not call")) {
			slow++
		}
	}
	for _, e := range entries[len(before):] {
		switch {
		case e.Kind == journal.TakeOver:
			taken = e.Count
		case e.Kind == journal.Rollback && slow == 0:
			t.Errorf("clocks are done again: %s", e.Why)
		}
	}
	if launched := count(entries, journal.Launch); taken < 5-slow || launched > 5+slow {
		t.Errorf("%d machines were taken over, and %d launched in all; want 5; it printed\n%s", taken, launched, printed)
	}
	s.noMachineLeft(endpoint)
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
	s.trainedAsAlone("small-1", s.path(job))
}
