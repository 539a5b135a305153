package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tierml/tierml/fakecloud/kubelet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// world is an API server with a spot node and an on-demand one.
type world struct {
	*testing.T
	client    kubernetes.Interface
	server    string // its address
	binary    string
	runtime   kubelet.Processes
	nodes     map[string]context.CancelFunc // each returns when the node has stopped
	example   string
	namespace string // of the jobs' pods
}

// binary is this program, built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("tierml-of-test-kube-%d", os.Getpid()))
	if out, err := exec.Command("go", "build", "-o", path, "github.com/tierml/tierml/cmd/tierml").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("TIERML_KUBE_RESTART") != "" {
		if path, err := binary(); err == nil {
			_ = os.Remove(path)
		}
		_ = os.RemoveAll(dist)
	}
	os.Exit(code)
}

// needsServer skips a test without the API server of make test-kube.
func needsServer(t *testing.T) {
	t.Helper()
	if os.Getenv("TIERML_KUBE_RESTART") == "" {
		t.Skip("make test-kube runs it with a real API server")
	}
}

// store returns the address of an object store, with a bucket tierml, whose keys are in the environment.
func store() string { return os.Getenv("TIERML_VERSITYGW_ENDPOINT") }

// newWorld makes a world whose pods run as adjusted.
func newWorld(t *testing.T, adjust ...func(*kubelet.Processes)) *world {
	t.Helper()
	needsServer(t)
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 50, 100 // for all nodes together
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, client: client, server: config.Host, nodes: map[string]context.CancelFunc{}, namespace: "tierml"}
	if w.binary, err = binary(); err != nil {
		t.Fatal(err)
	}
	w.kubectl("apply", "-f", "../../deploy/kubernetes/tierml.yaml")
	text, err := os.ReadFile("../../examples/demo-kube.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.example = string(text)
	w.runtime = kubelet.Processes{Client: client, Folder: t.TempDir(), Paths: map[string]string{"/tierml": w.binary}}
	for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} { // as EKS or GKE give them to a service account
		w.runtime.Env = append(w.runtime.Env, key+"="+os.Getenv(key))
	}
	for _, f := range adjust {
		f(&w.runtime)
	}
	for _, class := range []string{"spot", "on-demand"} {
		w.startNode("demo-"+class, class)
	}
	return w
}

// startNode starts a node, which stops with the test, or by its function in w.nodes.
func (w *world) startNode(name, class string) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	k := kubelet.New(kubelet.Config{Client: w.client, Node: name, CPU: 32, Memory: 64 << 30, Look: 200 * time.Millisecond, Runtime: w.runtime,
		Labels: map[string]string{corev1.LabelTopologyZone: "us-central1-a", corev1.LabelInstanceTypeStable: "n2-standard-4", "karpenter.sh/capacity-type": class}})
	go func() {
		defer close(ended)
		if err := k.Run(ctx); err != nil && ctx.Err() == nil {
			w.Error(err)
		}
	}()
	w.nodes[name] = stop
	w.Cleanup(stop)
}

