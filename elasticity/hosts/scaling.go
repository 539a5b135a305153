package hosts

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
)

// balancer decides for a book which slots serve which partitions, and moves slots together (Parameter Service, 3.3.2 and appendix D).
type balancer struct{ *Book }

// A job gets a reliable slot beyond those that it requests when moves among its slots do not help (Parameter Service, 3.3.2: one aggregator
// more), and loses it again when the others can serve its partitions. The job's own controller requests the slot and gives it back, by the
// mechanism of `tierml scale`: its partitions are spread over all of its slots.

// trySlot returns the effect of another slot of a job for a host, on another host with room or, if one more is allowed, on a new one; nil =
// no relief.
func (b balancer) trySlot(of step.ID, job string) (best *change) {
	slots := b.reliableOf(job)
	if len(slots) == 0 || len(slots) >= len(b.measured[job].profile.Serving) || b.waits(job) {
		return nil
	}
	there := b.staying(step.Reliable)
	needs := b.needs(&Slot{Job: job, Tier: step.Reliable, Size: b.slot(slots[0]).Size})
	t := b.tenancy()
	before := t.lossAt(of)
	for _, h := range there {
		if h.ID != of && needs.fits(h.free()) && !b.neighbours(job, h.ID) {
			best = better(best, b.withSlot(of, job, h.ID, before))
		}
	}
	if len(there) < b.rules.Offers[step.Reliable].Most {
		if c := b.withSlot(of, job, fresh, before); c != nil {
			c.buys = 1
			best = better(best, c)
		}
	}
	return best
}

// fresh is a host that would be bought.
const fresh step.ID = "new"

// withSlot returns the effect of another slot on one host for another host, on which a job loses this much; nil = no benefit.
func (b balancer) withSlot(of step.ID, job string, on step.ID, before float64) *change {
	has := capacities(b.staying(step.Reliable))
	if _, there := has[on]; !there {
		offer := b.rules.Offers[step.Reliable]
		has[on] = Capacity(offer.Least, offer.Network)
	}
	t := b.spread(has, job, append(slices.Clone(b.live), &Slot{ID: "another", Job: job, Host: on}))
	left := t.lossAt(of)
	if left >= before || on != fresh && t.lossAt(on) > b.rules.Loss { // a job that needs many gets the next one on its own host later
		return nil
	}
	return &change{job: job, more: 1, left: left}
}

// waits reports whether a slot of a job waits for a host.
func (b *Book) waits(job string) bool {
	return slices.ContainsFunc(b.live, func(s *Slot) bool { return s.Job == job && s.Tier == step.Reliable && s.waiting() })
}

// recycle reclaims a slot that a job was given, from the least loaded host, if without it no job would lose half of
// what it may: the slot is no longer needed.
func (b balancer) recycle(now time.Time) (begun bool) {
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
		if from == nil || t.shareAt(last.Host) < t.shareAt(from.Host) {
			from = last
		}
	}
	if from == nil {
		return false
	}
	b.write(Line{T: now, Kind: Preferred, Job: from.Job, More: b.measured[from.Job].wish.More - 1, Leave: step.ID(from.ID), Why: "fewer slots can serve the same partitions"})
	return true
}

// dispensable reports whether no job would lose half of what it may without a slot.
func (b balancer) dispensable(s *Slot) bool {
	others := slices.DeleteFunc(slices.Clone(b.live), func(o *Slot) bool { return o == s })
	t := b.spread(capacities(b.staying(step.Reliable)), s.Job, others)
	return t.most() <= b.rules.Loss/2
}

// changeable reports whether a job may be changed: it reports the owners of its partitions, and no change has failed with its present
// slots. A temporary slot may still exist then.
func (b balancer) changeable(job string) bool {
	m, has := b.measured[job], b.reliableOf(job)
	failed := m.refused != nil && !slices.ContainsFunc(m.refused, func(id step.ID) bool { return !slices.Contains(has, id) })
	return len(m.owners) > 0 && !failed
}

// begin makes a change, and starts to watch it.
func (b balancer) begin(now time.Time, c *change, why string) {
	clocks := map[string]time.Duration{}
	for job, m := range b.measured {
		if m.lately > 0 {
			clocks[job] = m.lately
		}
	}
	clocks[c.job] = cmp.Or(b.measured[c.job].lately, b.measured[c.job].profile.Clock)
	b.write(Line{T: now, Kind: Preferred, Job: c.job, Owners: c.owners, More: b.measured[c.job].wish.More + c.more, Leave: c.leave, Hosts: c.to, Watched: clocks, Why: why})
}
