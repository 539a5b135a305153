package ps

import (
	"fmt"
	"math/bits"
)

// PartitionOf returns the partition that holds a row: by range or else by a hash, so that the rows of every table spread evenly whatever
// their numbering.
func (s *Schema) PartitionOf(k Key) Partition {
	if t := &s.Tables[k.Table]; t.Ranged {
		high, low := bits.Mul64(uint64(k.Row), uint64(s.Partitions))
		p, _ := bits.Div64(high, low, t.Rows)
		return Partition(p)
	}
	x := uint64(k.Row) + uint64(k.Table)<<48
	// The finalizer of SplitMix64: every input bit reaches every output bit.
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return Partition(x % uint64(s.Partitions))
}

// rowRange returns the rows of a ranged table in a partition: from first up to, but not including, end.
func (s *Schema) rowRange(t TableID, p Partition) (first, end RowID) {
	at := func(p Partition) RowID { // the first row of which row*partitions/rows is p: rounded up
		high, low := bits.Mul64(uint64(p), s.Tables[t].Rows)
		low, carry := bits.Add64(low, uint64(s.Partitions-1), 0)
		row, _ := bits.Div64(high+carry, low, uint64(s.Partitions))
		return RowID(row)
	}
	return at(p), at(p + 1)
}

// Cols returns the width of a key's row.
func (s *Schema) Cols(k Key) int { return s.Tables[k.Table].Cols }

// Kind returns the kind of a key's table.
func (s *Schema) Kind(k Key) Kind { return s.Tables[k.Table].Kind }

// rowError returns the row that an error is about.
func (s *Schema) rowError(k Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %s, row %d: %w", s.Tables[k.Table].Name, k.Row, err)
}
