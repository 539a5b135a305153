package run

import (
	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/plans"
)

func NewPlanCommand() *cobra.Command {
	var format string
	var o RunOptions
	cmd := &cobra.Command{
		Use:   "plan JOB.yaml | SCRIPT | FOLDER | DATA | -- COMMAND",
		Short: "Show what a job would buy, cost and take, without starting anything",
		Long: `-o wide gives a reason for every pool, -o csv the pools alone. docs/job.md describes the job file. For a file of shared hosts
(docs/hosts.md) it shows what may be bought at most, and what an hour of that costs.`,
		Example: `  tierml plan examples/demo.yaml
  tierml plan examples/demo.yaml -o json
  tierml plan --hosts shared-1 examples/demo.yaml`,
		Args: func(cmd *cobra.Command, args []string) error { return o.Job.Take(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := o.Job.LoadAny()
			if err == nil && job.IsHosts() {
				if err := plans.ShowHostsPlan(cmd.Context(), job, cmd.OutOrStdout(), format); err != nil {
					return err
				}
				cli.Next(cmd, cli.Step{Command: "tierml hosts " + o.Job.File, Why: "shows what may be bought, and asks before it begins"})
				return nil
			}
			if err == nil {
				job, err = plans.FirstTrial(job, cmd.OutOrStdout(), format)
			}
			if err == nil {
				err = plans.VerifyInputs(job, false)
			}
			if err != nil {
				return err
			}
			if o.hosts != "" {
				if _, err := TimeAt(cmd.Context(), &o, job, ResumePoint{}); err != nil {
					return err
				}
			}
			p, err := plans.PlanJob(cmd.Context(), job, plans.SlotMarket(o.Endpoint))
			if err == nil && o.hosts == "" { // what slots will cost nobody knows
				err = p.Predict(cmd.Context())
			}
			if err != nil {
				return err
			}
			if err := plans.PrintPlan(cmd.OutOrStdout(), p.Plan, job, format); err != nil {
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
	cmd.Flags().StringVar(&o.hosts, "hosts", "", "of slots of the shared hosts of this `run` of tierml hosts, at their prices")
	return cmd
}
