package jobmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
)

// fakeVariable makes this test's program a `tierml`.
const fakeVariable = "CONTROLLER_TEST_IS_TIERML"

func TestMain(m *testing.M) {
	worker := slices.Contains(os.Args, "-test.fuzzworker") // it has this process's environment
	if os.Getenv(fakeVariable) != "" && !worker {
		os.Exit(fakeTierml(os.Args[1:]))
	}
	_ = os.Setenv(fakeVariable, "1") // for the processes that are started
	os.Exit(m.Run())
}

// fakeTierml behaves as `tierml run` does towards its directory: it holds it, writes a journal, ends on request. Files in the directory
// control the rest: finish, fail, refuse, prepare (it begins when that is gone), keeps (it ends no machine while that exists), away (its
// store does not answer).
func fakeTierml(args []string) int {
	if args[0] == "plan" {
		text, _ := os.ReadFile(args[1])
		fmt.Println("a plan for", filepath.Base(args[1]), string(text))
		return 0
	}
	at := slices.IndexFunc(args, func(a string) bool { return a == "--into" || a == "--resume" })
	dir := args[at+1]
	there := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	if there("refuse") {
		fmt.Fprintln(os.Stderr, "submitted.yaml:1:1: no", os.Getenv(InputsVariable)+"/"+strings.Repeat("0", 64)+"/data.csv")
		return 2
	}
	hold := rundir.Hold
	if args[at] == "--into" {
		hold = rundir.Enter
	}
	if err := hold(dir); err != nil {
		return 2
	}
	for there("prepare") {
		time.Sleep(time.Millisecond)
	}
	if there("die") {
		return 1
	}
	if there("away") {
		fmt.Fprintln(os.Stderr, "tierml: s3: dial tcp: connection refused")
		return HostExit
	}
	_ = os.WriteFile(filepath.Join(dir, "args"), []byte(strings.Join(args, " ")), 0o600)
	if args[0] == "hosts" {
		_ = os.WriteFile(filepath.Join(dir, desk.DoorFile), nil, 0o600)
	}
	return train(dir, args[at] == "--resume", there)
}

type fakeRun struct {
	stop  chan string
	scale func(to, why string) // of requests relative to the job's own numbers, as a scheduler's are
	own   int
	want  *atomic.Int64 // machines
}

func (f fakeRun) Scale(_ context.Context, want elasticity.ScaleWanted, wait bool, told func(elasticity.Scale, bool) error) error {
	if want.Reset {
		f.want.Store(int64(f.own + want.Workers))
		f.scale(fmt.Sprintf("%d%+d", f.own, want.Workers), want.By)
		return told(elasticity.Scale{}, false)
	}
	if want.Workers < -8 {
		return errors.New("9 workers cannot be removed")
	}
	return errors.Join(told(elasticity.Scale{Workers: 8}, false), told(elasticity.Scale{Workers: 8 + want.Workers}, true))
}

func (f fakeRun) Stop(_ context.Context, why string, now bool) {
	if now {
		why += ", now"
	}
	select {
	case f.stop <- why:
	default:
	}
}

