package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/market"
	gce "github.com/tierml/tierml/providers/gce/api"
)

// launchAnswer answers as a zone does when a launch creates no machine: only the requests matter.
func launchAnswer(r request) (int, string) {
	if r.method == "POST" {
		return 200, doneAnswer
	}
	return 200, `{}`
}

const properties = `
    "labels": {"tierml-cluster": "blue", "tierml-token": %[1]q, "job": "mf_%[2]s", "generation": "7"},
    "metadata": {"items": [
      {"key": "tierml-request", "value": %[3]q},
      {"key": "tierml-notice", "value": "30s"},
      {"key": "tierml-user-data", "value": "hello"}]},
    "networkInterfaces": [{"network": "global/networks/default"}],
    "scheduling": {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE", "onHostMaintenance": "TERMINATE", "automaticRestart": false},
    "shieldedInstanceConfig": {"enableVtpm": true, "enableIntegrityMonitoring": true, "enableSecureBoot": true}`

// TestBulkInsert: several machines are one call, with a name for each.
func TestBulkInsert(t *testing.T) {
	s := newServer(t, launchAnswer)
	s.cloud().Launch(t.Context(), spotRequest()) // fails: no machine is listed
	r := s.only("POST")
	if r.path != "zones/us-central1-a/instances/bulkInsert" {
		t.Errorf("POST %s", r.path)
	}
	wantQuery(t, r, map[string]string{"requestId": r.query["requestId"]})
	checkUUID(t, r.query["requestId"])
	var sent computepb.BulkInsertInstanceResource
	labels, note := sentWords(t, r.body)
	var names []string
	for n := range 3 {
		name := fmt.Sprintf("blue-%s-%03d", labels.digests, n)
		names = append(names, fmt.Sprintf("%q: {%q: %q}", name, "name", name))
	}
	wantBody(t, r.body, `{"count": "3", "minCount": "1", "perInstanceProperties": {`+strings.Join(names, ", ")+`},
  "instanceProperties": {"machineType": "n2-standard-2",
    "disks": [{"boot": true, "autoDelete": true, "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12",
      "diskType": "pd-balanced", "labels": `+labels.json+`}}],`+fmt.Sprintf(properties, labels.token, labels.job, note)+`}}`, &sent)
}

// TestInsert: one machine is an insert; its addresses are in its zone. All settings are in it.
func TestInsert(t *testing.T) {
	s := newServer(t, launchAnswer)
	cloud := s.cloud(func(c *gce.Config) {
		c.Owner, c.Subnetwork, c.ExternalIP = "me@example.com", "regions/us-central1/subnetworks/inner", true
		c.Disk = gce.Disk{SizeGiB: 40, Type: "pd-ssd"}
		c.NetworkTags, c.ServiceAccount, c.NoSecureBoot = []string{"tierml"}, "agent@my-project.iam.gserviceaccount.com", true
		c.MaxRun, c.ExtraNotice, c.StartupScript = 36*time.Hour, 2*time.Minute, "#!/bin/sh\n"
	})
	r := spotRequest()
	r.Count, r.Tags, r.UserData = 1, nil, ""
	before := time.Now().Add(36 * time.Hour)
	cloud.Launch(t.Context(), r)
	got := s.only("POST")
	if got.path != "zones/us-central1-a/instances" {
		t.Errorf("POST %s", got.path)
	}
	checkUUID(t, got.query["requestId"])
	var sent computepb.Instance
	labels, note := sentWords(t, got.body)
	expiry := labels.all["tierml-expiry"]
	if at, err := parseUnix(expiry); err != nil || at.Before(before.Truncate(time.Second)) || at.After(time.Now().Add(36*time.Hour)) {
		t.Errorf("tierml-expiry %q: %v", expiry, err)
	}
	wantBody(t, got.body, fmt.Sprintf(`{"name": "blue-%[1]s-000", "machineType": "zones/us-central1-a/machineTypes/n2-standard-2",
  "disks": [{"boot": true, "autoDelete": true,
    "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12", "diskSizeGb": "40",
      "diskType": "zones/us-central1-a/diskTypes/pd-ssd", "labels": %[2]s}}],
  "labels": {"tierml-cluster": "blue", "tierml-token": %[3]q, "tierml-owner": %[4]q, "tierml-expiry": %[5]q},
  "metadata": {"items": [{"key": "tierml-request", "value": %[6]q}, {"key": "tierml-notice", "value": "2m30s"},
    {"key": "startup-script", "value": "#!/bin/sh\n"}]},
  "networkInterfaces": [{"subnetwork": "regions/us-central1/subnetworks/inner", "accessConfigs": [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]}],
  "scheduling": {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE", "onHostMaintenance": "TERMINATE", "automaticRestart": false,
    "maxRunDuration": {"seconds": "129600"}, "preemptionNoticeDuration": {"seconds": "120"}},
  "serviceAccounts": [{"email": "agent@my-project.iam.gserviceaccount.com", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
  "shieldedInstanceConfig": {"enableVtpm": true, "enableIntegrityMonitoring": true, "enableSecureBoot": false},
  "tags": {"items": ["tierml"]}}`, labels.digests, labels.json, labels.token, labels.all["tierml-owner"], expiry, note), &sent)
}

