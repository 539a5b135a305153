// Package markets has the commands about prices: market, prices, dry-run, calibrate.
package markets

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"
	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/advisor"
	"github.com/tierml/tierml/market/store"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/planner/quote"
)

type marketOptions struct {
	traces                 []string
	catalog, advisor       string
	bid, at, hours, format string
	chart                  bool
	selection
}

func NewMarketCommand() *cobra.Command {
	var o marketOptions
	cmd := &cobra.Command{
		Use:   "market",
		Short: "Show what each pool costs now and how long its machines are expected to last",
		Long: `IN 1H and IN JOB are the probabilities of an eviction within an hour and within --hours. "-" means unknown (SAVES needs --catalog);
">" means that the price never exceeded the bid in that time. Prices come from the price store (see tierml prices) or from --prices.`,
		Example: `  tierml market --catalog catalog.csv --zones us-east-1a
  tierml market --prices prices.csv.gz --catalog catalog.csv --at 2016-03-10T12:00:00Z --hours 8 -o wide
  tierml market --prices prices.csv.gz --catalog catalog.csv --types c3.xlarge --chart`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.show(cmd); err != nil {
				return err
			}
			cli.Next(cmd, cli.Step{Command: "tierml init", Why: "writes a job file for some of these machines"})
			return nil
		},
	}
	o.addTo(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&o.traces, "prices", nil, "price history `files`, instead of the price store")
	storeFlag(f)
	f.StringVar(&o.catalog, "catalog", "", "`file` of machine types and on-demand prices")
	f.StringVar(&o.advisor, "advisor", "", "`file` of Amazon's Spot Instance Advisor (spot-advisor-data.json)")
	f.StringVar(&o.bid, "bid", "on-demand", "the `bid`: on-demand, a share of it such as 50%, or dollars per hour such as 0.2")
	f.StringVar(&o.at, "at", "", "show the market at this `time`; default: that of the last known price")
	f.StringVar(&o.hours, "hours", "", "length of the job in `hours`, for IN JOB")
	f.BoolVar(&o.chart, "chart", false, "draw the price of each pool over the previous week")
	cli.OutputFlag(cmd, &o.format)
	return cmd
}

func (o marketOptions) show(cmd *cobra.Command) error {
	write := func(w io.Writer, q []quote.Quote) error {
		return quote.WriteTable(w, q, table.Width(w), o.format == table.Wide)
	}
	switch o.format {
	case table.JSON:
		write = quote.WriteJSON
	case table.CSV:
		write = quote.WriteCSV
	}
	query, err := o.query()
	if err != nil {
		return err
	}
	t, where, err := o.prices(cmd)
	if err != nil {
		return err
	}
	markets, pools := []trace.Market{}, []market.Pool{}
	for _, m := range t.Markets {
		pools = append(pools, m.Pool)
		if o.has(m.Pool) {
			markets = append(markets, m)
		}
	}
	if len(markets) == 0 {
		return o.nothing(where, pools)
	}
	if query.At.IsZero() {
		query.At = t.Summary.Last
	}
	if first, last := t.Summary.First, t.Summary.Last; query.At.Before(first) || query.At.After(last.Add(longSilence)) {
		return cli.Usage(fmt.Errorf("--at %s is outside the prices, which go from %s to %s; write a time between them", o.at, first.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339)))
	}
	cli.PrintDoubts(cmd.ErrOrStderr(), t.Doubts(o.has))
	quotes := quote.Make(markets, query)
	out := cmd.OutOrStdout()
	if cli.ForPeople(o.format) {
		_ = table.Folded(out, func(w io.Writer) error { // the table's error is the stream's
			_, err := fmt.Fprintf(w, "Spot market of %s as of %s UTC; bid: %s\n\n", where, query.At.UTC().Format("2006-01-02 15:04:05"), o.bid)
			return err
		})
	}
	if err := write(out, quotes); err != nil {
		return fmt.Errorf("printing the market: %w", err)
	}
	if o.chart && cli.ForPeople(o.format) {
		return drawCharts(out, quotes, query.At)
	}
	return nil
}

// longSilence is how long a last price can be assumed to hold: price lists of Compute Engine come every month.
const longSilence = 31 * 24 * time.Hour

