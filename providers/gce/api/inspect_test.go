package api_test

import (
	"errors"
	"strings"
	"testing"

	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/provisioner"
)

func TestInspect(t *testing.T) {
	s := newServer(t, func(r request) (int, string) {
		switch {
		case strings.HasSuffix(r.path, "/v1/projects/-/serviceAccounts/machines@x:testIamPermissions") && strings.Contains(r.body, "iam.serviceAccounts.actAs"):
			return 200, `{"permissions": ["iam.serviceAccounts.actAs"]}`
		case strings.HasSuffix(r.path, "/v1/projects/-/serviceAccounts/other@x:testIamPermissions"):
			return 200, `{}`
		case strings.HasSuffix(r.path, "services:batchGet") && strings.Contains(r.query["names"], "projects/my-project/services/compute.googleapis.com"):
			return 200, `{"services": [{"name": "projects/123/services/compute.googleapis.com", "state": "ENABLED"}, {"name": "projects/123/services/iam.googleapis.com", "state": "DISABLED"}]}`
		case strings.HasSuffix(r.path, "/subnetworks/tierml/testIamPermissions"):
			return 200, `{"permissions": ["compute.subnetworks.use"]}`
		case strings.HasSuffix(r.path, ":testIamPermissions") && strings.Contains(r.path, "/v1/projects/my-project"):
			return 200, `{"permissions": ["compute.instances.list"]}`
		case strings.HasSuffix(r.path, "regions/us-central1"):
			return 200, `{"name": "us-central1", "quotas": [{"metric": "PREEMPTIBLE_CPUS", "limit": 24, "usage": 2}, {"metric": "CPUS", "limit": 72, "usage": 4}]}`
		case strings.HasSuffix(r.path, "/projects/debian-cloud/global/images/family/debian-12"):
			return 200, `{"name": "debian-12-bookworm-v20261101", "status": "READY"}`
		case strings.HasSuffix(r.path, "/subnetworks/tierml"):
			return 200, `{"name": "tierml", "ipCidrRange": "10.8.0.0/20", "privateIpGoogleAccess": true}`
		}
		return 404, `{"error": {"code": 404, "message": "not found", "errors": [{"reason": "notFound"}]}}`
	})
	cloud := s.cloud(func(c *gce.Config) { c.Subnetwork = "projects/my-project/regions/us-central1/subnetworks/tierml" })
	ctx := t.Context()
	if granted, err := cloud.Granted(ctx, []string{"compute.instances.list", "compute.instances.create"}); err != nil || len(granted) != 1 {
		t.Errorf("granted %v, %v", granted, err)
	}
	if quotas, err := cloud.Quotas(ctx); err != nil || len(quotas) != 2 || quotas[0].Name != "CPUS" || quotas[0].Limit != 72 || quotas[1].Used != 2 {
		t.Errorf("quotas %+v, %v", quotas, err)
	}
	if name, status, err := cloud.ImageStatus(ctx); err != nil || status != "READY" || !strings.HasPrefix(name, "debian-12") {
		t.Errorf("image %s %s, %v", name, status, err)
	}
	if addresses, private, err := cloud.SubnetworkRange(ctx); err != nil || addresses != "10.8.0.0/20" || !private {
		t.Errorf("subnetwork %s %v, %v", addresses, private, err)
	}
	for account, want := range map[string]bool{"": true, "machines@x": true, "other@x": false} {
		if may, err := s.cloud(func(c *gce.Config) { c.ServiceAccount = account }).MayActAs(ctx); err != nil || may != want {
			t.Errorf("acting as %q: %v, %v", account, may, err)
		}
	}
	if _, err := s.cloud(func(c *gce.Config) { c.ServiceAccount = "gone@x" }).MayActAs(ctx); !errors.Is(err, provisioner.ErrNotFound) {
		t.Errorf("an account that is not there: %v", err)
	}
	states, err := cloud.Services(ctx, []string{"compute.googleapis.com", "iam.googleapis.com"})
	if err != nil || states["compute.googleapis.com"] != "ENABLED" || states["iam.googleapis.com"] != "DISABLED" {
		t.Errorf("services %v, %v", states, err)
	}
	for public, want := range map[bool]int{false: 0, true: 1} {
		subnetwork := s.cloud(func(c *gce.Config) { c.Subnetwork, c.ExternalIP = "tierml", public })
		if lacks, err := subnetwork.MayUseSubnetwork(ctx); err != nil || len(lacks) != want {
			t.Errorf("public addresses %v: %v, %v", public, lacks, err)
		}
	}
	missing := s.cloud(func(c *gce.Config) { c.Image = "projects/my-project/global/images/gone" })
	if _, _, err := missing.ImageStatus(ctx); err == nil {
		t.Error("an image that is not there was found")
	}
	odd := s.cloud(func(c *gce.Config) { c.Image = "debian-12" })
	if _, _, err := odd.ImageStatus(ctx); err == nil || !strings.Contains(err.Error(), "is not projects/") {
		t.Errorf("an odd name: %v", err)
	}
}
