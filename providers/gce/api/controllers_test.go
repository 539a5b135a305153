package api_test

import (
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/google/go-cmp/cmp"

	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/provisioner"
)

// The machine of a job server is a standard one, and has neither a name nor a label by which a run or tierml down finds machines to end.
func TestStartController(t *testing.T) {
	s := newServer(t, func(request) (int, string) { return 200, doneAnswer })
	cloud := s.cloud(func(c *gce.Config) {
		c.Owner, c.Subnetwork, c.ServiceAccount = "ann", "regions/us-central1/subnetworks/inner", "blue-mch@my-project.iam.gserviceaccount.com"
	})
	got, err := cloud.StartController(t.Context(), provisioner.ControllerRequest{Token: "tierml-controller-0a", Zone: "us-central1-a", Type: "e2-small",
		Role: "blue-ctl@my-project.iam.gserviceaccount.com", DiskGiB: 30, UserData: "hello"})
	want := provisioner.Controller{ID: "controller-of-blue", Zone: "us-central1-a", Type: "e2-small", State: "provisioning", Owner: "ann"}
	if err != nil || got != want || !got.Running() {
		t.Errorf("%+v, %v", got, err)
	}
	r := s.only("POST")
	if r.path != "zones/us-central1-a/instances" {
		t.Errorf("POST %s", r.path)
	}
	checkUUID(t, r.query["requestId"])
	wantBody(t, r.body, `{"name": "controller-of-blue", "machineType": "zones/us-central1-a/machineTypes/e2-small",
  "labels": {"tierml-controller-of": "blue", "tierml-role": "controller", "tierml-owner": "ann"},
  "scheduling": {"provisioningModel": "STANDARD", "onHostMaintenance": "MIGRATE", "automaticRestart": true},
  "disks": [{"boot": true, "autoDelete": true, "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12",
    "diskSizeGb": "30", "diskType": "zones/us-central1-a/diskTypes/pd-balanced",
    "labels": {"tierml-controller-of": "blue", "tierml-role": "controller", "tierml-owner": "ann"}}}],
  "networkInterfaces": [{"subnetwork": "regions/us-central1/subnetworks/inner"}],
  "serviceAccounts": [{"email": "blue-ctl@my-project.iam.gserviceaccount.com", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
  "shieldedInstanceConfig": {"enableVtpm": true, "enableIntegrityMonitoring": true, "enableSecureBoot": true},
  "metadata": {"items": [{"key": "enable-oslogin", "value": "TRUE"}, {"key": "block-project-ssh-keys", "value": "TRUE"},
    {"key": "startup-script", "value": "hello"}]}}`, &computepb.Instance{})
}

func TestControllers(t *testing.T) {
	s := newServer(t, func(r request) (int, string) {
		if r.method == "DELETE" {
			return 200, doneAnswer
		}
		return 200, `{"items": {
  "zones/us-central1-b": {"instances": [{"name": "controller-of-blue", "status": "RUNNING", "zone": "https://x/zones/us-central1-b",
    "machineType": "https://x/machineTypes/e2-small", "labels": {"tierml-owner": "ann"}, "creationTimestamp": "2026-03-01T10:00:00.123-08:00"}]},
  "zones/europe-west1-b": {"instances": [{"name": "controller-of-blue", "status": "RUNNING", "zone": "https://x/zones/europe-west1-b"}]}}}`
	})
	cloud := s.cloud()
	got, err := cloud.Controllers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []provisioner.Controller{{ID: "controller-of-blue", Zone: "us-central1-b", Type: "e2-small", State: "running", Owner: "ann",
		Launched: time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
	asked := s.only("GET")
	if asked.path != "aggregated/instances" || asked.query["filter"] != `labels.tierml-controller-of = "blue"` {
		t.Errorf("%s %v", asked.path, asked.query)
	}
	if err := cloud.EndController(t.Context(), got[0]); err != nil {
		t.Fatal(err)
	}
	if r := s.only("DELETE"); r.path != "zones/us-central1-b/instances/controller-of-blue" {
		t.Errorf("DELETE %s", r.path)
	}
}
