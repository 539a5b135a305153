package markets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sim/jobs"
	"github.com/tierml/tierml/sim/show"
)

// jobsOptions are the options of dry-run jobs.
type jobsOptions struct {
	traces     []string
	catalog    string
	rules      string
	policies   []string
	fleet      fleetOptions
	slacks     []string
	starts     int
	seed       uint64
	format     string
	runtimes   string
	group      string
	count      int
	longest    time.Duration
	schedulers []string
	hosts      string
	fixed      string
	slot       int
	stretch    float64
	serial     float64
	widen      float64
	resize     time.Duration
	restart    time.Duration
	planEvery  time.Duration
}

func newJobsCommand() *cobra.Command {
	var o jobsOptions
	cmd := &cobra.Command{
		Use:   "jobs FILE | sweep:TRIALS:APART",
		Short: "Compare schedulers on many jobs that share machines",
		Long: `FILE has the arrivals of jobs, in Philly's or Alibaba's format. They run on a fixed cluster, or on machines that policies buy
at recorded prices. See docs/scheduler.md#dry-runs-of-many-jobs.`,
		Example: `  tierml dry-run jobs sweep:75:3m --scheduler fifo,kill,h,feedback --starts 10
  tierml dry-run jobs arrivals.csv --runtimes runtimes.csv --group 7f04ca --prices prices.csv.gz --catalog types.csv --vcpu 256`,
		Args: cli.Arguments(1, 1, "name one file of arrivals, or a sweep such as sweep:75:3m"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runJobs(cmd.Context(), o, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.schedulers, "scheduler", []string{"fifo", "drf", "h", "feedback"}, "`schedulers` to compare (docs/scheduler.md)")
	f.StringVar(&o.runtimes, "runtimes", "", "`file` of run times to draw from")
	f.StringVar(&o.group, "group", "", "only the jobs of this virtual `cluster`")
	f.IntVar(&o.count, "count", 0, "only this `number` of first jobs; 0: all")
	f.StringVar(&o.hosts, "hosts", "", "a fixed cluster, `COUNTxVCPUS`, instead of --prices")
	f.StringSliceVar(&o.traces, "prices", nil, "price history `files`")
	f.StringVar(&o.catalog, "catalog", "", "`file` of machine types and on-demand prices")
	f.IntVar(&o.fleet.vcpu, "vcpu", 0, "the most transient vCPUs, as a `number`")
	f.StringSliceVar(&o.policies, "policy", []string{"on-demand", "cost-per-work"}, "`policies` to compare, with --prices")
	f.StringVar(&o.fixed, "fixed", "", "keep a fixed fleet of --vcpu vCPUs; the `value` mean instead adds fixed fleets of the mean size")
	f.Lookup("fixed").NoOptDefVal = "most"
	slackFlag(f, &o.slacks, "deadlines, in `multiples` of each job's time alone, in turn")
	f.Uint64Var(&o.seed, "seed", 1, "`seed` of random starts")
	f.IntVar(&o.starts, "starts", 1, "`number` of runs")
	cli.CompleteFlag(cmd, "scheduler", sched.Names()...)
	cli.OutputFlag(cmd, &o.format)
	more := cli.MoreSettings(cmd)
	more.DurationVar(&o.longest, "longest", 0, "cap run times at this; 0: as recorded")
	more.DurationVar(&o.planEvery, "plan-every", time.Minute, "minimum time between two decisions")
	more.StringVar(&o.fleet.reliable, "reliable", "", "reliable machines, as `TYPE` or TYPE:COUNT; default: one of the cheapest")
	more.DurationVar(&o.resize, "resize", 46*time.Second, "how long a resized job stalls")
	more.DurationVar(&o.restart, "restart", 370*time.Second, "how long a checkpoint and restart stalls a job (fifo, kill)")
	more.StringVar(&o.rules, "rules", "ec2-2017", "billing rule `book`")
	more.Float64Var(&o.serial, "serial", .1, "serial `share` of a recorded job's clock")
	more.IntVar(&o.slot, "slot", 1, "`number` of vCPUs of a worker or server")
	more.Float64Var(&o.stretch, "stretch", 4, "a recorded job can use this `multiple` of its request")
	more.StringSliceVar(&o.fleet.types, "types", nil, "machine `types`; default: all")
	more.Float64Var(&o.widen, "widen", 0, "buy all that jobs could use at prices below this `share` of on-demand")
	more.StringSliceVar(&o.fleet.zones, "zones", nil, "`zones`; default: all")
	return cmd
}

// runJobs compares schedulers on jobs that share machines.
func runJobs(ctx context.Context, o jobsOptions, arrivals string, out, errOut io.Writer) error {
	study, err := o.study(arrivals, errOut)
	if err != nil {
		return err
	}
	cells, err := simulating(ctx, "Simulating clusters", study.Run)
	if err != nil {
		return err
	}
	if cli.ForPeople(o.format) && o.format != table.Wide {
		return show.WriteJobsTable(out, study, cells)
	}
	return show.JobsTable(cells).Write(out, o.format)
}

func (o *jobsOptions) study(arrivals string, errOut io.Writer) (s *jobs.Study, err error) {
	s = &jobs.Study{Seed: o.seed, Runs: o.starts, Resize: o.resize.Seconds(), Restart: o.restart.Seconds(), PlanEvery: o.planEvery.Seconds()}
	switch {
	case o.slot < 1 || !(o.stretch >= 1) || !(o.serial >= 0 && o.serial < 1) || o.resize < 0 || o.restart < 0 || o.planEvery < 0 || o.longest < 0 || o.count < 0 || !(o.widen >= 0):
		return nil, cli.Usage(errors.New("slot and stretch are 1 or more, serial is below 1, and times and counts are not below 0"))
	case !slices.Contains([]string{"", "most", "mean"}, o.fixed):
		return nil, cli.Usage(fmt.Errorf("--fixed=%s: write --fixed or --fixed=mean", o.fixed))
	case o.hosts != "" && len(o.traces) > 0:
		return nil, cli.Usage(errors.New("--hosts is a cluster without prices: leave --prices out, or name --vcpu and --fixed"))
	case o.starts < 1:
		return nil, cli.Usage(fmt.Errorf("--starts %d: write a number of runs", o.starts))
	}
	if s.Sweep = strings.HasPrefix(arrivals, "sweep:"); s.Sweep {
		err = o.sweep(s, arrivals)
	} else {
		err = o.recorded(s, arrivals, errOut)
	}
	if err != nil {
		return nil, err
	}
	if s.Slacks, err = multiples(o.slacks); err != nil {
		return nil, err
	}
	for _, name := range withSettings(o.schedulers) {
		if _, err := jobs.Scheduler(name, s.Sweep); err != nil {
			return nil, cli.Usage(fmt.Errorf("--scheduler: %w", err))
		}
		if !slices.Contains(s.Schedulers, name) {
			s.Schedulers = append(s.Schedulers, name)
		}
	}
	if len(o.traces) == 0 {
		s.Buyers, err = o.cluster(s.Sweep)
		return s, err
	}
	return s, o.buyers(s, errOut)
}

// withSettings rejoins settings with commas, such as dorm:0.1,0.2, which the list of schedulers was split at.
func withSettings(parts []string) (names []string) {
	for _, part := range parts {
		if _, err := strconv.ParseFloat(part, 64); err == nil && len(names) > 0 && strings.Contains(names[len(names)-1], ":") {
			names[len(names)-1] += "," + part
			continue
		}
		names = append(names, part)
	}
	return names
}

// sweep parses sweep:TRIALS:APART.
func (o *jobsOptions) sweep(s *jobs.Study, text string) error {
	parts := strings.Split(text, ":")
	wrong := cli.Usage(fmt.Errorf("%q: write sweep:TRIALS:APART, such as sweep:75:3m", text))
	if len(parts) != 3 {
		return wrong
	}
	trials, err := strconv.Atoi(parts[1])
	apart, err2 := time.ParseDuration(parts[2])
	if err != nil || err2 != nil || trials < 1 || trials > 100_000 || apart < 0 {
		return wrong
	}
	sweep := jobs.EPS(apart.Seconds())
	sweep.Trials, sweep.Slot = trials, float64(o.slot)
	s.Draw = func(seed uint64) ([]jobs.Script, error) { return sweep.Jobs(seed), nil }
	return nil
}

// recorded reads a file of arrivals, and --runtimes.
func (o *jobsOptions) recorded(s *jobs.Study, file string, errOut io.Writer) error {
	t := jobs.Traced{Slot: float64(o.slot), Serial: o.serial, Stretch: o.stretch, Longest: o.longest.Seconds()}
	err := readPlain(file, func(r io.Reader) (err error) {
		t.Arrivals, err = jobs.ReadArrivals(r)
		return err
	})
	if err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", file, err))
	}
	if o.runtimes != "" {
		err := readPlain(o.runtimes, func(r io.Reader) (err error) {
			t.Runtimes, err = jobs.ReadRuntimes(r)
			return err
		})
		if err != nil {
			return cli.Usage(fmt.Errorf("--runtimes %s: %w", o.runtimes, err))
		}
	}
	var groups []string
	for _, a := range t.Arrivals {
		if !slices.Contains(groups, a.Group) {
			groups = append(groups, a.Group)
		}
	}
	slices.Sort(groups)
	switch {
	case o.group != "" && !slices.Contains(groups, o.group):
		return cli.Usage(fmt.Errorf("--group %s: the virtual clusters are %s", o.group, strings.Join(groups, ", ")))
	case o.group == "" && len(groups) > 1:
		return cli.Usage(fmt.Errorf("%s: arrivals of each virtual cluster begin at 0, so together they would form an artificial burst; choose one with --group: %s",
			file, strings.Join(groups, ", ")))

	case o.group != "":
		t.Arrivals = slices.DeleteFunc(t.Arrivals, func(a jobs.Arrival) bool { return a.Group != o.group })
	}
	if o.count > 0 {
		t.Arrivals = t.Arrivals[:min(o.count, len(t.Arrivals))]
	}
	drawn := 0
	for _, a := range t.Arrivals {
		if a.Runs == 0 {
			drawn++
		}
	}
	switch {
	case drawn > 0 && len(t.Runtimes) == 0:
		return cli.Usage(fmt.Errorf("%s has no run times: give them with --runtimes", file))
	case drawn > 0:
		fmt.Fprintf(errOut, "tierml: the run times of %d of %d jobs are drawn from %s: the combination is not a recording\n", drawn, len(t.Arrivals), o.runtimes)
	}
	s.Draw = t.Jobs
	return nil
}

// readPlain reads a file, which may be compressed.
func readPlain(path string, read func(io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	plain, err := decompress.Reader(file)
	if err != nil {
		return err
	}
	return read(plain)
}

// cluster reads --hosts.
func (o *jobsOptions) cluster(sweep bool) ([]jobs.Buyer, error) {
	if o.hosts == "" && !sweep {
		return nil, cli.Usage(errors.New("what do the jobs run on? Name --prices, --catalog and --vcpu, or --hosts"))
	}
	text := cmp.Or(o.hosts, "36x4")
	left, right, _ := strings.Cut(text, "x")
	count, err := strconv.Atoi(left)
	vcpus, err2 := strconv.Atoi(right)
	if err != nil || err2 != nil || count < 1 || count > 10_000 || vcpus < o.slot {
		return nil, cli.Usage(fmt.Errorf("--hosts %q: write COUNTxVCPUS, such as 36x4, with room for a slot", text))
	}
	b := jobs.Buyer{Name: text}
	for i := range count {
		b.Hosts = append(b.Hosts, sched.Host{ID: fmt.Sprintf("h%05d", i), Capacity: sched.Resources{float64(vcpus)}})
	}
	return []jobs.Buyer{b}, nil
}

// Simulation settings of a market's jobs: like those of a run on EC2.
const (
	jobsBoot = 3 * time.Minute
	jobsAsk  = 5 * time.Minute
	jobsPast = 7 * 24 * time.Hour // prices before the start, for estimates
)

// buyers returns the ways to buy that --policy names, at the prices of --prices.
func (o *jobsOptions) buyers(s *jobs.Study, errOut io.Writer) error {
	if o.catalog == "" || o.fleet.vcpu < 1 {
		return cli.Usage(errors.New("--prices needs --catalog, for on-demand prices, and --vcpu, the most vCPUs that are held"))
	}
	m := &local.Market{}
	var traces []*trace.Trace
	for _, file := range o.traces {
		t, err := local.ReadPrices(file)
		if err != nil {
			return cli.Usage(fmt.Errorf("--prices %s: %w", file, err))
		}
		traces = append(traces, t)
	}
	m.Trace = trace.Merge(traces...)
	var err error
	if m.Catalog, err = local.ReadCatalog(o.catalog); err != nil {
		return cli.Usage(fmt.Errorf("--catalog %s: %w", o.catalog, err))
	}
	offers, _ := m.Offers()
	offers = slices.DeleteFunc(offers, func(f planner.Offer) bool {
		return f.Type.VCPU < o.slot || len(o.fleet.types) > 0 && !slices.Contains(o.fleet.types, f.Pool.Type) ||
			len(o.fleet.zones) > 0 && !slices.Contains(o.fleet.zones, f.Pool.Zone)
	})
	if len(offers) == 0 {
		return cli.Usage(errors.New("--prices: no pool of these types and zones has prices, a type in --catalog, and room for a slot"))
	}
	like := jobs.Market{Least: 0, Most: o.fleet.vcpu, Widen: o.widen, Boot: jobsBoot, AskEvery: jobsAsk}
	if o.fixed == "most" {
		like.Least = like.Most
	}
	if like.Rules, err = market.Rules(o.rules); err != nil {
		return cli.Usage(err)
	}
	cheapest := offers[0]
	for _, f := range offers {
		like.Pools = append(like.Pools, bidding.Candidate{Pool: f.Pool, Type: f.Type, History: f.History, Hints: f.Hints})
		if float64(f.Type.OnDemand)/float64(f.Type.VCPU) < float64(cheapest.Type.OnDemand)/float64(cheapest.Type.VCPU) {
			cheapest = f
		}
	}
	like.OnDemand = jobs.Offer{Pool: cheapest.Pool, Type: cheapest.Type}
	like.OnDemand.Pool.Class = market.OnDemand
	if like.Reliable, err = o.reliableTier(m.Catalog, cheapest); err != nil {
		return cli.Usage(err)
	}
	starts, horizon, err := o.jobsStarts(s, like.Pools)
	if err != nil {
		return err
	}
	s.Horizon = horizon
	fmt.Fprintf(errOut, "tierml: %d pools; on demand: %s at %s an hour; reliable machines: %s an hour\n", len(like.Pools), cheapest.Type.Name, cheapest.Type.OnDemand.Cents(), like.Reliable.Cents())
	for _, name := range o.policies {
		b := like
		if name != (bidding.OnDemand{}).Name() {
			if b.Policy, err = bidding.ByName(name); err != nil {
				return cli.Usage(fmt.Errorf("--policy: %w", err))
			}
			if _, restarts := b.Policy.(bidding.ByRestart); restarts {
				return cli.Usage(fmt.Errorf("--policy %s buys for one job by kill and restart; write tierml, cost-per-work, capacity or on-demand", name))
			}
		}
		s.Buyers = append(s.Buyers, jobs.Buyer{Name: name, Market: &b, Starts: starts})
		if o.fixed == "mean" {
			s.Buyers = append(s.Buyers, jobs.Buyer{Name: name + ", fixed at the mean", Market: &b, Starts: starts, Mean: true})
		}
	}
	return nil
}

// reliableTier returns the hourly cost of the machines that hold the jobs' state: the setting reliable, or one of the cheapest type.
func (o *jobsOptions) reliableTier(catalog *market.Catalog, cheapest planner.Offer) (market.USD, error) {
	name, text, counted := strings.Cut(cmp.Or(o.fleet.reliable, cheapest.Type.Name), ":")
	count := 1
	if counted {
		var err error
		if count, err = strconv.Atoi(text); err != nil || count < 0 {
			return 0, fmt.Errorf("reliable %q: write a type, or a type and a number, such as c4.2xlarge:4", o.fleet.reliable)
		}
	}
	t, known := catalog.Lookup(cheapest.Pool.Region, name)
	if !known {
		return 0, fmt.Errorf("reliable: %s is not in the catalog", name)
	}
	return market.USD(count) * t.OnDemand, nil
}

// jobsStarts returns times before which every pool has a week of prices; runs end at the end of the recording.
func (o *jobsOptions) jobsStarts(s *jobs.Study, pools []bidding.Candidate) (starts []time.Time, horizon float64, err error) {
	var from, to time.Time
	for _, c := range pools {
		first, _ := c.History.First()
		last, _ := c.History.Last()
		if first.At.After(from) {
			from = first.At
		}
		if to.IsZero() || last.At.Before(to) {
			to = last.At
		}
	}
	from = from.Add(jobsPast).Truncate(time.Minute)
	drawn, err := s.Draw(s.Seed)
	if err != nil {
		return nil, 0, cli.Usage(err)
	}
	arrivals := time.Duration(drawn[len(drawn)-1].Arrives * float64(time.Second))
	room := to.Sub(from) - arrivals - arrivals/10 - 24*time.Hour
	if room < 0 {
		return nil, 0, cli.Usage(fmt.Errorf("the jobs arrive over %.1f days, and prices are known for %.1f after a week of past: choose fewer with --count", arrivals.Hours()/24, to.Sub(from).Hours()/24))
	}
	r := rand.New(rand.NewPCG(s.Seed, 7))
	latest := from
	for i := range s.Runs {
		part := room / time.Duration(s.Runs)
		at := from.Add(part*time.Duration(i) + time.Duration(r.Float64()*float64(part))).Truncate(time.Minute)
		starts = append(starts, at)
		if at.After(latest) {
			latest = at
		}
	}
	return starts, to.Sub(latest).Seconds(), nil
}
