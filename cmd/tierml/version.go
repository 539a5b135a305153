package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/internal/table"
)

// builtFor is what `tierml version -o json` says.
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
		Long:  "It is one line, the same as --version; with -o json an object for programs.",
		Example: `  tierml version
  tierml version -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plain, _, _ := strings.Cut(version(), " (")
			v := builtFor{plain, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if format != table.JSON && format != table.CSV {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "tierml %s\n", version())
				return err
			}
			return table.Table{
				Columns: []table.Column{{Name: "version"}, {Name: "go"}, {Name: "os"}, {Name: "arch"}},
				Rows:    [][]table.Cell{{table.Of(v.Version), table.Of(v.Go), table.Of(v.OS), table.Of(v.Arch)}}, Data: v,
			}.Write(cmd.OutOrStdout(), format)
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

// buildVersion is set by the Makefile: -ldflags "-X main.buildVersion=v1.2.3".
var buildVersion string

// version returns the version of the program. Built without make, it is what Go knows: the module's version, or
// the commit.
func version() string {
	v := buildVersion
	if v == "" {
		v = versionOfBuild()
	}
	return v + " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
}

func versionOfBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "commit " + setting.Value
		}
	}
	return "unknown"
}
