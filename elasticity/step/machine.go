package step

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// ID names a machine; Tier is the one that it was bought for. The fleet knows nothing else of ps and tiers.
type (
	ID   = ps.ServerID
	Tier = tiers.Tier
)

// The tiers.
const (
	Reliable  = tiers.Reliable
	Transient = tiers.Transient
)

// Machine is what fleet and training both know of a bought machine.
type Machine struct {
	ID     ID
	Tier   Tier
	VCPU   int
	Number int // in the order in which machines were bought
	// Training sets these two.
	Joined int  // place in the order of joining; 0 = does not take part yet
	Lost   bool // given up: nothing more is expected of it
	// The fleet sets the others.
	Warned      bool
	Draining    bool      // a better pool took its place: works on to the end of its paid hour
	Leaving     bool      // hands over everything, then is terminated
	Terminating bool      // its end was requested from the provider
	Ended       bool      // the provider says so
	Unlisted    bool      // nobody saw its end, as where it is no longer listed or its cloud was killed: it may still run
	Archived    bool      // ended and billed: no event can concern it
	Deadline    time.Time // of the eviction that it was warned of
	Entered     time.Time // when this controller learned of it
}

// Member reports whether the machine takes part in training.
func (m *Machine) Member() bool { return m.Joined > 0 && !m.Lost && !m.Ended }

// Staying reports whether nothing is known that would end the machine or its part in the work.
func (m *Machine) Staying() bool {
	return !m.Warned && !m.Draining && !m.Leaving && !m.Terminating && !m.Lost && !m.Ended
}

// Order returns that of joining, then by id: no decision hangs on map order.
func (m *Machine) Order(o *Machine) int {
	return cmp.Or(cmp.Compare(m.Joined, o.Joined), cmp.Compare(m.ID, o.ID))
}

// Kind is a machine type's declared performance.
type Kind struct {
	Rate float64 // of work, as market.InstanceType has it
	Link float64 // bytes per second in one direction; 0 = unknown
}

// Progress is how far the work has come, in any unit.
type Progress struct {
	Done  int64
	Saved int64 // of Done, what is in the newest checkpoint, where the rest is lost with the machines
	Whole int64
	Clock time.Duration // that the last clock took: an orderly end waits for the one under way; 0 = unknown, or it waits for none
	// Home is the region that has the newest checkpoint; empty = there is none, or every region has it.
	Home string
}

// Need is what the work needs of its machines now.
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
