// Package run has the commands that start work: init, doctor, plan, run, train, predict.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/cmd/tierml/internal/change"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/cmd/tierml/internal/watch"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/hostfault"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/plainfile"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/bill"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/record"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/tiers/node/splitdir"
	"github.com/tierml/tierml/watch/console"
)

// containersHere checks that programs can run in containers if this host's processes are the machines.
func containersHere(ctx context.Context, job *config.Job) error {
	if job.Image == "" || job.Installation() != nil {
		return nil
	}
	if _, err := program.Runtime(ctx); err != nil {
		return job.Fault("image", err.Error(), "install Podman or Docker here")
	}
	return nil
}

// concludeProgram prints where the results are.
func concludeProgram(out io.Writer, job *config.Job, directory string) error {
	state, err := jobrun.ReadState(directory)
	if err != nil {
		return err
	}
	if job.State.Dir != "" {
		fmt.Fprintf(out, "State    tierml state %s --into DIR   (or in %s)\n", rundir.Relative(directory), rundir.Relative(state.Store()))
	}
	fmt.Fprintf(out, "Output   tierml logs %s\n", rundir.Relative(directory))
	return nil
}

func NewRunCommand() *cobra.Command {
	var o RunOptions
	cmd := &cobra.Command{
		Use:   "run JOB.yaml | SCRIPT | FOLDER | DATA | -- COMMAND",
		Short: "Run a job on machines that come and go, and report what it cost",
		Long: `Without a job file it runs a command, a script or the program in a folder, or trains on a data file, on one small machine of
the fake cloud on this computer. The plan lists its assumptions.

It prints the plan and asks before it buys. The journal, the model, the reports and the logs are in runs/NAME-N.

Ctrl-C saves the work and terminates every machine; a second Ctrl-C terminates them at once. --resume continues a run that was
stopped or killed: it takes over machines that still run, or starts from the newest checkpoint.

A job with cloud: ec2 or gce is submitted to its cluster's job server and watched; Ctrl-C leaves it running.`,
		Example: `  tierml run -- python3 train.py --epochs 3
  tierml run train.py --env EPOCHS=3
  tierml run examples/demo.yaml
  tierml run -y examples/demo.yaml
  tierml run --policy checkpoint examples/demo.yaml
  tierml run --resume runs/demo-1
  tierml run --server http://localhost:7071 --detach examples/demo.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.Resume != "" {
				if o.Job.Said.Policy != "" {
					return errors.New("a run keeps its policy; leave --policy out")
				}
				if len(args) > 0 {
					return errors.New("--resume takes the job from the run's directory; leave the job file out")
				}
				return nil
			}
			return o.Job.Take(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.begin(cmd) },
	}
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "proceed without asking")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "do not show what programs print")
	o.Job.Flags(cmd)
	cmd.Flags().BoolVar(&o.Plain, "plain", false, "print plain lines instead of the live view")
	cmd.Flags().StringVar(&o.Job.Said.Policy, "policy", "", "override the job's `policy`")
	cmd.Flags().StringVar(&o.Resume, "resume", "", "continue the run in this `directory`")
	o.endpointFlag(cmd)
	cmd.Flags().StringVar(&o.hosts, "on", "", "use slots of this `run` of shared hosts")
	cmd.Flags().BoolVarP(&o.detach, "detach", "d", false, "with --server: do not watch the job")
	cmd.Flags().BoolVar(&o.here, "here", false, "with cloud: ec2 or gce: run in this process")
	cmd.Flags().StringVar(&o.Into, "into", "", "run in this `directory`, which the job server has made")
	_ = cmd.Flags().MarkHidden("into") // it exists
	o.at.Flags(cmd)
	cli.Moved(cmd, "`tierml resume RUN --skip-damaged`", "skip-damaged")
	return cmd
}

func (o *RunOptions) endpointFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Endpoint, "endpoint", "", "buy from the fake cloud at this `URL`, whose --instance-command is 'tierml agent'")
}

// begin starts a job, or continues a run, here or at a job server.
func (o RunOptions) begin(cmd *cobra.Command) error {
	at, err := placeForJob(cmd, &o.at, o)
	if err != nil {
		return err
	}
	if at.Client != nil {
		defer at.Client.Close()
		return submitJob(cmd.Context(), at, o, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	if o.detach {
		return cli.Usage(errors.New("--detach is for jobs of a job server; name it with --server URL"))
	}
	return NotTheJobs(runJob(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout()), o.Resume != "")
}

// NewResumeCommand continues a run: a paused one continues, an ended one restarts as by run --resume.
func NewResumeCommand() *cobra.Command {
	var o RunOptions
	cmd := change.NewResumeCommand(&o.at)
	unpause := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		over := o.skipDamaged
		if over {
			dir, err := target.Find(args[0])
			if err != nil {
				return err
			}
			o.Resume = rundir.Relative(dir)
		} else if err := o.at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
			name, job, err := runs.Get(ctx, args[0])
			o.Resume, over = name, err == nil && target.Ended(job)
			return err
		}); err != nil {
			return err
		}
		if !over {
			return unpause(cmd, args)
		}
		return o.begin(cmd)
	}
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "for a run that has ended: proceed without asking")
	cmd.Flags().BoolVar(&o.Plain, "plain", false, "print plain lines instead of the live view")
	cmd.Flags().BoolVar(&o.skipDamaged, "skip-damaged", false, "skip damaged lines of the journal")
	o.endpointFlag(cmd)
	return cmd
}

// RunOptions are the options of starting a run.
type RunOptions struct {
	at         target.Flags
	detach     bool
	quiet      bool   // without the output of programs
	here       bool   // in this process, whatever the job's cloud
	Into       string // an existing directory; empty: a new one
	Job        JobSource
	Resume     string
	Endpoint   string // address of a fake cloud in another process; empty = one in this process
	hosts      string // run of shared hosts, instead of a cloud; empty = the run has its own machines
	Yes, Plain bool

	skipDamaged bool // with Resume: skip unreadable lines of the journal
}

func runJob(ctx context.Context, o RunOptions, in io.Reader, out io.Writer) error {
	if !cli.IsTerminal(out) {
		signal.Ignore(syscall.SIGPIPE) // a write fails instead
		out = &cli.Unread{Writer: out}
	}
	if o.Resume != "" { // no other process may write to it or change what is read
		if dir, err := runs.Find(rundir.Root, o.Resume); err == nil {
			o.Resume = rundir.Relative(dir)
		}
		if err := runs.NoJournal(o.Resume); err != nil {
			return cli.Usage(err)
		}
		if info, err := os.Stat(filepath.Join(o.Resume, rundir.JobFile)); err != nil || info.IsDir() {
			return cli.Usage(fmt.Errorf("--resume %s: it is not a run's directory, as it has no %s; name one such as runs/demo-1: `tierml ps` lists runs",
				o.Resume, rundir.JobFile))

		}
		if err := rundir.Hold(o.Resume); err != nil {
			return cli.Usage(err)
		}
	}
	job, from, err := loadJob(o)
	if err != nil {
		return err
	}
	if err := VerifyInputs(job, from.State.Dataset != nil); err != nil {
		return cli.Usage(err)
	}
	if err := jobrun.SameOnTiers(ctx, job, from.State.Dataset, filepath.Dir(o.Resume)); err != nil {
		return cli.Usage(err)
	}
	mapping, err := TimeAt(ctx, &o, job, from)
	if err != nil {
		return err
	}
	directory, release, err := RunDirectory(job, o)
	if err != nil {
		return err
	}
	defer func() { release() }()
	planning, planned := cli.UntilInterrupted(ctx) // otherwise Ctrl-C would leave the directory, with the data in it
	defer planned()
	prepared := func() (*prepare.Job, error) {
		if job.IsProgram() {
			return prepare.Program(planning, job)
		}
		if data := from.State.Dataset; data != nil { // machines may be reading the splits
			return prepare.TrainingWith(planning, job, prepare.SlotMarket(o.Endpoint), func() int64 { return 0 }, func(planner.Resolved) (apps.Program, apps.Dataset, error) { return prepare.MakeProgram(job, *data) })
		}
		return prepare.Training(planning, job, prepare.SlotMarket(o.Endpoint), splitdir.Create(filepath.Join(directory, rundir.SplitsDir)))
	}
	p, err := prepared()
	if planning.Err() != nil {
		return cli.ErrInterrupted
	}
	if err != nil {
		return err
	}
	if from.Part > 0 {
		fmt.Fprintln(out, from.words(job, o.Endpoint))
	}
	if p.Programs != nil {
		p.Programs.Past = from.programs
	}
	if from.Part == 0 && o.hosts == "" { // neither the rest of a run nor the cost of slots is simulated
		err := p.Predict(planning)
		if planning.Err() != nil {
			return cli.ErrInterrupted
		}
		if err != nil {
			return err
		}
	}
	if err := PrintPlan(out, p.Plan, job, "text"); err != nil {
		return err
	}
	if err := prepare.ThisHost().Admit(job, prepare.LocalMachines(job, p.Choice)); err != nil {
		return err
	}
	if err := containersHere(ctx, job); err != nil {
		return err
	}
	if _, err := hookOf(job.Alerts); err != nil {
		return cli.Usage(err)
	}
	if o.Endpoint == "" || job.Installation() == nil { // otherwise they are slots, which no cloud sells
		if err := p.TryCloud(planning, out); planning.Err() != nil {
			return cli.ErrInterrupted
		} else if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s\n", prepare.WhatMachinesAre(job))
	}
	if err := cli.ConfirmUntil(planning, in, out, o.Yes || costsNothing(job, o.Resume != "")); err != nil {
		return err
	}
	planned()
	release = func() {}
	if err := os.WriteFile(filepath.Join(directory, rundir.JobFile), job.Resolved(), 0o644); err != nil {
		return fmt.Errorf("storing the job: %w", err)
	}
	outcome, err := Drive(ctx, o, p, from, mapping, directory, out)
	if err != nil {
		return fmt.Errorf("%w\nThe run's directory is %[2]s, which tierml run --resume %[2]s continues", err, rundir.Relative(directory))
	}
	return conclude(ctx, out, job, directory, outcome)
}

// costsNothing reports whether a run begins without a question: the fake cloud is assumed, or the run that is resumed was confirmed.
func costsNothing(job *config.Job, resumed bool) bool {
	return job.Cloud == config.CloudLocal && (resumed || !job.Written("cloud"))
}

// TimeAt returns the time of a run, according to the cloud of its machines.
func TimeAt(ctx context.Context, o *RunOptions, job *config.Job, from ResumePoint) (mapping clock.Mapping, err error) {
	if o.Endpoint == "" {
		o.Endpoint = from.State.Endpoint
	}
	if o.Endpoint == noEndpoint {
		o.Endpoint = ""
	}
	if !from.At.IsZero() {
		job.Local.Start = from.At
	}
	mapping = prepare.TimeOf(job)
	if o.hosts != "" && o.Endpoint == "" {
		dir, err := o.hosts, error(nil)
		if _, absent := os.Stat(filepath.Join(dir, desk.DoorFile)); absent != nil { // otherwise it is a file with an address
			if dir, err = target.Find(o.hosts); err != nil {
				return mapping, err
			}
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return mapping, err
		}
		o.Endpoint = jobrun.OnHosts(dir)
	}
	if o.Endpoint != "" {
		if mapping, err = jobrun.RemoteClock(ctx, job, o.Endpoint); err != nil {
			if from.Part > 0 {
				err = fmt.Errorf("%w\nIf that cloud is gone, continue with one in this process: --endpoint %s", err, noEndpoint)
			}
			return mapping, cli.Usage(err)
		}
		job.Local.Start, job.Local.Speed = mapping.Now().Truncate(time.Second), mapping.Speed
	}
	if !from.At.IsZero() && !mapping.Wall.IsZero() { // otherwise the market restarts there
		mapping = mapping.NotBefore(from.At)
	}
	return mapping, nil
}

// RunDirectory creates a new run's directory, or finds that of a resumed run. Release removes a new one again: nothing has happened in it.
func RunDirectory(job *config.Job, o RunOptions) (directory string, release func(), err error) {
	if o.Resume != "" {
		if directory, err = filepath.Abs(o.Resume); err != nil {
			return "", nil, err
		}
		return directory, func() {}, nil
	}
	if o.Into != "" {
		return o.Into, func() {}, rundir.Enter(o.Into)
	}
	directory, discard, err := rundir.New(job.Name)
	if err != nil {
		return "", nil, err
	}
	return directory, func() { _ = discard() }, rundir.Hold(directory)
}

// Drive runs a prepared job and shows it.
func Drive(ctx context.Context, o RunOptions, p *prepare.Job, from ResumePoint, mapping clock.Mapping, directory string, out io.Writer) (
	outcome string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program, which is also the agent: %w", err)
	}
	logs := filepath.Join(directory, rundir.LogsDir) // a resumed run's logs may have been removed
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return "", fmt.Errorf("keeping a log: %w", err)
	}
	logFile, err := os.OpenFile(filepath.Join(logs, "controller.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", fmt.Errorf("keeping a log: %w", err)
	}
	defer logFile.Close()
	log := slog.New(slog.NewTextHandler(logFile, &slog.HandlerOptions{Level: slog.LevelInfo}))

	stop := make(chan string, 8)
	if !cli.IsTerminal(out) {
		out = &cli.StoppingWriter{Writer: out, Stop: func(why string) { wish(stop, why) }}
	}
	shown := p.Programs != nil && !o.quiet
	view := console.New(out, console.Options{Plain: o.Plain || shown, OnInterrupt: func() { wish(stop, "Ctrl-C") }})
	defer view.Close()
	released := passSignals(stop)
	defer released()

	if mapping.Wall.IsZero() {
		mapping.Wall = clock.Wall()
	}
	notifier, err := OpenNotifier(p.Job.Alerts, log)
	if err != nil {
		return "", err
	}
	defer notifier.Close() // the last alert is about the end
	told := startAlerts(filepath.Base(directory), notifier)
	defer told.Close()
	watched := watchSpending(p.Job, stop)
	lines, past, err := openJournal(filepath.Join(directory, rundir.JournalFile), from.Part > 0, func(e journal.Entry) {
		view.Feed(e)
		watched.feed(e)
		told.Feed(e)
	})
	if err != nil {
		return "", err
	}
	for _, e := range past {
		view.Recall(e)
		watched.guard.Recall(e)
	}
	if why := watched.guard.Over(); why != "" {
		return "", errors.Join(cli.Exit(cli.ExitLimit, fmt.Errorf("%s; to continue, raise it in %s", why,
			filepath.Join(rundir.Relative(directory), rundir.JobFile))),
			lines.Close(), view.Close())
	}
	for _, e := range past {
		told.Recall(e)
	}
	cfg := jobrun.Config{
		Programs: p.Programs, Hosts: p.Hosts,
		Job: p.Job, Choice: p.Choice, Plan: p.Plan, Program: p.Program, Dataset: p.Dataset, Offers: p.Offers,
		Directory: directory, Agent: []string{self, "agent"}, Version: cli.Version(), Journal: lines,
		Clock:      mapping,
		Spending:   watched.said,
		Endpoint:   o.Endpoint,
		Bounds:     jobmanager.Bounds(),
		Log:        log,
		ResumeFrom: from.checkpoint, ResumeAt: from.clock, ResumeOlder: from.older, Part: from.Part, Past: from.Past, Before: from.before,
	}
	if p.Plan != nil {
		cfg.SaveTime, cfg.RestartTime = p.Plan.Input.SaveTime, p.Plan.Input.RestartTime
		cfg.StateBytes = int64(p.Sim.Checkpoints.Model)
	}
	quiet := func() {}
	if shown {
		quiet = showOutput(directory, view.Output())
	}
	outcome, err = jobrun.New(cfg).Drive(ctx, stop)
	quiet()
	_ = view.Close() // output that could not be shown, as on a closed terminal, is in the journal
	return outcome, errors.Join(err, lines.Close())
}

// showOutput shows programs' output until its result is called, which shows the rest.
func showOutput(directory string, out io.Writer) (end func()) {
	logs := runs.OpenLogs(directory, watch.ProgramLogs)
	_ = logs.Print(io.Discard) // skips the output of earlier parts of the run
	var over atomic.Bool
	var done sync.WaitGroup
	done.Go(func() { _ = logs.Follow(context.Background(), func() bool { return !over.Load() }, out) })
	return func() {
		over.Store(true)
		done.Wait()
	}
}

// openJournal starts a journal, or continues one and returns its past.
func openJournal(path string, resume bool, observe func(journal.Entry)) (lines *journal.Writer, past []journal.Entry, err error) {
	if resume {
		return journal.Resume(path, observe)
	}
	lines, err = journal.Create(path, observe)
	return lines, nil, err
}

func wish(stop chan<- string, why string) {
	select {
	case stop <- why:
	default: // enough requests are pending
	}
}

// passSignals turns Ctrl-C, SIGTERM and the loss of the terminal into requests to stop.
func passSignals(stop chan<- string) (release func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as with nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	signal.Ignore(syscall.SIGPIPE) // a write fails instead
	done := make(chan struct{})
	go func() {
		gone := false
		for {
			select {
			case s := <-signals:
				switch {
				case s == os.Interrupt:
					wish(stop, "Ctrl-C")
				case s == syscall.SIGTERM:
					wish(stop, "SIGTERM")
				case !gone: // shell and kernel both send it: it does not count as a second request
					gone = true
					wish(stop, "SIGHUP: the terminal is gone")
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// keepOutcome adds a finished run to the record of plans next to the runs.
func keepOutcome(directory string, report *cost.Report, job *config.Job) error {
	file, err := plainfile.Open(filepath.Join(directory, rundir.JournalFile))
	if err != nil {
		return fmt.Errorf("storing the plan's outcome: %w", err)
	}
	defer file.Close()
	e, known, err := record.Of(journal.NewReader(file).All(), report, filepath.Base(directory), job.Installation() == nil)
	if err != nil || !known {
		return err
	}
	return record.Append(filepath.Join(filepath.Dir(directory), rundir.RecordFile), e)
}

// conclude writes the reports, prints the short one and lists next steps.
func conclude(ctx context.Context, out io.Writer, job *config.Job, directory, outcome string) error {
	report, err := bill.Make(ctx, directory)
	if err != nil {
		return err
	}
	if err := errors.Join(
		watch.WriteReportFile(filepath.Join(directory, rundir.ReportJSON), report, func(w io.Writer, r *cost.Report) error { return table.WriteJSON(w, r) }),
		watch.WriteReportFile(filepath.Join(directory, rundir.ReportHTML), report, page.Write),
	); err != nil {
		return err
	}
	if err := keepOutcome(directory, report, job); err != nil {
		fmt.Fprintln(out, err)
	}
	fmt.Fprintln(out)
	if err := report.WriteSummary(out, table.Width(out)); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	switch {
	case job.Installation() != nil:
	case job.IsProgram():
		fmt.Fprintf(out, "\nThese dollars and hours are the replayed market's, %gx as fast as the clock.\n", job.Local.Speed)
	default:
		fmt.Fprintf(out, "\nThese dollars and hours are the replayed market's. Machines are slowed down to %s flop/s a vCPU, so that a small job\n"+
			"lives through a market's day: `tierml train` does the same work on this computer at full speed.\n", job.Local.FlopsPerVCPU)
	}
	dir := rundir.Relative(directory)
	fmt.Fprintf(out, "\nReport   tierml report %s   (every machine and event)\nPage     %s\nJournal  %s\n", dir,
		filepath.Join(dir, rundir.ReportHTML), filepath.Join(dir, rundir.JournalFile))
	switch outcome {
	case "finished":
		if job.IsProgram() {
			return concludeProgram(out, job, directory)
		}
		fmt.Fprintf(out, "Model    %s\n", filepath.Join(dir, rundir.ModelFile))
		return nil
	case "interrupted":
		why := report.Run.Why
		if _, err := jobrun.Checkpoint(directory); err == nil || job.IsProgram() {
			fmt.Fprintf(out, "Resume   tierml run --resume %s\n", dir)
		} else {
			fmt.Fprintf(out, "Nothing was saved, as the run was ended at once; start again with %s\n", filepath.Join(dir, rundir.JobFile))
		}
		return cli.Exit(limitOr(why), errors.New("ended before it was done: "+why))
	}
	fmt.Fprintf(out, "Resume   tierml run --resume %s   (once the cause is gone)\n", dir)
	if job.Cloud == config.CloudLocal && Submitted() && hostfault.In(report.Run.Why) != "" { // all of its processes are on this host
		return cli.Exit(jobmanager.HostExit, errors.New("the run failed: "+report.Run.Why))
	}
	return cli.Exit(cli.ExitFailed, errors.New("the run failed: "+report.Run.Why+"\nSee "+filepath.Join(dir, rundir.LogsDir)))
}
