package jobrun

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers/checkpoint"
)

// StateFile holds what a later controller of the run must know and the journal does not contain. It contains a secret.
const StateFile = "state.json"

// State is what StateFile says.
type State struct {
	Checkpoints string `json:"checkpoints"` // where this run's are: a directory or URL
	// Secret proves to a controller that a machine was launched by one of this run's.
	Secret string `json:"secret"`
	// Controller is the address that machines call: a restarted controller listens there, too.
	Controller string `json:"controller,omitempty"`
	// Coordinator is where the job's coordinator listens, if it has one.
	Coordinator string `json:"coordinator,omitempty"`
	// Endpoint is the cloud's, if it is in another process; empty = it ended with the controller.
	Endpoint string `json:"endpoint,omitempty"`
	// Cloud is the address of this run's fake cloud, in whichever process it is, for drills; empty = a provider's.
	Cloud string `json:"cloud,omitempty"`
	// Defaults is apps.Defaults of when the run began.
	Defaults int `json:"defaults,omitempty"`
	// Grows: the job leaves the reliable tier open, and its count follows measured load.
	Grows bool `json:"grows,omitempty"`
	// Dataset is what was learned about the data when it was cut into splits. Null: they may be incomplete.
	Dataset *apps.Dataset `json:"dataset,omitempty"`
}

// newState returns the state of a new run.
func newState(directory string, job *config.Job) State {
	s := State{Checkpoints: filepath.Join(directory, rundir.CheckpointsDir), Secret: rand.Text(), Defaults: apps.Defaults,
		Grows: planner.SizesReliable(job) && !job.Written("reliable.count")}
	if job.Checkpoint.To != "" { // other runs, of other working directories too, may save there
		s.Checkpoints = location.Join(job.Checkpoint.To, filepath.Base(directory)+"-"+rand.Text()[:6])
	}
	return s
}

// ReadState returns an fs.ErrNotExist if there is none.
func ReadState(directory string) (State, error) {
	var s State
	text, err := os.ReadFile(filepath.Join(directory, StateFile))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("reading the run's state: %w", err)
	}
	return s, nil
}

// Deletable refuses to delete an ended run while its machines may still cost money.
func Deletable(directory, outcome string) error {
	s, err := ReadState(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if outcome == "killed" && s.Cloud == "" {
		return fmt.Errorf("%s was killed, and its machines may still cost money: end them with `tierml down`, or continue it with "+
			"`tierml resume %[1]s`; its directory is what finds them", rundir.Relative(directory))
	}
	return nil
}

// openState returns the state of a run that begins or resumes.
func openState(directory string, job *config.Job) (State, error) {
	s, err := ReadState(directory)
	if errors.Is(err, fs.ErrNotExist) {
		s = newState(directory, job)
		return s, s.write(directory)
	}
	return s, err
}

// write replaces the state atomically and durably.
func (s State) write(directory string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = atomicfile.Write(filepath.Join(directory, StateFile), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping the run's state: %w", err)
	}
	return nil
}

// Saved is a checkpoint of a run.
type Saved struct {
	Path   string
	Clock  ps.Clock
	Doubts []error           // why newer ones cannot be used
	Older  []elasticity.Kept // earlier ones, the newest first
}

// writtenManifests returns the names of the manifests in the run's journal. Only these are trusted in a store: machines of other runs may
// be allowed to write there. Version returns the version of the program that wrote the journal.
func writtenManifests(dir string) (names map[string]bool, version string, err error) {
	entries, _, err := journal.ReadFile(filepath.Join(dir, rundir.JournalFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	names = map[string]bool{}
	for _, e := range entries {
		switch e.Kind {
		case journal.Start:
			var start journal.StartDetails
			_ = json.Unmarshal(e.Details, &start) // the version is informative only
			version = start.Version
		case journal.Checkpoint:
			names[checkpoint.Name(e.Model)] = true
		}
	}
	return names, version, nil
}

// Checkpoint finds the newest complete and undamaged checkpoint of a run: one from an orderly end, or one that was taken while training
// continued. It reads all of it. The error is fs.ErrNotExist if there is none; doubts may say why.
func Checkpoint(dir string) (saved Saved, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return Saved{}, err
	}
	saved.Path = filepath.Join(dir, rundir.CheckpointFile)
	clock, none := checkpoint.Clock(saved.Path)
	switch saved.Clock = clock; {
	case errors.Is(none, checkpoint.ErrDamaged):
		saved.Doubts, none = append(saved.Doubts, none), fs.ErrNotExist
	case none != nil && !errors.Is(none, fs.ErrNotExist):
		return Saved{}, none
	}
	s, err := ReadState(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return saved, none
	case err != nil:
		return Saved{}, err
	}
	written, version, err := writtenManifests(dir)
	if err != nil {
		return Saved{}, err
	}
	found, doubts, err := checkpoint.Newest(context.Background(), s.Checkpoints, func(name string) bool { return written[name] })
	if err != nil {
		return Saved{}, err
	}
	saved.Doubts = append(saved.Doubts, doubts...)
	for _, f := range found {
		saved.Older = append(saved.Older, elasticity.Kept{Name: f.Manifest, At: f.Clock})
	}
	earlier := func(err error) bool { return errors.Is(err, checkpoint.ErrEarlier) }
	if none != nil && len(found) == 0 && slices.ContainsFunc(doubts, earlier) {
		return Saved{}, fmt.Errorf("%s: tierml %s wrote its checkpoints, in a form that this version does not read; resume it with that version, or run its job anew",
			dir, version)
	}
	if len(found) > 0 && (none != nil || found[0].Clock > saved.Clock) {
		saved.Path, saved.Clock, saved.Older, none = found[0].Manifest, found[0].Clock, saved.Older[1:], nil
	}
	return saved, none
}
