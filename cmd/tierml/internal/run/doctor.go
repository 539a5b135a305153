package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobrun/prepare"
)

func NewDoctorCommand() *cobra.Command {
	var format, directory string
	var setup jobmanager.Setup
	cmd := &cobra.Command{
		Use:   "doctor [JOB.yaml]",
		Short: "Check that everything a job needs is present, and explain how to fix problems",
		Long: `Without a job file it checks this host. The file may also describe shared hosts (docs/hosts.md). It buys nothing; on a real
cloud it writes one small object where checkpoints go, and removes it. With --scheduler and the flags of tierml server it checks what
such a job server needs, and whether the job would ever start there. The exit code is 1 when a check has failed; warnings do not count.`,
		Example: `  tierml doctor
  tierml doctor job.yaml
  tierml doctor job.yaml -o json
  tierml doctor --scheduler feedback --hosts examples/hosts.yaml job.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("name one job file; there are %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if setup.Scheduler == "" && (setup.Hosts != "" || setup.Slots != 0 || setup.Groups != "") {
				return cli.Usage(errors.New("--hosts, --slots and --groups need a --scheduler, such as drf"))
			}
			setup.TokenFile = filepath.Join(directory, "token")
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			defer stop()
			if err := examine(ctx, args, setup, format, cmd.OutOrStdout()); err != nil {
				return err
			}
			next := cli.Step{Command: "tierml init", Why: "writes a job file, by asking"}
			if len(args) == 1 {
				next = cli.Step{Command: "tierml plan " + args[0], Why: "what it would buy and cost; starts nothing"}
			}
			cli.Next(cmd, next)
			return nil
		},
	}
	cli.OutputFlag(cmd, &format)
	cmd.Flags().StringVar(&setup.Scheduler, "scheduler", "", "check what a job server with this `policy` needs")
	cmd.Flags().StringVar(&setup.Hosts, "hosts", "", "`file` of shared machines")
	cmd.Flags().IntVar(&setup.Slots, "slots", 0, "`number` of transient machines for all jobs together")
	cmd.Flags().StringVar(&setup.Groups, "groups", "", "`file` of groups")
	cmd.Flags().StringVar(&directory, "directory", ".", "the job server's `directory`")
	return cmd
}

func examine(ctx context.Context, args []string, setup jobmanager.Setup, format string, out io.Writer) error {
	var checks []doctor.Check
	machines := 0
	var job *config.Job
	if len(args) == 1 {
		loaded, err := config.LoadAny(args[0])
		checks = append(checks, doctor.Check{Name: "job file", Look: func(context.Context) (string, error) {
			if err != nil {
				return "", &doctor.Problem{What: err.Error(), Advice: "tierml plan " + args[0] + " shows all mistakes; docs/job.md has every field"}
			}
			return args[0] + " can be read", nil
		}})
		if job = loaded; job != nil {
			machines = job.Resources.Count.Most + job.Reliable.Count
		}
	}
	checks = append(checks, doctor.Disk(rundir.Root, doctor.FreeBytes), doctor.OpenFiles(machines, doctor.FileLimit),
		doctor.Listening("ports", "127.0.0.1:0", "look at the host's firewall and limits: every run listens on loopback ports"), doctor.Year(time.Now))
	if job != nil {
		checks = append(checks, prepare.ChecksOf(job)...)
	}
	if setup.Scheduler != "" {
		checks = append(checks, setup.Checks(job)...)
	}
	results := doctor.Run(ctx, checks, func(r doctor.Result) {
		if format == table.Plain {
			_ = r.WriteLine(out, cli.UseColor(out)) // a result that cannot be shown is in the exit code
		}
	})
	if format != table.Plain {
		if err := doctor.Table(results).Write(out, format); err != nil {
			return err
		}
	}
	failed := doctor.Count(results, doctor.Failed)
	if failed > 0 {
		return cli.Exit(cli.ExitFailed, fmt.Errorf("%d of %d checks failed", failed, len(results)))
	}
	if format == table.Plain {
		fmt.Fprintf(out, "\nReady (%d warnings).\n", doctor.Count(results, doctor.Warning))
	}
	return nil
}
