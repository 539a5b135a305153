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
	recalled bool // launched by a previous controller
	atRisk   bool // the provider reports a raised risk
	// Its departure is not in the journal.
	unwritten bool

	Pool     market.Pool
	bid      market.USD
	Token    string
	Launched time.Time
	missing  time.Time // since when the provider has not listed it; zero = it is listed

	Why        string    // of the termination
	terminated time.Time // when its end was requested
	EndedAt    time.Time
	SawEnd     time.Time // when its end was noted, by Step.Awake
	EndedBy    market.EndedBy
	billed     int         // lines of its bill written by a previous controller
	paid       market.Paid // state of its bill
	cost       *market.USD // as reported by the provider
	Moved      int64       // bytes of the run's state fetched from another region
}

// endedByItself reports whether a machine that its provider did not take had ended before the controller ended it. A taken-over machine may
// have waited in vain for its controller.
func (m *Machine) endedByItself(at time.Time) bool {
	return !m.recalled && !m.Warned && endedByItself(at, m.Terminating, m.terminated)
}

// usage returns the input of a machine's bill.
func (m *Machine) usage() market.Usage {
	u := market.Usage{Pool: m.Pool, Bid: m.bid, Start: m.Launched, Moved: m.Moved}
	if m.Ended {
		u.End, u.EndedBy = m.EndedAt, m.EndedBy
	}
	return u
}

// bad returns a journal entry about a machine that is given up.
func (m *Machine) bad(why string) journal.Entry {
	return journal.Entry{Kind: journal.Failed, Instance: string(m.ID), Pool: m.Pool.String(), Why: why}
}

// line returns an entry about a machine of its tier.
func (m *Machine) line(kind journal.Kind) journal.Entry {
	return journal.Entry{Kind: kind, Instance: string(m.ID), Pool: m.Pool.String(), Tier: string(m.Tier)}
}

// roster holds all machines.
type roster struct {
	cfg  *Config
	ByID map[step.ID]*Machine
	List []*Machine // machines that are not archived, in order of joining, then by id
	// Subsets of List, in the same order: the reliable tier, and machines that drain, leave or have ended.
	reliable, going []*Machine
	archived        []*Machine // machines that ended, with a bill and without work: never searched
}

func inOrder(a, b *Machine) int { return a.Order(&b.Machine) }

// ordered returns machines in order of joining, then by id: no decision depends on map order.
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

// seat adds a machine to the roster.
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

// Goes must be called when a machine drains, leaves or has ended.
func (r *roster) Goes(m *Machine) { insert(&r.going, m) }

// insert inserts a machine into a list in order, if it is missing.
func insert(list *[]*Machine, m *Machine) {
	if i, there := slices.BinarySearchFunc(*list, m, inOrder); !there {
		*list = slices.Insert(*list, i, m)
	}
}

// Reorder must be called when machines have joined.
func (r *roster) Reorder() {
	for _, list := range [][]*Machine{r.List, r.reliable, r.going} {
		slices.SortFunc(list, inOrder)
	}
}

// archive removes machines that can no longer have an effect.
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

// Capacity returns how much of the job's demand a machine covers: its vCPUs, or 1.
func (r *roster) Capacity(m *Machine) int {
	if r.cfg.Want.VCPU > 0 { // a request uses the job's unit
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

// UsualVCPU returns what one machine counts for if vCPUs are wanted: the most frequent size held, or else that of the first pool.
func (r *roster) UsualVCPU() int {
	held := map[int]int{}
	best := 0
	for _, m := range r.List { // in order: the first of equals counts
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

// dispensable returns the machine to let go next: one that does not take part yet, or the youngest that is not larger than the surplus.
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

// letGo makes machines leave as soon as the work permits.
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

// settled reports whether previous controllers have completed a machine's records.
func (r *roster) settled(id provisioner.InstanceID) bool {
	return r.ByID[step.ID(id)] == nil && r.cfg.Past != nil && r.cfg.Past.Known[string(id)]
}
