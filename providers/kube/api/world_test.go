package api_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clientgo "k8s.io/client-go/testing"

	"github.com/tierml/tierml/fakecloud/kubelet"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

const namespace = "exam"

// newClientset is client-go's fake API server, plus features that it lacks and an adapter meets: times and ids of objects, deletion with
// grace, bindings and evictions, and the garbage collector.
func newClientset() *fake.Clientset {
	client := fake.NewClientset()
	var made atomic.Int64
	var mu sync.Mutex // for read-modify-write
	client.PrependReactor("create", "*", func(a clientgo.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "" {
			return false, nil, nil
		}
		object, err := meta.Accessor(a.(clientgo.CreateAction).GetObject())
		if err != nil {
			return true, nil, err
		}
		object.SetUID(types.UID(fmt.Sprintf("uid-%d", made.Add(1))))
		object.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
		return false, nil, nil
	})
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	change := func(ns, name string, f func(*corev1.Pod)) error {
		mu.Lock()
		defer mu.Unlock()
		found, err := client.Tracker().Get(pods, ns, name)
		if err != nil {
			return err
		}
		pod := found.(*corev1.Pod).DeepCopy()
		f(pod)
		return client.Tracker().Update(pods, pod, ns)
	}
	client.PrependReactor("create", "pods", func(a clientgo.Action) (bool, runtime.Object, error) {
		switch a.GetSubresource() {
		case "binding":
			b := a.(clientgo.CreateAction).GetObject().(*corev1.Binding)
			return true, b, change(a.GetNamespace(), b.Name, func(p *corev1.Pod) { p.Spec.NodeName = b.Target.Name })
		case "eviction":
			e := a.(clientgo.CreateAction).GetObject().(*policyv1.Eviction)
			return true, e, change(a.GetNamespace(), e.Name, func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
				doom(p, *p.Spec.TerminationGracePeriodSeconds)
			})
		}
		return false, nil, nil
	})
	client.PrependReactor("delete", "pods", func(a clientgo.Action) (bool, runtime.Object, error) {
		d := a.(clientgo.DeleteAction)
		found, err := client.Tracker().Get(pods, a.GetNamespace(), d.GetName())
		if err != nil {
			return true, nil, err
		}
		grace := d.GetDeleteOptions().GracePeriodSeconds
		if found.(*corev1.Pod).Spec.NodeName == "" || grace != nil && *grace == 0 {
			return false, nil, nil // no wait is needed
		}
		return true, nil, change(a.GetNamespace(), d.GetName(), func(p *corev1.Pod) {
			seconds := *p.Spec.TerminationGracePeriodSeconds
			if grace != nil {
				seconds = *grace
			}
			doom(p, seconds)
		})
	})
	client.PrependReactor("update", "pods", func(a clientgo.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "status" {
			return false, nil, nil
		}
		u := a.(clientgo.UpdateAction).GetObject().(*corev1.Pod) // an API server updates only its status: a pod stays doomed
		return true, u, change(a.GetNamespace(), u.Name, func(p *corev1.Pod) {
			for _, c := range p.Status.Conditions { // unknown to the reader of an older version
				if !slices.ContainsFunc(u.Status.Conditions, func(has corev1.PodCondition) bool { return has.Type == c.Type }) {
					u.Status.Conditions = append(u.Status.Conditions, c)
				}
			}
			p.Status = u.Status
		})
	})
	client.PrependReactor("delete", "configmaps", func(a clientgo.Action) (bool, runtime.Object, error) { // the garbage collector
		for resource, kind := range map[string]schema.GroupVersionKind{"secrets": corev1.SchemeGroupVersion.WithKind("Secret"), "pods": corev1.SchemeGroupVersion.WithKind("Pod"),
			"poddisruptionbudgets": policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")} {
			of := kind.GroupVersion().WithResource(resource)
			list, err := client.Tracker().List(of, kind, a.GetNamespace())
			if err != nil {
				return true, nil, err
			}
			err = meta.EachListItem(list, func(o runtime.Object) error {
				object, err := meta.Accessor(o)
				if err != nil || len(object.GetOwnerReferences()) != 1 || object.GetOwnerReferences()[0].Name != a.(clientgo.DeleteAction).GetName() {
					return err
				}
				return client.Tracker().Delete(of, a.GetNamespace(), object.GetName())
			})
			if err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	return client
}

// doom marks a pod for deletion as the API server does.
func doom(p *corev1.Pod, grace int64) {
	at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	if p.DeletionTimestamp == nil || at.Before(p.DeletionTimestamp) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
}

// pool returns a pool that the nodes of startNode have.
func pool(class market.Class) market.Pool {
	return market.Pool{Provider: api.Provider, Region: "us-central1", Zone: "us-central1-a", Type: "n2-standard-4", Class: class}
}

// startNodes starts a spot node and an on-demand one, until the test ends.
func startNodes(t testing.TB, client kubernetes.Interface, prefix string) {
	ctx, cancel := context.WithCancel(context.Background())
	var nodes sync.WaitGroup
	t.Cleanup(func() { cancel(); nodes.Wait() })
	for _, class := range []string{"spot", "on-demand"} {
		k := kubelet.New(kubelet.Config{Client: client, Runtime: kubelet.Nothing{}, Node: prefix + class, CPU: 64, Memory: 256 << 30, Look: 20 * time.Millisecond,
			Labels: map[string]string{corev1.LabelTopologyZone: "us-central1-a", corev1.LabelInstanceTypeStable: "n2-standard-4", "karpenter.sh/capacity-type": class}})
		nodes.Go(func() {
			if err := k.Run(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("node %s: %v", class, err)
			}
		})
	}
}

// newCloud returns a run's cloud.
func newCloud(t testing.TB, client kubernetes.Interface, run string) *api.Cloud {
	t.Helper()
	c, err := api.New(config(client, run))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// clientOf returns the product's client for an API server that tests reach with a clientset.
func clientOf(clientset kubernetes.Interface) api.Client {
	if c, ok := clientset.(connected); ok {
		return c.ours
	}
	in := clientset.CoreV1()
	return api.Client{
		Pods:    func(namespace string) api.Objects[*corev1.Pod, *corev1.PodList] { return in.Pods(namespace) },
		Secrets: func(namespace string) api.Objects[*corev1.Secret, *corev1.SecretList] { return in.Secrets(namespace) },
		ConfigMaps: func(namespace string) api.Objects[*corev1.ConfigMap, *corev1.ConfigMapList] {
			return in.ConfigMaps(namespace)
		},
		Nodes:  func() api.Objects[*corev1.Node, *corev1.NodeList] { return in.Nodes() },
		Events: func(namespace string) api.Objects[*corev1.Event, *corev1.EventList] { return in.Events(namespace) },
		Protect: func(ctx context.Context, b *policyv1.PodDisruptionBudget) error {
			_, err := clientset.PolicyV1().PodDisruptionBudgets(b.Namespace).Create(ctx, b, metav1.CreateOptions{})
			return err
		},
		Evict: func(ctx context.Context, e *policyv1.Eviction) error {
			return clientset.PolicyV1().Evictions(e.Namespace).Evict(ctx, e)
		},
		Review: func(ctx context.Context, r *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error) {
			return clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, r, metav1.CreateOptions{})
		},
		Version: func(context.Context) (string, error) {
			v, err := clientset.Discovery().ServerVersion()
			if err != nil {
				return "", err
			}
			return v.GitVersion, nil
		},
	}
}

func config(client kubernetes.Interface, run string) api.Config {
	return api.Config{Client: clientOf(client), Namespace: namespace, Region: "us-central1", Cluster: "exam", Job: run, Owner: "ann", Image: "tierml", CPU: 1, MemoryMiB: 512,
		Nodes: api.Karpenter, Notice: 2 * time.Second, Expires: time.Now().Add(time.Hour), Resync: 100 * time.Millisecond}
}

// subject prepares the exam in a cluster with nodes.
func subject(t testing.TB, client kubernetes.Interface, run string) provisionertest.Subject {
	cloud := newCloud(t, client, run)
	return provisionertest.Subject{
		Cloud: cloud, Spot: pool(market.Spot), OnDemand: pool(market.OnDemand), Other: newCloud(t, client, run+"-other"), Unknown: "nobody-knows-0",
		Evict: func(id provisioner.InstanceID) {
			if err := cloud.Preempt(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
		Kill: func(id provisioner.InstanceID) { kill(t, client, string(id)) },
	}
}

// kill makes a pod end as the node controller does when its node is lost.
func kill(t testing.TB, client kubernetes.Interface, name string) {
	t.Helper()
	for {
		pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "NodeLost", "the node does not answer"
		if _, err = client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err == nil {
			return
		} else if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}
