package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/providers"
)

func NewDoctorCommand() *cobra.Command {
	var format, directory string
	var setup jobmanager.Setup
	cmd := &cobra.Command{
		Use:   "doctor [JOB.yaml]",
		Short: "Check that everything a job needs is present, and say how to fix what is not",
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
				return cli.Usage(errors.New("--hosts, --slots and --groups are about a --scheduler, such as drf"))
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
	cmd.Flags().StringVar(&setup.Scheduler, "scheduler", "", "check what a job server with this `policy` needs; the other flags are about it")
	cmd.Flags().StringVar(&setup.Hosts, "hosts", "", "`file` of shared machines")
	cmd.Flags().IntVar(&setup.Slots, "slots", 0, "`number` of machines of jobs' own")
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
		checks = append(checks, checksOf(job)...)
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

// checksOf are those of a job.
func checksOf(job *config.Job) []doctor.Check {
	var checks []doctor.Check
	if job.IsHosts() {
		return prepare.ChecksOfHosts(job)
	}
	if job.IsProgram() {
		checks = checksOfProgram(job)
	}
	if job.Train.Data != "" {
		checks = append(checks, doctor.Readable("training data", job.Train.Data, blob.Open))
	}
	if job.Cloud == config.CloudLocal {
		return append(checks, doctor.Prices(job, local.Load))
	}
	at := job.Installation()
	if at == nil {
		return checks
	}
	client := &http.Client{Timeout: 20 * time.Second}
	provider, err := providers.Of(job)
	if err != nil {
		return append(checks, doctor.Check{Name: "cloud", Look: func(context.Context) (string, error) { return "", err }})
	}
	// A provider without an address of its own looks at its endpoint itself, whose certificate this host may not know.
	if own := provider.Facts().Endpoint; own != "" {
		address := cmp.Or(at.Endpoint, strings.ReplaceAll(own, "{region}", at.Region))
		checks = append(checks, doctor.Endpoint(address, client, time.Now))
	}
	if at.Listen != "" {
		host, _, _ := net.SplitHostPort(at.Listen) // it was checked
		checks = append(checks, doctor.Listening("listen address", net.JoinHostPort(host, "0"), "write an address of this host, by which machines reach it"))
	}
	checks = append(checks, provider.Checks(job)...)
	if at.Catalog != "" {
		checks = append(checks, catalogCheck(at))
	}
	switch {
	case at.Program.URL == "": // an image has it
	case strings.HasPrefix(at.Program.URL, "http"):
		checks = append(checks, doctor.Fetchable("program", at.Program.URL, client))
	default:
		checks = append(checks, doctor.Readable("program", at.Program.URL, blob.Open))
	}
	if job.Checkpoint.To != "" {
		store := doctor.Store{Write: blob.Write, Open: blob.Open, Remove: blob.Remove, Join: location.Join}
		checks = append(checks, store.Check(job.Checkpoint.To, rand.Text()[:8]))
	}
	return checks
}

// checksOfProgram are those of a program of the user's own: what it brings along.
func checksOfProgram(job *config.Job) (checks []doctor.Check) {
	if job.Workdir != "" {
		checks = append(checks, doctor.Check{Name: "workdir", Look: func(ctx context.Context) (string, error) {
			w, err := prepare.MeasureWorkdir(ctx, job)
			if err != nil {
				return "", doctor.Wrong("name in its .tierignore what the program does not need", "%v", err)
			}
			return fmt.Sprintf("%s in %d files, %s packed", progress.Size(w.Bytes), w.Files, progress.Size(w.Packed)), nil
		}})
	}
	if len(job.Secrets) > 0 {
		checks = append(checks, doctor.Check{Name: "secrets", Look: func(context.Context) (string, error) {
			if _, err := job.ReadSecrets(os.LookupEnv); err != nil {
				return "", doctor.Wrong("give each a value where tierml run is started, or a file", "%v", err)
			}
			return fmt.Sprintf("%d have values", len(job.Secrets)), nil
		}})
	}
	if job.Image != "" && job.Installation() == nil {
		checks = append(checks, doctor.Containers(program.Runtime))
	}
	return checks
}

// catalogCheck looks at a list of machine types that the job brings along.
func catalogCheck(at *config.Installation) doctor.Check {
	return doctor.Check{Name: "catalog", Look: func(context.Context) (string, error) {
		c, err := local.ReadCatalog(at.Catalog)
		if err != nil {
			return "", &doctor.Problem{What: err.Error(), Advice: "docs/prices.md says what a catalog looks like"}
		}
		if n := len(c.Types(at.Region)); n > 0 {
			return fmt.Sprintf("%d types of %s", n, at.Region), nil
		}
		return "", &doctor.Problem{What: "it has no types of " + at.Region, Advice: "name a catalog with " + at.Region}
	}}
}
