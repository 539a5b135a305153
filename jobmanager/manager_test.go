package jobmanager

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

// kill ends the process that holds a run's directory, as kill -9 does, and waits for it.
func (s *site) kill(id string) {
	s.t.Helper()
	s.clocks(id, 1)
	s.mu.Lock()
	pid := s.jobs[id].pid
	s.mu.Unlock()
	if pid == 0 {
		s.t.Fatalf("%s was not started by this manager", id) // 0 would be this process's group
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

func TestJobsRunInTheirTurn(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning, s.cfg.MaxQueued = 1, 2
	s.begin()
	first := s.submit()
	s.until(first, call.Running)
	second, third := s.submit(), s.submit()
	if _, err := s.Submit("job", nil, nil, "", ""); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "max-queued") {
		t.Errorf("one too many: %v", err)
	}
	s.tell(first, "finish")
	s.until(first, call.Finished)
	s.until(second, call.Running)
	if r := s.until(third, call.Queued); r.Starts != 0 {
		t.Errorf("%+v", r)
	}
	s.tell(second, "fail")
	if r := s.until(second, call.Failed); r.Why != "no pool" {
		t.Errorf("%+v", r)
	}
	s.until(third, call.Running)
}

func TestStopAndResume(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning = 1
	s.begin()
	id, waits := s.submit(), s.submit()
	s.clocks(id, 1)
	if err := s.Stop(t.Context(), waits, "me", false); err != nil {
		t.Fatal(err)
	}
	s.until(waits, call.Stopped)
	if err := s.Resume(id); !errors.Is(err, errGoesOn) {
		t.Errorf("resuming what runs: %v", err)
	}
	if err := s.Stop(t.Context(), id, "me", false); err != nil {
		t.Fatal(err)
	}
	if r := s.until(id, call.Stopped); r.Why != "me" || r.Ended == nil {
		t.Errorf("%+v", r)
	}
	if err := s.Resume(id); err != nil {
		t.Fatal(err)
	}
	s.until(id, call.Running)
	if err := s.Stop(t.Context(), id, "me", true); err != nil {
		t.Fatal(err)
	}
	if r := s.until(id, call.Stopped); r.Why != "me, now" || r.Starts != 2 {
		t.Errorf("%+v", r)
	}
}

// A run in preparation has bought nothing: it is ended immediately.
func TestStopBeforeItBegins(t *testing.T) {
	s := newSite(t)
	s.begin()
	id := s.submit("prepare")
	s.until(id, call.Running)
	if err := s.Stop(t.Context(), id, "me", false); err != nil {
		t.Fatal(err)
	}
	s.until(id, call.Stopped)
}

// A killed run continues as long as it makes progress; one that never does is given up.
func TestKilledRunsContinue(t *testing.T) {
	s := newSite(t)
	s.begin()
	id := s.submit()
	s.kill(id)
	s.when(id, "started again", func(r record) bool { return r.Starts == 2 && r.State == call.Running })
	s.tell(id, "finish")
	if r := s.until(id, call.Finished); r.Clock < 2 {
		t.Errorf("it began anew: %+v", r)
	}
	entries, _, err := journal.ReadFile(filepath.Join(s.dir(id), rundir.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for _, e := range entries {
		if e.Kind == journal.ClockDone && e.Clock != last+1 {
			t.Errorf("clock %d comes after %d", e.Clock, last)
		}
		last = max(last, e.Clock)
	}
}

func TestGivenUp(t *testing.T) {
	s := newSite(t)
	s.begin()
	s.until(s.submit(), call.Running) // it has read the directory
	s.mu.Lock()
	id, err := s.submitLocked("job", nil, nil, record{})
	if err != nil {
		t.Fatal(err)
	}
	s.tell(id, "die")
	s.jobs[id].Fruitless = patience - 1 // the waits in between are long
	s.mu.Unlock()
	if r := s.until(id, call.Failed); !strings.Contains(r.Why, "5 times in a row") {
		t.Errorf("%+v", r)
	}
}

// A failed job is restarted after its pause, even if the host's clock was changed by an hour meanwhile.
func TestClockSetWhileAJobWaits(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		s := newSite(t)
		var set atomic.Int64
		s.cfg.Now = func() time.Time { return time.Now().Round(0).Add(time.Duration(set.Load())) }
		s.begin()
		id := s.submit("die")
		s.when(id, "has been started", func(r record) bool { return r.Fruitless == 1 })
		for tended := true; tended; time.Sleep(time.Millisecond) { // until it has failed
			s.mu.Lock()
			tended = s.jobs[id].tended
			s.mu.Unlock()
		}
		set.Store(int64(by))
		s.when(id, "has failed again", func(r record) bool { return r.Fruitless == 2 })
	}
}

func TestRefused(t *testing.T) {
	s := newSite(t)
	s.begin()
	id := s.submit("refuse")
	if r := s.until(id, call.Failed); r.Starts != 1 || !strings.Contains(r.Why, "submitted.yaml:1:1: no") {
		t.Errorf("%+v", r)
	}
}

// A job server that ends, however, ends no job: the next one finds the running jobs, passes requests on to them and sees their ends.
func TestServerComesBack(t *testing.T) {
	s := newSite(t)
	s.begin()
	finishes, stops, waits := s.submit(), s.submit(), s.submit()
	s.clocks(finishes, 1)
	s.clocks(stops, 1)
	if _, err := Open(s.cfg); err == nil || !strings.Contains(err.Error(), "another job server") {
		t.Errorf("two job servers of one directory: %v", err)
	}
	s.begin()
	for _, id := range []string{finishes, stops} {
		if r := s.until(id, call.Running); r.Starts != 1 {
			t.Errorf("%+v", r)
		}
	}
	if err := s.Stop(t.Context(), stops, "me", false); err != nil {
		t.Fatal(err)
	}
	s.until(stops, call.Stopped)
	s.tell(finishes, "finish")
	s.until(finishes, call.Finished)
	s.until(waits, call.Running)
}

// What happened while there was no job server is noticed by the next: ends, kills, and a host that went down.
func TestWhatHappenedMeanwhile(t *testing.T) {
	s := newSite(t)
	s.cfg.MaxRunning = 4
	s.begin()
	finished, killed, rebooted, wished := s.submit(), s.submit(), s.submit(), s.submit()
	for _, id := range []string{finished, killed, rebooted, wished} {
		s.clocks(id, 1)
	}
	s.mu.Lock()
	s.jobs[wished].Stop, s.jobs[wished].By = true, "me" // a request that is recorded and not passed on
	s.save(s.jobs[wished])
	s.mu.Unlock()
	s.end()
	s.tell(finished, "finish")
	s.tell(rebooted, "reboot")
	s.kill(killed)
	s.when(finished, "over", func(record) bool {
		return !rundir.Held(s.dir(finished)) && !rundir.Held(s.dir(killed)) && !rundir.Held(s.dir(rebooted))
	})
	s.begin()
	s.until(finished, call.Finished)
	s.until(wished, call.Stopped)
	for _, id := range []string{killed, rebooted} {
		s.when(id, "started again", func(r record) bool { return r.Starts == 2 && r.State == call.Running })
	}
	s.end()
	s.begin()
	if r := s.until(finished, call.Finished); r.Starts != 1 {
		t.Errorf("what is over was started: %+v", r)
	}
}

// Stopping a killed job must leave no machine: it is started again, and ended.
func TestStopOfWhatWasKilled(t *testing.T) {
	s := newSite(t)
	s.begin()
	id := s.submit()
	s.clocks(id, 1)
	s.end()
	s.kill(id)
	s.when(id, "gone", func(record) bool { return !rundir.Held(s.dir(id)) })
	s.begin()
	if err := s.Stop(t.Context(), id, "me", false); err != nil {
		t.Fatal(err)
	}
	if r := s.until(id, call.Stopped); r.Starts != 2 || r.Why != "me" {
		t.Errorf("%+v", r)
	}
}

func TestBadRecords(t *testing.T) {
	s := newSite(t)
	dir := s.dir("job-1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(`{"id":"../../etc"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.cfg); err == nil || !strings.Contains(err.Error(), "job-1") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, recordFile)); err != nil {
		t.Fatal(err)
	}
	s.begin() // the directory is free
}

// A record that cannot be written is an error: a job must not be accepted without one.
func TestRecordThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, recordFile+".new"), 0o755); err != nil { // where it is written first
		t.Fatal(err)
	}
	r := record{ID: filepath.Base(dir)}
	if err := r.write(dir); err == nil {
		t.Error("it is said to be kept")
	}
}
