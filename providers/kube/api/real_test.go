package api_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

// This file is for the API server of .ci/with-kube (make test-kube).

func realClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	if os.Getenv("TIERML_KUBE_RESTART") == "" {
		t.Skip("make test-kube runs it beside a real API server")
	}
	client := connect(t, nil)
	// Under the strictest pod security standard, which the adapter's pods must meet.
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return client
}

// connect makes both clients of the API server: client-go's for the test, the product's for the Cloud.
func connect(t *testing.T, change func(*rest.Config)) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 50, 100
	if change != nil {
		change(config)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return connected{clientset, ours}
}

// connected is a clientset and the product's client of one API server.
type connected struct {
	kubernetes.Interface
	ours api.Client
}

func freshRun() string { return "run-" + strings.ToLower(rand.Text()[:8]) }

func TestRealExam(t *testing.T) {
	client := realClient(t)
	startNodes(t, client, "exam-")
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject { return subject(t, client, freshRun()) })
}

// limitedClient is another user's access, with only the rights that a test gives.
func limitedClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	return connect(t, func(c *rest.Config) { c.BearerToken = os.Getenv("TIERML_KUBE_LIMITED") })
}

func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Getenv("TIERML_KUBECTL"), arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// Without each right the API server denies its uses, and nothing else is missing.
func TestRealDeniedVerbs(t *testing.T) {
	client := realClient(t)
	kubectl(t, "create", "rolebinding", "denied", "--namespace", namespace, "--role", "denied", "--user", "limited")
	roles := client.RbacV1().Roles(namespace)
	role, err := roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "denied"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range uses {
		role.Rules = nil
		for _, right := range api.Rights {
			if right != c.right {
				role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"", "policy"}, Resources: []string{right.Resource}, Verbs: []string{right.Verb}})
			}
		}
		if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		cloud := newCloud(t, limitedClient(t), freshRun())
		until(t, "the role counts", func() bool {
			missing, err := cloud.Missing(t.Context(), api.Rights)
			return err == nil && slices.Equal(missing, []api.Right{c.right})
		})
		err := c.do(t.Context(), cloud)
		denied(t, c.right, c.says, err)
		t.Log(err)
	}
	kubectl(t, "--namespace", namespace, "delete", "rolebinding/denied", "role/denied")
	kubectl(t, "--namespace", namespace, "delete", "configmaps", "--wait=false", "--selector", "tierml.dev/cluster=exam")
}

