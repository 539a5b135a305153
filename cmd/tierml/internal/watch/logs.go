package watch

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
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
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				err := runs.Logs(ctx, target.First(args), args[min(1, len(args)):], follow, cmd.OutOrStdout())
				if errors.Is(err, context.Canceled) {
					return nil // the reader has left
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing until the run ends")
	at.Flags(cmd)
	return cmd
}
