package change

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/watch/dashboard"
)

func NewRemoveCommand() *cobra.Command {
	var yes bool
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Delete runs that have ended: their journals, reports, logs and checkpoints",
		Long: `It asks first. State that a run saved in an object store stays there.

` + cli.NamedRun + `.`,
		Example: `  tierml rm demo-1
  tierml rm -y demo-1 demo-2`,
		Args: cli.Arguments(1, -1, "name a run that has ended, such as demo-1; `tierml ps` lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.Client(cmd, args)
			if err != nil {
				return err
			}
			if client != nil {
				return removeAt(cmd, client, args, yes)
			}
			ended, err := endedRuns(cmd, args)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, r := range ended {
				fmt.Fprintf(out, "%s  %s%s\n", rundir.Relative(r.dir), r.state, r.lost)
			}
			ctx, leave := cli.UntilInterrupted(cmd.Context())
			defer leave()
			if err := cli.ConfirmUntil(ctx, cmd.InOrStdin(), out, yes); err != nil {
				return err
			}
			return removeRuns(ended, out)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "delete without asking")
	at.Flags(cmd)
	return cmd
}

// removeAt deletes jobs at a job server, which refuses those that have not ended.
func removeAt(cmd *cobra.Command, client *call.Client, names []string, yes bool) error {
	ctx, leave := cli.UntilInterrupted(cmd.Context())
	defer leave()
	out := cmd.OutOrStdout()
	for i, name := range names {
		job, err := client.Job(ctx, name)
		if err != nil {
			return err
		}
		names[i] = job.Run
		fmt.Fprintf(out, "%s  %s at %s\n", job.Run, job.State, client.Address())
	}
	if err := cli.ConfirmUntil(ctx, cmd.InOrStdin(), out, yes); err != nil {
		return err
	}
	for _, name := range names {
		if err := client.Delete(ctx, name); err != nil {
			return err
		}
		fmt.Fprintf(out, "Deleted %s.\n", name)
	}
	return nil
}

// endedRun is a run that may be deleted.
type endedRun struct{ dir, state, lost string }

// endedRuns finds runs, and refuses those whose machines may still cost money.
func endedRuns(cmd *cobra.Command, names []string) (ended []endedRun, err error) {
	for _, name := range names {
		dir, err := target.Find(name)
		if err != nil {
			return nil, err
		}
		r, err := endedRunIn(cmd.Context(), dir)
		if err != nil {
			return nil, err
		}
		ended = append(ended, r)
	}
	return ended, nil
}

// DeleteRun deletes a run that has ended, for a page on which a person has confirmed it.
func DeleteRun(ctx context.Context, dir string) error {
	r, err := endedRunIn(ctx, dir)
	if err != nil {
		return err
	}
	return removeRuns([]endedRun{r}, io.Discard)
}

func endedRunIn(ctx context.Context, dir string) (r endedRun, err error) {
	name := rundir.Relative(dir)
	if rundir.Held(dir) {
		return r, cli.Usage(fmt.Errorf("%s is running; end it first: tierml stop %[1]s", name))
	}
	run, err := dashboard.Read(ctx, dir)
	if err != nil {
		return r, err
	}
	r = endedRun{dir: dir, state: run.State}
	if err := jobrun.Deletable(dir, run.State); err != nil {
		return r, cli.Usage(err)
	}
	state, err := jobrun.ReadState(dir)
	if _, err := jobrun.Checkpoint(dir); err == nil && run.State != "finished" {
		r.lost = "; it could be resumed, and no longer can be then"
	}
	if err == nil && location.IsURL(state.Checkpoints) {
		r.lost += "; its checkpoints stay in " + state.Checkpoints
	}
	return r, nil
}

// removeRuns deletes runs. Each is locked meanwhile, so that nobody can resume it.
func removeRuns(ended []endedRun, out io.Writer) error {
	for _, r := range ended {
		release, err := rundir.HoldUntil(r.dir)
		if err != nil {
			return err
		}
		err = os.RemoveAll(r.dir)
		release()
		if err != nil {
			return fmt.Errorf("deleting a run: %w", err)
		}
		fmt.Fprintf(out, "Deleted %s.\n", filepath.Base(r.dir))
	}
	return nil
}
