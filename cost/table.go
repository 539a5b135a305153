package cost

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table is rows of cells in columns that are as wide as they need to be. Columns whose heading begins with
// ">" are set to the right; the last column is cut to what is left of the width.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write sets the table, indented by two spaces, in at most width columns.
func (t *table) write(w io.Writer, width int) error {
	right := make([]bool, len(t.head))
	head := make([]string, len(t.head))
	for i, h := range t.head {
		head[i], right[i] = strings.CutPrefix(h, ">")
	}
	all := append([][]string{head}, t.rows...)
	widths := make([]int, len(head))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	last := len(head) - 1
	if last >= 0 {
		used := 2 * (last + 1) // the indent and the gaps
		for _, n := range widths[:last] {
			used += n
		}
		widths[last] = max(8, min(widths[last], width-used))
	}
	for _, row := range all {
		if _, err := io.WriteString(w, setRow(row, widths, right)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func setRow(row []string, widths []int, right []bool) string {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString("  ")
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

// cut shortens s to n characters and shows that it did.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}
