package show

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/sim/sweep"
)

// DeadlineTable returns a table with a row for each recording, slack, changeover and policy.
func DeadlineTable(cells []sweep.Cell) table.Table {
	t := table.Table{Data: cells, Columns: []table.Column{
		{Name: "recording", Title: "RECORDING"}, {Name: "slack", Title: "SLACK"}, {Name: "changeover_hours", Title: "CHANGEOVER H"},
		{Name: "policy", Title: "POLICY"}, {Name: "rules", Title: "RULES"}, {Name: "work_hours", Title: "WORK H"}, {Name: "starts", Title: "STARTS"},
		{Name: "missed", Title: "MISSED"}, {Name: "cost_mean", Title: "COST"}, {Name: "cost_sd", Title: "SD"}, {Name: "cost_p95", Title: "P95"},
		{Name: "machines_mean", Title: "MACHINES"}, {Name: "evictions_mean", Title: "EVICTIONS"},
		{Name: "egress_mean", Title: "EGRESS"},
	}}
	number := func(x float64) table.Cell {
		return table.Cell{Text: trim(x), Value: strconv.FormatFloat(x, 'g', 8, 64)}
	}
	for _, c := range cells {
		t.Rows = append(t.Rows, []table.Cell{table.Of(c.Recording), number(c.Slack), number(c.Changeover), table.Of(c.Policy), table.Of(c.Rules), number(c.Work),
			table.Of(c.Starts), table.Of(c.Missed), number(c.CostMean), number(c.CostSD), number(c.CostP95), number(c.Machines), number(c.Evictions), number(c.Egress)})
	}
	return t
}

// WriteDeadlineTable writes a line for each recording, changeover and slack, and compares every policy with the last
// one.
func WriteDeadlineTable(out io.Writer, cells []sweep.Cell) error {
	policies := 1
	for policies < len(cells) && cells[policies].Policy != cells[0].Policy {
		policies++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%g hours of work by a deadline, by the rules %s; costs in hours of the fleet on demand\n\n", cells[0].Work, cells[0].Rules)
	fmt.Fprintf(&b, "%-28s %5s %6s %6s", "RECORDING", "SLACK", "CHANGE", "STARTS")
	for _, c := range cells[:policies] {
		fmt.Fprintf(&b, " %*s", columnWidth(c.Policy), strings.ToUpper(c.Policy))
	}
	b.WriteString("\n")
	sums := make([]float64, policies)
	missed, worst, egress := make([]int, policies), make([]float64, policies), make([]float64, policies)
	for i := 0; i < len(cells); i += policies {
		row := cells[i : i+policies]
		fmt.Fprintf(&b, "%-28s %5.4g %5.3gm %6d", shorten(row[0].Recording, 28), row[0].Slack, row[0].Changeover*60, row[0].Starts)
		last := row[policies-1].CostMean
		for j, c := range row {
			text := fmt.Sprintf("%.2f", c.CostMean)
			if j < policies-1 {
				text += fmt.Sprintf(" %+.1f%%", 100*(c.CostMean/last-1))
				if excess := c.CostMean/last - 1; i == 0 || excess > worst[j] {
					worst[j] = excess
				}
			}
			if c.Missed > 0 {
				text += fmt.Sprintf(" %d missed", c.Missed)
			}
			fmt.Fprintf(&b, " %*s", columnWidth(c.Policy), text)
			sums[j] += c.CostMean
			missed[j] += c.Missed
			egress[j] += c.Egress
		}
		b.WriteString("\n")
	}
	n := float64(len(cells) / policies)
	fmt.Fprintf(&b, "\nMean of the %g lines:\n", n)
	for j, c := range cells[:policies] {
		fmt.Fprintf(&b, "  %-18s %6.2f, deadlines missed: %d", c.Policy, sums[j]/n, missed[j])
		if egress[j] > 0 {
			fmt.Fprintf(&b, ", of it %.2f for moves between regions", egress[j]/n)
		}
		if j < policies-1 {
			fmt.Fprintf(&b, "; %+.1f%% against %s, at worst %+.1f%%", 100*(sums[j]/sums[policies-1]-1), cells[policies-1].Policy, 100*worst[j])
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func columnWidth(policy string) int { return max(len(policy), 14) }

// shorten keeps the end of a name, where names differ most.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "..." + s[len(s)-most+3:]
}
