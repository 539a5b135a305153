package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/cmd/tierml/internal/watch"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/exitcode"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/program/filenames"
	"github.com/tierml/tierml/ps"
)

// forJob reaches the job server that is to run a job.
func placeForJob(cmd *cobra.Command, r *target.Flags, o RunOptions) (target.Placed, error) {
	nothing := func(string) error { return nil }
	here := o.here || o.Into != "" || o.Endpoint != ""
	if r.URL == "" && here {
		return target.Placed{}, nil
	}
	if here && o.here && r.URL != target.NoServer {
		return target.Placed{}, cli.Usage(errors.New("--here and --server exclude each other; leave one of them out"))
	}
	if r.URL != "" || o.Resume != "" {
		var args []string
		if o.Resume != "" {
			args = []string{o.Resume}
		}
		client, err := r.Client(cmd, args)
		if client == nil {
			return target.Placed{}, err
		}
		return target.Placed{Client: client, Where: client.Address(), Keep: nothing}, err
	}
	job, err := o.Job.Load()
	if err != nil || reach.IsHere(job.Installation(), reach.OnController()) {
		return target.Placed{}, nil // the command that runs the job file reports its faults
	}
	p, err := target.FindPlace(cmd.Context(), job)
	if err != nil {
		return target.Placed{}, err
	}
	client, err := r.Connect(cmd.Context(), p, target.Notes(cmd))
	if err != nil {
		return target.Placed{}, why(cmd.Context(), job, p, err)
	}
	return target.Placed{Client: client, Where: p.String(), Keep: func(run string) error {
		shelf, err := reach.UserRegistry()
		if err != nil {
			return err
		}
		return shelf.Keep(p, run)
	}}, nil
}

// why asks the cloud about a job server that cannot be reached: whether it is stopped says more than that a tunnel failed.
func why(ctx context.Context, job *config.Job, p reach.Place, failed error) error {
	if p.Instance == "" || ctx.Err() != nil {
		return failed
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := target.LookFor(ctx, job, p); err != nil {
		if exitcode.IsWrong(err) {
			return err
		}
	}
	return failed
}

// submitJob submits a job to a job server, and shows it unless the user detaches.
func submitJob(ctx context.Context, at target.Placed, o RunOptions, in io.Reader, out io.Writer) error {
	client := at.Client
	if o.Endpoint != "" || o.Into != "" {
		return cli.Usage(errors.New("--endpoint is for runs of this host; leave it out, or write --server none"))
	}
	job, err := o.submitted(ctx, at, in, out)
	if err != nil {
		return err
	}
	id := job.Run
	if err := at.Keep(id); err != nil { // the job runs all the same
		fmt.Fprintf(out, "%v; name the job server with --server %s from now on\n", err, o.Job.File)
	}
	fmt.Fprintf(out, "%s is at the job server; closing this changes nothing.\n", id)
	if n := len(job.Trials); n > 0 {
		fmt.Fprintf(out, "It is the first of %d trials, up to %s.\nWatch    tierml ps\n", n+1, job.Trials[n-1])
		return nil
	}
	if o.detach {
		fmt.Fprintf(out, "Watch    tierml top %s\nEnd      tierml stop %[1]s\n", id)
		return nil
	}
	runs := target.OfServer(client)
	left, err := watch.Attach(ctx, runs, id, o.Plain, out)
	if err != nil || left {
		return err
	}
	return concludeRemote(ctx, runs, id, out)
}

// submitted hands a job over, or resumes one, and gives its id.
func (o RunOptions) submitted(ctx context.Context, at target.Placed, in io.Reader, out io.Writer) (none call.Job, err error) {
	client := at.Client
	if o.Resume != "" {
		return client.Resume(ctx, filepath.Base(o.Resume))
	}
	if err := config.CheckPolicy(cmp.Or(o.Job.Said.Policy, config.Auto)); err != nil {
		return none, cli.Usage(fmt.Errorf("--policy: %w", err))
	}
	job, err := o.Job.Load()
	if err != nil {
		return none, err
	}
	s := call.Submission{}
	if s.Secrets, err = job.ReadSecrets(os.LookupEnv); err != nil {
		return none, err
	}
	if err := upload(ctx, client, job, out); err != nil {
		return none, err
	}
	s.Job = string(job.Resolved())
	if err := client.Plan(ctx, s, out); err != nil {
		return none, err
	}
	fmt.Fprintf(out, "\n%s\nIt runs at %s.\n", prepare.WhatMachinesAre(job), at.Where)
	if err := cli.Confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), o.Yes); err != nil {
		return none, err
	}
	return client.Submit(ctx, s)
}

