// Package change has the commands that act on runs and their machines: scale, pause, resume, stop, exec, ssh, forward, drill, leaks
// and down.
package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/jobmanager/call"
)

func NewScaleCommand() *cobra.Command {
	change := &call.Scale{By: "tierml scale"}
	var workers, servers, reliable int
	cmd := &cobra.Command{
		Use:   "scale RUN",
		Short: "Add or remove workers, servers and reliable machines of a running job",
		Long: `Workers are transient machines; servers are workers that also serve parameters. Adding a server adds a machine if none is
free. The remaining reliable machines must be able to hold the job alone. Numbers are relative, and stay in effect until the next change.

-o json and csv print the wanted and the present numbers.

` + cli.NamedRun + `.`,
		Example: `  tierml scale demo --workers +4
  tierml scale runs/demo-1 --workers +4 --servers -1 --wait
  tierml scale demo --reliable +1
  tierml scale demo --workers +2 --wait -o json
  tierml scale demo --restore`,
	}
	cmd.Flags().IntVar(&workers, "workers", 0, "`number` of transient machines to add (+4) or remove (-4)")
	cmd.Flags().IntVar(&servers, "servers", 0, "`number` of servers to add (+1) or remove (-1)")
	cmd.Flags().IntVar(&reliable, "reliable", 0, "`number` of reliable machines to add (+1) or remove (-1)")
	cmd.Flags().BoolVar(&change.Restore, "restore", false, "return to the job file's numbers")
	return newChangeCommand(new(target.Flags), change, cmd, func() error {
		change.Workers, change.Servers, change.Reliable = int32(workers), int32(servers), int32(reliable)
		switch asked := workers != 0 || servers != 0 || reliable != 0; {
		case !asked && !change.Restore:
			return cli.Usage(errors.New("say what to change: --workers +4, --servers -1, --reliable +1, several of them, or --restore"))
		case asked && change.Restore:
			return cli.Usage(errors.New("--restore returns to the job file's numbers; leave --workers, --servers and --reliable out"))
		}
		return nil
	}, cli.Step{Command: "tierml top RUN", Why: "watch it"}, cli.Step{Command: "tierml scale RUN --restore", Why: "return to the job file's numbers"})
}

// newChangeCommand completes a command that requests a change of a run. Complete, if any, builds the change from the command's own flags.
// RUN in the next steps stands for the run.
func newChangeCommand(at *target.Flags, change *call.Scale, cmd *cobra.Command, complete func() error, next ...cli.Step) *cobra.Command {
	var format string
	cmd.Args = cli.Arguments(1, 1, "name one run: its directory, such as runs/demo-1, or the job's name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if complete != nil {
			if err := complete(); err != nil {
				return err
			}
		}
		err := at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
			return scale(ctx, runs, args[0], *change, format, cmd.OutOrStdout())
		})
		if err != nil {
			return err
		}
		for i := range next {
			next[i].Command = strings.Replace(next[i].Command, "RUN", args[0], 1)
		}
		cli.Next(cmd, next...)
		return nil
	}
	cmd.Flags().BoolVar(&change.Wait, "wait", false, "wait until the change is complete")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// scale changes a run: people read each answer, programs only the last.
func scale(ctx context.Context, runs target.Runs, run string, change call.Scale, format string, out io.Writer) error {
	var last *call.Standing
	err := runs.Scale(ctx, run, change, func(now call.Standing) {
		last = &now
		if cli.ForPeople(format) {
			printStanding(out, now)
		}
	})
	if last == nil || cli.ForPeople(format) { // a refused change yields only the error
		return err
	}
	return errors.Join(err, standingTable(*last).Write(out, format))
}

func printStanding(out io.Writer, s call.Standing) {
	state := "asked for"
	if s.Reached {
		state = "reached"
	}
	if s.Paused {
		fmt.Fprintf(out, "%-9s  paused: %d workers, %d servers, %d reliable (%d wanted)\n", state, s.Workers, s.Servers, s.Reliable, s.WantedReliable)
		return
	}
	wanted := fmt.Sprintf("%d wanted", s.WantedMachines)
	if s.WantedVCPUs > 0 {
		wanted = fmt.Sprintf("%d vCPUs wanted", s.WantedVCPUs)
	}
	servers := "as the stage has them"
	if s.WantedServers > 0 {
		servers = fmt.Sprintf("%d wanted", s.WantedServers)
	}
	fmt.Fprintf(out, "%-9s  %d workers (%s), %d servers (%s), %d reliable (%d wanted)\n", state, s.Workers, wanted, s.Servers, servers,
		s.Reliable, s.WantedReliable)
}
