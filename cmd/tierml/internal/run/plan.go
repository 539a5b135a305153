package run

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/planner"
)

func NewPlanCommand() *cobra.Command {
	var format string
	var o RunOptions
	cmd := &cobra.Command{
		Use:   "plan JOB.yaml | SCRIPT | FOLDER | DATA | -- COMMAND",
		Short: "Show what a job would buy, and its expected cost and time, without starting anything",
		Long: `-o wide gives a reason for every pool, -o csv prints only the pools. docs/job.md describes the job file. For a file of shared
hosts (docs/hosts.md) it shows the most that may be bought, and its cost per hour. With --server, the job server makes the plan, and adds
when it would start the job, with how many workers, and the alternatives; -o json prints only these.`,
		Example: `  tierml plan examples/demo.yaml
  tierml plan examples/demo.yaml -o json
  tierml plan --on shared-1 examples/demo.yaml
  tierml plan --server http://localhost:7071 examples/demo.yaml`,
		Args: func(cmd *cobra.Command, args []string) error { return o.Job.Take(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := o.Job.LoadAny()
			if err == nil && job.IsHosts() {
				if err := showHostsPlan(cmd.Context(), job, cmd.OutOrStdout(), format); err != nil {
					return err
				}
				cli.Next(cmd, cli.Step{Command: "tierml hosts " + o.Job.File, Why: "shows what may be bought, and asks before it begins"})
				return nil
			}
			if err == nil && o.at.URL != "" && o.at.URL != target.NoServer && o.hosts == "" {
				return planAt(cmd, &o, format)
			}
			if err == nil {
				job, err = firstTrial(job, cmd.OutOrStdout(), format)
			}
			if err == nil {
				err = VerifyInputs(job, false)
			}
			if err != nil {
				return err
			}
			if o.hosts != "" {
				if _, err := TimeAt(cmd.Context(), &o, job, ResumePoint{}); err != nil {
					return err
				}
			}
			p, err := prepare.Plan(cmd.Context(), job, prepare.SlotMarket(o.Endpoint))
			if err == nil && o.hosts == "" { // the cost of slots is unknown
				err = p.Predict(cmd.Context())
			}
			if err != nil {
				return err
			}
			if err := PrintPlan(cmd.OutOrStdout(), p.Plan, job, format); err != nil {
				return err
			}
			if err := p.TryCloud(cmd.Context(), cmd.ErrOrStderr()); err != nil {
				return err
			}
			cli.Next(cmd, cli.Step{Command: "tierml run " + o.Job.String(), Why: "shows this plan and asks before it buys"},
				cli.Step{Command: "tierml dry-run " + o.Job.String(), Why: "what it would have cost from other starts, by every policy"})
			return nil
		},
	}
	cli.OutputFlag(cmd, &format)
	o.Job.Flags(cmd)
	o.at.Flags(cmd)
	cmd.Flags().StringVar(&o.hosts, "on", "", "plan with slots of this `run` of shared hosts")
	return cmd
}

// planAt has a job server plan a job.
func planAt(cmd *cobra.Command, o *RunOptions, format string) error {
	client, err := o.at.Client(cmd, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := o.submission(cmd.Context(), client, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if format != table.JSON {
		return client.Plan(cmd.Context(), s, cmd.OutOrStdout())
	}
	found, err := client.Outlook(cmd.Context(), s)
	if err != nil {
		return err
	}
	return table.WriteJSON(cmd.OutOrStdout(), found)
}

// firstTrial returns the first trial of an application's sweep, after checking the settings of all; without a sweep, it
// returns the job itself.
func firstTrial(job *config.Job, out io.Writer, format string) (*config.Job, error) {
	trials := job.TrialJobs()
	if len(trials) == 0 {
		return job, nil
	}
	kind, err := all.Registry().Find(job.Train.App)
	if err != nil {
		return nil, job.Fault("train.app", err.Error(), "docs/applications.md lists the applications")
	}
	for _, trial := range trials {
		if _, err := apps.Params(trial.Train.Params).Resolve(kind.Params()); err != nil {
			return nil, job.Fault("sweep.params", err.Error(), "")
		}
	}
	if format != table.JSON && format != table.CSV {
		fmt.Fprintf(out, "%d trials, each a job; the plan of the first:\n\n", len(trials))
	}
	return trials[0], nil
}

func PrintPlan(out io.Writer, plan *planner.Plan, job *config.Job, format string) error {
	if format == table.JSON || format == table.CSV {
		return planTable(plan.Details()).Write(out, format)
	}
	if format == table.Wide {
		if err := planTable(plan.Details()).Write(out, format); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return plan.WriteText(out, planner.Style{Color: cli.UseColor(out), Speed: job.Local.Speed, Width: table.Width(out)})
}

// planTable lists the considered pools.
func planTable(d journal.PlanDetails) table.Table {
	t := table.Table{Data: d, Columns: []table.Column{
		{Name: "pool", Title: "POOL"}, {Name: "chosen", Title: "CHOSEN"}, {Name: "usd_per_hour", Title: "$/HOUR"},
		{Name: "on_demand_usd_per_hour", Title: "ON-DEMAND"}, {Name: "saving", Title: "SAVING"}, {Name: "bid_usd_per_hour", Title: "BID"},
		{Name: "mttf_seconds", Title: "MTTF"}, {Name: "capacity", Title: "CAPACITY"}, {Name: "machines", Title: "MACHINES"}, {Name: "why", Title: "WHY"},
	}}
	for _, p := range d.Pools {
		t.Rows = append(t.Rows, []table.Cell{table.Of(p.Pool), table.Of(p.Chosen), table.Of(p.Price), table.Of(p.OnDemand),
			{Text: fmt.Sprintf("%.0f%%", 100*p.Saving), Value: p.Saving}, table.Of(p.Bid), {Text: words.Duration(p.MTTF), Value: p.MTTF},
			table.Of(p.Capacity), table.Of(p.Count), table.Of(p.Why)})
	}
	return t
}

// showHostsPlan determines what shared hosts may buy, and prints it.
func showHostsPlan(ctx context.Context, job *config.Job, out io.Writer, format string) error {
	p, err := prepare.Hosts(ctx, job, &jobrun.Hosts{})
	if err != nil {
		return err
	}
	plan := prepare.PlanHosts(p)
	t := table.Table{Data: plan, Columns: []table.Column{{Name: "pool", Title: "POOL"}, {Name: "tier", Title: "TIER"}, {Name: "vcpu", Title: "VCPU"},
		{Name: "memory_mib", Title: "MEMORY"}, {Name: "most", Title: "AT MOST"}, {Name: "usd_per_hour", Title: "$/HOUR EACH"}}}
	for _, h := range plan.Pools {
		t.Rows = append(t.Rows, []table.Cell{table.Of(h.Pool), table.Of(h.Tier), table.Of(h.Size.VCPU),
			{Text: fmt.Sprintf("%d MiB", h.Size.MemoryMiB), Value: h.Size.MemoryMiB}, table.Of(h.Most), cli.Money(h.PerHour)})
	}
	if format == table.JSON || format == table.CSV {
		return t.Write(out, format)
	}
	if err := prepare.DescribeHosts(out, p); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := t.Write(out, format); err != nil {
		return err
	}
	fmt.Fprint(out, "\nTogether they cost ")
	if plan.PerHour != "" {
		fmt.Fprintf(out, "at most %s an hour at the starting prices, and ", cli.Cents(plan.PerHour))
	}
	_, err = fmt.Fprintf(out, "%s an hour if spot costs as much as on demand.\nThe largest slot has %s.\n", cli.Cents(plan.OnDemand), plan.SlotsText())
	return err
}
