package hosts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
)

// A job gets a reliable slot beyond those that it asks for when moves among its slots do not help (Parameter Service, 3.3.2: an aggregator
// more), and loses it again when the others can serve its partitions. The job's own controller asks for the slot and gives it back, by the
// mechanism of `tierml scale`: its partitions are spread over all of its slots.

// trySlot returns what another slot of a job would do for a host, on another host with room or, if there may be one more, on a new one; nil =
// the host would not be relieved.
func (b *Book) trySlot(of step.ID, job string) (best *change) {
	slots := b.reliableOf(job)
	if len(slots) == 0 || len(slots) >= len(b.measured[job].profile.Serving) || b.waits(job) {
		return nil
	}
	there := b.staying(step.Reliable)
	size := b.slot(slots[0]).Size
	before := b.tenancy().LossAt(b.tenancy().numbers[of])
	for _, h := range there {
		if h.ID != of && size.fits(h.free()) && !b.neighbours(job, h.ID) {
			best = better(best, b.withSlot(of, job, h.ID, before))
		}
	}
	if len(there) < b.rules.Offers[step.Reliable].Most {
		if c := b.withSlot(of, job, "new", before); c != nil {
			c.buys = 1
			best = better(best, c)
		}
	}
	return best
}

// withSlot returns what another slot on one host would do for another host, on which a job loses this much; nil = nothing that is of
// use.
func (b *Book) withSlot(of step.ID, job string, on step.ID, before float64) *change {
	cores := coresOf(b.staying(step.Reliable))
	if _, there := cores[on]; !there {
		cores[on] = float64(b.rules.Offers[step.Reliable].Least.VCPU)
	}
	t := b.spread(cores, job, append(slices.Clone(b.live), &Slot{ID: "another", Job: job, Host: on}))
	left := t.LossAt(t.numbers[of])
	if left >= before || t.LossAt(t.numbers[on]) > b.rules.Loss {
		return nil
	}
	return &change{job: job, more: 1, left: left}
}

// waits reports whether a slot of a job waits for a host.
func (b *Book) waits(job string) bool {
	return slices.ContainsFunc(b.live, func(s *Slot) bool { return s.Job == job && s.Tier == step.Reliable && s.waiting() })
}

// recycle takes a slot back that a job was given, from the least loaded host, if without it no job would lose half of what it may: the
// reason for the slot is gone.
func (b *Book) recycle(now time.Time) (begun bool) {
	t := b.tenancy()
	var from *Slot
	for _, job := range t.jobs {
		slots := b.reliableOf(job)
		if b.measured[job].wish.More == 0 || len(slots) < 2 || b.waits(job) {
			continue
		}
		last := b.slot(slots[len(slots)-1]) // the job gives its youngest back
		if now.Sub(last.Placed) < b.rules.Insist || !b.dispensable(last) {
			continue
		}
		if from == nil || t.Load(t.numbers[last.Host]) < t.Load(t.numbers[from.Host]) {
			from = last
		}
	}
	if from == nil {
		return false
	}
	b.write(Line{T: now, Kind: Preferred, Job: from.Job, More: b.measured[from.Job].wish.More - 1, Why: "fewer slots can serve the same partitions"})
	return true
}

// vacate begins to empty the least loaded host if the others can serve what it does (section 3.3.2): a job is lent a slot there, and when that
// has been watched gives up the one here; then the next. It is also how jobs leave hosts on which they were measured apart.
func (b *Book) vacate(now time.Time) {
	t := b.tenancy()
	var least *Host
	for _, h := range b.staying(step.Reliable) {
		if n := t.numbers[h.ID]; h.Used != (Size{}) && (least == nil || t.Load(n) < t.Load(t.numbers[least.ID])) {
			least = h
		}
	}
	if least == nil || !b.movable(now, least) {
		return
	}
	s := b.On(least.ID)[0]
	b.begin(now, &change{job: s.Job, more: 1, leave: step.ID(s.ID)}, fmt.Sprintf("other hosts can serve what host %s does", least.ID))
}

// movable reports whether all slots of a host have room on others, where no job would lose half of what it may then, and whether their jobs can
// give them up: each has one slot, serves with it, and has had it for a while.
func (b *Book) movable(now time.Time, of *Host) bool {
	others := slices.DeleteFunc(b.staying(step.Reliable), func(h *Host) bool { return h == of })
	var slots []*Slot
	for _, s := range b.On(of.ID) {
		m, id := b.measured[s.Job], step.ID(s.ID)
		alone := slices.Equal(b.reliableOf(s.Job), []step.ID{id}) && !b.waits(s.Job)
		serves := len(m.owners) > 1 && !slices.ContainsFunc(m.owners, func(owner step.ID) bool { return owner != id })
		if !alone || !serves || m.wish.More > 0 || !b.changeable(s.Job) || now.Sub(s.Placed) < b.rules.Insist {
			return false
		}
		slots = append(slots, &Slot{ID: s.ID, Job: s.Job, Tier: s.Tier, Size: s.Size})
	}
	p := pack(slots, others, b.neighbours, func(*Slot, step.ID) bool { return true }, Size{}, 0)
	if len(p.later) > 0 {
		return false
	}
	all := slices.DeleteFunc(slices.Clone(b.live), func(s *Slot) bool { return s.Host == of.ID })
	for _, s := range slots {
		s.Host = p.on[s]
		all = append(all, s)
	}
	t := tenants(all, b.measured, coresOf(others), b.rules.Loss)
	return !slices.ContainsFunc(others, func(h *Host) bool { return t.LossAt(t.numbers[h.ID]) > b.rules.Loss/2 })
}

// dispensable reports whether no job would lose half of what it may without a slot.
func (b *Book) dispensable(s *Slot) bool {
	there := b.staying(step.Reliable)
	others := slices.DeleteFunc(slices.Clone(b.live), func(o *Slot) bool { return o == s })
	t := b.spread(coresOf(there), s.Job, others)
	return !slices.ContainsFunc(there, func(h *Host) bool { return t.LossAt(t.numbers[h.ID]) > b.rules.Loss/2 })
}

// changeable reports whether something may be changed for a job: it reports the owners of its partitions, and no change has failed with the slots
// that it has. One that it was lent then may still be there.
func (b *Book) changeable(job string) bool {
	m, has := b.measured[job], b.reliableOf(job)
	failed := m.refused != nil && !slices.ContainsFunc(m.refused, func(id step.ID) bool { return !slices.Contains(has, id) })
	return len(m.owners) > 0 && !failed
}

// begin makes a change, and has it watched.
func (b *Book) begin(now time.Time, c *change, why string) {
	clocks := map[string]time.Duration{}
	for job, m := range b.measured {
		if m.lately > 0 {
			clocks[job] = m.lately
		}
	}
	clocks[c.job] = cmp.Or(b.measured[c.job].lately, b.measured[c.job].profile.Clock)
	b.write(Line{T: now, Kind: Preferred, Job: c.job, Owners: c.owners, More: b.measured[c.job].wish.More + c.more, Leave: c.leave, Watched: clocks, Why: why})
}
