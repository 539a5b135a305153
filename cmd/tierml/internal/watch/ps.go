// Package watch has the commands that show runs and change nothing: ps, top, events, logs, report, state, sweep, why,
// fetch.
package watch

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobmanager/call"
)

func NewPsCommand() *cobra.Command {
	var format string
	var groups, again bool
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the runs of this directory with their progress, machines and cost",
		Example: `  tierml ps
  tierml ps -o wide
  tierml ps --watch
  tierml ps -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.With(cmd, nil, func(ctx context.Context, runs target.Runs) error {
				if groups {
					return psOfGroups(ctx, runs, format, cmd.OutOrStdout())
				}
				if again {
					return watchPs(ctx, runs, format, cmd.OutOrStdout(), cmd.ErrOrStderr())
				}
				next, err := runPs(ctx, runs, format, cmd.OutOrStdout(), cmd.ErrOrStderr())
				if err == nil && next != nil {
					cli.Next(cmd, next...)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&groups, "groups", false, "with --server: each group's jobs, cost and budget")
	cmd.Flags().BoolVarP(&again, "watch", "w", false, "list again on every change, until Ctrl-C")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// watchPs lists runs until Ctrl-C: on a terminal in place, otherwise one list after another.
func watchPs(ctx context.Context, runs target.Runs, format string, out, errOut io.Writer) error {
	var last string
	for {
		var list bytes.Buffer
		if _, err := runPs(ctx, runs, format, &list, errOut); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if text := list.String(); text != last {
			if cli.IsTerminal(out) {
				fmt.Fprint(terminal.Raw(out), ansi.CursorHomePosition+ansi.EraseEntireScreen)
			}
			if _, err := io.WriteString(out, text); err != nil {
				return err
			}
			last = text
		}
		select {
		case <-ctx.Done():
			return nil // the reader has left
		case <-time.After(time.Second):
		}
	}
}

// runPs lists runs, and next steps.
func runPs(ctx context.Context, runs target.Runs, format string, out, errOut io.Writer) (next []cli.Step, err error) {
	left := 0
	jobs, err := runs.List(ctx, func(err error) { left++; fmt.Fprintf(errOut, "tierml: %v\n", err) })
	if err != nil {
		return nil, err
	}
	address := runs.Address()
	switch people := cli.ForPeople(format); {
	case len(jobs) == 0 && people && left > 0:
		return nil, nil // there are runs, and the reason why none is shown was printed
	case len(jobs) == 0 && people && address != "":
		_, err := fmt.Fprintf(out, "No jobs at %s yet; submit one with `tierml run JOB.yaml`.\n", address)
		return nil, err
	}
	if err := writePs(out, jobs, format); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if (address != "" || j.Active()) && cli.ForPeople(format) && j.Why != "" && j.State != string(call.Finished) {
			fmt.Fprintf(out, "%s is %s: %s\n", j.Run, j.State, j.Why)
		}
	}
	for _, j := range jobs { // about the first active run; otherwise about the last one
		if j.Active() {
			return []cli.Step{{Command: "tierml top " + j.Run, Why: "watch it"}, {Command: "tierml stop " + j.Run, Why: "save its work and end it"}}, nil
		}
	}
	if len(jobs) > 0 {
		next = []cli.Step{{Command: "tierml report " + jobs[len(jobs)-1].Run, Why: "what it cost, and would have cost on demand"}}
	}
	return next, nil
}

// psOfGroups shows the resources and costs of each group's jobs at a job server; with the idle share, they add up to
// the total.
func psOfGroups(ctx context.Context, runs target.Runs, format string, out io.Writer) error {
	account, err := runs.Groups(ctx)
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
	if account.Total != "" { // the token may see the total cost
		row("(idle share)", "", "", "", account.IdlePerHour, account.Idle, "", jobmanager.Quota{}, "")
		row("(total)", "", "", "", account.PerHour, account.Total, "", jobmanager.Quota{}, "")
	}
	return t.Write(out, format)
}

// writePs prints a row for each run.
func writePs(w io.Writer, rows []call.Job, format string) error {
	if len(rows) == 0 && format != table.JSON && format != table.CSV {
		_, err := fmt.Fprintf(w, "No runs in %s yet; start one with `tierml run JOB.yaml`.\n", filepath.Join(".", rundir.Root))
		return err
	}
	group := table.Column{Name: "group"}
	if slices.ContainsFunc(rows, func(r call.Job) bool { return r.Group != "" }) {
		group.Title = "GROUP"
	}
	user := table.Column{Name: "user"}
	if slices.ContainsFunc(rows, func(r call.Job) bool { return r.User != "" }) {
		user.Title = "USER"
	}
	on := table.Column{Name: "on_hosts"}
	if slices.ContainsFunc(rows, func(r call.Job) bool { return len(r.On) > 0 }) {
		on.Title = "HOSTS"
	}
	clock, loss, stage := "CLOCK", "TEST", "STAGE"
	if slices.ContainsFunc(rows, func(r call.Job) bool { return r.Unit != "" }) { // programs have no clocks
		clock, loss = "PROGRESS", "LOSS"
		if !slices.ContainsFunc(rows, func(r call.Job) bool { return r.Stage != "" }) {
			stage = ""
		}
	}
	t := table.Table{Data: rows, Columns: []table.Column{
		{Name: "run", Title: "RUN"}, {Name: "state", Title: "STATE"}, {Name: "clock", Title: clock}, {Name: "clocks"},
		{Name: "test", Title: loss}, {Name: "stage", Title: stage}, {Name: "machines", Title: "MACHINES"},
		{Name: "usd_per_hour", Title: "$/HOUR"}, {Name: "spent_usd", Title: "SPENT"}, {Name: "saved_usd", Title: "SAVED"},
		{Name: "market_seconds", Title: "MARKET TIME"}, {Name: "app", Title: "APP", Wide: true}, {Name: "train", Title: "TRAIN", Wide: true},
		{Name: "began", Title: "BEGAN", Wide: true}, {Name: "as_of", Title: "AS OF", Wide: true},
		{Name: "why", Title: "WHY", Wide: true}, group, on, user,
	}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []table.Cell{
			table.Of(r.Run), table.Of(r.State), {Text: progressText(r, clock), Value: r.Clock}, table.Of(r.Clocks),
			{Text: cli.FigureCell(r.Loss()).Text, Value: r.Test}, table.Of(cli.OrMinus(r.Stage)), {Text: machinesText(r), Value: r.Reliable + r.Transient},
			cli.Money(r.PerHour), cli.Money(r.Spent), cli.Money(r.Saved), {Text: words.Duration(r.Seconds), Value: r.Seconds},
			table.Of(r.App), cli.FigureCell(r.Train), cli.Minute(r.Began), cli.Minute(r.AsOf), table.Of(cli.OrMinus(r.Why)), {Text: cli.OrMinus(r.Group), Value: r.Group},
			{Text: cli.OrMinus(someOf(r.On)), Value: strings.Join(r.On, " ")}, {Text: cli.OrMinus(r.User), Value: r.User},
		})
	}
	return t.Write(w, format)
}

// progressText includes the unit if units differ.
func progressText(r call.Job, column string) string {
	text := cli.OfAll(r.Clock, r.Clocks)
	if column == "CLOCK" {
		return text
	}
	if (r.Unit != "" || r.Kind == journal.Hosts) && r.Clock == 0 && r.Clocks == 0 {
		return "-" // a program that counts no steps
	}
	return text + " " + cmp.Or(r.Unit, journal.Unit(r.Kind)) + "s"
}

func machinesText(r call.Job) string {
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
