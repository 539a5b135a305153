package hosts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
)

// Few slots are packed as well as possible. With more, at most `displaced` slots move to make room for others. A search gives up after
// trying mostTries places.
const (
	few       = 12
	displaced = 2
	mostTries = 20_000
)

// notable is the number of cores that is worth a change: for fewer, partitions are not moved to balance a job's slots, and no slot is
// divided.
const notable = 0.1

// vacate begins to empty a host if the others can serve its load (Parameter Service, section 3.3.2), the least loaded first. If its slots
// fit only into room that others leave, slots of other hosts move, too: the paper has nothing like it, but small clusters need it. A job
// temporarily gets a slot on the other host, and gives up the one here once that has been watched; then the next. If no whole slot fits,
// one is replaced by two smaller ones, as the paper packs a job's tensors one by one. This is also how jobs leave the hosts on which they
// were measured separately.
func (b balancer) vacate(now time.Time) {
	if slices.ContainsFunc(b.live, func(s *Slot) bool { return s.Leaving() || b.measured[s.Job].wish.Leave == step.ID(s.ID) || s.waiting() }) {
		return // the state after the last change has not arrived
	}
	r := b.repacking(now)
	c := r.fewest(func(h *Host, others int) *change { return r.without(h, others) })
	if c == nil {
		c = r.fewest(func(h *Host, others int) *change {
			for _, s := range r.slots {
				if s.Host == h.ID && b.divisible(s) {
					if halves := r.divided(s); !halves.lacks(h) {
						if c := halves.without(h, others); c != nil {
							return c
						}
						r.tries = halves.tries
					}
				}
			}
			return nil
		})
	}
	if c != nil {
		b.begin(now, c, fmt.Sprintf("other hosts can serve what host %s does", b.slot(c.leave).Host))
	}
}

// repacking returns a search among the slots of now.
func (b balancer) repacking(now time.Time) repacking {
	r := repacking{book: b.Book, hosts: b.staying(step.Reliable), now: map[step.ID]taken{}, fixed: map[step.ID]taken{}, tries: mostTries, loss: b.rules.Loss / 2}
	for _, h := range r.hosts {
		for _, s := range b.On(h.ID) {
			of := b.taken(s)
			r.now[h.ID] = r.now[h.ID].plus(of, 1)
			if b.movable(now, s) {
				r.slots = append(r.slots, loaded{s, of})
			} else {
				r.fixed[h.ID] = r.fixed[h.ID].plus(of, 1)
			}
		}
	}
	slices.SortStableFunc(r.hosts, func(x, y *Host) int { return cmp.Compare(share(x, r.now), share(y, r.now)) })
	slices.SortStableFunc(r.slots, func(x, y loaded) int { return cmp.Compare(b.share(y), b.share(x)) })
	return r
}

// share returns how much of a host's scarcest resource the served load takes.
func share(h *Host, taken map[step.ID]taken) float64 { return taken[h.ID].load.share(h.capacity()) }

// share returns how much a slot takes of its host's.
func (b balancer) share(s loaded) float64 { return s.load.share(b.hosts[s.Host].capacity()) }

// fewest returns the first change of the plan with the fewest moves that empties a host: each change made leaves a plan with one move
// fewer.
func (r *repacking) fewest(without func(h *Host, others int) *change) *change {
	for moves := 1; moves <= len(r.slots) && r.tries > 0; moves++ {
		for _, h := range r.hosts {
			own := r.on(h)
			if own == 0 || own > moves || moves > own+displaced && len(r.slots) > few || r.fixed[h.ID] != (taken{}) || r.lacks(h) {
				continue
			}
			if c := without(h, moves-own); c != nil {
				return c
			}
		}
	}
	return nil
}

// divisible reports whether two slots can serve one slot's load.
func (b balancer) divisible(s loaded) bool {
	n, m, h := len(b.reliableOf(s.Job)), b.measured[s.Job], b.hosts[s.Host]
	cores := m.load().share(h.capacity()) * float64(h.Size.VCPU) // or as much of the network
	return b.serves(s.Slot) && n < len(m.profile.Serving) && cores >= notable*float64(n+1)
}

// movable reports whether one slot on another host could serve a slot's job: its reliable slots only serve, and this one has done so for a
// while.
func (b balancer) movable(now time.Time, s *Slot) bool {
	owners := b.measured[s.Job].owners
	if len(owners) < 2 || now.Sub(s.Placed) < b.rules.Insist || !b.changeable(s.Job) {
		return false
	}
	slots := b.reliableOf(s.Job)
	return !slices.ContainsFunc(owners, func(owner step.ID) bool { return !slices.Contains(slots, owner) })
}

// loaded is a slot that can move.
type loaded struct {
	*Slot
	taken
}

// repacking searches for a way to serve the same slots on one host less.
type repacking struct {
	book  *Book
	loss  float64           // that a job may have then
	hosts []*Host           // the least loaded first
	slots []loaded          // that can move, the most loaded first
	now   map[step.ID]taken // of hosts, by all slots
	fixed map[step.ID]taken // by those that cannot move

	order []loaded          // those that may stay, then those that have to move
	at    []step.ID         // of order
	used  map[step.ID]taken // by slots that cannot move, and placed ones
	tries int
	first *change
}

// on returns the number of movable slots on a host.
func (r *repacking) on(h *Host) (n int) {
	for _, s := range r.slots {
		if s.Host == h.ID {
			n++
		}
	}
	return n
}

