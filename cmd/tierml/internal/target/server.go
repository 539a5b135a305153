package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun/bill"
	"github.com/tierml/tierml/program/pack"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/shared"
)

// server has the jobs of a job server. A run's name is its job's.
type server struct {
	*call.Client
	answered bool // checked to exist, and waited for when it is unavailable
}

// OfServer returns the runs of a job server that has answered.
func OfServer(client *call.Client) Runs { return &server{client, true} }

// nameOf returns the job that a user has named: runs/demo-1 is demo-1.
func nameOf(run string) string {
	if run == "" {
		return "latest"
	}
	return filepath.Base(run)
}

func (s *server) List(ctx context.Context, _ func(error)) ([]call.Job, error) { return s.Jobs(ctx) }

func (s *server) Get(ctx context.Context, run string) (name string, job call.Job, err error) {
	ask := func() error { job, err = s.Job(ctx, nameOf(run)); return err }
	if !s.answered {
		err = ask()
	} else {
		err = s.Patient(ctx, ask)
	}
	s.answered = s.answered || err == nil
	return job.Run, job, err
}

func (s *server) Events(ctx context.Context, run string, follow bool, take func(journal.Entry), caught func()) error {
	if follow {
		return s.FollowEvents(ctx, nameOf(run), take, caught)
	}
	_, err := s.Client.Events(ctx, nameOf(run), false, 0, take, caught)
	return err
}

func (s *server) Logs(ctx context.Context, run string, sources []string, follow bool, out io.Writer) error {
	return s.Client.Logs(ctx, nameOf(run), sources, follow, out)
}

// Report builds the report here, from the run's journal.
func (s *server) Report(ctx context.Context, run string) (*cost.Report, error) {
	dir, err := os.MkdirTemp("", "tierml-")
	if err != nil {
		return nil, fmt.Errorf("fetching the journal: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{rundir.JournalFile, rundir.CloudFile, rundir.JobFile} {
		err := atomicfile.WriteTo(filepath.Join(dir, name), 0o644, func(w io.Writer) error { return s.File(ctx, run, name, w) })
		if err != nil && (name == rundir.JournalFile || !errors.Is(err, fs.ErrNotExist)) { // only runs of cloud: local have its records
			return nil, err
		}
	}
	return bill.Make(ctx, dir)
}

func (s *server) File(ctx context.Context, run, name string, out io.Writer) error {
	err := s.Client.File(ctx, nameOf(run), name, out)
	if refused, ok := errors.AsType[call.Refused](err); ok && refused.Status == http.StatusNotFound {
		return missingFile{err}
	}
	return err
}

// missingFile is a refusal that matches fs.ErrNotExist.
type missingFile struct{ error }

func (missingFile) Is(err error) bool { return err == fs.ErrNotExist }

func (m missingFile) Unwrap() error { return m.error }

func (s *server) State(ctx context.Context, run string, of Saved, to string) error {
	return s.Client.State(ctx, nameOf(run), of.Program, of.Manifest, of.Digest, func(packed io.Reader) error {
		return pack.Unpack(ctx, packed, to, "", math.MaxInt64)
	})
}

func (s *server) Scale(ctx context.Context, run string, change call.Scale, told func(call.Standing)) error {
	return s.Client.Scale(ctx, nameOf(run), change, told)
}

func (s *server) Stop(ctx context.Context, run string, how call.Stop, heard func()) (end End, err error) {
	if end.Name, end.Job, err = s.Get(ctx, run); err != nil {
		return end, err
	}
	if end.Before = call.State(end.Job.State).Over(); !end.Before || how.Program != "" {
		if end.Job, err = s.Client.Stop(ctx, end.Name, how); err != nil || how.Program != "" {
			return end, err
		}
		heard()
	}
	for !Ended(end.Job) {
		select {
		case <-ctx.Done():
			return end, ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
		next, err := s.Job(ctx, end.Name)
		if err != nil && !call.Temporary(err) {
			return end, err
		}
		if err == nil {
			end.Job = next
		}
	}
	end.Resumable = call.State(end.Job.State) == call.Stopped
	return end, nil
}

// Ended reports whether no part of a run is running, even for one that no job server started.
func Ended(job call.Job) bool {
	return call.State(job.State).Over() || job.Submitted == nil && !job.Active()
}

// Hosts returns the selected shared hosts: those named, or the only ones.
func (s *server) Hosts(ctx context.Context, run string) (none shared.View, err error) {
	views, err := s.Client.Hosts(ctx)
	if err != nil {
		return none, err
	}
	var names []string
	for _, v := range views {
		if run == "" || v.Run == nameOf(run) {
			return v, nil
		}
		names = append(names, v.Run)
	}
	if len(names) == 0 {
		return none, cli.Usage(fmt.Errorf("the job server at %s runs no shared hosts: start it with --hosts", s.Address()))
	}
	return none, cli.Usage(fmt.Errorf("the job server at %s runs no shared hosts %q; it runs %s", s.Address(), run, strings.Join(names, ", ")))
}

func (s *server) Why(ctx context.Context, run string) (call.Why, error) {
	return s.Client.Why(ctx, nameOf(run))
}

func (s *server) Sweep(ctx context.Context, run string) (dashboard.Sweep, error) {
	sweep, err := s.Client.Sweep(ctx, nameOf(run))
	if err != nil && run != "" {
		if report, noReport := s.Report(ctx, run); noReport == nil {
			if of, ok := dashboard.ProgramSweep(nameOf(run), report); ok {
				return of, nil
			}
		}
	}
	return sweep, err
}
