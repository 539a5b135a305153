package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/watch/dashboard"
)

// remoteStop ends a job of a job server and waits until it has ended.
func remoteStop(ctx context.Context, client *call.Client, args []string, now bool, format string, out io.Writer) error {
	job, err := client.Job(ctx, target.MeantJob(args))
	if err != nil {
		return err
	}
	before := call.State(job.State).Over()
	if !before {
		if job, err = client.Stop(ctx, job.Run, call.Stop{Now: now, By: "tierml stop"}); err != nil {
			return err
		}
		fmt.Fprintf(cli.OnTheWay(out, format), "%s is asked to end ...\n", job.Run)
	}
	bar := progress.Start(ctx, "Waiting until "+job.Run+" has ended", 0, progress.Things)
	defer bar.Done()
	for !ended(job) {
		select {
		case <-ctx.Done():
			return cli.Exit(cli.ExitInterrupted, fmt.Errorf("not waited for; %s is still ending: `tierml ps` shows it", job.Run))
		case <-time.After(300 * time.Millisecond):
		}
		next, err := client.Job(ctx, job.Run)
		if err != nil && !call.Temporary(err) {
			return err
		}
		if err == nil {
			job = next
		}
	}
	bar.Done()
	if job.Summary.Clock == 0 && job.Summary.Spent == "" && cli.ForPeople(format) {
		_, err := fmt.Fprintf(out, "%s is %s%s.\n", job.Run, job.State, cli.Because(job.Why))
		return err
	}
	return ending{job.Summary, before, call.State(job.State) == call.Stopped}.say(out, job.Run, format)
}

// ended reports whether nothing of a job runs, also of one that was not submitted.
func ended(job call.Job) bool {
	return call.State(job.State).Over() || job.Submitted == nil && job.State != "running"
}

func NewStopCommand() *cobra.Command {
	var now bool
	var format string
	var task int
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "End a run in order: save its work and terminate its machines",
		Long: `It does what Ctrl-C does, writes the report, and waits until that is done; Ctrl-C ends only the waiting. -o json and csv print only
the result.

` + cli.NamedRun + `.`,
		Example: `  tierml stop demo-1
  tierml stop sweep --task 3
  tierml stop demo --now
  tierml stop demo-1 -o json`,
		Args: cli.Arguments(1, 1, "name one run, such as demo-1; `tierml ps` lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if task >= 0 && now {
				return cli.Usage(errors.New("--now is for whole runs; a task ends in order"))
			}
			ctx, leave := cli.UntilInterrupted(cmd.Context())
			defer leave()
			client, err := at.Client(cmd, args)
			if err != nil {
				return err
			}
			if client != nil {
				defer client.Close()
				if task >= 0 {
					job, err := client.Stop(ctx, target.MeantJob(args), call.Stop{By: "tierml stop", Program: taskName(task)})
					return cancelled(err, job.Run, task, cli.OnTheWay(cmd.OutOrStdout(), format))
				}
				return remoteStop(ctx, client, args, now, format, cmd.OutOrStdout())
			}
			dir, err := target.FindRun(args)
			if err != nil {
				return err
			}
			if task >= 0 {
				return cancelled(scaling.Cancel(ctx, dir, "tierml stop", taskName(task)), cli.Relative(dir), task, cli.OnTheWay(cmd.OutOrStdout(), format))
			}
			return stopRun(ctx, dir, now, format, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "terminate every machine at once, without saving")
	cmd.Flags().IntVar(&task, "task", -1, "cancel only this `task` of an array")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

func taskName(task int) string { return fmt.Sprintf("task-%d", task) }

// cancelled says that a task is on its way out.
func cancelled(err error, run string, task int, out io.Writer) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s of %s saves its state and ends for good; `tierml state %[2]s` shows it.\n", taskName(task), run)
	return err
}

// stopRun ends a run of this host and says what it came to.
func stopRun(ctx context.Context, dir string, now bool, format string, out io.Writer) error {
	name := filepath.Base(dir)
	bar := progress.Start(ctx, "Waiting until "+name+" has ended", 0, progress.Things)
	defer bar.Done()
	err := jobrun.End(ctx, dir, "tierml stop", now, func() {
		how := "saves its work and ends its machines"
		if now {
			how = "ends its machines at once"
		}
		fmt.Fprintf(progress.From(ctx).Writer(cli.OnTheWay(out, format)), "%s %s ...\n", name, how)
	})
	bar.Done()
	if errors.Is(err, context.Canceled) {
		return cli.Exit(cli.ExitInterrupted, fmt.Errorf("not waited for; %s is still ending: `tierml ps` shows it", name))
	}
	ended := errors.Is(err, jobrun.ErrEnded)
	if err != nil && !ended {
		return err
	}
	run, err := dashboard.Read(ctx, dir)
	if err != nil {
		return err
	}
	_, err = jobrun.Checkpoint(dir)
	return ending{run, ended, (err == nil || run.Unit != "") && run.State == "interrupted"}.say(out, cli.Relative(dir), format)
}
