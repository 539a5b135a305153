package input

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/pattern"
)

// Table is a CSV file with a header, until Close. Row i has the cells Start[i] to Start[i+1], those in which something is.
type Table struct {
	Sparse  // an entry's index is its column; there are no labels
	Columns []TableColumn
	Rows    int
}

// TableColumn is one column: of numbers, or of words.
type TableColumn struct {
	Name string
	// Words are the different words of a column of words, sorted; empty for a column of numbers. A cell's value is a word's place here.
	Words []string
	Cells int // in which something is
}

// maxWords is how many different words a column may have: beyond it is free text and not a category.
const maxWords = 1000

// ReadTable reads a CSV file whose first line names the columns. What the first field of a column that is not
// empty is, number or word, decides what the column is; a word in a column of numbers makes a bad line. An empty
// field, NA and ? say that nothing is there. Up to maxBad bad lines are left out.
func ReadTable(name string, r io.Reader, maxBad int) (Table, error) {
	return readTable(name, r, maxBad, inMemory)
}

func readTable(name string, r io.Reader, maxBad int, limit int64) (Table, error) {
	plain, err := Plain(r)
	if err != nil {
		return Table{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	t := tableReader{name: name, tolerance: tolerance{allowed: maxBad}, all: newSparseTable(limit), part: Sparse{Start: []int{0}}}
	err = t.readAll(plain)
	if err == nil && t.rows == 0 {
		err = fmt.Errorf("%s: no rows in it", name)
	}
	if err == nil {
		err = t.flush()
	}
	if err == nil {
		err = t.all.end()
	}
	if err != nil {
		return Table{}, errors.Join(err, t.all.close())
	}
	return t.table(), nil
}

type tableReader struct {
	name      string
	tolerance tolerance
	columns   []columnReader
	row       []float32 // of the line being read; NaN: nothing is there
	rows      int
	part      Sparse // rows that are not in all yet
	all       *sparseTable
}

type columnReader struct {
	name   string
	kind   columnKind
	places map[string]int // of words, in order of their first appearance
	cells  int
}

// partSize is how many cells are put together at a time.
const partSize = 1 << 16

type columnKind int

const (
	undecided columnKind = iota // nothing but empty fields so far
	numbers
	words
)

func (t *tableReader) readAll(plain io.Reader) error {
	in := bufio.NewReaderSize(plain, 1<<16)
	if mark, err := in.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark))
	}
	lines := csv.NewReader(in)
	lines.ReuseRecord = true
	header, err := lines.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: it is empty", t.name)
		}
		return t.fault(err)
	}
	if err := t.header(header); err != nil {
		return err
	}
	for {
		fields, err := lines.Read()
		if err == io.EOF {
			return nil
		}
		var (
			line   int
			reason string
			parse  *csv.ParseError
		)
		switch {
		case errors.As(err, &parse):
			line, reason = parse.StartLine, parse.Err.Error()
			if errors.Is(parse.Err, csv.ErrFieldCount) {
				reason = fmt.Sprintf("%d columns, the header has %d", len(fields), len(t.columns))
			}
		case err != nil:
			return t.fault(err)
		default:
			line, _ = lines.FieldPos(0)
			reason = t.add(fields)
			if len(t.part.Index) >= partSize {
				if err := t.flush(); err != nil {
					return err
				}
			}
		}
		if reason != "" {
			if err := t.tolerance.take(&LineError{t.name, line, reason}); err != nil {
				return err
			}
		}
	}
}

func (t *tableReader) fault(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &LineError{t.name, parse.Line, parse.Err.Error()}
	}
	return fmt.Errorf("%s: %w", t.name, err)
}

func (t *tableReader) header(names []string) error {
	for i, name := range names {
		name = strings.Clone(strings.TrimSpace(name))
		if _, err := strconv.ParseFloat(name, 64); err == nil || name == "" {
			return &LineError{t.name, 1, fmt.Sprintf("column %d is named %q: the first line must name the columns", i+1, name)}
		}
		if slices.ContainsFunc(t.columns, func(c columnReader) bool { return c.name == name }) {
			return &LineError{t.name, 1, fmt.Sprintf("two columns are named %q", name)}
		}
		t.columns = append(t.columns, columnReader{name: name, places: map[string]int{}})
	}
	t.row = make([]float32, len(t.columns))
	return nil
}

