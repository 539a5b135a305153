package markets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/examples/data"
	"github.com/tierml/tierml/internal/atomicfile"
)

func newPricesSampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sample [FOLDER]",
		Short: "Write a small recording of spot prices, to try TierML with",
		Long: `It has two months of prices of three EC2 machine types in one zone in 2014, their price list, and the sources of both. FOLDER
is data by default, where tierml init looks for them.`,
		Example: `  tierml prices sample`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := "data"
			if len(args) == 1 {
				folder = args[0]
			}
			if err := writeSample(folder, cmd.OutOrStdout()); err != nil {
				return err
			}
			cli.Next(cmd, cli.Step{Command: fmt.Sprintf("tierml market --prices %s --catalog %s", filepath.Join(folder, data.Prices), filepath.Join(folder, data.Catalog)),
				Why: "what each pool cost"}, cli.Step{Command: "tierml init", Why: "writes a job file"})
			return nil
		},
	}
}

// writeSample writes the recording into a folder.
func writeSample(folder string, out io.Writer) error {
	files := map[string][]byte{}
	for name, to := range map[string]string{data.Prices: data.Prices, data.Catalog: data.Catalog, data.Readme: "aws-us-west-1a-c3-2014.md"} {
		content, err := data.Files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded in the program
		}
		files[to] = content
	}
	return writeSamples(folder, files, out)
}

// writeSamples writes files below a folder, in order of their names. An existing one is kept, and must be identical.
func writeSamples(folder string, files map[string][]byte, out io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing samples: %w", err)
		}
		switch there, err := os.ReadFile(path); {
		case err == nil && !bytes.Equal(there, files[name]):
			return fmt.Errorf("%s exists and differs: name another folder", path)
		case err == nil:
			continue
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("writing samples: %w", err)
		}
		if err := atomicfile.Write(path, files[name], 0o644); err != nil {
			return fmt.Errorf("writing samples: %w", err)
		}
		if _, err := fmt.Fprintf(out, "Wrote %s\n", path); err != nil {
			return err
		}
	}
	return nil
}
