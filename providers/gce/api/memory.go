package api

import (
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// memory remembers machines that were seen: Compute Engine forgets what a machine was as soon as it is deleted.
type memory struct {
	mu       sync.Mutex
	machines map[provisioner.InstanceID]*remembered
}

type remembered struct {
	machine
	listed time.Time // wall-clock: when it was last listed
	over   time.Time // wall-clock: when its end was seen; zero = not yet
}

// keepEnded is how long ended machines are listed, wall-clock, as EC2 does.
const keepEnded = time.Hour

// add remembers machines that are listed now.
func (y *memory) add(listed []machine, now time.Time) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.machines == nil {
		y.machines = map[provisioner.InstanceID]*remembered{}
	}
	for _, m := range listed {
		m.there, m.warned = false, time.Time{}
		if old := y.machines[m.ID]; old == nil || old.over.IsZero() {
			y.machines[m.ID] = &remembered{machine: m, listed: now}
		}
	}
}

// Recall adds a machine of an earlier process, so that List and Notify report its end even if it was deleted
// meanwhile: Compute Engine no longer knows what it was.
func (c *Cloud) Recall(i provisioner.Instance) {
	if _, known := c.seen.find(i.ID); known || i.State == provisioner.Terminated || i.Pool.Provider != Provider {
		return
	}
	c.seen.add([]machine{{Instance: i, zone: i.Pool.Zone}}, time.Now())
}

func (y *memory) any() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.machines) > 0
}

func (y *memory) find(id provisioner.InstanceID) (machine, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	m, ok := y.machines[id]
	if !ok {
		return machine{}, false
	}
	return m.machine, true
}

// missing returns the machines that are not listed, sorted, and forgets those that ended long ago.
func (y *memory) missing(listed map[provisioner.InstanceID]bool, now time.Time) []provisioner.InstanceID {
	y.mu.Lock()
	defer y.mu.Unlock()
	var ids []provisioner.InstanceID
	for id, m := range y.machines {
		switch {
		case !m.over.IsZero() && now.Sub(m.over) > keepEnded:
			delete(y.machines, id)
		case !listed[id]:
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// endSettings are the settings that decide when a machine has ended.
type endSettings struct {
	settle time.Duration
	now    time.Time
	clock  clock.Mapping
}

func (c *Cloud) endSettings() endSettings {
	return endSettings{settle: c.config.Settle, now: time.Now(), clock: c.config.Clock}
}

// fix keeps the end of a machine as first reported.
func (y *memory) fix(m machine, now time.Time) provisioner.Instance {
	y.mu.Lock()
	defer y.mu.Unlock()
	old := y.machines[m.ID]
	if old == nil || old.over.IsZero() {
		m.there = false
		old = &remembered{machine: m, listed: now, over: now}
		y.machines[m.ID] = old
	}
	return old.Instance
}

// settle decides whether a machine that is not listed has ended. An end that was reported stays as it was. Without an
// operation that reports the end, it waits for a while, as lists can lag, and then assumes that the machine ended when
// it was missed, so that it promises no free minute that the bill does not have.
func (y *memory) settle(id provisioner.InstanceID, e event, s endSettings) machine {
	y.mu.Lock()
	defer y.mu.Unlock()
	m, ok := y.machines[id]
	switch {
	case !ok:
		return machine{}
	case !m.over.IsZero():
		return m.machine
	case !e.ended.IsZero() && !e.running:
		m.Ended, m.EndedBy, m.Reason = endOf(m.Launched, e.ended), e.endedBy(), e.reason
	case s.now.Sub(m.listed) > s.settle:
		m.Ended, m.EndedBy, m.Reason = endOf(m.Launched, s.clock.Now()), market.ByUser, "it is listed no more, and no operation tells why"
	default:
		if e.running {
			m.State = provisioner.Stopping
		}
		return m.machine
	}
	m.State, m.over = provisioner.Terminated, s.now
	return m.machine
}
