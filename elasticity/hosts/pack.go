package hosts

import (
	"cmp"
	"slices"

	"github.com/tierml/tierml/elasticity/step"
)

// packing is the placement of waiting slots.
type packing struct {
	on    map[*Slot]step.ID // on existing hosts
	fresh int               // new hosts for others
	later []*Slot           // no host may be bought for these
}

// pack places slots, in order: each on the host with the least left over. A second reliable slot of a job goes to a different host if there
// is one with room, as both would be lost together. Slots without room get new hosts, of one size and at most most. A host that does not
// suit a slot is used only if no new one may be bought.
func (b *Book) packed(slots []*Slot, hosts []*Host, suits func(*Slot, step.ID) bool, fresh Size, most int) packing {
	p := packing{on: map[*Slot]step.ID{}}
	used := map[step.ID]Size{}
	mine := map[step.ID]map[string]bool{} // jobs with a slot placed here
	var made []Size                       // used part of new hosts
	for _, s := range slots {
		needs := b.needs(s)
		var best *Host
		var score [3]float64
		for _, h := range hosts {
			free := h.free().Minus(used[h.ID])
			if h.Tier != s.Tier || !h.Stays || !needs.fits(free) {
				continue
			}
			left := free.Minus(needs)
			now := [3]float64{0, 0, left.partOf(h.Size)}
			if !suits(s, h.ID) {
				now[0] = 1
			}
			if s.Tier == step.Reliable && (mine[h.ID][s.Job] || b.neighbours(s.Job, h.ID)) {
				now[1] = 1
			}
			if best == nil || slices.Compare(now[:], score[:]) < 0 || now == score && cmp.Less(h.ID, best.ID) {
				best, score = h, now
			}
		}
		i := slices.IndexFunc(made, func(u Size) bool { return s.Size.fits(fresh.Minus(u)) })
		another := i >= 0 || len(made) < most && s.Size.fits(fresh)
		if best != nil && (score[0] == 0 || !another) {
			p.on[s] = best.ID
			used[best.ID] = used[best.ID].Plus(needs)
			if mine[best.ID] == nil {
				mine[best.ID] = map[string]bool{}
			}
			mine[best.ID][s.Job] = true
			continue
		}
		switch {
		case i >= 0:
			made[i] = made[i].Plus(s.Size)
		case another:
			made = append(made, s.Size)
		default:
			p.later = append(p.later, s)
		}
	}
	p.fresh = len(made)
	return p
}
