package api_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientgo "k8s.io/client-go/testing"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
)

func gang(c *api.Config) { c.Queue, c.Gang = "team", true }

// members returns the groups of a launch's pods, and their number of pods; all other pods have the launch's own group.
func members(t *testing.T, client kubernetes.Interface, got []provisioner.Instance) map[string]int {
	t.Helper()
	in := map[string]int{}
	for _, i := range got {
		pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), string(i.ID), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		group := pod.Labels["kueue.x-k8s.io/pod-group-name"]
		if strings.HasPrefix(pod.Name, group+"-") {
			group = "own"
		} else if group != "" {
			group = "first"
		}
		in[group+" of "+pod.Annotations["kueue.x-k8s.io/pod-group-total-count"]]++
	}
	return in
}

// The pods of a launch are a Kueue group. Those of a later launch replace similar pods that have failed, as long as another pod of their
// group lives.
func TestGangsOfAQueue(t *testing.T) {
	own := func(n int) map[string]int { return map[string]int{"own of " + string(rune('0'+n)): n} }
	for _, c := range []struct {
		name       string
		failed, ok int // of three pods, how many have failed, and have succeeded
		next       provisioner.Request
		want       map[string]int
	}{
		{"nothing has happened", 0, 0, request(2), own(2)},
		{"one has failed", 1, 0, request(1), map[string]int{"first of 3": 1}},
		{"one has failed, three are wanted", 1, 0, request(3), map[string]int{"first of 3": 1, "own of 2": 2}},
		{"two have failed, one is wanted", 2, 0, request(1), map[string]int{"first of 3": 1}},
		{"one has ended well: its quota is free", 0, 1, request(1), own(1)},
		{"all have ended", 2, 1, request(1), own(1)},
		{"pods of other nodes are wanted", 1, 0, provisioner.Request{Pool: pool(market.OnDemand), Count: 1}, own(1)},
	} {
		client := newClientset()
		cloud, _ := launchWith(t, client, request(3), gang)
		first, err := cloud.Launch(t.Context(), request(3))
		if err != nil {
			t.Fatal(err)
		}
		if got := members(t, client, first); !maps.Equal(got, own(3)) {
			t.Errorf("%s: the first are %v", c.name, got)
		}
		for i, one := range first[:c.failed+c.ok] {
			phase := corev1.PodFailed
			if i >= c.failed {
				phase = corev1.PodSucceeded
			}
			end(t, client, one.ID, phase)
		}
		c.next.Token = "next"
		for range 2 { // the same when repeated
			got, err := cloud.Launch(t.Context(), c.next)
			if in := members(t, client, got); err != nil || !maps.Equal(in, c.want) {
				t.Errorf("%s: %v, %v, want %v", c.name, in, err, c.want)
			}
		}
	}
}

// end makes a pod on a node end.
func end(t *testing.T, client kubernetes.Interface, id provisioner.InstanceID, phase corev1.PodPhase) {
	t.Helper()
	pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), string(id), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = phase
	if _, err := client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// While a pod ends Kueue keeps its quota: its replacement waits until its place is free.
func TestGangWaitsForAPlace(t *testing.T) {
	client := newClientset()
	startNodes(t, client, "")
	cloud, _ := launchWith(t, client, request(3), gang)
	until(t, "all run", func() bool { return running(t, cloud) == 3 })
	first, err := cloud.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Preempt(t.Context(), first[0].ID); err != nil { // it has two seconds, which kubelet.Nothing uses
		t.Fatal(err)
	}
	next := request(1)
	next.Token = "next"
	got, err := cloud.Launch(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	if in := members(t, client, got); !maps.Equal(in, map[string]int{"first of 3": 1}) {
		t.Errorf("it is in %v", in)
	}
}

// A launch that gets fewer pods than requested is a group of those.
func TestShortGang(t *testing.T) {
	client := newClientset()
	left := 2
	client.PrependReactor("create", "pods", func(clientgo.Action) (bool, runtime.Object, error) {
		if left--; left < 0 {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("exceeded quota: compute, requested: cpu=1"))
		}
		return false, nil, nil
	})
	cloud, _ := launchWith(t, client, request(3), gang)
	got, err := cloud.Launch(t.Context(), request(3))
	if in := members(t, client, got); err != nil || !maps.Equal(in, map[string]int{"own of 2": 2}) {
		t.Errorf("%v, %v", in, err)
	}
}

// A pod whose group has ended before it was created waits forever: it is deleted, and the next one has a group of its own.
func TestGroupEndsBeforeAPodJoins(t *testing.T) {
	client := newClientset()
	cloud, _ := launchWith(t, client, request(2), gang)
	first, err := cloud.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end(t, client, first[0].ID, corev1.PodFailed)
	armed := true
	client.PrependReactor("create", "pods", func(clientgo.Action) (bool, runtime.Object, error) {
		if armed {
			armed = false
			pods := corev1.SchemeGroupVersion.WithResource("pods") // a reactor must not call a client
			found, err := client.Tracker().Get(pods, namespace, string(first[1].ID))
			if err != nil {
				return true, nil, err
			}
			pod := found.(*corev1.Pod).DeepCopy()
			pod.Status.Phase = corev1.PodFailed
			if err := client.Tracker().Update(pods, pod, namespace); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	next := request(1)
	for _, token := range []string{"next", "last"} {
		next.Token = token
		got, err := cloud.Launch(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		switch over := got[0].State == provisioner.Terminated; {
		case token == "next" && !over:
			t.Errorf("%+v waits", got[0])
		case token == "last" && (over || !maps.Equal(members(t, client, got), map[string]int{"own of 1": 1})):
			t.Errorf("%+v is in %v", got[0], members(t, client, got))
		}
	}
}
