package run

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
)

func NewPredictCommand() *cobra.Command {
	var o predictOptions
	cmd := &cobra.Command{
		Use:   "predict MODEL DATA",
		Short: "Predict the examples of a data file with a finished model",
		Long: `It prints one CSV line for each example: a class with its probability, a number, a rating, or a mixture of topics. If the data has
the true values, the last line on standard error has the quality measure. MODEL is a model file, or the directory of a run.`,
		Example: `  tierml predict model.safetensors new.csv
  tierml predict runs/demo-1 data/pairs.csv --into predictions.csv`,
		Args: cli.Arguments(2, 2, "name a model and a data file, such as runs/demo-1/model.safetensors and new.csv"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, release := cli.UntilInterrupted(cmd.Context())
			defer release()
			return predict(ctx, o, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.into, "into", "", "write to this `file`, or to an s3:// or gs:// object")
	cmd.Flags().IntVar(&o.badLines, "max-bad-lines", 0, "skip up to this number of bad `lines`")
	return cmd
}

type predictOptions struct {
	into     string
	badLines int
}

// check finds faults before any work.
func (o predictOptions) check(modelPath, data string) error {
	for _, path := range []string{modelPath, data} {
		if location.SameFile(o.into, path) {
			return fmt.Errorf("--into %s: the output file would overwrite the input; name another file", o.into)
		}
	}
	if o.badLines < 0 {
		return fmt.Errorf("--max-bad-lines %d: write 0 or more", o.badLines)
	}
	if o.into == "" || location.IsURL(o.into) {
		return nil
	}
	if info, err := os.Stat(o.into); err == nil && info.IsDir() {
		return fmt.Errorf("--into %s: it is a folder; name a file in it", o.into)
	}
	folder := filepath.Dir(o.into) // as in train: a misspelt folder is not created
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("--into %s: there is no folder %s; make it, or name another file", o.into, folder)
	}
	return nil
}

func predict(ctx context.Context, o predictOptions, modelPath, data string, out, errOut io.Writer) error {
	if err := o.check(modelPath, data); err != nil {
		return cli.Usage(err)
	}
	predictions, err := readAndPredict(ctx, o, modelPath, data)
	if err != nil {
		return err
	}
	if o.into == "" {
		err = writePredictions(ctx, predictions, out)
	} else {
		err = blob.Write(ctx, o.into, func(w io.Writer) error { return writePredictions(ctx, predictions, w) })
	}
	if err != nil {
		return fmt.Errorf("writing the predictions: %w", err)
	}
	if predictions.BadLines > 0 {
		fmt.Fprintf(errOut, "%d bad lines of %s were left out\n", predictions.BadLines, data)
	}
	if predictions.Figure != "" {
		fmt.Fprintln(errOut, predictions.Figure)
	}
	return nil
}

func readAndPredict(ctx context.Context, o predictOptions, modelPath, data string) (apps.Predictions, error) {
	if info, err := os.Stat(modelPath); err == nil && info.IsDir() {
		modelPath = filepath.Join(modelPath, rundir.ModelFile)
	}
	m, err := model.Load(modelPath)
	if errors.Is(err, fs.ErrNotExist) {
		return apps.Predictions{}, fmt.Errorf("%w; name a model file, or the directory of a run that is done", err)
	}
	if err != nil {
		return apps.Predictions{}, err
	}
	name, made := m.Metadata["app"]
	if !made {
		return apps.Predictions{}, fmt.Errorf("%s: its metadata names no application: tierml did not make it", modelPath)
	}
	kind, err := all.Registry().Find(name)
	if err != nil {
		return apps.Predictions{}, fmt.Errorf("%s: %w", modelPath, err)
	}
	predictor, can := kind.(apps.Predictor)
	if !can {
		return apps.Predictions{}, fmt.Errorf("%s: models of %s predict nothing", modelPath, name)
	}
	file, err := blob.Open(ctx, data)
	if err != nil {
		return apps.Predictions{}, fmt.Errorf("reading the data: %w", err)
	}
	defer file.Close()
	bar := progress.Start(ctx, "Reading "+path.Base(data), cli.SizeOf(data), progress.Bytes)
	defer bar.Done()
	beside := func(name string) (io.ReadCloser, error) { return blob.Open(ctx, location.Beside(data, name)) }
	return predictor.Predict(m, apps.Input{Name: data, Data: bar.Reader(file), Beside: beside, MaxBadLines: o.badLines})
}

func writePredictions(ctx context.Context, p apps.Predictions, out io.Writer) error {
	w := csv.NewWriter(out)
	if err := w.Write(p.Columns); err != nil {
		return err
	}
	var cells []string
	for i := range p.Rows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cells = p.Row(i, cells[:0])
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
