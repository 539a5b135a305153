package labelled

import (
	"errors"
	"math"

	"github.com/tierml/tierml/apps"
)

// Look describes a file of examples as Prepare reads it.
type Look struct {
	Table   bool // else there is one column, the label
	Named   bool // the first line names the columns
	Rows    int
	Columns []ColumnLook
	Texts   []string // columns of free text, which Prepare leaves out
}

// ColumnLook describes a column.
type ColumnLook struct {
	Name        string
	Words       bool
	Different   int // values
	Whole       bool
	Counts      bool // each number is the previous one plus 1
	Missing     int
	Least, Most float64
	Some        []string // the values, in order, of a column with two
}

// LookAt reads a file of examples, but not images.
func LookAt(in apps.Input) (look Look, err error) {
	s, err := readAs(in, reading{images: readImagesAlone})
	if err != nil {
		return look, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	look = Look{Table: s.data.Table(), Named: s.data.Headerless == nil, Rows: s.rows(), Texts: s.texts}
	if !look.Table {
		values := s.all.labels
		look.Columns = []ColumnLook{lookAt("label", false, len(values), func(i int) (float64, bool) { return float64(values[i]), true })}
		return look, nil
	}
	cells := make([][]float32, len(s.data.Columns))
	for i := range cells {
		cells[i] = make([]float32, s.rows())
		for row := range cells[i] {
			cells[i][row] = float32(math.NaN())
		}
	}
	for row := range s.rows() {
		for k := s.all.start[row]; k < s.all.start[row+1]; k++ {
			cells[s.all.index[k]][row] = s.all.value[k]
		}
	}
	for i, c := range s.data.Columns {
		column := lookAt(c.Name, len(c.Words) > 0, s.rows(), func(row int) (float64, bool) {
			x := cells[i][row]
			return float64(x), x == x
		})
		if column.Different == 2 {
			column.Some = []string{wordOf(c, float32(column.Least)), wordOf(c, float32(column.Most))}
		}
		look.Columns = append(look.Columns, column)
	}
	return look, nil
}

func lookAt(name string, words bool, rows int, value func(int) (x float64, there bool)) ColumnLook {
	c := ColumnLook{Name: name, Words: words, Whole: true, Counts: rows > 1, Least: math.Inf(1), Most: math.Inf(-1)}
	different := map[float64]bool{}
	last := math.NaN()
	for i := range rows {
		x, there := value(i)
		if !there {
			c.Missing++
			c.Counts = false
			continue
		}
		different[x] = true
		c.Whole = c.Whole && x == math.Trunc(x)
		c.Counts = c.Counts && (i == 0 || x == last+1)
		c.Least, c.Most, last = min(c.Least, x), max(c.Most, x), x
	}
	c.Different = len(different)
	c.Counts = c.Counts && c.Whole && !words
	return c
}
