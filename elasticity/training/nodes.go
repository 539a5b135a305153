package training

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Stages follow the ratio of machines and, above that, the measured load of the reliable machines (docs/training.md, Stages). Their traffic
// comes with heartbeats, their pace with the reports of completed clocks.

// meter measures a machine's load since the last judged clock.
type meter struct {
	Heard   time.Time // of the last heartbeat
	Since   time.Time // of the heartbeat from which in and out are counted
	in, out int64
	work    float64 // done since then, in floating-point operations
	seconds float64 // time that it took, in wall-clock seconds
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
	Splits  int  // number of splits that it holds: see hand
	Ready   bool // has answered its Welcome
	Loading bool
	Keeps   bool // has the committed cut of partitions that another machine will back up from the next cut on

	Heard    time.Time // by Step.Awake, as is BrokenAt
	BrokenAt time.Time // since when its stream is broken
	hungUp   bool      // the machine's end broke the stream: it had been heard until then

	unanswered  int    // commands: see commands
	errand      errand // while splits are handed over: see advanceSplits
	Incarnation ps.Incarnation
	Loaded      tiers.SplitSet
	loads       int // how often Loaded has changed
	Stats       tiers.Heartbeat
	Meter       meter
	kind        step.Kind
}

// nodes holds the machines, and the commands that they have not answered.
type nodes struct {
	*step.Step
	ByID     map[ps.ServerID]*Node
	Roster   []*Node // machines of which something is expected, in order of joining, then by id; those that have not joined come first
	reliable []*Node // subset of Roster in the reliable tier
	dead     []*Node // lost while they took part, and not known to hold no split
	lost     bool    // some of Roster are: see prune
	rate     float64 // of all members together; 0 = must be recomputed
	joins    int
	callers  map[ps.ServerID]tiers.Hello // unknown so far: the answer to their launch is pending
	Commands commands
	lastID   uint64
	listed   []*Node // see members
}

// errand is what to send a machine about splits.
type errand struct {
	given         bool // there is any
	assign        []tiers.SplitAt
	load, release []ps.Split
}

// alive reports whether commands reach the machine.
func (m *Node) alive() bool { return m.Address != "" && !m.Lost && !m.Ended && !m.Terminating }

func inOrder(a, b *Node) int { return a.Order(b.Machine) }

// sent is a command that was sent to a machine; without a Do it has been answered.
type sent struct {
	id uint64
	To *Node
	Do tiers.Do
}

// commands are the unanswered ones. A thousand machines get thousands of commands per step, and most are answered in the order in which
// they were sent.
type commands struct {
	list []sent // in order of their numbers, including some answered ones
	open int    // unanswered ones in list
}

func (c *commands) add(s sent) {
	c.list = append(c.list, s)
	c.open++
	s.To.unanswered++
}

// find returns an unanswered command; nil = none has that number.
func (c *commands) find(id uint64) *sent {
	i, found := slices.BinarySearchFunc(c.list, id, func(s sent, id uint64) int { return cmp.Compare(s.id, id) })
	if !found || c.list[i].Do == nil {
		return nil
	}
	return &c.list[i]
}

// drop removes a command from the unanswered ones. It invalidates pointers and loops over them.
func (c *commands) drop(s *sent) {
	s.To.unanswered--
	s.To, s.Do = nil, nil
	if c.open--; c.open < len(c.list)/2 {
		c.list = slices.DeleteFunc(c.list, func(s sent) bool { return s.Do == nil })
	}
}

// dropAll drops the commands for which some is true.
func (c *commands) dropAll(which func(*sent) bool) {
	c.list = slices.DeleteFunc(c.list, func(s sent) bool {
		drop := s.Do != nil && which(&s)
		if drop {
			s.To.unanswered--
			c.open--
		}
		return s.Do == nil || drop
	})
}

// waiting reports whether a command of a kind is unanswered.
func waiting[T tiers.Do](ns *nodes) bool {
	for i := range ns.Commands.list {
		if _, ok := ns.Commands.list[i].Do.(T); ok {
			return true
		}
	}
	return false
}

// ordered returns machines in order of joining, then by id: no decision depends on map order.
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

// seat adds a machine to the roster.
func (ns *nodes) seat(m *Node) {
	i, _ := slices.BinarySearchFunc(ns.Roster, m, inOrder)
	ns.Roster = slices.Insert(ns.Roster, i, m)
	if ns.rate = 0; m.Tier == step.Reliable {
		ns.reliable = append(ns.reliable, m)
	}
}

