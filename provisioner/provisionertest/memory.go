package provisionertest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// MemoryNotice is the warning that machines of a Memory get.
const MemoryNotice = 2 * time.Minute

// Memory is a provider in memory that passes the exam, for tests of what is built on clouds. Its clock only
// moves on Advance alone, and nothing happens by itself.
type Memory struct {
	mu        sync.Mutex
	now       time.Time
	made      int
	price     map[market.Pool]market.USD
	free      map[market.Pool]int // a pool that is not in it never runs out
	instances map[provisioner.InstanceID]*memoryInstance
	requests  map[string]provisioner.Request // by cluster and token
	changed   chan struct{}                  // closed and replaced at every change
}

type memoryInstance struct {
	provisioner.Instance
	cluster  string
	deadline time.Time // of the eviction; zero = not warned
}

// NewMemory makes a provider whose clock stands at now. Pools without a price cost nothing.
func NewMemory(now time.Time) *Memory {
	return &Memory{
		now:       now.UTC(),
		price:     map[market.Pool]market.USD{},
		free:      map[market.Pool]int{},
		instances: map[provisioner.InstanceID]*memoryInstance{},
		requests:  map[string]provisioner.Request{},
		changed:   make(chan struct{}),
	}
}

// Cloud returns the provider as one cluster sees it. The provider's name is "memory".
func (m *Memory) Cloud(cluster string) provisioner.Cloud {
	return &memoryCloud{m: m, cluster: cluster}
}

// change does something to the provider and wakes those who watch.
func (m *Memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

// SetPrice sets a pool's price. It evicts no machine: see Warn.
func (m *Memory) SetPrice(p market.Pool, price market.USD) { m.change(func() { m.price[p] = price }) }

// SetFree leaves n free machines in a pool.
func (m *Memory) SetFree(p market.Pool, n int) { m.change(func() { m.free[p] = n }) }

// Warn warns a machine of its eviction after MemoryNotice.
func (m *Memory) Warn(id provisioner.InstanceID) {
	m.change(func() {
		if i := m.instances[id]; i != nil && i.State == provisioner.Running && i.deadline.IsZero() {
			i.deadline = m.now.Truncate(time.Second).Add(MemoryNotice)
		}
	})
}

// Kill takes a machine back at once.
func (m *Memory) Kill(id provisioner.InstanceID) {
	m.change(func() { m.end(m.instances[id], m.now, market.ByProvider, "killed") })
}

// Advance moves the clock, and ends the warned machines that come to their deadline.
func (m *Memory) Advance(d time.Duration) {
	m.change(func() {
		m.now = m.now.Add(d)
		for _, i := range m.instances {
			if !i.deadline.IsZero() && !i.deadline.After(m.now) {
				m.end(i, i.deadline, market.ByProvider, "evicted")
			}
		}
	})
}

func (m *Memory) end(i *memoryInstance, at time.Time, by market.EndedBy, reason string) {
	if i == nil || i.State == provisioner.Terminated {
		return
	}
	i.State, i.Ended, i.EndedBy, i.Reason = provisioner.Terminated, at.Truncate(time.Second), by, reason
	if free, limited := m.free[i.Pool]; limited {
		m.free[i.Pool] = free + 1
	}
}

// list returns copies of a cluster's machines that pass, sorted by id.
func (m *Memory) list(cluster string, pass func(*memoryInstance) bool) []provisioner.Instance {
	var list []provisioner.Instance
	for _, i := range m.instances {
		if i.cluster == cluster && pass(i) {
			list = append(list, i.clone())
		}
	}
	provisioner.SortInstances(list)
	return list
}

func (i *memoryInstance) clone() provisioner.Instance {
	instance := i.Instance
	instance.Tags = maps.Clone(i.Tags)
	return instance
}

// memoryCloud is a Memory seen through one cluster's tag.
type memoryCloud struct {
	provisioner.Basic
	m       *Memory
	cluster string
}

func (c *memoryCloud) Traits() provisioner.Traits {
	return provisioner.Traits{Provider: "memory", MaxBid: true, NoticeLength: MemoryNotice}
}

func (c *memoryCloud) Launch(ctx context.Context, r provisioner.Request) (instances []provisioner.Instance, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.Validate(c.Traits()); err != nil {
		return nil, err
	}
	c.m.change(func() { instances, err = c.launch(r) })
	return instances, err
}

func (c *memoryCloud) launch(r provisioner.Request) ([]provisioner.Instance, error) {
	key := c.cluster + " " + r.Token
	if before, used := c.m.requests[key]; used {
		if !reflect.DeepEqual(before, r) {
			return nil, fmt.Errorf("%w: token %q has been used for another request", provisioner.ErrInvalid, r.Token)
		}
		return c.m.list(c.cluster, func(i *memoryInstance) bool { return i.Token == r.Token }), nil
	}
	if price := c.m.price[r.Pool]; r.Bid > 0 && price > r.Bid {
		return nil, fmt.Errorf("%w: %s costs %s", provisioner.ErrPriceTooLow, r.Pool, price)
	}
	count := r.Count
	if free, limited := c.m.free[r.Pool]; limited {
		count = min(count, free)
		c.m.free[r.Pool] = free - count
	}
	if count == 0 {
		return nil, fmt.Errorf("%w in %s", provisioner.ErrNoCapacity, r.Pool)
	}
	r.Tags = maps.Clone(r.Tags)
	c.m.requests[key] = r
	var instances []provisioner.Instance
	for range count {
		instances = append(instances, c.make(r))
	}
	return instances, nil
}

func (c *memoryCloud) make(r provisioner.Request) provisioner.Instance {
	c.m.made++
	i := &memoryInstance{cluster: c.cluster, Instance: provisioner.Instance{
		ID: provisioner.InstanceID(fmt.Sprintf("i-%017x", c.m.made)), Pool: r.Pool, Bid: r.Bid, Token: r.Token,
		State: provisioner.Running, Launched: c.m.now.Truncate(time.Second), Tags: maps.Clone(r.Tags),
	}}
	c.m.instances[i.ID] = i
	return i.clone()
}

func (c *memoryCloud) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.m.change(func() {
		for _, id := range ids {
			c.m.end(c.m.instances[id], c.m.now, market.ByUser, "terminated")
		}
	})
	return nil
}

func (c *memoryCloud) List(ctx context.Context) ([]provisioner.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.list(c.cluster, func(*memoryInstance) bool { return true }), nil
}

func (c *memoryCloud) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	warned, ended := map[provisioner.InstanceID]bool{}, map[provisioner.InstanceID]bool{}
	for {
		notices, changed := c.news(warned, ended)
		for _, n := range notices {
			if ctx.Err() != nil {
				return nil
			}
			f(n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// news returns what has not been reported, and what is closed at the next change.
func (c *memoryCloud) news(warned, ended map[provisioner.InstanceID]bool) ([]provisioner.Notice, <-chan struct{}) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	var notices []provisioner.Notice
	for _, i := range c.m.list(c.cluster, func(*memoryInstance) bool { return true }) {
		if deadline := c.m.instances[i.ID].deadline; !deadline.IsZero() && !warned[i.ID] {
			warned[i.ID] = true
			notices = append(notices, provisioner.Notice{Kind: provisioner.Eviction, ID: i.ID, Deadline: deadline})
		}
		if i.State == provisioner.Terminated && !ended[i.ID] {
			ended[i.ID] = true
			notices = append(notices, provisioner.Notice{Kind: provisioner.Ended, ID: i.ID, Instance: i})
		}
	}
	return notices, c.m.changed
}
