package markets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/show"
	"github.com/tierml/tierml/sim/sweep"
)

// dryRunOptions are the options of dry-run for one job.
type dryRunOptions struct {
	traces     []string
	catalog    string
	rules      string
	policies   []string
	starts     string
	hours      []string
	seed       uint64
	evict      []string
	format     string
	noOracle   bool
	fleet      fleetOptions
	checkpoint map[string]string // as in the job file, by name
	// everyPolicy: none was named. seeded and evictionsAsked: these were given.
	everyPolicy, seeded, evictionsAsked bool
}

func NewDryRunCommand() *cobra.Command {
	var o dryRunOptions
	cmd := &cobra.Command{
		Use:   "dry-run JOB.yaml",
		Short: "Compute what a job would have cost under each policy, from many starts in recorded prices",
		Long: `It drives the controller and the policies of tierml run through recorded prices in simulated time (docs/dry-run.md). Without --hours
the job is simulated from its own start; with it, its work is scaled.

-o wide has all figures of each policy and length, -o csv a row per start, -o html the report of a single start.`,
		Example: `  tierml dry-run examples/demo.yaml
  tierml dry-run examples/demo.yaml --hours 2,8,20 --starts 200
  tierml dry-run job.yaml --prices prices.csv.gz --rules ec2-now --policy tierml --hours 8 --starts every -o json`,
		Args: cli.OneJobFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.everyPolicy, o.evictionsAsked = !cmd.Flags().Changed("policy"), cmd.Flags().Changed("evictions")
			o.seeded = cli.SettingsOf(cmd).Changed("seed")
			if err := dryRun(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return err
			}
			cli.Next(cmd, cli.Step{Command: "tierml run " + args[0], Why: "shows the plan and asks before it buys"},
				cli.Step{Command: "tierml run --policy NAME " + args[0], Why: "by another of these policies"})
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.traces, "prices", nil, "price history `files`; default: the job's local.prices, or its cloud's own history")
	f.StringVar(&o.catalog, "catalog", "", "`file` of machine types and on-demand prices; default: the job's catalog")
	f.StringVar(&o.rules, "rules", "", "billing rule `book`; default: the job's local.rules")
	f.StringSliceVar(&o.policies, "policy", append(config.Policies(), sweep.OracleFullBid, sweep.Clairvoyant), "`policies` to compare; oracles know the future, and the first is the base of REGRET (docs/dry-run.md#oracles)")
	f.BoolVar(&o.noOracle, "no-oracle", false, "omit the oracle, which takes most of the time")
	f.StringSliceVar(&o.evict, "evictions", []string{"auto"}, "eviction `rate` without bids: auto, none, a monthly share such as 10%, or recordings of availability")
	o.fleet.flags(f)
	f.StringVar(&o.starts, "starts", "", "`when` to start: every (minute), a number of starts, or a time; default: the job's start, or 100")
	f.StringSliceVar(&o.hours, "hours", nil, "scale the work to `hours` of the on-demand fleet")
	cli.OutputFlag(cmd, &o.format, cli.FormatHTML)
	more := cli.MoreSettings(cmd)
	more.StringToStringVar(&o.checkpoint, "checkpoint", nil, "`fields` of the job file's checkpoint, such as save=30s,every=10m")
	more.Uint64Var(&o.seed, "seed", 1, "`seed` of random starts")
	cmd.AddCommand(newAvailabilityCommand(), newJobsCommand())
	cli.Moved(cmd, "`tierml dry-run availability FILE...`", "availability", "slack", "changeover", "together", "spot-share")
	cli.Moved(cmd, "`tierml dry-run jobs FILE`, or --machines for the number of transient machines", "count")
	cli.Moved(cmd, "`tierml dry-run jobs FILE`", "jobs", "scheduler", "runtimes", "group", "longest", "hosts", "fixed", "slot", "stretch",
		"serial", "widen", "resize", "restart", "plan-every")
	return cmd
}

