package markets

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/settings"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/gceprice"
	"github.com/tierml/tierml/market/store"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/providers"
)

// storeVariable names the price store if no flag does.
const storeVariable = "TIERML_PRICES"

func NewPricesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prices",
		Short: "Keep spot-price history: import files, fetch it from EC2, show and export it",
		Long: `The price store is one file, which tierml market and --prices of tierml dry-run read: --store, else the file that the variable
` + storeVariable + ` names, else tierml/prices.db in the user's data folder. EC2 itself keeps 90 days.`,
		Example: `  tierml prices import prices-2016.csv.gz
  tierml prices show`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	storeFlag(cmd.PersistentFlags())
	cmd.AddCommand(newPricesExportCommand(), newPricesFetchCommand(), newPricesImportCommand(), newPricesSampleCommand(), newPricesShowCommand())
	return cmd
}

// storeFlag names the price store; all commands that read it share one setting.
func storeFlag(f *pflag.FlagSet) {
	f.StringVar(new(string), "store", "", "price store `file`")
	_ = f.SetAnnotation("store", settings.SharedSetting, []string{"prices.store", storeVariable}) // it exists
}

// storePath returns the price store of a command.
func storePath(cmd *cobra.Command) (string, error) {
	if path, _ := cmd.Flags().GetString("store"); path != "" {
		return path, nil
	}
	if path := os.Getenv(storeVariable); path != "" {
		return path, nil
	}
	folder := os.Getenv("XDG_DATA_HOME")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", cli.Usage(fmt.Errorf("no place for the price store: %w; name one with --store", err))
		}
		folder = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(folder, "tierml", "prices.db"), nil
}

// selection picks pools by type and zone.
type selection struct{ types, zones []string }

func (s *selection) addTo(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.types, "types", nil, "only these machine `types`, such as c3.xlarge,c3.4xlarge")
	cmd.Flags().StringSliceVar(&s.zones, "zones", nil, "only these `zones`, such as us-east-1a, or all of a region")
}

func (s *selection) has(p market.Pool) bool {
	return (len(s.types) == 0 || slices.Contains(s.types, p.Type)) &&
		(len(s.zones) == 0 || slices.Contains(s.zones, p.Zone) || slices.Contains(s.zones, p.Region))
}

// nothing returns an error that nothing was found, and lists what exists.
func (s *selection) nothing(where string, all []market.Pool) error {
	if len(all) == 0 {
		return fmt.Errorf("%s holds no prices: `tierml prices fetch` fetches them with your account, `tierml prices import FILE` reads a recording, "+
			"and `tierml prices sample` writes a small one", where)
	}
	var some []string
	for _, p := range all[:min(len(all), 5)] {
		some = append(some, p.Zone+"/"+p.Type)
	}
	if len(all) > 5 {
		some = append(some, fmt.Sprintf("and %d more", len(all)-5))
	}
	return fmt.Errorf("%s has no prices of --types %s --zones %s%s; it has %s", where, orAll(s.types), orAll(s.zones), s.meant(all), strings.Join(some, ", "))
}

// meant suggests the first type or zone that is probably misspelt.
func (s *selection) meant(all []market.Pool) string {
	var types, zones []string
	for _, p := range all {
		types, zones = append(types, p.Type), append(zones, p.Zone, p.Region)
	}
	for _, named := range []struct{ names, known []string }{{s.types, types}, {s.zones, zones}} {
		for _, name := range named.names {
			if !slices.Contains(named.known, name) {
				return cli.DidYouMean(name, named.known)
			}
		}
	}
	return ""
}

func orAll(names []string) string {
	if len(names) == 0 {
		return "(all)"
	}
	return strings.Join(names, ",")
}

