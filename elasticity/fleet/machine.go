package fleet

import (
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Machine is a bought machine, from the provider's answer to the launch until it reports the machine's end.
type Machine struct {
	step.Machine
	Charged  bool // its bill is in the journal
	recalled bool // launched by a controller before this one
	atRisk   bool // the provider reports a raised risk
	// That it left is not in the journal.
	unwritten bool

	Pool     market.Pool
	bid      market.USD
	Token    string
	Launched time.Time
	missing  time.Time // since when the provider does not list it; zero = it does

	Why        string    // of the termination
	terminated time.Time // when its end was requested
	EndedAt    time.Time
	SawEnd     time.Time // when its end was noted, by Step.Awake
	EndedBy    market.EndedBy
	billed     int         // lines of its bill that a controller before wrote
	paid       market.Paid // of its bill
	cost       *market.USD // by the provider's word
	Moved      int64       // bytes of the run's state that it fetched from another region
}

// endedByItself reports whether a machine that its provider did not take had ended before we ended it. A machine that is
// taken over may have waited in vain for its controller.
func (m *Machine) endedByItself(at time.Time) bool {
	return !m.recalled && !m.Warned && endedByItself(at, m.Terminating, m.terminated)
}

// usage returns what a machine's bill is made of.
func (m *Machine) usage() market.Usage {
	u := market.Usage{Pool: m.Pool, Bid: m.bid, Start: m.Launched, Moved: m.Moved}
	if m.Ended {
		u.End, u.EndedBy = m.EndedAt, m.EndedBy
	}
	return u
}

// bad returns a line about a machine that is given up.
func (m *Machine) bad(why string) journal.Entry {
	return journal.Entry{Kind: journal.Failed, Instance: string(m.ID), Pool: m.Pool.String(), Why: why}
}

// line returns one about a machine of its tier.
func (m *Machine) line(kind journal.Kind) journal.Entry {
	return journal.Entry{Kind: kind, Instance: string(m.ID), Pool: m.Pool.String(), Tier: string(m.Tier)}
}

// roster is all machines.
type roster struct {
	cfg  *Config
	ByID map[step.ID]*Machine
	List []*Machine // those that are not archived, in the order of joining, then by id
	// Of List, in the same order: machines of the reliable tier, and those that drain, leave or have ended.
	reliable, going []*Machine
	archived        []*Machine // that have ended, with a bill and without work: nothing is looked for among them
}

func inOrder(a, b *Machine) int { return a.Order(&b.Machine) }

// ordered returns machines in the order of joining, then by id: no decision hangs on map order.
func (r *roster) ordered(keep func(*Machine) bool) []*Machine {
	var out []*Machine
	for i, m := range r.List {
		if !keep(m) {
			continue
		}
		if out == nil {
			out = make([]*Machine, 0, len(r.List)-i)
		}
		out = append(out, m)
	}
	return out
}

// seat takes a machine into the roster.
func (r *roster) seat(m *Machine) {
	r.ByID[m.ID] = m
	insert(&r.List, m)
	if m.Tier == step.Reliable {
		insert(&r.reliable, m)
	}
	if m.Draining || m.Leaving || m.Ended {
		r.Goes(m)
	}
}

// Goes is due when a machine drains, leaves or has ended.
func (r *roster) Goes(m *Machine) { insert(&r.going, m) }

// insert puts a machine into its place of a list, if it is not there.
func insert(list *[]*Machine, m *Machine) {
	if i, there := slices.BinarySearchFunc(*list, m, inOrder); !there {
		*list = slices.Insert(*list, i, m)
	}
}

// Reorder is due when machines have joined.
func (r *roster) Reorder() {
	for _, list := range [][]*Machine{r.List, r.reliable, r.going} {
		slices.SortFunc(list, inOrder)
	}
}

// archive forgets machines of which nothing can come any more.
func (r *roster) archive(idle func(*step.Machine) bool) {
	for _, m := range r.going {
		if m.Archived = m.Charged && m.Lost && idle(&m.Machine); m.Archived {
			r.archived = append(r.archived, m)
		}
	}
	for _, list := range []*[]*Machine{&r.List, &r.reliable, &r.going} {
		*list = slices.DeleteFunc(*list, func(m *Machine) bool { return m.Archived })
	}
}

// Capacity returns how much a machine counts for in what the job wants: its vCPUs, or one machine.
func (r *roster) Capacity(m *Machine) int {
	if r.cfg.Want.VCPU > 0 { // a request keeps to what the job counts
		return m.VCPU
	}
	return 1
}

// MachinesFor returns how many machines satisfy a want.
func (r *roster) MachinesFor(want bidding.Want) int {
	if r.cfg.Want.VCPU == 0 {
		return want.Machines
	}
	each := r.UsualVCPU()
	return (want.VCPU + each - 1) / each
}

// UsualVCPU returns what one machine counts for where vCPUs are wanted: that of most machines held, or else of the first
// pool.
func (r *roster) UsualVCPU() int {
	held := map[int]int{}
	best := 0
	for _, m := range r.List { // in order: of like numbers the first counts
		if m.Tier == step.Transient && m.Staying() && m.VCPU > 0 {
			if held[m.VCPU]++; held[m.VCPU] > held[best] {
				best = m.VCPU
			}
		}
	}
	if best == 0 && len(r.cfg.Pools) > 0 {
		best = r.cfg.Pools[0].Type.VCPU
	}
	return max(best, 1)
}

// dispensable returns the machine to let go next: one that does not take part yet, or the youngest that is not larger than
// what is too much.
func (r *roster) dispensable(surplus int) (found *Machine) {
	for _, m := range r.List {
		if m.Tier != step.Transient || !m.Staying() || r.Capacity(m) > surplus {
			continue
		}
		if m.Joined == 0 {
			return m
		}
		found = m
	}
	return found
}

// letGo has machines leave as soon as the work lets them.
func (r *roster) letGo(releases []bidding.Release) {
	for _, release := range releases {
		for _, m := range r.List {
			if release.Of(m.Pool, m.Launched) && m.Staying() {
				m.Leaving, m.Why = true, release.Why
				r.Goes(m)
			}
		}
	}
}

// settled reports whether the controllers before have seen a machine to its end.
func (r *roster) settled(id provisioner.InstanceID) bool {
	return r.ByID[step.ID(id)] == nil && r.cfg.Past != nil && r.cfg.Past.Known[string(id)]
}
