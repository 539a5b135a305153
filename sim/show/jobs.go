package show

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/sim/jobs"
)

// JobsTable returns a table with a row for each buyer and scheduler.
func JobsTable(cells []jobs.Cell) table.Table {
	t := table.Table{Data: cells}
	type column struct {
		name, title string
		of          func(*jobs.Cell) jobs.Figure
	}
	columns := []column{
		{"finished", "FINISHED", func(c *jobs.Cell) jobs.Figure { return c.Finished }},
		{"stopped", "STOPPED", func(c *jobs.Cell) jobs.Figure { return c.Stopped }},
		{"left", "LEFT", func(c *jobs.Cell) jobs.Figure { return c.Left }},
		{"ended_hours", "ENDED H", func(c *jobs.Cell) jobs.Figure { return c.Ended }},
		{"deadlines_met", "IN TIME", func(c *jobs.Cell) jobs.Figure { return c.Met }},
		{"completion_hours", "MEAN H", func(c *jobs.Cell) jobs.Figure { return c.Completion }},
		{"completion_p95_hours", "P95 H", func(c *jobs.Cell) jobs.Figure { return c.CompletionP95 }},
		{"completion_bound_hours", "BOUND H", func(c *jobs.Cell) jobs.Figure { return c.Least }},
		{"feedback_hours", "FEEDBACK H", func(c *jobs.Cell) jobs.Figure { return c.Feedback }},
		{"feedback_bound_hours", "BOUND H", func(c *jobs.Cell) jobs.Figure { return c.LeastFeedback }},
		{"makespan_hours", "MAKESPAN H", func(c *jobs.Cell) jobs.Figure { return c.Makespan }},
		{"best_hours", "BEST H", func(c *jobs.Cell) jobs.Figure { return c.Best }},
		{"usd", "$", func(c *jobs.Cell) jobs.Figure { return c.Dollars }},
		{"usd_bound", "BOUND $", func(c *jobs.Cell) jobs.Figure { return c.LeastDollars }},
		{"fairness_loss", "UNFAIR", func(c *jobs.Cell) jobs.Figure { return c.Unfair }},
		{"unsolved", "NO P2", func(c *jobs.Cell) jobs.Figure { return c.Unsolved }},
		{"utilisation", "USED", func(c *jobs.Cell) jobs.Figure { return c.Used }},
		{"slot_hours", "SLOT H", func(c *jobs.Cell) jobs.Figure { return c.UnitHours }},
		{"resizes", "RESIZES", func(c *jobs.Cell) jobs.Figure { return c.Resizes }},
		{"resizing_share", "RESIZING", func(c *jobs.Cell) jobs.Figure { return c.Still }},
		{"machines_bought", "MACHINES", func(c *jobs.Cell) jobs.Figure { return c.Machines }},
		{"evictions", "EVICTIONS", func(c *jobs.Cell) jobs.Figure { return c.Evictions }},
	}
	t.Columns = []table.Column{{Name: "machines", Title: "MACHINES OF"}, {Name: "scheduler", Title: "SCHEDULER"}, {Name: "runs", Title: "RUNS"}, {Name: "given_up", Title: "GIVEN UP"}}
	for _, c := range columns {
		t.Columns = append(t.Columns, table.Column{Name: c.name, Title: c.title})
	}
	for i := range cells {
		c := &cells[i]
		row := []table.Cell{table.Of(c.Buyer), table.Of(c.Scheduler), table.Of(c.Runs), table.Of(c.GivenUp)}
		for _, col := range columns {
			f := col.of(c)
			cell := table.Cell{Text: figureText(f), Value: ""}
			if !math.IsNaN(f.Mean) {
				cell.Value = strconv.FormatFloat(f.Mean, 'g', 8, 64)
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// figureText formats a mean, with half of its interval if known.
func figureText(f jobs.Figure) string {
	switch {
	case math.IsNaN(f.Mean):
		return "-"
	case math.IsNaN(f.Half):
		return short(f.Mean)
	}
	return short(f.Mean) + "±" + short(f.Half)
}

// short formats a number with three digits or more.
func short(x float64) string {
	switch {
	case math.Abs(x) >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case math.Abs(x) >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// WriteJobsTable prints two blocks for each buyer, in at most 80 columns.
func WriteJobsTable(out io.Writer, s *jobs.Study, cells []jobs.Cell) error {
	b := narrowText{width: table.Width(out)}
	n := len(s.Schedulers)
	for i := 0; i < len(cells); i += n {
		part := cells[i : i+n]
		times := "once"
		if s.Runs > 1 {
			times = fmt.Sprintf("%d times, with 95 %% intervals", s.Runs)
		}
		b.sentence(fmt.Sprintf("%s jobs on the machines of %s, %s", short(part[0].Jobs.Mean), part[0].Buyer, times))
		mean := func(f jobs.Figure) string { return figureText(jobs.Figure{Mean: f.Mean, Half: math.NaN()}) }
		completion := &grid.Grid{Head: []string{"SCHEDULER", ">MEAN H", ">P95 H", ">BOUND", ">FEEDBACK H", ">BOUND"}}
		dollars := &grid.Grid{Head: []string{"SCHEDULER", ">$", ">BOUND $", ">UNFAIR", ">NO P2", ">USED", ">RESIZES", ">EVICTIONS"}}
		ends := &grid.Grid{Head: []string{"SCHEDULER", ">FINISHED", ">STOPPED", ">LEFT", ">ENDED H", ">IN TIME"}}
		for _, c := range part {
			completion.Add(c.Scheduler, figureText(c.Completion), figureText(c.CompletionP95), short(c.Least.Mean), figureText(c.Feedback), short(c.LeastFeedback.Mean))
			dollars.Add(c.Scheduler, figureText(c.Dollars), mean(c.LeastDollars), figureText(c.Unfair), unsolvedText(&c), percentText(c.Used.Mean), short(c.Resizes.Mean), mean(c.Evictions))
			ends.Add(c.Scheduler, short(c.Finished.Mean), short(c.Stopped.Mean), short(c.Left.Mean), figureText(c.Ended), percentText(c.Met.Mean))
		}
		for _, g := range []*grid.Grid{completion, dollars, ends} {
			b.WriteString("\n")
			b.table(g)
		}
		b.WriteString("\n")
	}
	b.sentence("MEAN H, P95 H: hours from a job's arrival to its end, of finished jobs; ENDED H: of those that were stopped, too; FEEDBACK H: to its early feedback. LEFT: when prices end. IN TIME: finished by their deadlines, of all (--slack). NO P2: share of Dorm's plans with which some job waits because P2 has no answer. BOUND: no schedule is faster, and no machines for these times are cheaper. UNFAIR: Dorm's fairness loss over time. USED: of the vCPUs that were there. RESIZES: of a finished job. docs/scheduler.md explains what is simulated.")
	_, err := io.WriteString(out, b.String())
	return err
}

// unsolvedText is for Dorm; other schedulers solve no problem.
func unsolvedText(c *jobs.Cell) string {
	if !strings.HasPrefix(c.Scheduler, "dorm") {
		return "-"
	}
	return percentText(c.Unsolved.Mean)
}

func percentText(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return strconv.FormatFloat(100*x, 'f', 0, 64) + "%"
}
