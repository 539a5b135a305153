package cli

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/market"
)

// FigureCell formats a loss; an unknown one is a dash, and empty for programs.
func FigureCell(v *float64) table.Cell {
	if v == nil {
		return table.Cell{Text: "-", Value: ""}
	}
	return table.Cell{Text: fmt.Sprintf("%.4f", *v), Value: *v}
}

// Minute formats a time, to the minute for display.
func Minute(t time.Time) table.Cell {
	if t.IsZero() {
		return table.Cell{Text: "-"}
	}
	return table.Cell{Text: t.UTC().Format("2006-01-02 15:04"), Value: t.UTC().Format(time.RFC3339)}
}

// Money formats an exact amount, shortened for display.
func Money(text string) table.Cell { return table.Cell{Text: OrMinus(Cents(text)), Value: text} }

// OfAll returns "7/20", or "7" if the total is unknown.
func OfAll(clock, clocks int64) string {
	if clocks == 0 {
		return fmt.Sprint(clock)
	}
	return fmt.Sprintf("%d/%d", clock, clocks)
}

// OrMinus returns a dash for an empty cell.
func OrMinus(text string) string { return cmp.Or(text, "-") }

// Cents shortens a dollar amount for display; unknown ones stay empty.
func Cents(text string) string {
	v, err := market.ParseUSD(text)
	if err != nil {
		return ""
	}
	return v.Cents()
}

// Because formats a reason as the end of a sentence.
func Because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
