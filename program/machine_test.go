package program

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what takes milliseconds.
const patience = 30 * time.Second

// site is a machine with its reports.
type site struct {
	*Machine
	t      *testing.T
	dir    string // the machine's
	store  string
	mu     sync.Mutex
	events []Event
}

func newSite(t *testing.T, spec Spec) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), store: spec.Store}
	if s.store == "" {
		s.store = filepath.Join(t.TempDir(), "store")
	}
	spec.Store = s.store
	m, err := New(Config{Spec: spec, Dir: s.dir, Report: s.report, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.Machine = m
	t.Cleanup(m.Close)
	return s
}

func (s *site) report(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *site) all() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}

// wait returns the first matching event of a kind, which may have been reported already.
func wait[E Event](s *site, fits func(E) bool) E {
	s.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		for _, e := range s.all() {
			if e, ok := e.(E); ok && (fits == nil || fits(e)) {
				return e
			}
		}
		if time.Now().After(until) {
			var none E
			s.t.Fatalf("no %T came, but %+v", none, s.all())
		}
	}
}

func (s *site) begin(start Start) Started {
	s.t.Helper()
	if start.Key == "" {
		start.Key = "rank-0"
	}
	if start.Ranks == 0 {
		start.Ranks = 1
	}
	if err := s.Start(start); err != nil {
		s.t.Fatal(err)
	}
	return wait(s, func(e Started) bool { return e.Attempt == start.Attempt && e.Key == start.Key })
}

func (s *site) exit(attempt uint64) Exited {
	s.t.Helper()
	return wait(s, func(e Exited) bool { return e.Attempt == attempt })
}

func (s *site) path(name string) string { return filepath.Join(s.dir, "work", name) }

// appears waits for a file, and returns its text.
func (s *site) appears(name string) string {
	s.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(s.path(name)); err == nil && len(text) > 0 {
			return string(text)
		}
		if time.Now().After(until) {
			s.t.Fatalf("%s did not appear; %+v", name, s.all())
		}
	}
}

func (s *site) log(key string, attempt uint64) string {
	s.t.Helper()
	var b strings.Builder
	if _, err := CopyLog(s.t.Context(), &b, s.store, LogName{key, attempt}, 0); err != nil {
		s.t.Fatal(err)
	}
	return b.String()
}

