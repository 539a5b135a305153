package api_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tierml/tierml/fakecloud/kubelet"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
)

// launchWith launches pods with a changed configuration, and returns one.
func launchWith(t *testing.T, client kubernetes.Interface, r provisioner.Request, change func(*api.Config)) (*api.Cloud, *corev1.Pod) {
	t.Helper()
	c := config(client, "run")
	change(&c)
	cloud, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cloud.Launch(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), string(got[0].ID), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cloud, pod
}

// A node has as many pods with GPUs as it has devices; the plan sees them.
func TestPodsWithGPUs(t *testing.T) {
	client := newClientset()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	k := kubelet.New(kubelet.Config{Client: client, Runtime: kubelet.Nothing{}, Node: "gpus", CPU: 64, Memory: 256 << 30, Look: 20 * time.Millisecond, Devices: map[string]int64{"nvidia.com/gpu": 2},
		Labels: map[string]string{corev1.LabelTopologyZone: "us-central1-a", corev1.LabelInstanceTypeStable: "n2-standard-4", "karpenter.sh/capacity-type": "spot", "nvidia.com/gpu.product": "NVIDIA-L4"}})
	go func() { defer close(ended); _ = k.Run(ctx) }()
	cloud, pod := launchWith(t, client, request(3), func(c *api.Config) { c.Extended = map[string]int{"nvidia.com/gpu": 1} })
	for _, list := range []corev1.ResourceList{pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits} {
		if q := list["nvidia.com/gpu"]; q.Value() != 1 {
			t.Errorf("%v", list)
		}
	}
	if !slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool {
		return o.Key == "nvidia.com/gpu" && o.Operator == corev1.TolerationOpExists
	}) {
		t.Errorf("the taint of nodes with GPUs is not tolerated: %v", pod.Spec.Tolerations)
	}
	until(t, "two run, and the third waits", func() bool {
		count := map[provisioner.State]int{}
		list, err := cloud.List(t.Context())
		for _, i := range list {
			count[i.State]++
		}
		return err == nil && count[provisioner.Running] == 2 && count[provisioner.Pending] == 1
	})
	nodes, err := cloud.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].Extended["nvidia.com/gpu"] != 2 || nodes[0].GPU != "NVIDIA-L4" {
		t.Errorf("%+v, %v", nodes, err)
	}
	if !nodes[0].Has(map[string]int{"nvidia.com/gpu": 2}) || nodes[0].Has(map[string]int{"nvidia.com/gpu": 3}) {
		t.Error("a node has two GPUs")
	}
}

// Labels say how nodes are sold, and in which region they are.
func TestLabelsOfNodes(t *testing.T) {
	client := newClientset()
	for name, label := range map[string]string{"a": "karpenter.sh/nodepool", "b": "cloud.google.com/gke-nodepool", "c": "eks.amazonaws.com/nodegroup", "d": "kubernetes.io/hostname"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "x", corev1.LabelTopologyRegion: "region-" + name}}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	nodes, err := newCloud(t, client, "run").Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]api.Nodes{}
	for _, n := range nodes {
		kinds[n.Region] = n.Kind
	}
	if want := map[string]api.Nodes{"region-a": api.Karpenter, "region-b": api.GKE, "region-c": api.EKS, "region-d": api.Plain}; !maps.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
	if api.KindOf(nodes) != api.Karpenter || api.KindOf(nil) != api.Plain {
		t.Errorf("%s, %s", api.KindOf(nodes), api.KindOf(nil))
	}
}

func TestPatchOfAJobIsMerged(t *testing.T) {
	patch := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"team": "speech", "app.kubernetes.io/managed-by": "me"}},
		"spec": map[string]any{
			"imagePullSecrets": []any{map[string]any{"name": "registry"}}, "nodeSelector": map[string]any{"pool": "ml"}, "priorityClassName": "low",
			"tolerations": []any{map[string]any{"key": "ml", "operator": "Exists"}},
			"volumes":     []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "corpus"}}},
			"containers":  []any{map[string]any{"name": "agent", "volumeMounts": []any{map[string]any{"name": "data", "mountPath": "/data"}}}},
		},
	}
	if problem := api.CheckPatch(patch); problem != "" {
		t.Fatal(problem)
	}
	own := func(c *api.Config) { c.Patch, c.PriorityClass = patch, "reliable" }
	client := newClientset()
	_, pod := launchWith(t, client, request(1), own)
	s := pod.Spec
	if pod.Labels["team"] != "speech" || pod.Labels["app.kubernetes.io/managed-by"] != "tierml" || s.ImagePullSecrets[0].Name != "registry" || s.NodeSelector["pool"] != "ml" ||
		len(s.Tolerations) != 4 || len(s.Volumes) != 3 || len(s.Containers) != 1 || len(s.Containers[0].VolumeMounts) != 3 || s.Containers[0].Command[1] != "agent" || s.PriorityClassName != "low" {
		t.Errorf("%+v", pod)
	}
	reliable := request(1)
	reliable.Token, reliable.Pool = "reliable", pool(market.OnDemand)
	if _, pod = launchWith(t, client, reliable, own); pod.Spec.PriorityClassName != "reliable" {
		t.Errorf("reliable pods have class %s", pod.Spec.PriorityClassName)
	}
}

