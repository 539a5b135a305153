package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clientgo "k8s.io/client-go/testing"

	"github.com/tierml/tierml/fakecloud/kubelet"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

// The contract, on client-go's fake API server with nodes of the fake cloud's kubelet.
func TestExam(t *testing.T) {
	client := newClientset()
	startNodes(t, client, "")
	runs := 0
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject {
		runs++
		return subject(t, client, fmt.Sprintf("run-%d", runs))
	})
}

func request(count int) provisioner.Request {
	return provisioner.Request{Token: "token", Pool: pool(market.Spot), Count: count, UserData: "data", Tags: map[string]string{"job": "a"}}
}

// A launch whose process dies before any of its calls, after the previous one, leaves the rest to the next process: that process creates
// only the missing pods, and in the end nothing is left behind.
func TestCrashAtEveryStep(t *testing.T) {
	for step := 0; ; step++ {
		client, crashed := crash(t, step)
		checkAfterCrash(t, client, fmt.Sprintf("step %d", step))
		if !crashed {
			if step < 6 {
				t.Errorf("a launch of 3 has made %d calls only", step)
			}
			break
		}
	}
}

// crash launches three pods, and dies at a step.
func crash(t *testing.T, step int) (client *fake.Clientset, crashed bool) {
	t.Helper()
	client = newClientset()
	calls := 0
	client.PrependReactor("*", "*", func(clientgo.Action) (bool, runtime.Object, error) {
		if calls++; calls > step {
			crashed = true
		}
		return crashed, nil, errors.New("the process is dead")
	})
	_, err := newCloud(t, client, "run").Launch(t.Context(), request(3))
	if crashed == (err == nil) {
		t.Fatalf("step %d: %v", step, err)
	}
	client.ReactionChain = client.ReactionChain[1:] // the next process lives
	return client, crashed
}

// Pods that could have run and are deleted between a crash and the next process's first call are not launched again, and those that could
// not have run are.
func TestPodsDeletedAfterACrash(t *testing.T) {
	for step, crashed := 0, true; crashed; step++ {
		var client *fake.Clientset
		client, crashed = crash(t, step)
		in := client.CoreV1().Pods(namespace)
		list, err := in.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ran := map[string]bool{}
		for _, p := range list.Items {
			if err := in.Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if len(p.Spec.SchedulingGates) == 0 {
				ran[p.Name] = true
			}
		}
		if _, err := newCloud(t, client, "run").Launch(t.Context(), request(3)); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if list, err = in.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if ran[p.Name] || len(p.Spec.SchedulingGates) > 0 {
				t.Errorf("step %d: %s runs twice, or waits for ever (%v)", step, p.Name, p.Spec.SchedulingGates)
			}
		}
		if n := len(list.Items) + len(ran); n > 3 {
			t.Errorf("step %d: %d pods could run, 3 are wanted", step, n)
		}
		if !crashed && len(ran) != 3 {
			t.Errorf("after a whole launch %d of 3 pods could run", len(ran))
		}
	}
}