func dryRun(ctx context.Context, jobFile string, o dryRunOptions, out, errOut io.Writer) error {
	plan, err := o.plan(ctx, jobFile, errOut)
	if err != nil {
		return err
	}
	if o.format == cli.FormatHTML {
		return writeDryRunHTML(out, plan)
	}
	ctx, stop := cli.UntilInterrupted(ctx)
	defer stop()
	bar := progress.Start(ctx, "Simulating runs", 0, progress.Things)
	defer bar.Done()
	defer prepare.LittleGarbage()()
	results := show.New(out, o.format)
	err = sweep.Stream(ctx, plan, results.Add, bar.Set)
	bar.Done()
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		return err
	}
	if err := results.Write(plan); err != nil {
		return fmt.Errorf("printing the results: %w", err)
	}
	if interrupted {
		return cli.Exit(cli.ExitInterrupted, fmt.Errorf("interrupted: these are the %d runs that were done", results.Tally.Rows))
	}
	return nil
}

// plan combines the job and the command line.
func (o dryRunOptions) plan(ctx context.Context, jobFile string, errOut io.Writer) (p sweep.Experiment, err error) {
	if p.Policies, err = o.chosen(); err != nil {
		return p, cli.Usage(err)
	}
	p.Regret = !o.noOracle && !cli.ForPeople(o.format) && o.starts != "every" // otherwise it would take longer than all policies
	if p.Hours, err = lengths(o.hours); err != nil {
		return p, cli.Usage(err)
	}
	if o.starts == "" && len(p.Hours) > 0 {
		o.starts = "100"
	}
	if p.Starts, err = sweep.ParseStarts(o.starts, o.seed); err != nil {
		return p, cli.Usage(err)
	}
	evictions, err := sweep.ParseEvictions(o.evict)
	if err != nil {
		return p, cli.Usage(fmt.Errorf("--%w", err))
	}
	job, err := config.Load(jobFile)
	if err != nil {
		return p, err
	}
	if job.IsProgram() {
		if p.Policies, err = o.forPrograms(job); err != nil {
			return p, err
		}
		p.Regret = false
	}
	if job.Cloud == config.CloudNone {
		return p, job.Fault("cloud", "cloud: "+job.Cloud+" buys no machines, so there is nothing to try", "write cloud: local")
	}
	if job.Installation() != nil && o.starts == "" { // its own start is now, after which no prices exist
		if p.Starts, err = sweep.ParseStarts("100", o.seed); err != nil {
			return p, cli.Usage(err)
		}
	}
	if o.rules != "" {
		if _, err := market.Rules(o.rules); err != nil {
			return p, cli.Usage(err)
		}
		job.Local.Rules = o.rules
	}
	if err := o.fleet.apply(job); err != nil {
		return p, cli.Usage(err)
	}
	if err := job.SetCheckpoint(o.checkpoint); err != nil {
		return p, cli.Usage(fmt.Errorf("checkpoint: %w", err))
	}
	if o.seeded {
		job.Seed = o.seed
	}
	m, doubts, err := o.maker(ctx, job)
	if err != nil {
		return p, o.blame(err)
	}
	m.Evictions, m.Adjust = evictions, func(cfg *sim.Config) error {
		if len(p.Hours) == 0 {
			_, err := prepare.Calibrate(cfg)
			return err
		}
		if o.fleet.resized() {
			cfg.Job.Splits = manySplits
		}
		return nil
	}
	if p.Job, err = m.Base(); err != nil {
		return p, o.blame(err)
	}
	var skipped []string
	p.By = func(policy string) (sim.Config, error) {
		made, err := m.By(policy)
		skipped = made.Skipped
		return made.Sim, err
	}
	p.Replay = len(p.Hours) == 0 && !p.Starts.Every && p.Starts.Count == 0 && job.Installation() == nil && !o.evictionsAsked
	cli.PrintDoubts(errOut, append(doubts, p.LeftOut()...))
	if len(skipped) > 0 && len(p.Hours) == 0 {
		fmt.Fprintf(errOut, "tierml: left out of the job's script, as it is not simulated: %s\n", strings.Join(skipped, ", "))
	}
	return p, nil
}

