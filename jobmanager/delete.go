package jobmanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/watch/dashboard"
)

// deleteRun deletes the files of an ended run. Its record stays with the run's cost: deleting makes no room in a budget, and no later job
// reuses a name in the audit log.
func (m *Manager) deleteRun(ctx context.Context, dir string) error {
	release, err := rundir.HoldUntil(dir) // nobody resumes it meanwhile
	if err != nil {
		return err
	}
	defer release()
	run, err := dashboard.Read(ctx, dir)
	if err != nil {
		return err
	}
	if err := jobrun.Deletable(dir, run.State); err != nil {
		return err
	}
	if err := m.bury(run); err != nil {
		return err
	}
	m.cfg.Log.Info("a run was deleted", "run", run.Run, "spent", run.Spent)
	return empty(dir)
}

// bury replaces a run by its record: from then on it is no job, whatever happens to its files.
func (m *Manager) bury(run dashboard.Summary) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := record{ID: run.Run}
	if j := m.jobs[run.Run]; j != nil {
		if !j.State.Over() || j.tended {
			return fmt.Errorf("%s is %s; stop it first", run.Run, j.State)
		}
		for _, o := range m.jobs {
			if j.Sweep != "" && o.Sweep == j.Sweep && !o.State.Over() { // whose settings may depend on its result
				return fmt.Errorf("%s belongs to the sweep %s, of which %s is %s", run.Run, j.Sweep, o.ID, o.State)
			}
		}
		r = j.record
	}
	r.Deleted = &dashboard.Summary{Run: run.Run, Group: r.Group, User: r.User, State: "deleted", Kind: run.Kind, Spent: run.Spent, Saved: run.Saved,
		Replayed: run.Replayed, Began: run.Began, Started: run.Started, AsOf: run.AsOf}
	if err := r.write(filepath.Join(m.root, run.Run)); err != nil {
		return err
	}
	if j := m.jobs[run.Run]; j != nil {
		m.scheduler.forget(j)
		delete(m.jobs, run.Run)
	}
	m.deleted = append(m.deleted, r)
	return nil
}

// empty removes all but the record from a run's directory.
func empty(dir string) (errs error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("deleting a run: %w", err)
	}
	for _, e := range entries {
		if e.Name() != recordFile {
			errs = errors.Join(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errs
}

// deletedFor returns the deleted runs that a client may see.
func (m *Manager) deletedFor(c access.Client) (out []dashboard.Summary) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.deleted {
		if c.Right(r.Group) >= access.Watch {
			out = append(out, *r.Deleted)
		}
	}
	return out
}
