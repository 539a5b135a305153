// Package grid lays out rows of cells as text: in columns if they fit, otherwise each row as separate lines, so that a narrow terminal
// breaks no row. It knows nothing about terminals, colours or what the cells mean.
package grid

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Grid is rows of cells below a heading. Columns are as wide as they need to be.
type Grid struct {
	// Head has the columns' titles. A column whose title begins with ">" is aligned right.
	Head []string
	// Names is the number of columns that identify a row. If columns do not fit, these begin its lines.
	Names int
	// Indent is the number of spaces before every line.
	Indent int
	// Cut is the least width to which the last column may be cut to make the others fit; 0 = it is not cut.
	Cut int
	// Spare are columns that may be omitted, the first before the second, if the others fit then.
	Spare []int
	// Width is the maximum width of lines; 0 = unlimited.
	Width int

	rows []row
}

type row struct {
	cells []string
	below string
}

// Line is a line of the text.
type Line struct {
	Text string
	// Row is the row that it belongs to; -1 = the heading.
	Row int
	// Below: it belongs to the remark below a row.
	Below bool
}

// Add adds a row.
func (g *Grid) Add(cells ...string) { g.rows = append(g.rows, row{cells: cells}) }

// Remark sets words below the last row.
func (g *Grid) Remark(words string) { g.rows[len(g.rows)-1].below = words }

// Rows returns the number of rows.
func (g *Grid) Rows() int { return len(g.rows) }

const (
	gap = 2
	// below is the additional indent of the lines below a row's first.
	below = 2
)

// Lines returns the text.
func (g *Grid) Lines() []Line {
	titles, right := g.titles()
	widths, fits := g.widths(titles)
	for n := 1; !fits && n <= len(g.Spare); n++ {
		if left := without(widths, g.Spare[:n]); g.total(left) <= g.Width {
			widths, fits = left, true
		}
	}
	if !fits {
		return g.records(titles)
	}
	lines := []Line{{Row: -1, Text: g.line(titles, widths, right)}}
	for i, r := range g.rows {
		lines = append(lines, Line{Row: i, Text: g.line(r.cells, widths, right)})
		lines = append(lines, g.remark(i)...)
	}
	return lines
}

// String returns the text, including line ends.
func (g *Grid) String() string {
	var b strings.Builder
	for _, line := range g.Lines() {
		b.WriteString(line.Text + "\n")
	}
	return b.String()
}

func (g *Grid) titles() (titles []string, right []bool) {
	titles, right = make([]string, len(g.Head)), make([]bool, len(g.Head))
	for i, title := range g.Head {
		titles[i], right[i] = strings.CutPrefix(title, ">")
	}
	return titles, right
}

// widths returns the widths of the columns, and whether a line fits.
func (g *Grid) widths(titles []string) (widths []int, fits bool) {
	widths = make([]int, len(titles))
	for i, title := range titles {
		widths[i] = utf8.RuneCountInString(title)
		for _, r := range g.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r.cells[i]))
		}
	}
	if g.Width == 0 {
		return widths, true
	}
	if last := len(widths) - 1; g.Cut > 0 {
		widths[last] = min(widths[last], max(g.Cut, g.Width-g.total(widths)+widths[last]))
	}
	return widths, g.total(widths) <= g.Width
}

// none is the width of an omitted column.
const none = -gap

func without(widths, columns []int) []int {
	widths = slices.Clone(widths)
	for _, i := range columns {
		widths[i] = none
	}
	return widths
}

// total returns the width of a line of columns.
func (g *Grid) total(widths []int) int {
	sum := g.Indent - gap
	for _, w := range widths {
		sum += w + gap
	}
	return sum
}

func (g *Grid) line(cells []string, widths []int, right []bool) string {
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", g.Indent))
	first := true
	for i, cell := range cells {
		if widths[i] == none {
			continue
		}
		if !first {
			b.WriteString(strings.Repeat(" ", gap))
		}
		first = false
		cell = cut(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if right[i] {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// records shows each row as its names and, below, a line for each other cell.
func (g *Grid) records(titles []string) (lines []Line) {
	rest, widest := max(1, g.Names), 0
	for _, title := range titles[rest:] {
		widest = max(widest, utf8.RuneCountInString(title))
	}
	indent := strings.Repeat(" ", g.Indent)
	for i, r := range g.rows {
		add := func(text string) { lines = append(lines, Line{Row: i, Text: strings.TrimRight(text, " ")}) }
		if name := strings.Join(filled(r.cells[:rest]), strings.Repeat(" ", gap)); name != "" {
			add(indent + name)
		}
		for j, cell := range r.cells[rest:] {
			if cell == "" {
				continue
			}
			title := titles[rest+j]
			label := indent + strings.Repeat(" ", below) + title + strings.Repeat(" ", widest-utf8.RuneCountInString(title))
			if widest > 0 {
				label += strings.Repeat(" ", gap)
			}
			for _, text := range Wrap(cell, g.Width-utf8.RuneCountInString(label)) {
				add(label + text)
				label = strings.Repeat(" ", utf8.RuneCountInString(label))
			}
		}
		lines = append(lines, g.remark(i)...)
	}
	return lines
}

func (g *Grid) remark(i int) (lines []Line) {
	room := 1 << 30
	indent := g.Indent + 2*below
	if g.Width > 0 {
		room = g.Width - indent
	}
	for _, text := range Wrap(g.rows[i].below, room) {
		lines = append(lines, Line{Row: i, Below: true, Text: strings.Repeat(" ", indent) + text})
	}
	return lines
}

func filled(cells []string) (out []string) {
	for _, cell := range cells {
		if cell != "" {
			out = append(out, cell)
		}
	}
	return out
}

// Wrap breaks a text at spaces into lines of at most width characters, as far as its words permit.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// cut shortens s to n characters, with a mark.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}
