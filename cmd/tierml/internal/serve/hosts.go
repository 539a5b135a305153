package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/run"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/bill"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/shared"
)

func NewHostsCommand() *cobra.Command {
	var o run.RunOptions
	cmd := &cobra.Command{
		Use:   "hosts HOSTS.yaml",
		Short: "Buy machines that several jobs share, and give jobs slots on them",
		Long: `HOSTS.yaml is a job file with hosts: instead of train:. The shared hosts are a run of their own, in runs/NAME-N: bought when
jobs request slots, released when no job has any. Ctrl-C releases all. See docs/hosts.md.`,
		Example: `  tierml hosts examples/hosts.yaml
  tierml run --on shared-1 examples/demo.yaml
  tierml hosts ps shared-1
  tierml hosts --resume runs/shared-1`,
		Args: func(_ *cobra.Command, args []string) error {
			if o.Resume != "" && len(args) > 0 {
				return errors.New("--resume takes the file from the run's directory; leave it out")
			}
			if o.Resume == "" && len(args) != 1 {
				return errors.New("name one file of shared hosts, such as examples/hosts.yaml")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Job.File = args[0]
			}
			return run.NotTheJobs(runHosts(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout()), o.Resume != "")
		},
	}
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "proceed without asking")
	cmd.Flags().BoolVar(&o.Plain, "plain", false, "print plain lines instead of the live view")
	cmd.Flags().StringVar(&o.Resume, "resume", "", "take over the shared hosts in this `directory`, whose process has ended")
	cmd.Flags().StringVar(&o.Endpoint, "endpoint", "", "buy from the fake cloud at this `URL`, whose --instance-command is 'tierml agent'")
	cmd.Flags().StringVar(&o.Into, "into", "", "run in this `directory`, which the job server has made")
	_ = cmd.Flags().MarkHidden("into") // it exists
	cmd.AddCommand(newHostsPsCommand())
	return cmd
}

// runHosts serves slots until it is stopped.
func runHosts(ctx context.Context, o run.RunOptions, in io.Reader, out io.Writer) error {
	if o.Resume != "" {
		if err := rundir.Hold(o.Resume); err != nil {
			return cli.Usage(err)
		}
	}
	job, from, shared, err := loadHosts(o)
	if err != nil {
		return err
	}
	if err := prepare.OtherUsers(job); err != nil {
		return cli.Usage(err)
	}
	mapping, err := run.TimeAt(ctx, &o, job, from)
	if err != nil {
		return err
	}
	directory, release, err := run.RunDirectory(job, o)
	if err != nil {
		return err
	}
	defer func() { release() }()
	p, err := prepare.Hosts(ctx, job, shared)
	if err != nil {
		return err
	}
	if err := prepare.DescribeHosts(out, p); err != nil {
		return err
	}
	if err := p.TryCloud(ctx, out); err != nil {
		return err
	}
	if job.Installation() != nil {
		fmt.Fprintf(out, "\n%s\n", prepare.WhatMachinesAre(job))
	}
	if err := cli.Confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), o.Yes); err != nil {
		return err
	}
	release = func() {}
	if err := os.WriteFile(filepath.Join(directory, rundir.JobFile), job.Resolved(), 0o644); err != nil {
		return fmt.Errorf("storing the file of the shared hosts: %w", err)
	}
	fmt.Fprintf(out, "Use      tierml run --on %s JOB.yaml\nWatch    tierml hosts ps %[1]s\n", rundir.Relative(directory))
	outcome, err := run.Drive(ctx, o, p, from, mapping, directory, out)
	if err != nil {
		return fmt.Errorf("%w\nThe run's directory is %s", err, rundir.Relative(directory))
	}
	fmt.Fprintln(out)
	view, err := dashboard.ReadHosts(context.WithoutCancel(ctx), directory)
	if err == nil {
		err = showHosts(out, view, table.Text)
	}
	if err != nil {
		return err
	}
	if outcome != journal.Interrupted { // stopping is how they normally end
		return cli.Exit(cli.ExitFailed, errors.New("the shared hosts failed\nSee "+filepath.Join(rundir.Relative(directory), rundir.LogsDir)))
	}
	return nil
}

