package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tierml/tierml/providers/kube/api"
)

// TestClientSendsWhatClientGoSends makes every call with client-go's clientset and with the product's client, and compares the requests and
// the handling of refusals.
func TestClientSendsWhatClientGoSends(t *testing.T) {
	calls := func(c api.Client) (answers []string) {
		ctx := t.Context()
		keep := func(err error) {
			answers = append(answers, err.Error())
		}
		grace, background := int64(1), metav1.DeletePropagationBackground
		_, err := c.Pods("ns").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		keep(err)
		_, err = c.Pods("ns").List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
		keep(err)
		_, err = c.Pods("ns").Watch(ctx, metav1.ListOptions{LabelSelector: "a=b", ResourceVersion: "7"})
		keep(err)
		_, err = c.Pods("ns").Patch(ctx, "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		keep(err)
		keep(c.Pods("ns").Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &grace}))
		_, err = c.Secrets("ns").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("v")}}, metav1.CreateOptions{})
		keep(err)
		_, err = c.Secrets("ns").Get(ctx, "s", metav1.GetOptions{})
		keep(err)
		_, err = c.ConfigMaps("ns").List(ctx, metav1.ListOptions{})
		keep(err)
		keep(c.ConfigMaps("ns").Delete(ctx, "m", metav1.DeleteOptions{PropagationPolicy: &background}))
		_, err = c.Nodes().List(ctx, metav1.ListOptions{})
		keep(err)
		_, err = c.Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: "7"})
		keep(err)
		_, err = c.Events("ns").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "ns"}}, metav1.CreateOptions{})
		keep(err)
		keep(c.Protect(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}}))
		keep(c.Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}}))
		_, err = c.Review(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "ns", Verb: "list", Resource: "pods"}}})
		keep(err)
		_, err = c.Version(ctx)
		keep(err)
		return answers
	}
	record := func(client func(*rest.Config) api.Client) (requests, answers []string) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			query := strings.Split(r.URL.RawQuery, "&")
			slices.Sort(query)
			requests = append(requests, r.Method+" "+r.URL.Path+" "+strings.Join(query, "&")+" "+r.Header.Get("Content-Type")+" "+strings.TrimSpace(string(body)))
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"you may not","reason":"Forbidden","code":403}`)
		}))
		defer server.Close()
		answers = calls(client(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}))
		return requests, answers
	}
	wanted, refusals := record(func(c *rest.Config) api.Client {
		clientset, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return clientOf(clientset)
	})
	sent, refused := record(func(c *rest.Config) api.Client {
		ours, err := api.NewClient(c)
		if err != nil {
			t.Fatal(err)
		}
		return ours
	})
	if len(wanted) != 16 || !slices.Equal(sent, wanted) {
		t.Errorf("sent\n%s\nclient-go sends\n%s", strings.Join(sent, "\n"), strings.Join(wanted, "\n"))
	}
	if !slices.Equal(refused, refusals) {
		t.Errorf("refused as\n%s\nclient-go says\n%s", strings.Join(refused, "\n"), strings.Join(refusals, "\n"))
	}
}

// TestClientReadsAnswers checks that lists, watches and versions are decoded.
func TestClientReadsAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			_, _ = io.WriteString(w, `{"major":"1","gitVersion":"v1.37.2"}`)
		case r.URL.Query().Get("watch") != "":
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}`+"\n")
		default:
			_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"spot"}}]}`)
		}
	}))
	defer server.Close()
	client, err := api.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if v, err := client.Version(ctx); err != nil || v != "v1.37.2" {
		t.Errorf("version %q, %v", v, err)
	}
	if nodes, err := client.Nodes().List(ctx, metav1.ListOptions{}); err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "spot" {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	changes, err := client.Pods("ns").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	if e := <-changes.ResultChan(); e.Object == nil || e.Object.(*corev1.Pod).Name != "a" {
		t.Errorf("watched %v", e)
	}
}
