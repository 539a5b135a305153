package target

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/providers"
)

// known returns the job server of a command that names none: the one to which its run was submitted, unless this host
// has a run with that name; without a name the last used one, unless this directory has runs.
func (r *Flags) known(args []string) (p reach.Place, found bool, err error) {
	shelf, err := reach.UserRegistry()
	if err != nil {
		return p, false, nil // a system user without a home has submitted nothing
	}
	if len(args) > 0 {
		for _, dir := range []string{args[0], filepath.Join(rundir.Root, args[0])} {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && !r.Elsewhere {
				return p, false, nil
			}
		}
		return shelf.FindRun(filepath.Base(args[0]))
	}
	if here, err := runs.List(rundir.Root); err != nil || len(here) > 0 {
		return p, false, err
	}
	all, err := shelf.Known()
	if err != nil || len(all) == 0 {
		return p, false, err
	}
	return all[0].Place, true, nil
}

// MeantPlace returns the job server that --server names by a job file or a known cluster instead of its address.
func MeantPlace(ctx context.Context, name string) (reach.Place, error) {
	if ending := filepath.Ext(name); ending == ".yaml" || ending == ".yml" {
		job, err := config.Load(name)
		if err != nil {
			return reach.Place{}, err
		}
		if job.Installation() == nil {
			return reach.Place{}, job.Fault("cloud", "cloud: "+job.Cloud+" has no job server elsewhere", config.NameRealCloud())
		}
		return FindPlace(ctx, job)
	}
	shelf, err := reach.UserRegistry()
	if err != nil {
		return reach.Place{}, err
	}
	p, err := shelf.FindPlace(name)
	if err != nil {
		err = cli.Usage(fmt.Errorf("--server: %w", err))
	}
	return p, err
}

// FindPlace returns the place of a job's job server, searching for it if the job file does not name it.
func FindPlace(ctx context.Context, job *config.Job) (reach.Place, error) {
	p := reach.PlaceOf(job.Installation())
	if p.Complete() {
		return p, nil
	}
	return LookFor(ctx, job, p)
}

func LookFor(ctx context.Context, job *config.Job, p reach.Place) (reach.Place, error) {
	account, err := OpenAccount(ctx, job, "")
	if err != nil {
		return p, err
	}
	defer account.Close()
	found, err := account.Controllers(ctx)
	if err != nil {
		return p, providers.Advice(job, err)
	}
	meant, others := reach.Meant(job.Installation(), found, KnownHere())
	if len(meant) == 0 && len(others) > 0 {
		return p, cli.Usage(reach.Foreign(job.Installation(), others[0], job.File()))
	}
	p, err = reach.Choose(p, meant, job.File())
	if err != nil {
		err = cli.Usage(err)
	}
	return p, err
}

// KnownHere returns the job servers that this user has started or used. A user whose directory cannot be read knows none.
func KnownHere() []reach.Known {
	shelf, err := reach.UserRegistry()
	if err != nil {
		return nil
	}
	known, _ := shelf.Known()
	return known
}

// Connect connects to a job server.
func (r *Flags) Connect(ctx context.Context, p reach.Place, note func(string)) (*call.Client, error) {
	shelf, err := reach.UserRegistry()
	if err != nil {
		return nil, err
	}
	var own access.Token
	if r.tokenNamed() {
		if own, err = r.token(); err != nil {
			return nil, cli.Usage(err)
		}
	}
	if p.URL == "" {
		note("Opening the tunnel to " + p.String() + " ...")
	}
	way, err := shelf.Connect(ctx, p, own, note)
	if err != nil {
		return nil, err
	}
	client, err := call.New(way.Address, way.Token, r.authority)
	if err != nil {
		way.Close()
		return nil, cli.Usage(err)
	}
	client.Through(way.Dial)
	client.Own(way.Close)
	return client, nil
}

// Notes are messages about what happens meanwhile, apart from the command's result.
func Notes(cmd *cobra.Command) func(string) {
	return func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
}

// Client returns a client of the job server that a command addresses, whose first argument, if any, is a run; nil: this host.
func (r *Flags) Client(cmd *cobra.Command, args []string) (*call.Client, error) {
	switch {
	case r.URL == NoServer:
		return nil, nil
	case strings.Contains(r.URL, ":"):
		return r.direct()
	case r.URL != "":
		p, err := MeantPlace(cmd.Context(), r.URL)
		if err != nil {
			return nil, err
		}
		return r.Connect(cmd.Context(), p, Notes(cmd))
	}
	p, found, err := r.known(args)
	if err != nil || !found {
		return nil, err
	}
	return r.Connect(cmd.Context(), p, Notes(cmd))
}

// Placed is a job server to which a job was submitted, for later commands.
type Placed struct {
	Client *call.Client // nil: it runs on this host
	Where  string       // for people
	Keep   func(run string) error
}