func TestLockedFieldsOfPods(t *testing.T) {
	spec := func(name string, value any) map[string]any {
		return map[string]any{"spec": map[string]any{name: value}}
	}
	inside := func(more map[string]any) map[string]any { return spec("containers", []any{more}) }
	for want, patch := range map[string]map[string]any{
		"spec.restartPolicy is TierML's own":                spec("restartPolicy", "Always"),
		"spec.serviceAccountName is TierML's own":           spec("serviceAccountName", "admin"),
		"spec.hostNetwork is TierML's own":                  spec("hostNetwork", true),
		"spec.schedulingGates is TierML's own":              spec("schedulingGates", []any{}),
		"spec.containers[].securityContext.privileged is":   inside(map[string]any{"name": "agent", "securityContext": map[string]any{"privileged": true}}),
		"spec.containers[].image is TierML's own":           inside(map[string]any{"name": "agent", "image": "other"}),
		"may have one container, called agent":              inside(map[string]any{"name": "sidecar"}),
		"metadata.name is TierML's own":                     {"metadata": map[string]any{"name": "mine"}},
		"tierml.dev/run is TierML's own":                    {"metadata": map[string]any{"labels": map[string]any{"tierml.dev/run": "x"}}},
		"is no part of a pod: unknown field \"volume\"":     spec("volumes", []any{map[string]any{"name": "a", "volume": "b"}}),
		"is no part of a pod: cannot unmarshal string into": spec("tolerations", []any{"all"}),
		"status is TierML's own":                            {"status": "Running"},
	} {
		if problem := api.CheckPatch(patch); !strings.Contains(problem, want) {
			t.Errorf("%v: %q, want %q", patch, problem, want)
		}
	}
}

// A drain takes reliable pods one at a time, and they are on nodes of their own if there are enough.
func TestReliablePodsAreProtected(t *testing.T) {
	client := newClientset()
	r := request(3)
	r.Pool = pool(market.OnDemand)
	cloud, pod := launchWith(t, client, r, func(*api.Config) {})
	if s := pod.Spec.TopologySpreadConstraints; len(s) != 1 || s[0].TopologyKey != corev1.LabelHostname || s[0].WhenUnsatisfiable != corev1.ScheduleAnyway {
		t.Errorf("spread by %v", s)
	}
	budgets, err := client.PolicyV1().PodDisruptionBudgets(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(budgets.Items) != 1 || budgets.Items[0].Spec.MinAvailable.IntValue() != 2 {
		t.Fatalf("%+v, %v", budgets, err)
	}
	chosen, err := metav1.LabelSelectorAsSelector(budgets.Items[0].Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: chosen.String()})
	if err != nil || len(pods.Items) != 3 {
		t.Errorf("the budget is of %d pods, %v", len(pods.Items), err)
	}
	if _, err := cloud.Launch(t.Context(), r); err != nil { // again
		t.Error(err)
	}
	spot := request(2)
	spot.Token = "spot"
	if _, pod = launchWith(t, client, spot, func(*api.Config) {}); len(pod.Spec.TopologySpreadConstraints) > 0 {
		t.Error("spot pods are spread")
	}
	if budgets, err = client.PolicyV1().PodDisruptionBudgets(namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(budgets.Items) != 1 {
		t.Errorf("spot pods have a budget: %+v, %v", budgets, err)
	}
}

// `kubectl describe configmap RUN` shows a run's events; those of a pod are on the pod, too.
func TestEventsOfARun(t *testing.T) {
	client := newClientset()
	startNodes(t, client, "")
	cloud, pod := launchWith(t, client, request(1), func(*api.Config) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cloud.Notify(ctx, func(provisioner.Notice) {}) }()
	until(t, "running", func() bool {
		list, err := cloud.List(t.Context())
		return err == nil && list[0].State == provisioner.Running
	})
	if err := cloud.Preempt(t.Context(), provisioner.InstanceID(pod.Name)); err != nil {
		t.Fatal(err)
	}
	until(t, "launch, notice and loss have events", func() bool {
		events, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		reasons, of := map[string]string{}, map[string]string{}
		for _, e := range events.Items {
			switch about := e.InvolvedObject; {
			case about.Kind == "ConfigMap" && about.UID != "":
				reasons[e.Reason] = e.Message
			case about.Kind == "Pod" && about.Name == pod.Name && about.UID == pod.UID:
				of[e.Reason] = e.Message
			}
		}
		if of["Evicted"] != reasons["Evicted"] || of["Lost"] != reasons["Lost"] {
			return false
		}
		return err == nil && strings.HasPrefix(reasons["Launched"], "1 of 1 pods of kubernetes/us-central1") && strings.Contains(reasons["Evicted"], "EvictionByEvictionAPI") && reasons["Lost"] != ""
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