func newPricesImportCommand() *cobra.Command {
	o := importOptions{}
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Add price-history files to the store",
		Long: `Files are tables with the columns timestamp, zone, instance_type, product and price, in any order and by their usual names, or what
aws ec2 describe-spot-price-history prints as JSON, text or table; or Parquet; or a price list of Compute Engine (the Cloud Billing
Catalog API's services/6F81-5844-456A/skus). They may be compressed with gzip, Zstandard, bzip2 or xz, or alone in a zip archive.

Doubtful rows are reported. A line that cannot be parsed ends the import, and nothing from its file is kept. Later imports override earlier ones.`,
		Example: `  tierml prices import prices-2016.csv.gz
  aws ec2 describe-spot-price-history --start-time 2026-10-01 > october.json; tierml prices import october.json`,
		Args: cli.Arguments(1, -1, "name the files to import, such as prices-2016.csv.gz"),
		RunE: func(cmd *cobra.Command, files []string) error {
			path, err := storePath(cmd)
			if err != nil {
				return err
			}
			if err := o.files(cmd.Context(), path, files, time.Now(), cmd.OutOrStdout()); err != nil {
				return err
			}
			cli.Next(cmd, afterPrices...)
			return nil
		},
	}
	cmd.Flags().StringVar(&o.catalog, "catalog", "", "for Compute Engine's price list: also write a catalog to this `file`")
	cmd.Flags().StringVar(&o.Product, "product", trace.LinuxUNIX, "the `product` whose prices are kept")
	return cmd
}

// afterPrices lists next steps after new prices.
var afterPrices = []cli.Step{{Command: "tierml prices show", Why: "what the store holds"}, {Command: "tierml market", Why: "what each pool costs now"}}

type importOptions struct {
	trace.Options
	catalog string
}

func (o importOptions) files(ctx context.Context, path string, files []string, now time.Time, out io.Writer) error {
	s, err := store.Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, file := range files {
		if err := o.file(ctx, s, file, now.UTC().Truncate(time.Second), out); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "The prices are in %s\n", path)
	return nil
}

func (o importOptions) file(ctx context.Context, s *store.Store, file string, now time.Time, out io.Writer) error {
	f, err := cli.OpenRegular(file, "name a file of prices, such as prices-2016.csv.gz")
	if err != nil {
		return err
	}
	defer f.Close()
	bar := progress.Start(ctx, "Reading "+filepath.Base(file), cli.SizeOf(file), progress.Bytes)
	defer bar.Done()
	out = progress.From(ctx).Writer(out)
	content, isList := gceprice.IsList(bar.Reader(f))
	var markets []trace.Market
	if isList {
		list, err := gceprice.Read(content)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		fmt.Fprintf(out, "%s: %d machine types in the regions of a price list of %d SKUs, %d of them of other products\n",
			file, len(list.Offers), list.SKUs, list.Ignored)
		if err := o.writeCatalog(list, out); err != nil {
			return err
		}
		markets = list.Prices(now)
	} else {
		o.Options.File, o.Options.Now = filepath.Base(file), now
		t, err := trace.Read(content, o.Options)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		fmt.Fprintf(out, "%s: %s\n", file, &t.Summary)
		if t.Summary.NoProduct {
			fmt.Fprintf(out, "%s names no product: its prices are treated as those of %s\n", file, cmp.Or(o.Product, trace.LinuxUNIX))
		}
		printNotes(out, &t.Summary)
		if len(t.Markets) == 0 {
			return fmt.Errorf("%s: no row has a usable price of %s%s", file, cmp.Or(o.Product, trace.LinuxUNIX), otherProducts(t))
		}
		markets = t.Markets
	}
	bar.Done()
	bar = progress.Start(ctx, "Adding its prices to the store", 0, progress.Things)
	defer bar.Done()
	done, err := s.Import(markets, file)
	bar.Done()
	if err != nil {
		return err
	}
	printImport(out, done)
	return nil
}

// otherProducts names the products in a file that lacks the wanted ones.
func otherProducts(t *trace.Trace) string {
	switch {
	case len(t.Summary.Products) == 0 && t.Summary.Rows == 0:
		return ": it has no rows; AWS answers so where the region, types or times have none"
	case len(t.Summary.Products) == 0:
		return "; name another file"
	}
	return "; it has " + strings.Join(t.Summary.Products, ", ") + ": name one with --product"
}

func (o importOptions) writeCatalog(list *gceprice.List, out io.Writer) error {
	if o.catalog == "" {
		return nil
	}
	err := writeFile(o.catalog, list.WriteCatalog)
	if err == nil {
		fmt.Fprintf(out, "  their shapes and on-demand prices are in %s\n", o.catalog)
	}
	return err
}

