package api_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

// The adapter passes the exam against the fake cloud, which was written independently.
func TestFakeCloud(t *testing.T) {
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject { return fakeSubject(t, 0) })
}

// The same with a cloud that takes a while to show new machines, as EC2 does.
func TestFakeCloudEventuallyConsistent(t *testing.T) {
	provisionertest.Run(t, func(t testing.TB) provisionertest.Subject { return fakeSubject(t, 300*time.Millisecond) })
}

const (
	fakeCapacity = 10 // machines in the spot pool
	fakeSpeed    = 60
	fakeNotice   = time.Hour // no test waits for it to end
)

// fakeSubject starts a fake cloud whose machines do nothing.
func fakeSubject(t testing.TB, visible time.Duration) provisionertest.Subject {
	t.Helper()
	mapping := clock.Mapping{Market: time.Date(2014, 3, 1, 12, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: fakeSpeed}
	pool := spotPool()
	fake := fakecloudtest.Start(t, fakecloud.Config{
		Clock: mapping, Region: pool.Region, Rules: mustRules(t),
		Types:    []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 2, MemoryMiB: 3840, OnDemand: market.Dollar / 10}}},
		Prices:   map[market.Pool]*market.History{pool: market.Constant(market.Dollar / 20)},
		Capacity: map[market.Pool]int{pool: fakeCapacity},
		Notice:   fakeNotice, Visible: visible,
	})
	cloud := func() *ec2.Cloud {
		return newCloud(t, ec2.Config{Endpoint: fake.Endpoint(), Region: pool.Region, Cluster: newCluster(), ImageID: "ami-0123456789abcdef0",
			PollInterval: 20 * time.Millisecond, NoticeLength: fakeNotice, Clock: mapping})
	}
	script := func(verb string) func(provisioner.InstanceID) {
		return func(id provisioner.InstanceID) { fakecloudtest.Do(t, fake, fmt.Sprintf("%s %s", verb, id)) }
	}
	onDemand := pool
	onDemand.Class = market.OnDemand
	return provisionertest.Subject{
		Cloud: cloud(), Other: cloud(), Spot: pool, OnDemand: onDemand,
		Bid: market.Dollar / 10, LowBid: market.Dollar / 50, Unknown: unknownMachine,
		SetFree: (&provisionertest.Neighbour{T: t, Cloud: cloud(), Pool: pool, Bid: market.Dollar, Capacity: fakeCapacity}).SetFree,
		Evict:   script("evict"), Expire: script("evict-now"), Kill: script("evict-now"),
	}
}

func mustRules(t testing.TB) market.RuleBook {
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// Prices and types arrive as the market has them.
func TestFakeCloudPricesAndTypes(t *testing.T) {
	pool := spotPool()
	start := time.Date(2014, 3, 1, 12, 0, 0, 0, time.UTC)
	points := []market.PricePoint{{At: start.Add(-3 * time.Hour), Price: 40_000_000}, {At: start.Add(-2 * time.Hour), Price: 41_500_000},
		{At: start.Add(-time.Hour), Price: 39_000_001}}
	sold := market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 2, MemoryMiB: 3840, OnDemand: market.Dollar / 10}
	fake := fakecloudtest.Start(t, fakecloud.Config{
		Clock: clock.Mapping{Market: start, Wall: time.Now(), Speed: 1}, Region: pool.Region, Rules: mustRules(t),
		Types:  []fakecloud.InstanceType{{InstanceType: sold}},
		Prices: map[market.Pool]*market.History{pool: market.NewHistory(points)},
	})
	cloud := newCloud(t, ec2.Config{Endpoint: fake.Endpoint(), Region: pool.Region, Cluster: "blue"})
	prices, err := cloud.SpotPrices(t.Context(), []market.Pool{pool}, start.Add(-150*time.Minute), start)
	if err != nil {
		t.Fatal(err)
	}
	got := prices[pool]
	if len(got) != len(points) {
		t.Fatalf("got %v, want %v", got, points)
	}
	for n, p := range points {
		if n > 0 && !got[n].At.Equal(p.At) || got[n].Price != p.Price {
			t.Errorf("got %v, want %v", got[n], p)
		}
	}
	types, err := cloud.Types(t.Context(), pool.Type)
	sold.OnDemand = 0
	if err != nil || len(types) != 1 || types[0] != sold {
		t.Errorf("got %+v, %v; want %+v", types, err, sold)
	}
}

// GPUs arrive with EC2's own names, and a machine boots from an image that a public parameter names, bought alone or by a fleet.
func TestFakeCloudGPUs(t *testing.T) {
	pool := spotPool()
	pool.Type = "g7e.12xlarge"
	other := pool
	other.Type = "g6e.xlarge"
	gpu := market.GPU{Name: "RTX-PRO-6000", Count: 2, MemoryMiB: 98304}
	fake := fakecloudtest.Start(t, fakecloud.Config{
		Clock: clock.Mapping{Market: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: 1}, Region: pool.Region, Rules: mustRules(t),
		Types: []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 48, MemoryMiB: 512 << 10, OnDemand: market.Dollar, GPU: gpu}},
			{InstanceType: market.InstanceType{Name: other.Type, Arch: "x86_64", VCPU: 4, MemoryMiB: 32 << 10, OnDemand: market.Dollar}}},
		Prices: map[market.Pool]*market.History{pool: market.Constant(market.Dollar / 20), other: market.Constant(market.Dollar / 20)},
	})
	open := func(image string) *ec2.Cloud {
		return newCloud(t, ec2.Config{Endpoint: fake.Endpoint(), Region: pool.Region, Cluster: newCluster(), ImageID: image})
	}
	const parameter = "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
	cloud := open(parameter)
	types, err := cloud.Types(t.Context(), pool.Type, other.Type)
	if gpu.Name = "RTX PRO Server 6000"; err != nil || len(types) != 2 || types[0].GPU != (market.GPU{}) || types[1].GPU != gpu {
		t.Errorf("%+v, %v; want %+v", types, err, gpu)
	}
	for _, or := range [][]provisioner.Choice{nil, {{Pool: other, Bid: market.Dollar / 10}}} {
		r := provisioner.Request{Token: fmt.Sprint("gpus-", len(or)), Pool: pool, Or: or, Bid: market.Dollar / 10, Count: 1}
		if err := cloud.Try(t.Context(), provisioner.Request{Token: "try", Pool: pool, Bid: r.Bid, Count: 1}); err != nil {
			t.Error(err)
		}
		if got, err := cloud.Launch(t.Context(), r); err != nil || len(got) != 1 {
			t.Errorf("%v: %+v, %v", or, got, err)
		}
		r.Token += "-none"
		if got, err := open("resolve:ssm:/mine/none").Launch(t.Context(), r); !errors.Is(err, provisioner.ErrInvalid) {
			t.Errorf("%v: %+v, %v by a parameter that is not there", or, got, err)
		}
	}
	if limit, err := cloud.Quota(t.Context(), fake.Endpoint(), "L-3819A6DF"); err != nil || limit < 1 {
		t.Errorf("a quota of %v, %v", limit, err)
	}
}
