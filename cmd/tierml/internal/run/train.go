package run

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/heap"
	"github.com/tierml/tierml/jobrun/alone"
)

func NewTrainCommand() *cobra.Command {
	var o alone.Options
	var from JobSource
	cmd := &cobra.Command{
		Use:   "train JOB.yaml | DATA",
		Short: "Train a job in this process only: no cloud, no market, all cores",
		Long: `A data file is enough: the application follows from its format. It saves the model in runs/NAME-N, or to the file --into. Training
stops after train.clocks clocks, or earlier because of train.stop or the flags below. Ctrl-C saves the current model.`,
		Example: `  tierml train ratings.csv
  tierml train job.yaml
  tierml train job.yaml --into model.safetensors --until-loss 0.92 --max-time 10m`,
		Args: func(cmd *cobra.Command, args []string) error { return from.Take(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(alone.GarbageWhileSmall)
				heap.Tune()
			}
			if err := o.Check(); err != nil {
				return cli.Usage(err)
			}
			job, err := from.Load()
			if err != nil {
				return err
			}
			if job.Run != "" {
				return job.Fault("run", "is a program of your own, which `tierml train` does not run", "write tierml run "+from.String())
			}
			ctx, release := cli.UntilInterrupted(cmd.Context())
			defer release()
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			return alone.Run(ctx, o, job, untilUnread(cmd.OutOrStdout(), stop), untilUnread(cmd.ErrOrStderr(), stop))
		},
	}
	from.targetFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.Output, "into", "", "save only the model, to this `file`")
	flags.IntVar(&o.Threads, "threads", runtime.GOMAXPROCS(0), "number of `threads`")
	flags.Lookup("threads").DefValue = "all cores"
	flags.BoolVar(&o.Deterministic, "deterministic", false, "compute as on machines: the same model, bit for bit, but slower")
	flags.Float64Var(&o.UntilLoss, "until-loss", math.Inf(-1), "stop when the test `figure` (without holdout, the train figure) is at or below this")
	flags.Float64Var(&o.UntilChange, "until-change", 0, "stop when the figure improves by less than this `share` between measurements")
	flags.DurationVar(&o.MaxTime, "max-time", 0, "stop after training for this `time`")
	flags.Lookup("until-loss").DefValue = "0" // not printed; see options
	return cmd
}

// untilUnread returns an output that stops the training if it is a pipe whose reader goes away: the model is saved as it is then.
func untilUnread(out io.Writer, stop context.CancelCauseFunc) io.Writer {
	if cli.IsTerminal(out) {
		return out
	}
	signal.Ignore(syscall.SIGPIPE) // a write fails instead
	return &cli.StoppingWriter{Writer: out, Stop: func(why string) { stop(errors.New(why)) }}
}
