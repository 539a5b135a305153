package program

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// SIGTERM comes within a second of the notice; the URL and the file have the seconds left. A recommendation comes before that, without a
// signal, and the state is saved.
func TestNoticeByURL(t *testing.T) {
	s := newSite(t, Spec{State: "state", Run: `trap 'date +%s%N > term; exit 0' TERM
echo 1 > state/x
echo "$TIERML_NOTICE_URL" > url
while true; do sleep 0.01; done`})
	s.begin(Start{Attempt: 1})
	url := strings.TrimSpace(s.appears("url"))
	if status, body := get(t, url); status != http.StatusNotFound {
		t.Errorf("%d %s", status, body)
	}
	s.Notice(time.Time{}, true)
	if saved := wait[Saved](s, nil); saved.Final {
		t.Errorf("%+v", saved)
	}
	if status, body := get(t, url); status != http.StatusOK || body != `{"kind":"rebalance"}`+"\n" {
		t.Errorf("%d %s", status, body)
	}
	if _, err := os.Stat(s.path("term")); err == nil {
		t.Error("a recommendation ended the program")
	}
	deadline := time.Now().Add(30 * time.Second)
	warned := time.Now()
	s.Notice(deadline, false)
	var n notice
	for n.Kind != evicted {
		_, body := get(t, url)
		if err := json.Unmarshal([]byte(body), &n); err != nil {
			t.Fatal(err)
		}
	}
	if n.Deadline == nil || !n.Deadline.Equal(deadline) || n.Seconds == nil || *n.Seconds > 30 || *n.Seconds < 20 {
		t.Errorf("%+v", n)
	}
	nanoseconds, err := strconv.ParseInt(strings.TrimSpace(s.appears("term")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Unix(0, nanoseconds).Sub(warned); took > time.Second {
		t.Errorf("SIGTERM came %v after the notice", took)
	} else {
		t.Logf("SIGTERM came %v after the notice", took)
	}
	s.exit(1)
}

// stalling serves an object store that does not answer writes of chunks once the channel is closed.
func stalling(t *testing.T) (url string, stalls chan struct{}) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(backend).Server()
	stalls, over := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stalls:
			if strings.Contains(r.URL.Path, "/chunks/") {
				<-over
				return
			}
		default:
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return "s3://data/run?region=us-east-1&endpoint=" + server.URL, stalls
}

// A save that is three intervals late is reported with its cause: a store that stalls, or a program that takes no snapshot.
func TestLateSavesAreReported(t *testing.T) {
	store, stalls := stalling(t)
	close(stalls)
	for cause, spec := range map[string]Spec{
		"one is still being sent":                         {Store: store, Run: `echo 1 > state/n; sleep 1000`},
		"the program has not come to the end of its step": {Run: `echo '{"round": 0}' > $TIERML_KEPT_FILE.new; mv $TIERML_KEPT_FILE.new $TIERML_KEPT_FILE; sleep 1000`},
	} {
		spec.State, spec.Every = "state", 200*time.Millisecond
		s := newSite(t, spec)
		s.begin(Start{Attempt: 1})
		e := wait(s, func(e SaveFailed) bool { return strings.Contains(e.Reason, "more than 3 times state.every") })
		if !strings.Contains(e.Reason, cause) {
			t.Errorf("%q: %+v", cause, e)
		}
	}
}

// If the store is too slow for the remaining data, the deadline is kept, and the previous generation counts.
func TestDeadlineBeforeEverythingIsSent(t *testing.T) {
	store, stalls := stalling(t)
	s := newSite(t, Spec{Store: store, State: "state",
		Run: `trap 'head -c 6000000 /dev/urandom > state/late; exit 0' TERM; echo 1 > state/early; echo > ready; while true; do sleep 0.02; done`})
	s.begin(Start{Attempt: 1})
	s.appears("ready")
	s.Save(0)
	first := wait[Saved](s, nil)
	close(stalls)
	deadline := time.Now().Add(2 * time.Second)
	s.Notice(deadline, false)
	e := s.exit(1)
	failed := wait[SaveFailed](s, nil)
	if over := time.Since(deadline); over > time.Second || !failed.Final || failed.Reason != "the deadline came before everything was sent; the state before counts" {
		t.Errorf("%v after the deadline: %+v %+v", over, failed, e)
	}
	if first.Bytes != 2 {
		t.Errorf("%+v", first)
	}
}

func TestKillAt(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		grace     time.Duration
		unsent    int64
		perSecond float64
		want      time.Duration
	}{
		{30 * time.Second, 0, 20e6, 29500 * time.Millisecond},
		{30 * time.Second, 200e6, 20e6, 14500 * time.Millisecond}, // 10 s, and half as much again
		{30 * time.Second, 2e9, 20e6, 200 * time.Millisecond},     // hopeless
		{300 * time.Millisecond, 0, 20e6, 50 * time.Millisecond},
	} {
		if got := killAt(now, now.Add(c.grace), c.unsent, c.perSecond).Sub(now); got != c.want {
			t.Errorf("%+v: after %v", c, got)
		}
	}
}

