package change

import (
	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/jobmanager/call"
)

func NewPauseCommand() *cobra.Command {
	return newChangeCommand(new(target.Flags), &call.Scale{Pause: true, By: "tierml pause"}, &cobra.Command{
		Use:   "pause RUN",
		Short: "Release the transient machines of a run, and keep its state on the reliable ones",
		Long: `Training stops after the current clock; no clock is repeated. A run without reliable machines cannot be paused: tierml stop
ends it with a checkpoint.

` + cli.NamedRun + `.`,
		Example: `  tierml pause demo
  tierml pause runs/demo-1 --wait
  tierml pause demo --wait -o json`,
	}, nil, cli.Step{Command: "tierml resume RUN", Why: "training continues"})
}

// NewResumeCommand continues a paused run; package run extends it to runs that have ended.
func NewResumeCommand(at *target.Flags) *cobra.Command {
	return newChangeCommand(at, &call.Scale{Resume: true, By: "tierml resume RUN"}, &cobra.Command{
		Use:   "resume RUN",
		Short: "Resume a run that is paused, or that ended before it was done",
		Long: `A paused run buys as many transient machines as before. A stopped or killed run continues here, as with tierml run --resume:
it takes over machines that still run, or starts from the newest checkpoint.

` + cli.NamedRun + `.`,
		Example: `  tierml resume demo
  tierml resume runs/demo-1 --wait
  tierml resume -y demo-1`,
	}, nil, cli.Step{Command: "tierml top RUN", Why: "watch it"})
}
