package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/planner/jobinit"
	"github.com/tierml/tierml/ps"
)

func NewInitCommand() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init [JOB.yaml|DATA]",
		Short: "Ask questions and write a first job file",
		Long: `It asks what to train and on which machines, suggests answers, and explains every line. Flags answer questions in advance;
without a terminal it asks nothing. It writes the file, by default NAME.yaml, only if the job can be planned.

With --script, or a script as the first answer, the job runs your own program. --from reads a SkyPilot or dstack task, and lists the fields
without a counterpart.`,
		Example: `  tierml init
  tierml init ratings.csv.gz
  tierml init ratings.yaml --data ratings.csv.gz --app mf --count 16
  tierml init --script finetune/train.py --set hours=3
  tierml init --from task.sky.yaml
  tierml init --data docword.nips.txt.gz --cloud none
  tierml init --data s3://BUCKET/ratings.csv.gz --cloud ec2 --settings installation.yaml --types c5.xlarge,m5.xlarge`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("name one job file to write, or one file of data; there are %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
			case o.wanted.Data == "" && isData(args[0]):
				o.wanted.Data = args[0]
			default:
				o.path = args[0]
			}
			in, out := cmd.InOrStdin(), cmd.OutOrStdout()
			if o.from != "" {
				return translate(cmd.Context(), o, out, func(steps ...cli.Step) { cli.Next(cmd, steps...) })
			}
			if !cli.IsTerminal(in) || !cli.IsTerminal(out) {
				in = nil
			}
			return initJob(cmd.Context(), o, in, out, func(steps ...cli.Step) { cli.Next(cmd, steps...) })
		},
	}
	f, w := cmd.Flags(), &o.wanted
	f.StringVar(&w.Script, "script", "", "your own program: its `script` or folder")
	f.StringVar(&w.App, "app", "", "the `application`, such as mf")
	f.StringVar(&w.Target, "target", "", "`column` of a table to predict")
	f.StringVar(&w.Data, "data", "", "`file` of training data, or s3:// or gs://")
	f.IntVar(&w.Clocks, "clocks", 0, "number of `rounds` of work")
	f.StringVar(&w.Cloud, "cloud", "", "the `cloud` that provides machines: local, ec2, gce or none")
	f.StringSliceVar(&w.Types, "types", nil, "machine `types`, such as c3.xlarge,c3.2xlarge")
	f.IntVar(&w.Count, "count", 0, "number of transient `machines`")
	f.StringVar(&w.Budget, "budget", "", "limit of a run, such as `$20`")
	f.StringVar(&w.Prices, "prices", "", "`file` of spot prices (CSV or AWS JSON)")
	f.StringVar(&w.Catalog, "catalog", "", "`file` of machine types and on-demand prices")
	f.StringVar(&o.from, "from", "", "a SkyPilot or dstack task `file`")
	f.StringVar(&o.settings, "settings", "", "`file` with the output of terraform output -raw settings")
	f.BoolVar(&o.force, "force", false, "replace an existing file")
	more := cli.MoreSettings(cmd)
	more.Float64Var(&w.Hours, "hours", 0, "with --script: `hours` that the program runs on one machine")
	more.StringSliceVar(&w.Ignore, "ignore", nil, "`columns` of a table to leave out")
	more.StringVar(&w.Name, "name", "", "the job's `name`")
	more.StringVar(&w.Provider, "provider", "", "`cloud` that the local one imitates: ec2 or gce")
	more.StringVar(&w.Reliable, "reliable", "", "`type` of the reliable machine; default: the cheapest that suffices")
	more.StringVar(&o.start, "start", "", "`time` in the recording to begin at")
	more.Float64Var(&w.StopLoss, "stop-loss", 0, "stop when the test `figure` is at or below this")
	more.StringSliceVar(&w.Zones, "zones", nil, "`zones`; default: those of the region that sell the types")
	return cmd
}

