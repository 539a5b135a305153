package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Runtime runs pods.
type Runtime interface {
	// Start starts a pod's only container. Its Process must always be waited for.
	Start(ctx context.Context, pod *corev1.Pod) (Process, error)
}

// Process is a pod's container.
type Process interface {
	Terminate() // requests its end: SIGTERM
	Kill()
	Wait() (code int32) // returns when it has ended
}

// Config configures a Kubelet. Fields are required unless noted.
type Config struct {
	Client  kubernetes.Interface
	Runtime Runtime
	Node    string
	Labels  map[string]string // of the node, such as its zone and type
	CPU     int64             // allocatable
	Memory  int64             // bytes
	Devices map[string]int64  // optional: extended resources, as device plugins report them; nothing is behind them
	// Look is the interval at which pods are listed (default 50 ms): a real kubelet watches, but this one is near.
	Look time.Duration
	Log  *slog.Logger // optional
}

// Kubelet is a node. Run runs it.
type Kubelet struct {
	config Config
	mu     sync.Mutex
	pods   map[string]*running // by UID
	all    sync.WaitGroup
}

// running is a pod of this node.
type running struct {
	process Process
	killAt  time.Time // zero = no deletion was requested
	ended   bool      // and reported; guarded by the Kubelet's lock
}

// New returns a Kubelet.
func New(c Config) *Kubelet {
	if c.Look <= 0 {
		c.Look = 50 * time.Millisecond
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Kubelet{config: c, pods: map[string]*running{}}
}

// Run registers the node and manages its pods until ctx is done; then it kills them.
func (k *Kubelet) Run(ctx context.Context) error {
	if err := k.register(ctx); err != nil {
		return err
	}
	defer k.all.Wait()
	defer k.killAll()
	for {
		if err := k.sync(ctx); err != nil && ctx.Err() == nil {
			k.config.Log.Warn("looking after pods", "node", k.config.Node, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(k.config.Look):
		}
	}
}

func (k *Kubelet) register(ctx context.Context) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(k.config.CPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(k.config.Memory, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI), corev1.ResourceEphemeralStorage: *resource.NewQuantity(1<<40, resource.BinarySI),
	}
	for name, n := range k.config.Devices {
		room[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	nodes := k.config.Client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.config.Node, Labels: k.config.Labels}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		node, err = nodes.Get(ctx, k.config.Node, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("registering node %s: %w", k.config.Node, err)
	}
	// The API server taints new nodes; a controller would remove the taint depending on their conditions.
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("registering node %s: %w", k.config.Node, err)
	}
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("registering node %s: %w", k.config.Node, err)
	}
	return nil
}

// sync compares the existing pods with the running ones.
func (k *Kubelet) sync(ctx context.Context) error {
	list, err := k.config.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	node, err := k.config.Client.CoreV1().Nodes().Get(ctx, k.config.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	free := k.free(node, list.Items)
	here := map[string]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName == "" && k.fits(node, pod, free) {
			if err := k.bind(ctx, pod); err != nil {
				k.config.Log.Info("another node was first", "pod", pod.Name, "err", err)
				continue
			}
			take(free, pod)
			pod.Spec.NodeName = k.config.Node
		}
		if pod.Spec.NodeName == k.config.Node {
			here[string(pod.UID)] = true
			k.look(ctx, pod)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, r := range k.pods {
		switch {
		case here[uid]:
		case r.ended:
			delete(k.pods, uid)
		default: // deleted by force
			r.process.Kill()
		}
	}
	return nil
}

// look brings one pod of this node closer to the API server's state.
func (k *Kubelet) look(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	r := k.pods[string(pod.UID)]
	ended := r == nil || r.ended
	k.mu.Unlock()
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case ended && pod.DeletionTimestamp != nil:
		k.forget(ctx, pod)
	case r == nil && !over:
		k.start(ctx, pod)
	case ended:
	case over: // reported by another process: the node is considered lost
		r.process.Kill()
	case pod.DeletionTimestamp != nil && r.killAt.IsZero():
		r.killAt = pod.DeletionTimestamp.Time
		r.process.Terminate()
	case pod.Spec.ActiveDeadlineSeconds != nil && pod.Status.StartTime != nil &&
		time.Since(pod.Status.StartTime.Time) > time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second:
		r.process.Kill()
	}
	if !ended && !r.killAt.IsZero() && time.Now().After(r.killAt) {
		r.process.Kill()
	}
}

// forget reports to the API server that a pod being deleted has ended.
func (k *Kubelet) forget(ctx context.Context, pod *corev1.Pod) {
	none := int64(0)
	err := k.config.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		k.config.Log.Warn("deleting a pod that has ended", "pod", pod.Name, "err", err)
	}
}

func (k *Kubelet) start(ctx context.Context, pod *corev1.Pod) {
	process, err := k.config.Runtime.Start(ctx, pod)
	if err != nil {
		k.report(ctx, pod, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "StartError", Message: err.Error()})
		return
	}
	r := &running{process: process}
	k.mu.Lock()
	k.pods[string(pod.UID)] = r
	k.mu.Unlock()
	now := metav1.Now()
	k.report(ctx, pod, corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, ContainerStatuses: []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}})
	k.all.Go(func() { k.attend(ctx, pod.DeepCopy(), r) })
}

// attend waits for a process, and reports how it ended. A stopped node reports nothing.
func (k *Kubelet) attend(ctx context.Context, pod *corev1.Pod, r *running) {
	code := r.process.Wait()
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	ended := &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed", StartedAt: pod.CreationTimestamp, FinishedAt: metav1.Now()}
	status := corev1.PodStatus{Phase: corev1.PodSucceeded}
	if code != 0 {
		status.Phase, ended.Reason = corev1.PodFailed, "Error"
	}
	status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, State: corev1.ContainerState{Terminated: ended}}}
	k.report(ctx, pod, status)
	k.mu.Lock()
	defer k.mu.Unlock()
	r.ended = true
}

// report writes a pod's status, and keeps the conditions set by others. One that runs is ready.
func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) {
	pods := k.config.Client.CoreV1().Pods(pod.Namespace)
	for range 5 { // others change it, too
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.UID == pod.UID && now.Status.Phase != corev1.PodFailed {
			s := status
			s.Conditions = slices.DeleteFunc(now.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
			ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
			if s.Phase == corev1.PodRunning { // which disruption budgets use
				ready.Status = corev1.ConditionTrue
			}
			s.Conditions = append(s.Conditions, ready)
			if s.StartTime == nil {
				s.StartTime = now.Status.StartTime
			}
			now.Status = s
			_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		}
		if !apierrors.IsConflict(err) {
			if err != nil && !apierrors.IsNotFound(err) {
				k.config.Log.Warn("reporting a pod", "pod", pod.Name, "err", err)
			}
			return
		}
	}
}

func (k *Kubelet) killAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.pods {
		r.process.Kill()
	}
}
