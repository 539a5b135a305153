package ps

// Block is a list of rows in the form for storage and transfer: the cells of Keys[i] follow those of Keys[i-1]. CellsOf
// returns a row's number of cells.
type Block struct {
	Keys   []Key
	Values []float32
}

// Add appends a row.
func (b *Block) Add(k Key, cells []float32) {
	b.Keys = append(b.Keys, k)
	b.Values = append(b.Values, cells...)
}

// Bytes returns the approximate size of the rows in transit.
func (b *Block) Bytes() int { return 8*len(b.Keys) + 4*len(b.Values) }

// AddRow appends a whole row in the form of Stored.
func (b *Block) AddRow(s *Schema, k Key, row []float32) {
	b.Keys = append(b.Keys, k)
	b.Values = s.AppendRow(b.Values, k, row)
}

// Each calls f for every row in order; f must not keep the slice. The block must fit the schema.
func (b *Block) Each(s *Schema, f func(k Key, cells []float32)) {
	left := b.Values
	for _, k := range b.Keys {
		n := s.CellsOf(k, left)
		f(k, left[:n:n])
		left = left[n:]
	}
}

// Check reports whether the block fits the schema and a partition.
func (b *Block) Check(s *Schema, p Partition) error {
	if _, err := s.CheckKeys(p, b.Keys); err != nil {
		return err
	}
	left := b.Values
	for _, k := range b.Keys {
		n := s.CellsOf(k, left)
		if n < 0 {
			return invalid("cells that are no row %d of table %s", k.Row, s.Tables[k.Table].Name)
		}
		left = left[n:]
	}
	return checkEnd(len(left), len(b.Values))
}

// Sums is a list of row updates. In deterministic mode they are fixed-point numbers (Fixed), otherwise
// floats (Float); the other slice is empty. Sums of counts are integers (kind.go); those of sparse rows have only the
// columns that were touched (sparse.go).
type Sums struct {
	Keys  []Key
	Fixed []int64
	Float []float32
}

// Check reports whether the sums fit the schema and a partition.
func (u *Sums) Check(s *Schema, p Partition) error {
	if _, err := s.CheckKeys(p, u.Keys); err != nil {
		return err
	}
	fixed, float := len(u.Fixed), len(u.Float)
	if s.Deterministic {
		float = 0
	} else {
		fixed = 0
	}
	left := fixed + float
	for _, k := range u.Keys {
		t := &s.Tables[k.Table]
		n := t.Cols
		switch {
		case t.Sparse && s.Deterministic:
			n = sparseWords(u.Fixed[len(u.Fixed)-left:], t.Cols)
		case t.Sparse:
			n = sparseCells(u.Float[len(u.Float)-left:], t.Cols)
		}
		if n < 0 || n > left {
			return invalid("numbers that are no sum of row %d of table %s", k.Row, t.Name)
		}
		left -= n
	}
	return checkEnd(left, fixed+float)
}

func checkEnd(left, of int) error {
	if left > 0 {
		return invalid("%d of %d values belong to no row", left, of)
	}
	return nil
}

// CheckKeys reports whether all keys are rows of a partition, and the most cells that these rows can have in transit to
// a reader.
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
		values += s.Tables[k.Table].Width()
		if s.Tables[k.Table].Sparse {
			values++
		}
	}
	return values, nil
}