func train(dir string, resume bool, there func(string) bool) int {
	path := filepath.Join(dir, rundir.JournalFile)
	var lines *journal.Writer
	var past []journal.Entry
	var err error
	if resume {
		lines, past, err = journal.Resume(path, nil)
	} else {
		lines, err = journal.Create(path, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var clock int64
	for _, e := range past {
		clock = max(clock, e.Clock)
	}
	write := func(e journal.Entry) {
		e.T = time.Now()
		if err := lines.Write(e); hostfault.Of(err) != "" {
			os.Exit(HostExit)
		}
	}
	write(journal.Entry{Kind: journal.Start})
	write(journal.Entry{Kind: journal.Cut, Clock: clock})
	own, bought := 0, 0
	var live []string
	if job, err := config.Load(filepath.Join(dir, "granted.yaml")); err == nil {
		own = job.Resources.Count.Most
	}
	run := fakeRun{make(chan string, 1), func(to, why string) { write(journal.Entry{Kind: journal.Scale, To: to, Why: why}) }, own, &atomic.Int64{}}
	run.want.Store(int64(own))
	if b := Bounds(); b != nil && b.Granted >= 0 {
		run.want.Store(int64(b.Granted))
		run.scale(fmt.Sprintf("%d%+d", own, b.Granted-own), "scheduler drf: its grant")
	}
	buy := func() {
		for ; len(live) < int(run.want.Load()); bought++ {
			live = append(live, fmt.Sprint("m-", bought))
			write(journal.Entry{Kind: journal.Launch, Instance: live[len(live)-1], Tier: "transient"})
		}
	}
	buy() // before fewer can be requested
	door, err := scaling.Serve(dir, run, slog.New(slog.DiscardHandler))
	if err != nil {
		return 1
	}
	defer door.Close()
	for {
		clock++
		write(journal.Entry{Kind: journal.ClockDone, Clock: clock})
		buy()
		for want := int(run.want.Load()); len(live) > want && !there("keeps"); live = live[1:] {
			write(journal.Entry{Kind: journal.Terminated, Instance: live[0]})
		}
		select {
		case why := <-run.stop:
			write(journal.Entry{Kind: journal.Done, Outcome: "interrupted", Why: why})
			return 130
		case <-time.After(20 * time.Millisecond):
		}
		if text, err := os.ReadFile(filepath.Join(dir, "say")); err == nil { // lines for its journal
			_ = os.Remove(filepath.Join(dir, "say"))
			for line := range strings.Lines(string(text)) {
				var e journal.Entry
				if json.Unmarshal([]byte(line), &e) == nil {
					write(e)
				}
			}
		}
		for file, outcome := range map[string]string{"finish": "finished", "fail": "failed", "reboot": "interrupted"} {
			if there(file) {
				_ = os.Remove(filepath.Join(dir, file))
				write(journal.Entry{Kind: journal.Done, Outcome: outcome, Why: map[string]string{"reboot": "SIGTERM", "fail": "no pool"}[file]})
				return 0
			}
		}
	}
}

// site is a directory with a manager that can be replaced.
type site struct {
	t    *testing.T
	home string
	cfg  Config
	*Manager
	end     func()
	started []int // processes of managers that have ended
	token   access.Token
}

func newSite(t *testing.T) *site {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, home: t.TempDir(), end: func() {}}
	for _, name := range []string{"prices.csv", "catalog.csv"} {
		if err := os.WriteFile(filepath.Join(s.home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.cfg = Config{Home: s.home, Command: []string{self}, MaxRunning: 2, MaxQueued: 10, MaxUpload: 8 << 20,
		Log: slog.New(slog.DiscardHandler), Now: time.Now}
	t.Cleanup(s.endAll)
	return s
}

// begin opens the manager; an earlier one ends.
func (s *site) begin() {
	s.t.Helper()
	s.end()
	s.remember()
	m, err := Open(s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	s.Manager, s.end = m, func() { cancel(); <-done; s.end = func() {} }
}

// remember notes the processes that an ended manager has started.
func (s *site) remember() {
	if s.Manager == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.pid > 0 {
			s.started = append(s.started, j.pid)
		}
	}
}

// endAll leaves no process behind: one may not have its directory yet, and gets the request once it has.
func (s *site) endAll() {
	s.end()
	s.remember()
	for _, pid := range s.started {
		for deadline := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(2 * time.Millisecond) {
			if time.Now().After(deadline) {
				s.t.Fatalf("process %d does not end", pid)
			}
			dirs, _ := filepath.Glob(filepath.Join(s.home, rundir.Root, "*"))
			for _, dir := range dirs {
				_ = os.Remove(filepath.Join(dir, "prepare"))
				err := jobrun.End(context.Background(), dir, "the test", true, func() {})
				if err != nil && !errors.Is(err, jobrun.ErrEnded) {
					s.t.Error(err)
				}
			}
		}
	}
}

// localJob is a job file.
const localJob = `name: job
cloud: local
policy: tierml
resources: {count: 1..16, any_of: [{type: c3.large}]}
start_with: 12
reliable: {type: c3.large}
train: {app: mf, clocks: 1000000, data: HOME/prices.csv, params: {rank: 4}}
local: {prices: HOME/prices.csv, catalog: HOME/catalog.csv, start: 2014-04-01T00:00:00Z}
`

// submit submits a job whose run has these files from its start.
func (s *site) submit(files ...string) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock() // not started before the files are there
	id, err := s.submitLocked("job", []byte(strings.ReplaceAll(localJob, "HOME", s.home)), nil, record{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range files {
		s.tell(id, f)
	}
	return id
}

func (s *site) dir(id string) string { return filepath.Join(s.home, rundir.Root, id) }

func (s *site) tell(id, file string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir(id), file), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// says makes a run write lines to its journal, atomically.
func (s *site) says(id string, lines ...string) {
	s.t.Helper()
	file := filepath.Join(s.dir(id), "say")
	if err := errors.Join(os.WriteFile(file+".new", []byte(strings.Join(lines, "\n")), 0o600), os.Rename(file+".new", file)); err != nil {
		s.t.Fatal(err)
	}
}

// until waits for a job's state.
func (s *site) until(id string, want call.State) record {
	s.t.Helper()
	return s.when(id, string(want), func(r record) bool { return r.State == want })
}

func (s *site) when(id, what string, f func(record) bool) record {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		s.mu.Lock()
		r := s.jobs[id].record
		s.mu.Unlock()
		if f(r) {
			return r
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s is not %s: %+v", id, what, r)
		}
	}
}

// clocks waits until a run has reached a clock.
func (s *site) clocks(id string, n int64) {
	s.t.Helper()
	s.when(id, "training", func(record) bool {
		entries, _, err := journal.ReadFile(filepath.Join(s.dir(id), rundir.JournalFile))
		return err == nil && len(entries) > 0 && entries[len(entries)-1].Clock >= n
	})
}
