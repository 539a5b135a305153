package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/sim/sweep"
)

// writeDryRunTable prints one block per length, in at most 100 columns.
func writeDryRunTable(out io.Writer, p sweep.Plan, rows []sweep.Row) error {
	var b strings.Builder
	if len(rows) == 0 {
		b.WriteString("No run was done.\n")
	} else {
		first, last := rows[0].Start, rows[0].Start
		for _, r := range rows {
			if r.Start.Before(first) {
				first = r.Start
			}
			if r.Start.After(last) {
				last = r.Start
			}
		}
		const form = "2006-01-02 15:04"
		fmt.Fprintf(&b, "Dry run of %s by the rules %s, started %s", p.Job.Name, rows[0].Rules, first.UTC().Format(form))
		if last.After(first) {
			fmt.Fprintf(&b, " to %s", last.UTC().Format(form))
		}
		b.WriteString("\n")
	}
	length := -1.0
	for _, s := range sweep.Summarize(rows) {
		if s.ComputeHours != length {
			length = s.ComputeHours
			e := p.Job.Equivalent
			fmt.Fprintf(&b, "\n%s hours of work for %d x %s on demand: $%.2f undisturbed\n\n", trim(length), e.Count, e.Type.Name, s.OnDemandCost)
			fmt.Fprintf(&b, "  %-21s %6s %5s %6s %6s %-9s %7s %7s %7s %7s %7s\n",
				"POLICY", "STARTS", "DONE", "BEATS", "SAVES", "", "MEAN", "SD", "P5", "P50", "P95")
		}
		saves := 0.0
		if s.OnDemandCost > 0 {
			saves = 100 * (1 - s.CostMean/s.OnDemandCost)
		}
		fmt.Fprintf(&b, "  %-21s %6d %5d %5.0f%% %5.0f%% %-9s %7.2f %7.2f %7.2f %7.2f %7.2f\n", s.Policy, s.Starts, s.Finished,
			100*s.Beats, saves, "cost $", s.CostMean, s.CostSD, s.CostP5, s.CostP50, s.CostP95)
		more := func(name string, figures ...any) {
			fmt.Fprintf(&b, "  %48s %-9s %7.2f %7.2f %7.2f %7.2f %7.2f\n", append([]any{"", name}, figures...)...)
		}
		more("hours", s.RuntimeMean, s.RuntimeSD, s.RuntimeP5, s.RuntimeP50, s.RuntimeP95)
		more("evictions", s.EvictionsMean, s.EvictionsSD, s.EvictionsP5, s.EvictionsP50, s.EvictionsP95)
	}
	if len(rows) > 0 {
		b.WriteString("\nDONE: starts that finished. BEATS: share of starts that cost less than on demand.\nSAVES: of the mean cost. P5, P50, P95: percentiles.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// trim gives a number with at most two decimals.
func trim(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// writeDryRunJSON prints an array with one object per policy and length.
func writeDryRunJSON(out io.Writer, _ sweep.Plan, rows []sweep.Row) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(sweep.Summarize(rows))
}

// writeDryRunCSV prints one row a start.
func writeDryRunCSV(out io.Writer, _ sweep.Plan, rows []sweep.Row) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"policy", "rules", "compute_hours", "start", "outcome", "cost", "ondemand_cost", "runtime_hours",
		"machines", "evictions", "switches", "rollbacks", "lost_clocks"})
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	for _, r := range rows {
		_ = w.Write([]string{
			r.Policy, r.Rules, trim(r.Compute.Hours()), r.Start.UTC().Format(time.RFC3339), r.Outcome, r.Cost.String(),
			number(r.OnDemand), strconv.FormatFloat(r.Runtime.Hours(), 'f', 4, 64), strconv.Itoa(r.Machines),
			strconv.Itoa(r.Evictions), strconv.Itoa(r.Switches), strconv.Itoa(r.Rollbacks), strconv.FormatInt(r.Lost, 10),
		})
	}
	w.Flush() // keeps the first error
	return w.Error()
}
