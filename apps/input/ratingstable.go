package input

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"unsafe"

	"github.com/tierml/tierml/internal/parallel"
)

// ratingsTable sorts ratings. Ids are numbered as they come, so that only small integers are sorted: users by counting sort, then each
// user's items. Ratings that do not fit in memory are first partitioned into ranges of users that do.
type ratingsTable struct {
	limit        int64 // bytes of an array in memory
	users, items idTable
	counts       []int // ratings of each user
	given        array[rated]
	kept         array[Rated]
}

// rated is a rating in the file's order; user and item are indexes into their tables.
type rated struct {
	user uint32
	Rated
}

func newRatingsTable(limit int64) *ratingsTable {
	return &ratingsTable{limit: limit, given: array[rated]{limit: limit}, kept: array[Rated]{limit: limit}}
}

func (t *ratingsTable) add(some ratingPart) error {
	block := make([]rated, len(some.ratings))
	for i, r := range some.ratings {
		user := t.users.placeOf(r.User, some.names)
		if user == uint32(len(t.counts)) {
			t.counts = append(t.counts, 0)
		}
		t.counts[user]++
		block[i] = rated{user, Rated{t.items.placeOf(r.Item, some.names), r.Line, r.Value}}
	}
	return t.given.add(block)
}

// sorted returns the ratings in order. If several lines have the same user and item it keeps the last.
func (t *ratingsTable) sorted() (r Ratings, err error) {
	var users, items []uint32
	r.Users, r.UserNames, users = t.users.ranked()
	r.Items, r.ItemNames, items = t.items.ranked()
	r.Start = make([]int, len(users)+1)
	for user, n := range t.counts {
		r.Start[users[user]+1] = n
	}
	for u := range users {
		r.Start[u+1] += r.Start[u]
	}
	ranges := t.ranges(r.Start)
	parts, err := t.dealt(ranges, users)
	if err != nil {
		return r, err
	}
	for i, of := range ranges {
		part := make([]Rated, r.Start[of.end]-r.Start[of.first])
		next := slices.Clone(r.Start[of.first:of.end])
		err := parts[i].each(func(some []rated) {
			for _, one := range some {
				at := &next[int(users[one.user])-of.first]
				part[*at-r.Start[of.first]] = Rated{items[one.Item], one.Line, one.Value}
				*at++
			}
		})
		if err == nil {
			err = t.keep(&r, of, part)
		}
		if err != nil {
			return r, err
		}
	}
	r.Start[len(users)] = t.kept.length
	r.Rated, err = t.kept.all()
	return r, err
}

// userRange is a range of users by rank.
type userRange struct{ first, end int }

// ranges splits the users where the ratings of a range would exceed the memory.
func (t *ratingsTable) ranges(start []int) (ranges []userRange) {
	most := int(t.limit / int64(unsafe.Sizeof(Rated{})))
	first := 0
	for u := range len(start) - 1 {
		if start[u+1]-start[first] > most && u > first {
			ranges = append(ranges, userRange{first, u})
			first = u
		}
	}
	return append(ranges, userRange{first, len(start) - 1})
}

// dealt yields the ratings of each range, in the file's order.
func (t *ratingsTable) dealt(ranges []userRange, users []uint32) ([]*array[rated], error) {
	if len(ranges) == 1 {
		return []*array[rated]{&t.given}, nil
	}
	parts := make([]*array[rated], len(ranges))
	for i := range parts {
		parts[i] = &array[rated]{}
	}
	var fault error
	err := t.given.each(func(some []rated) {
		for i := range some {
			rank := int(users[some[i].user])
			at, _ := slices.BinarySearchFunc(ranges, rank, func(of userRange, rank int) int { return cmp.Compare(of.end, rank+1) })
			fault = cmp.Or(fault, parts[at].add(some[i:i+1]))
		}
	})
	return parts, cmp.Or(err, fault)
}

// keep sorts each user's ratings in a range and keeps them, without repeats.
func (t *ratingsTable) keep(r *Ratings, of userRange, part []Rated) error {
	base := r.Start[of.first]
	user := func(u int) []Rated { return part[r.Start[u]-base : r.Start[u+1]-base] }
	threads := runtime.GOMAXPROCS(0)
	repeats := make([]bool, threads)
	const some = 64
	parallel.For(threads, (of.end-of.first+some-1)/some, func(thread, task int) {
		for u := of.first + task*some; u < min(of.first+(task+1)*some, of.end); u++ {
			mine := user(u)
			if !slices.IsSortedFunc(mine, byItem) {
				slices.SortFunc(mine, byItem)
			}
			for i := range mine {
				repeats[thread] = repeats[thread] || i > 0 && mine[i].Item == mine[i-1].Item
			}
		}
	})
	if base == t.kept.length && !slices.Contains(repeats, true) {
		return t.kept.add(part)
	}
	kept := part[:0]
	for u := of.first; u < of.end; u++ {
		mine, first := user(u), len(kept)
		r.Start[u] = t.kept.length + first
		for _, one := range mine {
			if n := len(kept); n > first && kept[n-1].Item == one.Item {
				kept[n-1] = one
				r.Repeats++
				continue
			}
			kept = append(kept, one)
		}
	}
	return t.kept.add(kept)
}

func byItem(a, b Rated) int { return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Line, b.Line)) }

func (t *ratingsTable) close() error { return errors.Join(t.given.close(), t.kept.close()) }

// idTable numbers ids in the order in which they appear.
type idTable struct {
	ids   []int64 // below 0: the text texts[-1-id]
	texts []string
	known map[string]int64 // a text's id
	slots []uint32         // an index plus one; at the id's hash, or the next free slot
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

// placeOf returns the place of an id of a ratingPart.
func (t *idTable) placeOf(id int64, names []string) uint32 {
	if id >= 0 {
		return t.place(id)
	}
	name := names[-1-id]
	own, known := t.known[name]
	if !known {
		if t.known == nil {
			t.known = map[string]int64{}
		}
		t.texts = append(t.texts, name)
		own = int64(-len(t.texts))
		t.known[name] = own
	}
	return t.place(own)
}

// find returns the slot of an id, or the slot where it belongs.
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

// ranked returns the ids, ascending, and the rank of each index. If any is a text, the ids are ranks, and names has the file's texts: whole
// numbers first.
func (t *idTable) ranked() (ids []int64, names []string, rank []uint32) {
	order := make([]uint32, len(t.ids))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		x, y := t.ids[a], t.ids[b]
		switch {
		case x >= 0 && y >= 0:
			return cmp.Compare(x, y)
		case x < 0 && y < 0:
			return cmp.Compare(t.texts[-1-x], t.texts[-1-y])
		}
		return cmp.Compare(y, x)
	})
	ids, rank = make([]int64, len(order)), make([]uint32, len(order))
	for i, place := range order {
		ids[i], rank[place] = t.ids[place], uint32(i)
	}
	if len(t.texts) == 0 {
		return ids, nil, rank
	}
	names = make([]string, len(ids))
	for i, id := range ids {
		if names[i] = strconv.FormatInt(id, 10); id < 0 {
			names[i] = t.texts[-1-id]
		}
		ids[i] = int64(i)
	}
	return ids, names, rank
}
