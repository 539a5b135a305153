package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
)

func printTable(w io.Writer, results []Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tAGAINST\tRATIO\t90 %\tBAR\t\tOURS\tTHEIRS\tUNIT")
	for i := range results {
		r := &results[i]
		if r.Skip != "" {
			fmt.Fprintf(t, "%s\t%s\t-\t\t%s\t%s\t\t\t\n", r.What, r.Against, r.bar(), r.Verdict())
			continue
		}
		if r.alone() {
			fmt.Fprintf(t, "%s\t%s\t-\t\t\t\t%s\t%s\t%s\n", r.What, r.Against, figure(r.OursMedian), figure(r.TheirsMedian), r.Unit)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.What, r.Against,
			r.number(r.Ratio), r.interval(), r.bar(), r.Verdict(), r.figure(r.OursMedian), r.figure(r.TheirsMedian), r.Unit)
	}
	_ = t.Flush()
}

func (r *Row) bar() string {
	switch {
	case r.Bar == 0:
		return ""
	case r.AtMost:
		return "<= " + r.number(r.Bar)
	default:
		return ">= " + r.number(r.Bar)
	}
}

// fine reports whether two digits are too few to compare with the bar, as for qualities that may differ by a
// thousandth.
func (r *Row) fine() bool { return r.AtMost && r.Bar > 0 && r.Bar < 1.05 }

// number formats a ratio.
func (r *Row) number(x float64) string {
	if r.fine() {
		return fmt.Sprintf("%.4f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func (r *Result) interval() string { return r.number(r.Low) + "-" + r.number(r.High) }

// figure formats one side's measurement.
func (r *Row) figure(x float64) string {
	if r.fine() {
		return fmt.Sprintf("%.5g", x)
	}
	return figure(x)
}

// figure formats a number with three digits; "-" = none.
func figure(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case x == 0 || math.IsInf(x, 0):
		return fmt.Sprint(x)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	if digits >= 0 {
		return fmt.Sprintf("%.*f", digits, x)
	}
	scale := math.Pow(10, float64(-digits))
	return fmt.Sprintf("%.0f", math.Round(x/scale)*scale)
}

func markdown(results []Result) []byte {
	var b bytes.Buffer
	b.WriteString("| what | against | ratio | 90 % interval | bar | verdict | ours | theirs | unit |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for i := range results {
		r := &results[i]
		if r.Skip != "" {
			fmt.Fprintf(&b, "| %s | %s | not run | | %s | | | | |\n", r.What, r.Against, r.bar())
			continue
		}
		if r.alone() {
			fmt.Fprintf(&b, "| %s | %s | - | | | | %s | %s | %s |\n", r.What, r.Against, figure(r.OursMedian), figure(r.TheirsMedian), r.Unit)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.What, r.Against,
			r.number(r.Ratio), r.interval(), r.bar(), r.Verdict(), r.figure(r.OursMedian), r.figure(r.TheirsMedian), r.Unit)
	}
	return b.Bytes()
}

// updatePage replaces a group's table between its markers on a page.
func updatePage(path, group string, table []byte) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := fmt.Sprintf("<!-- bench %s -->\n", group), fmt.Sprintf("<!-- end %s -->", group)
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no markers for %s", path, group)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+string(table)+"\n"+end+after), 0o644)
}