func checkAfterCrash(t *testing.T, client kubernetes.Interface, when string) {
	t.Helper()
	next := newCloud(t, client, "run")
	before, err := next.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := next.Launch(t.Context(), request(3))
	if err != nil || len(got) != 3 {
		t.Fatalf("%s: the next process got %v, %v", when, got, err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 3 {
		t.Errorf("%s: %d pods, want 3 (%v)", when, len(pods.Items), err)
	}
	for _, i := range before {
		if !slices.ContainsFunc(got, func(g provisioner.Instance) bool { return g.ID == i.ID && g.Launched.Equal(i.Launched) }) {
			t.Errorf("%s: %s was there and is not any more", when, i.ID)
		}
	}
	if err := next.Terminate(t.Context(), got[0].ID, got[1].ID, got[2].ID); err != nil {
		t.Fatal(err)
	}
	if err := next.RemoveLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := everything(t, client); len(left) > 0 {
		t.Errorf("%s: left behind: %v", when, left)
	}
}

// everything returns the contents of the namespace.
func everything(t *testing.T, client kubernetes.Interface) (all []string) {
	t.Helper()
	in := client.CoreV1()
	pods, err := in.Pods(namespace).List(t.Context(), metav1.ListOptions{})
	secrets, err2 := in.Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	maps, err3 := in.ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=tierml"})
	budgets, err4 := client.PolicyV1().PodDisruptionBudgets(namespace).List(t.Context(), metav1.ListOptions{})
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	for _, b := range budgets.Items {
		all = append(all, "budget "+b.Name)
	}
	for _, p := range pods.Items {
		all = append(all, "pod "+p.Name)
	}
	for _, s := range secrets.Items {
		all = append(all, "secret "+s.Name)
	}
	for _, m := range maps.Items {
		all = append(all, "config map "+m.Name)
	}
	return all
}

// A pod that a queue holds back waits: it has not failed, and nothing is reported about it.
func TestGatedPodsWait(t *testing.T) {
	client := newClientset()
	c := config(client, "run")
	c.Queue = "team"
	cloud, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("create", "pods", func(a clientgo.Action) (bool, runtime.Object, error) { // as Kueue's webhook does
		if p, ok := a.(clientgo.CreateAction).GetObject().(*corev1.Pod); ok && p.Labels["kueue.x-k8s.io/queue-name"] == "team" {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
		}
		return false, nil, nil
	})
	startNodes(t, client, "") // later reactors would race with its calls
	got, err := cloud.Launch(t.Context(), request(1))
	if err != nil {
		t.Fatal(err)
	}
	if got[0].State != provisioner.Pending || got[0].Reason != "waits for kueue.x-k8s.io/admission" {
		t.Errorf("%+v", got[0])
	}
	pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), string(got[0].ID), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Spec.SchedulingGates = nil
	if _, err := client.CoreV1().Pods(namespace).Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "it runs when admitted", func() bool {
		list, err := cloud.List(t.Context())
		return err == nil && list[0].State == provisioner.Running
	})
}

func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

type use struct {
	right api.Right
	says  string
	do    func(ctx context.Context, c *api.Cloud) error
}

// uses maps each right to what is impossible without it, and the beginning of its error.
var uses = []use{
	{api.Right{Verb: "get", Resource: "configmaps"}, launchingOne, launchOne},
	{api.Right{Verb: "create", Resource: "configmaps"}, launchingOne, launchOne},
	{api.Right{Verb: "create", Resource: "secrets"}, launchingOne, launchOne},
	{api.Right{Verb: "get", Resource: "secrets"}, launchingOne, func(ctx context.Context, c *api.Cloud) error {
		return errors.Join(launchOne(ctx, c), launchOne(ctx, c)) // as after a crash
	}},
	{api.Right{Verb: "create", Resource: "pods"}, launchingOne, launchOne},
	{api.Right{Verb: "patch", Resource: "secrets"}, launchingOne, launchOne},
	{api.Right{Verb: "create", Resource: "poddisruptionbudgets"}, launchingOne, func(ctx context.Context, c *api.Cloud) error {
		r := request(1)
		r.Pool = pool(market.OnDemand)
		_, err := c.Launch(ctx, r)
		return err
	}},
	{api.Right{Verb: "list", Resource: "pods"}, "listing pods", func(ctx context.Context, c *api.Cloud) error { _, err := c.List(ctx); return err }},
	{api.Right{Verb: "watch", Resource: "pods"}, "watching pods", func(ctx context.Context, c *api.Cloud) error { return c.Notify(ctx, func(provisioner.Notice) {}) }},
	{api.Right{Verb: "delete", Resource: "pods"}, "deleting pod run-x-0", func(ctx context.Context, c *api.Cloud) error { return c.Terminate(ctx, "run-x-0") }},
	{api.Right{Verb: "patch", Resource: "pods"}, "renewing the lease of pod run-x-0", func(ctx context.Context, c *api.Cloud) error {
		return c.Renew(ctx, "1", time.Now(), "run-x-0")
	}},
	{api.Right{Verb: "create", Resource: "pods/eviction"}, "evicting pod run-x-0", func(ctx context.Context, c *api.Cloud) error { return c.Preempt(ctx, "run-x-0") }},
	{api.Right{Verb: "list", Resource: "configmaps"}, "listing config maps", func(ctx context.Context, c *api.Cloud) error { return c.RemoveLeftovers(ctx) }},
	{api.Right{Verb: "delete", Resource: "configmaps"}, "deleting config map", func(ctx context.Context, c *api.Cloud) error {
		got, err := c.Launch(ctx, request(1))
		if err != nil {
			return err
		}
		return errors.Join(c.Terminate(ctx, got[0].ID), c.RemoveLeftovers(ctx))
	}},
}

