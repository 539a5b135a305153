// Package show prints the results of simulations, for people and programs.
package show

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/sim/sweep"
)

// Results collects rows and prints them: as CSV at once, otherwise summarised at the end.
type Results struct {
	out    io.Writer
	format string
	Tally  sweep.Tally
	csv    *csv.Writer // nil = another format
}

func New(out io.Writer, format string) *Results {
	r := &Results{out: out, format: format}
	if format == table.CSV {
		r.csv = csv.NewWriter(out)
		_ = r.csv.Write([]string{"policy", "rules", "compute_hours", "start", "outcome", "cost", "ondemand_cost", "runtime_hours",
			"machines", "evictions", "switches", "rollbacks", "lost_clocks", "oracle_cost", "bought", "done"}) // the writer keeps its first error
	}
	return r
}

func (d *Results) Add(r sweep.Row) error {
	if d.csv == nil {
		d.Tally.Add(r)
		return nil
	}
	d.Tally.Rows++
	return writeDryRunRow(d.csv, r)
}

func (d *Results) Write(p sweep.Experiment) error {
	switch d.format {
	case table.CSV:
		d.csv.Flush()
		return d.csv.Error()
	case table.JSON:
		return table.WriteJSON(d.out, d.Tally.Summaries())
	case table.Wide:
		return writeDryRunWide(d.out, d.Tally.Summaries())
	}
	return writeDryRunTable(d.out, p, &d.Tally)
}

