package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/internal/dashboard"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/internal/progress"
)

func newStopCommand() *cobra.Command {
	var now bool
	var at remote
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "End a run in order, from any terminal: its work is saved and its machines are terminated",
		Long: `Stop does what Ctrl-C does in the run's own terminal: work is flushed and saved, every machine is terminated, the report is
written. It waits until that is done; Ctrl-C ends the waiting only. --now terminates every machine at once, and what was not
saved before is lost.

RUN is a run's directory, its name below ./runs, or the name of a job, which means its latest run.`,
		Example: `  tierml stop demo-1
  tierml stop demo --now`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one run, such as demo-1; `tierml ps` lists them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, leave := untilInterrupted(cmd.Context())
			defer leave()
			client, err := at.client(cmd, args)
			if err != nil {
				return err
			}
			if client != nil {
				defer client.Close()
				return remoteStop(ctx, client, args, now, cmd.OutOrStdout())
			}
			dir, err := findRun(args)
			if err != nil {
				return err
			}
			return stopRun(ctx, dir, now, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "terminate every machine at once; nothing more is saved")
	at.flags(cmd)
	return cmd
}

// stopRun ends a run of this host and says what it came to.
func stopRun(ctx context.Context, dir string, now bool, out io.Writer) error {
	name := filepath.Base(dir)
	bar := progress.Start(ctx, "Waiting until "+name+" has ended", 0, progress.Things)
	defer bar.Done()
	err := localrun.End(ctx, dir, "tierml stop", now, func() {
		how := "saves its work and ends its machines"
		if now {
			how = "ends its machines at once"
		}
		fmt.Fprintf(progress.From(ctx).Writer(out), "%s %s ...\n", name, how)
	})
	bar.Done()
	if errors.Is(err, context.Canceled) {
		return exitError{exitInterrupted, fmt.Errorf("not waited for; %s goes on ending: `tierml ps` shows it", name)}
	}
	ended := errors.Is(err, localrun.ErrEnded)
	if err != nil && !ended {
		return err
	}
	run, err := dashboard.Read(ctx, dir)
	if err != nil {
		return err
	}
	_, err = localrun.Checkpoint(dir)
	return sayEnd(out, relative(dir), run, ended, err == nil && run.State == "interrupted")
}

// sayEnd says how a run has ended and what can be done next. Before: it had ended before anybody asked. Resumable: it can
// go on.
func sayEnd(out io.Writer, dir string, run dashboard.Summary, before, resumable bool) error {
	if run.State == "killed" {
		return exitError{exitFailed, fmt.Errorf("%s was killed, not ended in order: machines of cloud: ec2 may be left, which `tierml leaks` lists; "+
			"`tierml run --resume %s` goes on with it, and then it can be stopped", run.Run, dir)}
	}
	had := "has ended"
	if before {
		had = "had ended already"
	}
	fmt.Fprintf(out, "%s %s: %s at clock %s, %s spent. No machine of it is left.\n", run.Run, had, run.State, ofAll(run.Clock, run.Clocks), orMinus(cents(run.Spent)))
	fmt.Fprintf(out, "Report   tierml report %s\n", dir)
	if resumable {
		fmt.Fprintf(out, "Resume   tierml run --resume %s\n", dir)
	}
	return nil
}
