package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/provisioner"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A lease is two labels of a machine; if its labels change meanwhile, they are read again.
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
