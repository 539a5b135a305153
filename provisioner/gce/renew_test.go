package gce_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/provisioner"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A lease is two labels among those that a machine has; when somebody else changes them meanwhile, they are looked at again.
func TestRenewFields(t *testing.T) {
	const instance = "zones/us-central1-a/instances/blue-a-b-000"
	fingerprint, refused := "first", false
	s := newServer(t, func(r request) (int, string) {
		one := fmt.Sprintf(`{"name": "blue-a-b-000", "zone": "zones/us-central1-a", "machineType": "zones/us-central1-a/machineTypes/n2-standard-2",
  "status": "RUNNING", "creationTimestamp": "2026-03-01T04:00:00.000-08:00", "labelFingerprint": %q,
  "labels": {"tierml-cluster": "blue", "tierml-token": "t", "tierml-expiry": "1", "team": "ml"}}`, fingerprint)
		switch {
		case r.method == "POST" && !refused:
			fingerprint, refused = "second", true
			return http.StatusPreconditionFailed, `{"error": {"code": 412, "message": "Labels fingerprint either invalid or resource labels have changed",
  "errors": [{"reason": "conditionNotMet", "message": "changed", "domain": "global"}]}}`
		case r.method == "POST":
			return http.StatusOK, doneAnswer
		case r.path == instance:
			return http.StatusOK, one
		case r.path == "aggregated/instances":
			return http.StatusOK, `{"items": {"zones/us-central1-a": {"instances": [` + one + `]}}}`
		}
		return http.StatusOK, `{}`
	})
	cloud := s.cloud()
	renew := func() error {
		return cloud.Renew(t.Context(), "2", noon, "blue-a-b-000", "blue-a-b-000", "nobody-knows-it")
	}
	if err := renew(); err == nil || !provisioner.Retryable(err) {
		t.Errorf("changed meanwhile: %v", err)
	}
	if err := renew(); err != nil {
		t.Error(err)
	}
	var posts []request
	for _, r := range s.recorded() {
		if r.method == "POST" {
			posts = append(posts, r)
		}
	}
	if len(posts) != 2 || posts[1].path != instance+"/setLabels" {
		t.Fatalf("%v", posts)
	}
	wantBody(t, posts[1].body, `{"labelFingerprint": "second", "labels": {"tierml-cluster": "blue", "tierml-token": "t", "team": "ml",
  "tierml-expiry": "1795262400", "tierml-generation": "2"}}`, &computepb.InstancesSetLabelsRequest{})
}

// Against the fake cloud: what a machine was launched with is put off, and read again.
func TestLeases(t *testing.T) {
	config := fakeConfig(t)
	fake := startFakeCloud(t, config)
	cloud := newCloud(t, adapterConfig(fake.Endpoint(), config.Clock))
	pool := spotPool()
	made, err := cloud.Launch(t.Context(), provisioner.Request{Token: "a-1", Pool: pool, Count: 2, Generation: "1", Expires: noon})
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Renew(t.Context(), "2", noon.Add(time.Hour), made[0].ID, "nobody-knows-it"); err != nil {
		t.Fatal(err)
	}
	held, err := cloud.Holdings(t.Context())
	if err != nil || len(held) != 2 {
		t.Fatalf("%v, %v", held, err)
	}
	for _, h := range held {
		want := noon
		if h.ID == made[0].ID {
			want = noon.Add(time.Hour)
		}
		if !h.Expires.Equal(want) {
			t.Errorf("%s is wanted until %s; want %s", h.ID, h.Expires, want)
		}
	}
	again, err := cloud.Launch(t.Context(), provisioner.Request{Token: "a-1", Pool: pool, Count: 2, Generation: "1", Expires: noon})
	if err != nil || len(again) != 2 {
		t.Errorf("the same launch again gives %v, %v", again, err)
	}
	if err := cloud.Terminate(t.Context(), made[0].ID, made[1].ID); err != nil {
		t.Fatal(err)
	}
	if err := cloud.Renew(t.Context(), "2", noon.Add(time.Hour), made[0].ID); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Errorf("a machine that ends: %v", err)
	}
}
