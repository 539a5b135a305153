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
	"strings"
	"unicode/utf8"
)

// Table is a table of text, until Close. Row i has the cells Start[i] to Start[i+1]; empty cells are left out.
type Table struct {
	Sparse  // an entry's index is its column; there are no labels
	Columns []TableColumn
	Rows    int
	// Headerless are the names of all columns if the first line does not have them.
	Headerless []string
	// Texts are columns of free text, which are ignored.
	Texts []string
	Notes []string // what users may not expect
}

// TableColumn is a column of numbers or words.
type TableColumn struct {
	Name string
	// Words are the distinct words of a column of words, sorted; empty for a column of numbers. A cell's value is the
	// word's index here.
	Words    []string
	Cells    int  // number of non-empty cells
	DayFirst bool // its dates with slashes begin with the day
}

// TableOptions supplies what a file does not contain.
type TableOptions struct {
	Columns []string         // names, for a file whose first line lacks them
	Target  string           // the one of Columns that a file may omit
	Needed  string           // the column without which a row is left out
	Ignore  []string         // columns to ignore
	Use     func(string) Use // returns a column's use by its name; nil = Either
}

// Use is the known content of a column.
type Use int

// The uses of a column.
const (
	Either Use = iota // decided by its cells
	Numbers
	Words
	Unused
	DaysFirst // numbers, whose dates with slashes begin with the day
)

// maxWords is the most distinct words in a column: with more, it is free text, not a category.
const maxWords = 1000

// ReadTable reads a table with cells separated by commas, semicolons, tabs, bars or blanks. Its first line names the
// columns, unless it looks like the lines after it. The first thousand rows decide which columns are numbers; a word in
// such a column makes a line bad. Dates become numbers: days since 1970. An empty field, NA, NaN, NULL, - and ? mean a
// missing value. It ignores comments, which begin with # and a blank, a first column without a name, which has line
// numbers, and columns whose words are distinct in nearly every line. Up to maxBad bad lines are skipped.
func ReadTable(name string, r io.Reader, maxBad int) (Table, error) {
	return TableOptions{}.Read(name, r, maxBad)
}

func readTable(name string, r io.Reader, maxBad int, limit int64) (Table, error) {
	return TableOptions{}.read(name, r, maxBad, limit)
}

// Read is ReadTable with options.
func (o TableOptions) Read(name string, r io.Reader, maxBad int) (Table, error) {
	return o.read(name, r, maxBad, inMemory)
}

