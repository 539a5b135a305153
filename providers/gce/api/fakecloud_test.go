package api_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

// The adapter passes the exam against the fake cloud, which was written independently.
func TestFakeCloud(t *testing.T) {
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject { return fakeSubject(t, nil) })
}

// The same on Compute Engine's older terms, on which machines are stopped, not deleted, when they are preempted.
func TestFakeCloudPreemptible(t *testing.T) {
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject {
		return fakeSubject(t, func(c *gce.Config) { c.Preemptible = true })
	})
}

const (
	fakeCapacity = 10 // machines in the spot pool
	fakeSpeed    = 60
	fakeNotice   = 10 * time.Minute // no test waits for it to end
)

var fakeStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func spotPool() market.Pool {
	return market.Pool{Provider: "gce", Region: "us-central1", Zone: "us-central1-a", Type: "n2-standard-2", Class: market.Spot}
}

// fakeConfig returns a fake cloud that sells one type, in one zone as spot machines.
func fakeConfig(t testing.TB) fakecloud.Config {
	pool := spotPool()
	rules, err := market.Rules("gce-spot")
	if err != nil {
		t.Fatal(err)
	}
	return fakecloud.Config{
		Provider: fakecloud.GCE, Clock: clock.Mapping{Market: fakeStart, Wall: time.Now(), Speed: fakeSpeed}, Region: pool.Region, Rules: rules,
		Zones: []string{"us-central1-b"},
		Types: []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 2, MemoryMiB: 8192,
			OnDemand: market.Dollar / 10}}},
		Prices:   map[market.Pool]*market.History{pool: market.NewHistory([]market.PricePoint{{At: fakeStart.Add(-time.Hour), Price: market.Dollar / 20}})},
		Capacity: map[market.Pool]int{pool: fakeCapacity}, Notice: fakeNotice,
	}
}

func newCloud(t testing.TB, c gce.Config) *gce.Cloud {
	t.Helper()
	cloud, err := gce.New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	return cloud
}

func adapterConfig(endpoint string, mapping clock.Mapping) gce.Config {
	return gce.Config{Project: "my-project", Endpoint: endpoint, Region: "us-central1", Cluster: "Exam-" + rand.Text()[:8],
		Image: "projects/debian-cloud/global/images/family/debian-12", PollInterval: 20 * time.Millisecond,
		ShutdownTime: fakeNotice, Clock: mapping}
}

// fakeSubject starts a fake cloud whose machines do nothing.
func fakeSubject(t testing.TB, change func(*gce.Config)) provisionertest.Subject {
	t.Helper()
	config := fakeConfig(t)
	fake := fakecloudtest.Start(t, config)
	cloud := func() *gce.Cloud {
		c := adapterConfig(fake.Endpoint(), config.Clock)
		if change != nil {
			change(&c)
		}
		return newCloud(t, c)
	}
	script := func(verb string) func(provisioner.InstanceID) {
		return func(id provisioner.InstanceID) { fakecloudtest.Do(t, fake, fmt.Sprintf("%s %s", verb, id)) }
	}
	onDemand := spotPool()
	onDemand.Class = market.OnDemand
	return provisionertest.Subject{
		Cloud: cloud(), Other: cloud(), Spot: spotPool(), OnDemand: onDemand, Unknown: "exam-nobody-knows-it-000",
		SetFree: (&provisionertest.Neighbour{T: t, Cloud: cloud(), Pool: spotPool(), Capacity: fakeCapacity}).SetFree,
		Evict:   script("evict"), Expire: script("evict-now"), Kill: script("evict-now"),
	}
}

// Machine types report their GPUs in Compute Engine's terms, and machines with on-demand GPUs stay on their host.
func TestFakeCloudGPUs(t *testing.T) {
	config := fakeConfig(t)
	pool := spotPool()
	pool.Type, pool.Class = "g2-standard-4", market.OnDemand
	config.Types = append(config.Types, fakecloud.InstanceType{InstanceType: market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 4, MemoryMiB: 16 << 10,
		OnDemand: market.Dollar, GPU: market.GPU{Name: "L4", Count: 1, MemoryMiB: 22888}}})
	fake := fakecloudtest.Start(t, config)
	for _, gpus := range []bool{false, true} {
		c := adapterConfig(fake.Endpoint(), config.Clock)
		c.GPUs = gpus
		cloud := newCloud(t, c)
		types, err := cloud.Types(t.Context(), pool.Zone)
		if err != nil || len(types) != 2 || types[0].GPU != (market.GPU{Name: "nvidia-l4", Count: 1}) || types[1].GPU != (market.GPU{}) {
			t.Errorf("%+v, %v", types, err)
		}
		for _, count := range []int{1, 2} {
			got, err := cloud.Launch(t.Context(), provisioner.Request{Token: fmt.Sprint("gpus-", count), Pool: pool, Count: count})
			if gpus && (err != nil || len(got) != count) || !gpus && !errors.Is(err, provisioner.ErrInvalid) {
				t.Errorf("GPUs %v: %+v, %v", gpus, got, err)
			}
		}
	}
}