const launchingOne = "launching 1 of kubernetes/us-central1"

// denied checks the error for a missing right.
func denied(t *testing.T, right api.Right, says string, err error) {
	t.Helper()
	if !errors.Is(err, provisioner.ErrDenied) || !strings.HasPrefix(err.Error(), says) || !strings.Contains(err.Error(), fmt.Sprintf("cannot %s resource %q", right.Verb, right.Resource)) {
		t.Errorf("%v", err)
	}
}

// Each denied verb has an error that says what was being done, and is not retried forever. TestRealDeniedVerbs checks a real server.
func TestDeniedVerbs(t *testing.T) {
	for _, right := range api.Rights {
		if !slices.ContainsFunc(uses, func(u use) bool { return u.right == right }) {
			t.Errorf("what is it for to %s?", right)
		}
	}
	for _, c := range uses {
		t.Run(c.right.String(), func(t *testing.T) {
			client := newClientset()
			resource, sub, _ := strings.Cut(c.right.Resource, "/")
			no := func(a clientgo.Action) error {
				if a.GetVerb() != c.right.Verb || a.GetResource().Resource != resource || a.GetSubresource() != sub {
					return nil
				}
				return apierrors.NewForbidden(schema.GroupResource{Resource: c.right.Resource}, "", fmt.Errorf("User \"u\" cannot %s resource %q", c.right.Verb, c.right.Resource))
			}
			client.PrependReactor("*", "*", func(a clientgo.Action) (bool, runtime.Object, error) { err := no(a); return err != nil, nil, err })
			client.PrependWatchReactor("*", func(a clientgo.Action) (bool, watch.Interface, error) { err := no(a); return err != nil, nil, err })
			denied(t, c.right, c.says, c.do(t.Context(), newCloud(t, client, "run")))
		})
	}
}

func launchOne(ctx context.Context, c *api.Cloud) error {
	_, err := c.Launch(ctx, request(1))
	return err
}

// A quota of the namespace is a limit, not a missing right; the pods created before it count, and the launch ends with these.
func TestQuotaOfTheNamespace(t *testing.T) {
	client := newClientset()
	left := 2
	client.PrependReactor("create", "pods", func(clientgo.Action) (bool, runtime.Object, error) {
		if left--; left < 0 {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("exceeded quota: compute, requested: cpu=1"))
		}
		return false, nil, nil
	})
	cloud := newCloud(t, client, "run")
	for range 2 {
		got, err := cloud.Launch(t.Context(), request(3))
		if err != nil || len(got) != 2 {
			t.Fatalf("%v, %v", got, err)
		}
		left = 5 // later pods do not belong to this launch
	}
	left = 0
	other := request(1)
	other.Token = "other"
	if _, err := cloud.Launch(t.Context(), other); !errors.Is(err, provisioner.ErrLimit) {
		t.Errorf("%v", err)
	}
}

// A missing priority class is not a missing right.
func TestNoPriorityClass(t *testing.T) {
	client := newClientset()
	client.PrependReactor("create", "pods", func(clientgo.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no PriorityClass with name gold was found"))
	})
	if _, err := newCloud(t, client, "run").Launch(t.Context(), request(1)); !errors.Is(err, provisioner.ErrNotFound) || !strings.Contains(err.Error(), "create the PriorityClass") {
		t.Errorf("%v", err)
	}
}

