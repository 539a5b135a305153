package markets

import (
	"io"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/sim/sweep"
)

// writeDryRunHTML prints the report of one simulated run, like `tierml report -o html` for a real one.
func writeDryRunHTML(out io.Writer, p sweep.Experiment) error {
	var ledger cost.Ledger
	if err := p.Single(ledger.Add); err != nil {
		return cli.Usage(err)
	}
	report, err := ledger.Report(ledger.AsOf())
	if err != nil {
		return err
	}
	return page.Write(out, report)
}
