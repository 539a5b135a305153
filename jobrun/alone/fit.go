package alone

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tierml/tierml/internal/exitcode"
	"github.com/tierml/tierml/internal/rundir"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/location"
)

// fit is a trained model, and its data.
type fit struct {
	program apps.Program
	trainer trainer
	open    apps.Open
}

// printTest prints the model's quality.
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
	m, err := f.program.Export(f.trainer.Tables(), f.open)
	if err != nil {
		return err
	}
	if q, err := apps.Judge(f.program, m, f.open); q != nil {
		fmt.Fprintf(out, "         %s\n", q)
	} else if err != nil {
		return err
	}
	return nil
}

// save writes the model. With --deterministic the file is byte for byte the same as that of a deterministic run on machines.
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

// saveSomewhere saves a model to the requested place. If that fails it saves the model among temporary files: the training may have taken
// hours.
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
	unused func() error // removes what is not needed if there is no model; nil = nothing
}

// newTrainPlace makes a run directory, or with --into a temporary one for the splits alone.
func newTrainPlace(o Options, job *config.Job) (trainPlace, error) {
	if o.Output == "" {
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
	if location.IsURL(o.Output) {
		return trainPlace{}, exitcode.Wrong(fmt.Errorf("--into %s: the model is written to a file; name one, and copy it to a store yourself", o.Output))
	}
	if info, err := os.Stat(filepath.Dir(o.Output)); err != nil || !info.IsDir() {
		return trainPlace{}, exitcode.Wrong(fmt.Errorf("--into %s: there is no folder %s; make it, or name another file", o.Output, filepath.Dir(o.Output)))
	}
	if err := atomicfile.Replaceable(o.Output); err != nil {
		return trainPlace{}, exitcode.Wrong(fmt.Errorf("--into: %w; name a file", err))
	}
	if location.SameFile(o.Output, job.Train.Data) {
		return trainPlace{}, exitcode.Wrong(fmt.Errorf("--into %s: the output file would overwrite the job's data; name another file", o.Output))
	}
	if err := atomicfile.Probe(o.Output); err != nil { // fail now rather than hours later
		return trainPlace{}, fmt.Errorf("--into: %w", err)
	}
	splits, err := os.MkdirTemp("", "tierml-train-")
	if err != nil {
		return trainPlace{}, fmt.Errorf("making a folder for the splits: %w; set TMPDIR to a folder that can be written", err)
	}
	model, err := filepath.Abs(o.Output)
	return trainPlace{model: model, splits: splits, remove: splits}, err
}

// close removes temporary files, and a run directory without a model.
func (p trainPlace) close() error {
	err := os.RemoveAll(p.remove)
	if _, missing := os.Stat(p.model); missing != nil && p.unused != nil {
		err = errors.Join(err, p.unused())
	}
	return err
}
