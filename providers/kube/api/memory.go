package api

import (
	"maps"
	"sync"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// memory keeps what the API server forgets: pods that were deleted. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	known map[provisioner.InstanceID]machine // as last seen; ends no longer change
	asked map[provisioner.InstanceID]bool    // those that Terminate ended
	nodes map[string]time.Time               // nodes that will be removed, and when
}

func newMemory() memory {
	return memory{known: map[provisioner.InstanceID]machine{}, asked: map[provisioner.InstanceID]bool{}, nodes: map[string]time.Time{}}
}

// lastSeen returns a pod as last seen.
func (m *memory) lastSeen(id provisioner.InstanceID) machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[id]
}

func (m *memory) knows(id provisioner.InstanceID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.known[id]
	return known
}

// before returns the known pods that have not ended when a poll begins: only these can be missing from its result.
func (m *memory) before() map[provisioner.InstanceID]machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := maps.Clone(m.known)
	maps.DeleteFunc(live, func(_ provisioner.InstanceID, one machine) bool { return one.State == provisioner.Terminated })
	return live
}

// note records a pod as it is seen, and returns what is known about it.
func (m *memory) note(seen machine) machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.take(seen, time.Now())
}

func (m *memory) take(seen machine, now time.Time) machine {
	before, known := m.known[seen.ID]
	if known && before.State == provisioner.Terminated {
		return before // the first report of an end holds
	}
	if seen.State == provisioner.Terminated {
		if m.asked[seen.ID] {
			seen.EndedBy, seen.Reason = market.ByUser, "terminated by its run"
		}
		if seen.Ended.IsZero() {
			seen.Ended = seen.after(now)
		}
	}
	m.known[seen.ID] = seen
	return seen
}

// lose records that a pod no longer exists.
func (m *memory) lose(seen machine) machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if seen.State != provisioner.Terminated {
		seen = seen.gone(m.asked[seen.ID], now)
	}
	return m.take(seen, now)
}

// recordEnd records that the run itself ends a pod.
func (m *memory) recordEnd(id provisioner.InstanceID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[id] = true
}

// doom records whether a node will be removed.
func (m *memory) doom(node string, doomed bool, by time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.nodes[node]
	switch {
	case doomed && !known:
		m.nodes[node] = by
	case !doomed:
		delete(m.nodes, node)
	}
}

// deadline returns when a pod will be removed; zero = no sign that it will, or its own run ends it.
func (m *memory) deadline(one machine) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.asked[one.ID] || one.State == provisioner.Terminated:
		return time.Time{}
	case !one.deleted.IsZero():
		return one.deleted
	}
	return m.nodes[one.node]
}

// ended returns ended pods that are not listed.
func (m *memory) ended(listed map[provisioner.InstanceID]bool) (all []machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, one := range m.known {
		if one.State == provisioner.Terminated && !listed[id] {
			all = append(all, one)
		}
	}
	return all
}
