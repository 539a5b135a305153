package target

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/shared"
)

// Runs are the runs that a command addresses: folders of this host, or jobs of a job server. Get resolves what a user
// has typed; the other methods accept the name that it returned, or what was typed.
type Runs interface {
	// List returns all runs, the oldest first. Note is called with the problems of those that it skips.
	List(ctx context.Context, note func(error)) ([]call.Job, error)
	// Get returns a run's state, and its name for commands; "" is the latest run.
	Get(ctx context.Context, run string) (name string, job call.Job, err error)
	// Events passes a run's journal to take, and calls caught whenever it has reached the end for now. With follow it
	// ends with the run.
	Events(ctx context.Context, run string, follow bool, take func(journal.Entry), caught func()) error
	Logs(ctx context.Context, run string, sources []string, follow bool, out io.Writer) error
	Report(ctx context.Context, run string) (*cost.Report, error)
	// File copies a file of a run; a missing one is fs.ErrNotExist.
	File(ctx context.Context, run, file string, out io.Writer) error
	// State copies the saved state of a program into a folder.
	State(ctx context.Context, run string, s Saved, folder string) error

	// Scale changes a run's machines, and calls told with the result.
	Scale(ctx context.Context, run string, change call.Scale, told func(call.Standing)) error
	// Stop ends a run, or a program of it, and calls heard once the run knows. It waits for the end of a run.
	Stop(ctx context.Context, run string, how call.Stop, heard func()) (End, error)

	// Hosts returns shared hosts with the jobs on them.
	Hosts(ctx context.Context, run string) (shared.View, error)
	// Why and Groups are for jobs of a job server, Sweep also for programs.
	Why(ctx context.Context, run string) (call.Why, error)
	Sweep(ctx context.Context, run string) (dashboard.Sweep, error)
	Groups(ctx context.Context) (call.Account, error)

	// Address returns the job server's address; empty: the runs are on this host.
	Address() string
	Close()
}

// Saved is the newest state of a program.
type Saved struct{ Program, Manifest, Digest string }

// End describes how a stopped run ended.
type End struct {
	Name      string // as commands accept it
	Job       call.Job
	Before    bool // it had ended before it was stopped
	Resumable bool
}

// Runs returns the runs of a command whose first argument, if any, names a run.
func (r *Flags) Runs(cmd *cobra.Command, args []string) (Runs, error) {
	client, err := r.Client(cmd, args)
	switch {
	case err != nil:
		return nil, err
	case client != nil:
		return &server{Client: client}, nil
	case r.Elsewhere:
		return nil, errNoServer("say from where with --server URL; runs of this host are in runs/")
	}
	return folder{}, nil
}

// With calls f with the runs that a command addresses, until Ctrl-C.
func (r *Flags) With(cmd *cobra.Command, args []string, f func(context.Context, Runs) error) error {
	runs, err := r.Runs(cmd, args)
	if err != nil {
		return err
	}
	defer runs.Close()
	ctx, leave := cli.UntilInterrupted(cmd.Context())
	defer leave()
	return f(ctx, runs)
}

// First returns the first argument, which names a run; "" without any.
func First(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
