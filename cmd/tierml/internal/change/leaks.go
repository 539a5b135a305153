package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
)

func NewLeaksCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "leaks JOB.yaml",
		Short: "List the machines of a job's cluster that still cost money on EC2 or Compute Engine",
		Long: `Machines past their lease (tag tierml:expires, label tierml-expiry) are leaks; the exit code is then 1. On Compute Engine stopped
machines are listed, too: their disks cost money. tierml down terminates all of these machines.`,
		Example: `  tierml leaks job.yaml
  tierml leaks job.yaml -o json`,
		Args: cli.OneJobFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			left, err := openHoldings(cmd.Context(), args[0], "", "")
			if err != nil {
				return err
			}
			defer left.cloud.Close()
			left.format = format
			live, err := left.list(cmd.Context(), cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if format == table.Plain || format == table.Wide {
				left.printServers(cmd.Context(), args[0], cmd.OutOrStdout())
				left.ours(live, cmd.OutOrStdout())
			}
			if expired := len(overdue(live)); expired > 0 {
				return cli.Exit(cli.ExitFailed, fmt.Errorf("%d of %d machines are leaks: no job needs them any more; end them with `tierml down --expired %s`", expired, len(live), args[0]))
			}
			if len(live) > 0 {
				cli.Next(cmd, cli.Step{Command: "tierml down " + args[0], Why: "ends all of them, after asking"})
			}
			return nil
		},
	}
	cli.OutputFlag(cmd, &format)
	return cmd
}

func NewDownCommand() *cobra.Command {
	var run, cluster string
	var yes, expired bool
	cmd := &cobra.Command{
		Use:   "down JOB.yaml",
		Short: "Terminate the machines of a job's cluster on EC2 or Compute Engine",
		Long: `It asks first, and waits until all have ended. Stop a run before you end its machines, or it buys others. --expired is safe
at any time, even from a timer with -y. The settings from terraform output work instead of a job file.

In the default cluster, tierml, which others may share, only machines of the job file's owner are ended, unless --cluster tierml,
--run or --expired is given.`,
		Example: `  tierml down job.yaml
  tierml down --expired -y job.yaml
  tierml down --run ratings-1-0a1b2c3d -y job.yaml`,
		Args: cli.OneJobFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			defer stop()
			left, err := openHoldings(ctx, args[0], run, cluster)
			if err != nil {
				return err
			}
			defer left.cloud.Close()
			in, out := cmd.InOrStdin(), cmd.OutOrStdout()
			live, err := left.list(ctx, out)
			if err == nil {
				left.printServers(ctx, args[0], out)
			}
			switch {
			case err == nil && expired:
				total := len(live)
				if live = overdue(live); total > 0 {
					fmt.Fprintf(out, "%d of %d machines are leaks.\n", len(live), total)
				}
			case err == nil:
				live = left.ours(live, out)
			}
			if err == nil && len(live) > 0 {
				if err = cli.Confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), yes); err == nil {
					err = left.end(ctx, live, out)
				}
			}
			if err == nil && !expired && left.cloud.Traits().Leftovers {
				err = left.cloud.RemoveLeftovers(ctx)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "only machines of the run with this `name`")
	cmd.Flags().StringVar(&cluster, "cluster", "", "machines of the cluster with this `name`, of any owner")
	cmd.Flags().BoolVar(&expired, "expired", false, "only leaks: machines past their lease")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "proceed without asking")
	return cmd
}

// EndExpired ends a cluster's machines whose lease has expired.
func EndExpired(ctx context.Context, file string, log *slog.Logger) error {
	left, err := openHoldings(ctx, file, "", "")
	if err != nil {
		return err
	}
	defer left.cloud.Close()
	ctx, cancel := context.WithTimeout(ctx, EndWithin)
	defer cancel()
	live, err := left.cloud.Holdings(ctx)
	if err != nil {
		return err
	}
	over := idsOf(overdue(live))
	if len(over) == 0 {
		return nil
	}
	log.Warn("ending machines that no job needs any more", "cluster", left.where, "machines", over)
	return left.cloud.Terminate(ctx, over...)
}

// holdings are a cluster's possessions on a real cloud.
type holdings struct {
	cloud       providers.Account
	job         *config.Job
	name, where string
	format      string // of lists; empty = a table
	// others is the cluster's default name, which all jobs without a name of their own share; empty = the user has
	// named the cluster, or one of its runs, and means all its machines. Otherwise only the owner's are selected.
	others, owner string
}

func openHoldings(ctx context.Context, file, run, cluster string) (*holdings, error) {
	job, err := config.LoadCluster(file)
	if err != nil {
		return nil, err
	}
	if job.Block == nil {
		return nil, job.Fault("cloud", "cloud: "+job.Cloud+" leaves no machines behind", config.NameRealCloud())
	}
	if cluster != "" {
		job.Block.Shared().Cluster = cluster
	}
	account, err := target.OpenAccount(ctx, job, run)
	at := job.Installation() // the cloud may have supplied its region
	l := &holdings{job: job, cloud: account, name: at.Name, where: fmt.Sprintf("cluster %s in %s", at.Cluster, at.Region), owner: at.Owner}
	if !at.ClusterNamed && run == "" && cluster == "" {
		l.others = at.Cluster
	}
	return l, err
}

