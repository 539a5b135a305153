package provisionertest

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// MemoryNotice is how long before an eviction a Memory's machines are warned.
const MemoryNotice = 2 * time.Minute

// Memory is a provider in memory that passes the exam, for tests of code that uses clouds. Its clock only
// moves on Advance, and nothing happens by itself.
type Memory struct {
	machines adapter.Machines
	now      time.Time
	made     int
	price    map[market.Pool]market.USD
	free     map[market.Pool]int // pools not in it never run out
}

// NewMemory makes a provider whose clock starts at now. Pools without a price are free.
func NewMemory(now time.Time) *Memory {
	m := &Memory{now: now, price: map[market.Pool]market.USD{}, free: map[market.Pool]int{}}
	m.machines = adapter.Machines{Traits: provisioner.Traits{Provider: "memory", MaxBid: true, NoticeLength: MemoryNotice},
		Now: func() time.Time { return m.now }, Start: m.start, End: m.leave}
	return m
}

// Cloud returns the provider as one cluster sees it. The provider's name is "memory".
func (m *Memory) Cloud(cluster string) provisioner.Cloud { return m.machines.Cluster(cluster) }

// SetPrice sets a pool's price. It evicts no machine: see Warn.
func (m *Memory) SetPrice(p market.Pool, price market.USD) {
	m.machines.Change(func() { m.price[p] = price })
}

// SetFree leaves n free machines in a pool.
func (m *Memory) SetFree(p market.Pool, n int) { m.machines.Change(func() { m.free[p] = n }) }

// Warn warns a machine of its eviction after MemoryNotice.
func (m *Memory) Warn(id provisioner.InstanceID) {
	m.each(func(one *adapter.Shown) {
		if one.ID == id && one.Deadline.IsZero() {
			one.Deadline = m.now.UTC().Truncate(time.Second).Add(MemoryNotice)
		}
	})
}

// Kill reclaims a machine at once.
func (m *Memory) Kill(id provisioner.InstanceID) {
	m.each(func(one *adapter.Shown) {
		if one.ID == id {
			m.takeBack(one, m.now, "killed")
		}
	})
}

// Advance moves the clock, and ends the warned machines that reach their deadline.
func (m *Memory) Advance(d time.Duration) {
	m.machines.Change(func() { m.now = m.now.Add(d) })
	m.each(func(one *adapter.Shown) {
		if !one.Deadline.IsZero() && !one.Deadline.After(m.now) {
			m.takeBack(one, one.Deadline, "evicted")
		}
	})
}

// each changes all machines that have not ended.
func (m *Memory) each(f func(*adapter.Shown)) {
	m.machines.Change(func() {
		for _, one := range m.machines.Live() {
			f(one)
		}
	})
}

func (m *Memory) takeBack(one *adapter.Shown, at time.Time, reason string) {
	_ = m.leave(one.ID) // never fails
	m.machines.Over(one, at, market.ByProvider, reason)
}

func (m *Memory) start(r provisioner.Request) (ids []provisioner.InstanceID, err error) {
	if price := m.price[r.Pool]; r.Bid > 0 && price > r.Bid {
		return nil, fmt.Errorf("%w: %s costs %s", provisioner.ErrPriceTooLow, r.Pool, price)
	}
	count := r.Count
	if free, limited := m.free[r.Pool]; limited {
		count = min(count, free)
		m.free[r.Pool] = free - count
	}
	if count == 0 {
		return nil, fmt.Errorf("%w in %s", provisioner.ErrNoCapacity, r.Pool)
	}
	for range count {
		m.made++
		ids = append(ids, provisioner.InstanceID(fmt.Sprintf("i-%017x", m.made)))
	}
	return ids, nil
}

// leave frees a machine's place in its pool.
func (m *Memory) leave(id provisioner.InstanceID) error {
	for _, one := range m.machines.Live() {
		if free, limited := m.free[one.Pool]; limited && one.ID == id {
			m.free[one.Pool] = free + 1
		}
	}
	return nil
}
