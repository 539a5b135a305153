package markets

import (
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/examples"
	"github.com/tierml/tierml/examples/data"
)

func NewDemoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [FOLDER]",
		Short: "Train a model on a replayed spot market (70 seconds)",
		Long: `It writes a job file, ratings and two months of spot prices to FOLDER, tierml-demo by default, and runs the job there: it
trains a model, through evictions, on 16 to 64 vCPUs of spot machines, which are processes on this computer. It buys nothing and needs no
network.`,
		Example: "  tierml demo",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := "tierml-demo"
			if len(args) == 1 {
				folder = args[0]
			}
			if err := writeDemo(folder, cmd.OutOrStdout()); err != nil {
				return err
			}
			run, _, err := cmd.Root().Find([]string{"run"})
			if err != nil {
				return err
			}
			if err := run.Flags().Set("yes", "true"); err != nil {
				return err
			}
			run.SetContext(cmd.Context())
			job := []string{filepath.Join(folder, "demo.yaml")}
			if err := run.ValidateArgs(job); err != nil { // run reads its job from there
				return err
			}
			return run.RunE(run, job)
		},
	}
}

// writeDemo writes the demo's files.
func writeDemo(folder string, out io.Writer) error {
	files := map[string][]byte{"demo.yaml": examples.Demo}
	for _, name := range []string{data.Prices, data.Catalog, data.Ratings, data.Licence, data.Readme} {
		content, err := data.Files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded in the program
		}
		files[filepath.Join("data", name)] = content
	}
	return writeSamples(folder, files, out)
}
