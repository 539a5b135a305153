package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/heap"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

func NewTrainCommand() *cobra.Command {
	var o trainOptions
	var from JobSource
	cmd := &cobra.Command{
		Use:   "train JOB.yaml | DATA",
		Short: "Train a job in this process alone: no cloud, no markets, all cores",
		Long: `A file of data is enough: the application follows from its form. The model is saved
in runs/NAME-N or in --model. It stops after train.clocks clocks, or earlier by train.stop or the flags below.
Ctrl-C saves the model as it is.`,
		Example: `  tierml train ratings.csv
  tierml train job.yaml
  tierml train job.yaml --model model.safetensors --until-loss 0.92 --max-time 10m`,
		Args: func(cmd *cobra.Command, args []string) error { return from.Take(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(garbageWhileSmall)
				heap.Tune()
			}
			if err := o.check(); err != nil {
				return cli.Usage(err)
			}
			job, err := from.Load()
			if err != nil {
				return err
			}
			if job.IsProgram() {
				return job.Fault("run", "is a program of your own, which `tierml train` does not run", "write tierml run "+from.String())
			}
			ctx, release := cli.UntilInterrupted(cmd.Context())
			defer release()
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			return train(ctx, o, job, untilUnread(cmd.OutOrStdout(), stop), untilUnread(cmd.ErrOrStderr(), stop))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.output, "model", "", "save the model in this `file`, and nothing else")
	flags.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "number of `threads`")
	flags.Lookup("threads").DefValue = "all cores"
	flags.BoolVar(&o.deterministic, "deterministic", false, "compute as on machines: the same model, bit for bit, but slower")
	flags.Float64Var(&o.untilLoss, "until-loss", math.Inf(-1), "stop when the test `figure` (without holdout the train figure) is at or below this")
	flags.Float64Var(&o.untilChange, "until-change", 0, "stop when the figure improves by less than this `share` between measurements")
	flags.DurationVar(&o.maxTime, "max-time", 0, "stop after this `time` of training")
	flags.Lookup("until-loss").DefValue = "0" // not printed; see options
	return cmd
}

type trainOptions struct {
	output        string
	threads       int
	deterministic bool
	untilLoss     float64
	untilChange   float64
	maxTime       time.Duration
}

func (o trainOptions) check() error {
	switch {
	case o.threads < 1:
		return fmt.Errorf("--threads %d: write 1 or more", o.threads)
	case math.IsNaN(o.untilLoss):
		return errors.New("--until-loss: write a number, such as 0.92")
	case !(o.untilChange >= 0 && o.untilChange < 1):
		return fmt.Errorf("--until-change %v: write a share from 0 to below 1, such as 0.001", o.untilChange)
	case o.maxTime < 0:
		return fmt.Errorf("--max-time %v: write a time above zero, such as 10m", o.maxTime)
	}
	return nil
}

// rules are the job's, but for what the command line says.
func (o trainOptions) rules(job *config.Job) stopping.Rules {
	r := job.Train.Stop.Rules()
	if !math.IsInf(o.untilLoss, -1) {
		r.Loss = &o.untilLoss
	}
	if o.untilChange > 0 {
		r.MinImprovement, r.Patience = o.untilChange, 0
	}
	if o.maxTime > 0 {
		r.Time = o.maxTime
	}
	return r
}

const (
	// splitsInMemory is how many bytes of splits are not written to files.
	splitsInMemory = 128 << 20
	// garbageWhileSmall is GOGC until the heap is large enough for package heap to decide: a small job ends with few collections.
	garbageWhileSmall = 400
)

// train trains a job and saves the model.
func train(ctx context.Context, o trainOptions, job *config.Job, out, errOut io.Writer) (err error) {
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
	if o.output == "" {
		if err := os.WriteFile(filepath.Join(filepath.Dir(place.model), rundir.JobFile), job.Resolved(), 0o644); err != nil {
			return fmt.Errorf("keeping the job: %w", err)
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
			program.Name(), dataset.Examples, dataset.Test, dataset.Splits, o.threads, how)
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
		if err != nil { // what was trained until now is not lost
			if saving := made.save(place.model, job); saving != nil {
				return errors.Join(err, saving)
			}
			return fmt.Errorf("fitting all examples failed, so %s was trained without those held out: %w", cli.Relative(place.model), err)
		}
		if ctx.Err() == nil {
			made, of = all, fmt.Sprintf(", fitted to all %d examples after the test", dataset.Examples+dataset.Test)
		}
	}
	if err := made.save(place.model, job); err != nil {
		return err
	}
	fmt.Fprintf(out, "Stopped  after clock %d: %s\nModel    %s%s\n", trainer.Clock(), why, cli.Relative(place.model), of)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return cli.Exit(cli.ExitInterrupted, fmt.Errorf("ended before it was done: %w", cause))
	case cause != nil:
		return cli.Exit(cli.ExitFailed, fmt.Errorf("ended before it was done: %w", cause))
	}
	return nil
}