// upload sends the files of this host that a job names, unless the job server has them, and puts their names there into the
// job.
func upload(ctx context.Context, client *call.Client, job *config.Job, out io.Writer) error {
	if to := job.Checkpoint.To; to != "" && !location.IsURL(to) {
		return job.Fault("checkpoint.to", "is a directory of this host, and the job runs at the job server",
			"name a store, such as s3://BUCKET/PREFIX, or remove the line: then it is in the run's directory there")
	}
	if job.Alerts.URLFile != "" || job.Alerts.SecretFile != "" {
		return job.Fault("alerts", "names a file with a secret, which is not sent to the job server",
			"start the job server with --alert-url-file and --alert-secret-file: then it tells of all jobs")
	}
	if job.Block != nil {
		job.Block.Shared().Controller = config.Controller{} // it is this host's way to it
	}
	for name := range job.Secrets {
		job.Secrets[name] = config.Secret{} // its value goes beside the job
	}
	if err := uploadWorkdir(ctx, client, job, out); err != nil {
		return err
	}
	files := job.Files()
	for _, field := range slices.Sorted(maps.Keys(files)) {
		paths := []string{*files[field]}
		if field == "train.data" {
			beside, err := besides(ctx, job)
			if err != nil {
				return err
			}
			paths = append(paths, beside...)
		}
		name, err := client.Upload(ctx, paths, func(name string, bytes int64) {
			fmt.Fprintf(out, "Uploading %s, %.1f MB\n", name, float64(bytes)/1e6)
		})
		if err != nil {
			return err
		}
		*files[field] = name
	}
	return nil
}

// uploadWorkdir sends the folder that programs run in, packed.
func uploadWorkdir(ctx context.Context, client *call.Client, job *config.Job, out io.Writer) error {
	if job.Workdir == "" {
		return nil
	}
	folder, err := os.MkdirTemp("", "tierml-")
	if err != nil {
		return fmt.Errorf("packing the workdir: %w", err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "workdir"+filenames.PackedEnding)
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("packing the workdir: %w", err)
	}
	_, err = jobrun.PackWorkdir(ctx, job, rundir.Root, file)
	if closing := file.Close(); err != nil || closing != nil {
		return job.Fault("workdir", errors.Join(err, closing).Error(), "")
	}
	job.Workdir, err = client.Upload(ctx, []string{path}, func(_ string, bytes int64) {
		fmt.Fprintf(out, "Uploading %s, %.1f MB packed\n", job.Workdir, float64(bytes)/1e6)
	})
	return err
}

// besides are the files that the application reads beside the training data. It is asked, which also checks the data
// before anything is sent.
func besides(ctx context.Context, job *config.Job) (paths []string, err error) {
	kind, err := all.Registry().Find(job.Train.App)
	if err != nil {
		return nil, job.Fault("train.app", err.Error(), "docs/applications.md lists the applications")
	}
	file, err := os.Open(job.Train.Data)
	if err != nil {
		return nil, fmt.Errorf("reading the training data: %w", err)
	}
	defer file.Close()
	bar := progress.Start(ctx, "Checking "+filepath.Base(job.Train.Data), cli.SizeOf(job.Train.Data), progress.Bytes)
	defer bar.Done()
	beside := func(name string) (io.ReadCloser, error) {
		path := location.Beside(job.Train.Data, name)
		file, err := os.Open(path)
		if err == nil && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
		return file, err
	}
	data, err := kind.Prepare(apps.Input{Name: job.Train.Data, Data: bar.Reader(file), Beside: beside, MaxBadLines: job.Train.MaxBadLines,
		Columns: job.Train.Columns, Ignore: job.Train.Ignore},
		prepare.CutOf(job, job.Seed), func(ps.Split) (io.WriteCloser, error) { return prepare.Discard{}, nil })
	if err != nil {
		return nil, prepare.DataFault(job, err)
	}
	job.Train.Splits = data.Splits
	return paths, nil
}

// concludeRemote prints the report of a job that is over, as the run itself would have, and gives its exit code.
func concludeRemote(ctx context.Context, runs target.Runs, id string, out io.Writer) error {
	_, job, err := runs.Get(ctx, id)
	if err != nil {
		return err
	}
	if job.Spent != "" {
		if err := summarize(ctx, runs, id, out); err != nil {
			return err
		}
	}
	switch call.State(job.State) {
	case call.Finished:
		if job.Unit != "" { // of programs
			fmt.Fprintf(out, "State    tierml state %s --to DIR\n", id)
			return nil
		}
		fmt.Fprintf(out, "Model    tierml fetch %s\n", id)
		return nil
	case call.Stopped:
		fmt.Fprintf(out, "Resume   tierml run --resume %s\n", id)
		return cli.Exit(limitOr(job.Why), errors.New("ended before it was done: "+job.Why))
	}
	return cli.Exit(cli.ExitFailed, fmt.Errorf("%s is %s: %s\nSee tierml logs %[1]s", id, job.State, job.Why))
}

// limitOr is the exit code of a run that ended before it was done.
func limitOr(why string) int {
	if strings.HasPrefix(why, "the budget") || strings.HasPrefix(why, "the machines cost") || strings.HasPrefix(why, "max_duration") {
		return cli.ExitLimit
	}
	return cli.ExitInterrupted
}

func summarize(ctx context.Context, runs target.Runs, id string, out io.Writer) error {
	report, err := runs.Report(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := report.WriteSummary(out, table.Width(out)); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	fmt.Fprintf(out, "\nReport   tierml report %s   (every machine and event)\n", id)
	return nil
}