// list prints what has not ended.
func (l *holdings) list(ctx context.Context, out io.Writer) ([]provisioner.Holding, error) {
	bar := progress.Start(ctx, "Asking for the machines of "+l.where, 0, progress.Things)
	live, err := l.cloud.Holdings(ctx)
	bar.Done()
	if err != nil {
		return nil, providers.Advice(l.job, err)
	}
	machineReadable := l.format == table.JSON || l.format == table.CSV
	if len(live) == 0 && !machineReadable {
		fmt.Fprintf(out, "No machine of %s is left.\n", l.where)
		return nil, nil
	}
	now, _ := clock.Between()
	t := table.Table{Columns: []table.Column{
		{Name: "machine", Title: "MACHINE"}, {Name: "type", Title: "TYPE"}, {Name: "zone", Title: "ZONE"}, {Name: "terms", Title: "TERMS"},
		{Name: "state", Title: "STATE"}, {Name: "run", Title: "RUN"}, {Name: "owner", Title: "OWNER"}, {Name: "age_seconds", Title: "AGE"},
		{Name: "wanted_until", Title: "WANTED UNTIL"}, {Name: "leak"},
	}}
	for _, h := range live {
		until := table.Cell{Text: "unknown", Value: ""}
		if !h.Expires.IsZero() {
			until = cli.Minute(h.Expires)
		}
		if h.Overdue(now) {
			until.Text += " (over)"
		}
		age := now.Sub(h.Launched)
		t.Rows = append(t.Rows, []table.Cell{table.Of(h.ID), table.Of(h.Pool.Type), table.Of(h.Pool.Zone), table.Of(h.Pool.Class), table.Of(h.State),
			table.Of(h.Job), table.Of(h.Owner), {Text: age.Round(time.Minute).String(), Value: age.Seconds()}, until, table.Of(h.Overdue(now))})
	}
	return live, t.Write(out, cmp.Or(l.format, table.Plain))
}

// printServers lists the machines of the cluster's job servers, which are not leaks: whether they are still wanted is unknown here.
func (l *holdings) printServers(ctx context.Context, file string, out io.Writer) {
	found, err := l.cloud.Controllers(ctx)
	if err != nil {
		fmt.Fprintf(out, "Whether the cluster has a job server is unknown: %v\n", err)
		return
	}
	for _, c := range found {
		fmt.Fprintf(out, "%s (%s in %s, %s) is the cluster's job server and left alone; `tierml server stop %s` ends it.\n", c.ID, c.Type, c.Zone, c.State, file)
	}
}

// ours keeps the machines that the user presumably means, and returns the owners of the others.
func (l *holdings) ours(live []provisioner.Holding, out io.Writer) []provisioner.Holding {
	if l.others == "" {
		return live
	}
	var own []provisioner.Holding
	owners := map[string]int{}
	for _, h := range live {
		if l.owner != "" && h.Owner == l.owner {
			own = append(own, h)
			continue
		}
		owners[cmp.Or(h.Owner, "nobody by name")]++
	}
	if len(own) == len(live) {
		return own
	}
	var whose []string
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		whose = append(whose, fmt.Sprintf("%d of %s", owners[name], name))
	}
	fmt.Fprintf(out, "The job file does not name its cluster, and others use the default too. %d of %d machines may be theirs (%s): `tierml down`\n"+
		"leaves them alone. If all are yours, write cluster: %s into the job file, or add --cluster %[4]s.\n",
		len(live)-len(own), len(live), strings.Join(whose, ", "), l.others)
	return own
}

// overdue returns the machines whose lease has expired. A job server runs for months, and its host's clock may be
// adjusted meanwhile.
func overdue(live []provisioner.Holding) []provisioner.Holding {
	now, _ := clock.Between()
	return slices.DeleteFunc(slices.Clone(live), func(h provisioner.Holding) bool { return !h.Overdue(now) })
}

func idsOf(live []provisioner.Holding) []provisioner.InstanceID {
	ids := make([]provisioner.InstanceID, len(live))
	for i, h := range live {
		ids[i] = h.ID
	}
	return ids
}

const (
	LookAgain = 2 * time.Second
	// EndWithin is how long a cloud may take to end machines; any left after that are reported prominently.
	EndWithin = 10 * time.Minute
)

// end terminates machines and waits until they are gone.
func (l *holdings) end(ctx context.Context, live []provisioner.Holding, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, EndWithin)
	defer cancel()
	ids := idsOf(live)
	bar := progress.Start(ctx, "Waiting until they are gone", int64(len(live)), progress.Things)
	defer bar.Done()
	out = progress.From(ctx).Writer(out)
	for asked := false; ; {
		err := l.cloud.Terminate(ctx, ids...)
		if err != nil && (errors.Is(err, provisioner.ErrDenied) || ctx.Err() != nil) {
			return l.remain(ids, providers.Advice(l.job, err))
		}
		if err == nil && !asked {
			asked = true
			fmt.Fprintf(out, "Asked %s to end %d machines; waiting until they have ended.\n", l.name, len(ids))
		}
		left, err := l.cloud.Holdings(ctx)
		if err == nil {
			if ids = remaining(ids, left); len(ids) == 0 {
				bar.Done()
				fmt.Fprintln(out, "All have ended.")
				return nil
			}
			bar.Set(len(live)-len(ids), len(live))
		}
		select {
		case <-time.After(LookAgain):
		case <-ctx.Done():
			return l.remain(ids, context.Cause(ctx))
		}
	}
}

// remaining returns those machines that have not ended.
func remaining(ids []provisioner.InstanceID, live []provisioner.Holding) (left []provisioner.InstanceID) {
	alive := map[provisioner.InstanceID]bool{}
	for _, h := range live {
		alive[h.ID] = true
	}
	for _, id := range ids {
		if alive[id] {
			left = append(left, id)
		}
	}
	return left
}

func (l *holdings) remain(ids []provisioner.InstanceID, why error) error {
	return cli.Exit(cli.ExitFailed, fmt.Errorf("MACHINES ARE LEFT and cost money: %v of %s: %w", ids, l.where, why))
}