func TestProgramRunsToItsEnd(t *testing.T) {
	s := newSite(t, Spec{
		Setup: "echo preparing; echo yes > prepared",
		Run:   "cat prepared\nfor i in 1 2 3; do echo \"step $i loss 0.$i\"; done\necho ${RANK-no}/${WORLD_SIZE-rank} ${MASTER_ADDR-no}:${MASTER_PORT-master} $COLOUR $RATE $TIERML_RESUMED > state/out",
		Envs:  map[string]string{"COLOUR": "blue"},
		State: "state",
		Line:  `step (\d+) loss ([0-9.]+)`,
	})
	s.begin(Start{Attempt: 1, Ranks: 2, Master: "10.0.0.1:4000", Settings: map[string]string{"RATE": "0.25"}})
	exited := s.exit(1)
	if exited.Code != 0 || exited.Asked || exited.Phase != Running || !strings.HasSuffix(exited.Tail, "step 3 loss 0.3") {
		t.Errorf("%+v", exited)
	}
	if got := s.appears("state/out"); got != "0/2 10.0.0.1:4000 blue 0.25 0\n" {
		t.Errorf("the program saw %q", got)
	}
	if a := wait(s, func(a Advanced) bool { return a.Step == 3 }); a.Loss != 0.3 || !a.HasLoss {
		t.Errorf("%+v", a)
	}
	saved := wait[Saved](s, nil)
	if !saved.Final || saved.Bytes == 0 || saved.Step != 3 {
		t.Errorf("%+v", saved)
	}
	if log := s.log("rank-0", 1); log != "preparing\nyes\nstep 1 loss 0.1\nstep 2 loss 0.2\nstep 3 loss 0.3\n" {
		t.Errorf("the log is %q", log)
	}
	if _, last := s.all()[len(s.all())-1].(Exited); !last {
		t.Errorf("the last event is %+v", s.all()[len(s.all())-1])
	}
	// The next attempt on this machine needs no setup, has the state and, as a single program, no rank.
	s.begin(Start{Attempt: 2, Resume: saved.Manifest, ResumeDigest: saved.Digest, Settings: map[string]string{"RATE": "0.5"}})
	s.exit(2)
	if log := s.log("rank-0", 2); strings.Contains(log, "preparing") {
		t.Errorf("setup ran twice: %q", log)
	}
	if got := s.appears("state/out"); got != "no/rank no:master blue 0.5 1\n" {
		t.Errorf("the program saw %q", got)
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		spec  Spec
		phase Phase
		code  int
		note  string
		tail  string
	}{
		"setup":       {Spec{Setup: "echo one\necho no such package >&2; exit 7", Run: "true"}, SettingUp, 7, "setup failed with exit code 7", "no such package"},
		"run":         {Spec{Run: "echo before\nfalse\necho after"}, Running, 1, "", "before"},
		"pipe":        {Spec{Run: "false | cat"}, Running, 1, "", ""},
		"unset":       {Spec{Run: "echo $NOWHERE"}, Running, 1, "", "run: line 1: NOWHERE: unbound variable"},
		"killed":      {Spec{Run: "sh -c 'kill -9 $$'"}, Running, 137, "something killed it: often the system, when memory runs out", ""},
		"disk":        {Spec{Run: "echo x > /dev/full"}, Running, 1, "the machine's disk is full", "No space left on device"},
		"folder":      {Spec{Workdir: "/nowhere/at/all.tar.zst", Run: "true"}, Fetching, -1, "fetch the folder", ""},
		"store":       {Spec{Run: "true", State: "s", Store: "/dev/null/x"}, Restoring, -1, "who writes the state of rank-0", ""},
		"not-found":   {Spec{Run: "no-such-command-here"}, Running, 127, "", "command not found"},
		"leftovers":   {Spec{Run: "sleep 1000 & sleep 1000 & exit 3"}, Running, 3, "2 processes that the program had started were still running", ""},
		"escaped":     {Spec{Run: "setsid sh -c 'echo >born; exec sleep 1000' & until [ -e born ]; do sleep 0.01; done; exit 3"}, Running, 3, "1 processes that the program had started were still running", ""},
		"half-failed": {Spec{Run: "echo half > ckpt/model; exit 3", State: "ckpt"}, Running, 3, "half-written and not saved: model", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.spec)
			if err := s.Start(Start{Attempt: 1, Key: "rank-0", Ranks: 1}); err != nil {
				t.Fatal(err)
			}
			e := s.exit(1)
			if e.Phase != c.phase || e.Code != c.code || e.Asked || !strings.Contains(e.Note, c.note) || (c.note == "") != (e.Note == "") || !strings.Contains(e.Tail, c.tail) {
				t.Errorf("%+v", e)
			}
			if n := len(members(-1, s.Machine.last.id)); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

func TestNoticeReachesTheProgram(t *testing.T) {
	s := newSite(t, Spec{
		Run: `python() { :; }
trap 'echo saved > state/last; cp "$TIERML_NOTICE_FILE" state/notice; curl() { :; }; exit 0' TERM
test ! -e "$TIERML_NOTICE_FILE"
echo ready > ready
while true; do sleep 0.05; done`,
		State: "state", OnNotice: "echo hook > state/hook",
	})
	s.begin(Start{Attempt: 1})
	s.appears("ready")
	began := time.Now()
	s.Notice(time.Now().Add(20*time.Second), false)
	saved := wait[Saved](s, nil)
	e := s.exit(1)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v though the program ended at once", took)
	}
	if !e.Asked || e.Code != 0 || !saved.Final || saved.Bytes == 0 {
		t.Errorf("%+v %+v", e, saved)
	}
	if got := s.appears("state/notice"); !strings.Contains(got, `"kind":"eviction"`) || !strings.Contains(got, `"seconds":`) {
		t.Errorf("the notice is %s", got)
	}
	if s.appears("state/hook") != "hook\n" || s.appears("state/last") != "saved\n" {
		t.Error("the hook or the program did not save")
	}
	if log := s.log("rank-0", 1); !strings.Contains(log, "SIGTERM") {
		t.Errorf("the log does not mention the notice: %q", log)
	}
}

// A program that ignores SIGTERM is killed early enough for its state to be saved before the deadline. The margin is half a second: on a
// machine that is too busy for that the test retries.
func TestProgramThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	spec := Spec{Run: `trap '' TERM; echo 1 > state/whole; exec 3> state/half; echo part >&3; echo > ready; while true; do sleep 0.05; echo part >&3; done`, State: "state", Store: t.TempDir()}
	var saved Saved
	for attempt := uint64(1); saved.Manifest == ""; attempt++ {
		s := newSite(t, spec) // a machine that was warned accepts no other attempt
		s.begin(Start{Attempt: attempt})
		s.appears("ready")
		s.Notice(time.Now().Add(2*time.Second), false)
		e := s.exit(attempt)
		if !e.Asked || e.Code != 137 || !strings.Contains(e.Note, "had not ended") {
			t.Errorf("%+v", e)
		}
		for _, event := range s.all() {
			if is, ok := event.(Saved); ok && is.Attempt == attempt {
				saved = is
			}
		}
		switch {
		case attempt == 5:
			t.Fatalf("five times nothing was saved before the deadline: %+v", s.all())
		case saved.Manifest != "" && !strings.Contains(e.Note, "half-written and not saved: half"):
			t.Errorf("%+v", e)
		}
	}
	again := newSite(t, Spec{Run: "ls state > list; sleep 1000", State: "state", Store: spec.Store})
	started := again.begin(Start{Attempt: 9, Resume: saved.Manifest, ResumeDigest: saved.Digest})
	if got := again.appears("list"); got != "whole\n" || started.Bytes != 2 {
		t.Errorf("restored: %q, %+v", got, started)
	}
}