// forPrograms returns the policies for users' programs: those without reliable machines, and no oracle, which assumes
// training.
func (o dryRunOptions) forPrograms(job *config.Job) (names []string, err error) {
	if o.everyPolicy {
		return append(bidding.NamesForPrograms(), sweep.Auto), nil
	}
	for _, name := range o.policies {
		if _, err := bidding.ForPrograms(name); err != nil && name != sweep.Auto {
			return nil, cli.Usage(fmt.Errorf("--policy: %s runs programs: %w", job.Name, err))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// manySplits are enough for a fleet of any size; sweep uses as many as needed.
const manySplits = 1 << 16

// chosen returns the policies to run, each once.
func (o dryRunOptions) chosen() (names []string, err error) {
	for _, name := range o.policies {
		if err := config.CheckPolicy(name, sweep.Oracles...); err != nil {
			return nil, err
		}
		if slices.Contains(names, name) || o.noOracle && sweep.IsOracle(name) && name != sweep.Clairvoyant {
			continue
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, errors.New("--policy names no policy to run")
	}
	return names, nil
}

// lengths parses --hours; each counts once.
func lengths(texts []string) (out []time.Duration, err error) {
	for _, text := range texts {
		hours, err := strconv.ParseFloat(text, 64)
		if err != nil || !(hours > 0) || hours > 10000 {
			return nil, fmt.Errorf("--hours %q: write numbers above 0 and up to 10000, such as 2,8,20", text)
		}
		if length := time.Duration(hours * float64(time.Hour)).Round(time.Second); !slices.Contains(out, length) {
			out = append(out, max(length, time.Second))
		}
	}
	return out, nil
}

// maker creates the job with each policy, from its data and the market.
func (o dryRunOptions) maker(ctx context.Context, job *config.Job) (m *sweep.Maker, doubts []string, err error) {
	recorded, err := o.market(ctx, job)
	if err != nil {
		return nil, nil, err
	}
	m = &sweep.Maker{Job: job, Catalog: recorded.Catalog}
	m.Offers, _ = recorded.Offers()
	if job.IsProgram() {
		if err := prepare.Remember(ctx, job); err != nil {
			return nil, nil, err
		}
	}
	choice, err := planner.Resolve(job, m.Offers, m.Catalog) // before the data is read, which may take a while
	if err != nil {
		return nil, nil, err
	}
	doubts = recorded.Doubts(choice.Pools)
	if job.IsProgram() {
		known, err := prepare.MeasureProgram(ctx, job, choice)
		m.Content = known.Content(job)
		return m, doubts, err
	}
	var bytes atomic.Int64
	program, _, err := prepare.DataOn(ctx, job, choice, prepare.Counted(func(ps.Split) (io.WriteCloser, error) { return prepare.Discard{}, nil }, &bytes))
	if err != nil {
		return nil, nil, err
	}
	schema := jobrun.SchemaOf(job, program)
	m.Content = sweep.Content{Work: program.WorkPerClock() * float64(job.Train.Clocks), Schema: &schema, Least: apps.LeastRows(program), Data: bytes.Load()}
	return m, doubts, nil
}

// market reads prices and catalog, and combines several traces. It queries a real cloud for what no file has.
func (o dryRunOptions) market(ctx context.Context, job *config.Job) (*local.Market, error) {
	at := job.Installation()
	if at != nil {
		o.catalog = cmp.Or(o.catalog, at.Catalog)
		job.Block.Shared().Catalog = o.catalog
	}
	if o.catalog != "" {
		job.Local.Catalog = o.catalog
	}
	if len(o.traces) == 0 {
		return prepare.LoadMarket(ctx, job)
	}
	if at != nil && o.catalog == "" {
		return nil, fmt.Errorf("--prices has no on-demand prices; add --catalog FILE, or %s.catalog to the job", at.Block)
	}
	if at != nil {
		job.Provider = job.Cloud // the cloud of the prices
	}
	return local.LoadFiles(job, o.traces)
}
