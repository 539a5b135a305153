package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/shared"
)

func newHostsCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "hosts HOSTS.yaml",
		Short: "Buy machines that several jobs share, and give jobs slots of them",
		Long: `HOSTS.yaml is a job file with hosts: in place of train:. The shared hosts are a run of their own, in runs/NAME-N: bought when jobs
ask for slots, released when no job has any. Ctrl-C releases all. See docs/hosts.md.`,
		Example: `  tierml hosts examples/hosts.yaml
  tierml run --hosts shared-1 examples/demo.yaml
  tierml hosts ps shared-1
  tierml hosts --resume runs/shared-1`,
		Args: func(_ *cobra.Command, args []string) error {
			if o.resume != "" && len(args) > 0 {
				return errors.New("--resume takes the file from the run's directory; leave it out")
			}
			if o.resume == "" && len(args) != 1 {
				return errors.New("name one file of shared hosts, such as examples/hosts.yaml")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.job.file = args[0]
			}
			return notTheJobs(runHosts(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "proceed without asking")
	cmd.Flags().BoolVar(&o.plain, "plain", false, "plain lines instead of the live view")
	cmd.Flags().StringVar(&o.resume, "resume", "", "take over the shared hosts of this `directory`, whose process has ended")
	cmd.Flags().StringVar(&o.endpoint, "endpoint", "", "buy from the fake cloud at this `URL`, run by another process with\n"+
		"--instance-command 'tierml agent'; it sets time and speed. With --resume: the run's own, or none")
	cmd.Flags().StringVar(&o.into, "into", "", "run in this `directory`, which the job server has made")
	_ = cmd.Flags().MarkHidden("into") // it exists
	cmd.AddCommand(newHostsPsCommand())
	return cmd
}

// runHosts serves slots until it is stopped.
func runHosts(ctx context.Context, o runOptions, in io.Reader, out io.Writer) error {
	if o.resume != "" {
		if err := rundir.Hold(o.resume); err != nil {
			return usageError{err}
		}
	}
	job, from, shared, err := loadHosts(o)
	if err != nil {
		return err
	}
	if err := otherUsers(job); err != nil {
		return usageError{err}
	}
	mapping, err := timeAt(ctx, &o, job, from)
	if err != nil {
		return err
	}
	directory, release, err := runDirectory(job, o)
	if err != nil {
		return err
	}
	defer func() { release() }()
	p, err := prepareHosts(ctx, job, shared)
	if err != nil {
		return err
	}
	if err := describeHosts(out, p); err != nil {
		return err
	}
	if err := confirm(in, out, cli.IsTerminal(in) && cli.IsTerminal(out), o.yes); err != nil {
		return err
	}
	release = func() {}
	if err := os.WriteFile(filepath.Join(directory, rundir.JobFile), job.Resolved(), 0o644); err != nil {
		return fmt.Errorf("keeping the file of the shared hosts: %w", err)
	}
	fmt.Fprintf(out, "Use      tierml run --hosts %s JOB.yaml\nWatch    tierml hosts ps %[1]s\n", relative(directory))
	outcome, err := drive(ctx, o, p, from, mapping, directory, out)
	if err != nil {
		return fmt.Errorf("%w\nThe run's directory is %s", err, relative(directory))
	}
	fmt.Fprintln(out)
	view, err := dashboard.ReadHosts(context.WithoutCancel(ctx), directory)
	if err == nil {
		err = showHosts(out, view, table.Text)
	}
	if err != nil {
		return err
	}
	if outcome != journal.Interrupted { // to be stopped is their proper end
		return exitError{exitFailed, errors.New("the shared hosts failed\nSee " + filepath.Join(relative(directory), rundir.LogsDir))}
	}
	return nil
}

// loadHosts reads the file, and what a process before has left.
func loadHosts(o runOptions) (*config.Job, resumePoint, *jobrun.Hosts, error) {
	if o.resume == "" {
		job, err := config.LoadHosts(o.job.file)
		return job, resumePoint{}, &jobrun.Hosts{}, err
	}
	job, err := config.LoadHosts(filepath.Join(o.resume, rundir.JobFile))
	if err != nil {
		return nil, resumePoint{}, nil, err
	}
	var from resumePoint
	if from.state, err = jobrun.ReadState(o.resume); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, from, nil, err
	}
	entries, _, err := journal.ReadFile(filepath.Join(o.resume, rundir.JournalFile))
	if err != nil {
		return nil, from, nil, err
	}
	for _, e := range entries {
		from.at = e.T
		if e.Kind == journal.Start {
			from.part++
		}
	}
	lines, err := desk.ReadBook(o.resume)
	if err != nil {
		return nil, from, nil, err
	}
	bills, err := hosts.ReadHosts(entries)
	if err == nil {
		from.past, err = elasticity.ReadPast(entries)
	}
	if err != nil {
		return nil, from, nil, fmt.Errorf("%s: %w", filepath.Join(o.resume, rundir.JournalFile), err)
	}
	if len(entries) == 0 {
		return nil, from, nil, usageError{fmt.Errorf("%s had not begun: start again with its %s", o.resume, rundir.JobFile)}
	}
	records, err := readRecords(filepath.Join(o.resume, rundir.CloudFile))
	if err != nil {
		return nil, from, nil, err
	}
	if last := lastTime(records); last.After(from.at) {
		from.at = last
	}
	return job, from, &jobrun.Hosts{Lines: lines, Bills: bills}, nil
}

