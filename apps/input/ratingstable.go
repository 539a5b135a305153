package input

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

	"github.com/tierml/tierml/apps/parallel"
)

// ratingsTable puts ratings into order. Ids are counted as they come, so that what is sorted is short whole numbers: users by
// counting, and each user's items alone.
type ratingsTable struct {
	name         string
	tolerance    *tolerance
	users, items idTable
	counts       []int // ratings of each user
	blocks       [][]rated
	total        int
}

// rated is a rating in the file's order; user and item are places in their tables.
type rated struct {
	user uint32
	Rated
}

func (t *ratingsTable) add(some []Rating) error {
	block := make([]rated, len(some))
	for i, r := range some {
		user := t.users.place(r.User)
		if user == uint32(len(t.counts)) {
			t.counts = append(t.counts, 0)
		}
		t.counts[user]++
		block[i] = rated{user, Rated{t.items.place(r.Item), r.Line, r.Value}}
	}
	t.blocks = append(t.blocks, block)
	t.total += len(block)
	return nil
}

// sorted gives the ratings in order. It treats the second line about the same user and item as a bad one: to keep both would let
// an example be trained on and held out at the same time.
func (t *ratingsTable) sorted() (Ratings, error) {
	r := Ratings{Rated: make([]Rated, t.total)}
	var users, items []uint32
	r.Users, users = t.users.ranked()
	r.Items, items = t.items.ranked()
	r.Start = make([]int, len(users)+1)
	for user, n := range t.counts {
		r.Start[users[user]+1] = n
	}
	for u := range users {
		r.Start[u+1] += r.Start[u]
	}
	next := slices.Clone(r.Start)
	for i, block := range t.blocks {
		for _, one := range block {
			at := &next[users[one.user]]
			r.Rated[*at] = Rated{items[one.Item], one.Line, one.Value}
			*at++
		}
		t.blocks[i] = nil
	}
	threads := runtime.GOMAXPROCS(0)
	repeats := make([]bool, threads)
	const some = 64
	parallel.For(threads, (len(users)+some-1)/some, func(thread, task int) {
		for u := task * some; u < min((task+1)*some, len(users)); u++ {
			of := r.Rated[r.Start[u]:r.Start[u+1]]
			if !slices.IsSortedFunc(of, byItem) {
				slices.SortFunc(of, byItem)
			}
			for i := range of {
				repeats[thread] = repeats[thread] || i > 0 && of[i].Item == of[i-1].Item
			}
		}
	})
	if slices.Contains(repeats, true) {
		return r, t.leaveRepeatsOut(&r)
	}
	return r, nil
}

func byItem(a, b Rated) int { return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Line, b.Line)) }

func (t *ratingsTable) leaveRepeatsOut(r *Ratings) error {
	kept := r.Rated[:0]
	for u := range r.Users {
		first := len(kept)
		for _, one := range r.Rated[r.Start[u]:r.Start[u+1]] {
			if n := len(kept); n > first && kept[n-1].Item == one.Item {
				reason := fmt.Sprintf("user %d rated item %d before, in line %d", r.Users[u], r.Items[one.Item], kept[n-1].Line)
				if err := t.tolerance.take(&LineError{t.name, int(one.Line), reason}); err != nil {
					return err
				}
				continue
			}
			kept = append(kept, one)
		}
		r.Start[u] = first
	}
	r.Start[len(r.Users)] = len(kept)
	r.Rated = kept
	return nil
}

// idTable gives ids places in the order in which they come.
type idTable struct {
	ids   []int64
	slots []uint32 // a place, and one; by the id's hash, or the next slot that is free
	shift uint
}

func (t *idTable) place(id int64) uint32 {
	if 2*len(t.ids) >= len(t.slots) {
		t.grow()
	}
	slot := t.find(id)
	if t.slots[slot] == 0 {
		t.ids = append(t.ids, id)
		t.slots[slot] = uint32(len(t.ids))
	}
	return t.slots[slot] - 1
}

// find returns the slot of an id, or the one where it belongs.
func (t *idTable) find(id int64) uint64 {
	slot := uint64(id) * 0x9e3779b97f4a7c15 >> t.shift // 2^64 by the golden ratio: Knuth, volume 3, section 6.4
	for t.slots[slot] != 0 && t.ids[t.slots[slot]-1] != id {
		slot = (slot + 1) & uint64(len(t.slots)-1)
	}
	return slot
}

func (t *idTable) grow() {
	const first = 10 // bits
	if t.slots == nil {
		t.slots, t.shift = make([]uint32, 1<<first), 64-first
		return
	}
	t.slots = make([]uint32, 2*len(t.slots))
	t.shift--
	for i, id := range t.ids {
		t.slots[t.find(id)] = uint32(i + 1)
	}
}

// ranked gives the ids, ascending, and each place's rank among them.
func (t *idTable) ranked() (ids []int64, rank []uint32) {
	order := make([]uint32, len(t.ids))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(t.ids[a], t.ids[b]) })
	ids, rank = make([]int64, len(order)), make([]uint32, len(order))
	for i, place := range order {
		ids[i], rank[place] = t.ids[place], uint32(i)
	}
	return ids, rank
}
