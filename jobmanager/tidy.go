package jobmanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

// lookAtInputs is the interval at which unneeded inputs are searched for.
const lookAtInputs = time.Hour

// tidy removes unneeded inputs, from time to time, until the context ends.
func (in *inputs) tidy(ctx context.Context, needed func() (map[string]bool, error)) {
	if in.cfg.KeepInputs <= 0 {
		return
	}
	for {
		removed, err := in.removeUnneeded(in.cfg.KeepInputs, needed)
		if err != nil {
			in.cfg.Log.Warn("not all unused inputs could be removed", "error", err)
		}
		for _, sum := range removed {
			in.cfg.Log.Info("an input that no job needs any more was removed", "input", sum)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAtInputs):
		}
	}
}

// removeUnneeded removes each folder of inputs that has not been uploaded, queried or named for this time, unless an unfinished job names
// it, which may be resumed. A submission in progress touches what it names (use), so that nothing disappears between its check and its
// record; keep is much longer than that.
func (in *inputs) removeUnneeded(keep time.Duration, needed func() (map[string]bool, error)) (removed []string, errs error) {
	named, err := needed()
	if err != nil {
		return nil, err
	}
	folders, _ := filepath.Glob(filepath.Join(in.dir, "*", "*")) // the pattern is valid
	before := in.cfg.Now().Add(-keep)
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err == nil && !info.IsDir() { // of a version that kept inputs/SHA256/NAME
			folder = filepath.Dir(folder)
			info, err = os.Stat(folder)
		}
		sum := filepath.Base(folder)
		if err != nil || !sumText().MatchString(sum) || named[sum] || info.ModTime().After(before) {
			continue // other files are not ours
		}
		gone := filepath.Join(filepath.Dir(folder), coming+sum) // what is visible is complete
		if err := errors.Join(os.Rename(folder, gone), os.RemoveAll(gone)); err != nil {
			errs = errors.Join(errs, fmt.Errorf("removing an input: %w", err))
			continue
		}
		removed = append(removed, sum)
	}
	slices.Sort(removed)
	return removed, errs
}

// use records that an input is needed now.
func use(path string, now time.Time) error {
	if err := os.Chtimes(filepath.Dir(path), now, now); err != nil {
		return fmt.Errorf("keeping an input: %w", err)
	}
	return nil
}

// neededInputs returns those that a run's job file names, except for runs of finished jobs. An unreadable job file is an error: what it
// names is unknown.
func (m *Manager) neededInputs() (map[string]bool, error) {
	m.mu.Lock()
	finished := map[string]bool{}
	for id, j := range m.jobs {
		finished[id] = j.State == call.Finished
	}
	m.mu.Unlock()
	runs, err := os.ReadDir(m.root)
	if err != nil {
		return nil, fmt.Errorf("looking at the runs: %w", err)
	}
	needed := map[string]bool{}
	for _, r := range runs {
		if finished[r.Name()] || !r.IsDir() { // rundir.RecordFile is there, too
			continue
		}
		for _, file := range []string{submittedFile, rundir.JobFile} {
			text, err := os.ReadFile(filepath.Join(m.root, r.Name(), file))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("finding the inputs that %s needs: %w", r.Name(), err)
			}
			for _, sum := range sumInText().FindAllString(string(text), -1) { // including what is no input, which does no harm
				needed[sum] = true
			}
		}
	}
	return needed, nil
}