func (w *world) command(name string, arguments ...string) string {
	w.Helper()
	out, err := exec.CommandContext(w.Context(), name, arguments...).CombinedOutput()
	if err != nil {
		w.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

func (w *world) kubectl(arguments ...string) string {
	w.Helper()
	return w.command(os.Getenv("TIERML_KUBECTL"), arguments...)
}

// job writes the example, adapted to this host and with other replacements, and returns its folder.
func (w *world) job(name string, more ...string) string {
	w.Helper()
	dir := w.TempDir()
	data, err := filepath.Abs("../../examples/data/jester5k.csv.gz")
	if err != nil {
		w.Fatal(err)
	}
	text := w.example
	for from, to := range map[string]string{
		"name: demo-kube\n":                    "name: " + name + "\n",
		"data/jester5k.csv.gz":                 data,
		"checkpoints: s3://BUCKET/checkpoints": fmt.Sprintf("checkpoints: s3://tierml/%s?region=us-east-1&endpoint=%s\n  endpoint: %s\n  listen: 127.0.0.1:0", name, store(), w.server),
	} {
		if !strings.Contains(text, from) {
			w.Fatalf("the example has no %q", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	text = strings.NewReplacer(more...).Replace(text)
	if err := os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return dir
}

// tierml runs the program in a job's folder.
func (w *world) tierml(dir string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(w.Context(), w.binary, arguments...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("tierml %s: %w\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out), err
}

// checkAsOneProcess compares a run's model with that of one process.
func (w *world) checkAsOneProcess(dir, run string) {
	w.Helper()
	w.checkModel(dir, filepath.Join(dir, rundir.Root, run))
}

// checkModel compares the model in a run's directory with the one that one process makes from the job in a folder.
func (w *world) checkModel(dir, run string) {
	w.Helper()
	alone := filepath.Join(dir, "alone.safetensors")
	if out, err := w.tierml(dir, "train", "--deterministic", "--into", alone, "job.yaml"); err != nil {
		w.Fatal(out, err)
	}
	want, err := os.ReadFile(alone)
	if err != nil {
		w.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(run, rundir.ModelFile)); err != nil || !bytes.Equal(got, want) {
		w.Errorf("the model of %s has other bytes than that of one process: %d and %d (%v)", run, len(got), len(want), err)
	}
}

// The example, from doctor to the report, leaves nothing.
func TestRealDemo(t *testing.T) {
	w := newWorld(t)
	dir := w.job("demo-kube")
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"doctor", "job.yaml"}, "all 14 are granted in namespace tierml"},
		{[]string{"plan", "job.yaml"}, "The cluster admits pods of all 2 pools (dry run)."},
		{[]string{"run", "-y", "--here", "job.yaml"}, "finished"},
		{[]string{"leaks", "job.yaml"}, "No machine of cluster tierml in us-central1 is left."},
		{[]string{"down", "-y", "job.yaml"}, "No machine of cluster tierml in us-central1 is left."},
	} {
		out, err := w.tierml(dir, c.args...)
		if err != nil || !strings.Contains(out, c.words) {
			t.Fatalf("tierml %s does not say %q: %v\n%s", strings.Join(c.args, " "), c.words, err, out)
		}
	}
	w.checkAsOneProcess(dir, "demo-kube-1")
	w.checkEmpty()
}

// checkEmpty checks that no run has left anything.
func (w *world) checkEmpty() {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		left := w.kubectl("--namespace", w.namespace, "get", "pods,secrets,configmaps", "--selector", "tierml.dev/run", "--output", "name")
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("left behind:\n%s", left)
		}
	}
}

// One spot pod of each of four jobs is deleted at once, with its 15 seconds of grace: no clock is repeated.
func TestRealEvictionOfFourJobs(t *testing.T) {
	w := newWorld(t)
	const jobs = 4
	w.example = strings.Replace(w.example, "clocks: 60", "clocks: 8000", 1) // long enough to be caught midway
	w.example = strings.Replace(w.example, "max_duration: 2h", "max_duration: 2h\ncheckpoint: {every: 10m}", 1)
	dirs, errs := make([]string, jobs), make([]error, jobs)
	var runs sync.WaitGroup
	for i := range jobs {
		dirs[i] = w.job(fmt.Sprintf("gang-%d", i))
		runs.Go(func() { _, errs[i] = w.tierml(dirs[i], "run", "-y", "--here", "job.yaml") })
	}
	victims := make([]string, jobs)
	for i := range victims {
		victims[i] = w.inTheMiddle(fmt.Sprintf("gang-%d", i), dirs[i])
	}
	w.kubectl(append([]string{"--namespace", "tierml", "delete", "pod", "--wait=false"}, victims...)...)
	runs.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, rundir.Root, fmt.Sprintf("gang-%d-1", i), rundir.ReportJSON))
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Training struct {
				Redone int   `json:"redone_clocks"`
				Lost   int64 `json:"lost_clocks"`
			} `json:"training"`
		}
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		if report.Training.Redone != 0 || report.Training.Lost != 0 {
			t.Errorf("gang-%d: %+v", i, report.Training)
		}
		lines, err := os.ReadFile(filepath.Join(dir, rundir.Root, fmt.Sprintf("gang-%d-1", i), rundir.JournalFile))
		if err != nil {
			t.Fatal(err)
		}
		noticed, clocks := false, 0
		for line := range strings.Lines(string(lines)) {
			switch {
			case strings.Contains(line, `"kind":"notice"`) && strings.Contains(line, `"instance":"`+victims[i]+`"`):
				noticed = true
			case noticed && strings.Contains(line, `"kind":"clock"`):
				clocks++
			}
		}
		if !noticed || clocks == 0 {
			t.Errorf("gang-%d: notice of %s: %v, and %d clocks after it", i, victims[i], noticed, clocks)
		}
		t.Logf("gang-%d: %d clocks after the notice of %s", i, clocks, victims[i])
		w.checkAsOneProcess(dir, fmt.Sprintf("gang-%d-1", i))
	}
	w.checkEmpty()
}

// inTheMiddle waits until a job trains on all its pods, and returns one on a spot node.
func (w *world) inTheMiddle(name, dir string) string {
	w.Helper()
	var spot []string
	w.until(name+" trains on all its pods", func() bool {
		spot = w.spotPods(name + "-1")
		return len(spot) == 3 && w.lines(dir, name+"-1", journal.Join) >= 4 && w.lines(dir, name+"-1", journal.ClockDone) >= 100
	})
	return spot[0]
}

// spotPods returns the pods of a run, or of all, that run on spot nodes and will continue.
func (w *world) spotPods(run string) (names []string) {
	w.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: "tierml.dev/class=spot"})
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range list.Items {
		if (run == "" || strings.HasPrefix(p.Name, run+"-")) && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// until waits for a condition.
func (w *world) until(what string, done func() bool) {
	w.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not within 10 minutes: %s", what)
		}
	}
}

// lines counts a run's journal lines of a kind.
func (w *world) lines(dir, run string, kind journal.Kind) int {
	text, _ := os.ReadFile(filepath.Join(dir, rundir.Root, run, rundir.JournalFile)) // none yet
	return bytes.Count(text, []byte(`"kind":"`+string(kind)+`"`))
}