// isData reports whether an argument is a file of data, not the job file to write.
func isData(arg string) bool {
	if ending := strings.ToLower(filepath.Ext(arg)); ending == ".yaml" || ending == ".yml" {
		return false
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular() || strings.HasPrefix(arg, "s3://") || strings.HasPrefix(arg, "gs://")
}

type initOptions struct {
	path, from, start, settings string
	wanted                      jobinit.Wanted
	force                       bool
}

func initJob(ctx context.Context, o initOptions, in io.Reader, out io.Writer, next func(...cli.Step)) error {
	w := o.wanted
	if o.start != "" {
		at, err := time.Parse(time.RFC3339, o.start)
		if err != nil {
			return cli.Usage(fmt.Errorf("start: %q is not a time; write one such as 2014-04-01T00:00:00Z", o.start))
		}
		w.Start = at
	}
	if o.settings != "" {
		text, err := os.ReadFile(o.settings)
		if err != nil {
			return cli.Usage(fmt.Errorf("--settings: %w", err))
		}
		w.Settings = string(text)
	}
	if err := refuseExisting(o.path, o.force); err != nil { // before any question
		return err
	}
	d := &jobinit.Dialogue{In: in, Out: out, Clouds: config.Clouds(), File: o.path}
	for _, kind := range all.Registry() {
		d.Apps = append(d.Apps, kind.Name())
		if slices.ContainsFunc(kind.Params(), func(p apps.Param) bool { return p.Name == "target" }) {
			d.Targets = append(d.Targets, kind.Name())
		}
	}
	if err := d.Fill(&w); err != nil {
		return cli.Usage(err)
	}
	if o.path == "" {
		o.path = w.Name + ".yaml"
		if err := refuseExisting(o.path, o.force); err != nil {
			return err
		}
	}
	return writeJobFile(ctx, o.path, w, out, next)
}

// translate converts another tool's job file. It is written even if the job cannot be planned yet: the missing fields
// are listed.
func translate(ctx context.Context, o initOptions, out io.Writer, next func(...cli.Step)) error {
	text, err := os.ReadFile(o.from)
	if err != nil {
		return cli.Usage(fmt.Errorf("--from: %w", err))
	}
	if o.path == "" {
		o.path = config.NameOf(o.from) + ".tierml.yaml"
	}
	if err := refuseExisting(o.path, o.force); err != nil {
		return err
	}
	made, err := jobinit.Translate(o.from, text, filepath.Dir(o.path))
	if err != nil {
		return cli.Usage(err)
	}
	if err := atomicfile.Write(o.path, made.Text, 0o644); err != nil {
		return fmt.Errorf("writing the job file: %w", err)
	}
	fmt.Fprintf(out, "Wrote %s from a %s task. Differences:\n", o.path, made.Of)
	for _, note := range made.Notes {
		fmt.Fprintf(out, "  - %s\n", note)
	}
	job, err := config.Load(o.path)
	if err == nil {
		err = tryJob(ctx, job)
	}
	if err != nil {
		fmt.Fprintf(out, "It cannot be planned yet:\n%v\n", err)
		return nil
	}
	next(cli.Step{Command: "tierml plan " + o.path, Why: "what it would buy and cost; starts nothing"}, cli.Step{Command: "tierml run " + o.path})
	return nil
}

func refuseExisting(path string, force bool) error {
	if path == "" {
		return nil
	}
	if err := atomicfile.Replaceable(path); err != nil {
		return cli.Usage(fmt.Errorf("%w; name a file", err))
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return cli.Usage(fmt.Errorf("there is no folder %s for %s; make it, or name another file", filepath.Dir(path), filepath.Base(path)))
	}
	if force {
		return nil
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return cli.Usage(fmt.Errorf("%s exists already; name another file, or add --force to replace it", path))
	}
	return nil
}

// writeJobFile writes a job file if the job can be planned.
func writeJobFile(ctx context.Context, path string, w jobinit.Wanted, out io.Writer, next func(...cli.Step)) error {
	var params []apps.Param
	if w.Program == nil {
		kind, err := all.Registry().Find(w.App)
		if err != nil {
			return cli.Usage(err)
		}
		params = kind.Params()
	}
	text, err := w.Write(filepath.Dir(path), params)
	if err != nil {
		return cli.Usage(err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".init-*.yaml") // next to it: paths are relative to its folder
	if err != nil {
		return fmt.Errorf("writing the job file: %w", err)
	}
	defer os.Remove(file.Name()) // unless it has become the job file
	_, err = file.Write(text)
	if err := errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return fmt.Errorf("writing the job file: %w", err)
	}
	job, err := config.Load(file.Name())
	if err == nil {
		err = tryJob(ctx, job)
	}
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for i := range faults {
			faults[i].File = path
		}
		fmt.Fprintf(out, "%s was not written: with these answers the job would be refused.\n", path)
		return faults
	}
	if err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("writing the job file: %w", err)
	}
	if _, err := fmt.Fprintf(out, "Wrote %s\n", path); err != nil {
		return err
	}
	if job.Cloud == config.CloudNone {
		next(cli.Step{Command: "tierml train " + path})
		return nil
	}
	next(cli.Step{Command: "tierml plan " + path, Why: "what it would buy and cost; starts nothing"}, cli.Step{Command: "tierml run " + path})
	return nil
}

// tryJob finds errors that the next command would report. Plans of other clouds query the provider.
func tryJob(ctx context.Context, job *config.Job) (err error) {
	switch {
	case job.Cloud == config.CloudLocal:
		_, err = prepare.Plan(ctx, job, prepare.LoadMarket)
	case job.Cloud == config.CloudNone && !job.IsProgram():
		_, _, err = prepare.Data(ctx, job, func(ps.Split) (io.WriteCloser, error) { return prepare.Discard{}, nil })
	}
	return err
}
