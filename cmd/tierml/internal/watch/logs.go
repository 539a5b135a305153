package watch

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
)

func NewLogsCommand() *cobra.Command {
	var follow bool
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "logs [RUN [MACHINE...]]",
		Short: "Print the logs of a run's controller and machines",
		Long: `Each line has its source: "controller" or a machine, of which the beginning of the name is enough.
` + cli.WhichRun,
		Example: `  tierml logs
  tierml logs demo-1 controller -f
  tierml logs demo-1 i-b7219`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.Client(cmd, args)
			if err != nil {
				return err
			}
			if client != nil {
				defer client.Close()
				ctx, leave := cli.UntilInterrupted(cmd.Context())
				defer leave()
				return client.Logs(ctx, target.MeantJob(args[:min(1, len(args))]), args[min(1, len(args)):], follow, cmd.OutOrStdout())
			}
			dir, err := target.FindRun(args[:min(1, len(args))])
			if err != nil {
				return err
			}
			return printLogs(cmd.Context(), dir, args[min(1, len(args)):], follow, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing until the run ends")
	at.Flags(cmd)
	return cmd
}

func printLogs(ctx context.Context, dir string, names []string, follow bool, out io.Writer) error {
	ctx, leave := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer leave()
	err := runs.OpenLogs(dir, names).Follow(ctx, func() bool { return follow && rundir.Held(dir) }, out)
	if none, ok := errors.AsType[runs.NoLog](err); ok {
		err = cli.Usage(none)
	}
	return err
}
