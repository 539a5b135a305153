package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// A job file that names no cluster has the default one, which others may use too: only the owner's machines are ended, until the user says
// which are meant.
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
		if got := tierml(append(args, file), strings.NewReader(""), &out, &errOut); got != code {
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
