package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gating has the API server gate pods that name a queue, as Kueue's webhook does.
const gating = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: queue}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions: [{name: queued, expression: "object.metadata.?labels['kueue.x-k8s.io/queue-name'].orValue('') == 'research'"}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: "Object{spec: Object.spec{schedulingGates: [Object.spec.schedulingGates{name: 'kueue.x-k8s.io/admission'}]}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: queue}
spec: {policyName: queue}
`

// Pods of a queue wait behind its gate, and the job with them: it trains when there is quota, with no more pods than it wanted, and the
// model is that of one process.
func TestRealQueue(t *testing.T) {
	w := newWorld(t)
	policy := filepath.Join(t.TempDir(), "gating.yaml")
	if err := os.WriteFile(policy, []byte(gating), 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubectl("apply", "-f", policy)
	trial := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(trial, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: trial, labels: {kueue.x-k8s.io/queue-name: research}}, spec: {containers: [{name: it, image: it}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.until("the policy counts", func() bool { // the API server takes a moment to compile it
		return strings.Contains(w.kubectl("--namespace=default", "create", "--dry-run=server", "--output=yaml", "-f", trial), "kueue.x-k8s.io/admission")
	})
	dir := w.job("queued", "clocks: 60", "clocks: 4000", "  nodes: karpenter", "  queue: research\n  gang: true\n  nodes: karpenter")
	done := make(chan error, 1)
	go func() { _, err := w.tierml(dir, "run", "-y", "--here", "job.yaml"); done <- err }()
	groups := map[string]string{} // pods by the group that Kueue admits together
	gated := func() (names []string) {
		list, err := w.client.CoreV1().Pods(w.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kueue.x-k8s.io/queue-name=research"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if len(p.Spec.SchedulingGates) > 0 {
				names = append(names, p.Name)
				groups[p.Name] = p.Labels["kueue.x-k8s.io/pod-group-name"] + " of " + p.Annotations["kueue.x-k8s.io/pod-group-total-count"]
			}
		}
		return names
	}
	for _, want := range []int{1, 3} { // the reliable pod, and when that is there those on spot nodes
		var waiting []string
		w.until("pods wait for quota", func() bool { waiting = gated(); return len(waiting) == want })
		if running := w.spotPods("queued-1"); len(running) > 0 {
			t.Errorf("without quota %v run", running)
		}
		for _, name := range waiting {
			if of := groups[name]; of != groups[waiting[0]] || !strings.HasSuffix(of, fmt.Sprintf(" of %d", want)) || strings.HasPrefix(of, " ") {
				t.Errorf("%s is in group %s, want one of %d", name, of, want)
			}
			w.kubectl("--namespace", w.namespace, "patch", "pod", name, "--type=json", "--patch", `[{"op": "remove", "path": "/spec/schedulingGates"}]`)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if more := gated(); len(more) > 0 {
		t.Errorf("%v were made though nothing was lost", more)
	}
	w.checkAsOneProcess(dir, "queued-1")
	w.checkEmpty()
	w.kubectl("delete", "-f", policy)
}
