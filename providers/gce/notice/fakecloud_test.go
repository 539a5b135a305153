package notice_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/metadata"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/gce/notice"
	"github.com/tierml/tierml/provisioner"
)

// A machine of the fake cloud, which was written independently of this package, learns its identity, its user data, and when it must end;
// Google's own client for metadata agrees.
func TestFakeCloud(t *testing.T) {
	rules, err := market.Rules("gce-spot")
	if err != nil {
		t.Fatal(err)
	}
	pool := market.Pool{Provider: "gce", Region: "us-central1", Zone: "us-central1-a", Type: "n2-standard-2", Class: market.Spot}
	mapping := clock.Mapping{Market: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: 600}
	fake := fakecloudtest.Start(t, fakecloud.Config{
		Provider: fakecloud.GCE, Clock: mapping, Region: pool.Region, Rules: rules,
		Types: []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 2, MemoryMiB: 8192,
			OnDemand: market.Dollar / 10}}},
		Prices: map[market.Pool]*market.History{pool: market.Constant(market.Dollar / 20)}, Notice: 90 * time.Second,
	})
	m := launchOne(t, fake)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(m.Metadata, "http://"))

	identity, err := notice.ReadIdentity(t.Context())
	want := notice.Identity{ID: "m-0", Type: pool.Type, Zone: pool.Zone, Region: pool.Region}
	if err != nil || identity != want {
		t.Errorf("got %+v, %v; want %+v", identity, err, want)
	}
	if data, err := notice.ReadUserData(t.Context()); err != nil || string(data) != "to do" {
		t.Errorf("user data %q, %v", data, err)
	}
	checkOfficialClient(t, pool)

	told := watch(t, notice.Config{Clock: mapping, Report: func(err error) { t.Error(err) }})
	fakecloudtest.Do(t, fake, "rebalance m-0")
	if n := next(t, told); n.Kind != provisioner.Rebalance || n.ID != "m-0" {
		t.Errorf("told %+v, want a raised risk", n)
	}
	fakecloudtest.Do(t, fake, "evict m-0")
	n := next(t, told)
	// The server gives no time: ours counts from when the watch learned of it, with the length that the launch requested.
	if shown := fake.Instances()[0].Deadline; n.Kind != provisioner.Eviction || n.Deadline.Before(shown) || n.Deadline.After(mapping.Now().Add(mapping.ToMarket(90*time.Second))) {
		t.Errorf("told %+v, the cloud has %s", n, shown)
	}
}

func checkOfficialClient(t *testing.T, pool market.Pool) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := metadata.NewClient(&http.Client{Transport: transport})
	if zone, err := client.ZoneWithContext(t.Context()); err != nil || zone != pool.Zone {
		t.Errorf("zone %q, %v", zone, err)
	}
	if name, err := client.InstanceNameWithContext(t.Context()); err != nil || name != "m-0" {
		t.Errorf("name %q, %v", name, err)
	}
	if names, err := client.InstanceAttributesWithContext(t.Context()); err != nil || strings.Join(names, " ") != "tierml-notice tierml-user-data" {
		t.Errorf("attributes %q, %v", names, err)
	}
	if value, err := client.GetWithContext(t.Context(), "instance/preempted"); err != nil || value != "FALSE" {
		t.Errorf("preempted %q, %v", value, err)
	}
	if _, err := client.GetWithContext(t.Context(), "instance/nothing"); err == nil {
		t.Error("what is not there has a value")
	}
}

// launchOne buys a machine without any SDK and waits for its metadata server.
func launchOne(t *testing.T, fake *fakecloud.Cloud) fakecloud.InstanceView {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Post(fake.Endpoint()+"/compute/v1/projects/any/zones/us-central1-a/instances", "application/json",
		strings.NewReader(`{"name": "m-0", "machineType": "zones/us-central1-a/machineTypes/n2-standard-2", "networkInterfaces": [{}],
  "disks": [{"boot": true, "initializeParams": {"sourceImage": "i"}}], "scheduling": {"provisioningModel": "SPOT"},
  "metadata": {"items": [{"key": "tierml-user-data", "value": "to do"}, {"key": "tierml-notice", "value": "90s"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("launching: %s", response.Status)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if all := fake.Instances(); len(all) == 1 && all[0].Metadata != "" {
			return all[0]
		}
	}
	t.Fatal("the machine does not boot")
	return fakecloud.InstanceView{}
}
