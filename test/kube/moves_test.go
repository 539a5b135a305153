//go:build kube

package kube_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud/kubelet"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
)

// A controller is killed in the middle, and the next one has another address and the same name, as in a pod of the chart's StatefulSet:
// the job's pods work on for it, and the model is that of one process.
func TestRealControllerMoves(t *testing.T) {
	if beside(t); os.Geteuid() != 0 {
		t.Skip("pods with a hosts file of their own take root")
	}
	const name = "tierml-controller-0.tierml-controller.tierml.svc.cluster.local"
	hosts := filepath.Join(t.TempDir(), "hosts")
	w := newWorld(t, func(p *kubelet.Processes) { p.Hosts = hosts })
	at := func(address string) {
		if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"+address+" "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.example = strings.Replace(w.example, "clocks: 60", "clocks: 4000", 1)
	dir := w.job("moves")
	text, err := os.ReadFile(filepath.Join(dir, "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "job.yaml"), bytes.Replace(text, []byte("listen: 127.0.0.1:0"), []byte("listen: "+name+":0"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	start := func(arguments ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "/bin/sh", "-c",
			`mount --make-rprivate / && mount --bind "$0" /etc/hosts && exec "$@"`, hosts, w.binary, "run", "-y"}, arguments...)...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), "HOME="+dir, "TMPDIR="+dir), &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	machines := func() []string {
		names := strings.Fields(w.kubectl("--namespace=tierml", "get", "pods", "--selector=tierml.dev/run", "--output=name"))
		slices.Sort(names)
		return names
	}
	at("127.0.0.2")
	first := start("--here", "job.yaml")
	w.inTheMiddle("moves", dir)
	before := machines()
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	clocks := w.clocks(dir, "moves-1")
	at("127.0.0.3")
	state, err := jobrun.ReadState(filepath.Join(dir, rundir.Root, "moves-1"))
	if err != nil {
		t.Fatal(err)
	}
	former, err := net.Listen("tcp", strings.Replace(state.Controller, name, "127.0.0.2", 1)) // which is somebody else's now
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	next := start("--resume", filepath.Join(rundir.Root, "moves-1"))
	w.until("training goes on", func() bool { return w.clocks(dir, "moves-1") > clocks+300 })
	if now := machines(); !slices.Equal(now, before) || len(now) != 4 {
		t.Errorf("machines were %v, and are %v", before, now)
	}
	if err := next.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	w.checkAsOneProcess(dir, "moves-1")
	w.checkEmpty()
}

func (w *world) until(what string, done func() bool) {
	w.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not within 5 minutes: %s", what)
		}
	}
}

// clocks is how many a run has done.
func (w *world) clocks(dir, run string) int {
	text, _ := os.ReadFile(filepath.Join(dir, rundir.Root, run, rundir.JournalFile)) // none yet
	return bytes.Count(text, []byte(`"kind":"clock"`))
}
