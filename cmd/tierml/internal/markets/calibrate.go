package markets

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobrun/bill"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/sim/calibration"
)

func NewCalibrateCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "calibrate [RUN]",
		Short: "Measure this computer's overhead from a run, for predictions",
		Long: `The result is kept in ` + prepare.CalibrationFile + `, for tierml plan, run and dry-run; values that the run could not
measure stay unchanged. Remove the file to return to the shipped figures.
` + cli.WhichRun,
		Example: `  tierml calibrate demo-1
  tierml calibrate -o json`,
		Args: cli.OneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := target.Find(target.First(args))
			if err != nil {
				return err
			}
			entries, _, err := bill.ReadJournal(cmd.Context(), filepath.Join(dir, rundir.JournalFile))
			if err != nil {
				return err
			}
			c, err := calibration.Measure(entries)
			if err != nil {
				return fmt.Errorf("measuring %s: %w", rundir.Relative(dir), err)
			}
			c.Run = filepath.Base(dir)
			earlier, err := calibration.Load(prepare.CalibrationFile)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w; remove the file", err)
			}
			c = c.Over(earlier)
			if err := c.Save(prepare.CalibrationFile); err != nil {
				return err
			}
			if format != table.Plain && format != table.Text {
				return calibrationTable(c).Write(cmd.OutOrStdout(), format)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s Kept in %s\n", c.Words(), prepare.CalibrationFile)
			cli.Next(cmd, cli.Step{Command: "tierml plan JOB.yaml", Why: "predicts with it from now on"})
			return err
		},
	}
	cli.OutputFlag(cmd, &format)
	return cmd
}

func calibrationTable(c calibration.Calibration) table.Table {
	ms := func(v float64) table.Cell {
		if v == 0 {
			return table.Cell{Text: "-"} // not measured
		}
		return table.Cell{Text: fmt.Sprintf("%.1f ms", v), Value: v}
	}
	return table.Table{Data: c, Columns: []table.Column{
		{Name: "run", Title: "RUN"}, {Name: "clocks", Title: "CLOCKS"}, {Name: "clock_ms", Title: "CLOCK"}, {Name: "machines", Title: "MACHINES"},
		{Name: "start_ms", Title: "START"}, {Name: "notice_lag_ms", Title: "NOTICES LATE"}, {Name: "end_lag_ms", Title: "ENDS LATE"}, {Name: "price_lag_ms", Title: "PRICES LATE"},
		{Name: "note"},
	}, Rows: [][]table.Cell{{table.Of(c.Run), table.Of(c.Clocks), ms(c.Clock), table.Of(c.Machines), ms(c.Start), ms(c.NoticeLag), ms(c.EndLag), ms(c.PriceLag), table.Of(c.Note)}}}
}
