package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/internal/plainfile"
	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
)

// offerFlags are the flags that define what the fake cloud sells; both of its commands have them.
type offerFlags struct {
	provider string
	prices   string
	catalog  string
	region   string
	rules    string
}

func (g *offerFlags) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&g.prices, "prices", "", "`file` of spot prices (CSV or AWS JSON)")
	f.StringVar(&g.catalog, "catalog", "", "`file` of machine types and on-demand prices")
	f.StringVar(&g.provider, "provider", fakecloud.Kinds[0].Name, "the `cloud` to imitate: "+fakecloud.KindNames(" or "))
	f.StringVar(&g.region, "region", "", "`region` to imitate (default: that of the prices)")
	for _, name := range []string{"prices", "catalog"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
}

// load reads the files into a configuration.
func (g *offerFlags) load(log io.Writer) (fakecloud.Config, error) {
	c := fakecloud.Config{Provider: g.provider}
	if _, err := fakecloud.KindNamed(c.Provider); err != nil {
		return c, fmt.Errorf("--%w", err)
	}
	prices, err := readFile(g.prices, func(r io.Reader) (*trace.Trace, error) {
		return trace.Read(r, trace.Options{Provider: g.provider, File: g.prices})
	})
	if err != nil {
		return c, fmt.Errorf("--prices: %w; %s", err, local.WantedPrices)
	}
	catalog, err := readFile(g.catalog, market.ReadCatalog)
	if err != nil {
		return c, fmt.Errorf("--catalog: %w; %s", err, local.WantedCatalog)
	}
	if c.Region, err = g.chooseRegion(prices); err != nil {
		return c, err
	}
	for _, t := range catalog.Types(c.Region) {
		c.Types = append(c.Types, fakecloud.InstanceType{InstanceType: t})
	}
	cli.PrintDoubts(log, prices.Doubts(func(p market.Pool) bool { return p.Region == c.Region }))
	c.Prices = make(map[market.Pool]*market.History)
	for _, m := range prices.Markets {
		if m.Pool.Region == c.Region {
			c.Prices[m.Pool] = m.History
		}
	}
	return c, nil
}

func (g *offerFlags) chooseRegion(prices *trace.Trace) (string, error) {
	var regions []string
	for _, m := range prices.Markets {
		if !slices.Contains(regions, m.Pool.Region) {
			regions = append(regions, m.Pool.Region)
		}
	}
	switch {
	case g.region != "" && !slices.Contains(regions, g.region):
		return "", fmt.Errorf("%s: no prices of region %s; there are %s", g.prices, g.region, strings.Join(regions, ", "))
	case g.region != "":
		return g.region, nil
	case len(regions) == 0:
		return "", fmt.Errorf("%s holds no price of Linux/UNIX that can be used%s; name another price history", g.prices, prices.Summary.Others())
	case len(regions) != 1:
		return "", fmt.Errorf("%s: prices of %d regions (%s); choose one with --region", g.prices, len(regions), strings.Join(regions, ", "))
	}
	return regions[0], nil
}

// readFile opens a file, which may be compressed, and reads it.
func readFile[T any](path string, read func(io.Reader) (T, error)) (result T, err error) {
	file, err := plainfile.Open(path)
	if err != nil {
		return result, err
	}
	defer file.Close()
	r, err := decompress.Reader(file)
	if err != nil {
		return result, fmt.Errorf("%s: %w", path, err)
	}
	defer r.Close()
	if result, err = read(r); err != nil {
		return result, fmt.Errorf("%s: %w", path, err)
	}
	return result, nil
}

// fakecloudFlags are the flags of `tierml fakecloud`.
type fakecloudFlags struct {
	offerFlags
	config       fakecloud.Config // set directly by flags
	start        string
	speed        float64
	command      string
	script       string
	steps        []string
	capacity     map[string]string
	flopsPerVCPU float64
	verbose      bool
}

