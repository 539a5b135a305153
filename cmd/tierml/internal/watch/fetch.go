package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

func NewFetchCommand() *cobra.Command {
	at := target.Flags{Elsewhere: true}
	var into string
	var names []string
	cmd := &cobra.Command{
		Use:   "fetch RUN",
		Short: "Copy a job's model and report from a job server",
		Long:  `It copies them to a directory named after the run, where tierml report works, too.`,
		Example: `  tierml fetch demo-1 --server http://localhost:7071
  tierml fetch demo-1 --into results --file model.safetensors`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one run, such as demo-1; `tierml ps` lists them")
			}
			for _, name := range names {
				if !slices.Contains(call.Files, name) {
					return fmt.Errorf("--file %s cannot be fetched; choose from %v", name, call.Files)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				return fetch(ctx, runs, args[0], into, names, cmd.OutOrStdout())
			})
			if err == nil {
				cli.Next(cmd, cli.Step{Command: "tierml report --server none " + args[0], Why: "from what is here now"})
			}
			return err
		},
	}
	at.Flags(cmd)
	cmd.Flags().StringVar(&into, "into", rundir.Root, "create the run's directory in this `directory`")
	cmd.Flags().StringSliceVar(&names, "file", call.Files, "`names` of the files")
	return cmd
}

func fetch(ctx context.Context, runs target.Runs, run, into string, names []string, out io.Writer) error {
	run, job, err := runs.Get(ctx, run)
	if err != nil {
		return err
	}
	dir := filepath.Join(into, job.Run)
	if rundir.Held(dir) {
		return cli.Usage(fmt.Errorf("a run of this host is running in %s; name another --into", dir))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := atomicfile.WriteTo(path, 0o644, func(w io.Writer) error { return runs.File(ctx, run, name, w) })
		if errors.Is(err, fs.ErrNotExist) {
			continue // not there yet, or not for this kind of run
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, path)
	}
	return nil
}
