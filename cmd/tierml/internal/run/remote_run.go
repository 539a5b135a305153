package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/cmd/tierml/internal/watch"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/exitcode"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/jobmanager/submit"
	"github.com/tierml/tierml/jobrun/prepare"
)

// placeForJob connects to the job server that should run a job.
func placeForJob(cmd *cobra.Command, r *target.Flags, o RunOptions) (target.Placed, error) {
	nothing := func(string) error { return nil }
	here := o.here || o.Into != "" || o.Endpoint != "" || o.hosts != ""
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

// why asks the cloud about an unreachable job server: that it is stopped is more informative than a failed tunnel.
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
	if err := at.Keep(id); err != nil { // the job runs anyway
		fmt.Fprintf(out, "%v; name the job server with --server %s from now on\n", err, o.Job.File)
	}
	fmt.Fprintf(out, "%s is on the job server; you can close this terminal.\n", id)
	if n := len(job.Trials); n > 0 {
		fmt.Fprintf(out, "It is the first of %d trials, up to %s.\nWatch    tierml ps\n", n+1, job.Trials[n-1])
		return nil
	}
	if o.detach {
		fmt.Fprintf(out, "Watch    tierml top %s\nEnd      tierml stop %[1]s\n", id)
		return nil
	}
	runs := target.OfServer(client)
	programs := job.Unit != "" // for a resumed job
	if sent, err := o.Job.Load(); err == nil && o.Resume == "" {
		programs = sent.Run != ""
	}
	left, err := watch.Attach(ctx, runs, id, o.Plain, programs && !o.quiet, out)
	if err != nil || left {
		return err
	}
	return concludeRemote(ctx, runs, id, out)
}

// submitted submits a job, or resumes one, and returns its id.
func (o RunOptions) submitted(ctx context.Context, at target.Placed, in io.Reader, out io.Writer) (none call.Job, err error) {
	client := at.Client
	if o.Resume != "" {
		return client.Resume(ctx, filepath.Base(o.Resume))
	}
	if err := config.CheckPolicy(cmp.Or(o.Job.Said.Policy, config.Auto)); err != nil {
		return none, cli.Usage(fmt.Errorf("--policy: %w", err))
	}
	s, err := o.submission(ctx, client, out)
	if err != nil {
		return none, err
	}
	job, err := o.Job.Load()
	if err != nil {
		return none, err
	}
	if err := client.Plan(ctx, s, out); err != nil {
		return none, inOwnFile(err, job)
	}
	fmt.Fprintf(out, "\n%s\nIt runs at %s.\n", prepare.WhatMachinesAre(job), at.Where)
	if err := cli.Confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), o.Yes); err != nil {
		return none, err
	}
	done, err := client.Submit(ctx, s)
	return done, inOwnFile(err, job)
}

// placed matches a fault with a line number of the submitted text, which differs from the user's file.
var placed = pattern.Of(`^\d+:\d+: ([a-z][^: ]*): (.*)$`)

// inOwnFile moves the faults that a job server finds to their lines in the user's job file.
func inOwnFile(err error, job *config.Job) error {
	refused, ok := errors.AsType[call.Refused](err)
	if !ok {
		return err
	}
	var faults config.Faults
	for line := range strings.Lines(refused.Error()) {
		m := placed().FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return err
		}
		faults = append(faults, job.Fault(m[1], m[2], "")...)
	}
	return faults
}

// submission uploads the files that a job names, and returns the job in the form for a job server.
func (o RunOptions) submission(ctx context.Context, client *call.Client, notes io.Writer) (s call.Submission, err error) {
	job, err := o.Job.Load()
	if err != nil {
		return s, err
	}
	s.User = userHere()
	if s.Secrets, err = job.ReadSecrets(os.LookupEnv); err != nil {
		return s, err
	}
	if err := submit.Upload(ctx, client, job, notes); err != nil {
		return s, err
	}
	s.Job = string(job.Resolved())
	return s, nil
}

// concludeRemote prints the report of a job that has ended, as the run itself would have, and returns its
// exit code.
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
		if job.Unit != "" { // for programs
			fmt.Fprintf(out, "State    tierml state %s --into DIR\n", id)
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

// limitOr returns the exit code of a run that ended before it was done.
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

// userHere returns the name of this computer's user; empty = unknown.
func userHere() string {
	name := cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME"))
	if host, err := os.Hostname(); err == nil && name != "" {
		return name + "@" + host
	}
	return name
}
