package prepare

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/calibration"
	"github.com/tierml/tierml/sim/sweep"
)

// CalibrationFile holds the measurements of `tierml calibrate`, next to the runs, for all jobs on this computer.
var CalibrationFile = filepath.Join(rundir.Root, "calibration.json")

// Calibrate applies the stored calibration, if any, and returns the basis of predictions.
func Calibrate(cfg *sim.Config) (basis string, err error) {
	if cfg.Settings.Remote {
		return "with what is assumed of real machines", nil // measurements apply to this computer
	}
	c, err := calibration.Load(CalibrationFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "with the shipped calibration", nil
	case err != nil:
		return "", err
	}
	c.Apply(&cfg.Timing)
	return "with " + CalibrationFile + ", measured on " + c.Run, nil
}

// Predict simulates the job from its own start in the recorded prices.
func (p *Job) Predict(ctx context.Context) error {
	if p.Choice.Reliable.Count == 0 && !p.Job.Restarts() {
		return nil // see unsimulated
	}
	defer LittleGarbage()()
	bar := progress.Start(ctx, "Simulating the run", 0, progress.Things)
	run, err := sweep.Predict(p.Sim)
	bar.Done()
	if err != nil {
		return err
	}
	p.Plan.Prediction = &planner.Prediction{Run: run, Basis: p.basis, Skipped: p.skipped, Calm: p.Sim.Hazard.Draws()}
	return nil
}
