package hosts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
)

// Few slots are packed as well as can be. Of more, at most `displaced` move to make room for others. A search gives up after trying mostTries places.
const (
	few       = 12
	displaced = 2
	mostTries = 20_000
)

// vacate begins to empty a host if the others can serve what it does (Parameter Service, section 3.3.2), the least loaded first. If each slot there
// has to stay where only room that others leave would do, slots of other hosts move, too: the paper has nothing like it, and small clusters need it. A
// job is lent a slot on the other host, and when that has been watched gives up the one here; then the next. It is also how jobs leave hosts on which
// they were measured apart.
func (b balancer) vacate(now time.Time) {
	if slices.ContainsFunc(b.live, func(s *Slot) bool { return s.Leaving() || b.measured[s.Job].wish.Leave == step.ID(s.ID) || s.waiting() }) {
		return // the state after the last change is not here yet
	}
	there := b.staying(step.Reliable)
	r := repacking{book: b.Book, hosts: there, now: map[step.ID]taken{}, fixed: map[step.ID]taken{}, tries: mostTries}
	for _, h := range there {
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
	slices.SortStableFunc(there, func(x, y *Host) int { return cmp.Compare(r.now[x.ID].load, r.now[y.ID].load) })
	slices.SortStableFunc(r.slots, func(x, y loaded) int { return cmp.Compare(y.load, x.load) })
	// The plan with the fewest moves: with each that is made, one with fewer is left.
	for moves := 1; moves <= len(r.slots) && r.tries > 0; moves++ {
		for _, h := range there {
			own := r.on(h)
			if own == 0 || own > moves || moves > own+displaced && len(r.slots) > few || r.fixed[h.ID] != (taken{}) || r.lacks(h) {
				continue
			}
			if s, to := r.without(h, moves-own); s != nil {
				b.begin(now, &change{job: s.Job, more: 1, leave: step.ID(s.ID), to: to}, fmt.Sprintf("other hosts can serve what host %s does", h.ID))
				return
			}
		}
	}
}

// movable reports whether a slot's job could be served by one on another host: its reliable slots alone serve, and this one has for a while.
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

// repacking searches for a way to serve the same slots on a host less.
type repacking struct {
	book  *Book
	hosts []*Host           // the least loaded first
	slots []loaded          // that can move, the most loaded first
	now   map[step.ID]taken // of hosts, by all slots
	fixed map[step.ID]taken // by those that cannot move

	order []loaded          // those that may stay, then those that have to move
	at    []step.ID         // of order
	used  map[step.ID]taken // by what cannot move, and what is placed
	tries int
	first int // move to make, in order
}

// on returns how many slots a host has that can move.
func (r *repacking) on(h *Host) (n int) {
	for _, s := range r.slots {
		if s.Host == h.ID {
			n++
		}
	}
	return n
}

// without returns the first move to make so that a host becomes empty while that number of other slots moves; nil = there is no way, or
// the search gave up.
func (r *repacking) without(of *Host, others int) (first *Slot, to step.ID) {
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
		return nil, ""
	}
	return r.order[r.first].Slot, r.at[r.first]
}

// feasible reports whether the moves can be made one after another, each to a host that has room then, and remembers the first. A plan that gets stuck would be
// followed by another one, and that by the former.
func (r *repacking) feasible() bool {
	now, left := maps.Clone(r.now), []int{}
	for i, s := range r.order {
		if r.at[i] != s.Host {
			left = append(left, i)
		}
	}
	r.first = -1
	for len(left) > 0 {
		k := slices.IndexFunc(left, func(i int) bool {
			return now[r.at[i]].plus(r.order[i].taken, 1).within(r.book.hosts[r.at[i]])
		})
		if k < 0 {
			return false
		}
		s, to := r.order[left[k]], r.at[left[k]]
		now[s.Host], now[to] = now[s.Host].plus(s.taken, -1), now[to].plus(s.taken, 1)
		if r.first < 0 {
			r.first = left[k]
		}
		left = slices.Delete(left, k, k+1)
	}
	return r.first >= 0
}

// lacks reports whether the other hosts are too few, whatever is where.
func (r *repacking) lacks(of *Host) bool {
	var all taken
	whole := &Host{}
	for _, h := range r.hosts {
		all = all.plus(r.now[h.ID], 1)
		if h != of {
			whole.Size = whole.Size.Plus(h.Size)
		}
	}
	return !all.within(whole)
}

// place places slots from the i-th on: each where it is, if it may stay, then where the least is left. Of hosts that would be equal one is enough.
func (r *repacking) place(i int, without step.ID, others int) bool {
	if i == len(r.order) {
		return r.feasible()
	}
	s := r.order[i]
	options := slices.DeleteFunc(slices.Clone(r.hosts), func(h *Host) bool {
		if s.Host != without && h.ID != s.Host && others == 0 {
			return true
		}
		another := h.ID != s.Host && r.book.neighbours(s.Job, h.ID)
		return h.ID == without || another || !r.used[h.ID].plus(s.taken, 1).within(h)
	})
	free := func(h *Host) float64 { return float64(h.Size.VCPU) - r.used[h.ID].load }
	slices.SortStableFunc(options, func(x, y *Host) int { return cmp.Compare(free(x), free(y)) })
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
