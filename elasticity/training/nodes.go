package training

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Stages follow the ratio of machines and, above that, what the reliable machines are seen to carry (docs/training.md,
// Stages). Their traffic comes with heartbeats, their pace with the reports of clocks that are done.

// meter measures a machine's load since the last clock that was judged.
type meter struct {
	Heard   time.Time // of the last heartbeat
	Since   time.Time // of the heartbeat that in and out count from
	in, out int64
	work    float64 // done since then, in floating-point operations
	seconds float64 // that it took, in wall-clock seconds
}

// begin counts from the last heartbeat on.
func (t *meter) begin(h tiers.Heartbeat) {
	t.Since, t.in, t.out, t.work, t.seconds = t.Heard, h.BytesIn, h.BytesOut, 0, 0
}

func (t *meter) worked(p tiers.Progress) {
	for i := range p.Splits {
		t.work += p.Splits[i].Work
	}
	t.seconds += p.Seconds
}

// Node is a machine as training sees it: an agent that is reached by commands and answers them.
type Node struct {
	*step.Machine
	Address string
	Splits  int  // that it holds: see hand
	Ready   bool // has answered its Welcome
	Loading bool
	Keeps   bool // the committed cut of partitions that another machine is to back up from the next one on

	Heard    time.Time // by Step.Awake, as is BrokenAt
	BrokenAt time.Time // its stream is broken since then
	hungUp   bool      // and it was its end that broke it: it had been heard of until then

	Incarnation ps.Incarnation
	Loaded      []bool // Index: Split
	loads       int    // how often that has changed
	Stats       tiers.Heartbeat
	Meter       meter
	kind        step.Kind
}

// nodes are the machines, and the commands that they have not answered.
type nodes struct {
	*step.Step
	ByID     map[ps.ServerID]*Node
	Roster   []*Node // those that are not archived, in the order of joining, then by id
	joins    int
	callers  map[ps.ServerID]tiers.Hello // that nobody knows yet: the answer to their launch is on its way
	Commands map[uint64]sent
	lastID   uint64
}

// alive reports whether commands reach the machine.
func (m *Node) alive() bool { return m.Address != "" && !m.Lost && !m.Ended && !m.Terminating }

func inOrder(a, b *Node) int { return a.Order(b.Machine) }

type sent struct {
	To ps.ServerID
	Do tiers.Do
}

// waiting reports whether a command of a kind is unanswered.
func waiting[T tiers.Do](ns *nodes) bool {
	for _, s := range ns.Commands {
		if _, ok := s.Do.(T); ok {
			return true
		}
	}
	return false
}

// ordered returns machines in the order of joining, then by id: no decision hangs on map order.
func (ns *nodes) ordered(keep func(*Node) bool) []*Node {
	var out []*Node
	for i, m := range ns.Roster {
		if !keep(m) {
			continue
		}
		if out == nil {
			out = make([]*Node, 0, len(ns.Roster)-i)
		}
		out = append(out, m)
	}
	return out
}

// seat takes a machine into the roster.
func (ns *nodes) seat(m *Node) {
	i, _ := slices.BinarySearchFunc(ns.Roster, m, inOrder)
	ns.Roster = slices.Insert(ns.Roster, i, m)
}

// sort is due when machines have joined.
func (ns *nodes) sort() { slices.SortFunc(ns.Roster, inOrder) }

func (ns *nodes) Members() []*Node { return ns.ordered((*Node).Member) }

// reachable are members that can still receive commands.
func (ns *nodes) reachable() []*Node {
	return ns.ordered(func(m *Node) bool { return m.Member() && m.alive() })
}

func (ns *nodes) tierMembers() []tiers.Member {
	members := ns.Members()
	out := make([]tiers.Member, 0, len(members))
	for _, m := range members {
		out = append(out, tiers.Member{
			ID: m.ID, Tier: m.Tier, Joined: m.Joined, VCPU: m.VCPU, Rate: m.kind.Rate,
			Leaving: m.Warned || m.Draining || m.Leaving || m.Terminating,
			NoWork:  m.Warned || m.Leaving || m.Terminating,
			Loaded:  m.Loaded,
		})
	}
	return out
}

// ReliableMembers are the members on which the job can stand.
func (ns *nodes) ReliableMembers() []tiers.Member {
	return slices.DeleteFunc(ns.tierMembers(), func(m tiers.Member) bool { return m.Tier != tiers.Reliable || m.Leaving })
}

func (ns *nodes) peers() map[ps.ServerID]string {
	peers := map[ps.ServerID]string{}
	for _, m := range ns.Members() {
		peers[m.ID] = m.Address
	}
	return peers
}

func (ns *nodes) send(to ps.ServerID, do tiers.Do) {
	ns.lastID++
	ns.Commands[ns.lastID] = sent{To: to, Do: do}
	ns.Do(Send{ID: to, Command: tiers.Command{ID: ns.lastID, Do: do}})
}

// forget drops the unanswered commands of a node, whose answers will never come.
func (ns *nodes) forget(id ps.ServerID) {
	for k, s := range ns.Commands {
		if s.To == id {
			delete(ns.Commands, k)
		}
	}
}
