package jobmanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
)

// Files of a job in its run's directory, next to those of the run.
const (
	recordFile    = "submission.json" // the request, and its result
	submittedFile = "submitted.yaml"  // the job file as submitted, with input files in place
	outputFile    = "run.log"         // in the logs: the run's output
)

// record is what is known about a job and must survive this process. The run's result is in its journal.
type record struct {
	ID        string    `json:"id"`     // the name of the run's directory
	Number    int64     `json:"number"` // in the order of submission
	Submitted time.Time `json:"submitted"`
	Stop      bool      `json:"stop,omitempty"` // a user requested its end
	Now       bool      `json:"now,omitempty"`  // at once
	By        string    `json:"by,omitempty"`   // the submitter
	Again     bool      `json:"again,omitempty"`
	// Journal is its size in bytes when the run was resumed on request. If the size has not changed, the run has not begun since.
	Journal   int64 `json:"journal,omitempty"`
	Starts    int   `json:"starts,omitempty"`    // of its run, in total
	Fruitless int   `json:"fruitless,omitempty"` // the last ones, without progress
	Clock     int64 `json:"clock,omitempty"`     // after the last
	hostFaults
	State   call.State `json:"state"`
	Why     string     `json:"why,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	Group   string     `json:"group,omitempty"`   // as in its file
	Client  string     `json:"client,omitempty"`  // the submitter, by the SHA-256 of its token
	User    string     `json:"user,omitempty"`    // the submitter's name, according to the client
	Hosts   bool       `json:"hosts,omitempty"`   // shared hosts, not a job
	Slots   bool       `json:"slots,omitempty"`   // its machines are slots of shared hosts
	Counted bool       `json:"counted,omitempty"` // its own transient machines count, as in Config.Slots
	Granted int        `json:"granted,omitempty"` // workers that its run begins with, by the scheduler; 0 = none yet
	Own     int        `json:"own,omitempty"`     // Granted when its run began, its reference
	Sweep   string     `json:"sweep,omitempty"`   // the first trial of its sweep; empty = it is not a trial
	Trials  int        `json:"trials,omitempty"`  // of that sweep
	Awaits  bool       `json:"awaits,omitempty"`  // of a trial: the results from which its settings will be drawn
	Over    string     `json:"over,omitempty"`    // of a sweep's first trial: the limit of the sweep for which all trials were stopped
	// Settings are those of a trial on whose result others depend; nil = it awaits results itself, or belongs to no such sweep.
	Settings map[string]string `json:"settings,omitempty"`
	Half     bool              `json:"half,omitempty"` // of a sweep's first trial: not all of the sweep has been submitted
	// Deleted is the summary of a run whose files were deleted; nil = they exist.
	Deleted *dashboard.Summary `json:"deleted,omitempty"`
}

// hostFaults counts consecutive starts that failed because of the host, a store or a cloud, and records since when;
// they are not in Fruitless.
type hostFaults struct {
	HostSince  *time.Time `json:"host_since,omitempty"`
	HostFaults int        `json:"host_faults,omitempty"`
}

// write replaces the record atomically, and it is on disk when it returns.
func (r *record) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("saving the state of job %s: %w", r.ID, err)
	}
	return replaceFile(filepath.Join(dir, recordFile), append(text, '\n'))
}

func replaceFile(path string, text []byte) error {
	next := path + ".new"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// readRecords returns the jobs below a directory of runs. A directory without a record is a run that was not submitted, or
// a submission that was never answered.
func readRecords(root string) (records []record, errs error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for jobs: %w", err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(root, e.Name(), recordFile))
		if err != nil {
			continue
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil || r.ID != e.Name() {
			errs = errors.Join(errs, fmt.Errorf("%s of %s is not one: %w", recordFile, e.Name(), err))
			continue
		}
		records = append(records, r)
	}
	return records, errs
}
