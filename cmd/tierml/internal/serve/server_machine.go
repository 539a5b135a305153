package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/change"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/terraform"
)

// The commands below `tierml server` are for the machine on which one runs: to create it, to inspect it, to end it.

func newServerStartCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "start JOB.yaml",
		Short: "Start an on-demand machine with a job server for a job's cluster",
		Long: `It waits until the job server answers. From then on tierml run submits the cluster's jobs to it. It costs money until tierml
server stop, even while no job runs.`,
		Example: `  tierml server start ratings.yaml
  tierml run ratings.yaml`,
		Args: cli.OneJobFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			defer stop()
			return startServer(ctx, args[0], yes, target.Notes(cmd), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "proceed without asking")
	return cmd
}

// realJob loads a job that buys real machines.
func realJob(file string) (*config.Job, error) {
	job, err := config.Load(file)
	if err == nil && job.Installation() == nil {
		err = job.Fault("cloud", "cloud: "+job.Cloud+" needs no job server elsewhere", config.NameRealCloud()+"; `tierml server` is one of this host")
	}
	return job, err
}

// findServers opens the account of a job's cluster, which the caller closes, and lists its job servers.
func findServers(ctx context.Context, file string) (*config.Job, providers.Account, []provisioner.Controller, error) {
	job, err := realJob(file)
	if err != nil {
		return nil, nil, nil, err
	}
	account, err := target.OpenAccount(ctx, job, "")
	if err != nil {
		return nil, nil, nil, err
	}
	found, err := account.Controllers(ctx)
	if err != nil {
		account.Close()
		return nil, nil, nil, providers.Advice(job, err)
	}
	return job, account, found, nil
}

func startServer(ctx context.Context, file string, yes bool, note func(string), in io.Reader, out io.Writer) error {
	job, account, found, err := findServers(ctx, file)
	if err != nil {
		return err
	}
	defer account.Close()
	at := job.Installation()
	shelf, err := reach.UserRegistry()
	if err != nil {
		return err
	}
	p := reach.PlaceOf(at)
	p.Instance = "" // the machine named by the job file is gone, or it must be found
	token, begun := beginning(shelf, p)
	meant, others := reach.Meant(at, found, target.KnownHere())
	switch {
	case len(meant) > 0 && (!begun || len(meant) > 1):
		return cli.Usage(fmt.Errorf("cluster %s has a job server: %s, %s; `tierml run %s` uses it", at.Cluster, meant[0].ID, meant[0].State, file))
	case len(others) > 0 && !begun: // repeating an unfinished start requests the same machine, which may be listed here
		return cli.Usage(reach.Foreign(at, others[0], file))
	}
	if !begun {
		token = access.Random()
	}
	allow, err := job.Endpoints()
	if err != nil {
		return err
	}
	provider, err := providers.Of(job)
	if err != nil {
		return err
	}
	r, err := reach.Request(job, boot.Server(at, provider.Boot(at), string(job.Settings()), allow, terraform.Units(), token.SHA256()))
	if err != nil {
		return err
	}
	if len(meant) == 0 {
		fmt.Fprintf(out, "Starts an on-demand %s in %s of %s, with a disk of %d GB, for cluster %s.\nIt costs %suntil `tierml server stop %s`, even while no job runs.\n\n",
			r.Type, r.Zone, at.Name, r.DiskGiB, at.Cluster, hourly(at, r.Type), file)
		if err := cli.Confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), yes); err != nil {
			return err
		}
		if err := errors.Join(shelf.KeepToken(p, token), shelf.Keep(p, "")); err != nil { // before the machine is requested: it may outlive this process
			return err
		}
		one, err := account.StartController(ctx, r)
		switch {
		case err != nil && !provisioner.Retryable(err):
			return errors.Join(providers.Advice(job, err), shelf.Forget(p))
		case err != nil:
			return fmt.Errorf("%w\nWhether it was started is unknown; the same command requests the same machine again", providers.Advice(job, err))
		}
		fmt.Fprintf(out, "%s has %s in %s. Waiting until the job server answers; Ctrl-C ends only the wait.\n", at.Name, one.ID, one.Zone)
		p.Instance, p.Zone = one.ID, one.Zone
	} else {
		p.Instance, p.Zone = meant[0].ID, meant[0].Zone
		fmt.Fprintf(out, "%s exists already, %s. Waiting until the job server answers; Ctrl-C ends only the wait.\n", p.Instance, meant[0].State)
	}
	if err := errors.Join(shelf.Keep(p, ""), shelf.KeepSettings(p, job.SettingsHere())); err != nil {
		return err
	}
	if err := awaitServer(ctx, shelf, p, token, note); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The job server is ready.\nRun   tierml run %s\nEnd   tierml server stop %[1]s\n", file)
	return err
}

// beginning returns the token of an unfinished start: repeating the request with it returns the same machine.
func beginning(shelf reach.Registry, p reach.Place) (token access.Token, begun bool) {
	known, err := shelf.Known()
	if err != nil {
		return token, false
	}
	for _, k := range known {
		if k.Place == p {
			token, err = access.Read(shelf.TokenFile(p))
			return token, err == nil
		}
	}
	return token, false
}

// hourly returns the hourly price of a machine, by the catalog; empty if unknown.
func hourly(at *config.Installation, kind string) string {
	catalog, err := local.ReadCatalog(at.Catalog)
	if err != nil {
		return ""
	}
	if t, there := catalog.Lookup(at.Region, kind); there {
		return fmt.Sprintf("$%s an hour and its disk ", t.OnDemand)
	}
	return ""
}

// serverWithin is how long a machine may take until its job server answers: it boots, fetches the program, and its
// provider's agent must report before a session can be opened.
const serverWithin = 10 * time.Minute

