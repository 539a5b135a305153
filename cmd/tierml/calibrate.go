package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/calibration"
	"github.com/tierml/tierml/sim/sweep"
)

// calibrationFile is where `tierml calibrate` keeps what it measured: beside the runs, for all jobs on this computer.
var calibrationFile = filepath.Join(rundir.Root, "calibration.json")

func newCalibrateCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "calibrate [RUN]",
		Short: "Measure this computer's overhead from a run, for predictions",
		Long: `The result is kept in ` + calibrationFile + `, for tierml plan, run and dry-run. Remove the file to return to the shipped figures.
` + whichRun,
		Example: `  tierml calibrate demo-1
  tierml calibrate -o json`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := findRun(args)
			if err != nil {
				return err
			}
			entries, _, err := readJournal(cmd.Context(), filepath.Join(dir, rundir.JournalFile))
			if err != nil {
				return err
			}
			c, err := calibration.Measure(entries)
			if err != nil {
				return fmt.Errorf("measuring %s: %w", relative(dir), err)
			}
			c.Run = filepath.Base(dir)
			if err := c.Save(calibrationFile); err != nil {
				return err
			}
			if format != table.Plain && format != table.Text {
				return calibrationTable(c).Write(cmd.OutOrStdout(), format)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s Kept in %s\n", c.Words(), calibrationFile)
			cli.Next(cmd, cli.Step{Command: "tierml plan JOB.yaml", Why: "predicts with it from now on"})
			return err
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

func calibrationTable(c calibration.Calibration) table.Table {
	ms := func(v float64) table.Cell { return table.Cell{Text: fmt.Sprintf("%.1f ms", v), Value: v} }
	return table.Table{Data: c, Columns: []table.Column{
		{Name: "run", Title: "RUN"}, {Name: "clocks", Title: "CLOCKS"}, {Name: "clock_ms", Title: "CLOCK"}, {Name: "machines", Title: "MACHINES"},
		{Name: "start_ms", Title: "START"}, {Name: "notice_lag_ms", Title: "NOTICES LATE"}, {Name: "end_lag_ms", Title: "ENDS LATE"}, {Name: "price_lag_ms", Title: "PRICES LATE"},
		{Name: "note"},
	}, Rows: [][]table.Cell{{table.Of(c.Run), table.Of(c.Clocks), ms(c.Clock), table.Of(c.Machines), ms(c.Start), ms(c.NoticeLag), ms(c.EndLag), ms(c.PriceLag), table.Of(c.Note)}}}
}

// calibrate applies the stored calibration, if there is one, and says what a prediction rests on.
func calibrate(cfg *sim.Config) (basis string, err error) {
	if cfg.Settings.Remote {
		return "with what is assumed of real machines", nil // what was measured is of this computer
	}
	c, err := calibration.Load(calibrationFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "with the shipped calibration", nil
	case err != nil:
		return "", err
	}
	c.Apply(&cfg.Timing)
	return "with " + calibrationFile + ", measured on " + c.Run, nil
}

// predict simulates the job from its own start, in the recorded prices that it will meet.
func (p *preparedJob) predict(ctx context.Context) error {
	if p.choice.Reliable.Count == 0 && !p.job.Restarts() {
		return nil // see unsimulated
	}
	defer littleGarbage()()
	bar := progress.Start(ctx, "Simulating the run", 0, progress.Things)
	run, err := sweep.Predict(p.sim)
	bar.Done()
	if err != nil {
		return err
	}
	p.plan.Prediction = &planner.Prediction{Run: run, Basis: p.basis, Skipped: p.skipped}
	return nil
}
