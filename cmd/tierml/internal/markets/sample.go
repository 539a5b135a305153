package markets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/examples/data"
	"github.com/tierml/tierml/internal/atomicfile"
)

func newPricesSampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sample [FOLDER]",
		Short: "Write a small recording of spot prices, to try TierML with",
		Long: `Two months of three machine types in one zone of EC2 in 2014, their price list, and where both come from. FOLDER is data by default, where
tierml init looks for them.`,
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
			cli.Next(cmd, cli.Step{Command: fmt.Sprintf("tierml market --trace %s --catalog %s", filepath.Join(folder, data.Prices), filepath.Join(folder, data.Catalog)),
				Why: "what each pool cost"}, cli.Step{Command: "tierml init", Why: "writes a job file"})
			return nil
		},
	}
}

// writeSample writes the recording into a folder. A file that is there is kept: it must be the same.
func writeSample(folder string, out io.Writer) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	for _, file := range []struct{ from, to string }{{data.Prices, data.Prices}, {data.Catalog, data.Catalog}, {data.Readme, "aws-us-west-1a-c3-2014.md"}} {
		content, err := data.Files.ReadFile(file.from)
		if err != nil {
			panic(err) // it is part of the program
		}
		path := filepath.Join(folder, file.to)
		switch there, err := os.ReadFile(path); {
		case err == nil && !bytes.Equal(there, content):
			return fmt.Errorf("%s exists and differs: name another folder", path)
		case err == nil:
			continue
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("writing the recording: %w", err)
		}
		if err := atomicfile.Write(path, content, 0o644); err != nil {
			return fmt.Errorf("writing the recording: %w", err)
		}
		if _, err := fmt.Fprintf(out, "Wrote %s\n", path); err != nil {
			return err
		}
	}
	return nil
}
