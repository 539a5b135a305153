package grid

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func pools(width int) *Grid {
	g := &Grid{Head: []string{"", "TYPE", ">PRICE", ">LEFT", "WHY"}, Names: 2, Indent: 2, Spare: []int{3}, Width: width}
	g.Add("✓", "c3.xlarge", "0.25", "12", "cheapest")
	g.Remark("of all that there are")
	g.Add("", "c3.large", "1.5", "", "dear")
	return g
}

func TestLayouts(t *testing.T) {
	for width, want := range map[int]string{
		0: `     TYPE       PRICE  LEFT  WHY
  ✓  c3.xlarge   0.25    12  cheapest
      of all that there are
     c3.large     1.5        dear
`,
		31: `     TYPE       PRICE  WHY
  ✓  c3.xlarge   0.25  cheapest
      of all that there are
     c3.large     1.5  dear
`,
		22: `  ✓  c3.xlarge
    PRICE  0.25
    LEFT   12
    WHY    cheapest
      of all that
      there are
  c3.large
    PRICE  1.5
    WHY    dear
`,
	} {
		if got := pools(width).String(); got != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// The last column shrinks first, as far as allowed.
func TestLastColumnIsCut(t *testing.T) {
	g := pools(34)
	g.Spare, g.Cut = nil, 5
	want := "     TYPE       PRICE  LEFT  WHY\n  ✓  c3.xlarge   0.25    12  chea…\n      of all that there are\n     c3.large     1.5        dear\n"
	if got := g.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// No line is too wide, as far as words allow, and none loses a cell, except optional ones.
func TestFitsEveryWidth(t *testing.T) {
	for width := 20; width < 50; width++ {
		text := pools(width).String()
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d characters in a width of %d: %s", n, width, line)
			}
		}
		for _, cell := range []string{"c3.xlarge", "0.25", "cheapest", "1.5", "dear"} {
			if !strings.Contains(text, cell) {
				t.Errorf("width %d: %s is lost:\n%s", width, cell, text)
			}
		}
	}
}
