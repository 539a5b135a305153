package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tierml/tierml/internal/journal"
)

// managing configures Kueue's manager here: its own certificates, which its webhooks get, and pods are all that it manages.
const managing = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %s, certDir: %s}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: true, webhookServiceName: kueue-webhook-service, webhookSecretName: kueue-webhook-server-cert}
integrations: {frameworks: [pod]}
featureGates: {VisibilityOnDemand: false, MultiKueue: false}
`

// queueing is a queue for the pods of namespace tierml. The quota of vCPUs is scarce.
const queueing = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, memory, ephemeral-storage]
      flavors: [{name: any, resources: [{name: cpu, nominalQuota: %d}, {name: memory, nominalQuota: 1Ti}, {name: ephemeral-storage, nominalQuota: 1Ti}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: research, namespace: tierml}
spec: {clusterQueue: team}
`

// kueue installs Kueue with its own chart and runs its manager until the test ends. The API server reaches its webhooks as a Service with a
// name of this host.
func (w *world) kueue() {
	w.Helper()
	manager, chart := os.Getenv("TIERML_KUEUE"), os.Getenv("TIERML_KUEUE_CHART")
	if manager == "" {
		w.Skip("make test-kube builds Kueue's manager")
	}
	folder := w.TempDir()
	_, port, _ := strings.Cut(freeAddress(w.T), ":")
	health := freeAddress(w.T)
	text := "{apiVersion: v1, kind: Namespace, metadata: {name: kueue-system}}\n" + w.command(os.Getenv("TIERML_HELM"), "template", "kueue", chart, "--namespace=kueue-system",
		"--show-only=templates/crd/*", "--show-only=templates/webhook/*", "--show-only=templates/internalcert/*")
	text = regexp.MustCompile(`(?m)^( +)path: /(convert|mutate|validate)`).ReplaceAllString(text, "${1}port: "+port+"\n$0")
	text = regexp.MustCompile(`(?ms)^  type: 'ClusterIP'.*?^---`).ReplaceAllString(text, "  type: ExternalName\n  externalName: localhost\n---")
	all, config := filepath.Join(folder, "kueue.yaml"), filepath.Join(folder, "config.yaml")
	for path, text := range map[string]string{all: text, config: fmt.Sprintf(managing, health, port, folder)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	w.kubectl("apply", "--server-side", "-f", all)
	log, err := os.Create(filepath.Join(filepath.Dir(manager), "..", "kueue.log")) // next to the API server's
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(manager, "--config", config, "--kubeconfig", os.Getenv("KUBECONFIG"), "--zap-log-level=3")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		// What remains does not concern pods.
		if out, err := exec.Command(os.Getenv("TIERML_KUBECTL"), "delete", "--ignore-not-found", "mutatingwebhookconfiguration/kueue-mutating-webhook-configuration",
			"validatingwebhookconfiguration/kueue-validating-webhook-configuration").CombinedOutput(); err != nil {
			w.Errorf("removing Kueue's webhooks: %v\n%s", err, out)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	w.until("Kueue has made a certificate", func() bool { return w.mount("kueue-system", "kueue-webhook-server-cert", folder) })
	w.until("Kueue is ready", func() bool {
		answer, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// mount writes the files of a Secret, if it has any, as a kubelet does.
func (w *world) mount(namespace, name, folder string) bool {
	secret, err := w.client.CoreV1().Secrets(namespace).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for _, file := range []string{"ca.crt", "tls.key", "tls.crt"} { // the last one is awaited
		if len(secret.Data[file]) == 0 {
			return false
		}
		if err := os.WriteFile(filepath.Join(folder, file), secret.Data[file], 0o600); err != nil {
			w.Fatal(err)
		}
	}
	return true
}

// workload is Kueue's object for a group of pods.
type workload struct {
	Spec   struct{ PodSets []struct{ Count int } }
	Status struct{ Conditions []metav1.Condition }
}

// says returns the message of a condition with a status; empty = it does not hold.
func (l workload) says(kind string, status metav1.ConditionStatus) string {
	for _, c := range l.Status.Conditions {
		if c.Type == kind && c.Status == status {
			return c.Message
		}
	}
	return ""
}

// workloads returns the workloads of the jobs' pods.
func (w *world) workloads() (all []workload) {
	w.Helper()
	var list struct{ Items []workload }
	if err := json.Unmarshal([]byte(w.kubectl("--namespace", w.namespace, "get", "workloads.kueue.x-k8s.io", "--output=json")), &list); err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// used returns the queue's reserved vCPUs.
func (w *world) used() string {
	w.Helper()
	return w.kubectl("get", "clusterqueue", "team", `--output=jsonpath={.status.flavorsReservation[0].resources[?(@.name=="cpu")].total}`)
}

// quota sets the queue's quota.
func (w *world) quota(cpus int) {
	w.Helper()
	path := filepath.Join(w.TempDir(), "queue.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, queueing, cpus), 0o600); err != nil {
		w.Fatal(err)
	}
	w.kubectl("apply", "-f", path)
}

// gated returns the pods of jobs that wait for quota.
func (w *world) gated() (names []string) {
	w.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: "kueue.x-k8s.io/managed=true"})
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range list.Items {
		if slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == "kueue.x-k8s.io/admission" }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Kueue itself holds back a job's pods, and admits those of a launch together: none if the quota is too small for all. An evicted pod
// leaves its quota to the next one, and so does one whose node is lost; when Kueue itself evicts a launch's pods, their replacements wait.
// The job's end returns everything. The model is that of one process.
func TestRealQueue(t *testing.T) {
	w := newWorld(t)
	w.kueue()
	w.quota(0)
	dir := w.job("queued", "clocks: 60", "clocks: 16000", "max_duration: 2h", "max_duration: 2h\ncheckpoint: {every: 10m}", "  nodes: karpenter", "  queue: research\n  gang: true\n  nodes: karpenter")
	done := make(chan error, 1)
	go func() { _, err := w.tierml(dir, "run", "-y", "--here", "job.yaml"); done <- err }()
	wait := func(pods int, why string) {
		t.Helper()
		w.until(fmt.Sprintf("%d pods wait: %s", pods, why), func() bool {
			return len(w.gated()) == pods && slices.ContainsFunc(w.workloads(), func(l workload) bool {
				return len(l.Spec.PodSets) == 1 && l.Spec.PodSets[0].Count == pods && strings.Contains(l.says("QuotaReserved", metav1.ConditionFalse), why)
			})
		})
	}
	wait(1, "request (1) > maximum capacity (0)") // the reliable pod
	w.quota(1)
	wait(3, "request (3) > maximum capacity (1)") // those on spot nodes, when that one exists
	w.quota(3)
	wait(3, "1 more needed")
	if running := w.spotPods("queued-1"); len(running) > 0 || w.used() != "1" {
		t.Errorf("with quota for two of three, %v run, and %s vCPUs are reserved", running, w.used())
	}
	w.quota(4)
	for _, loss := range []struct {
		pods    int
		command string
	}{
		{1, `delete --wait=false pod/POD`},
		{1, `patch --subresource=status --patch={"status":{"phase":"Failed","reason":"NodeLost"}} pod/POD`},
		{3, `patch --type=merge --patch={"spec":{"active":false}} workload/GROUP`},
	} {
		victim := w.inTheMiddle("queued", dir)
		before, joined := w.spotPods("queued-1"), w.lines(dir, "queued-1", journal.Join)
		group := w.kubectl("--namespace", w.namespace, "get", "pod", victim, `--output=jsonpath={.metadata.labels.kueue\.x-k8s\.io/pod-group-name}`)
		command := strings.Fields(strings.NewReplacer("POD", victim, "GROUP", group).Replace(loss.command))
		w.kubectl(append([]string{"--namespace", w.namespace}, command...)...)
		w.until("others train in the quota of the lost", func() bool {
			select {
			case err := <-done:
				t.Fatalf("it was over before the others came: %v", err)
			default:
			}
			now := w.spotPods("queued-1")
			return len(now) == 3 && !slices.Contains(now, victim) && w.lines(dir, "queued-1", journal.Join) >= joined+loss.pods
		})
		t.Logf("%s: %v were followed by %v", loss.command, before, w.spotPods("queued-1"))
		if used := w.used(); used != "4" {
			t.Errorf("%s vCPUs are reserved, want 4", used)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.checkAsOneProcess(dir, "queued-1")
	w.checkEmpty()
	w.until("nothing is reserved", func() bool { return w.used() == "0" })
	w.until("no workload is left", func() bool { return len(w.workloads()) == 0 })
}