// The API server itself names what is missing; with the role of deploy/kubernetes nothing is.
func TestRealRights(t *testing.T) {
	client := realClient(t)
	kubectl(t, "apply", "-f", "../../../deploy/kubernetes/tierml.yaml")
	kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-f", "../../../deploy/kubernetes")
	c := config(limitedClient(t), freshRun())
	c.Namespace = "tierml"
	cloud, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(api.Rights, api.NodeRights)
	missing := func() []api.Right {
		t.Helper()
		m, err := cloud.Missing(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := missing(); !slices.Equal(m, all) {
		t.Errorf("before: missing %v", m)
	}
	if _, err := cloud.Launch(t.Context(), request(1)); !errors.Is(err, provisioner.ErrDenied) || !strings.Contains(err.Error(), `cannot get resource "configmaps"`) {
		t.Errorf("%v", err)
	} else {
		t.Log(err)
	}
	kubectl(t, "create", "rolebinding", "limited", "--namespace", "tierml", "--role", "tierml-controller", "--user", "limited")
	kubectl(t, "create", "clusterrolebinding", "limited", "--clusterrole", "tierml-nodes", "--user", "limited")
	until(t, "the rights count", func() bool { return len(missing()) == 0 })
	got, err := cloud.Launch(t.Context(), request(2))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	if err := cloud.Preempt(t.Context(), got[0].ID); err != nil {
		t.Error(err)
	}
	if err := cloud.Terminate(t.Context(), got[0].ID, got[1].ID); err != nil {
		t.Error(err)
	}
	until(t, "nothing is left", func() bool {
		if err := cloud.RemoveLeftovers(t.Context()); err != nil {
			t.Fatal(err)
		}
		left, err := client.CoreV1().Secrets("tierml").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(left.Items) == 0
	})
}

// What users of kubectl find: pods by labels; a tainted node has the pods that tolerate and select it; classes decide which pod is evicted
// first; requests equal limits, which Kubernetes calls guaranteed; and describe says why a pod ends, and what its run has lost.
func TestRealPodsForKubectl(t *testing.T) {
	client := realClient(t)
	startNodes(t, client, "users-")
	run := freshRun()
	of := "--selector=tierml.dev/run=" + run
	see := func(arguments ...string) string {
		return kubectl(t, append([]string{"--namespace", namespace}, arguments...)...)
	}
	until(t, "the node is there", func() bool { return strings.Contains(kubectl(t, "get", "nodes", "--output=name"), "node/users-spot") })
	kubectl(t, "taint", "--overwrite", "node", "users-spot", "team=speech:NoSchedule")
	kubectl(t, "label", "--overwrite", "node", "users-spot", "pool=ml")
	kubectl(t, "create", "priorityclass", "users-low", "--value=7")
	defer kubectl(t, "delete", "priorityclass", "users-low")
	launch := func(token string, change func(*api.Config)) (*api.Cloud, string, error) {
		c, r := config(client, run), request(1)
		c.Notice, c.MemoryMiB = time.Minute, 512
		change(&c)
		cloud, err := api.New(c)
		if err != nil {
			t.Fatal(err)
		}
		r.Token = token
		got, err := cloud.Launch(t.Context(), r)
		if err != nil {
			return cloud, "", err
		}
		return cloud, string(got[0].ID), nil
	}
	patch := func(class string) func(*api.Config) {
		return func(c *api.Config) {
			c.Patch = map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "speech"}}, "spec": map[string]any{
				"tolerations": []any{map[string]any{"key": "team", "value": "speech"}}, "nodeSelector": map[string]any{"pool": "ml"},
				"imagePullSecrets": []any{map[string]any{"name": "registry"}}, "priorityClassName": class}}
		}
	}
	_, other, err := launch("other", func(*api.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	cloud, pod, err := launch("ours", patch("users-low"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := launch("nobody's", patch("nobody")); err == nil || !strings.Contains(err.Error(), "no PriorityClass with name nobody was found") {
		t.Errorf("a class that is not there: %v", err)
	}
	until(t, "it runs", func() bool { return running(t, cloud) == 1 })
	if node := see("get", "pod", other, "--output=jsonpath={.spec.nodeName}"); node != "" {
		t.Errorf("the other is on %s, which is kept free", node)
	}
	if name := see("get", "pods", of+",tierml.dev/class=spot,app.kubernetes.io/managed-by=tierml,team=speech", "--output=name"); strings.TrimSpace(name) != "pod/"+pod {
		t.Errorf("labels select %s, want %s", name, pod)
	}
	resources := "{.spec.containers[0].resources."
	if requests, limits := see("get", "pod", pod, "--output=jsonpath="+resources+"requests}"), see("get", "pod", pod, "--output=jsonpath="+resources+"limits}"); requests != limits ||
		requests != `{"cpu":"1","memory":"512Mi"}` {
		t.Errorf("requests %s, limits %s", requests, limits)
	}
	if got := see("get", "pod", pod, "--output=jsonpath={.spec.priority} {.status.qosClass} {.spec.imagePullSecrets[0].name}"); got != "7 Guaranteed registry" {
		t.Errorf("priority, quality of service and pull secret: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cloud.Notify(ctx, func(provisioner.Notice) {}) }()
	if err := cloud.Preempt(t.Context(), provisioner.InstanceID(pod)); err != nil {
		t.Fatal(err)
	}
	var described string
	until(t, "describe says why it goes", func() bool {
		described = strings.Join(strings.Fields(see("describe", "pod", pod)), " ")
		return strings.Contains(described, "has notice: EvictionByEvictionAPI")
	})
	for _, line := range []string{"Priority Class Name: users-low", "QoS Class: Guaranteed", "Node-Selectors: pool=ml", "team=speech", "Terminating (lasts"} {
		if !strings.Contains(described, line) {
			t.Errorf("describe lacks %q", line)
		}
	}
	t.Log(described)
	see("delete", "pod", pod, "--force", "--grace-period=0")
	until(t, "the run says what it has lost", func() bool {
		described = see("describe", "configmap", of)
		return strings.Contains(described, "Launched") && strings.Contains(described, "pod "+pod+" on node users-spot has notice") && strings.Contains(described, "pod "+pod+" was lost")
	})
	t.Log(described)
	if events := see("get", "events", "--field-selector=involvedObject.kind=Pod,involvedObject.name="+pod); !strings.Contains(events, "was lost: EvictionByEvictionAPI") {
		t.Errorf("the pod's events are\n%s", events)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	see("delete", "configmap", of)
}

// A drain takes a run's reliable pods one at a time, and never the last.
func TestRealDrain(t *testing.T) {
	client := realClient(t)
	startNodes(t, client, "drain-")
	run := freshRun()
	r := request(2)
	r.Pool = pool(market.OnDemand)
	cloud := newCloud(t, client, run)
	if _, err := cloud.Launch(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	of := "tierml.dev/run=" + run
	until(t, "the budget counts both", func() bool {
		return kubectl(t, "--namespace", namespace, "get", "poddisruptionbudget", "--selector="+of, "--output=jsonpath={.items[*].status.currentHealthy} {.items[*].status.disruptionsAllowed}") == "2 1"
	})
	out, err := exec.CommandContext(t.Context(), os.Getenv("TIERML_KUBECTL"), "drain", "drain-on-demand", "--force", "--delete-emptydir-data", "--pod-selector="+of, "--timeout=4s").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "would violate the pod's disruption budget") {
		t.Errorf("%v\n%s", err, out)
	}
	until(t, "one is left", func() bool { return running(t, cloud) == 1 })
	t.Logf("%s", out)
	kubectl(t, "uncordon", "drain-on-demand")
	kubectl(t, "--namespace", namespace, "delete", "configmap", "--selector="+of)
}

// The deletion of a run's owner leaves nothing of it, including live pods.
func TestRealOwner(t *testing.T) {
	client := realClient(t)
	startNodes(t, client, "owner-")
	run := freshRun()
	cloud := newCloud(t, client, run)
	if _, err := cloud.Launch(t.Context(), request(3)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "--namespace", namespace, "delete", "configmap", "--selector", "tierml.dev/run="+run)
	until(t, "pods, secret and config map are gone", func() bool {
		for _, what := range everything(t, client) {
			if strings.Contains(what, run) {
				return false
			}
		}
		return true
	})
}

// A crash before and after each call of a launch, on the real server: as TestCrashAtEveryStep.
func TestRealCrashAtEveryStep(t *testing.T) {
	client := realClient(t)
	for step := 0; ; step++ {
		run := freshRun()
		ctx, cancel := context.WithCancel(t.Context())
		calls := &counting{left: step, dead: cancel}
		c := config(calls.client(t), run)
		cloud, err := api.New(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = cloud.Launch(ctx, request(3))
		over := ctx.Err() == nil
		cancel()
		if over && err != nil {
			t.Fatal(err)
		}
		next := newCloud(t, client, run)
		got, err := next.Launch(t.Context(), request(3))
		if err != nil || len(got) != 3 {
			t.Fatalf("step %d: the next process got %v, %v", step, got, err)
		}
		pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "tierml.dev/run=" + run})
		if err != nil || len(pods.Items) != 3 {
			t.Errorf("step %d: %d pods, want 3 (%v)", step, len(pods.Items), err)
		}
		kubectl(t, "--namespace", namespace, "delete", "configmap", "--wait=false", "--selector", "tierml.dev/run="+run)
		if over {
			t.Logf("%d calls", step)
			break
		}
	}
}

// A server that is restarted loses nothing, and watchers learn of later events.
func TestRealRestart(t *testing.T) {
	client := realClient(t)
	startNodes(t, client, "restart-")
	cloud := newCloud(t, client, freshRun())
	got, err := cloud.Launch(t.Context(), request(2))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "running", func() bool { return running(t, cloud) == 2 })
	ctx, cancel := context.WithCancel(t.Context())
	told, done := make(chan provisioner.Notice, 100), make(chan error, 1)
	go func() { done <- cloud.Notify(ctx, func(n provisioner.Notice) { told <- n }) }()
	if out, err := exec.CommandContext(t.Context(), os.Getenv("TIERML_KUBE_RESTART")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	until(t, "it answers", func() bool { _, err := cloud.List(t.Context()); return err == nil })
	if n := running(t, cloud); n != 2 {
		t.Errorf("%d run after the restart, want 2", n)
	}
	again, err := cloud.Launch(t.Context(), request(2))
	if err != nil || len(again) != 2 || again[0].ID != got[0].ID {
		t.Errorf("the same launch gives %v, %v", again, err)
	}
	if err := cloud.Preempt(t.Context(), got[0].ID); err != nil {
		t.Fatal(err)
	}
	for timeout := time.After(time.Minute); ; {
		select {
		case n := <-told:
			if n.Kind != provisioner.Eviction || n.ID != got[0].ID {
				continue
			}
		case <-timeout:
			t.Error("no notice within a minute")
		}
		break
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := cloud.Terminate(t.Context(), got[0].ID, got[1].ID); err != nil {
		t.Error(err)
	}
}

func running(t *testing.T, cloud *api.Cloud) (n int) {
	t.Helper()
	list, err := cloud.List(t.Context())
	if err != nil {
		return -1
	}
	for _, i := range list {
		if i.State == provisioner.Running {
			n++
		}
	}
	return n
}

// counting is a process that dies when this many calls have been answered by the server; the answer to the last never
// arrives.
type counting struct {
	left int
	dead context.CancelFunc
	next http.RoundTripper
}

func (c *counting) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	return connect(t, func(config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { c.next = next; return c })
	})
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	if c.left--; c.left == -1 {
		c.dead()
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, context.Canceled
	}
	return answer, err
}