func (o TableOptions) read(name string, r io.Reader, maxBad int, limit int64) (Table, error) {
	plain, err := Plain(r)
	if err != nil {
		return Table{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	t := tableReader{name: name, options: o, tolerance: tolerance{allowed: maxBad}, all: newSparseTable(limit), part: Sparse{Start: []int{0}}}
	err = t.readAll(plain)
	if err == nil && t.rows == 0 {
		err = fmt.Errorf("%s: no rows in it", name)
		if t.lack > 0 {
			err = fmt.Errorf("%s: no row has a %s, which is to be predicted", name, o.Needed)
		}
	}
	if err == nil {
		err = t.dateFault()
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
	options   TableOptions
	tolerance tolerance
	number    numberForm
	columns   []columnReader
	row       []float32 // the line being read; NaN = missing
	rows      int
	part      Sparse // rows not yet in all
	all       *sparseTable

	needed int // index of the column Needed; -1 = there is none
	lack   int // rows left out since they lack it

	again      int      // number of fields of the first line that recur in their columns
	above      []string // fields of the comment just above the table
	headerless []string
	notes      []string
}

type columnReader struct {
	name   string
	use    Use
	kind   columnKind
	text   bool           // too many distinct words
	places map[string]int // by word, in order of first appearance
	spaces int            // in distinct words
	cells  int
	number *numberForm
	dates  dateColumn

	unnamed bool
}

// partSize is the number of cells collected at a time.
const partSize = 1 << 16

type columnKind int

const (
	undecided columnKind = iota // only empty fields so far
	numbers
	words
)

func (t *tableReader) readAll(plain io.Reader) error {
	in := bufio.NewReaderSize(plain, look)
	first, err := in.Peek(look)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	whole := first
	first, skip := beforeTable(first)
	if _, err := in.Discard(skip); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	separator, _ := tableForm(first)
	t.again = comesAgain(someLines(first), string(separator))
	t.above, _ = splitFields(lastComment(whole[:skip]), string(separator))
	lines := csv.NewReader(in)
	if lines.Comma = separator; separator == ' ' {
		lines = csv.NewReader(&blanks{in: in})
		lines.Comma = '\t'
	}
	lines.LazyQuotes = separator != ','
	t.number.comma = separator == ';'
	head, err := t.head(lines)
	if err != nil {
		return err
	}
	head = t.decide(lines, head)
	lines.ReuseRecord = true
	for {
		var next record
		if len(head) > 0 {
			next, head = head[0], head[1:]
		} else {
			next = nextRecord(lines)
		}
		var (
			reason string
			parse  *csv.ParseError
		)
		switch {
		case errors.Is(next.err, io.EOF):
			return nil
		case errors.As(next.err, &parse):
			next.line, reason = parse.StartLine, reasonOf(parse, next.fields, len(t.columns))
		case next.err != nil:
			return t.fault(next.err)
		default:
			reason = t.add(next.fields)
			if len(t.part.Index) >= partSize {
				if err := t.flush(); err != nil {
					return err
				}
			}
		}
		if reason != "" {
			if err := t.tolerance.take(&LineError{t.name, next.line, reason}); err != nil {
				return err
			}
		}
	}
}

// record is a row, or the reason why there is none.
type record struct {
	fields []string
	line   int
	err    error
}

func nextRecord(lines *csv.Reader) (r record) {
	if r.fields, r.err = nextRow(lines); r.err == nil {
		r.line, _ = lines.FieldPos(0)
	}
	return r
}

// Columns are decided by the first shownRows rows, or by fewer with many cells.
const (
	shownRows  = 1000
	shownCells = 1 << 18
)

// decide reads rows ahead, and decides by all their cells which columns are numbers. A single word among numbers, or
// one in fifty, is a mistake in its line; with more, the column has words.
func (t *tableReader) decide(lines *csv.Reader, rows []record) []record {
	for len(rows) < shownRows && len(rows)*len(t.columns) < shownCells {
		next := nextRecord(lines)
		if rows = append(rows, next); next.err != nil && !errors.Is(next.err, csv.ErrFieldCount) {
			break
		}
	}
	for i := range t.columns {
		c := &t.columns[i]
		if c.use == Unused || c.kind != undecided {
			continue
		}
		some, none := [...]int{numbers: 0, words: 0}, false
		for _, row := range rows {
			if row.err != nil {
				continue
			}
			switch field := strings.TrimSpace(row.fields[i]); {
			case missing(field):
			case field == nothing:
				none = true
			case c.isNumber(field):
				some[numbers]++
			default:
				some[words]++
			}
		}
		switch {
		case some[numbers] > 0 && (some[words] <= 1 || mistakes*some[words] <= some[numbers]):
			c.kind = numbers
		case some[words] > 0 || none:
			c.kind = words
		}
	}
	return rows
}

// nothing is Python's missing value; in a column of words it is a word like others.
const nothing = "None"

// mistakes is the number of cells of which one may be a word by mistake.
const mistakes = 50

// head reads the header, and returns the lines read that are not part of it.
func (t *tableReader) head(lines *csv.Reader) (rest []record, err error) {
	first, err := lines.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: it is empty", t.name)
		}
		return nil, t.fault(err)
	}
	at, _ := lines.FieldPos(0)
	second, err := nextRow(lines)
	if errors.Is(err, csv.ErrFieldCount) && t.namesRows(first, second, lines.Comma) {
		first, err = append([]string{""}, first...), nil
		lines.FieldsPerRecord = len(first)
	}
	if n := len(first) - 1; errors.Is(err, csv.ErrFieldCount) && len(second) == n && n > 0 && strings.TrimSpace(first[n]) == "" { // a comma too many
		first, err = first[:n], nil
		lines.FieldsPerRecord = n
	}
	var below []string
	var parse *csv.ParseError
	switch {
	case errors.As(err, &parse):
		if err := t.tolerance.take(&LineError{t.name, parse.StartLine, reasonOf(parse, second, len(first))}); err != nil {
			return nil, err
		}
	case err == nil:
		line, _ := lines.FieldPos(0)
		below, rest = second, []record{{second, line, nil}}
	case !errors.Is(err, io.EOF):
		return nil, t.fault(err)
	}
	names, isHeader, err := t.header(first, below)
	if err != nil {
		return nil, &LineError{t.name, at, err.Error()}
	}
	if !isHeader {
		rest = append([]record{{first, at, nil}}, rest...)
	}
	return rest, t.begin(names)
}

// reasonOf explains what is wrong with a line with these fields.
func reasonOf(err *csv.ParseError, fields []string, want int) string {
	switch {
	case errors.Is(err.Err, csv.ErrFieldCount):
		return fmt.Sprintf("%d columns, the header has %d%s", len(fields), want, quoted(fields...))
	case errors.Is(err.Err, csv.ErrQuote):
		return err.Err.Error() + `: a quoted field has "" for a quote in it, without a backslash`
	}
	return err.Err.Error()
}

func (t *tableReader) fault(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &LineError{t.name, parse.Line, reasonOf(parse, nil, 0)}
	}
	return fmt.Errorf("%s: %w", t.name, err)
}

