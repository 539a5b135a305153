package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
)

// resumePoint is where an earlier run was saved.
type resumePoint struct {
	checkpoint string // empty = none: from the beginning
	clock      ps.Clock
	at         time.Time        // market time at which it ended
	part       int              // how often the run was begun before
	past       *elasticity.Past // nil = it begins, or was ended in order
	state      jobrun.State
	doubts     []error           // why newer checkpoints are not used
	older      []elasticity.Kept // checkpoints before it
	damaged    []journal.Damaged // lines of the journal that were left out
	programs   *programs.Past    // of a job of the user's own programs
}

// keepReliable keeps the reliable tier that the run began with, where the job leaves it open.
func keepReliable(job *config.Job, start journal.Entry) {
	d, err := start.StartDetails()
	pool, poolErr := market.ParsePool(d.Reliable.Pool)
	if err == nil && poolErr == nil && planner.SizesReliable(job) {
		job.Reliable.Type, job.Reliable.Zone, job.Reliable.Count = pool.Type, pool.Zone, d.Reliable.Count
	}
}

func loadJob(o runOptions) (*config.Job, resumePoint, error) {
	if o.resume == "" {
		if err := config.CheckPolicy(cmp.Or(o.job.said.Policy, config.Auto)); err != nil {
			return nil, resumePoint{}, usageError{fmt.Errorf("--policy: %w", err)}
		}
		job, err := o.job.load()
		return job, resumePoint{}, err
	}
	job, err := config.Load(filepath.Join(o.resume, rundir.JobFile))
	if err != nil {
		return nil, resumePoint{}, err
	}
	var skipped []journal.Damaged
	if o.skipDamaged {
		if skipped, err = journal.Repair(filepath.Join(o.resume, rundir.JournalFile)); err != nil {
			return nil, resumePoint{}, err
		}
	}
	var from resumePoint
	saved, err := jobrun.Checkpoint(o.resume)
	from.checkpoint, from.clock, from.doubts, from.older = saved.Path, saved.Clock, saved.Doubts, saved.Older
	switch {
	case errors.Is(err, fs.ErrNotExist):
		from.checkpoint, from.clock = "", 0 // nothing was saved: from the beginning
	case err != nil:
		return nil, from, err
	}
	if from.state, err = jobrun.ReadState(o.resume); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, from, err
	}
	if from.state.Defaults < apps.Defaults {
		formerDefaults(job, from.state.Defaults)
	}
	entries, _, err := journal.ReadFile(filepath.Join(o.resume, rundir.JournalFile))
	if err != nil {
		return nil, from, err
	}
	for _, e := range entries {
		from.at = e.T
		switch {
		case e.Kind == journal.Start:
			from.part++
			keepReliable(job, e)
		case e.Kind == journal.Done && e.Outcome == "finished":
			return nil, from, usageError{fmt.Errorf("%s is done%s", o.resume, allOf(job))}
		}
	}
	if job.IsProgram() {
		if from.programs, err = programs.ReadPast(entries, job.Resources.Count.Least, job.Resources.Count.Most, job.Tasks); err != nil {
			return nil, from, fmt.Errorf("%s: %w", filepath.Join(o.resume, rundir.JournalFile), err)
		}
	}
	if from.past, err = elasticity.ReadPast(entries); err != nil {
		return nil, from, fmt.Errorf("%s: %w", filepath.Join(o.resume, rundir.JournalFile), err)
	}
	if from.damaged = skipped; len(skipped) > 0 {
		from.past.Distrust(len(skipped))
	}
	if len(entries) == 0 {
		return nil, from, usageError{fmt.Errorf("%s had not begun: start again with its %s", o.resume, rundir.JobFile)}
	}
	if last := entries[len(entries)-1]; last.Kind == journal.Done && (job.IsProgram() || from.past.Done == from.clock && from.checkpoint != "") {
		from.past = nil // all is as it was left in order
	}
	records, err := readRecords(filepath.Join(o.resume, rundir.CloudFile))
	if err != nil {
		return nil, from, err
	}
	if last := lastTime(records); last.After(from.at) {
		from.at = last
	}
	from.at = from.at.Truncate(time.Second).Add(time.Second)
	if int(from.clock) >= job.Train.Clocks && from.past == nil && !job.IsProgram() {
		return nil, from, usageError{fmt.Errorf("%s is done%s", o.resume, allOf(job))}
	}
	return job, from, nil
}

// allOf says what a run that is done has done.
func allOf(job *config.Job) string {
	if job.IsProgram() {
		return ""
	}
	return fmt.Sprintf(": all %d clocks", job.Train.Clocks)
}

// words say where a run goes on.
func (from resumePoint) words(job *config.Job, endpoint string) string {
	if job.IsProgram() {
		return programsGoOn(from, endpoint)
	}
	text := fmt.Sprintf("Resuming at clock %d of %d, from %s\n", from.clock, job.Train.Clocks, from.checkpoint)
	if from.checkpoint == "" {
		text = "Starting from the beginning: nothing was saved\n"
	}
	for i := len(from.doubts) - 1; i >= 0; i-- {
		text = fmt.Sprintf("Not used: %v\n", from.doubts[i]) + text
	}
	for i := len(from.damaged) - 1; i >= 0; i-- {
		text = fmt.Sprintf("Left out: %v\n", &from.damaged[i]) + text
	}
	if len(from.damaged) > 0 {
		text += "Machines that still run are ended, and bills may lack what the damaged lines said\n"
	} else if from.past != nil && endpoint != "" {
		text = fmt.Sprintf("Taking over the machines that still run at %s; without them:\n", endpoint) + text
	}
	return text
}

// noEndpoint is a cloud in this process, whatever the run had before.
const noEndpoint = "none"
