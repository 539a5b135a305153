package markets

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/store"
	"github.com/tierml/tierml/market/trace"
)

func newPricesShowCommand() *cobra.Command {
	var s selection
	var format string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "List the contents of the store",
		Long:  "For each pool: the number of prices, their period, and the longest gap.",
		Example: `  tierml prices show
  tierml prices show --zones us-east-1 --types m4.4xlarge -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd, func(st *store.Store, path string) error {
				entries, err := chosenEntries(st, path, s)
				if err != nil {
					return err
				}
				return writeEntries(cmd.OutOrStdout(), entries, format)
			})
		},
	}
	s.addTo(cmd)
	cli.OutputFlag(cmd, &format)
	return cmd
}

func withStore(cmd *cobra.Command, f func(s *store.Store, path string) error) error {
	path, err := storePath(cmd)
	if err != nil {
		return err
	}
	s, err := store.OpenReadOnly(path)
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s, path)
}

func chosenEntries(st *store.Store, path string, s selection) ([]store.Entry, error) {
	all, err := st.Entries()
	if err != nil {
		return nil, err
	}
	var chosen []store.Entry
	var pools []market.Pool
	for _, e := range all {
		pools = append(pools, e.Pool)
		if s.has(e.Pool) {
			chosen = append(chosen, e)
		}
	}
	if len(chosen) == 0 {
		return nil, s.nothing("the price store "+path, pools)
	}
	return chosen, nil
}

func writeEntries(w io.Writer, entries []store.Entry, format string) error {
	t := table.Table{Data: entries, Columns: []table.Column{
		{Name: "pool"}, {Title: "ZONE"}, {Title: "TYPE"}, {Name: "prices", Title: "PRICES"}, {Name: "first", Title: "FROM"}, {Name: "last", Title: "TO"},
		{Name: "longest_gap_seconds", Title: "GAP"}, {Name: "gap_from", Title: "GAP FROM", Wide: true},
	}}
	total := 0
	for _, e := range entries {
		total += e.Points
		t.Rows = append(t.Rows, []table.Cell{table.Of(e.Pool), table.Of(e.Pool.Zone), table.Of(e.Pool.Type), table.Of(e.Points), cli.Minute(e.First), cli.Minute(e.Last),
			{Text: fmt.Sprintf("%.1fh", e.LongestGap.Hours()), Value: e.LongestGap.Seconds()}, cli.Minute(e.GapFrom)})
	}
	if err := t.Write(w, format); err != nil || !cli.ForPeople(format) {
		return err
	}
	_, err := fmt.Fprintf(w, "%d pools, %d prices\nGAP: the longest time between two prices; EC2 repeats an unchanged one daily.\n", len(entries), total)
	return err
}

func newPricesExportCommand() *cobra.Command {
	var s selection
	var file string
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Write the store's prices as CSV",
		Long:    "tierml prices import and --prices read this CSV: columns timestamp, zone, instance_type, product, price.",
		Example: `  tierml prices export --zones us-east-1a --types c3.xlarge,c3.4xlarge --into prices.csv`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd, func(st *store.Store, path string) error {
				if _, err := chosenEntries(st, path, s); err != nil {
					return err
				}
				t, err := st.Trace(s.has)
				if err != nil {
					return err
				}
				if file == "" {
					return trace.Write(cmd.OutOrStdout(), trace.LinuxUNIX, t.Markets)
				}
				return writeFile(file, func(w io.Writer) error { return trace.Write(w, trace.LinuxUNIX, t.Markets) })
			})
		},
	}
	s.addTo(cmd)
	cmd.Flags().StringVar(&file, "into", "", "write to this `file`; default: standard output")
	return cmd
}
