package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/provisioner"
)

// server answers with given texts and records requests.
type server struct {
	t      testing.TB
	url    string
	answer func(r request) (status int, body string)

	mu       sync.Mutex
	requests []request
}

type request struct {
	method, path string
	query        map[string]string
	body         string
}

func (r request) call() string { return r.method + " " + r.path }

func newServer(t testing.TB, answer func(request) (int, string)) *server {
	s := &server{t: t, answer: answer}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	asked := request{method: r.Method, path: strings.TrimPrefix(r.URL.Path, "/compute/v1/projects/my-project/"), query: map[string]string{}, body: string(body)}
	for name, values := range r.URL.Query() {
		asked.query[name] = strings.Join(values, ",")
	}
	if auth := r.Header.Get("Authorization"); auth != "" {
		s.t.Errorf("credentials are sent to a loopback address: %q", auth)
	}
	s.mu.Lock()
	s.requests = append(s.requests, asked)
	s.mu.Unlock()
	status, text := s.answer(asked)
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	fmt.Fprint(w, text)
}

func (s *server) recorded() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// only returns the single request with a method.
func (s *server) only(method string) request {
	s.t.Helper()
	var found []request
	for _, r := range s.recorded() {
		if r.method == method {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		s.t.Fatalf("%d requests by %s, want 1: %v", len(found), method, found)
	}
	return found[0]
}

// cloud returns an adapter for the server.
func (s *server) cloud(change ...func(*gce.Config)) *gce.Cloud {
	c := gce.Config{Project: "my-project", Endpoint: s.url, Region: "us-central1", Cluster: "blue", MaxAttempts: 1,
		Image: "projects/debian-cloud/global/images/family/debian-12", PollInterval: 10 * time.Millisecond}
	for _, f := range change {
		f(&c)
	}
	return newCloud(s.t, c)
}

// wantBody compares a body, and checks that the official model of the API knows every field in it: into is the SDK's own message.
func wantBody(t *testing.T, got, want string, into proto.Message) {
	t.Helper()
	if err := (protojson.UnmarshalOptions{}).Unmarshal([]byte(got), into); err != nil {
		t.Errorf("the official model does not know the request: %v", err)
	}
	if diff := cmp.Diff(indented(t, want), indented(t, got)); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func indented(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func wantQuery(t *testing.T, r request, want map[string]string) {
	t.Helper()
	if !maps.Equal(r.query, want) {
		t.Errorf("%s: query %v, want %v", r.call(), r.query, want)
	}
}

// doneAnswer is a successful operation.
const doneAnswer = `{"kind": "compute#operation", "name": "operation-1", "status": "DONE", "operationType": "insert"}`

// failedAnswer returns a failed one.
func failedAnswer(status int, code, message string) string {
	return fmt.Sprintf(`{"name": "operation-1", "status": "DONE", "httpErrorStatusCode": %d, "httpErrorMessage": "X",
  "error": {"errors": [{"code": %q, "message": %q}]}}`, status, code, message)
}

// refusal returns the answer to a call that is refused at once.
func refusal(status int, reason, message string) string {
	return fmt.Sprintf(`{"error": {"code": %d, "message": %q, "errors": [{"message": %q, "domain": "usageLimits", "reason": %q}]}}`,
		status, message, message, reason)
}

func spotRequest() provisioner.Request {
	return provisioner.Request{Token: "job-1/2", Pool: spotPool(), Count: 3, UserData: "hello", Tags: map[string]string{"job": "MF", "generation": "7"}}
}

// machineAnswer returns a machine as Compute Engine describes it.
func machineAnswer(t *testing.T, name string, change func(*computepb.Instance)) string {
	t.Helper()
	i := &computepb.Instance{Name: &name, Status: proto.String("RUNNING"), CreationTimestamp: proto.String("2026-03-01T04:00:00.123-08:00"),
		Zone:        proto.String("https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a"),
		MachineType: proto.String("https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a/machineTypes/n2-standard-2"),
		Labels:      map[string]string{"tierml-cluster": "blue"},
		Scheduling:  &computepb.Scheduling{ProvisioningModel: proto.String("SPOT")},
		Metadata: &computepb.Metadata{Items: []*computepb.Items{{Key: proto.String("tierml-request"),
			Value: proto.String(`{"token":"job-1/2","tags":{"generation":"7","job":"MF"},"mark":"x"}`)}}}}
	if change != nil {
		change(i)
	}
	text, err := protojson.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