// writeDryRunTable prints one block per length, in at most 80 columns.
func writeDryRunTable(out io.Writer, p sweep.Experiment, tally *sweep.Tally) error {
	b := narrowText{width: table.Width(out)}
	if tally.Rows == 0 {
		b.WriteString("No run was done.\n")
	} else {
		const form = "2006-01-02 15:04"
		b.sentence(fmt.Sprintf("Dry run of %s by the rules %s,", p.Job.Name, tally.Rules))
		started := "started " + tally.First.UTC().Format(form)
		if tally.Last.After(tally.First) {
			started += " to " + tally.Last.UTC().Format(form)
		}
		b.sentence(started)
		b.sentence(p.EvictionSource())
	}
	oracle := ""
	summaries := tally.Summaries()
	for len(summaries) > 0 {
		n := 1
		for n < len(summaries) && summaries[n].ComputeHours == summaries[0].ComputeHours {
			n++
		}
		writeDryRunLength(&b, p, summaries[:n])
		for _, s := range summaries[:n] {
			oracle = cmp.Or(oracle, s.RegretOf)
		}
		summaries = summaries[n:]
	}
	if tally.Rows > 0 {
		b.WriteString("\n")
		note := "DONE: starts from which all the work was done. BEATS: share that cost less than on demand, undisturbed. SAVES: of the mean. P5, P50, P95: percentiles."
		if oracle != "" {
			note += " REGRET: what the mean is above that of " + oracle + ", by docs/dry-run.md."
		}
		b.sentence(note)
		if slices.Contains(p.Policies, sweep.Clairvoyant) {
			note = "KEPT: share of what clairvoyant saves, which has the cheapest machines at each instant, for free."
			b.sentence(note)
		}
		if freedom := p.Freedom(oracle); freedom != "" {
			b.sentence("That oracle may, beside what tierml may: " + freedom + ".")
		}
		if lower := p.BelowOracle(oracle); len(lower) > 0 {
			b.sentence("It bids as much as the job allows. These bid less, for interrupted hours that are free, and may cost less than it: " + strings.Join(lower, ", ") + ".")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// narrowText is text of at most 80 columns, and at most width, unless that is 0.
type narrowText struct {
	strings.Builder
	width int
}

// sentence adds words, wrapped to fit.
func (t *narrowText) sentence(words string) {
	for _, line := range grid.Wrap(words, min(80, cmp.Or(t.width, 80))) {
		t.WriteString(line + "\n")
	}
}

// table adds a table, indented.
func (t *narrowText) table(g *grid.Grid) {
	g.Indent, g.Width = 2, t.width
	t.WriteString(g.String())
}

// writeDryRunLength prints the results of all policies for one length.
func writeDryRunLength(b *narrowText, p sweep.Experiment, all []sweep.Summary) {
	e := p.Job.Equivalent
	b.WriteString("\n")
	b.sentence(fmt.Sprintf("%s hours of work for %d x %s on demand: $%.2f undisturbed", trim(all[0].ComputeHours), e.Count, e.Type.Name, all[0].OnDemandCost))
	b.WriteString("\n")
	outcomes := &grid.Grid{Head: []string{"POLICY", ">STARTS", ">DONE", ">BEATS", ">SAVES", ">REGRET"}}
	kept := slices.ContainsFunc(all, func(s sweep.Summary) bool { return s.Kept != nil })
	if kept {
		outcomes.Head = append(outcomes.Head, ">KEPT")
	}
	for _, s := range all {
		beats, saves, regret, keeps := "-", "-", "-", "-"
		if s.Compared > 0 {
			beats = fmt.Sprintf("%.0f%%", 100*s.Beats)
			if s.OnDemandCost > 0 {
				saves = fmt.Sprintf("%.0f%%", 100*(1-s.CostMean/s.OnDemandCost))
			}
		}
		switch {
		case s.Regret != nil:
			regret = fmt.Sprintf("%.0f%%", 100**s.Regret)
		case sweep.IsOracle(s.Policy) && s.Compared == 0:
			regret = "unknown"
		}
		if s.Kept != nil {
			keeps = fmt.Sprintf("%.0f%%", 100**s.Kept)
		}
		cells := []string{s.Policy, strconv.Itoa(s.Starts), strconv.Itoa(s.Finished), beats, saves, regret}
		if kept {
			cells = append(cells, keeps)
		}
		outcomes.Add(cells...)
	}
	b.table(outcomes)
	writeCompared(b, p, all)
	figures := &grid.Grid{Head: []string{"POLICY", "", ">MEAN", ">SD", ">P5", ">P50", ">P95"}, Names: 2}
	for _, s := range all {
		if s.Compared == 0 {
			continue
		}
		line := func(name, what string, values ...float64) {
			cells := []string{name, what}
			for _, x := range values {
				cells = append(cells, fmt.Sprintf("%.2f", x))
			}
			figures.Add(cells...)
		}
		line(s.Policy, "cost $", s.CostMean, s.CostSD, s.CostP5, s.CostP50, s.CostP95)
		if sweep.IsOracle(s.Policy) {
			continue // it only gives a bound on costs
		}
		line("", "hours", s.RuntimeMean, s.RuntimeSD, s.RuntimeP5, s.RuntimeP50, s.RuntimeP95)
		line("", "evictions", s.EvictionsMean, s.EvictionsSD, s.EvictionsP5, s.EvictionsP50, s.EvictionsP95)
		if s.EgressMean > 0 {
			line("", "egress $", s.EgressMean)
		}
	}
	if slices.ContainsFunc(all, func(s sweep.Summary) bool { return s.Compared > 0 }) {
		b.WriteString("\n")
		b.table(figures)
	}
}

// writeCompared names the starts that the figures cover, unless they cover all, and the policies whose runs did not
// finish in time.
func writeCompared(b *narrowText, p sweep.Experiment, all []sweep.Summary) {
	compared, most := 0, 0
	var missing, ended, late, dear []string
	for _, s := range all {
		compared, most = max(compared, s.Compared), max(most, s.Starts)
		if sweep.IsOracle(s.Policy) {
			continue
		}
		if n := s.Starts - s.Finished; n > 0 && s.Ended == "" {
			text := fmt.Sprintf("%s %d of %d", s.Policy, n, s.Starts)
			if s.Failed > 0 {
				text += fmt.Sprintf(" (%d failed)", s.Failed)
			}
			if s.Compared == 0 {
				text += " (not compared)"
			}
			missing = append(missing, text)
		}
		if s.Ended != "" {
			ended = append(ended, fmt.Sprintf("%s ended at %s", s.Policy, s.Ended))
		}
		if s.TooLong > 0 {
			late = append(late, fmt.Sprintf("%s %d", s.Policy, s.TooLong))
		}
		if s.TooDear > 0 {
			dear = append(dear, fmt.Sprintf("%s %d", s.Policy, s.TooDear))
		}
	}
	if len(missing)+len(ended) > 0 || compared < most {
		b.WriteString("\n")
	}
	if len(missing) > 0 {
		b.sentence("Not done within the horizon, or failed: " + strings.Join(missing, ", ") + ".")
	}
	for _, how := range ended {
		b.sentence(how + ".")
	}
	switch {
	case compared == 0 && len(ended) > 0:
	case compared == 0:
		b.sentence("From no start did all policies do all the work, so that there are no figures to compare: leave out by --policy those that do not.")
	case compared < most:
		b.sentence(fmt.Sprintf("All figures but DONE are of the %d of %d starts from which every policy that is compared did all the work.", compared, most))
	}
	if len(late) > 0 {
		b.WriteString("\n")
		b.sentence(fmt.Sprintf("Took longer than max_duration, %s, at which `tierml run` ends a run; here they run to their end: %s.",
			p.Job.MaxDuration, strings.Join(late, ", ")))
	}
	if len(dear) > 0 {
		b.WriteString("\n")
		b.sentence(fmt.Sprintf("Cost more than the budget, %s, at which `tierml run` ends a run; here they run to their end: %s.",
			p.Job.Budget.Cents(), strings.Join(dear, ", ")))
	}
}

// trim formats a number with at most two decimals.
func trim(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// writeDryRunWide prints a line for each policy and length, with all figures.
func writeDryRunWide(out io.Writer, all []sweep.Summary) error {
	t := table.Table{Columns: []table.Column{
		{Title: "POLICY"}, {Title: "RULES"}, {Title: "HOURS OF WORK"}, {Title: "STARTS"}, {Title: "DONE"}, {Title: "COMPARED"}, {Title: "ON-DEMAND $"}, {Title: "BEATS"}, {Title: "REGRET"},
		{Title: "MEAN $"}, {Title: "SD"}, {Title: "P5"}, {Title: "P50"}, {Title: "P95"}, {Title: "MEAN H"}, {Title: "SD"}, {Title: "P5"}, {Title: "P50"}, {Title: "P95"},
		{Title: "EVICTIONS"}, {Title: "SD"}, {Title: "P95"},
	}}
	for _, s := range all {
		figure := func(form string, x float64) table.Cell {
			if s.Compared == 0 {
				return table.Of("-")
			}
			return table.Of(fmt.Sprintf(form, x))
		}
		regret := "-"
		if s.Regret != nil {
			regret = fmt.Sprintf("%.1f%%", 100**s.Regret)
		}
		row := []table.Cell{table.Of(s.Policy), table.Of(s.Rules), table.Of(trim(s.ComputeHours)), table.Of(s.Starts), table.Of(s.Finished), table.Of(s.Compared),
			table.Of(fmt.Sprintf("%.2f", s.OnDemandCost)), figure("%.0f%%", 100*s.Beats), table.Of(regret)}
		for _, x := range []float64{s.CostMean, s.CostSD, s.CostP5, s.CostP50, s.CostP95, s.RuntimeMean, s.RuntimeSD, s.RuntimeP5, s.RuntimeP50,
			s.RuntimeP95, s.EvictionsMean, s.EvictionsSD, s.EvictionsP95} {
			row = append(row, figure("%.2f", x))
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Write(out, table.Wide)
}

func writeDryRunRow(w *csv.Writer, r sweep.Row) error {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	oracle := ""
	if r.OracleKnown {
		oracle = r.Oracle.String()
	}
	return w.Write([]string{
		r.Policy, r.Rules, trim(r.Compute.Hours()), r.Start.UTC().Format(time.RFC3339), r.Outcome, r.Cost.String(),
		number(r.OnDemand), strconv.FormatFloat(r.Runtime.Hours(), 'f', 4, 64), strconv.Itoa(r.Machines),
		strconv.Itoa(r.Evictions), strconv.Itoa(r.Switches), strconv.Itoa(r.Rollbacks), strconv.FormatInt(r.Lost, 10), oracle, r.Bought, strconv.FormatFloat(r.Done, 'f', 4, 64),
	})
}