// prepareHosts finds on the market what the shared hosts may be.
func prepareHosts(ctx context.Context, job *config.Job, shared *jobrun.Hosts) (*preparedJob, error) {
	prices, err := loadMarket(ctx, job)
	if err != nil {
		return nil, err
	}
	if err := prices.Admit(job); err != nil {
		return nil, err
	}
	p := &preparedJob{job: job, hosts: shared}
	p.offers, _ = prices.Offers()
	if p.choice, err = planner.Resolve(job, p.offers, prices.Catalog); err != nil {
		return nil, err
	}
	shared.Types = prices.Catalog.Types(p.choice.Pools[0].Pool.Region)
	for _, o := range p.offers { // what has a price and no place in the catalog
		if !slices.ContainsFunc(shared.Types, func(t market.InstanceType) bool { return t.Name == o.Type.Name }) {
			shared.Types = append(shared.Types, o.Type)
		}
	}
	return p, nil
}

// describeHosts says what may be bought.
func describeHosts(out io.Writer, p *preparedJob) error {
	var kinds []string
	for _, pool := range p.choice.Pools {
		if name := pool.Pool.Type; pool.Pool.Class == market.Spot && !slices.Contains(kinds, name) {
			kinds = append(kinds, name)
		}
	}
	most := fmt.Sprintf("%d", p.choice.Want.Machines)
	if p.choice.Want.VCPU > 0 {
		most = fmt.Sprintf("%d vCPUs", p.choice.Want.VCPU)
	}
	_, err := fmt.Fprintf(out, "Shared hosts %s: at most %s of %s on spot by policy %s", p.job.Name, most, strings.Join(kinds, ", "), p.job.Policy)
	if r := p.choice.Reliable; err == nil && r.Count > 0 {
		_, err = fmt.Fprintf(out, ",\nand at most %d of %s on demand ($%s an hour each)", r.Count, r.Type.Name, r.Type.OnDemand)
	}
	if err == nil {
		_, err = fmt.Fprint(out, ". Nothing is bought before a job asks for slots.\n")
	}
	return err
}

func newHostsPsCommand() *cobra.Command {
	var format string
	var at remote
	cmd := &cobra.Command{
		Use:   "ps [RUN]",
		Short: "List shared hosts with the jobs on them, why jobs have their slots, and what each has cost",
		Long: `The cost of a slot that has ended is known at the end of its host's paid hour. At a job server with --groups, jobs that the token
may not watch are counted, not named.
` + whichRun,
		Example: `  tierml hosts ps
  tierml hosts ps shared-1 -o json
  tierml hosts ps --server http://localhost:7071`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.client(cmd, args)
			if err != nil {
				return err
			}
			if client != nil {
				defer client.Close()
				view, err := remoteHosts(cmd.Context(), client, args)
				if err != nil {
					return err
				}
				return showHosts(cmd.OutOrStdout(), view, format)
			}
			dir, err := findRun(args)
			if err != nil {
				return err
			}
			view, err := dashboard.ReadHosts(cmd.Context(), dir)
			if err != nil {
				return usageError{err}
			}
			return showHosts(cmd.OutOrStdout(), view, format)
		},
	}
	outputFlag(cmd, &format)
	at.flags(cmd)
	return cmd
}

// remoteHosts are the shared hosts of a job server that are meant: those named, or the only ones.
func remoteHosts(ctx context.Context, client *call.Client, args []string) (shared.View, error) {
	views, err := client.Hosts(ctx)
	if err != nil {
		return shared.View{}, err
	}
	var names []string
	for _, v := range views {
		if len(args) == 0 || v.Run == meantJob(args) {
			return v, nil
		}
		names = append(names, v.Run)
	}
	if len(names) == 0 {
		return shared.View{}, usageError{fmt.Errorf("the job server at %s keeps no shared hosts now: it does when started with --hosts", client.Address())}
	}
	return shared.View{}, usageError{fmt.Errorf("the job server at %s keeps no shared hosts %q now; it keeps %s", client.Address(), args[0], strings.Join(names, ", "))}
}

// showHosts prints the hosts, what jobs have of them, and who pays.
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
			table.Of(h.PerHour), {Text: orMinus(h.ServesText()), Value: h.Serves}, {Text: strings.TrimSpace(names + " " + h.OthersText()), Value: names}})
	}
	if err := t.Write(out, format); err != nil || format == table.JSON || format == table.CSV {
		return err
	}
	jobs := table.Table{Columns: []table.Column{{Title: "JOB"}, {Title: "SLOTS"}, {Title: "WAITING"}, {Title: "$/HOUR"}, {Title: "SERVES"}, {Title: "LOSS"}, {Title: "WHY"}, {Title: "ON"}}}
	for _, j := range v.Jobs {
		jobs.Rows = append(jobs.Rows, []table.Cell{table.Of(j.Job), table.Of(j.Slots), table.Of(j.Waiting), money(j.PerHour), table.Of(orMinus(j.ServesText())), table.Of(orMinus(j.LossText())), table.Of(j.Why), table.Of(orMinus(strings.Join(j.Hosts, " ")))})
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
