package api_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// unheard is what a driver of shared hosts needs and does not use here: streams to machines, prices that change, and a journal.
type unheard struct{}

func (unheard) Send(ps.ServerID, tiers.Command) error { return nil }
func (unheard) Receive(ctx context.Context, _ func(ps.ServerID, tiers.Report, error)) error {
	<-ctx.Done()
	return nil
}

func (unheard) SpotPrices(context.Context, []market.Pool, time.Time, time.Time) (map[market.Pool][]market.PricePoint, error) {
	return nil, nil
}
func (unheard) Write(journal.Entry) error { return nil }

// withoutBids buys without the limit of a policy.
type withoutBids struct{ *api.Cloud }

func (c withoutBids) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	r.Bid = 0
	return c.Cloud.Launch(ctx, r)
}

// live returns the pods that are not about to end.
func live(t *testing.T, client kubernetes.Interface) (names []string) {
	t.Helper()
	list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			names = append(names, p.Name)
		}
	}
	return names
}

// agents call for each pod as hosts' agents do, and end the processes of slots that are released; there are none.
func agents(ctx context.Context, cloud *api.Cloud, address string) {
	var all sync.WaitGroup
	defer all.Wait()
	known := map[provisioner.InstanceID]bool{}
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		list, _ := cloud.List(ctx) // or later
		for _, i := range list {
			if i.State != provisioner.Running || known[i.ID] {
				continue
			}
			known[i.ID] = true
			all.Go(func() {
				host := desk.NewHost(address, desk.HostKey("secret", i.Token), i.Token, string(i.ID), nil)
				defer host.Close()
				seen, gone := "", map[provisioner.InstanceID]string{}
				for ctx.Err() == nil {
					orders, err := host.Call(ctx, desk.Said{Gone: gone}, seen)
					if errors.Is(err, desk.ErrGone) {
						return
					} else if err != nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					seen, gone = orders.Seen, map[provisioner.InstanceID]string{}
					for _, o := range orders.Slots {
						if o.Leaving {
							gone[o.Slot] = "ended"
						}
					}
				}
			})
		}
	}
}

// Two jobs have slots in one pod, of the size that they say. The cluster evicts it: both are warned, and their next slots are in another
// pod. In the end no pod is left.
func TestHostsArePods(t *testing.T) {
	client := newClientset()
	startNodes(t, client, "")
	settings := config(client, "shared")
	settings.CPU, settings.MemoryMiB = 2, 1024
	cloud, err := api.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	pod := market.InstanceType{Name: "n2-standard-4", VCPU: settings.CPU, MemoryMiB: settings.MemoryMiB, OnDemand: market.Dollar}
	brain, err := hosts.New(hosts.Config{
		Settings: tempo.Of(tempo.Place{Speed: 1, Boot: time.Second, Notice: settings.Notice, DeadAfter: 5 * time.Second}), Run: "shared", Policy: bidding.Capacity{},
		Most: bidding.Want{Machines: 3}, Pools: []fleet.Pool{{Pool: pool(market.Spot), Type: pod, History: market.Constant(market.Dollar / 4)}},
		Types: []market.InstanceType{pod}, Rules: market.BySecond{Name: api.Provider}.Book(), Patience: time.Minute, KeepEmpty: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	table, err := desk.Open(desk.Config{Brain: brain, Directory: dir, Cloud: api.Provider, Clock: clock.Real(), Secret: "secret", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	driver := runner.New(runner.Config{Controller: table, Clock: clock.Real(), Cloud: withoutBids{cloud}, Prices: unheard{}, Pools: []market.Pool{pool(market.Spot)}, Nodes: unheard{},
		Journal: unheard{}, Log: log, Complete: func(r provisioner.Request) provisioner.Request { return r }, PollPrices: time.Second, PollCloud: 50 * time.Millisecond, Calls: time.Second})
	table.Nudge(driver.Nudge)
	server := httptest.NewServer(http.Handler(table.Handler()))
	address := strings.TrimPrefix(server.URL, "http://")
	if err := table.Announce(address, ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { agents(ctx, cloud, address) })
	ended := make(chan error, 1)
	running.Go(func() { _, err := driver.Run(ctx); ended <- err })
	t.Cleanup(func() {
		cancel()
		server.Close()
		running.Wait()
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	until := func(what string, there func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !there(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain: %s", what)
			}
		}
	}
	var jobs []*desk.Cloud
	ask := func(token string) {
		t.Helper()
		for _, job := range jobs {
			if _, err := job.Launch(ctx, provisioner.Request{Token: token, Pool: pool(market.Spot), Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	state := func(token string) (all []provisioner.State) {
		t.Helper()
		for _, job := range jobs {
			list, err := job.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range list {
				if i.Token == token {
					all = append(all, i.State)
				}
			}
		}
		return all
	}
	run := func(token string) bool {
		s := state(token)
		return len(s) == 2 && s[0] == provisioner.Running && s[1] == provisioner.Running
	}
	warned := make(chan provisioner.Notice, 10)
	for _, name := range []string{"a", "b"} {
		job := desk.Connect(dir, name, api.Provider, hosts.Size{VCPU: 1, MemoryMiB: 512}, 20*time.Millisecond, log)
		t.Cleanup(job.Close)
		jobs = append(jobs, job)
		running.Go(func() {
			_ = job.Notify(ctx, func(n provisioner.Notice) {
				if n.Kind == provisioner.Eviction {
					warned <- n
					_ = job.Terminate(ctx, n.ID) // it has nothing to save
				}
			})
		})
	}
	ask("1")
	until("both have slots", func() bool { return run("1") })
	first := live(t, client)
	if len(first) != 1 {
		t.Fatalf("two halves of a pod are in %v", first)
	}
	if err := cloud.Preempt(ctx, provisioner.InstanceID(first[0])); err != nil {
		t.Fatal(err)
	}
	until("both are warned", func() bool { return len(warned) == len(jobs) })
	for range jobs {
		if n := <-warned; n.Deadline.IsZero() {
			t.Errorf("%+v", n)
		}
	}
	ask("2")
	until("both have slots again", func() bool { return run("2") })
	if second := live(t, client); len(second) != 1 || second[0] == first[0] {
		t.Errorf("slots are in %v", second)
	}
	driver.Stop(ctx, "the test", true)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	until("no pod is left", func() bool {
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}