// A program whose agent was killed, or has crashed, ends as well, with everything that it started. A crash's output contains none of its
// secrets.
func TestAgentDies(t *testing.T) {
	if dir := os.Getenv("TIERML_PROGRAM_CHILD"); dir != "" {
		m, err := New(Config{Spec: Spec{Run: "setsid sleep 1000 & echo $$ > pids; echo $! >> pids; sleep 1000", Store: filepath.Join(dir, "store")}, Dir: dir, Report: func(Event) {}})
		if err == nil {
			err = m.Start(Start{Attempt: 1, Key: "rank-0", Ranks: 1, Secrets: map[string]string{"TOKEN": canary}})
		}
		if err != nil {
			t.Fatal(err)
		}
		select {} // until it is killed
	}
	for _, by := range []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT} {
		dir := t.TempDir()
		agent := exec.Command(os.Args[0], "-test.run", "^TestAgentDies$")
		agent.Env = append(os.Environ(), "TIERML_PROGRAM_CHILD="+dir, "GOTRACEBACK=all")
		var dump bytes.Buffer
		agent.Stdout, agent.Stderr = &dump, &dump
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		var pids []string
		for until := time.Now().Add(patience); len(pids) < 2; time.Sleep(5 * time.Millisecond) {
			text, _ := os.ReadFile(filepath.Join(dir, "work", "pids"))
			pids = strings.Fields(string(text))
			if time.Now().After(until) {
				t.Fatal("the program did not start")
			}
		}
		_ = agent.Process.Signal(by)
		_ = agent.Wait() // it was killed
		for _, pid := range pids {
			for until := time.Now().Add(patience); running(pid); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(until) {
					t.Fatalf("%s: process %s is still there", by, pid)
				}
			}
		}
		if text := dump.String(); strings.Contains(text, canary) || strings.Contains(text, "goroutine ") != (by == syscall.SIGQUIT) {
			t.Errorf("%s prints: %s", by, text)
		}
	}
}

func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// A store that is unavailable when a program begins, and again when it ends, is not counted as the program's failure.
func TestStoreIsAway(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(backend).Server()
	var away atomic.Int64 // calls
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Add(-1) >= 0 {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	const outage = 4 // a call is retried three times at once
	away.Store(outage)
	s := newSite(t, Spec{Store: "s3://data/run?region=us-east-1&anonymous=true&endpoint=" + server.URL, State: "state",
		Run: "echo 1 >state/x; echo >ready; until [ -e go ]; do sleep 0.01; done"})
	s.begin(Start{Attempt: 1})
	s.appears("ready")
	away.Store(outage)
	if err := os.WriteFile(s.path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := s.exit(1); e.Code != 0 {
		t.Errorf("%+v", e)
	}
	if e := wait[Saved](s, nil); !e.Final || e.Bytes != 2 {
		t.Errorf("%+v", e)
	}
}

// A rank saves a round once, however many requests it gets: its store keeps two, and the other one may be the newest that all ranks have.
func TestRoundIsSavedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, Spec{State: "state", Run: "echo 1 >state/x; echo >ready; sleep 1000"})
	s.begin(Start{Attempt: 1, Ranks: 2})
	s.appears("ready")
	for _, round := range []uint64{5, 5, 6} {
		s.Save(round)
		wait(s, func(e Saved) bool { return e.Round == round })
	}
	var rounds []uint64
	for _, e := range s.all() {
		if e, ok := e.(Saved); ok {
			rounds = append(rounds, e.Round)
		}
	}
	if !slices.Equal(rounds, []uint64{5, 6}) {
		t.Errorf("saved in rounds %v", rounds)
	}
}
