package ps

// arena holds rows of equal width, numbered from 0, in chunks that do not move: one allocation for many rows, and
// none larger than a chunk. The first chunk starts small, so that a table with few rows uses little memory.
type arena[T any] struct {
	width  int
	shift  uint // 1<<shift rows per chunk
	count  int
	chunks [][]T
}

// chunkCells is the approximate number of cells of a full chunk.
const chunkCells = 64 << 10

func newArena[T any](width int) arena[T] {
	a := arena[T]{width: width}
	for width<<(a.shift+1) <= chunkCells && a.shift < 16 {
		a.shift++
	}
	return a
}

// row returns row i. It is valid until the next add.
func (a *arena[T]) row(i int) []T {
	at := (i & (1<<a.shift - 1)) * a.width
	return a.chunks[i>>a.shift][at : at+a.width : at+a.width]
}

// view is row with a capacity that includes the rows after it.
func (a *arena[T]) view(i int) []T {
	at := (i & (1<<a.shift - 1)) * a.width
	return a.chunks[i>>a.shift][at : at+a.width]
}

// add returns a new row, with arbitrary contents, and its number.
func (a *arena[T]) add() (i int, row []T) {
	i = a.count
	a.count++
	if i>>a.shift == len(a.chunks) {
		a.chunks = append(a.chunks, nil)
	}
	chunk := &a.chunks[i>>a.shift]
	at := (i & (1<<a.shift - 1)) * a.width
	if at+a.width > len(*chunk) {
		grown := make([]T, min(max(2*len(*chunk), 4*a.width), a.width<<a.shift))
		copy(grown, *chunk)
		*chunk = grown
	}
	return i, (*chunk)[at : at+a.width : at+a.width]
}

// reset removes all rows and keeps their memory.
func (a *arena[T]) reset() { a.count = 0 }

// clone returns an independent copy.
func (a *arena[T]) clone() arena[T] {
	c := *a
	c.chunks = make([][]T, len(a.chunks))
	for i, chunk := range a.chunks {
		c.chunks[i] = append([]T(nil), chunk...)
	}
	return c
}

// slotIndex finds the slot of a row in one table and partition: with an array if the partition is a range of rows,
// otherwise by open addressing with linear probing over the rows' hashes.
type slotIndex struct {
	ids    []RowID // by slot
	first  RowID   // of the range
	direct []uint32
	probe  []uint32 // slot + 1; 0 = free. Its length is a power of two, at least 4/3 of the slots
}

// newSlotIndex returns an index for a partition's rows of a table.
func newSlotIndex(s *Schema, t TableID, p Partition) slotIndex {
	if !s.Tables[t].Ranged {
		return slotIndex{}
	}
	first, end := s.rowRange(t, p)
	return slotIndex{first: first, direct: make([]uint32, end-first)}
}

// find returns a row's slot, or -1.
func (x *slotIndex) find(row RowID) int {
	if x.direct != nil {
		if i := row - x.first; i < RowID(len(x.direct)) {
			return int(x.direct[i]) - 1
		}
		return -1
	}
	if len(x.probe) == 0 {
		return -1
	}
	mask := uint64(len(x.probe) - 1)
	for i := mix(uint64(row)+golden) & mask; ; i = (i + 1) & mask {
		at := x.probe[i]
		if at == 0 {
			return -1
		}
		if x.ids[at-1] == row {
			return int(at) - 1
		}
	}
}

// add assigns the next slot to a row that has none.
func (x *slotIndex) add(row RowID) int {
	slot := len(x.ids)
	x.ids = append(x.ids, row)
	switch {
	case x.direct != nil:
		x.direct[row-x.first] = uint32(slot + 1)
	case 4*len(x.ids) > 3*len(x.probe):
		x.rehash()
	default:
		x.insert(slot)
	}
	return slot
}

func (x *slotIndex) insert(slot int) {
	mask := uint64(len(x.probe) - 1)
	i := mix(uint64(x.ids[slot])+golden) & mask
	for x.probe[i] != 0 {
		i = (i + 1) & mask
	}
	x.probe[i] = uint32(slot + 1)
}

func (x *slotIndex) rehash() {
	x.probe = make([]uint32, max(16, 2*len(x.probe)))
	for slot := range x.ids {
		x.insert(slot)
	}
}

func (x *slotIndex) clone() slotIndex {
	c := *x
	c.ids = append([]RowID(nil), x.ids...)
	c.probe = append([]uint32(nil), x.probe...)
	if x.direct != nil {
		c.direct = append(make([]uint32, 0, len(x.direct)), x.direct...)
	}
	return c
}

// slotSet is a set of slots that remembers the order of insertion: each slot has a place in it.
type slotSet struct {
	slots  []uint32
	places []uint32 // by slot: place + 1; 0 = not in the set
}

// place returns a slot's place, or -1.
func (s *slotSet) place(slot int) int {
	if slot >= len(s.places) {
		return -1
	}
	return int(s.places[slot]) - 1
}

// add adds a slot that is not in the set.
func (s *slotSet) add(slot int) (place int) {
	if slot >= len(s.places) {
		s.places = append(s.places, make([]uint32, max(slot+1, 2*len(s.places), 64)-len(s.places))...)
	}
	s.slots = append(s.slots, uint32(slot))
	s.places[slot] = uint32(len(s.slots))
	return len(s.slots) - 1
}

// remove removes a slot; those after it keep their places.
func (s *slotSet) remove(slot int) { s.places[slot] = 0 }

func (s *slotSet) reset() {
	for _, slot := range s.slots {
		s.places[slot] = 0
	}
	s.slots = s.slots[:0]
}