// A state that is saved before the program reports any progress has the step that it continued from.
func TestStepOfASaveBeforeProgress(t *testing.T) {
	s := newSite(t, Spec{Run: `[ $TIERML_RESUMED = 1 ] || echo step 7; echo x > state/n; echo > ready.$TIERML_ATTEMPT; sleep 1000`, State: "state", Line: `step (\d+)`})
	s.begin(Start{Attempt: 1})
	wait[Advanced](s, nil)
	s.Stop(10*time.Second, true)
	saved := wait[Saved](s, nil)
	s.begin(Start{Attempt: 2, Resume: saved.Manifest})
	s.appears("ready.2")
	s.Stop(10*time.Second, true)
	if again := wait(s, func(e Saved) bool { return e.Attempt == 2 }); saved.Step != 7 || again.Step != 7 {
		t.Errorf("saved at step %d, and then at %d", saved.Step, again.Step)
	}
}

func TestStopAndStartAgain(t *testing.T) {
	s := newSite(t, Spec{Run: `cat state/n > seen.$TIERML_ATTEMPT || echo none > seen.$TIERML_ATTEMPT; echo $TIERML_ATTEMPT > state/n; echo > ready.$TIERML_ATTEMPT; sleep 1000`, State: "state"})
	s.begin(Start{Attempt: 1})
	s.appears("ready.1")
	s.Stop(10*time.Second, true)
	saved := wait[Saved](s, nil)
	if e := s.exit(1); !e.Asked || e.Code != 143 || e.Signal != "terminated" {
		t.Errorf("%+v", e)
	}
	s.begin(Start{Attempt: 2, Resume: saved.Manifest})
	s.appears("ready.2")
	// Another one replaces it without a stop request before, and starts over.
	s.begin(Start{Attempt: 3})
	s.appears("ready.3")
	if e := s.exit(2); !e.Asked {
		t.Errorf("%+v", e)
	}
	for attempt, want := range map[int]string{1: "none\n", 2: "1\n", 3: "none\n"} {
		if got := s.appears(fmt.Sprintf("seen.%d", attempt)); got != want {
			t.Errorf("attempt %d saw %q, want %q", attempt, got, want)
		}
	}
	if err := s.Start(Start{Attempt: 2, Key: "rank-0"}); err == nil {
		t.Error("an older attempt was taken")
	}
	if err := s.Start(Start{Attempt: 3, Key: "rank-0"}); err != nil {
		t.Errorf("the same message again: %v", err)
	}
}

// What a program writes at SIGTERM is saved even if its machine has lost its controller; a program that ignores SIGTERM is killed in time.
func TestFinishSavesTheState(t *testing.T) {
	s := newSite(t, Spec{Run: `trap 'echo last > state/n; exit 0' TERM; echo > ready; while :; do sleep 0.01; done`, State: "state"})
	s.begin(Start{Attempt: 1})
	s.appears("ready")
	s.Finish(patience)
	if saved := wait[Saved](s, nil); !saved.Final || saved.Bytes != 5 {
		t.Errorf("%+v", saved)
	}
	deaf := newSite(t, Spec{Run: `trap '' TERM; mkdir -p state; echo 1 > state/n; echo > ready; while :; do sleep 0.01; done`, State: "state"})
	deaf.begin(Start{Attempt: 1})
	deaf.appears("ready")
	deaf.Finish(time.Second)
	if e := deaf.exit(1); !e.Asked || e.Signal != "killed" {
		t.Errorf("%+v", e)
	}
}

// A shell on a machine starts in the program's folder and has its variables, but none of its secrets.
func TestEnter(t *testing.T) {
	s := newSite(t, Spec{Run: "echo 1 >here; sleep 100", Envs: map[string]string{"QUOTED": "it's $HOME\nand more"}, State: "ckpt"})
	s.begin(Start{Attempt: 1, Task: 3, Tasks: 5, Key: "task-3", Secrets: map[string]string{"KEY": "hush-4711"}})
	s.appears("here")
	enter := func(arguments ...string) string {
		t.Helper()
		cmd := exec.Command("bash", append([]string{filepath.Join(s.dir, EnterScript)}, arguments...)...)
		cmd.Stdin = strings.NewReader("echo from a shell in $PWD\nexit 7\n")
		out, err := cmd.CombinedOutput()
		return fmt.Sprintf("%s%v", out, err)
	}
	if got := enter("bash", "-c", `ls; echo "$QUOTED, $TIERML_TASK, ${KEY-none}"; exit 3`); !strings.Contains(got, "here") ||
		!strings.HasSuffix(got, "it's $HOME\nand more, 3, none\nexit status 3") {
		t.Errorf("%q", got)
	}
	if got := enter(); !strings.HasSuffix(got, "/work\nexit status 7") {
		t.Errorf("a shell: %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, EnterScript)); err != nil || strings.Contains(string(text), "hush") {
		t.Errorf("the script is %q, %v", text, err)
	}
}
