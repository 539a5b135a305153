// Tierml trains machine-learning models on machines that their provider may reclaim.
//
// Each command has its own file, in a package below internal named after what users do: watch, change, run, markets, serve.
// Results and plans go to standard output, progress and errors to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tierml/tierml/internal/exitcode"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/change"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/markets"
	"github.com/tierml/tierml/cmd/tierml/internal/run"
	"github.com/tierml/tierml/cmd/tierml/internal/serve"
	"github.com/tierml/tierml/cmd/tierml/internal/settings"
	"github.com/tierml/tierml/cmd/tierml/internal/start"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/cmd/tierml/internal/watch"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/jobmanager/reach"
	_ "github.com/tierml/tierml/providers/all" // the sellers of machines
)

const exitCodes = `    0  done
    1  failed, agents kept ending by themselves, or the answer to "Proceed?" was no
    2  the command line or the job file is wrong; nothing was started
    3  ended cleanly before it was done: budget or max_duration is used up
  130  ended cleanly by Ctrl-C`

func main() {
	confine.Main()
	// AWS's SDKs, including the store's, would request a machine's role by version 1 of the metadata service if version 2 does not answer,
	// which a forged request can reach. Setting this variable permits it.
	if _, set := os.LookupEnv(metadataV1); !set {
		os.Setenv(metadataV1, "true")
	}
	config.FindSettings(reach.FindSettings)
	os.Exit(tierml(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const metadataV1 = "AWS_EC2_METADATA_V1_DISABLED"

// tierml is main without the process: it returns the exit code. All output may quote untrusted text, so both streams escape it.
func tierml(args []string, in io.Reader, stdout, stderr io.Writer) int {
	out, errOut := terminal.NewWriter(stdout), terminal.NewWriter(stderr)
	defer errOut.Flush()
	code := execute(args, in, out, errOut)
	if err := out.Flush(); err != nil && code == cli.ExitDone { // including help, which cobra prints without checking
		fmt.Fprintln(errOut, "tierml: writing to standard output: "+err.Error()+cli.Remedy(err))
		return cli.ExitFailed
	}
	return code
}

// execute runs a command and prints its error.
func execute(args []string, in io.Reader, out, errOut *terminal.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		cli.PlainUsage(root) // shells show it unchanged
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(progress.With(context.Background(), progress.New(errOut)))
	if err == nil {
		return cli.ExitDone
	}
	if code, ok := errors.AsType[exitcode.Passed](err); ok {
		return int(code)
	}
	if missing := cli.MissingFlags(cmd, err); missing != nil {
		err = cli.Usage(missing)
	}
	_ = table.Folded(errOut, func(w io.Writer) error { return printError(w, err) }) // a failed write to standard error cannot be reported
	return cli.ExitCodeOf(err)
}

func printError(w io.Writer, err error) error {
	text := "tierml: " + err.Error() + cli.Remedy(err)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		text = faults.Error() // each line begins with its place, where editors look for it
	}
	if _, ok := errors.AsType[*journal.Damaged](err); ok {
		text += "\ntierml resume RUN --skip-damaged leaves such lines out, and continues from the newest checkpoint"
	}
	_, err = fmt.Fprintln(w, text)
	return err
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tierml",
		Short: "Train machine-learning models on machines that can be reclaimed",
		Long: `TierML trains models and runs programs on a few reliable machines and many cheap ones that can vanish at any minute.
It buys them, keeps the work safe, and reports what it cost and what it would have cost on demand.
New here? Run the examples below in order. They cost nothing: machines are processes on this host.`,
		Example: `  tierml init job.yaml       # asks what to train, and writes a job file
  tierml plan job.yaml       # shows what it would buy, with cost and time; starts nothing
  tierml run job.yaml        # trains it, on machines that come and go
  tierml report              # shows what that cost, and what it would have cost on demand`,
		Version:       cli.Version(),
		SilenceErrors: true, // printed once, by run
		SilenceUsage:  true, // an error says what to write instead
		Args:          cobra.NoArgs,

		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			defer start.Done()
			return settings.TakeSettings(cmd, args)
		},

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("tierml {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.Usage(cli.FlagError(cmd, err))
	})
	root.AddCommand(subcommands()...)
	root.SetGlobalNormalizationFunc(target.PresentName)
	arrange(root)
	cli.MarkUsageErrors(root)
	complete(root)
	root.InitDefaultHelpFlag()
	_ = root.Flags().MarkHidden("help") // the last line says how to get help
	return root
}

// subcommands, in order of their names.
func subcommands() []*cobra.Command {
	return []*cobra.Command{
		serve.NewAgentCommand(),
		markets.NewCalibrateCommand(),
		settings.NewConfigCommand(),
		serve.NewDashboardCommand(),
		markets.NewDemoCommand(),
		newDocsCommand(),
		run.NewDoctorCommand(),
		change.NewDrillCommand(),
		markets.NewDryRunCommand(),
		watch.NewEventsCommand(),
		change.NewExecCommand(),
		serve.NewFakecloudCommand(),
		watch.NewFetchCommand(),
		serve.NewHostsCommand(),
		run.NewInitCommand(),
		watch.NewLogsCommand(),
		markets.NewMarketCommand(),
		run.NewPlanCommand(),
		run.NewPredictCommand(),
		markets.NewPricesCommand(),
		watch.NewPsCommand(),
		change.NewLeaksCommand(),
		change.NewDownCommand(),
		watch.NewReportCommand(),
		run.NewRunCommand(),
		change.NewScaleCommand(),
		serve.NewServerCommand(),
		change.NewSSHCommand(),
		change.NewForwardCommand(),
		watch.NewStateCommand(),
		change.NewPauseCommand(),
		watch.NewWhyCommand(),
		watch.NewSweepCommand(),
		run.NewResumeCommand(),
		change.NewRemoveCommand(),
		change.NewStopCommand(),
		watch.NewTopCommand(),
		run.NewTrainCommand(),
		newVersionCommand(),
	}
}
