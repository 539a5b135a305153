// Tierml trains machine-learning models on machines that their provider may take back.
//
// Every subcommand has its file here; it reads flags, calls a package that does the work, and prints. What
// goes where: results and plans to standard output, what happens meanwhile and errors to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/start"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
	_ "github.com/tierml/tierml/providers/all" // who sells machines
)

// Exit codes. They are part of the interface: scripts rely on them.
const (
	exitDone        = 0   // it is done
	exitFailed      = 1   // it was tried and failed, or the answer to "Proceed?" was no
	exitUsage       = 2   // the command line or the job file is wrong; nothing was started
	exitLimit       = 3   // ended in order before it was done: budget or max_duration is used up
	exitInterrupted = 130 // ended in order by Ctrl-C (or SIGTERM)
)

const exitCodes = `    0  done
    1  failed, agents kept ending by themselves, or the answer to "Proceed?" was no
    2  the command line or the job file is wrong; nothing was started
    3  ended in order before it was done: budget or max_duration is used up
  130  ended in order by Ctrl-C`

func main() {
	// AWS's SDKs, also the store's, would ask for a machine's role by version 1 of the metadata service where version 2 does not
	// answer: what a forged request can reach. It may be had by setting this.
	if _, set := os.LookupEnv(metadataV1); !set {
		os.Setenv(metadataV1, "true")
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const metadataV1 = "AWS_EC2_METADATA_V1_DISABLED"

// run is main without the process: it returns the exit code. Whatever is printed may quote others, so both streams escape.
func run(args []string, in io.Reader, stdout, stderr io.Writer) int {
	out, errOut := terminal.NewWriter(stdout), terminal.NewWriter(stderr)
	defer errOut.Flush()
	code := execute(args, in, out, errOut)
	if err := out.Flush(); err != nil && code == exitDone { // help, too, which cobra prints without a look
		fmt.Fprintln(errOut, "tierml: writing to standard output: "+err.Error()+remedy(err))
		return exitFailed
	}
	return code
}

// execute runs a command and prints its error.
func execute(args []string, in io.Reader, out, errOut *terminal.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		cli.PlainUsage(root) // shells show it as it is
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(progress.With(context.Background(), progress.New(errOut)))
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[passedCode](err); ok {
		return int(code)
	}
	if missing := cli.MissingFlags(cmd, err); missing != nil {
		err = usageError{missing}
	}
	_ = table.Folded(errOut, func(w io.Writer) error { return printError(w, err) }) // nobody is left to hear of it
	return exitCodeOf(err)
}

func printError(w io.Writer, err error) error {
	text := "tierml: " + err.Error() + remedy(err)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		text = faults.Error() // each line begins with its place, where editors look for it
	}
	if _, ok := errors.AsType[*journal.Damaged](err); ok {
		text += "\ntierml run --resume RUN --skip-damaged leaves such lines out, and continues from the newest checkpoint"
	}
	_, err = fmt.Fprintln(w, text)
	return err
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tierml",
		Short: "Train machine-learning models on machines that can be taken back",
		Long: `TierML trains models and runs programs on a few reliable machines and many cheap ones that can vanish at any minute.
It buys them, keeps the work safe, and reports what it cost and what it would have cost on demand.
New here? Run the examples below in order. They cost nothing: machines are processes on this host.`,
		Example: `  tierml init job.yaml       # asks what to train, and writes a job file
  tierml plan job.yaml       # shows what it would buy, cost and take; starts nothing
  tierml run job.yaml        # trains it, on machines that come and go
  tierml report              # shows what that cost, and what it would have cost on demand`,
		Version:       version(),
		SilenceErrors: true, // printed once, by run
		SilenceUsage:  true, // an error says what to write instead
		Args:          cobra.NoArgs,

		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			defer start.Done()
			return takeSettings(cmd, args)
		},

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("tierml {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{cli.FlagError(cmd, err)}
	})
	root.AddCommand(subcommands()...)
	root.SetGlobalNormalizationFunc(presentName)
	arrange(root)
	markUsageErrors(root)
	complete(root)
	return root
}

// subcommands, in the order of their names.
func subcommands() []*cobra.Command {
	return []*cobra.Command{
		newAgentCommand(),
		newCalibrateCommand(),
		newConfigCommand(),
		newDashboardCommand(),
		newDoctorCommand(),
		newDrillCommand(),
		newDryRunCommand(),
		newEventsCommand(),
		newExecCommand(),
		newFakecloudCommand(),
		newFetchCommand(),
		newHostsCommand(),
		newInitCommand(),
		newLogsCommand(),
		newMarketCommand(),
		newPlanCommand(),
		newPredictCommand(),
		newPricesCommand(),
		newPsCommand(),
		newLeaksCommand(),
		newDownCommand(),
		newReportCommand(),
		newRunCommand(),
		newScaleCommand(),
		newServerCommand(),
		newSSHCommand(),
		newForwardCommand(),
		newStateCommand(),
		newPauseCommand(),
		newWhyCommand(),
		newSweepCommand(),
		newResumeCommand(),
		newStopCommand(),
		newTopCommand(),
		newTrainCommand(),
		newVersionCommand(),
	}
}

// usageError is a wrong command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// markUsageErrors covers the arguments of a command and of all below it.
func markUsageErrors(cmd *cobra.Command) {
	cmd.Args = usageArgs(cmd.Args)
	for _, sub := range cmd.Commands() {
		markUsageErrors(sub)
	}
}

// usageArgs marks what a check of arguments finds as a wrong command line.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return usageError{cli.ArgsError(cmd, args, err)}
		}
		return nil
	}
}

// remedy is what to do about what any command can meet when it writes.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "; make room on that disk, or choose a place on another one, and start again"
	case errors.Is(err, syscall.EROFS):
		return "; choose a place that can be written"
	case errors.Is(err, fs.ErrPermission):
		return "; change its permissions, or choose another place"
	}
	return ""
}

// exitError is an error with the exit code that it means.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

func exitCodeOf(err error) int {
	if e, ok := errors.AsType[exitError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[config.Faults](err); ok {
		return exitUsage
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	return exitFailed
}

// untilInterrupted returns a context that ends at the first Ctrl-C or SIGTERM. A second one ends the process at
// once, as the signal is no longer caught then.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
