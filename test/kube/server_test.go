package kube_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
)

// The job server as the release's chart deploys it, by the digest of the release's image: a pod of its StatefulSet, with the rights of its
// account and its volume, runs a job that keeps its splits and checkpoints in an object store. The node of the job's spot pods is drained,
// and others train on; kubectl says why. Then its own node is drained, and the pod restarts on another one with another address and the
// same name and volume: the job's pods keep working for it, and the model is that of one process.
func TestRealServerOfTheChart(t *testing.T) {
	w := newContainers(t)
	w.namespace = "charted"
	const name = "tierml-controller-0.tierml-controller.charted.svc.cluster.local"
	w.resolve("127.0.0.2", name)
	w.startNode("demo-other", "on-demand")
	w.kubectl("create", "namespace", w.namespace)
	w.kubectl("label", "namespace", w.namespace, "pod-security.kubernetes.io/enforce=restricted")
	token := rand.Text()
	w.kubectl("--namespace", w.namespace, "create", "secret", "generic", "tierml-token", "--from-literal", "token="+token)
	address := freeAddress(t)
	if out, err := helm(t, "install", "tierml", filepath.Join(dist, "tierml-chart-0.1.0.tgz"), "--namespace", w.namespace, "--set=clusterObjects=false",
		fmt.Sprintf(`--set-json=controller.args=["--listen=%s","--allow=%s"]`, address, store())); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := w.job("charted", "clocks: 60", "clocks: 12000", "namespace: tierml", "namespace: "+w.namespace, "registry.example.com/tierml:latest", w.runtime.Image.Name+"\n  priority_class: tierml-reliable",
		"  endpoint: "+w.server+"\n", "", "  listen: 127.0.0.1:0\n", "")
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(arguments ...string) (string, error) {
		return w.tierml(dir, append(arguments, "--server=http://"+address, "--token-file=token")...)
	}
	w.until("the job server answers", func() bool { _, err := ask("ps"); return err == nil })
	if out, err := ask("run", "-y", "--detach", "job.yaml"); err != nil {
		t.Fatal(out, err)
	}
	volume := w.runtime.Claim(w.namespace, "jobs-tierml-controller-0")
	w.inTheMiddle("charted", volume)
	w.drainSpot("charted-1", volume)
	before, node := w.machines(), w.serversNode()
	state, err := jobrun.ReadState(filepath.Join(volume, rundir.Root, "charted-1"))
	if err != nil {
		t.Fatal(err)
	}
	w.resolve("127.0.0.3", name)
	w.kubectl("cordon", node)
	w.kubectl("--namespace", w.namespace, "delete", "pod/tierml-controller-0")
	former, err := net.Listen("tcp", strings.Replace(state.Controller, name, "127.0.0.2", 1)) // now another's
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	w.until("the job server runs elsewhere", func() bool { now := w.serversNode(); return now != "" && now != node })
	w.until("the next one takes over", func() bool { return w.lines(volume, "charted-1", journal.TakeOver) > 0 })
	clocks := w.lines(volume, "charted-1", journal.ClockDone)
	w.until("training goes on", func() bool { return w.lines(volume, "charted-1", journal.ClockDone) > clocks+300 })
	if now := w.machines(); !slices.Equal(now, before) || len(now) != 4 {
		t.Errorf("machines were %v, and are %v", before, now)
	}
	saved, err := blob.List(t.Context(), "s3://tierml/charted?region=us-east-1&endpoint="+store())
	if err != nil || len(saved) == 0 {
		t.Errorf("the store has %v, %v", saved, err)
	}
	t.Logf("%d objects in the store; the job server was on %s, and is on %s", len(saved), node, w.serversNode())
	w.until("the job has finished", func() bool {
		text, _ := os.ReadFile(filepath.Join(volume, rundir.Root, "charted-1", rundir.JournalFile))
		return bytes.Contains(text, []byte(`"outcome":"finished"`))
	})
	if out, err := ask("fetch", "charted", "--into", "fetched"); err != nil {
		t.Fatal(out, err)
	}
	w.checkModel(dir, filepath.Join(dir, "fetched", "charted-1"))
	info, err := os.Stat(filepath.Join(volume, rundir.Root, "charted-1"))
	if s, ok := info.Sys().(*syscall.Stat_t); err != nil || !ok || s.Uid != 65532 {
		t.Errorf("the run's directory is %+v's (%v), want 65532's", s, err)
	}
	w.checkEmpty()
	w.kubectl("uncordon", node)
	if out, err := helm(t, "uninstall", "tierml", "--namespace", w.namespace); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	w.until("the job server has ended", func() bool { return w.serversNode() == "" })
}

// drainSpot drains the node of a run's spot pods in the middle of training, and waits until the same number train on another.
func (w *world) drainSpot(run, directory string) {
	w.Helper()
	before, joined := w.spotPods(run), w.lines(directory, run, journal.Join)
	w.startNode("demo-spare", "spot")
	w.Cleanup(func() {
		w.nodes["demo-spare"]()
		_ = exec.Command(os.Getenv("TIERML_KUBECTL"), "delete", "node", "demo-spare").Run()
	})
	w.Logf("%s", w.kubectl("drain", "demo-spot", "--force", "--delete-emptydir-data", "--pod-selector=tierml.dev/class=spot"))
	w.until("others train on the other node", func() bool {
		now := w.spotPods(run)
		return len(now) == len(before) && !slices.ContainsFunc(now, func(p string) bool { return slices.Contains(before, p) }) && w.lines(directory, run, journal.Join) >= joined+len(before)
	})
	w.kubectl("uncordon", "demo-spot")
	described := w.kubectl("--namespace", w.namespace, "describe", "configmap", "--selector=app.kubernetes.io/managed-by=tierml")
	for _, pod := range before {
		says := "pod " + pod + " on node demo-spot has notice: EvictionByEvictionAPI"
		if events := w.kubectl("--namespace", w.namespace, "get", "events", "--field-selector=involvedObject.kind=Pod,involvedObject.name="+pod); !strings.Contains(described, says) || !strings.Contains(events, says) {
			w.Errorf("not said: %s\n%s\n%s", says, described, events)
		}
	}
	w.Logf("%s", described)
	if images := w.kubectl("--namespace", w.namespace, "get", "pods", "--output=jsonpath={.items[*].spec.containers[*].image}"); strings.ReplaceAll(images, w.runtime.Image.Name, "") != "    " {
		w.Errorf("pods have the images %s", images)
	}
	if priority := w.kubectl("--namespace", w.namespace, "get", "pods", "--selector=tierml.dev/class=on-demand", "--output=jsonpath={.items[*].spec.priority}"); priority != "1000" {
		w.Errorf("the reliable pod has priority %s", priority)
	}
}

// machines returns the pods of runs.
func (w *world) machines() []string {
	names := strings.Fields(w.kubectl("--namespace", w.namespace, "get", "pods", "--selector=tierml.dev/run", "--output=name"))
	slices.Sort(names)
	return names
}

// serversNode returns the node of the job server's pod; empty = none.
func (w *world) serversNode() string {
	return strings.TrimSpace(w.kubectl("--namespace", w.namespace, "get", "pods", "--selector=app.kubernetes.io/name=tierml-controller",
		"--field-selector=status.phase=Running", "--output=jsonpath={.items[*].spec.nodeName}"))
}

// freeAddress returns an address of this host without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