// begin makes the columns.
func (t *tableReader) begin(names []string) error {
	for i, name := range names {
		name = strings.Clone(strings.TrimSpace(name))
		c := columnReader{places: map[string]int{}, number: &t.number}
		switch {
		case i == 0 && (name == "" || name == "Unnamed: 0") && len(names) > 1, name == "__index_level_0__": // pandas' Parquet
			c.use = Unused
			t.notes = append(t.notes, "the first column has no name: it is taken for line numbers, and left out")
		case name == "":
			name, c.unnamed = fmt.Sprintf("column %d", i+1), true
		}
		if original := name; t.columnNamed(name) {
			for n := 1; t.columnNamed(name) || slices.Contains(names, name); n++ {
				name = fmt.Sprintf("%s.%d", original, n)
			}
			t.notes = append(t.notes, fmt.Sprintf("two columns are named %q: the second is read as %q", original, name))
		}
		if slices.Contains(t.options.Ignore, name) {
			c.use = Unused
		} else if t.options.Use != nil {
			c.use = t.options.Use(name)
		}
		switch c.name = name; c.use {
		case Numbers:
			c.kind, c.dates.order = numbers, monthFirst
		case DaysFirst:
			c.kind, c.dates.order = numbers, dayFirst
		case Words:
			c.kind = words
		}
		t.columns = append(t.columns, c)
	}
	for _, name := range t.options.Ignore {
		if !slices.ContainsFunc(t.columns, func(c columnReader) bool { return c.name == name }) {
			return fmt.Errorf("%s: there is no column %q to ignore; it has %s", t.name, name, strings.Join(names, ", "))
		}
	}
	t.row = make([]float32, len(t.columns))
	t.needed = slices.IndexFunc(t.columns, func(c columnReader) bool { return c.name == t.options.Needed })
	return nil
}

// dateFault is the fault of the first column whose dates with slashes cannot be read.
func (t *tableReader) dateFault() error {
	for i := range t.columns {
		c := &t.columns[i]
		if c.kind != numbers || c.use == Unused || t.options.Use != nil {
			continue
		}
		if fault := c.dates.fault(c.name); fault != "" {
			err := fmt.Errorf("%s: column %d (%s) %s", t.name, i+1, c.name, fault)
			if packed().MatchString(t.name) {
				err = fmt.Errorf("%w. Unpack the file first", err)
			}
			if c.dates.order == unknownOrder {
				err = &DateOrderError{err}
			}
			return err
		}
	}
	return nil
}

// columnNamed reports whether a column before has this name.
func (t *tableReader) columnNamed(name string) bool {
	return slices.ContainsFunc(t.columns, func(c columnReader) bool { return c.name == name })
}

// add adds a row, or returns the reason why it does not.
func (t *tableReader) add(fields []string) (reason string) {
	for i, field := range fields {
		if t.row[i], reason = t.columns[i].parse(strings.TrimSpace(field), t.rows); reason != "" {
			if t.rows == 0 && t.options.Use == nil && strings.Contains(reason, notNumber) {
				reason += "; a second line of names or units must go"
			}
			return fmt.Sprintf("column %d (%s): %s", i+1, t.columns[i].name, reason)
		}
	}
	if t.needed >= 0 && t.row[t.needed] != t.row[t.needed] && t.columns[t.needed].use != Unused && !t.columns[t.needed].text {
		t.lack++
		return ""
	}
	for i, value := range t.row {
		if value == value { // not missing
			t.part.Index, t.part.Value = append(t.part.Index, uint32(i)), append(t.part.Value, value)
			t.columns[i].cells++
		}
	}
	t.part.Start = append(t.part.Start, len(t.part.Index))
	t.rows++
	return ""
}

// flush starts another part.
func (t *tableReader) flush() error {
	err := t.all.add(&t.part)
	t.part = Sparse{Start: t.part.Start[:1], Index: make([]uint32, 0, partSize), Value: make([]float32, 0, partSize)}
	return err
}