// loadHosts reads the file, and the state of an earlier process.
func loadHosts(o run.RunOptions) (*config.Job, run.ResumePoint, *jobrun.Hosts, error) {
	if o.Resume == "" {
		job, err := config.LoadHosts(o.Job.File)
		return job, run.ResumePoint{}, &jobrun.Hosts{}, err
	}
	job, err := config.LoadHosts(filepath.Join(o.Resume, rundir.JobFile))
	if err != nil {
		return nil, run.ResumePoint{}, nil, err
	}
	var from run.ResumePoint
	if from.State, err = jobrun.ReadState(o.Resume); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, from, nil, err
	}
	entries, _, err := journal.ReadFile(filepath.Join(o.Resume, rundir.JournalFile))
	if err != nil {
		return nil, from, nil, err
	}
	for _, e := range entries {
		from.At = e.T
		if e.Kind == journal.Start {
			from.Part++
		}
	}
	lines, err := desk.ReadBook(o.Resume)
	if err != nil {
		return nil, from, nil, err
	}
	bills, err := hosts.ReadHosts(entries)
	if err == nil {
		from.Past, err = elasticity.ReadPast(entries)
	}
	if err != nil {
		return nil, from, nil, fmt.Errorf("%s: %w", filepath.Join(o.Resume, rundir.JournalFile), err)
	}
	if len(entries) == 0 {
		return nil, from, nil, cli.Usage(fmt.Errorf("%s had not begun: start again with its %s", o.Resume, rundir.JobFile))
	}
	records, err := bill.ReadRecords(filepath.Join(o.Resume, rundir.CloudFile))
	if err != nil {
		return nil, from, nil, err
	}
	if last := bill.LastTime(records); last.After(from.At) {
		from.At = last
	}
	return job, from, &jobrun.Hosts{Lines: lines, Bills: bills}, nil
}

func newHostsPsCommand() *cobra.Command {
	var format string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "ps [RUN]",
		Short: "List shared hosts with their jobs, the reasons for the jobs' slots, and what each has cost",
		Long: `The cost of a slot that has ended is known at the end of its host's paid hour. On a job server with --groups, jobs that the token
may not watch are counted, not named.
` + cli.WhichRun,
		Example: `  tierml hosts ps
  tierml hosts ps shared-1 -o json
  tierml hosts ps --server http://localhost:7071`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				view, err := runs.Hosts(ctx, target.First(args))
				if err != nil {
					return err
				}
				return showHosts(cmd.OutOrStdout(), view, format)
			})
		},
	}
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// showHosts prints the hosts, the jobs' shares, and the payers.
func showHosts(out io.Writer, v shared.View, format string) error {
	t := table.Table{Data: v, Columns: []table.Column{
		{Name: "host", Title: "HOST"}, {Name: "pool", Title: "POOL"}, {Name: "tier", Title: "TIER"}, {Name: "slots", Title: "SLOTS"}, {Name: "vcpu", Title: "VCPU"},
		{Name: "memory_mib", Title: "MEMORY"}, {Name: "usd_per_hour", Title: "$/HOUR"}, {Name: "serving_cores", Title: "SERVES"}, {Name: "jobs", Title: "JOBS"},
	}}
	for _, h := range v.Hosts {
		names := strings.Join(h.Jobs, " ")
		t.Rows = append(t.Rows, []table.Cell{table.Of(h.Host), table.Of(h.Pool), table.Of(h.Tier), table.Of(h.Slots),
			{Text: fmt.Sprintf("%d of %d", h.Used.VCPU, h.Size.VCPU), Value: h.Used.VCPU},
			{Text: fmt.Sprintf("%d of %d MiB", h.Used.MemoryMiB, h.Size.MemoryMiB), Value: h.Used.MemoryMiB},
			table.Of(h.PerHour), {Text: cli.OrMinus(h.ServesText()), Value: h.Serves}, {Text: strings.TrimSpace(names + " " + h.OthersText()), Value: names}})
	}
	if err := t.Write(out, format); err != nil || format == table.JSON || format == table.CSV {
		return err
	}
	jobs := table.Table{Columns: []table.Column{{Title: "JOB"}, {Title: "SLOTS"}, {Title: "WAITING"}, {Title: "$/HOUR"}, {Title: "SERVES"}, {Title: "LOSS"}, {Title: "WHY"}, {Title: "ON"}}}
	for _, j := range v.Jobs {
		jobs.Rows = append(jobs.Rows, []table.Cell{table.Of(j.Job), table.Of(j.Slots), table.Of(j.Waiting), cli.Money(j.PerHour), table.Of(cli.OrMinus(j.ServesText())), table.Of(cli.OrMinus(j.LossText())), table.Of(j.Why), table.Of(cli.OrMinus(strings.Join(j.Hosts, " ")))})
	}
	if len(v.Jobs) > 0 {
		fmt.Fprintln(out)
		if err := jobs.Write(out, format); err != nil {
			return err
		}
	}
	if v.Total != "" {
		fmt.Fprintf(out, "\nHosts have cost $%s so far:\n", v.Total)
	} else if len(v.Bill) > 0 {
		fmt.Fprintln(out, "\nSlots have cost so far:")
	}
	for _, row := range v.Bill {
		if row.Job == "" {
			row.Job = "idle share"
		}
		fmt.Fprintf(out, "  %-24s $%s\n", row.Job, row.USD)
	}
	return nil
}
