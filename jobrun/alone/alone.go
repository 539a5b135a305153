// Package alone trains a job in this process alone: no cloud, no markets, all cores.
package alone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/exitcode"
	"github.com/tierml/tierml/internal/rundir"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

type Options struct {
	Output        string
	Threads       int
	Deterministic bool // like train.deterministic in a job file
	UntilLoss     float64
	UntilChange   float64
	MaxTime       time.Duration
}

func (o Options) Check() error {
	switch {
	case o.Threads < 1:
		return fmt.Errorf("--threads %d: write 1 or more", o.Threads)
	case math.IsNaN(o.UntilLoss):
		return errors.New("--until-loss: write a number, such as 0.92")
	case !(o.UntilChange >= 0 && o.UntilChange < 1):
		return fmt.Errorf("--until-change %v: write a share from 0 to below 1, such as 0.001", o.UntilChange)
	case o.MaxTime < 0:
		return fmt.Errorf("--max-time %v: write a time above zero, such as 10m", o.MaxTime)
	}
	return nil
}

// rules are the job's, except for what the command line overrides.
func (o Options) rules(job *config.Job) stopping.Rules {
	r := job.Train.Stop.Rules()
	if !math.IsInf(o.UntilLoss, -1) {
		r.Loss = &o.UntilLoss
	}
	if o.UntilChange > 0 {
		r.MinImprovement, r.Patience = o.UntilChange, 0
	}
	if o.MaxTime > 0 {
		r.Time = o.MaxTime
	}
	return r
}

const (
	// splitsInMemory is how many bytes of splits are kept in memory instead of files.
	splitsInMemory = 128 << 20
	// GarbageWhileSmall is GOGC until the heap is large enough for package heap to decide: a small job ends with few collections.
	GarbageWhileSmall = 400
)

// Run trains a job and saves the model.
func Run(ctx context.Context, o Options, job *config.Job, out, errOut io.Writer) (err error) {
	o.Deterministic = o.Deterministic || job.Written("train.deterministic") && job.Train.Deterministic
	place, err := newTrainPlace(o, job)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.close()) }()
	open := func(id ps.Split) (io.ReadCloser, error) { return splitdir.Open(place.splits, id) }
	splits := splitmem.NewSpill(splitsInMemory, splitdir.CreateTemporary(place.splits), open)
	program, dataset, err := prepare.Data(ctx, job, splits.Create)
	if err != nil {
		return err
	}
	if o.Output == "" {
		if err := os.WriteFile(filepath.Join(filepath.Dir(place.model), rundir.JobFile), job.Resolved(), 0o644); err != nil {
			return fmt.Errorf("storing the job: %w", err)
		}
	}
	trainer, how, err := o.trainer(program, dataset.Splits, job.Seed, splits.Open)
	if err != nil {
		return err
	}
	for _, a := range job.Assumed() {
		if strings.HasPrefix(a.Field, "train.") {
			fmt.Fprintf(errOut, "Assumed  %s\n", a.Text)
		}
	}
	_ = table.Folded(errOut, func(w io.Writer) error { // as of all that follows
		_, err := fmt.Fprintf(w, "%s: %d examples to train on, %d held out, in %d splits; %d threads, %s\n",
			program.Name(), dataset.Examples, dataset.Test, dataset.Splits, o.Threads, how)
		return err
	})
	for _, doubt := range apps.Doubts(program) {
		fmt.Fprintf(errOut, "Warning: %s\n", doubt)
	}
	if job.Train.Consistency != config.BSP {
		fmt.Fprintf(errOut, "Consistency %s has no effect in one process: every clock sees the previous one\n", job.Train.Consistency)
	}
	bar := progress.Start(ctx, "Training", int64(job.Train.Clocks), progress.Things)
	defer bar.Done()
	loop := trainLoop{rules: o.rules(job), job: job, program: program, trainer: trainer, out: progress.From(ctx).Writer(errOut), bar: bar}
	why, err := loop.run(ctx)
	bar.Done()
	if err != nil {
		return err
	}
	made := fit{program: program, trainer: trainer, open: splits.Open}
	if err := made.printTest(out); err != nil {
		return err
	}
	of := ""
	if o.refits(made, dataset) {
		all, err := o.refit(ctx, job, place)
		if err != nil { // training so far is not lost
			if saving := made.save(place.model, job); saving != nil {
				return errors.Join(err, saving)
			}
			return fmt.Errorf("fitting all examples failed, so %s was trained without those held out: %w", rundir.Relative(place.model), err)
		}
		if ctx.Err() == nil {
			made, of = all, fmt.Sprintf(", fitted to all %d examples after the test", dataset.Examples+dataset.Test)
		}
	}
	if err := made.save(place.model, job); err != nil {
		return err
	}
	fmt.Fprintf(out, "Stopped  after clock %d: %s\nModel    %s%s\n", trainer.Clock(), why, rundir.Relative(place.model), of)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return exitcode.With(exitcode.Interrupted, fmt.Errorf("ended before it was done: %w", cause))
	case cause != nil:
		return exitcode.With(exitcode.Failed, fmt.Errorf("ended before it was done: %w", cause))
	}
	return nil
}

// trainer trains in this process.
type trainer interface {
	Tables() apps.Rows
	Clock() ps.Clock
	Step(evaluate bool) (apps.Stats, error)
}

// trainer returns the fastest trainer for the program, and how it works.
func (o Options) trainer(program apps.Program, splits int, seed uint64, open apps.Open) (trainer, string, error) {
	if direct, can := program.(apps.Direct); can && !o.Deterministic {
		made, err := local.NewDirect(direct, seed, open, o.Threads)
		if !errors.Is(err, errors.ErrUnsupported) {
			return made, "in place with " + fast.Instructions(), err
		}
	}
	made, err := local.New(program, ps.Schema{Splits: splits, Seed: seed}, open)
	if err != nil {
		return nil, "", err
	}
	made.SetThreads(o.Threads)
	return made, "as on machines", nil
}

// refitBelow is the number of examples below which a model is fitted again to all examples: with more, the held-out tenth makes no
// visible difference.
const refitBelow = 100_000

// refits reports whether a model that was measured on held-out examples is then fitted to these, too. That is correct if they only measured
// it; if they decided when to stop, they must be left out.
func (o Options) refits(made fit, data apps.Dataset) bool {
	c, can := made.trainer.Tables().(apps.Converging)
	return can && c.Converged() != "" && !o.Deterministic && data.Test > 0 && data.Examples < refitBelow
}

// refit trains on all examples until the model has converged.
func (o Options) refit(ctx context.Context, job *config.Job, place trainPlace) (f fit, err error) {
	whole := *job
	whole.Train.Holdout = 0
	splits := splitmem.NewSpill(splitsInMemory, splitdir.CreateTemporary(place.splits), func(id ps.Split) (io.ReadCloser, error) { return splitdir.Open(place.splits, id) })
	program, data, err := prepare.Data(ctx, &whole, splits.Create)
	if err != nil {
		return f, err
	}
	trainer, _, err := o.trainer(program, data.Splits, job.Seed, splits.Open)
	if err != nil {
		return f, err
	}
	bar := progress.Start(ctx, "Fitting all examples", int64(job.Train.Clocks), progress.Things)
	defer bar.Done()
	_, err = (&trainLoop{job: &whole, program: program, trainer: trainer, out: io.Discard, bar: bar}).run(ctx)
	return fit{program, trainer, splits.Open}, err
}
