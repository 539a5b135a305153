package tiers

import (
	"slices"

	"github.com/tierml/tierml/ps"
)

// spread assigns each item to a member, as evenly as their weights allow, with as few moves as possible. A new member gets one item from
// each of the others in turn, and a member prefers items whose data it has. Without members no item is assigned.
func spread(now []ps.ServerID, members []Member, weight func(Member) float64) []ps.ServerID {
	next := make([]ps.ServerID, len(now))
	if len(members) == 0 {
		return next
	}
	held, homeless := holdings(now, members)
	loads := make([]load, len(members))
	for i, m := range members {
		loads[i].weight = weight(m)
		loads[i].hold(len(held[i]))
	}
	emptiest := rank(loads, func(l *load) float64 { return l.next })
	for homeless.left > 0 {
		to := emptiest.first()
		held[to] = append(held[to], homeless.take(members[to].Loaded))
		loads[to].hold(len(held[to]))
		emptiest.moved(to, loads[to].next)
	}
	fullest := rank(loads, func(l *load) float64 { return -l.now })
	for {
		from, to := fullest.first(), emptiest.first()
		if loads[from].now <= loads[to].next {
			break
		}
		i := len(held[from]) - 1
		if data := members[to].Loaded; len(data) > 0 {
			for j := i; j >= 0; j-- {
				if data.Has(ps.Split(held[from][j])) {
					i = j
					break
				}
			}
		}
		held[to] = append(held[to], held[from][i])
		held[from] = slices.Delete(held[from], i, i+1)
		for _, member := range [...]int{to, from} {
			loads[member].hold(len(held[member]))
			emptiest.moved(member, loads[member].next)
			fullest.moved(member, -loads[member].now)
		}
	}
	for i, items := range held {
		for _, item := range items {
			next[item] = members[i].ID
		}
	}
	return next
}

// load returns how much a member holds per weight, and how much with one item more, for comparison.
type load struct {
	weight    float64
	now, next float64
}

func (l *load) hold(items int) { l.now, l.next = float64(items)/l.weight, float64(items+1)/l.weight }

// orphans are items that no member holds.
type orphans struct {
	is    []bool // Index: item
	left  int
	first int // none is before
}

// take removes the first item with some data, or the first of all.
func (h *orphans) take(data SplitSet) int {
	for !h.is[h.first] {
		h.first++
	}
	item := h.first
	begin, _ := slices.BinarySearch(data, ps.Split(h.first))
	for _, split := range data[begin:] {
		if int(split) < len(h.is) && h.is[split] {
			item = int(split)
			break
		}
	}
	h.is[item] = false
	h.left--
	return item
}

// finder returns a function that finds a member by id; -1 = none. An index pays only if it is called often.
func finder(times int, members []Member) func(ps.ServerID) int {
	if times <= 4 {
		return func(id ps.ServerID) int { return slices.IndexFunc(members, func(m Member) bool { return m.ID == id }) }
	}
	index := make(map[ps.ServerID]int, len(members))
	for i := range members {
		index[members[i].ID] = i
	}
	return func(id ps.ServerID) int {
		if i, ok := index[id]; ok {
			return i
		}
		return -1
	}
}

// holdings returns the items that each member holds, and those that none does.
func holdings(now []ps.ServerID, members []Member) (held [][]int, none orphans) {
	placeOf := finder(len(now), members)
	held, none.is = make([][]int, len(members)), make([]bool, len(now))
	holders, counts := make([]int, len(now)), make([]int, len(members))
	likely := 0
	for item, id := range now {
		i := -1
		if id == members[likely].ID {
			i = likely
		} else if id != "" {
			i = placeOf(id)
		}
		likely = (i + 1) % len(members) // items were given out in turn
		if i < 0 {
			holders[item], none.is[item] = -1, true
			none.left++
			continue
		}
		holders[item] = i
		counts[i]++
	}
	share := (len(now) + len(members) - 1) / len(members)
	rooms := 0
	for i, n := range counts { // with room for one more than an equal share each
		counts[i] = max(n, share) + 1
		rooms += counts[i]
	}
	all := make([]int, rooms)
	for i, n := range counts {
		held[i], all = all[:0:n], all[n:]
	}
	for item, i := range holders {
		if i >= 0 {
			held[i] = append(held[i], item)
		}
	}
	return held, none
}

// ranking keeps members sorted by a key, stably, while they change one at a time: a heap. With thousands of members, a linear search for
// the first one for each item took longer than the rest of a layout.
type ranking struct {
	heap  []int     // members; the first is at 0
	place []int     // Index: member; in heap
	key   []float64 // Index: member
}

func rank(loads []load, key func(*load) float64) *ranking {
	n := len(loads)
	both := make([]int, 2*n)
	r := &ranking{heap: both[:n], place: both[n:], key: make([]float64, n)}
	for i := range r.heap {
		r.heap[i], r.place[i], r.key[i] = i, i, key(&loads[i])
	}
	for at := n/2 - 1; at >= 0; at-- {
		r.down(at)
	}
	return r
}

func (r *ranking) first() int { return r.heap[0] }

func (r *ranking) before(i, j int) bool { return r.key[i] < r.key[j] || r.key[i] == r.key[j] && i < j }

// moved repositions a member whose key has changed.
func (r *ranking) moved(member int, key float64) {
	r.key[member] = key
	at := r.place[member]
	for at > 0 && r.before(r.heap[at], r.heap[(at-1)/2]) {
		r.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
	r.down(at)
}

func (r *ranking) down(at int) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(r.heap); child++ {
			if r.before(r.heap[child], r.heap[least]) {
				least = child
			}
		}
		if least == at {
			return
		}
		r.swap(at, least)
		at = least
	}
}

func (r *ranking) swap(a, b int) {
	r.heap[a], r.heap[b] = r.heap[b], r.heap[a]
	r.place[r.heap[a]], r.place[r.heap[b]] = a, b
}
