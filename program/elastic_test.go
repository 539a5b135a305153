package program

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A rank of an elastic gang can read which others run, from its start on. It gets a coordinator, but no world size.
func TestPeersFileFollows(t *testing.T) {
	s := newSite(t, Spec{Run: `cp "$TIERML_PEERS_FILE" first; echo ${WORLD_SIZE-none} $NODE_RANK/$NNODES $MASTER_ADDR:$MASTER_PORT >env
while ! grep -q 3 "$TIERML_PEERS_FILE"; do sleep 0.02; done; cp "$TIERML_PEERS_FILE" then
while [ -s "$TIERML_PEERS_FILE" ]; do sleep 0.02; done`})
	s.begin(Start{Attempt: 1, Rank: 1, Ranks: 4, Elastic: true, Master: "c:7", Peers: []string{"0 a:1", "2 b:2"}})
	if got := s.appears("env"); got != "none 1/4 c:7\n" {
		t.Errorf("its environment is %q", got)
	}
	s.SetPeers([]string{"0 a:1", "3 c:3"})
	if got := s.appears("then"); got != "0 a:1\n3 c:3\n" {
		t.Errorf("its peers are %q", got)
	}
	if got := s.appears("first"); got != "0 a:1\n2 b:2\n" {
		t.Errorf("at first they were %q", got)
	}
	s.SetPeers(nil)
	if e := s.exit(1); e.Code != 0 {
		t.Errorf("%+v", e)
	}
}

// A command next to the controller ends with all its children on request.
func TestScriptEndsWithAllItStarted(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("echo here; setsid sleep 1000 & echo $! >pid; wait"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		_, err := RunScript(ctx, script, dir, os.Environ(), &out)
		done <- err
	}()
	pid := ""
	for until := time.Now().Add(patience); pid == "" && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid = strings.TrimSpace(string(text))
	}
	cancel()
	if err := <-done; err != nil || out.String() != "here\n" {
		t.Errorf("it printed %q, %v", out.String(), err)
	}
	if command, _ := os.ReadFile("/proc/" + pid + "/cmdline"); pid == "" || len(command) > 0 { // a zombie has none
		t.Errorf("process %q still runs: %q", pid, command)
	}
}

// All attempts of a program are one run in Weights & Biases, a job is one group, and the job file takes precedence.
func TestTracking(t *testing.T) {
	s := newSite(t, Spec{Run: `echo $WANDB_RUN_ID $WANDB_RESUME $WANDB_RUN_GROUP >"$TIERML_ATTEMPT"`, Envs: map[string]string{"WANDB_RESUME": "must"}})
	said := map[uint64]string{}
	for attempt, start := range map[uint64]Start{1: {Key: "task-1", Run: "own-1-secret"}, 2: {Key: "task-1", Run: "own-1-secret"}, 3: {Key: "task-2", Run: "own-1-secret"}, 4: {Key: "task-1", Run: "own-1-other"}} {
		other := newSite(t, s.config.Spec)
		start.Attempt = attempt
		other.begin(start)
		other.exit(attempt)
		said[attempt] = strings.TrimSpace(other.appears(strconv.FormatUint(attempt, 10)))
	}
	of := strings.Fields(said[1])
	if len(of) != 3 || of[0] != of[2]+"-task-1" || of[1] != "must" || !strings.HasPrefix(of[2], "own-1-") || strings.Contains(said[1], "secret") {
		t.Fatalf("%q", said[1])
	}
	if said[2] != said[1] || said[3] != strings.Replace(said[1], "-task-1", "-task-2", 1) || strings.Fields(said[4])[2] == of[2] {
		t.Errorf("%v", said)
	}
}
