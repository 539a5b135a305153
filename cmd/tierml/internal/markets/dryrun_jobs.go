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

// jobsOptions are the flags of dry-run that share machines among many jobs, without a job file.
type jobsOptions struct {
	jobs       string
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

func (o *jobsOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.jobs, "jobs", "", "arrivals of many jobs: a Philly or Alibaba `file`, or sweep:TRIALS:APART; no job file")
	f.StringSliceVar(&o.schedulers, "scheduler", []string{"fifo", "drf", "h", "feedback"}, "with --jobs: `schedulers` to compare: "+strings.Join(sched.Names(), ", "))
	f.StringVar(&o.runtimes, "runtimes", "", "with --jobs: `file` of run times to draw from")
	f.StringVar(&o.group, "group", "", "with --jobs: only the jobs of this virtual `cluster`")
	f.IntVar(&o.count, "count", 0, "with --jobs: only the first jobs up to this `number`; 0: all")
	f.DurationVar(&o.longest, "longest", 0, "with --jobs: cap run times at this; 0: as recorded")
	f.StringVar(&o.hosts, "hosts", "", "with --jobs: a fixed cluster without prices, as `COUNTxVCPUS`, such as 36x4")
	f.StringVar(&o.fixed, "fixed", "", "with --jobs: keep a fixed fleet of --vcpu vCPUs; the `value` mean instead adds fixed fleets of the mean size")
	f.Lookup("fixed").NoOptDefVal = "most"
	f.IntVar(&o.slot, "slot", 1, "with --jobs: `number` of vCPUs of a worker or server")
	f.Float64Var(&o.stretch, "stretch", 4, "with --jobs: a recorded job can use this `multiple` of its request")
	f.Float64Var(&o.serial, "serial", .1, "with --jobs: serial `share` of a recorded job's clock")
	f.Float64Var(&o.widen, "widen", 0, "with --jobs: buy all that jobs could use at prices below this `share` of on-demand")
	f.DurationVar(&o.resize, "resize", 46*time.Second, "with --jobs: how long a resized job stalls")
	f.DurationVar(&o.restart, "restart", 370*time.Second, "with --jobs: how long a checkpoint and restart stalls a job (fifo, kill)")
	f.DurationVar(&o.planEvery, "plan-every", time.Minute, "with --jobs: minimum time between two decisions")
}

