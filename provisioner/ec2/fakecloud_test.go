package ec2_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
	"github.com/tierml/tierml/provisioner/provisionertest"
)

// The adapter takes the exam against the fake cloud, which was written without knowing it.
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
	fakeNotice   = time.Hour // no test waits for its end
)

// fakeSubject starts a fake cloud whose machines do nothing.
func fakeSubject(t testing.TB, visible time.Duration) provisionertest.Subject {
	t.Helper()
	mapping := clock.Mapping{Market: time.Date(2014, 3, 1, 12, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: fakeSpeed}
	pool := spotPool()
	fake := startFakeCloud(t, fakecloud.Config{
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
	script := func(step string) {
		t.Helper()
		s, err := fakecloud.ParseStep(step)
		if err != nil {
			t.Fatal(err)
		}
		if targets, err := fake.Make(fakecloud.Script{s}); err != nil || len(targets) == 0 {
			t.Fatalf("%s: %v, %v", step, targets, err)
		}
	}
	onDemand := pool
	onDemand.Class = market.OnDemand
	return provisionertest.Subject{
		Cloud: cloud(), Other: cloud(), Spot: pool, OnDemand: onDemand,
		Bid: market.Dollar / 10, LowBid: market.Dollar / 50, Unknown: unknownMachine,
		SetFree: (&filler{t: t, cloud: cloud(), pool: pool}).setFree,
		Evict:   func(id provisioner.InstanceID) { script(fmt.Sprintf("evict %s", id)) },
		Expire:  func(id provisioner.InstanceID) { script(fmt.Sprintf("evict-now %s", id)) },
		Kill:    func(id provisioner.InstanceID) { script(fmt.Sprintf("evict-now %s", id)) },
	}
}

func mustRules(t testing.TB) market.RuleBook {
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// startFakeCloud runs a cloud until the test ends.
func startFakeCloud(t testing.TB, c fakecloud.Config) *fakecloud.Cloud {
	t.Helper()
	fake, err := fakecloud.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fake.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the fake cloud ended with %v", err)
		}
	})
	return fake
}

// filler is a neighbour who takes the capacity that the exam does not want to be there.
type filler struct {
	t     testing.TB
	cloud *ec2.Cloud
	pool  market.Pool
	held  []provisioner.InstanceID
}

func (f *filler) setFree(n int) {
	f.t.Helper()
	want := fakeCapacity - n
	if len(f.held) > want {
		if err := f.cloud.Terminate(f.t.Context(), f.held[want:]...); err != nil {
			f.t.Fatal(err)
		}
		f.awaitEnd(f.held[want:])
		f.held = f.held[:want]
		return
	}
	got, err := f.cloud.Launch(f.t.Context(), provisioner.Request{Token: rand.Text(), Pool: f.pool, Bid: market.Dollar, Count: want - len(f.held)})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, i := range got {
		f.held = append(f.held, i.ID)
	}
}

// awaitEnd waits until the provider has the machines back.
func (f *filler) awaitEnd(ids []provisioner.InstanceID) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		listed, err := f.cloud.List(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		if !slices.ContainsFunc(listed, func(i provisioner.Instance) bool {
			return slices.Contains(ids, i.ID) && i.State != provisioner.Terminated
		}) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%v do not end", ids)
		}
	}
}

// Prices and types come through as the market has them.
func TestFakeCloudPricesAndTypes(t *testing.T) {
	pool := spotPool()
	start := time.Date(2014, 3, 1, 12, 0, 0, 0, time.UTC)
	points := []market.PricePoint{{At: start.Add(-3 * time.Hour), Price: 40_000_000}, {At: start.Add(-2 * time.Hour), Price: 41_500_000},
		{At: start.Add(-time.Hour), Price: 39_000_001}}
	sold := market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 2, MemoryMiB: 3840, OnDemand: market.Dollar / 10}
	fake := startFakeCloud(t, fakecloud.Config{
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
