package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity/scaling"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/bill"
	"github.com/tierml/tierml/program/mirror"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/shared"
)

// folder has the runs below ./runs. A run's name is the path of its directory.
type folder struct{}

// Find returns the directory of the run that a user has named; "" is the latest.
func Find(run string) (string, error) {
	dir, err := runs.Find(rundir.Root, run)
	if err != nil {
		return "", cli.Usage(err)
	}
	return dir, nil
}

func (folder) List(ctx context.Context, note func(error)) ([]call.Job, error) {
	dirs, err := runs.List(rundir.Root)
	if err != nil {
		return nil, err
	}
	rows := []dashboard.Summary{}
	for _, dir := range dirs {
		row, err := dashboard.Read(ctx, dir)
		if err != nil {
			note(fmt.Errorf("%s is left out: %w", rundir.Relative(dir), err))
			continue
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		if row.App == shared.App && row.Active() {
			view, err := dashboard.ReadHosts(ctx, filepath.Join(rundir.Root, row.Run))
			if err != nil {
				note(fmt.Errorf("the jobs on %s are unknown: %w", row.Run, err))
			}
			dashboard.Place(rows, view)
		}
	}
	jobs := make([]call.Job, len(rows))
	for i, row := range rows {
		jobs[i].Summary = row
	}
	return jobs, nil
}

func (folder) Get(ctx context.Context, run string) (name string, job call.Job, err error) {
	dir, err := Find(run)
	if err != nil {
		return "", job, err
	}
	if job.Summary, err = dashboard.Read(ctx, dir); err != nil {
		return "", job, err
	}
	if job.Active() {
		state, err := jobrun.ReadState(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", job, err
		}
		job.Cloud = state.Cloud
	}
	return rundir.Relative(dir), job, nil
}

func (folder) Events(ctx context.Context, run string, follow bool, take func(journal.Entry), caught func()) error {
	dir, err := Find(run)
	if err != nil {
		return err
	}
	if follow {
		return runs.Follow(ctx, dir, take, caught)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err = runs.Follow(ctx, dir, take, func() { caught(); stop(errCaughtUp) })
	if errors.Is(context.Cause(ctx), errCaughtUp) {
		return nil
	}
	return err
}

// errCaughtUp ends the reading of a journal that may grow.
var errCaughtUp = errors.New("caught up")

func (folder) Logs(ctx context.Context, run string, sources []string, follow bool, out io.Writer) error {
	dir, err := Find(run)
	if err != nil {
		return err
	}
	err = runs.OpenLogs(dir, sources).Follow(ctx, func() bool { return follow && rundir.Held(dir) }, out)
	if none, ok := errors.AsType[runs.NoLog](err); ok {
		err = cli.Usage(none)
	}
	return err
}

// Report also accepts the path of a journal.
func (folder) Report(ctx context.Context, run string) (*cost.Report, error) {
	if info, err := os.Stat(run); run == "" || filepath.Base(run) == run && (err != nil || !info.Mode().IsRegular()) {
		dir, err := Find(run)
		if err != nil {
			return nil, err
		}
		run = rundir.Relative(dir)
	}
	return bill.Make(ctx, run)
}

func (folder) File(_ context.Context, run, name string, out io.Writer) error {
	dir, err := Find(run)
	if err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("reading a file of the run: %w", err)
	}
	defer file.Close()
	_, err = io.Copy(out, file)
	return err
}

func (folder) State(ctx context.Context, run string, s Saved, to string) error {
	dir, err := Find(run)
	if err != nil {
		return err
	}
	state, err := jobrun.ReadState(dir)
	if err != nil {
		return err
	}
	_, err = mirror.Copy(ctx, state.Store(), s.Program, s.Manifest, s.Digest, to, nil)
	return err
}

func (folder) Scale(ctx context.Context, run string, c call.Scale, told func(call.Standing)) error {
	dir, err := Find(run)
	if err != nil {
		return err
	}
	if !rundir.Held(dir) {
		return cli.Usage(fmt.Errorf("%s: the run is not running, and only a running one can be scaled or paused; `tierml ps` lists runs", rundir.Relative(dir)))
	}
	change := &pb.Change{Workers: c.Workers, Servers: c.Servers, Reliable: c.Reliable, Restore: c.Restore, Pause: c.Pause, Resume: c.Resume, Wait: c.Wait, By: c.By}
	return scaling.Ask(ctx, dir, change, func(s *pb.Standing) {
		told(call.Standing{Reached: s.Reached, Workers: s.Workers, Servers: s.Servers, Reliable: s.Reliable,
			WantedMachines: s.WantedMachines, WantedVCPUs: s.WantedVcpus, WantedServers: s.WantedServers, WantedReliable: s.WantedReliable, Paused: s.Paused})
	})
}

func (folder) Stop(ctx context.Context, run string, how call.Stop, heard func()) (end End, err error) {
	dir, err := Find(run)
	if err != nil {
		return end, err
	}
	end.Name = rundir.Relative(dir)
	if how.Program != "" {
		return end, scaling.Cancel(ctx, dir, how.By, how.Program)
	}
	err = jobrun.End(ctx, dir, how.By, how.Now, heard)
	if end.Before = errors.Is(err, jobrun.ErrEnded); err != nil && !end.Before {
		return end, err
	}
	if end.Job.Summary, err = dashboard.Read(ctx, dir); err != nil {
		return end, err
	}
	_, err = jobrun.Checkpoint(dir)
	end.Resumable = (err == nil || end.Job.Unit != "") && end.Job.State == "interrupted"
	return end, nil
}

func (folder) Hosts(ctx context.Context, run string) (view shared.View, err error) {
	dir, err := Find(run)
	if err != nil {
		return view, err
	}
	if view, err = dashboard.ReadHosts(ctx, dir); err != nil {
		err = cli.Usage(err)
	}
	return view, err
}

// errNoServer is for features that only a job server has.
func errNoServer(text string) error { return cli.Usage(errors.New(text)) }

func (folder) Why(context.Context, string) (w call.Why, err error) {
	return w, errNoServer("a run of this host has no scheduler; name the job's job server with --server URL")
}

// Sweep handles programs here; trials that train are jobs of a job server.
func (f folder) Sweep(ctx context.Context, run string) (s dashboard.Sweep, err error) {
	dir, err := Find(run)
	if err != nil {
		return s, err
	}
	report, err := f.Report(ctx, dir)
	if err != nil {
		return s, err
	}
	s, ok := dashboard.ProgramSweep(filepath.Base(dir), report)
	if !ok {
		return s, errNoServer(filepath.Base(dir) + " is no sweep of a program; other trials are jobs of a job server: name it with --server URL")
	}
	return s, nil
}

func (folder) Groups(context.Context) (a call.Account, err error) {
	return a, errNoServer("--groups is for jobs of a job server: name it with --server")
}

func (folder) Address() string { return "" }

func (folder) Close() {}
