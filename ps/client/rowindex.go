package client

import "github.com/tierml/tierml/ps"

// mostDirect bounds the rows of a table that get an array element each, 4 bytes; larger tables use a map.
const mostDirect = 1 << 22

// rowIndex finds the slots of a table's rows. An array is several times faster than a map.
type rowIndex struct {
	direct []int32 // slot + 1 by row; nil = the table is too large
	sparse map[ps.RowID]int
}

// newRowIndex returns an index for a table with that many rows.
func newRowIndex(rows uint64) rowIndex {
	if rows <= mostDirect {
		return rowIndex{direct: make([]int32, rows)}
	}
	return rowIndex{sparse: map[ps.RowID]int{}}
}

// get returns a row's slot, or -1.
func (x *rowIndex) get(row ps.RowID) int {
	if x.direct != nil {
		return int(x.direct[row]) - 1
	}
	if slot, ok := x.sparse[row]; ok {
		return slot
	}
	return -1
}

// put assigns a slot to a row.
func (x *rowIndex) put(row ps.RowID, slot int) {
	if x.direct != nil {
		x.direct[row] = int32(slot + 1)
		return
	}
	x.sparse[row] = slot
}

// remove removes a row's slot.
func (x *rowIndex) remove(row ps.RowID) {
	if x.direct != nil {
		x.direct[row] = 0
		return
	}
	delete(x.sparse, row)
}