// prune removes lost machines from the roster, at once: for a thousand that are reclaimed together, each removal would examine the rest.
func (ns *nodes) prune() {
	if ns.lost {
		ns.lost = false
		gone := func(m *Node) bool { return m.Lost }
		ns.Roster, ns.reliable = slices.DeleteFunc(ns.Roster, gone), slices.DeleteFunc(ns.reliable, gone)
	}
}

// sort must be called when machines have joined.
func (ns *nodes) sort() {
	slices.SortFunc(ns.Roster, inOrder)
	ns.rate = 0
}

func (ns *nodes) Members() []*Node { return ns.ordered((*Node).Member) }

// members returns the members in some lists, each once, in order: of a thousand machines only a few serve. The slice is valid until the
// next call.
func (ns *nodes) members(lists ...[]ps.ServerID) []*Node {
	out := ns.listed[:0]
	for _, ids := range lists {
		for i, id := range ids {
			if i > 0 && id == ids[i-1] {
				continue
			}
			if m := ns.ByID[id]; m != nil && m.Member() && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	slices.SortFunc(out, inOrder)
	ns.listed = out
	return out
}

// keepers returns the members that keep a cut for others: backups, in the reliable tier.
func (ns *nodes) keepers() (ids []ps.ServerID) {
	for _, m := range ns.reliable {
		if m.Keeps {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// fleetRate returns the declared rate of all members together.
func (ns *nodes) fleetRate() float64 {
	if ns.rate == 0 {
		for _, m := range ns.Roster {
			if m.Member() {
				ns.rate += m.kind.Rate
			}
		}
	}
	return ns.rate
}

// reachable returns members that can still receive commands.
func (ns *nodes) reachable() []*Node {
	return ns.ordered(func(m *Node) bool { return m.Member() && m.alive() })
}

func (ns *nodes) tierMembers() []tiers.Member { return ns.asMembers((*Node).Member) }

// receivers returns the members to whom partitions or splits may be assigned.
func (ns *nodes) receivers() []tiers.Member {
	return ns.asMembers(func(m *Node) bool { return m.Member() && !m.noWork() })
}

func (ns *nodes) asMembers(keep func(*Node) bool) []tiers.Member {
	n := 0
	for _, m := range ns.Roster {
		if keep(m) {
			n++
		}
	}
	out := make([]tiers.Member, 0, n)
	for _, m := range ns.Roster {
		if keep(m) {
			out = append(out, tiers.Member{ID: m.ID, Tier: m.Tier, Joined: m.Joined, VCPU: m.VCPU, Rate: m.kind.Rate,
				Leaving: m.noWork() || m.Draining, NoWork: m.noWork(), Loaded: m.Loaded})
		}
	}
	return out
}

// standsBy reports whether a machine only holds splits while no other machine can.
func (c *Config) standsBy(m *Node) bool { return c.Job.Standby != nil && m.Tier == tiers.Reliable }

// unparkAll lets all parked workers that select accepts continue.
func unparkAll(t *Training, which func(*Node) bool) {
	for _, m := range t.Nodes.reachable() {
		if which(m) && !t.cfg.standsBy(m) {
			t.Nodes.send(m.ID, tiers.Unpark{Until: t.cfg.Job.Clocks})
		}
	}
}

func every(*Node) bool { return true }

// noWork reports whether a machine should get no work.
func (m *Node) noWork() bool { return m.Warned || m.Leaving || m.Terminating }

// ReliableMembers returns the members that can hold the job.
func (ns *nodes) ReliableMembers() []tiers.Member {
	return slices.DeleteFunc(ns.tierMembers(), func(m tiers.Member) bool { return m.Tier != tiers.Reliable || m.Leaving })
}

func (ns *nodes) peers() map[ps.ServerID]string {
	members := ns.Members()
	peers := make(map[ps.ServerID]string, len(members))
	for _, m := range members {
		peers[m.ID] = m.Address
	}
	return peers
}

func (ns *nodes) send(to ps.ServerID, do tiers.Do) {
	ns.lastID++
	ns.Commands.add(sent{id: ns.lastID, To: ns.ByID[to], Do: do})
	ns.Do(Send{ID: to, Command: tiers.Command{ID: ns.lastID, Do: do}})
}

// forget drops the unanswered commands of a node whose answers will never arrive.
func (ns *nodes) forget(m *Node) {
	if m.unanswered == 0 {
		return
	}
	ns.Commands.dropAll(func(s *sent) bool { return s.To == m })
}

// DeadHolder returns the first lost machine whose splits have no new worker yet; nil if there is none. A lost machine gets no split.
func (ns *nodes) DeadHolder() (first *Node) {
	ns.dead = slices.DeleteFunc(ns.dead, func(m *Node) bool { return m.Splits == 0 })
	if len(ns.dead) == 0 {
		return nil
	}
	return slices.MinFunc(ns.dead, inOrder)
}
