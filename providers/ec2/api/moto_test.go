package api_test

import (
	"os"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

const (
	motoEndpoint  = "TIERML_MOTO_ENDPOINT"
	noClientToken = "moto does not look at ClientToken"
)

// TestMoto checks the adapter's use of EC2's wire format against moto (https://github.com/getmoto/moto), an independently written emulator.
func TestMoto(t *testing.T) {
	endpoint := os.Getenv(motoEndpoint)
	if endpoint == "" {
		t.Skipf("%s is not set: install Python's package 'moto[server]', run `moto_server -H 127.0.0.1 -p 5000` "+
			"and set %s=http://127.0.0.1:5000", motoEndpoint, motoEndpoint)
	}
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject {
		return provisionertest.Subject{
			Cloud:    motoCloud(t, endpoint),
			Other:    motoCloud(t, endpoint),
			Spot:     market.Pool{Provider: ec2.Provider, Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.Spot},
			OnDemand: market.Pool{Provider: ec2.Provider, Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.OnDemand},
			Bid:      market.Dollar / 10,
			Unknown:  unknownMachine,
			Lacks: map[string]string{
				"WholeCount":               "moto launches MinCount machines",
				"SameTokenSameMachines":    noClientToken,
				"SameTokenConcurrently":    noClientToken,
				"SameTokenAfterLostAnswer": noClientToken,
				"SameTokenAfterTheEnd":     noClientToken,
				"SameTokenAfterRenewal":    noClientToken,
				"UsedTokenOtherRequest":    noClientToken,
				"EndStays":                 "moto dates the end of a machine anew whenever it is terminated again",
			},
		}
	})
	t.Run("Try", func(t *testing.T) {
		cloud := motoCloud(t, endpoint)
		pool := market.Pool{Provider: ec2.Provider, Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.OnDemand}
		if err := cloud.Try(t.Context(), provisioner.Request{Token: "try", Pool: pool, Count: 1}); err != nil {
			t.Error(err)
		}
		if machines, err := cloud.List(t.Context()); err != nil || len(machines) != 0 {
			t.Errorf("after a trial there are %v, %v", machines, err)
		}
	})
	t.Run("Renew", func(t *testing.T) {
		cloud := motoCloud(t, endpoint)
		pool := market.Pool{Provider: ec2.Provider, Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.Spot}
		made, err := cloud.Launch(t.Context(), provisioner.Request{Token: "renew", Pool: pool, Count: 1, Generation: "1", Expires: noon})
		if err != nil {
			t.Fatal(err)
		}
		if err := cloud.Renew(t.Context(), "2", noon.Add(time.Hour), made[0].ID, unknownMachine); err != nil {
			t.Fatal(err)
		}
		if held, err := cloud.Holdings(t.Context()); err != nil || len(held) != 1 || !held[0].Expires.Equal(noon.Add(time.Hour)) {
			t.Errorf("after the renewal %v, %v", held, err)
		}
		if err := cloud.Terminate(t.Context(), made[0].ID); err != nil {
			t.Error(err)
		}
	})
	// moto takes all machines of a fleet from one pool, whatever zone and price an override names, and does not compare tokens.
	t.Run("Fleet", func(t *testing.T) {
		cloud := motoCloud(t, endpoint)
		pool := market.Pool{Provider: ec2.Provider, Region: "us-west-1", Zone: "us-west-1a", Type: "c5.large", Class: market.Spot}
		for _, class := range []market.Class{market.Spot, market.OnDemand} {
			pool.Class = class
			other := pool
			other.Type = "m5.large"
			r := provisioner.Request{Token: "fleet-" + string(class), Pool: pool, Or: []provisioner.Choice{{Pool: other}}, Count: 2,
				UserData: "hello", Tags: map[string]string{"tier": "transient"}, Generation: "1", Expires: noon}
			if class == market.Spot {
				r.Bid, r.Or[0].Bid = market.Dollar/10, market.Dollar/11
			}
			made, err := cloud.Launch(t.Context(), r)
			if err != nil || len(made) != 2 {
				t.Fatalf("%s: got %+v, %v", class, made, err)
			}
			for _, m := range made {
				if m.Token != r.Token || m.Pool.Class != class || m.Tags["tier"] != "transient" || m.Pool.Type != pool.Type && m.Pool.Type != other.Type {
					t.Errorf("%s: %+v", class, m)
				}
			}
			held, err := cloud.Holdings(t.Context())
			if err != nil || len(held) != 2 || held[0].Owner != "ann" || !held[0].Expires.Equal(noon) {
				t.Errorf("%s: the two machines and no launch template: %+v, %v", class, held, err)
			}
			if err := cloud.Terminate(t.Context(), made[0].ID, made[1].ID); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("Types", func(t *testing.T) {
		types, err := motoCloud(t, endpoint).Types(t.Context(), "c5.xlarge", "c6g.large")
		if err != nil {
			t.Fatal(err)
		}
		want := []market.InstanceType{
			{Name: "c5.xlarge", Arch: "x86_64", VCPU: 4, MemoryMiB: 8192},
			{Name: "c6g.large", Arch: "arm64", VCPU: 2, MemoryMiB: 4096},
		}
		for n := range want {
			if n >= len(types) || types[n] != want[n] {
				t.Fatalf("got %+v, want %+v", types, want)
			}
		}
	})
}

func motoCloud(t testing.TB, endpoint string) *ec2.Cloud {
	return newCloud(t, ec2.Config{
		Endpoint: endpoint, Region: "us-west-1", Cluster: newCluster(),
		ImageID:      "ami-12c6146b", // one that moto knows
		PollInterval: 50 * time.Millisecond,
		Job:          "moto-1", Owner: "ann",
		RootVolume: &ec2.RootVolume{Device: "/dev/sda1", SizeGiB: 16},
	})
}
