package ps

// A row of a sparse table (Table.Sparse) is stored and sent as its nonzero cells: their number (n), their n columns in ascending order,
// their n values. If that would be longer than the whole row, n is the number of columns and all values follow, without columns. Each row
// has one such form. In blocks n and the columns are the bits of int32 numbers, in fixed-point sums they are int64 numbers like the rest.
//
// It pays if most cells of most rows are 0, as in LDA's topic counts by word: a row of 1000 columns of which 20 are used takes 164 bytes,
// not 4000.

// sparseCells returns the number of cells of the sparse row at the beginning of cells; -1 if it is damaged.
func sparseCells(cells []float32, cols int) int {
	if len(cells) == 0 {
		return -1
	}
	n := int(Ints(cells[:1])[0])
	switch {
	case n == cols && len(cells) > cols:
		return 1 + cols
	case n < 0 || 2*n >= cols || 1+2*n > len(cells):
		return -1
	}
	if !ascend(Ints(cells[1:1+n]), cols) {
		return -1
	}
	return 1 + 2*n
}

// sparseWords is sparseCells for fixed-point sums.
func sparseWords(words []int64, cols int) int {
	if len(words) == 0 {
		return -1
	}
	n := words[0]
	switch {
	case n == int64(cols) && len(words) > cols:
		return 1 + cols
	case n < 0 || 2*n >= int64(cols) || 1+2*n > int64(len(words)):
		return -1
	}
	if !ascend(words[1:1+n], cols) {
		return -1
	}
	return int(1 + 2*n)
}

func ascend[N int32 | int64](columns []N, cols int) bool {
	last := N(-1)
	for _, c := range columns {
		if c <= last || int(c) >= cols {
			return false
		}
		last = c
	}
	return true
}

// AppendSparse appends a whole row in its sparse form.
func AppendSparse(dst, row []float32) []float32 {
	bits, n := Ints(row), 0
	for _, b := range bits {
		if b != 0 {
			n++
		}
	}
	at := len(dst)
	if 2*n >= len(row) {
		dst = append(append(dst, 0), row...)
		Ints(dst[at:])[0] = int32(len(row))
		return dst
	}
	dst = append(dst, make([]float32, 1+2*n)...)
	out := Ints(dst[at:])
	out[0] = int32(n)
	columns, values := out[1:1], out[1+n:1+n]
	for c, b := range bits {
		if b != 0 {
			columns, values = append(columns, int32(c)), append(values, b)
		}
	}
	return dst
}

// appendSparseSum is AppendSparse for a fixed-point sum.
func appendSparseSum(dst, sum []int64) []int64 {
	n := 0
	for _, v := range sum {
		if v != 0 {
			n++
		}
	}
	if 2*n >= len(sum) {
		return append(append(dst, int64(len(sum))), sum...)
	}
	at := len(dst)
	dst = append(dst, make([]int64, 1+2*n)...)
	dst[at] = int64(n)
	columns, values := dst[at+1:at+1], dst[at+1+n:at+1+n]
	for c, v := range sum {
		if v != 0 {
			columns, values = append(columns, int64(c)), append(values, v)
		}
	}
	return dst
}

// expandSparse expands a valid sparse row.
func expandSparse(row, cells []float32) {
	n := int(Ints(cells[:1])[0])
	if n == len(row) {
		copy(row, cells[1:])
		return
	}
	clear(row)
	for i, column := range Ints(cells[1 : 1+n]) {
		row[column] = cells[1+n+i]
	}
}

// addSparse adds a sparse row to a whole one.
func addSparse(kind Kind, row, cells []float32) error {
	n := int(Ints(cells[:1])[0])
	if n == len(row) {
		return addUpdate(kind, row, cells[1:])
	}
	for i, column := range Ints(cells[1 : 1+n]) {
		if err := addUpdate(kind, row[column:column+1], cells[1+n+i:2+n+i]); err != nil {
			return err
		}
	}
	return nil
}

// addSparseSum adds a sparse fixed-point sum to a whole one.
func addSparseSum(sum, words []int64) error {
	n := int(words[0])
	if n == len(sum) {
		return addSums(sum, words[1:])
	}
	for i, column := range words[1 : 1+n] {
		var err error
		if sum[column], err = AddFixed(sum[column], words[1+n+i]); err != nil {
			return err
		}
	}
	return nil
}

// CellsOf returns the number of cells of a key's row at the beginning of cells, in stored form; -1 if there is no valid row.
func (s *Schema) CellsOf(k Key, cells []float32) int {
	t := &s.Tables[k.Table]
	if t.Sparse {
		return sparseCells(cells, t.Cols)
	}
	if width := t.Width(); width <= len(cells) {
		return width
	}
	return -1
}

// AppendRow appends a whole row, as Read or Stored returns it, in the form sent to readers.
func (s *Schema) AppendRow(dst []float32, k Key, row []float32) []float32 {
	if s.Tables[k.Table].Sparse {
		return AppendSparse(dst, row)
	}
	return append(dst, row...)
}

// TakeRow decodes a row appended by AppendRow and returns the rest; false if the cells are no such row.
func (s *Schema) TakeRow(k Key, cells, row []float32) (rest []float32, ok bool) {
	n := len(row)
	if s.Tables[k.Table].Sparse {
		if n = sparseCells(cells, len(row)); n < 0 {
			return cells, false
		}
		expandSparse(row, cells)
		return cells[n:], true
	}
	if n > len(cells) {
		return cells, false
	}
	copy(row, cells)
	return cells[n:], true
}

// AppendSum appends a row's sum in transit form.
func (s *Schema) AppendSum(u *Sums, k Key, fixed []int64, float []float32) {
	sparse := s.Tables[k.Table].Sparse
	u.Keys = append(u.Keys, k)
	switch {
	case s.Deterministic && sparse:
		u.Fixed = appendSparseSum(u.Fixed, fixed)
	case s.Deterministic:
		u.Fixed = append(u.Fixed, fixed...)
	case sparse:
		u.Float = AppendSparse(u.Float, float)
	default:
		u.Float = append(u.Float, float...)
	}
}

// CellsOfSum returns how many of the floats at the beginning of a Sums, which fits the schema, belong to a key's row.
func (s *Schema) CellsOfSum(k Key, float []float32) int {
	t := &s.Tables[k.Table]
	if t.Sparse {
		return sparseCells(float, t.Cols)
	}
	return t.Cols
}

// AddSum adds a row's floats of a Sums to the whole row.
func (t *Table) AddSum(row, float []float32) error {
	if t.Sparse {
		return addSparse(t.Kind, row, float)
	}
	return addUpdate(t.Kind, row, float)
}
