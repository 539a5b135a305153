package ps

import "fmt"

// PartitionOf gives the partition that holds a row: a hash, so that the rows of every table spread evenly
// whatever their numbering.
func (s *Schema) PartitionOf(k Key) Partition {
	x := uint64(k.Row) + uint64(k.Table)<<48
	// The finalizer of SplitMix64: every input bit reaches every output bit.
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return Partition(x % uint64(s.Partitions))
}

// Cols gives the width of a key's row.
func (s *Schema) Cols(k Key) int { return s.Tables[k.Table].Cols }

// Kind gives the kind of a key's table.
func (s *Schema) Kind(k Key) Kind { return s.Tables[k.Table].Kind }

// at says which row an error is about.
func (s *Schema) at(k Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %s, row %d: %w", s.Tables[k.Table].Name, k.Row, err)
}
