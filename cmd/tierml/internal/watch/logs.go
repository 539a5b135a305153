package watch

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
)

func NewLogsCommand() *cobra.Command {
	var follow bool
	var tail int
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "logs [RUN [MACHINE...]]",
		Short: "Print the logs of a run's controller and machines",
		Long: `Each line names its source: "controller" or a machine. A prefix of a machine's name is enough.
` + cli.WhichRun,
		Example: `  tierml logs
  tierml logs demo-1 controller -f
  tierml logs --tail 20
  tierml logs demo-1 i-b7219`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				out := io.Writer(cmd.OutOrStdout())
				run, sources := target.First(args), args[min(1, len(args)):]
				if tail >= 0 {
					lines := lineCounter(0)
					if err := runs.Logs(ctx, run, sources, false, &lines); err != nil {
						return err
					}
					out = &skipper{out, int(lines) - tail}
				}
				err := runs.Logs(ctx, run, sources, follow, out)
				if errors.Is(err, context.Canceled) {
					return nil // the reader has left
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing until the run ends")
	cmd.Flags().IntVar(&tail, "tail", -1, "only the last `number` of lines, and with -f new ones")
	at.Flags(cmd)
	return cmd
}

// lineCounter counts lines.
type lineCounter int

func (n *lineCounter) Write(p []byte) (int, error) {
	*n += lineCounter(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}

// skipper skips a number of lines.
type skipper struct {
	to    io.Writer
	lines int
}

func (s *skipper) Write(p []byte) (int, error) {
	rest := p
	for ; s.lines > 0; s.lines-- {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return len(p), nil
		}
		rest = rest[end+1:]
	}
	if len(rest) == 0 {
		return len(p), nil
	}
	_, err := s.to.Write(rest)
	return len(p), err
}