// A taint that announces a node's end warns its pods before they are deleted; without the right to read nodes everything continues.
func TestTaintOfANode(t *testing.T) {
	client := newClientset()
	startNodes(t, client, "")
	cloud := newCloud(t, client, "run")
	got, err := cloud.Launch(t.Context(), request(1))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "running", func() bool {
		list, err := cloud.List(t.Context())
		return err == nil && list[0].State == provisioner.Running
	})
	ctx, cancel := context.WithCancel(t.Context())
	told, done := make(chan provisioner.Notice, 10), make(chan error, 1)
	go func() { done <- cloud.Notify(ctx, func(n provisioner.Notice) { told <- n }) }()
	node, err := client.CoreV1().Nodes().Get(t.Context(), "spot", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case n := <-told:
		if n.Kind != provisioner.Eviction || n.ID != got[0].ID || n.Deadline.Before(got[0].Launched) {
			t.Errorf("%+v", n)
		}
	case <-time.After(time.Minute):
		t.Error("nothing was told")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A watch that has expired is restarted from a list: what happened meanwhile is reported.
func TestExpiredWatch(t *testing.T) {
	client := newClientset()
	startNodes(t, client, "")
	c := config(client, "run")
	c.Resync = time.Hour // only the watch makes it list
	cloud, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cloud.Launch(t.Context(), request(1))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "running", func() bool {
		list, err := cloud.List(t.Context())
		return err == nil && list[0].State == provisioner.Running
	})
	expired, watching := watch.NewFakeWithOptions(watch.FakeOptions{}), make(chan struct{})
	var first sync.Once
	client.PrependWatchReactor("pods", func(clientgo.Action) (handled bool, _ watch.Interface, _ error) {
		first.Do(func() { handled = true; close(watching) })
		return handled, expired, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	told, done := make(chan provisioner.Notice, 10), make(chan error, 1)
	go func() { done <- cloud.Notify(ctx, func(n provisioner.Notice) { told <- n }) }()
	<-watching
	if err := cloud.Preempt(t.Context(), got[0].ID); err != nil { // which the expired watch does not report
		t.Fatal(err)
	}
	expired.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
	select {
	case n := <-told:
		if n.Kind != provisioner.Eviction || n.ID != got[0].ID {
			t.Errorf("%+v", n)
		}
	case <-time.After(time.Minute):
		t.Error("nothing was told")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A node that comes back under another name has lost its pods: the collector of orphaned pods ends them, which is the cluster's doing.
// Their launch creates no others, and another launch uses the node.
func TestRenamedNode(t *testing.T) {
	client := newClientset()
	node := func(name string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		k := kubelet.New(kubelet.Config{Client: client, Runtime: kubelet.Nothing{}, Node: name, CPU: 64, Memory: 256 << 30, Look: 20 * time.Millisecond,
			Labels: map[string]string{corev1.LabelTopologyZone: "us-central1-a", corev1.LabelInstanceTypeStable: "n2-standard-4", "karpenter.sh/capacity-type": "spot"}})
		go func() { defer close(ended); _ = k.Run(ctx) }()
		return func() { cancel(); <-ended }
	}
	stop := node("before")
	cloud := newCloud(t, client, "run")
	got, err := cloud.Launch(t.Context(), request(2))
	if err != nil {
		t.Fatal(err)
	}
	count := func(state provisioner.State) (n int) {
		list, err := cloud.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if i.State == state {
				n++
			}
		}
		return n
	}
	until(t, "running", func() bool { return count(provisioner.Running) == 2 })
	stop()
	if err := client.CoreV1().Nodes().Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stop = node("after")
	defer stop()
	now := int64(0)
	for _, i := range got { // as the collector does
		pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), string(i.ID), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod.Status.Phase = corev1.PodFailed
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"})
		if _, err := client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := client.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
	}
	again, err := cloud.Launch(t.Context(), request(2))
	if err != nil || len(again) != 2 {
		t.Fatalf("%v, %v", again, err)
	}
	for _, i := range again {
		if i.State != provisioner.Terminated || i.EndedBy != market.ByProvider {
			t.Errorf("%+v, want an end by the cluster", i)
		}
	}
	other := request(2)
	other.Token = "other"
	if _, err := cloud.Launch(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	until(t, "others run", func() bool { return count(provisioner.Running) == 2 && count(provisioner.Terminated) == 2 })
}
