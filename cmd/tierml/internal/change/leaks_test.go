package change

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	_ "github.com/tierml/tierml/providers/all"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// Down ends every machine of a cluster and of no other, and returns when they have ended.
func TestDown(t *testing.T) {
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	fake := fakecloudtest.Start(t, fakecloud.Config{Clock: clock.Real(), Region: "us-west-1", Zones: []string{"us-west-1a"}, Rules: rules,
		Types: []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: "c5.large", VCPU: 2, MemoryMiB: 4096, OnDemand: market.Dollar / 10}}}})
	open := func(cluster string) *holdings {
		cloud, err := ec2.New(t.Context(), ec2.Config{Region: "us-west-1", Cluster: cluster, Endpoint: fake.Endpoint(), ImageID: "ami-1",
			Job: cluster + "-1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cloud.Close)
		pool := market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.OnDemand}
		if _, err := cloud.Launch(t.Context(), provisioner.Request{Token: cluster, Pool: pool, Count: 2, Expires: time.Now().Add(-time.Hour)}); err != nil {
			t.Fatal(err)
		}
		return &holdings{cloud: cloud, name: "EC2", where: "cluster " + cluster, job: &config.Job{Cloud: "ec2"}}
	}
	blue, green, amber := open("blue"), open("green"), open("amber")
	var out bytes.Buffer
	live, err := blue.list(t.Context(), &out)
	if err != nil || len(live) != 2 || !live[0].Overdue(time.Now()) || strings.Count(out.String(), "(over)") != 2 {
		t.Fatalf("%v, %v, printed\n%s", live, err, &out)
	}
	if got := overdue(append(live, provisioner.Holding{Expires: time.Now().Add(time.Hour)}, provisioner.Holding{})); len(got) != 2 {
		t.Errorf("%d machines are leaks, want the two", len(got))
	}
	if err := blue.end(t.Context(), live, &out); err != nil || !strings.Contains(out.String(), "All have ended.") {
		t.Errorf("%v, printed\n%s", err, &out)
	}
	if live, err := blue.list(t.Context(), &out); err != nil || len(live) != 0 {
		t.Errorf("%v is left, %v", live, err)
	}
	live, err = green.list(t.Context(), &out)
	if err != nil || len(live) != 2 {
		t.Errorf("the other cluster has %v, %v", live, err)
	}
	settings := filepath.Join(t.TempDir(), "installation.yaml")
	if err := os.WriteFile(settings, []byte("ec2: {region: us-west-1, cluster: amber, image: ami-1, endpoint: "+fake.Endpoint()+
		", program: {url: 's3://b/t', sha256: "+strings.Repeat("0a", 32)+"}, checkpoints: 's3://b/c'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := EndExpired(t.Context(), settings, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	if of, err := amber.cloud.Holdings(t.Context()); err != nil || slices.ContainsFunc(of, func(h provisioner.Holding) bool { return h.State == provisioner.Running }) {
		t.Errorf("the controller leaves leaks: %v, %v", of, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := green.end(gone, live, &out); err == nil || !strings.Contains(err.Error(), "MACHINES ARE LEFT") || !strings.Contains(err.Error(), string(live[0].ID)) {
		t.Errorf("it is not loud about what is left: %v", err)
	}
}
