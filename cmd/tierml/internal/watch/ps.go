// Package watch has the commands that look at runs and change nothing: ps, top, events, logs, report, state, sweep, why, fetch.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/shared"
)

func NewPsCommand() *cobra.Command {
	var format string
	var groups bool
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the runs of this directory with their progress, machines and cost",
		Example: `  tierml ps
  tierml ps -o wide
  tierml ps -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := at.Client(cmd, nil)
			if err != nil {
				return err
			}
			if client != nil {
				defer client.Close()
				if groups {
					return psOfGroups(cmd.Context(), client, format, cmd.OutOrStdout())
				}
				return remotePs(cmd.Context(), client, format, cmd.OutOrStdout())
			}
			if groups {
				return cli.Usage(errors.New("--groups is for jobs of a job server: name it with --server"))
			}
			dirs, err := runs.List(rundir.Root)
			if err != nil {
				return err
			}
			rows := []dashboard.Summary{}
			for _, dir := range dirs {
				row, err := dashboard.Read(cmd.Context(), dir)
				if err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "tierml: %s is left out: %v\n", cli.Relative(dir), err)
					continue
				}
				rows = append(rows, row)
			}
			for _, row := range rows {
				if row.App == shared.App && row.State == "running" {
					view, err := dashboard.ReadHosts(cmd.Context(), filepath.Join(rundir.Root, row.Run))
					if err != nil {
						fmt.Fprintf(cmd.ErrOrStderr(), "tierml: which jobs are on %s is not known: %v\n", row.Run, err)
					}
					dashboard.Place(rows, view)
				}
			}
			if len(rows) == 0 && len(dirs) > 0 && cli.ForPeople(format) {
				return nil // there are runs, and why none is shown was said
			}
			if err := writePs(cmd.OutOrStdout(), rows, format); err != nil {
				return err
			}
			for _, row := range rows { // of the first active one; else of the last
				if row.State == "running" {
					cli.Next(cmd, cli.Step{Command: "tierml top " + row.Run, Why: "watch it"}, cli.Step{Command: "tierml stop " + row.Run, Why: "end it in order"})
					return nil
				}
			}
			if len(rows) > 0 {
				cli.Next(cmd, cli.Step{Command: "tierml report " + rows[len(rows)-1].Run, Why: "what it cost, and would have cost on demand"})
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&groups, "groups", false, "with --server: each group's jobs, cost and budget")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// psOfGroups shows what the jobs of each group of a job server have and have cost, which add up with the idle share to the total.
func psOfGroups(ctx context.Context, client *call.Client, format string, out io.Writer) error {
	account, err := client.Groups(ctx)
	if err != nil {
		return err
	}
	t := table.Table{Data: account, Columns: []table.Column{
		{Name: "group", Title: "GROUP"}, {Name: "jobs", Title: "JOBS"}, {Name: "running", Title: "RUNNING"}, {Name: "machines", Title: "MACHINES"},
		{Name: "usd_per_hour", Title: "$/HOUR"}, {Name: "spent_usd", Title: "SPENT"}, {Name: "budget_usd", Title: "BUDGET"}, {Name: "quota_jobs"}, {Name: "quota_machines"}, {Title: "QUOTA"}, {Name: "held", Title: "HELD"},
	}}
	row := func(group string, jobs, running, machines any, perHour, spent, budget string, quota jobmanager.Quota, held string) {
		t.Rows = append(t.Rows, []table.Cell{{Text: cli.OrMinus(group), Value: group}, table.Of(jobs), table.Of(running), table.Of(machines), cli.Money(perHour), cli.Money(spent), cli.Money(budget),
			table.Of(quota.Jobs), table.Of(quota.Machines), table.Of(cli.OrMinus(quota.String())), table.Of(cli.OrMinus(held))})
	}
	for _, g := range account.Groups {
		row(g.Group, g.Jobs, g.Running, g.Machines, g.PerHour, g.Spent, g.Budget, jobmanager.Quota{Jobs: g.QuotaJobs, Machines: g.QuotaMachines}, g.Held)
	}
	if account.Total != "" { // the token may see what all have cost
		row("(idle share)", "", "", "", account.IdlePerHour, account.Idle, "", jobmanager.Quota{}, "")
		row("(total)", "", "", "", account.PerHour, account.Total, "", jobmanager.Quota{}, "")
	}
	return t.Write(out, format)
}

// remotePs lists the jobs of a job server: as those of this host, with what is to be known of those that wait or have failed.
func remotePs(ctx context.Context, client *call.Client, format string, out io.Writer) error {
	jobs, err := client.Jobs(ctx)
	if err != nil {
		return err
	}
	if format == table.JSON {
		return cli.WriteJSON(out, jobs)
	}
	if len(jobs) == 0 && format != table.CSV {
		_, err := fmt.Fprintf(out, "No jobs at %s yet; submit one with `tierml run JOB.yaml`.\n", client.Address())
		return err
	}
	rows := make([]dashboard.Summary, len(jobs))
	for i, j := range jobs {
		rows[i] = j.Summary
	}
	if err := writePs(out, rows, format); err != nil || format == table.CSV {
		return err
	}
	for _, j := range jobs {
		if j.Why != "" && j.State != string(call.Finished) {
			fmt.Fprintf(out, "%s is %s: %s\n", j.Run, j.State, j.Why)
		}
	}
	return nil
}

func writePs(w io.Writer, rows []dashboard.Summary, format string) error {
	if len(rows) == 0 && format != table.JSON && format != table.CSV {
		_, err := fmt.Fprintf(w, "No runs in %s yet; start one with `tierml run JOB.yaml`.\n", filepath.Join(".", rundir.Root))
		return err
	}
	group := table.Column{Name: "group"}
	if slices.ContainsFunc(rows, func(r dashboard.Summary) bool { return r.Group != "" }) {
		group.Title = "GROUP"
	}
	on := table.Column{Name: "on_hosts"}
	if slices.ContainsFunc(rows, func(r dashboard.Summary) bool { return len(r.On) > 0 }) {
		on.Title = "HOSTS"
	}
	t := table.Table{Data: rows, Columns: []table.Column{
		{Name: "run", Title: "RUN"}, {Name: "state", Title: "STATE"}, {Name: "clock", Title: "CLOCK"}, {Name: "clocks"},
		{Name: "test", Title: "TEST"}, {Name: "stage", Title: "STAGE"}, {Name: "machines", Title: "MACHINES"},
		{Name: "usd_per_hour", Title: "$/HOUR"}, {Name: "spent_usd", Title: "SPENT"}, {Name: "saved_usd", Title: "SAVED"},
		{Name: "market_seconds", Title: "MARKET TIME"}, {Name: "app", Title: "APP", Wide: true}, {Name: "train", Title: "TRAIN", Wide: true},
		{Name: "began", Title: "BEGAN", Wide: true}, {Name: "as_of", Title: "AS OF", Wide: true},
		{Name: "why", Title: "WHY", Wide: true}, group, on,
	}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []table.Cell{
			table.Of(r.Run), table.Of(r.State), {Text: cli.OfAll(r.Clock, r.Clocks), Value: r.Clock}, table.Of(r.Clocks),
			cli.FigureCell(r.Test), table.Of(cli.OrMinus(r.Stage)), {Text: machinesText(r), Value: r.Reliable + r.Transient},
			cli.Money(r.PerHour), cli.Money(r.Spent), cli.Money(r.Saved), {Text: words.Duration(r.Seconds), Value: r.Seconds},
			table.Of(r.App), cli.FigureCell(r.Train), cli.Minute(r.Began), cli.Minute(r.AsOf), table.Of(cli.OrMinus(r.Why)), {Text: cli.OrMinus(r.Group), Value: r.Group},
			{Text: cli.OrMinus(someOf(r.On)), Value: strings.Join(r.On, " ")},
		})
	}
	return t.Write(w, format)
}

func machinesText(r dashboard.Summary) string {
	if r.Reliable+r.Transient == 0 {
		return "-"
	}
	return fmt.Sprintf("%d reliable, %d transient", r.Reliable, r.Transient)
}

// someOf names the first ones.
func someOf(names []string) string {
	const most = 2
	if len(names) <= most {
		return strings.Join(names, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], " "), len(names)-most)
}
