package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/jobmanager/call"
)

func NewStopCommand() *cobra.Command {
	var o stopOptions
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "End a run cleanly: save its work and terminate its machines",
		Long: `Like Ctrl-C, it ends the run and writes the report. It waits until that is done; Ctrl-C ends only the wait. -o json and csv
print only the result.

` + cli.NamedRun + `.`,
		Example: `  tierml stop demo-1
  tierml stop sweep --task 3
  tierml stop demo --now
  tierml stop demo-1 -o json`,
		Args: cli.Arguments(1, 1, "name one run, such as demo-1; `tierml ps` lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				return runStop(ctx, runs, args[0], o, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().BoolVar(&o.now, "now", false, "terminate every machine at once, without saving")
	cmd.Flags().IntVar(&o.task, "task", -1, "cancel only this `task` in an array")
	cli.OutputFlag(cmd, &o.format)
	at.Flags(cmd)
	return cmd
}

type stopOptions struct {
	now    bool
	task   int // negative: the whole run
	format string
}

// runStop ends a run, or cancels one of its tasks, and prints the result.
func runStop(ctx context.Context, runs target.Runs, run string, o stopOptions, out io.Writer) error {
	if o.task >= 0 && o.now {
		return cli.Usage(errors.New("--now is for whole runs; a task ends cleanly"))
	}
	meanwhile := cli.OnTheWay(out, o.format)
	how := call.Stop{Now: o.now, By: "tierml stop"}
	if o.task >= 0 {
		how.Program = fmt.Sprintf("task-%d", o.task)
		end, err := runs.Stop(ctx, run, how, func() {})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(meanwhile, "%s of %s saves its state and ends for good; `tierml state %[2]s` shows it.\n", how.Program, end.Name)
		return err
	}
	name := filepath.Base(run)
	bar := progress.Start(ctx, "Waiting until "+name+" has ended", 0, progress.Things)
	defer bar.Done()
	end, err := runs.Stop(ctx, run, how, func() {
		does := "saves its work and ends its machines"
		if o.now {
			does = "ends its machines at once"
		}
		fmt.Fprintf(progress.From(ctx).Writer(meanwhile), "%s %s ...\n", name, does)
	})
	bar.Done()
	if errors.Is(err, context.Canceled) {
		return cli.Exit(cli.ExitInterrupted, fmt.Errorf("stopped waiting; %s is still ending: `tierml ps` shows it", name))
	}
	if err != nil {
		return err
	}
	return writeEnd(end, o.format, out)
}
