package step

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// ID names a machine; Tier is the tier that it was bought for. The fleet knows nothing else about ps and tiers.
type (
	ID   = ps.ServerID
	Tier = tiers.Tier
)

// The tiers.
const (
	Reliable  = tiers.Reliable
	Transient = tiers.Transient
)

// Machine is what both fleet and training know about a bought machine.
type Machine struct {
	ID     ID
	Tier   Tier
	VCPU   int
	Number int // in order of purchase
	// Training sets these two.
	Joined int  // rank in the order of joining; 0 = does not take part yet
	Lost   bool // given up: nothing more is expected of it
	// The following are set by the fleet.
	Warned      bool
	Draining    bool      // replaced by a better pool: works until the end of its paid hour
	Leaving     bool      // hands over everything, then is terminated
	Terminating bool      // its end was requested from the provider
	Ended       bool      // according to the provider
	Unlisted    bool      // its end was not observed, e.g. it is no longer listed or its cloud was killed: it may still run
	Archived    bool      // ended and billed: no event can concern it
	Deadline    time.Time // of the eviction that it was warned of
	Entered     time.Time // when this controller learned of it
}

// Member reports whether the machine takes part in training.
func (m *Machine) Member() bool { return m.Joined > 0 && !m.Lost && !m.Ended }

// Staying reports whether nothing known will end the machine or its part in the work.
func (m *Machine) Staying() bool {
	return !m.Warned && !m.Draining && !m.Leaving && !m.Terminating && !m.Lost && !m.Ended
}

// Order compares machines by joining, then by id: no decision depends on map order.
func (m *Machine) Order(o *Machine) int {
	return cmp.Or(cmp.Compare(m.Joined, o.Joined), cmp.Compare(m.ID, o.ID))
}

// Kind is a machine type's declared performance.
type Kind struct {
	Rate float64 // of work, as in market.InstanceType
	Link float64 // bytes per second in one direction; 0 = unknown
}

// Progress is the amount of work done, in any unit.
type Progress struct {
	Done  int64
	Saved int64 // the part of Done that is in the newest checkpoint, if the rest is lost with the machines
	Whole int64
	Clock time.Duration // length of the last clock: a graceful end waits for the current one; 0 = unknown, or it does not wait
	// Home is the region that has the newest checkpoint; empty = none, or every region has it.
	Home string
}

// Need is what the work currently needs of its machines.
type Need struct {
	Standing   bool // the reliable tier holds the job
	Begun      bool // it has done so before
	Recovering bool
	TakingOver bool // from an earlier controller
	Done       bool
	Outage     bool // most machines have fallen silent together
	Gathering  bool // notices
	Idle       bool // no machine works, so that none can show that work can be done
}