// without returns the first change of a way to empty a host while that number of other slots moves; nil = there is no way, or the search
// gave up.
func (r *repacking) without(of *Host, others int) *change {
	var stay, move []loaded
	for _, s := range r.slots {
		if s.Host == of.ID {
			move = append(move, s)
		} else {
			stay = append(stay, s)
		}
	}
	r.order, r.used = slices.Concat(stay, move), maps.Clone(r.fixed)
	r.at = make([]step.ID, len(r.order))
	if !r.place(0, of.ID, others) {
		return nil
	}
	return r.first
}

// divided returns the same search with one slot split in two. Each of its job's slots then serves less.
func (r *repacking) divided(s loaded) repacking {
	out := *r
	out.now, out.fixed, out.slots = maps.Clone(r.now), maps.Clone(r.fixed), nil
	slots := r.book.reliableOf(s.Job)
	m := r.book.measured[s.Job]
	each := Load{}.plus(m.load(), 1/float64(len(slots)+1))
	then := func(was taken) taken {
		was.cores, was.load = min(was.cores, each.Cores), each
		return was
	}
	for _, l := range r.slots {
		if l.Job != s.Job {
			out.slots = append(out.slots, l)
			continue
		}
		was, is, n := l.taken, then(l.taken), 1
		if l.Slot == s.Slot {
			n = 2
		}
		out.now[l.Host] = out.now[l.Host].plus(was, -1).plus(is, n)
		out.slots = append(out.slots, slices.Repeat([]loaded{{l.Slot, is}}, n)...)
	}
	for _, id := range slots {
		o := r.book.slot(id)
		if !slices.ContainsFunc(r.slots, func(l loaded) bool { return l.Slot == o }) {
			was := r.book.taken(o)
			out.now[o.Host] = out.now[o.Host].plus(was, -1).plus(then(was), 1)
			out.fixed[o.Host] = out.fixed[o.Host].plus(was, -1).plus(then(was), 1)
		}
	}
	return out
}

// feasible reports whether the moves can be made one after another, each to a host that has room at that moment, and remembers the first. A
// plan that gets stuck would be followed by another one, and then again by the first.
func (r *repacking) feasible() bool {
	now, left := maps.Clone(r.now), map[*Slot]*change{}
	var order []*Slot
	of := map[*Slot]taken{}
	for i, s := range r.order {
		if r.at[i] == s.Host {
			continue
		}
		if left[s.Slot] == nil {
			left[s.Slot] = &change{job: s.Job, leave: step.ID(s.ID)}
			order = append(order, s.Slot)
		}
		c := left[s.Slot]
		c.more, c.to, of[s.Slot] = c.more+1, append(c.to, r.at[i]), s.taken
	}
	r.first = nil
	for len(order) > 0 {
		k := slices.IndexFunc(order, func(s *Slot) bool {
			return !slices.ContainsFunc(left[s].to, func(to step.ID) bool { return !now[to].plus(of[s], 1).within(r.book.hosts[to], r.loss) })
		})
		if k < 0 {
			return false
		}
		s := order[k]
		for _, to := range left[s].to {
			now[s.Host], now[to] = now[s.Host].plus(of[s], -1), now[to].plus(of[s], 1)
		}
		if r.first == nil {
			r.first = left[s]
		}
		order = slices.Delete(order, k, k+1)
	}
	return r.first != nil
}

// lacks reports whether the other hosts are too small in total, whatever the placement.
func (r *repacking) lacks(of *Host) bool {
	var all taken
	whole := &Host{}
	for _, h := range r.hosts {
		all = all.plus(r.now[h.ID], 1)
		if h != of {
			whole.Size, whole.Network = whole.Size.Plus(h.Size), whole.Network+h.Network
		}
	}
	return !all.within(whole, r.loss)
}

// place places slots from the i-th on: each where it is, if it may stay, then on the host with the least left. Of equal hosts only one is
// tried.
func (r *repacking) place(i int, without step.ID, others int) bool {
	if i == len(r.order) {
		return r.feasible()
	}
	s := r.order[i]
	options := slices.DeleteFunc(slices.Clone(r.hosts), func(h *Host) bool {
		if s.Host != without && h.ID != s.Host && others == 0 {
			return true
		}
		another := h.ID != s.Host && (r.book.neighbours(s.Job, h.ID) || i > 0 && r.order[i-1].Slot == s.Slot && r.at[i-1] == h.ID)
		return h.ID == without || another || !r.used[h.ID].plus(s.taken, 1).within(h, r.loss)
	})
	slices.SortStableFunc(options, func(x, y *Host) int { return cmp.Compare(share(y, r.used), share(x, r.used)) })
	if here := slices.IndexFunc(options, func(h *Host) bool { return h.ID == s.Host }); here > 0 {
		options[0], options[here] = options[here], options[0]
	}
	for k, h := range options {
		if k > 1 && r.used[h.ID] == r.used[options[k-1].ID] && h.Size == options[k-1].Size {
			continue
		}
		if r.tries--; r.tries < 0 {
			return false
		}
		before := r.used[h.ID]
		r.used[h.ID], r.at[i] = before.plus(s.taken, 1), h.ID
		left := others
		if s.Host != without && h.ID != s.Host {
			left--
		}
		if r.place(i+1, without, left) {
			return true
		}
		r.used[h.ID] = before
	}
	return false
}
