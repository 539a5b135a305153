package serve

import (
	"os"
	"os/signal"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/jobrun/machine"
	"github.com/tierml/tierml/providers"
)

func NewAgentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "agent",
		Short:  "Take part in a job (started by the machines themselves)",
		Hidden: true,
		Long: `Agent runs on each machine of a job. The instance metadata service tells it its identity and, in the user data, the
address of its controller, which tells it everything else.

Environment:
  ` + machine.EnvClock + `   how market time follows from wall-clock time; unset: they are the same
  ` + machine.EnvFlops + `   floating-point operations per second to which the worker is held; unset: as fast as it goes
  ` + machine.EnvKey + `   where the machine's private key is kept for its next agent; unset: it is not
  ` + providers.Variable + `   whose machine it is, by the word in job files; unset: gce where GCE_METADATA_HOST is set, else ec2
  ` + machine.EnvPowerOff + `, ` + machine.EnvPowerOffAfter + `   command and minutes of the timer that powers the machine off, and that is reset while there
      is a controller; unset: no timer
  AWS_EC2_METADATA_SERVICE_ENDPOINT   the metadata service; unset: EC2's own address
  GCE_METADATA_HOST   the metadata server, host:port; unset: Compute Engine's own address

Exit code ` + strconv.Itoa(machine.ExitFenced) + `: the controller gave this process up while it lived; started again it joins empty.`,
		Example: "  " + machine.EnvClock + "=2014-04-01T00:00:00Z@2026-10-01T12:00:00Z*600 tierml agent",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			if providers.TermWarns(os.Getenv) {
				stop()
				ctx, stop = signal.NotifyContext(cmd.Context(), os.Interrupt)
			}
			defer stop()
			return machine.Run(ctx, os.Getenv, cmd.ErrOrStderr())
		},
	}
}