// shareJobs compares schedulers.
func (o dryRunOptions) shareJobs(ctx context.Context, out, errOut io.Writer) error {
	if err := cli.CheckFormat(o.format); err != nil {
		return err
	}
	study, err := o.jobsStudy(errOut)
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

func (o dryRunOptions) jobsStudy(errOut io.Writer) (s *jobs.Study, err error) {
	j := &o.shared
	s = &jobs.Study{Seed: o.seed, Resize: j.resize.Seconds(), Restart: j.restart.Seconds(), PlanEvery: j.planEvery.Seconds()}
	switch {
	case j.slot < 1 || !(j.stretch >= 1) || !(j.serial >= 0 && j.serial < 1) || j.resize < 0 || j.restart < 0 || j.planEvery < 0 || j.longest < 0 || j.count < 0 || !(j.widen >= 0):
		return nil, cli.Usage(errors.New("--slot and --stretch are 1 or more, --serial is below 1, and times and counts are not below 0"))
	case !slices.Contains([]string{"", "most", "mean"}, j.fixed):
		return nil, cli.Usage(fmt.Errorf("--fixed=%s: write --fixed or --fixed=mean", j.fixed))
	case j.hosts != "" && len(o.traces) > 0:
		return nil, cli.Usage(errors.New("--hosts is a cluster without prices: leave --prices out, or name --vcpu and --fixed"))
	}
	if s.Runs, err = strconv.Atoi(cmp.Or(o.starts, "1")); err != nil || s.Runs < 1 {
		return nil, cli.Usage(fmt.Errorf("--starts %q: with --jobs write a number of runs", o.starts))
	}
	if s.Sweep = strings.HasPrefix(j.jobs, "sweep:"); s.Sweep {
		err = j.sweep(s)
	} else {
		err = j.recorded(s, errOut)
	}
	if err != nil {
		return nil, err
	}
	if s.Slacks, err = o.deadline.multiples(); err != nil {
		return nil, err
	}
	for _, name := range withSettings(j.schedulers) {
		if _, err := jobs.Scheduler(name, s.Sweep); err != nil {
			return nil, cli.Usage(fmt.Errorf("--scheduler: %w", err))
		}
		if !slices.Contains(s.Schedulers, name) {
			s.Schedulers = append(s.Schedulers, name)
		}
	}
	if len(o.traces) == 0 {
		s.Buyers, err = j.cluster(s.Sweep)
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
func (j *jobsOptions) sweep(s *jobs.Study) error {
	parts := strings.Split(j.jobs, ":")
	wrong := cli.Usage(fmt.Errorf("--jobs %q: write sweep:TRIALS:APART, such as sweep:75:3m", j.jobs))
	if len(parts) != 3 {
		return wrong
	}
	trials, err := strconv.Atoi(parts[1])
	apart, err2 := time.ParseDuration(parts[2])
	if err != nil || err2 != nil || trials < 1 || trials > 100_000 || apart < 0 {
		return wrong
	}
	sweep := jobs.EPS(apart.Seconds())
	sweep.Trials, sweep.Slot = trials, float64(j.slot)
	s.Draw = func(seed uint64) ([]jobs.Script, error) { return sweep.Jobs(seed), nil }
	return nil
}

// recorded reads --jobs and --runtimes.
func (j *jobsOptions) recorded(s *jobs.Study, errOut io.Writer) error {
	t := jobs.Traced{Slot: float64(j.slot), Serial: j.serial, Stretch: j.stretch, Longest: j.longest.Seconds()}
	err := readPlain(j.jobs, func(r io.Reader) (err error) {
		t.Arrivals, err = jobs.ReadArrivals(r)
		return err
	})
	if err != nil {
		return cli.Usage(fmt.Errorf("--jobs %s: %w", j.jobs, err))
	}
	if j.runtimes != "" {
		err := readPlain(j.runtimes, func(r io.Reader) (err error) {
			t.Runtimes, err = jobs.ReadRuntimes(r)
			return err
		})
		if err != nil {
			return cli.Usage(fmt.Errorf("--runtimes %s: %w", j.runtimes, err))
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
	case j.group != "" && !slices.Contains(groups, j.group):
		return cli.Usage(fmt.Errorf("--group %s: the virtual clusters are %s", j.group, strings.Join(groups, ", ")))
	case j.group == "" && len(groups) > 1:
		return cli.Usage(fmt.Errorf("--jobs %s: arrivals of each virtual cluster begin at 0, so together they would form an artificial burst; choose one with --group: %s",
			j.jobs, strings.Join(groups, ", ")))

	case j.group != "":
		t.Arrivals = slices.DeleteFunc(t.Arrivals, func(a jobs.Arrival) bool { return a.Group != j.group })
	}
	if j.count > 0 {
		t.Arrivals = t.Arrivals[:min(j.count, len(t.Arrivals))]
	}
	drawn := 0
	for _, a := range t.Arrivals {
		if a.Runs == 0 {
			drawn++
		}
	}
	switch {
	case drawn > 0 && len(t.Runtimes) == 0:
		return cli.Usage(fmt.Errorf("--jobs %s has no run times: give them with --runtimes", j.jobs))
	case drawn > 0:
		fmt.Fprintf(errOut, "tierml: the run times of %d of %d jobs are drawn from %s: the combination is not a recording\n", drawn, len(t.Arrivals), j.runtimes)
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
func (j *jobsOptions) cluster(sweep bool) ([]jobs.Buyer, error) {
	if j.hosts == "" && !sweep {
		return nil, cli.Usage(errors.New("what do the jobs run on? Name --prices, --catalog and --vcpu, or --hosts"))
	}
	text := cmp.Or(j.hosts, "36x4")
	left, right, _ := strings.Cut(text, "x")
	count, err := strconv.Atoi(left)
	vcpus, err2 := strconv.Atoi(right)
	if err != nil || err2 != nil || count < 1 || count > 10_000 || vcpus < j.slot {
		return nil, cli.Usage(fmt.Errorf("--hosts %q: write COUNTxVCPUS, such as 36x4, with room for a --slot", text))
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
func (o dryRunOptions) buyers(s *jobs.Study, errOut io.Writer) error {
	if o.catalog == "" || o.fleet.vcpu < 1 {
		return cli.Usage(errors.New("--prices with --jobs needs --catalog, for on-demand prices, and --vcpu, the most vCPUs that are held"))
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
		return f.Type.VCPU < o.shared.slot || len(o.fleet.types) > 0 && !slices.Contains(o.fleet.types, f.Pool.Type) ||
			len(o.fleet.zones) > 0 && !slices.Contains(o.fleet.zones, f.Pool.Zone)
	})
	if len(offers) == 0 {
		return cli.Usage(errors.New("--prices: no pool of these --types and --zones has prices, a type in --catalog, and room for a --slot"))
	}
	like := jobs.Market{Least: 0, Most: o.fleet.vcpu, Widen: o.shared.widen, Boot: jobsBoot, AskEvery: jobsAsk}
	if o.shared.fixed == "most" {
		like.Least = like.Most
	}
	if like.Rules, err = market.Rules(cmp.Or(o.rules, "ec2-2017")); err != nil {
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
		if o.shared.fixed == "mean" {
			s.Buyers = append(s.Buyers, jobs.Buyer{Name: name + ", fixed at the mean", Market: &b, Starts: starts, Mean: true})
		}
	}
	return nil
}

// reliableTier returns the hourly cost of the machines that hold the jobs' state: --reliable, or one of the cheapest type.
func (o dryRunOptions) reliableTier(catalog *market.Catalog, cheapest planner.Offer) (market.USD, error) {
	name, text, counted := strings.Cut(cmp.Or(o.fleet.reliable, cheapest.Type.Name), ":")
	count := 1
	if counted {
		var err error
		if count, err = strconv.Atoi(text); err != nil || count < 0 {
			return 0, fmt.Errorf("--reliable %q: write a type, or a type and a number, such as c4.2xlarge:4", o.fleet.reliable)
		}
	}
	t, known := catalog.Lookup(cheapest.Pool.Region, name)
	if !known {
		return 0, fmt.Errorf("--reliable: %s is not in the catalog", name)
	}
	return market.USD(count) * t.OnDemand, nil
}

// jobsStarts returns times before which every pool has a week of prices; runs end at the end of the recording.
func (o dryRunOptions) jobsStarts(s *jobs.Study, pools []bidding.Candidate) (starts []time.Time, horizon float64, err error) {
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