func NewFakecloudCommand() *cobra.Command {
	var o fakecloudFlags
	cmd := &cobra.Command{
		Use:   "fakecloud --prices FILE --catalog FILE",
		Short: "Run a cloud on this machine that speaks EC2's or Compute Engine's API and replays a spot market",
		Long: `Instances are processes of this machine; each has a metadata endpoint that announces evictions. Signatures are not checked.
Control it with:

  curl ENDPOINT/_control/instances     every instance, with the address of its metadata endpoint
  curl ENDPOINT/_control/bill          the bill until now
  curl ENDPOINT/_control/do -H 'Content-Type: application/json' -d '{"step": "evict oldest"}'`,
		Example: `  tierml fakecloud --prices prices.csv.gz --catalog types.csv.gz --speed 60
  tierml fakecloud --prices prices.csv.gz --catalog types.csv.gz --step "at 10m evict oldest"
  tierml fakecloud --provider gce --prices gce.csv --catalog gce-types.csv
  tierml fakecloud bill cloud.jsonl --prices prices.csv.gz --catalog types.csv.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&o.rules, "rules", "", "billing `rules` (default: ec2-2017 or gce-spot): "+strings.Join(market.RuleNames(), ", "))
	f.StringVar(&o.start, "start", "", "market `time` to start at (default: when all pools have a price)")
	f.Float64Var(&o.speed, "speed", 1, "`number` of market seconds per second")
	f.DurationVar(&o.config.Notice, "notice", 0, "warning before an eviction, in real time (default: 2m for EC2, 30s for GCE)")
	f.StringVar(&o.config.Listen, "listen", "127.0.0.1:0", "`address` of the API")
	f.StringVar(&o.config.Records, "records", "", "`file` of launch records to append to")
	f.StringVar(&o.command, "instance-command", "sleep infinity", "command `line` that an instance runs")
	f.StringVar(&o.script, "script", "", "`file` of steps, such as: at 10m evict oldest")
	f.StringArrayVar(&o.steps, "step", nil, "an additional `step` of the script; repeatable")
	f.StringToStringVar(&o.capacity, "capacity", nil, "maximum number of machines in a spot pool, `ZONE/TYPE=NUMBER`")
	more := cli.MoreSettings(cmd)
	more.DurationVar(&o.config.Boot, "boot", time.Second, "time from launch to an instance's process, in real time")
	more.DurationVar(&o.config.Visible, "eventual", 0, "time until a launched instance appears in listings, in real time")
	more.Float64Var(&o.flopsPerVCPU, "flops-per-vcpu", 0, "declared compute `rate` of instances (0: none)")
	more.DurationVar(&o.config.Grace, "grace", fakecloud.DefaultGrace, "time from SIGTERM to SIGKILL, in real time")
	more.StringVar(&o.config.LogDir, "log-dir", "", "`folder` for the instances' output")
	more.IntVar(&o.config.Limits.OnDemandInstances, "on-demand-limit", 0, "maximum `number` of on-demand instances in the account (0: no limit)")
	more.Uint64Var(&o.config.Seed, "seed", 1, "`seed` of ids and random targets")
	more.IntVar(&o.config.Limits.SpotInstances, "spot-limit", 0, "maximum `number` of spot instances in the account (0: no limit)")
	more.BoolVar(&o.verbose, "verbose", false, "print events")
	cmd.AddCommand(newFakecloudBillCommand())
	return cmd
}

// configure returns the whole configuration from the flags.
func (o *fakecloudFlags) configure(now time.Time, log io.Writer) (fakecloud.Config, error) {
	c, err := o.load(log)
	if err != nil {
		return c, err
	}
	files := c
	c = o.config
	c.Provider, c.Region, c.Types, c.Prices = files.Provider, files.Region, files.Types, files.Prices
	usual, err := fakecloud.KindNamed(c.Provider)
	if err != nil {
		return c, err
	}
	c.Notice, o.rules = cmp.Or(c.Notice, usual.Notice), cmp.Or(o.rules, usual.Rules)
	if c.Rules, err = market.Rules(o.rules); err != nil {
		return c, err
	}
	start, err := o.startTime(c.Prices)
	if err != nil {
		return c, err
	}
	if !(o.speed > 0) {
		return c, fmt.Errorf("--speed %v: must be above 0", o.speed)
	}
	c.Clock = clock.Mapping{Market: start, Wall: now, Speed: o.speed}
	for i := range c.Types {
		c.Types[i].FLOPS = o.flopsPerVCPU * float64(c.Types[i].VCPU)
	}
	c.Command = strings.Fields(o.command)
	if c.Capacity, err = o.capacities(c.Provider, c.Region); err != nil {
		return c, err
	}
	if c.Script, err = o.readScript(); err != nil {
		return c, err
	}
	if o.verbose {
		c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return c, nil
}

// printOutside reports if the recording has no prices at the simulated time: the first and last ones are assumed to hold.
func printOutside(out io.Writer, c fakecloud.Config) {
	var first, last time.Time
	for _, h := range c.Prices {
		if p, some := h.First(); some && (first.IsZero() || p.At.Before(first)) {
			first = p.At
		}
		if p, some := h.Last(); some && p.At.After(last) {
			last = p.At
		}
	}
	if start := c.Clock.Market; !first.IsZero() && (start.Before(first) || start.After(last)) {
		fmt.Fprintf(out, "Warning: the recorded prices go from %s to %s: before them nothing is on sale, after them the last ones stay\n",
			first.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339))
	}
}

// startTime returns the time of --start, or the first time at which every pool has a price.
func (o *fakecloudFlags) startTime(prices map[market.Pool]*market.History) (time.Time, error) {
	if o.start != "" {
		t, err := time.Parse(time.RFC3339, o.start)
		if err != nil {
			return t, fmt.Errorf("--start %q: write it as 2014-04-01T00:00:00Z", o.start)
		}
		return t, nil
	}
	var start time.Time
	for _, h := range prices {
		if first, ok := h.First(); ok && first.At.After(start) {
			start = first.At
		}
	}
	return start, nil
}

func (o *fakecloudFlags) capacities(provider, region string) (map[market.Pool]int, error) {
	all := make(map[market.Pool]int)
	for key, value := range o.capacity {
		zone, kind, ok := strings.Cut(key, "/")
		count, err := strconv.Atoi(value)
		if !ok || err != nil || count < 0 {
			return nil, fmt.Errorf("--capacity %s=%s: write it as us-west-1a/c3.xlarge=5", key, value)
		}
		all[market.Pool{Provider: provider, Region: region, Zone: zone, Type: kind, Class: market.Spot}] = count
	}
	return all, nil
}

func (o *fakecloudFlags) readScript() (fakecloud.Script, error) {
	var script fakecloud.Script
	if o.script != "" {
		text, err := os.ReadFile(o.script)
		if err != nil {
			return nil, err
		}
		if script, err = fakecloud.ParseScript(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", o.script, err)
		}
	}
	for _, text := range o.steps {
		step, err := fakecloud.ParseStep(text)
		if err != nil {
			return nil, fmt.Errorf("--step: %w", err)
		}
		script = append(script, step)
	}
	return script, nil
}

func (o *fakecloudFlags) run(cmd *cobra.Command) error {
	c, err := o.configure(time.Now(), cmd.ErrOrStderr())
	if err != nil {
		return cli.Usage(err)
	}
	cloud, err := fakecloud.New(c)
	if err != nil {
		return cli.Usage(access.Taken(err))
	}
	ctx, stop := cli.UntilInterrupted(cmd.Context())
	defer stop()
	out := cmd.OutOrStdout()
	kind, err := fakecloud.KindNamed(c.Provider)
	if err != nil {
		return cli.Usage(err)
	}
	fmt.Fprintf(out, "%s API of %s at %s\n", kind.Title, c.Region, cloud.Endpoint())
	fmt.Fprintf(out, "market time starts at %s and runs %g times as fast; %d spot pools, %d types, rules %s\n",
		c.Clock.Market.UTC().Format(time.RFC3339), c.Clock.Speed, len(c.Prices), len(c.Types), c.Rules.Name())
	printOutside(out, c)
	fmt.Fprintln(out, "try: "+strings.NewReplacer("{endpoint}", cloud.Endpoint(), "{region}", c.Region).Replace(kind.Try))
	if !sameuser.Supported {
		fmt.Fprintln(out, "this system does not report a connection's user: every user of this host can use the cloud")
	}
	fmt.Fprintln(out, "Ctrl-C ends it and its instances.")
	if err := cloud.Run(ctx); err != nil {
		return err
	}
	bill, err := cloud.Bill()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ended at %s; %d instances cost $%s\n", bill.AsOf.Format(time.RFC3339), len(bill.Lines), bill.Total)
	return nil
}

func newFakecloudBillCommand() *cobra.Command {
	var g offerFlags
	var output string
	cmd := &cobra.Command{
		Use:   "bill RECORDS --prices FILE --catalog FILE",
		Short: "Print what the instances in a fake cloud's launch records cost",
		Long:  `The bill of a killed cloud ends at the last time that it was known to be alive.`,
		Example: `  tierml fakecloud bill cloud.jsonl --prices prices.csv.gz --catalog types.csv.gz
  tierml fakecloud bill runs/demo-1/cloud.jsonl --prices prices.csv.gz --catalog types.csv.gz -o csv`,
		Args: cli.Arguments(1, 1, "name one file of launch records, such as runs/demo-1/cloud.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			bill, err := billOf(args[0], g)
			if err != nil {
				return err
			}
			return printBill(cmd.OutOrStdout(), bill, output)
		},
	}
	g.bind(cmd)
	cmd.Flags().StringVar(&g.rules, "rules", "", "billing `rules` (default: those of the records)")
	cli.OutputFlag(cmd, &output)
	return cmd
}

func billOf(path string, g offerFlags) (fakecloud.Bill, error) {
	records, err := readFile(path, fakecloud.ReadRecords)
	if err != nil {
		return fakecloud.Bill{}, err
	}
	for _, r := range records {
		if r.Kind == fakecloud.Launched {
			g.provider = r.Pool.Provider
		}
		if r.Kind != fakecloud.Opened {
			continue
		}
		if g.region == "" {
			g.region = r.Region
		}
		if g.rules == "" {
			g.rules = r.Rules
		}
	}
	if g.rules == "" {
		return fakecloud.Bill{}, errors.New("the records do not name billing rules; choose with --rules")
	}
	rules, err := market.Rules(g.rules)
	if err != nil {
		return fakecloud.Bill{}, err
	}
	c, err := g.load(io.Discard) // reported when the cloud was started
	if err != nil {
		return fakecloud.Bill{}, err
	}
	return fakecloud.NewBill(records, rules, c.Histories())
}

func printBill(w io.Writer, bill fakecloud.Bill, form string) error {
	t := table.Table{Data: bill, Columns: []table.Column{
		{Name: "instance", Title: "INSTANCE"}, {Name: "pool", Title: "POOL"}, {Name: "launched", Title: "LAUNCHED"}, {Name: "ended", Title: "ENDED"},
		{Name: "by", Title: "BY"}, {Name: "reason", Title: "REASON"}, {Name: "usd", Title: "USD"}, {Name: "bid_usd", Title: "BID", Wide: true},
		{Name: "charges", Title: "CHARGES", Wide: true},
	}}
	for _, line := range bill.Lines {
		ended := table.Cell{Text: "running", Value: ""}
		if !line.Ended.IsZero() {
			ended = table.Of(line.Ended.UTC().Format(time.RFC3339))
		}
		t.Rows = append(t.Rows, []table.Cell{table.Of(line.ID), table.Of(line.Pool), table.Of(line.Launched.UTC().Format(time.RFC3339)), ended,
			table.Of(line.By), table.Of(line.Reason), table.Of(line.Total), table.Of(line.Bid), table.Of(len(line.Charges))})
	}
	if err := t.Write(w, form); err != nil || form == table.JSON || form == table.CSV {
		return err
	}
	_, err := fmt.Fprintf(w, "total as of %s, rules %s: $%s\n", bill.AsOf.Format(time.RFC3339), bill.Rules, bill.Total)
	return err
}