// add adds a row, or nothing and gives the reason.
func (t *tableReader) add(fields []string) (reason string) {
	for i, field := range fields {
		if t.row[i], reason = t.columns[i].parse(strings.TrimSpace(field)); reason != "" {
			return fmt.Sprintf("column %d (%s): %s", i+1, t.columns[i].name, reason)
		}
	}
	for i, value := range t.row {
		if value == value { // something is there
			t.part.Index, t.part.Value = append(t.part.Index, uint32(i)), append(t.part.Value, value)
			t.columns[i].cells++
		}
	}
	t.part.Start = append(t.part.Start, len(t.part.Index))
	t.rows++
	return ""
}

// flush begins another part.
func (t *tableReader) flush() error {
	err := t.all.add(&t.part)
	t.part = Sparse{Start: t.part.Start[:1], Index: make([]uint32, 0, partSize), Value: make([]float32, 0, partSize)}
	return err
}

func missing(field string) bool { return field == "" || field == "NA" || field == "?" }

func (c *columnReader) parse(field string) (value float32, reason string) {
	if missing(field) {
		return float32(math.NaN()), ""
	}
	x, err := strconv.ParseFloat(field, 32)
	number := err == nil || errors.Is(err, strconv.ErrRange)
	if c.kind == undecided {
		c.kind = words
		if number {
			c.kind = numbers
		}
	}
	if c.kind == words {
		return c.word(field)
	}
	switch {
	case !number:
		return 0, fmt.Sprintf("%q is not a number, as the fields above it are", field)
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0, fmt.Sprintf("%q is not a finite number", field)
	}
	return float32(x), ""
}

// separated is a number with a decimal comma, or with separators of thousands.
var separated = pattern.Of(`^[+-]?([0-9]+,[0-9]+|[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?|[0-9]{1,3}(\.[0-9]{3})+,[0-9]+)$`)

// signed is a number with the sign of a currency before it, or with a percent sign behind it.
var signed = pattern.Of(`^([+-]?\p{Sc} ?[0-9][0-9.,]*|[+-]?[0-9][0-9.,]* ?%)$`)

func (c *columnReader) word(field string) (value float32, reason string) {
	place, known := c.places[field]
	if !known {
		switch {
		case separated().MatchString(field):
			return 0, fmt.Sprintf("%q is written with a comma: write numbers as 1234.5", field)
		case signed().MatchString(field):
			return 0, fmt.Sprintf("%q has a sign of money or of a share: write numbers as 1234.5", field)
		case strings.IndexByte(field, 0) >= 0:
			return 0, fmt.Sprintf("%q has a zero byte: the file is damaged, or not text", field)
		}
		if place = len(c.places); place == maxWords {
			return 0, fmt.Sprintf("%q is the word number %d: this is free text, take the column out", field, maxWords+1)
		}
		c.places[strings.Clone(field)] = place
	}
	return float32(place), ""
}

// table puts each column's words in order, so that their places do not depend on which line came first.
func (t *tableReader) table() Table {
	table := Table{Sparse: t.all.Sparse, Rows: t.rows}
	table.BadLines = t.tolerance.bad
	sorted := make([][]float32, len(t.columns)) // by column and place
	for i := range t.columns {
		c := &t.columns[i]
		column := TableColumn{Name: c.name, Cells: c.cells}
		if c.kind == words {
			column.Words = slices.Sorted(maps.Keys(c.places))
			sorted[i] = make([]float32, len(column.Words))
			for place, word := range column.Words {
				sorted[i][c.places[word]] = float32(place)
			}
		}
		table.Columns = append(table.Columns, column)
	}
	for k, i := range table.Index {
		if places := sorted[i]; places != nil {
			table.Value[k] = places[int(table.Value[k])]
		}
	}
	return table
}
