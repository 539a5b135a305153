package main

import (
	"bytes"
	"cmp"
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
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// A job file that names no cluster has the default one, as those of others may: only the owner's machines are ended, until somebody
// says which are meant.
func TestDownLeavesOthersAlone(t *testing.T) {
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	fake := fakecloudtest.Start(t, fakecloud.Config{Clock: clock.Real(), Region: "us-west-1", Zones: []string{"us-west-1a"}, Rules: rules,
		Types: []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: "c5.large", VCPU: 2, MemoryMiB: 4096, OnDemand: market.Dollar / 10}}}})
	for _, owner := range []string{"ann", "bob", ""} {
		cloud, err := ec2.New(t.Context(), ec2.Config{Region: "us-west-1", Cluster: "tierml", Owner: owner, Endpoint: fake.Endpoint(), ImageID: "ami-1", Job: "of" + owner + "-1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cloud.Close)
		pool := market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.OnDemand}
		if _, err := cloud.Launch(t.Context(), provisioner.Request{Token: "t" + owner, Pool: pool, Count: 2, Expires: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	call := func(code int, settings string, args ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "installation.yaml")
		if err := os.WriteFile(file, []byte("ec2: {region: us-west-1, image: ami-1, endpoint: "+fake.Endpoint()+settings+
			", program: {url: 's3://b/t', sha256: "+strings.Repeat("0a", 32)+"}, checkpoints: 's3://b/c'}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errOut bytes.Buffer
		if got := run(append(args, file), strings.NewReader(""), &out, &errOut); got != code {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, code, &out, &errOut)
		}
		return out.String()
	}
	all, err := ec2.New(t.Context(), ec2.Config{Region: "us-west-1", Cluster: "tierml", Endpoint: fake.Endpoint(), ImageID: "ami-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	left := func(want string) {
		t.Helper()
		live, err := all.Holdings(t.Context())
		var owners []string
		for _, h := range live {
			owners = append(owners, cmp.Or(h.Owner, "-"))
		}
		slices.SortFunc(owners, func(a, b string) int { return -strings.Compare(a, b) })
		if got := strings.Join(owners, " "); err != nil || got != want {
			t.Fatalf("%q is left, want %q; %v", got, want, err)
		}
	}
	left("bob bob ann ann - -")
	if out := call(0, "", "down", "-y"); !strings.Contains(out, "6 of 6 machines may be theirs (2 of ann, 2 of bob, 2 of nobody by name)") || !strings.Contains(out, "--cluster tierml") {
		t.Errorf("printed\n%s", out)
	}
	call(0, "", "down", "-y", "--expired")
	left("bob bob ann ann - -")
	if out := call(0, ", owner: ann", "leaks"); !strings.Contains(out, "4 of 6 machines may be theirs (2 of bob, 2 of nobody by name)") {
		t.Errorf("printed\n%s", out)
	}
	call(0, ", owner: ann", "down", "-y")
	left("bob bob - -")
	call(0, "", "down", "-y", "--run", "ofbob-1")
	left("- -")
	call(0, "", "down", "-y", "--cluster", "green")
	left("- -")
	call(0, ", cluster: tierml", "down", "-y")
	left("")
}

// Down ends every machine of a cluster and of no other, and returns when they are gone.
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
	if err := endExpired(t.Context(), settings, slog.New(slog.DiscardHandler)); err != nil {
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
