package change

import (
	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/jobmanager/call"
)

func NewPauseCommand() *cobra.Command {
	return newChangeCommand(&call.Scale{Pause: true, By: "tierml pause"}, &cobra.Command{
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

func NewResumeCommand() *cobra.Command {
	return newChangeCommand(&call.Scale{Resume: true, By: "tierml resume RUN"}, &cobra.Command{
		Use:   "resume RUN",
		Short: "Resume a paused run",
		Long: `It buys as many transient machines as before. A run that has ended is continued by tierml run --resume.

` + cli.NamedRun + `.`,
		Example: `  tierml resume demo
  tierml resume runs/demo-1 --wait`,
	}, nil, cli.Step{Command: "tierml top RUN", Why: "watch it"})
}