// TestScheduling: the terms of each way to buy.
func TestScheduling(t *testing.T) {
	for _, c := range []struct {
		name   string
		class  market.Class
		change func(*gce.Config)
		want   string
	}{
		{"standard", market.OnDemand, func(*gce.Config) {}, `{"provisioningModel": "STANDARD", "onHostMaintenance": "MIGRATE", "automaticRestart": false}`},
		{"standard with a leash", market.OnDemand, func(c *gce.Config) { c.MaxRun = time.Hour }, `{"provisioningModel": "STANDARD",
		  "onHostMaintenance": "MIGRATE", "automaticRestart": false, "instanceTerminationAction": "DELETE", "maxRunDuration": {"seconds": "3600"}}`},
		{"preemptible", market.Spot, func(c *gce.Config) { c.Preemptible = true }, `{"preemptible": true, "onHostMaintenance": "TERMINATE", "automaticRestart": false}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, launchAnswer)
			r := spotRequest()
			r.Count, r.Pool.Class = 1, c.class
			s.cloud(c.change).Launch(t.Context(), r)
			var sent computepb.Scheduling
			wantBody(t, fieldOf(t, s.only("POST").body, "scheduling"), c.want, &sent)
		})
	}
}

// TestSameTokenSameRequestID: a repeated launch has the same id and the same names; after a final failure it is a new attempt, and other
// tokens have other ids.
func TestSameTokenSameRequestID(t *testing.T) {
	status, answer := 200, failedAnswer(503, "ZONE_RESOURCE_POOL_EXHAUSTED", "nothing left")
	s := newServer(t, func(r request) (int, string) {
		if r.method == "POST" {
			return status, answer
		}
		return 200, `{}`
	})
	send := func(cloud *gce.Cloud, token string) string {
		r := spotRequest()
		r.Token = token
		before := len(s.recorded())
		cloud.Launch(t.Context(), r)
		for _, r := range s.recorded()[before:] {
			if r.method == "POST" {
				return r.query["requestId"] + " " + firstName(t, r.body)
			}
		}
		t.Fatal("nothing was sent")
		return ""
	}
	one, other := s.cloud(), s.cloud()
	first := send(one, "a")
	if again := send(other, "a"); again != first {
		t.Errorf("another process sent %s, not %s", again, first)
	}
	retry := send(one, "a")
	if id, name, _ := strings.Cut(retry, " "); strings.HasPrefix(first, id) || !strings.HasSuffix(first, name) {
		t.Errorf("after a final failure: %s after %s: want another id and the same names", retry, first)
	}
	status, answer = 500, refusal(500, "internalError", "try again")
	unknown := send(other, "b")
	if again := send(other, "b"); again != unknown {
		t.Errorf("after an unknown outcome: %s after %s", again, unknown)
	}
	if unknown[:36] == first[:36] {
		t.Error("two tokens have one id")
	}
}
