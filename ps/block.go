package ps

// Block is a list of rows: the values of Keys[i] follow those of Keys[i-1], each as wide as its table.
type Block struct {
	Keys   []Key
	Values []float32
}

// Add appends a row.
func (b *Block) Add(k Key, row []float32) {
	b.Keys = append(b.Keys, k)
	b.Values = append(b.Values, row...)
}

// Each calls f for every row in order; f must not keep the slice.
func (b *Block) Each(s *Schema, f func(k Key, row []float32)) {
	at := 0
	for _, k := range b.Keys {
		n := s.Cols(k)
		f(k, b.Values[at:at+n:at+n])
		at += n
	}
}

// Check says whether the block fits the schema and a partition.
func (b *Block) Check(s *Schema, p Partition) error {
	return checkRows(s, p, b.Keys, len(b.Values))
}

// Sums is a list of row updates. In deterministic mode they are fixed-point numbers (Fixed), otherwise
// floats (Float); the other slice is empty.
type Sums struct {
	Keys  []Key
	Fixed []int64
	Float []float32
}

// Check says whether the sums fit the schema and a partition.
func (u *Sums) Check(s *Schema, p Partition) error {
	if s.Deterministic {
		return checkRows(s, p, u.Keys, len(u.Fixed))
	}
	return checkRows(s, p, u.Keys, len(u.Float))
}

func checkRows(s *Schema, p Partition, keys []Key, values int) error {
	want, err := s.CheckKeys(p, keys)
	if err == nil && want != values {
		return invalid("%d values for rows of %d", values, want)
	}
	return err
}

// CheckKeys says whether all keys are rows of a partition, and how many values these rows have.
func (s *Schema) CheckKeys(p Partition, keys []Key) (values int, err error) {
	for _, k := range keys {
		if int(k.Table) >= len(s.Tables) {
			return 0, invalid("table %d of %d", k.Table, len(s.Tables))
		}
		if uint64(k.Row) >= s.Tables[k.Table].Rows {
			return 0, invalid("row %d of table %s, which has %d", k.Row, s.Tables[k.Table].Name, s.Tables[k.Table].Rows)
		}
		if at := s.PartitionOf(k); at != p {
			return 0, invalid("row %d of table %s belongs to partition %d, not %d", k.Row, s.Tables[k.Table].Name, at, p)
		}
		values += s.Cols(k)
	}
	return values, nil
}
