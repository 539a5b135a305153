package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/sim/sweep"
)

// writeDryRunTable prints one block per length, in at most 80 columns.
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
		fmt.Fprintf(&b, "Dry run of %s by the rules %s,\nstarted %s", p.Job.Name, rows[0].Rules, first.UTC().Format(form))
		if last.After(first) {
			fmt.Fprintf(&b, " to %s", last.UTC().Format(form))
		}
		b.WriteString("\n")
	}
	summaries := sweep.Summarize(rows)
	for len(summaries) > 0 {
		n := 1
		for n < len(summaries) && summaries[n].ComputeHours == summaries[0].ComputeHours {
			n++
		}
		writeDryRunLength(&b, p, summaries[:n])
		summaries = summaries[n:]
	}
	if len(rows) > 0 {
		b.WriteString("\nDONE: starts that finished. BEATS: share that cost less than on demand,\nundisturbed. SAVES: of the mean. REGRET: what the mean is above the oracle's,\nby docs/oracle.md. P5, P50, P95: percentiles.\n")
		if freedom := p.Freedom(); freedom != "" && slices.Contains(p.Policies, sweep.Oracle) {
			writeWrapped(&b, "The oracle of this comparison may, beside what tierml may: "+freedom+".")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeWrapped prints a sentence in lines of at most 80 columns.
func writeWrapped(b *strings.Builder, sentence string) {
	column := 0
	for _, word := range strings.Fields(sentence) {
		switch {
		case column == 0:
		case column+1+len(word) > 80:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteString("\n")
}

// writeDryRunLength prints what all policies came to for one length.
func writeDryRunLength(b *strings.Builder, p sweep.Plan, all []sweep.Summary) {
	e := p.Job.Equivalent
	fmt.Fprintf(b, "\n%s hours of work for %d x %s on demand: $%.2f undisturbed\n\n", trim(all[0].ComputeHours), e.Count, e.Type.Name,
		all[0].OnDemandCost)
	fmt.Fprintf(b, "  %-22s %10s %8s %8s %8s %8s\n", "POLICY", "STARTS", "DONE", "BEATS", "SAVES", "REGRET")
	for _, s := range all {
		if unknown(s) {
			fmt.Fprintf(b, "  %-22s %10d %8d %8s %8s %8s\n", s.Policy, s.Starts, s.Finished, "-", "-", "unknown")
			continue
		}
		saves, regret := 0.0, "-"
		if s.OnDemandCost > 0 {
			saves = 100 * (1 - s.CostMean/s.OnDemandCost)
		}
		if s.Regret != nil {
			regret = fmt.Sprintf("%.0f%%", 100**s.Regret)
		}
		fmt.Fprintf(b, "  %-22s %10d %8d %7.0f%% %7.0f%% %8s\n", s.Policy, s.Starts, s.Finished, 100*s.Beats, saves, regret)
	}
	fmt.Fprintf(b, "\n  %-22s %-9s %8s %8s %8s %8s %8s\n", "POLICY", "", "MEAN", "SD", "P5", "P50", "P95")
	for _, s := range all {
		if unknown(s) {
			continue
		}
		line := func(name, what string, figures ...any) {
			fmt.Fprintf(b, "  %-22s %-9s %8.2f %8.2f %8.2f %8.2f %8.2f\n", append([]any{name, what}, figures...)...)
		}
		line(s.Policy, "cost $", s.CostMean, s.CostSD, s.CostP5, s.CostP50, s.CostP95)
		if sweep.IsOracle(s.Policy) {
			continue // it gives a bound on costs only
		}
		line("", "hours", s.RuntimeMean, s.RuntimeSD, s.RuntimeP5, s.RuntimeP50, s.RuntimeP95)
		line("", "evictions", s.EvictionsMean, s.EvictionsSD, s.EvictionsP5, s.EvictionsP50, s.EvictionsP95)
	}
}

// unknown says whether a row is an oracle's that does not know the market.
func unknown(s sweep.Summary) bool { return sweep.IsOracle(s.Policy) && s.OracleCost == nil }

// trim gives a number with at most two decimals.
func trim(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// writeDryRunWide prints a line for each policy and length, with all figures.
func writeDryRunWide(out io.Writer, _ sweep.Plan, rows []sweep.Row) error {
	t := table.Table{Columns: []table.Column{
		{Title: "POLICY"}, {Title: "RULES"}, {Title: "HOURS OF WORK"}, {Title: "STARTS"}, {Title: "DONE"}, {Title: "ON-DEMAND $"}, {Title: "BEATS"}, {Title: "REGRET"},
		{Title: "MEAN $"}, {Title: "SD"}, {Title: "P5"}, {Title: "P50"}, {Title: "P95"}, {Title: "MEAN H"}, {Title: "SD"}, {Title: "P5"}, {Title: "P50"}, {Title: "P95"},
		{Title: "EVICTIONS"}, {Title: "SD"}, {Title: "P95"},
	}}
	for _, s := range sweep.Summarize(rows) {
		regret := "-"
		if s.Regret != nil {
			regret = fmt.Sprintf("%.1f%%", 100**s.Regret)
		}
		row := []table.Cell{table.Of(s.Policy), table.Of(s.Rules), table.Of(trim(s.ComputeHours)), table.Of(s.Starts), table.Of(s.Finished),
			table.Of(fmt.Sprintf("%.2f", s.OnDemandCost)), table.Of(fmt.Sprintf("%.0f%%", 100*s.Beats)), table.Of(regret)}
		for _, figure := range []float64{s.CostMean, s.CostSD, s.CostP5, s.CostP50, s.CostP95, s.RuntimeMean, s.RuntimeSD, s.RuntimeP5, s.RuntimeP50,
			s.RuntimeP95, s.EvictionsMean, s.EvictionsSD, s.EvictionsP95} {
			row = append(row, table.Of(fmt.Sprintf("%.2f", figure)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Write(out, table.Wide)
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
		"machines", "evictions", "switches", "rollbacks", "lost_clocks", "oracle_cost"})
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	for _, r := range rows {
		oracle := ""
		if r.OracleKnown {
			oracle = r.Oracle.String()
		}
		_ = w.Write([]string{
			r.Policy, r.Rules, trim(r.Compute.Hours()), r.Start.UTC().Format(time.RFC3339), r.Outcome, r.Cost.String(),
			number(r.OnDemand), strconv.FormatFloat(r.Runtime.Hours(), 'f', 4, 64), strconv.Itoa(r.Machines),
			strconv.Itoa(r.Evictions), strconv.Itoa(r.Switches), strconv.Itoa(r.Rollbacks), strconv.FormatInt(r.Lost, 10), oracle,
		})
	}
	w.Flush() // keeps the first error
	return w.Error()
}

// writeDryRunHTML prints the report of one simulated run, as `tierml report -o html` prints that of a real one.
func writeDryRunHTML(out io.Writer, p sweep.Plan) error {
	var ledger cost.Ledger
	if err := p.Single(ledger.Add); err != nil {
		return usageError{err}
	}
	report, err := ledger.Report(ledger.AsOf())
	if err != nil {
		return err
	}
	return page.Write(out, report)
}
