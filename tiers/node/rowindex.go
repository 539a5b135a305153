package node

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tierml/tierml/ps"
)

// mostDense bounds the rows of a table that get an array element each, 4 bytes; larger tables use a map.
const mostDense = 1 << 22

// rowIndex collects rows, each once, and numbers them: a row's number is its slot. Slots are in the order of partitions, then of tables and
// rows, regardless of the splits' requests, so that the rows of one server are contiguous here and in the same order there.
type rowIndex struct {
	schema *ps.Schema
	tables []tableIndex
	keys   []ps.Key // by slot, once they are numbered
	begins []int    // by partition, plus one: its first slot
	found  []ps.Key // scratch: in the order of tables and rows
	places []int    // scratch, by partition
}

// tableIndex finds the slot of a table's row. Applications look up rows at least once per example: an array is several times faster than a
// map.
type tableIndex struct {
	asked  []uint64         // a bit for each row; nil = the table is too large
	slots  []int32          // by row, if requested
	sparse map[ps.RowID]int // replaces both
}

func newRowIndex(schema *ps.Schema) rowIndex {
	x := rowIndex{
		schema: schema,
		tables: make([]tableIndex, len(schema.Tables)),
		begins: make([]int, schema.Partitions+1),
		places: make([]int, schema.Partitions),
	}
	for i, t := range schema.Tables {
		if t.Rows <= mostDense {
			x.tables[i] = tableIndex{asked: make([]uint64, (t.Rows+63)/64), slots: make([]int32, t.Rows)}
		} else {
			x.tables[i].sparse = map[ps.RowID]int{}
		}
	}
	return x
}

// clear forgets all rows.
func (x *rowIndex) clear() {
	for i := range x.tables {
		clear(x.tables[i].asked)
		clear(x.tables[i].sparse)
	}
}

// ask adds rows. They have no slots before number.
func (x *rowIndex) ask(keys []ps.Key) {
	for _, k := range keys {
		t := &x.tables[k.Table]
		if t.asked == nil {
			t.sparse[k.Row] = 0
			continue
		}
		t.asked[k.Row/64] |= 1 << (k.Row % 64)
	}
}

// number assigns slots to the rows, and returns the keys in that order, valid until the next call.
func (x *rowIndex) number() []ps.Key {
	x.find()
	clear(x.begins)
	for _, k := range x.found {
		x.begins[x.schema.PartitionOf(k)+1]++
	}
	for p := range x.places {
		x.places[p] = x.begins[p]
		x.begins[p+1] += x.begins[p]
	}
	x.keys = resized(x.keys, len(x.found))
	for _, k := range x.found {
		next := &x.places[x.schema.PartitionOf(k)]
		slot := *next
		*next++
		x.keys[slot] = k
		if t := &x.tables[k.Table]; t.asked != nil {
			t.slots[k.Row] = int32(slot)
		} else {
			t.sparse[k.Row] = slot
		}
	}
	return x.keys
}

// find lists the rows in the order of tables and rows.
func (x *rowIndex) find() {
	x.found = x.found[:0]
	for i := range x.tables {
		t, table := &x.tables[i], ps.TableID(i)
		for word, set := range t.asked {
			for ; set != 0; set &= set - 1 {
				x.found = append(x.found, ps.Key{Table: table, Row: ps.RowID(64*word + bits.TrailingZeros64(set))})
			}
		}
		first := len(x.found)
		for row := range t.sparse {
			x.found = append(x.found, ps.Key{Table: table, Row: row})
		}
		slices.SortFunc(x.found[first:], func(a, b ps.Key) int { return cmp.Compare(a.Row, b.Row) })
	}
}

// slot returns a row's slot, or -1.
func (x *rowIndex) slot(k ps.Key) int {
	t := &x.tables[k.Table]
	if t.asked == nil {
		if slot, ok := t.sparse[k.Row]; ok {
			return slot
		}
		return -1
	}
	if t.asked[k.Row/64]&(1<<(k.Row%64)) == 0 {
		return -1
	}
	return int(t.slots[k.Row])
}