// query reads the flags, and the files related to the prices.
func (o marketOptions) query() (q quote.Query, err error) {
	if q.Bid, err = parseBid(o.bid); err != nil {
		return q, cli.Usage(err)
	}
	if o.at != "" {
		if q.At, err = time.Parse(time.RFC3339, o.at); err != nil {
			return q, cli.Usage(fmt.Errorf("--at %q: write a time such as 2016-03-10T12:00:00Z", o.at))
		}
	}
	if o.hours != "" {
		hours, err := strconv.ParseFloat(o.hours, 64)
		if err != nil || !(hours > 0) || hours > 10000 {
			return q, cli.Usage(fmt.Errorf("--hours %q: write a number above 0, such as 8", o.hours))
		}
		q.Horizon = time.Duration(hours * float64(time.Hour))
	}
	if o.catalog != "" {
		if q.Catalog, err = local.ReadCatalog(o.catalog); err != nil {
			return q, cli.Usage(fmt.Errorf("--catalog: %s: %w; %s", o.catalog, err, local.WantedCatalog))
		}
	}
	if o.advisor != "" {
		f, err := os.Open(o.advisor)
		if err != nil {
			return q, fmt.Errorf("reading the spot advisor: %w", err)
		}
		defer f.Close()
		if q.Advisor, err = advisor.Read(f); err != nil {
			return q, fmt.Errorf("%s: %w", o.advisor, err)
		}
	}
	return q, nil
}

// prices reads the files of --prices, or the store.
func (o marketOptions) prices(cmd *cobra.Command) (t *trace.Trace, where string, err error) {
	if len(o.traces) == 0 {
		err = withStore(cmd, func(s *store.Store, path string) (err error) {
			where = filepath.Base(path)
			t, err = s.Trace(func(market.Pool) bool { return true })
			return err
		})
		return t, where, err
	}
	all := make([]*trace.Trace, 0, len(o.traces))
	var names []string
	for _, file := range o.traces {
		one, err := local.ReadPrices(file)
		if err != nil {
			return nil, "", cli.Usage(fmt.Errorf("--prices: %s: %w; %s", file, err, local.WantedPrices))
		}
		all, names = append(all, one), append(names, filepath.Base(file))
	}
	return trace.Merge(all...), strings.Join(names, ", "), nil
}

// parseBid parses "on-demand", a share of it, or an amount.
func parseBid(text string) (quote.Bid, error) {
	if text == "on-demand" {
		return quote.Bid{Share: 1}, nil
	}
	if share, ok := strings.CutSuffix(text, "%"); ok {
		amount, err := market.ParseUSD(share)
		if err == nil && amount > 0 {
			return quote.Bid{Share: float64(amount) / float64(100*market.Dollar)}, nil
		}
	} else if amount, err := market.ParseUSD(strings.TrimPrefix(text, "$")); err == nil && amount > 0 {
		return quote.Bid{Amount: amount}, nil
	}
	return quote.Bid{}, fmt.Errorf("--bid %q: write on-demand, a share of it such as 50%%, or dollars per hour such as 0.2", text)
}

// drawCharts draws the hourly mean of each pool's price over the previous week, with the on-demand price as a second line if known.
func drawCharts(out io.Writer, quotes []quote.Quote, at time.Time) error {
	const steps = 70
	step := 7 * 24 * time.Hour / steps
	for _, q := range quotes {
		var series []float64
		for i := range steps {
			from := at.Add(-time.Duration(steps-i) * step)
			if mean, known := q.History.Mean(from, from.Add(step)); known {
				series = append(series, float64(mean)/float64(market.Dollar))
			}
		}
		if len(series) == 0 {
			continue
		}
		lines := [][]float64{series}
		caption := fmt.Sprintf("%s %s, $ per hour, %s to %s", q.Pool.Zone, q.Pool.Type,
			at.Add(-time.Duration(len(series))*step).UTC().Format("2006-01-02"), at.UTC().Format("2006-01-02 15:04"))
		if q.OnDemand != nil && slices.Max(series) > float64(*q.OnDemand)/float64(market.Dollar)/2 {
			lines = append(lines, slices.Repeat([]float64{float64(*q.OnDemand) / float64(market.Dollar)}, len(series)))
			caption += "; level: on demand"
		}
		_, err := fmt.Fprintf(out, "\n%s\n", asciigraph.PlotMany(lines, asciigraph.Height(8), asciigraph.Precision(4), asciigraph.Caption(caption)))
		if err != nil {
			return errors.Join(errors.New("drawing the chart"), err)
		}
	}
	return nil
}
