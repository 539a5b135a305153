// Package table prints a list of things in the forms that all commands offer: as a table for people, with more columns on request, as CSV,
// and as JSON. It knows nothing about the rows' meaning.
package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tierml/tierml/internal/terminal"
)

// The forms. Text is another name for Table, used by commands that print more than a table.
const (
	Plain = "table"
	Wide  = "wide"
	JSON  = "json"
	CSV   = "csv"
	Text  = "text"
)

// Formats returns the forms that every list offers.
func Formats() []string { return []string{Plain, Wide, JSON, CSV} }

// Column is one property of the things.
type Column struct {
	Name  string // for programs: in lower case, with its unit, such as usd_per_hour; empty = for people only
	Title string // for people; empty = not in tables
	Wide  bool   // only in wide tables
}

// Cell is a property of one thing.
type Cell struct {
	Text  string // for people
	Value any    // for programs; nil = the text
}

// Of returns a cell that reads the same for people and for programs.
func Of(value any) Cell { return Cell{Text: fmt.Sprint(value), Value: value} }

// Table is a list of things, each with a cell for each column.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	// Data is what JSON shows; nil = a list of objects with the columns' names.
	Data any
}

// Write prints it.
func (t Table) Write(w io.Writer, format string) error {
	switch format {
	case Plain, Text:
		return t.writeTable(w, false)
	case Wide:
		return t.writeTable(w, true)
	case CSV:
		return t.writeCSV(w)
	case JSON:
		return t.writeJSON(w)
	}
	return Check(format)
}

// Check reports whether a form exists.
func Check(format string) error {
	if format != Text && !slices.Contains(Formats(), format) {
		return fmt.Errorf("output format %q does not exist; write -o %s", format, strings.Join(Formats(), ", -o "))
	}
	return nil
}

// writeTable aligns columns. On a terminal that is too narrow, cells are cut or rows shown as records; wide tables never are.
func (t Table) writeTable(w io.Writer, wide bool) error {
	if wide {
		return t.writeLines(w, true, 0)
	}
	return t.writeLines(w, false, Width(w))
}

func (t Table) writeLines(w io.Writer, wide bool, width int) error {
	lines := make([][]string, 1+len(t.Rows))
	for i, c := range t.Columns {
		if c.Title == "" || c.Wide && !wide {
			continue
		}
		lines[0] = append(lines[0], c.Title)
		for j, row := range t.Rows {
			lines[1+j] = append(lines[1+j], terminal.Line(row[i].Text))
		}
	}
	if width > 0 {
		widths := fit(lines, width)
		if widths == nil && len(t.Rows) > 0 {
			return records(w, lines)
		}
		if widths != nil {
			cut(lines, widths)
		}
	}
	var text bytes.Buffer
	aligned := tabwriter.NewWriter(&text, 0, 0, gap, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(aligned, strings.Join(line, "\t"))
	}
	if err := aligned.Flush(); err != nil {
		return err
	}
	for row := range strings.Lines(text.String()) { // an empty last column leaves blanks
		if _, err := io.WriteString(w, strings.TrimRight(row, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (t Table) writeCSV(w io.Writer) error {
	rows := csv.NewWriter(w)
	var fields []string
	for _, c := range t.Columns {
		if c.Name != "" {
			fields = append(fields, c.Name)
		}
	}
	if err := rows.Write(fields); err != nil {
		return err
	}
	for _, row := range t.Rows {
		fields = fields[:0]
		for i, c := range row {
			switch {
			case t.Columns[i].Name == "":
			case c.Value != nil:
				fields = append(fields, fmt.Sprint(c.Value))
			default:
				fields = append(fields, c.Text)
			}
		}
		if err := rows.Write(fields); err != nil {
			return err
		}
	}
	rows.Flush()
	return rows.Error()
}

func (t Table) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if t.Data != nil {
		return encoder.Encode(t.Data)
	}
	objects := make([]map[string]any, len(t.Rows))
	for i, row := range t.Rows {
		objects[i] = map[string]any{}
		for j, c := range row {
			if t.Columns[j].Name == "" {
				continue
			}
			objects[i][t.Columns[j].Name] = c.Text
			if c.Value != nil {
				objects[i][t.Columns[j].Name] = c.Value
			}
		}
	}
	return encoder.Encode(objects)
}
