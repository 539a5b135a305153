package jobmanager

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/alert"
)

// hurry retries all waiting restarts now, until a condition holds.
func (s *site) hurry(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		for _, j := range s.jobs {
			j.notBefore = time.Time{}
		}
		ok := holds()
		s.mu.Unlock()
		s.nudge()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal("not so: ", what)
		}
	}
}

// hook collects the alerts that are sent.
func hook(t *testing.T) (n *alert.Notifier, sent func() string) {
	t.Helper()
	var mu sync.Mutex
	var all strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var text strings.Builder
		_, _ = io.Copy(&text, r.Body)
		all.WriteString(text.String() + "\n")
	}))
	t.Cleanup(server.Close)
	h, err := alert.NewHook(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	n = alert.NewNotifier(h, slog.New(slog.DiscardHandler))
	return n, func() string { n.Close(); mu.Lock(); defer mu.Unlock(); return all.String() }
}

// A disk is full for longer than all retries take: runs end, the queue waits, one alert is sent, and all jobs continue once there is room.
// The same for a job server that starts then.
func TestFullDiskEndsNoJob(t *testing.T) {
	home := t.TempDir()
	if err := syscall.Mount("tmpfs", home, "tmpfs", 0, "size=16m"); err != nil {
		t.Skip("a small disk needs root: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(home, syscall.MNT_DETACH) })
	s := newSite(t)
	s.home, s.cfg.Home, s.cfg.MaxRunning = home, home, 4
	for _, name := range []string{"prices.csv", "catalog.csv"} {
		if err := os.WriteFile(filepath.Join(home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var sent func() string
	s.cfg.Notifier, sent = hook(t)
	s.begin()
	ids := []string{s.submit(), s.submit(), s.submit()}
	for _, id := range ids {
		s.clocks(id, 2)
	}
	fill := filepath.Join(home, "fill")
	full := func() {
		file, err := os.Create(fill)
		for err == nil {
			_, err = file.Write(make([]byte, 64<<10))
		}
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, 1))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	full()
	none := func() bool { // no run is left, and no job has ended
		for _, id := range ids {
			if j := s.jobs[id]; j.State.Over() {
				t.Errorf("%+v", j.record)
			} else if j.tended {
				return false
			}
		}
		return true
	}
	s.hurry("the runs have ended", none)
	for range 3 * patience { // as often as would otherwise end a job for good
		s.hurry("nothing is started", none)
	}
	s.begin() // a job server that finds the disk full
	s.hurry("nothing is started by the next job server", none)
	_, client := s.served()
	if job, err := client.Job(t.Context(), ids[0]); err != nil || !strings.Contains(job.Why, "waits for the job server's host: the disk is full") {
		t.Errorf("%+v, %v", job, err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	s.hurry("all run again", func() bool {
		for _, id := range ids {
			if j := s.jobs[id]; j.State != call.Running {
				return false
			}
		}
		return true
	})
	for _, id := range ids {
		s.tell(id, "finish")
		if r := s.until(id, call.Finished); r.Fruitless > 1 {
			t.Errorf("%+v", r)
		}
	}
	s.end()
	if text := sent(); strings.Count(text, `"kind":"host"`) > 4 || !strings.Contains(text, "the disk is full: the queue waits") || strings.Contains(text, `"failed"`) { // by two job servers
		t.Errorf("alerts: %s", text)
	}
}

// A store that does not answer ends no job, however often its run is retried; after a day it does, with the reason.
func TestStoreThatIsAwayEndsNoJobForHours(t *testing.T) {
	s := newSite(t)
	var later atomic.Int64
	began := time.Now()
	s.cfg.Now = func() time.Time { return began.Add(time.Duration(later.Load())) }
	var sent func() string
	s.cfg.Notifier, sent = hook(t)
	s.begin()
	id := s.submit("away")
	s.hurry("it was tried often", func() bool { return s.jobs[id].Starts > 3*patience })
	if r := s.until(id, call.Queued); r.Fruitless > 1 || !strings.Contains(r.Why, "connection refused; the job waits") {
		t.Errorf("%+v", r)
	}
	later.Store(int64(hostPatience - time.Minute))
	starts := s.until(id, call.Queued).Starts
	s.hurry("it is tried after hours", func() bool { return s.jobs[id].Starts > starts+2 })
	if err := os.Remove(filepath.Join(s.dir(id), "away")); err != nil {
		t.Fatal(err)
	}
	s.hurry("it runs", func() bool { return s.jobs[id].State == call.Running })
	s.clocks(id, 1)
	s.tell(id, "away")
	s.tell(id, "reboot")
	s.hurry("its store is away again", func() bool { since := s.jobs[id].HostSince; return since != nil && since.After(began.Add(time.Hour)) })
	later.Add(int64(hostPatience - time.Hour)) // earlier failures no longer count
	s.hurry("it is tried still", func() bool { return s.jobs[id].HostFaults > 5 })
	later.Add(int64(2 * time.Hour))
	s.hurry("it is given up", func() bool { return s.jobs[id].State == call.Failed })
	if r := s.until(id, call.Failed); !strings.Contains(r.Why, "connection refused, for more than 24h") {
		t.Errorf("%+v", r)
	}
	s.end()
	if text := sent(); strings.Count(text, `"kind":"host"`) != 2 {
		t.Errorf("alerts: %s", text)
	}
}

// If a submission, or a scheduler's decision, does not fit on the disk, nothing is left half done.
func TestCallsOnAFullDisk(t *testing.T) {
	s := newSite(t)
	s.begin()
	w := httptest.NewRecorder()
	api{s.Manager}.complain(w, httptest.NewRequest(http.MethodPost, "/api/v1/jobs", nil), &os.PathError{Op: "write", Path: s.home, Err: syscall.ENOSPC})
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the disk is full; try again later") || strings.Contains(w.Body.String(), s.home) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if runs, err := os.ReadDir(filepath.Join(s.home, rundir.Root)); err != nil || len(runs) > 0 {
		t.Errorf("%v, %v", runs, err)
	}
}

// A job that is resumed while its store is away waits for it: the previous run's last state, stopped by a user, no longer counts.
func TestResumedWhileTheStoreIsAway(t *testing.T) {
	s := newSite(t)
	s.begin()
	id := s.submit()
	s.clocks(id, 1)
	if err := s.Stop(t.Context(), id, "me", false); err != nil {
		t.Fatal(err)
	}
	s.until(id, call.Stopped)
	s.tell(id, "away")
	if err := s.Resume(id); err != nil {
		t.Fatal(err)
	}
	s.when(id, "waiting for the store", func(r record) bool {
		return r.State == call.Queued && r.HostFaults > 0 && strings.Contains(r.Why, "connection refused")
	})
	s.end()
	s.begin() // another job server decides the same
	s.hurry("it was tried again", func() bool { return s.jobs[id].Starts > 4 && s.jobs[id].State == call.Queued })
	if err := os.Remove(filepath.Join(s.dir(id), "away")); err != nil {
		t.Fatal(err)
	}
	s.hurry("it runs", func() bool { return s.jobs[id].State == call.Running })
}
