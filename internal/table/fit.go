package table

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/tierml/tierml/internal/terminal"
)

const (
	gap = 2 // blanks between columns
	// narrowest is the width to which a column is cut before the table is shown as records: numbers stay whole.
	narrowest = 12
)

// Width returns the maximum width of lines to w: COLUMNS if set, else a terminal's width; 0 = any width.
func Width(w io.Writer) int {
	width, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if file, ok := terminal.File(w); err != nil && ok && term.IsTerminal(file.Fd()) {
		width, _, err = term.GetSize(file.Fd())
	}
	if err != nil || width < 20 { // unknown, or nothing fits anyway
		return 0
	}
	return width
}

// fit returns how wide each column may be for lines to fit into a width: the widest are cut first. It is nil if columns would have to be
// cut until they are unreadable.
func fit(lines [][]string, width int) []int {
	if len(lines) == 0 {
		return nil
	}
	widths, sum := make([]int, len(lines[0])), gap*(len(lines[0])-1)
	for i := range widths {
		for _, line := range lines {
			widths[i] = max(widths[i], ansi.StringWidth(line[i]))
		}
		sum += widths[i]
	}
	for ; sum > width; sum-- {
		widest := 0
		for i, w := range widths {
			if w >= widths[widest] { // if widths are equal the last is cut: names come first
				widest = i
			}
		}
		if widths[widest] <= narrowest {
			return nil
		}
		widths[widest]--
	}
	return widths
}

// cut shortens every cell to its column's width.
func cut(lines [][]string, widths []int) {
	for _, line := range lines {
		for i := range line {
			line[i] = ansi.Truncate(line[i], widths[i], "…")
		}
	}
}

// records prints a table that is too wide for its terminal: each row becomes lines with a title and a cell each.
func records(w io.Writer, lines [][]string) error {
	widest := 0
	for _, title := range lines[0] {
		widest = max(widest, ansi.StringWidth(title))
	}
	var b strings.Builder
	for n, line := range lines[1:] {
		if n > 0 {
			b.WriteString("\n")
		}
		for i, cell := range line {
			fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-*s  %s", widest, lines[0][i], cell), " "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