// table sorts each column's words, so that their indexes do not depend on the order of lines.
func (t *tableReader) table() Table {
	table := Table{Sparse: t.all.Sparse, Rows: t.rows, Headerless: t.headerless}
	table.BadLines = t.tolerance.bad
	sorted := make([][]float32, len(t.columns)) // by column and index
	place := make([]int, len(t.columns))        // among the columns used; -1 = ignored
	for i := range t.columns {
		c := &t.columns[i]
		if place[i] = -1; !t.stays(i, &table) {
			continue
		}
		place[i] = len(table.Columns)
		column := TableColumn{Name: c.name, Cells: c.cells, DayFirst: c.kind == numbers && c.dates.order == dayFirst}
		if column.DayFirst {
			t.notes = append(t.notes, fmt.Sprintf("column %q: its dates begin with the day", c.name))
		}
		if c.kind == words {
			column.Words = slices.Sorted(maps.Keys(c.places))
			sorted[i] = make([]float32, len(column.Words))
			for place, word := range column.Words {
				sorted[i][c.places[word]] = float32(place)
			}
		}
		table.Columns = append(table.Columns, column)
	}
	if t.lack > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%d of %d rows have no %s, which is to be predicted, and are left out", t.lack, t.lack+t.rows, t.options.Needed))
	}
	table.Notes = append(t.notes, table.Notes...)
	kept := 0
	for row := range table.Rows {
		from, to := table.Start[row], table.Start[row+1]
		table.Start[row] = kept
		for k := from; k < to; k++ {
			i, value := table.Index[k], table.Value[k]
			if place[i] < 0 {
				continue
			}
			if places := sorted[i]; places != nil {
				value = places[int(value)]
			} else if dates := &t.columns[i].dates; dates.order == dayFirst && dates.unclear > 0 && row < dates.until {
				value = exchanged(value)
			}
			table.Index[kept], table.Value[kept] = uint32(place[i]), value
			kept++
		}
	}
	table.Start[table.Rows] = kept
	table.Index, table.Value = table.Index[:kept], table.Value[:kept]
	return table
}

// A column of words is identifiers or text, from which nothing can be learned, if it has at least leastDifferent cells
// and at least a share of mostlyDifferent are distinct.
const (
	mostlyDifferent = 0.8
	leastDifferent  = 50
	wordsOfText     = 3 // mean per cell of free text
)

// stays reports whether a column is used, and notes why one is not.
func (t *tableReader) stays(i int, table *Table) bool {
	c := &t.columns[i]
	if c.use == Unused || c.kind == undecided && c.unnamed {
		return false
	}
	if c.kind != words || t.options.Use != nil {
		return true
	}
	different := len(c.places)
	if !c.text && (i == len(t.columns)-1 || different < leastDifferent || float64(different) <= mostlyDifferent*float64(c.cells)) {
		return true
	}
	if c.spaces >= (wordsOfText-1)*different {
		table.Texts = append(table.Texts, c.name)
		table.Notes = append(table.Notes, fmt.Sprintf("column %q is free text, and left out", c.name))
	} else {
		table.Notes = append(table.Notes, fmt.Sprintf("column %q has another word in nearly every line, or more than %d, and is left out", c.name, maxWords))
	}
	return false
}

// parse returns the value of a cell in the row of this number.
func (c *columnReader) parse(field string, row int) (value float32, reason string) {
	if c.use == Unused || c.text || missing(field) || c.kind == numbers && field == nothing {
		return float32(math.NaN()), ""
	}
	if c.kind == words {
		return c.word(field)
	}
	if c.kind == undecided && !c.isNumber(field) { // first seen after the rows that were read ahead
		c.kind = words
		return c.word(field)
	}
	c.kind = numbers
	x, number, reason := c.dates.parse(field, row)
	if reason != "" {
		return 0, reason
	}
	if !number {
		x, number = c.number.parse(field)
		c.dates.others = c.dates.others || c.dates.order == unknownOrder
	}
	switch {
	case !number:
		if reason := c.number.reason(field); reason != "" {
			return 0, reason
		}
		return 0, fmt.Sprintf("%q "+notNumber+": leave it empty if nothing is known; train.ignore leaves a column out, train.max_bad_lines bad lines", field)
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0, fmt.Sprintf("%q is not a finite number: write nothing where there is none", field)
	}
	return float32(x), ""
}

const notNumber = "is not a number, as the column's other fields are"

// isNumber reports whether a cell is a number, or one that parse refuses with a reason.
func (c *columnReader) isNumber(field string) bool {
	_, number := c.number.parse(field)
	return number || c.number.reason(field) != ""
}

func (c *columnReader) word(field string) (value float32, reason string) {
	place, known := c.places[field]
	if !known {
		if !utf8.ValidString(field) {
			return 0, fmt.Sprintf("%q is %s", field, notUTF8)
		}
		if strings.IndexByte(field, 0) >= 0 {
			return 0, fmt.Sprintf("%q has a zero byte: the file is damaged, or not text; write the table as CSV or Parquet", field)
		}
		if place = len(c.places); place == maxWords && c.use != Words {
			c.text = true
			return float32(math.NaN()), ""
		}
		c.places[strings.Clone(field)] = place
		c.spaces += strings.Count(field, " ")
	}
	return float32(place), ""
}