// untilUnread returns an output that stops the training when it is a pipe whose reader goes away: the model is saved as it is then.
func untilUnread(out io.Writer, stop context.CancelCauseFunc) io.Writer {
	if cli.IsTerminal(out) {
		return out
	}
	signal.Ignore(syscall.SIGPIPE) // a write fails instead
	return &cli.StoppingWriter{Writer: out, Stop: func(why string) { stop(errors.New(why)) }}
}

// trainer is what trains in this process.
type trainer interface {
	Tables() apps.Rows
	Clock() ps.Clock
	Step(evaluate bool) (apps.Stats, error)
}

// trainer makes the fastest trainer that there is for the program, and says how it works.
func (o trainOptions) trainer(program apps.Program, splits int, seed uint64, open apps.Open) (trainer, string, error) {
	if direct, can := program.(apps.Direct); can && !o.deterministic {
		made, err := local.NewDirect(direct, seed, open, o.threads)
		if !errors.Is(err, errors.ErrUnsupported) {
			return made, "in place with " + fast.Instructions(), err
		}
	}
	made, err := local.New(program, ps.Schema{Splits: splits, Seed: seed}, open)
	if err != nil {
		return nil, "", err
	}
	made.SetThreads(o.threads)
	return made, "as on machines", nil
}

// trainLoop runs clocks until it is time to stop.
type trainLoop struct {
	rules    stopping.Rules
	watch    stopping.Watch
	trend    stopping.Trend
	job      *config.Job
	program  apps.Program
	trainer  trainer
	out      io.Writer
	bar      *progress.Bar // of clocks
	examples int64         // since the last line
}

// run returns the reason why it stopped.
func (l *trainLoop) run(ctx context.Context) (why string, err error) {
	start := time.Now()
	lap := start
	for clock := 1; clock <= l.job.Train.Clocks; clock++ {
		if ctx.Err() != nil {
			return "interrupted", nil
		}
		if why := l.rules.Elapsed(time.Since(start)); why != "" {
			return why, nil
		}
		evaluate := clock%l.job.Train.EvaluateEvery == 0 || clock == 1
		stats, err := l.trainer.Step(evaluate)
		if err != nil {
			return "", fmt.Errorf("training: %w", err)
		}
		l.examples += stats.Examples
		l.bar.Add(1)
		if evaluate {
			now := time.Now()
			if why := l.measured(clock, stats, now.Sub(start), now.Sub(lap)); why != "" {
				return why, nil
			}
			lap, l.examples = now, 0
		}
		if c, can := l.trainer.Tables().(apps.Converging); can && c.Converged() != "" {
			return c.Converged(), nil
		}
	}
	if share, more := l.trend.Gained(); more {
		fmt.Fprintf(l.out, "The last quarter of the clocks reduced the %s by %.2g %%: more clocks would probably reduce it further\n", l.program.ScoreName(), 100*share)
	}
	return "all clocks are done", nil
}

// measured prints a line of progress and applies the stopping rules.
func (l *trainLoop) measured(clock int, stats apps.Stats, elapsed, lap time.Duration) (why string) {
	name := l.program.ScoreName()
	line := fmt.Sprintf("%8.1fs  clock %*d of %d", elapsed.Seconds(), len(strconv.Itoa(l.job.Train.Clocks)), clock, l.job.Train.Clocks)
	watched := math.NaN()
	if stats.Examples > 0 {
		watched = l.program.Score(stats.Loss, stats.Examples)
		line += fmt.Sprintf("  train %s %-8.5g", name, watched)
	}
	if stats.TestCount > 0 {
		watched = l.program.Score(stats.TestLoss, stats.TestCount)
		line += fmt.Sprintf("  test %s %-8.5g", name, watched)
	}
	if lap > 0 {
		line += fmt.Sprintf("  %.3g examples/s", float64(l.examples)/lap.Seconds())
	}
	fmt.Fprintln(l.out, line)
	if clock%l.job.Train.EvaluateEvery != 0 { // the first clock is measured for people, not for the rules
		return ""
	}
	l.trend.Measured(int64(clock), watched)
	return l.watch.Measured(l.rules, int64(clock), name, watched)
}

// fit is a model that was trained, and its data.
type fit struct {
	program apps.Program
	trainer trainer
	open    apps.Open
}

