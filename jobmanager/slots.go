package jobmanager

import (
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/watch/shared"
)

// slotBook is what jobs have on the shared hosts, by the book of slots.
type slotBook struct {
	reader  *desk.Reader // nil = there are no shared hosts
	waiting bool         // slots wait for a transient host
}

// holding is what a job has on the transient hosts.
type holding struct {
	slots int           // that it has or waits for
	where []sched.Place // those that are on hosts, and stay
}

// held returns how many transient slots each job has or waits for.
func (b *slotBook) held() (map[string]holding, error) {
	if b.reader == nil {
		return nil, nil
	}
	book, err := b.reader.Book()
	if book == nil {
		return nil, err
	}
	held := map[string]holding{}
	b.waiting = false
	for _, s := range book.Slots() {
		if !s.Ended.IsZero() || s.Tier != step.Transient {
			continue
		}
		h := held[shared.RunOf(s.Job)]
		h.slots++
		b.waiting = b.waiting || s.Host == ""
		if s.Host != "" && !s.Leaving() {
			h.where = append(h.where, sched.Place{Host: string(s.Host), Workers: 1})
		}
		held[shared.RunOf(s.Job)] = h
	}
	return held, nil
}
