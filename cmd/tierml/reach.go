package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/providers"
)

// known returns the job server of a command that names none: the one on which its run was put, unless this host
// has a run of that very name; without a name the one that was used last, unless this directory has runs.
func (r *remote) known(args []string) (p reach.Place, found bool, err error) {
	shelf, err := reach.UserRegistry()
	if err != nil {
		return p, false, nil // a system user without a home has put no job anywhere
	}
	if len(args) > 0 {
		for _, dir := range []string{args[0], filepath.Join(rundir.Root, args[0])} {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && !r.elsewhere {
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

// meantPlace is the job server that --server names otherwise than by its address: by a job file, or by a cluster that is
// known.
func meantPlace(ctx context.Context, name string) (reach.Place, error) {
	if ending := filepath.Ext(name); ending == ".yaml" || ending == ".yml" {
		job, err := config.Load(name)
		if err != nil {
			return reach.Place{}, err
		}
		if job.Installation() == nil {
			return reach.Place{}, job.Fault("cloud", "cloud: "+job.Cloud+" has no job server elsewhere", config.NameRealCloud())
		}
		return findPlace(ctx, job)
	}
	shelf, err := reach.UserRegistry()
	if err != nil {
		return reach.Place{}, err
	}
	p, err := shelf.FindPlace(name)
	if err != nil {
		err = usageError{fmt.Errorf("--server: %w", err)}
	}
	return p, err
}

// findPlace returns the place of a job's job server, looking for it where the job file does not say which it is.
func findPlace(ctx context.Context, job *config.Job) (reach.Place, error) {
	p := reach.PlaceOf(job.Installation())
	if p.Complete() {
		return p, nil
	}
	return lookFor(ctx, job, p)
}

func lookFor(ctx context.Context, job *config.Job, p reach.Place) (reach.Place, error) {
	account, err := openAccount(ctx, job, "")
	if err != nil {
		return p, err
	}
	defer account.Close()
	found, err := account.Controllers(ctx)
	if err != nil {
		return p, providers.Advice(job, err)
	}
	meant, others := reach.Meant(job.Installation(), found, knownHere())
	if len(meant) == 0 && len(others) > 0 {
		return p, usageError{reach.Foreign(job.Installation(), others[0], job.File())}
	}
	p, err = reach.Choose(p, meant, job.File())
	if err != nil {
		err = usageError{err}
	}
	return p, err
}

// knownHere are the job servers that this user has started or put jobs on. A user whose directory cannot be read knows none.
func knownHere() []reach.Known {
	shelf, err := reach.UserRegistry()
	if err != nil {
		return nil
	}
	known, _ := shelf.Known()
	return known
}

// connect opens the way to a job server.
func (r *remote) connect(ctx context.Context, p reach.Place, note func(string)) (*call.Client, error) {
	shelf, err := reach.UserRegistry()
	if err != nil {
		return nil, err
	}
	var own access.Token
	if r.tokenNamed() {
		if own, err = r.token(); err != nil {
			return nil, usageError{err}
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
		return nil, usageError{err}
	}
	client.Through(way.Dial)
	client.Own(way.Close)
	return client, nil
}

// notes are lines about what happens meanwhile: not the command's result.
func notes(cmd *cobra.Command) func(string) {
	return func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
}

// client reaches the job server that a command means, whose first argument, if any, is a run; nil: this host is meant.
func (r *remote) client(cmd *cobra.Command, args []string) (*call.Client, error) {
	switch {
	case r.url == noServer:
		return nil, nil
	case strings.Contains(r.url, ":"):
		return r.direct()
	case r.url != "":
		p, err := meantPlace(cmd.Context(), r.url)
		if err != nil {
			return nil, err
		}
		return r.connect(cmd.Context(), p, notes(cmd))
	}
	p, found, err := r.known(args)
	if err != nil || !found {
		return nil, err
	}
	return r.connect(cmd.Context(), p, notes(cmd))
}

// placed is where a job was put, for later commands.
type placed struct {
	client *call.Client // nil: it runs on this host
	where  string       // for people
	keep   func(run string) error
}

// forJob reaches the job server that is to run a job.
func (r *remote) forJob(cmd *cobra.Command, o runOptions) (placed, error) {
	nothing := func(string) error { return nil }
	here := o.here || o.into != "" || o.endpoint != ""
	if r.url == "" && here {
		return placed{}, nil
	}
	if here && o.here && r.url != noServer {
		return placed{}, usageError{errors.New("--here and --server exclude each other; leave one of them out")}
	}
	if r.url != "" || o.resume != "" {
		var args []string
		if o.resume != "" {
			args = []string{o.resume}
		}
		client, err := r.client(cmd, args)
		if client == nil {
			return placed{}, err
		}
		return placed{client, client.Address(), nothing}, err
	}
	job, err := o.job.load()
	if err != nil || reach.IsHere(job.Installation(), reach.OnController()) {
		return placed{}, nil // the command that runs the job file reports its faults
	}
	p, err := findPlace(cmd.Context(), job)
	if err != nil {
		return placed{}, err
	}
	client, err := r.connect(cmd.Context(), p, notes(cmd))
	if err != nil {
		return placed{}, why(cmd.Context(), job, p, err)
	}
	return placed{client, p.String(), func(run string) error {
		shelf, err := reach.UserRegistry()
		if err != nil {
			return err
		}
		return shelf.Keep(p, run)
	}}, nil
}

// why asks the cloud about a job server that cannot be reached: whether it is stopped says more than that a tunnel failed.
func why(ctx context.Context, job *config.Job, p reach.Place, failed error) error {
	if p.Instance == "" || ctx.Err() != nil {
		return failed
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := lookFor(ctx, job, p); err != nil {
		if _, said := errors.AsType[usageError](err); said {
			return err
		}
	}
	return failed
}
