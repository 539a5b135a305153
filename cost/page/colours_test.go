package page

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/market"
)

// Every paid row of "Where time and money went" has its own colour, in both colour schemes, that stands out from the page (WCAG 2.2,
// 1.4.11: 3 to 1). An unknown class would be drawn black.
func TestUsesHaveDistinctColours(t *testing.T) {
	for scheme, variables := range schemes(t) {
		for _, programs := range []bool{false, true} {
			rows := cost.Waste{Programs: programs}.Rows()
			taken := map[string]string{}
			for _, row := range rows[:len(rows)-1] {
				m := regexp.MustCompile(`\.use-` + row.Use + ` \{ background: var\(--(\w+)\); fill: var\(--(\w+)\); \}`).FindStringSubmatch(Style)
				if m == nil || m[1] != m[2] {
					t.Errorf("the style sheet has no colour for %q", row.Use)
					continue
				}
				colour, known := variables[m[1]]
				if !known {
					t.Errorf("%s: %s has the unknown colour %s", scheme, row.Use, m[1])
				}
				if other, twice := taken[colour]; twice {
					t.Errorf("%s: %s and %s are both %s", scheme, row.Use, other, colour)
				}
				taken[colour] = row.Use
				if c := contrast(t, colour, variables["paper"]); c < 3 {
					t.Errorf("%s: %s has contrast %.2f", scheme, row.Use, c)
				}
			}
		}
	}
}

// The bar's parts have the classes of the table's rows, even if a row between them is empty.
func TestBarUsesTheColoursOfTheRows(t *testing.T) {
	w := cost.Waste{Programs: true, Working: cost.Part{USD: market.Dollar}, AfterEnd: cost.Part{USD: market.Dollar}}
	for _, part := range wasteBar(w) {
		for _, row := range w.Rows() {
			if row.Name == part.Name && part.Class != "use-"+row.Use {
				t.Errorf("%s has class %s in the bar and use-%s in the table", row.Name, part.Class, row.Use)
			}
		}
	}
}

// schemes returns the style sheet's variables by colour scheme.
func schemes(t *testing.T) map[string]map[string]string {
	t.Helper()
	light, dark, _ := strings.Cut(Style, "prefers-color-scheme: dark")
	read := func(text string) map[string]string {
		out := map[string]string{}
		body, _, _ := strings.Cut(text[strings.Index(text, ":root {"):], "}")
		for _, m := range regexp.MustCompile(`--(\w+): (#\w+);`).FindAllStringSubmatch(body, -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	return map[string]map[string]string{"light": read(light), "dark": read(dark)}
}

// contrast is WCAG's contrast ratio of two colours such as #fff or #0b62b8.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) float64 {
		hex := strings.TrimPrefix(colour, "#")
		if len(hex) == 3 {
			hex = strings.Repeat(hex[:1], 2) + strings.Repeat(hex[1:2], 2) + strings.Repeat(hex[2:], 2)
		}
		var rgb [3]int
		if _, err := fmt.Sscanf(hex, "%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
			t.Fatalf("%s is no colour: %v", colour, err)
		}
		sum := 0.
		for i, weight := range []float64{.2126, .7152, .0722} {
			v := float64(rgb[i]) / 255
			if v <= .04045 {
				sum += weight * v / 12.92
			} else {
				sum += weight * math.Pow((v+.055)/1.055, 2.4)
			}
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}
