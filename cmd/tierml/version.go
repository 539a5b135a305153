package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/settings"
	"github.com/tierml/tierml/internal/table"
)

// builtFor is part of `tierml version -o json`.
type builtFor struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func newVersionCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and build details",
		Long:  "It prints one line, like --version; -o json prints an object for programs.",
		Example: `  tierml version
  tierml version -o json`,
		Args:              cobra.NoArgs,
		PersistentPreRunE: settings.TakeSettings, // not start.Done: it ends before a collection would pay
		RunE: func(cmd *cobra.Command, _ []string) error {
			plain, _, _ := strings.Cut(cli.Version(), " (")
			v := builtFor{plain, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if format != table.JSON && format != table.CSV {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "tierml %s\n", cli.Version())
				return err
			}
			return table.Table{
				Columns: []table.Column{{Name: "version"}, {Name: "go"}, {Name: "os"}, {Name: "arch"}},
				Rows:    [][]table.Cell{{table.Of(v.Version), table.Of(v.Go), table.Of(v.OS), table.Of(v.Arch)}}, Data: v,
			}.Write(cmd.OutOrStdout(), format)
		},
	}
	cli.OutputFlag(cmd, &format)
	return cmd
}