func printImport(out io.Writer, done store.Import) {
	fmt.Fprintf(out, "  %d pools, %d prices, %d of them new", done.Pools, done.Points, done.New)
	if done.Conflicts > 0 {
		fmt.Fprintf(out, "; %d replace another price of the same instant that the store had", done.Conflicts)
	}
	fmt.Fprintln(out)
}

// printNotes lists a reader's doubts about a file, a few of each kind.
func printNotes(out io.Writer, s *trace.Summary) {
	const most = 3
	list := func(what string, n int, line func(int) string) {
		for i := range min(n, most) {
			fmt.Fprintf(out, "  %s: %s\n", what, line(i))
		}
		if n > most {
			fmt.Fprintf(out, "  %s: and %d more\n", what, n-most)
		}
	}
	row := func(notes []trace.RowNote) func(int) string {
		return func(i int) string { return notes[i].String() }
	}
	list("contradicts an earlier row", len(s.Conflicts), row(s.Conflicts))
	list("absurd, left out", len(s.Absurd), row(s.Absurd))
	list("not recorded", len(s.Holes), func(i int) string { return s.Holes[i].String() })
}

type fetchOptions struct {
	region, endpoint string
	since            string
	selection
}

func newPricesFetchCommand() *cobra.Command {
	var o fetchOptions
	cmd := &cobra.Command{
		Use:   "fetch",
		Short: "Fetch spot prices from EC2 and add them to the store",
		Long:  `EC2 keeps prices for 90 days; to keep more, run this daily by cron. It needs the permission ec2:DescribeSpotPriceHistory.`,
		Example: `  tierml prices fetch --region us-east-1 --types c5.xlarge,c5.4xlarge
  tierml prices fetch --region us-east-1 --since 24h`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := storePath(cmd)
			if err != nil {
				return err
			}
			ctx, stop := cli.UntilInterrupted(cmd.Context())
			defer stop()
			if err := o.fetch(ctx, path, time.Now(), cmd.OutOrStdout()); err != nil {
				return err
			}
			cli.Next(cmd, afterPrices...)
			return nil
		},
	}
	o.addTo(cmd)
	f := cmd.Flags()
	f.StringVar(&o.region, "region", os.Getenv("AWS_REGION"), "EC2 `region`; default: AWS_REGION in the environment")
	f.Lookup("region").DefValue = "" // not printed: it differs between hosts
	f.StringVar(&o.endpoint, "endpoint", "", "`address`, such as a fake cloud's; default: EC2's")
	f.StringVar(&o.since, "since", "90d", "how far back: a `time`, or a length such as 30d")
	return cmd
}

func (o fetchOptions) fetch(ctx context.Context, path string, now time.Time, out io.Writer) error {
	if o.region == "" {
		return cli.Usage(errors.New("name the region, such as --region us-east-1"))
	}
	since, err := cli.Since(o.since, now)
	if err != nil {
		return cli.Usage(err)
	}
	facts, err := keeper()
	if err != nil {
		return err
	}
	bar := progress.Start(ctx, "Fetching prices", 0, progress.Things)
	prices, err := facts.Past(ctx, providers.PastQuery{Region: o.region, Endpoint: o.endpoint, Types: o.types, Zones: o.zones, Since: since,
		Tell: func(n int) { bar.Set(n, 0) }})
	bar.Done()
	if err != nil {
		return err
	}
	if len(prices) == 0 {
		return fmt.Errorf("%s knows no spot prices of --types %s --zones %s in %s since %s", facts.Title, orAll(o.types), orAll(o.zones), o.region, since.Format(time.RFC3339))
	}
	s, err := store.Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	bar = progress.Start(ctx, "Adding them to the store", 0, progress.Things)
	defer bar.Done()
	done, err := s.Import(trace.Of(prices), facts.Title+" "+o.region)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s since %s:\n", facts.Title, o.region, since.UTC().Format(time.RFC3339))
	printImport(out, done)
	fmt.Fprintf(out, "The prices are in %s\n", path)
	return nil
}

// keeper returns the first provider that has past prices of everything it sells.
func keeper() (providers.Facts, error) {
	for _, p := range providers.All() {
		if f := p.Facts(); f.Past != nil {
			return f, nil
		}
	}
	return providers.Facts{}, errors.New("no supported provider publishes past prices")
}

// writeFile leaves no incomplete file behind.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(path)
		}
	}()
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}
