// Package rundir is the directory of a run: where it is created, the names of its files, and which process holds it. It does not know their
// contents.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Root is where run directories are created, below the working directory.
const Root = "runs"

// SettingsFile is kept next to the run directories: the best settings for jobs of each kind (docs/tuner.md).
const SettingsFile = "settings.json"

// RecordFile is kept there, too: plans' predictions of runs, and their outcomes.
const RecordFile = "plans.jsonl"

// Files of a run directory.
const (
	JobFile     = "job.yaml"
	JournalFile = "journal.jsonl"
	CloudFile   = "cloud.jsonl" // the fake cloud's own launch records
	SplitsDir   = "splits"
	LogsDir     = "logs"
	ModelFile   = "model.safetensors"
	// CheckpointsDir holds the checkpoints, unless the job names another place.
	CheckpointsDir = "checkpoints"
	// CheckpointFile holds all tables at a clock, to resume from; each replaces the previous one.
	CheckpointFile = "checkpoint.safetensors"
	ReportJSON     = "report.json"
	ReportHTML     = "report.html"
)

// New creates runs/NAME-N with the first free N, so that two concurrent runs never share one. Discard removes it, for a run that was
// refused, and the directory of runs if New made that and it holds no other run.
func New(name string) (directory string, discard func() error, err error) {
	made := os.Mkdir(Root, 0o755) == nil
	directory, err = NewBelow(Root, name)
	if err != nil {
		return "", nil, err
	}
	return directory, func() error {
		err := os.RemoveAll(directory)
		if made {
			_ = os.Remove(filepath.Dir(directory)) // fails if it is not empty
		}
		return err
	}, nil
}

// NewBelow is New with another root. The run's directory is closed to other users of the host: it contains the training data, which may
// come from a file that they cannot read.
func NewBelow(root, name string) (string, error) {
	for n, gone := 1, 0; ; {
		if err := os.MkdirAll(root, 0o755); err != nil {
			return "", fmt.Errorf("making the directory of runs: %w", err)
		}
		dir, err := filepath.Abs(filepath.Join(root, fmt.Sprintf("%s-%d", name, n)))
		if err != nil {
			return "", fmt.Errorf("making the run's directory: %w", err)
		}
		switch err = os.Mkdir(dir, 0o700); {
		case errors.Is(err, fs.ErrExist):
			n++
			continue
		case errors.Is(err, fs.ErrNotExist) && gone < 10: // another run's discard came between
			gone++
			continue
		case err != nil:
			return "", fmt.Errorf("making the run's directory: %w", err)
		}
		for _, sub := range []string{SplitsDir, LogsDir} {
			if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
				return "", fmt.Errorf("making the run's directory: %w", err)
			}
		}
		return dir, nil
	}
}

// Enter takes over a directory that NewBelow created, possibly after a run that was killed before its journal had a line.
func Enter(dir string) error {
	if err := Hold(dir); err != nil {
		return err
	}
	entries, _, err := journal.ReadFile(filepath.Join(dir, JournalFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s has a run already: continue it by --resume", dir)
	}
	if err := os.Remove(filepath.Join(dir, JournalFile)); err != nil {
		return fmt.Errorf("beginning anew: %w", err)
	}
	return nil
}

// Hold reserves a run's directory for this process until it ends: two controllers must not write one journal. The lock ends with the
// process, however that ends.
func Hold(dir string) error {
	_, err := HoldUntil(dir) // the process's end releases it
	return err
}

// Alone waits until no other process changes the files next to the runs below a root, and keeps others out until release is called.
func Alone(root string) (release func(), err error) {
	dir, err := os.Open(root)
	if err == nil {
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for %s: %w", root, err)
	}
	return func() { _ = dir.Close() }, nil // which ends the lock
}

// HoldUntil is Hold until release is called.
func HoldUntil(dir string) (release func(), err error) {
	handle, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("locking the run's directory %s: %w", dir, err)
	}
	err = syscall.Flock(handle, syscall.LOCK_EX|syscall.LOCK_NB)
	for range 5 { // Held holds it, too, for some microseconds
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
		err = syscall.Flock(handle, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		_ = syscall.Close(handle)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: another process controls the run; wait for its end, or end it", dir)
		}
		return nil, fmt.Errorf("locking the run's directory %s: %w", dir, err)
	}
	return func() { _ = syscall.Close(handle) }, nil
}

// Held reports whether a run is active in this directory: whether a process holds it.
func Held(dir string) bool {
	handle, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(handle) // and the lock with it
	return errors.Is(syscall.Flock(handle, syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