// printTest prints how good it is.
func (f fit) printTest(out io.Writer) error {
	stats, err := f.program.Evaluate(f.trainer.Tables(), f.open)
	if err != nil || stats.TestCount == 0 {
		return err
	}
	score := f.program.Score(stats.TestLoss, stats.TestCount)
	fmt.Fprintf(out, "Test     %s %.5g on %d held-out examples", f.program.ScoreName(), score, stats.TestCount)
	if f.program.ScoreName() == "error rate" {
		fmt.Fprintf(out, " (accuracy %.5g)", 1-score)
	}
	fmt.Fprintln(out)
	return nil
}

// save writes the model. With --deterministic the file is the same, byte for byte, as that of a deterministic run on machines.
func (f fit) save(path string, job *config.Job) error {
	m, err := f.program.Export(f.trainer.Tables(), f.open)
	if err != nil {
		return err
	}
	if m.Metadata == nil {
		m.Metadata = map[string]string{}
	}
	m.Metadata["clock"] = strconv.FormatInt(int64(f.trainer.Clock()), 10)
	m.Metadata["seed"] = strconv.FormatUint(job.Seed, 10)
	return saveSomewhere(path, f.program, m)
}

// refitBelow is up to how many examples a model is fitted anew to all of them: a tenth more of many changes nothing that can be seen.
const refitBelow = 100_000

// refits reports whether a model that was measured on held-out examples is then fitted to these, too. They have only measured it when
// it ends by itself; where they say when to stop, they must be left out.
func (o trainOptions) refits(made fit, data apps.Dataset) bool {
	c, can := made.trainer.Tables().(apps.Converging)
	return can && c.Converged() != "" && !o.deterministic && data.Test > 0 && data.Examples < refitBelow
}

// refit trains on all examples until the model has converged.
func (o trainOptions) refit(ctx context.Context, job *config.Job, place trainPlace) (f fit, err error) {
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

// saveSomewhere saves a model where it is wanted. Where that fails it saves the model among temporary files: the training may have
// taken hours.
func saveSomewhere(path string, program apps.Program, m model.Model) error {
	err := apps.Save(path, program, m)
	if err == nil {
		return nil
	}
	other, err2 := os.MkdirTemp("", "tierml-model-")
	if err2 == nil {
		other = filepath.Join(other, rundir.ModelFile)
		err2 = apps.Save(other, program, m)
	}
	if err2 != nil {
		return errors.Join(err, err2)
	}
	return fmt.Errorf("%s; the model is saved as %s instead", err.Error(), other) // no remedy is needed
}

// trainPlace is where training keeps its files.
type trainPlace struct {
	model  string
	splits string
	remove string       // at the end
	unused func() error // removes what is not needed if no model comes of it; nil = nothing
}

// newTrainPlace makes a run directory, or with --model a temporary one for the splits alone.
func newTrainPlace(o trainOptions, job *config.Job) (trainPlace, error) {
	if o.output == "" {
		directory, discard, err := rundir.New(job.Name)
		if err != nil {
			return trainPlace{}, err
		}
		p := trainPlace{
			model:  filepath.Join(directory, rundir.ModelFile),
			splits: filepath.Join(directory, rundir.SplitsDir),
			remove: filepath.Join(directory, rundir.SplitsDir),
			unused: discard,
		}
		return p, nil
	}
	if location.IsURL(o.output) {
		return trainPlace{}, cli.Usage(fmt.Errorf("--model %s: the model is written to a file; name one, and copy it to a store yourself", o.output))
	}
	if info, err := os.Stat(filepath.Dir(o.output)); err != nil || !info.IsDir() {
		return trainPlace{}, cli.Usage(fmt.Errorf("--model %s: there is no folder %s; make it, or name another file", o.output, filepath.Dir(o.output)))
	}
	if err := atomicfile.Replaceable(o.output); err != nil {
		return trainPlace{}, cli.Usage(fmt.Errorf("--model: %w; name a file", err))
	}
	if cli.SameFile(o.output, job.Train.Data) {
		return trainPlace{}, cli.Usage(fmt.Errorf("--model %s: the output file would overwrite the job's data; name another file", o.output))
	}
	if err := atomicfile.Probe(o.output); err != nil { // not hours later
		return trainPlace{}, fmt.Errorf("--model: %w", err)
	}
	splits, err := os.MkdirTemp("", "tierml-train-")
	if err != nil {
		return trainPlace{}, fmt.Errorf("making a folder for the splits: %w; set TMPDIR to a folder that can be written", err)
	}
	model, err := filepath.Abs(o.output)
	return trainPlace{model: model, splits: splits, remove: splits}, err
}

// close removes what was only needed meanwhile, and a run directory without a model.
func (p trainPlace) close() error {
	err := os.RemoveAll(p.remove)
	if _, missing := os.Stat(p.model); missing != nil && p.unused != nil {
		err = errors.Join(err, p.unused())
	}
	return err
}
