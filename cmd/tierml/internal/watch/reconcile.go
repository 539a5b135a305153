package watch

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/invoice"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers"
)

// tolerance is the permitted difference per machine hour, in dollars: providers round.
const tolerance = 0.0005

// reconcileWith compares a run's charges with the provider's own files.
func reconcileWith(r *cost.Report, paths []string, format string, out io.Writer) error {
	if format != table.Text && format != table.Wide {
		if err := cli.CheckFormat(format); err != nil {
			return err
		}
	}
	var theirs []invoice.Line
	var form string
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return cli.Usage(fmt.Errorf("--reconcile: %w", err))
		}
		lines, f, err := invoice.Read(file, providers.Bills())
		_ = file.Close() // it was only read
		if err != nil {
			return cli.Usage(fmt.Errorf("--reconcile %s: %w", path, err))
		}
		theirs, form = append(theirs, lines...), f
	}
	var ours []invoice.Line
	for _, i := range r.Instances {
		for _, c := range i.Charges {
			traffic := c.Note == market.TrafficNote
			if !market.OfMachine(c.Note) && !traffic {
				continue // the provider's lines for disks and addresses name no machine
			}
			ours = append(ours, invoice.Line{Machine: i.ID, From: c.From, To: c.To, USD: float64(c.USD) / 1e9, Traffic: traffic})
		}
	}
	c := invoice.Compare(ours, theirs, form, tolerance)
	t := table.Table{Data: c, Columns: []table.Column{{Name: "hour", Title: "HOUR"}, {Name: "machine", Title: "MACHINE"},
		{Name: "ours_usd", Title: "OURS"}, {Name: "theirs_usd", Title: "THEIRS"}, {Name: "difference_usd", Title: "DIFFERENCE"}}}
	dollars := func(v float64) table.Cell { return table.Cell{Text: fmt.Sprintf("%.4f", v), Value: v} }
	for _, d := range c.Differences {
		t.Rows = append(t.Rows, []table.Cell{{Text: d.Hour.Format("2006-01-02 15:04"), Value: d.Hour.Format(time.RFC3339)}, table.Of(d.Machine),
			dollars(d.Ours), dollars(d.Theirs), dollars(d.Theirs - d.Ours)})
	}
	if format == table.JSON || format == table.CSV {
		return t.Write(out, format)
	}
	fmt.Fprintf(out, "%s beside the journal: $%.4f and $%.4f for %d machines; %d of them are not in it, and %d others of the account are left out.\n",
		c.Form, c.Theirs, c.Ours, c.Machines, c.Missing, c.Others)
	if c.OurTraffic > 0 || c.TheirTraffic > 0 {
		fmt.Fprintf(out, "Traffic, apart from that: $%.4f metered, $%.4f estimated.\n", c.TheirTraffic, c.OurTraffic)
	}
	if len(c.Differences) == 0 {
		_, err := fmt.Fprintf(out, "Every hour of every machine agrees within $%v.\n", tolerance)
		return err
	}
	fmt.Fprintf(out, "%d hours of machines differ by more than $%v:\n\n", len(c.Differences), tolerance)
	return t.Write(out, format)
}