func awaitServer(ctx context.Context, shelf reach.Registry, p reach.Place, token access.Token, note func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, serverWithin)
	defer cancel()
	for said := ""; ; {
		way, err := shelf.Connect(ctx, p, token, note)
		if err == nil {
			way.Close()
			return nil
		}
		if errors.Is(err, reach.ErrMissing) {
			return fmt.Errorf("%w\nThe machine runs; once that is fixed, `tierml run` uses it, and `tierml server stop` ends it", err)
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		if first != said && ctx.Err() == nil {
			note("Not yet: " + first)
			said = first
		}
		select {
		case <-ctx.Done():
			return cli.Exit(cli.ExitInterrupted, fmt.Errorf("stopped waiting: %s; the machine runs, and costs money until `tierml server stop`", first))
		case <-time.After(change.LookAgain):
		}
	}
}

func newServerStopCommand() *cobra.Command {
	var yes, force bool
	cmd := &cobra.Command{
		Use:   "stop JOB.yaml",
		Short: "End the machine of a cluster's job server",
		Long: `It asks first, and deletes the disk with journals, reports and models: copy them with tierml fetch. It refuses while any job
is unfinished or the job server does not answer, unless --force is given.`,
		Example: `  tierml fetch ratings
  tierml server stop ratings.yaml`,
		Args: cli.OneJobFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			defer stop()
			return stopServer(ctx, args[0], yes, force, target.Notes(cmd), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "proceed without asking")
	cmd.Flags().BoolVar(&force, "force", false, "end it even if jobs run; their machines stop after orphan_after")
	return cmd
}

func stopServer(ctx context.Context, file string, yes, force bool, note func(string), in io.Reader, out io.Writer) error {
	job, account, found, err := findServers(ctx, file)
	if err != nil {
		return err
	}
	defer account.Close()
	at := job.Installation()
	shelf, err := reach.UserRegistry()
	if err != nil {
		return err
	}
	p := reach.PlaceOf(at)
	if len(found) == 0 {
		fmt.Fprintf(out, "Cluster %s in %s has no job server.\n", at.Cluster, at.Region)
		return shelf.Forget(p)
	}
	meant, others := reach.Meant(at, found, target.KnownHere())
	if len(meant) == 0 {
		return cli.Usage(reach.Foreign(at, others[0], file))
	}
	found = meant
	if p, err = reach.Choose(p, found, file); err != nil && (len(found) > 1 || !force) {
		return cli.Usage(fmt.Errorf("%w\nWhether it has jobs is unknown while it does not run; --force ends it anyway", err))
	}
	one := found[0]
	for _, c := range found {
		if c.ID == p.Instance {
			one = c
		}
	}
	kept := 0
	if !force {
		if kept, err = overJobs(ctx, p, note); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "Ends %s (%s in %s), the job server of cluster %s. Its disk is deleted with it", one.ID, one.Type, one.Zone, at.Cluster)
	if kept > 0 {
		fmt.Fprintf(out, ": journals, reports and models\nof %d runs, which `tierml fetch` copies", kept)
	}
	fmt.Fprint(out, ".\n\n")
	if err := cli.Confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), yes); err != nil {
		return err
	}
	if err := account.EndController(ctx, one); err != nil {
		return fmt.Errorf("%w\nA machine that Terraform made is protected; `terraform destroy` ends it (terraform/README.md)", providers.Advice(job, err))
	}
	if err := awaitGone(ctx, account, one); err != nil {
		return err
	}
	fmt.Fprintln(out, "It has ended.")
	return shelf.Forget(p)
}

// overJobs describes the runs of a job server, all of which must have ended.
func overJobs(ctx context.Context, p reach.Place, note func(string)) (int, error) {
	var at target.Flags
	client, err := at.Connect(ctx, p, note)
	if err != nil {
		return 0, fmt.Errorf("%w\nWhether jobs run there is unknown; --force ends it anyway", err)
	}
	defer client.Close()
	jobs, err := client.Jobs(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w\nWhether jobs run there is unknown; --force ends it anyway", err)
	}
	if goes := reach.Goes(jobs); len(goes) > 0 {
		return 0, cli.Usage(fmt.Errorf("%s: not finished yet; wait, or end it first: tierml stop %s", strings.Join(goes, ", "), goes[0]))
	}
	return len(jobs), nil
}

// awaitGone waits until a job server's machine is no longer listed.
func awaitGone(ctx context.Context, account providers.Account, one provisioner.Controller) error {
	ctx, cancel := context.WithTimeout(ctx, change.EndWithin)
	defer cancel()
	for {
		left, err := account.Controllers(ctx)
		if err == nil {
			gone := true
			for _, c := range left {
				gone = gone && c.ID != one.ID
			}
			if gone {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return cli.Exit(cli.ExitFailed, fmt.Errorf("%s was terminated but is still listed; check the provider's console", one.ID))
		case <-time.After(change.LookAgain):
		}
	}
}

func newServerTunnelCommand() *cobra.Command {
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "tunnel JOB.yaml",
		Short: "Open a tunnel to a cluster's job server, until Ctrl-C",
		Long:  `It prints the address of the dashboard and the file with its token. The name of a known cluster works instead of the job file.`,
		Example: `  tierml server tunnel ratings.yaml
  tierml server tunnel tierml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one job file, or a cluster that a job was put on")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			defer stop()
			p, err := target.MeantPlace(ctx, args[0])
			if err != nil {
				return err
			}
			client, err := at.Connect(ctx, p, target.Notes(cmd))
			if err != nil {
				return err
			}
			defer client.Close()
			shelf, err := reach.UserRegistry()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is at %s until Ctrl-C.\nIts token is in %s\n", p, client.Address(), shelf.TokenFile(p))
			<-ctx.Done()
			return nil
		},
	}
	return cmd
}
