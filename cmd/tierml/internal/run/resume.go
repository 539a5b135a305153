package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/bill"
	"github.com/tierml/tierml/jobrun/prepare"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
)

// programsGoOn describes where programs resume.
func programsGoOn(from ResumePoint, endpoint string) string {
	text := ""
	saved, done := 0, 0
	for _, p := range from.programs.Programs {
		switch {
		case p.Finished:
			done++
		case slices.ContainsFunc(p.Resume, func(m string) bool { return m != "" }):
			saved++
		}
	}
	switch {
	case saved+done == 0:
		text = "Starting from the beginning: no state was saved"
	case done == 0 && saved == 1 && len(from.programs.Programs) == 1:
		text = "Resuming from the newest saved state"
		if step := slices.Max(from.programs.Programs[0].Steps); step > 0 {
			text += fmt.Sprintf(", step %d", step)
		}
	default:
		text = fmt.Sprintf("Resuming: %d programs are done, %d continue from their newest saved state", done, saved)
	}
	if from.Past != nil && endpoint != "" {
		text += "\nPrograms that still run are taken over"
	}
	return text + "\n"
}

// ResumePoint is where an earlier run was saved.
type ResumePoint struct {
	checkpoint string // empty = none: start from the beginning
	clock      ps.Clock
	At         time.Time        // market time at which it ended
	Part       int              // how often the run was started before
	Past       *elasticity.Past // nil = it starts new, or was ended cleanly
	before     *elasticity.Log  // training done until then
	State      jobrun.State
	doubts     []error           // why newer checkpoints are not used
	older      []elasticity.Kept // earlier checkpoints
	damaged    []journal.Damaged // skipped lines of the journal
	programs   *programs.Past    // of a job with users' programs
}

// keepReliable keeps the reliable tier that the run began with, if the job leaves it open.
func keepReliable(job *config.Job, start journal.Entry) {
	d, err := start.StartDetails()
	pool, poolErr := market.ParsePool(d.Reliable.Pool)
	if err == nil && poolErr == nil && planner.SizesReliable(job) {
		job.Reliable.Type, job.Reliable.Zone, job.Reliable.Count = pool.Type, pool.Zone, d.Reliable.Count
	}
}

func loadJob(o RunOptions) (*config.Job, ResumePoint, error) {
	if o.Resume == "" {
		if err := config.CheckPolicy(cmp.Or(o.Job.Said.Policy, config.Auto)); err != nil {
			return nil, ResumePoint{}, cli.Usage(fmt.Errorf("--policy: %w", err))
		}
		job, err := o.Job.Load()
		return job, ResumePoint{}, err
	}
	job, err := config.Load(filepath.Join(o.Resume, rundir.JobFile))
	if err != nil {
		return nil, ResumePoint{}, err
	}
	var skipped []journal.Damaged
	if o.skipDamaged {
		if skipped, err = journal.Repair(filepath.Join(o.Resume, rundir.JournalFile)); err != nil {
			return nil, ResumePoint{}, err
		}
	}
	var from ResumePoint
	saved, err := jobrun.Checkpoint(o.Resume)
	from.checkpoint, from.clock, from.doubts, from.older = saved.Path, saved.Clock, saved.Doubts, saved.Older
	switch {
	case errors.Is(err, fs.ErrNotExist):
		from.checkpoint, from.clock = "", 0 // nothing was saved: start from the beginning
	case err != nil:
		return nil, from, err
	}
	if from.State, err = jobrun.ReadState(o.Resume); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, from, err
	}
	if from.State.Defaults < apps.Defaults {
		prepare.FormerDefaults(job, from.State.Defaults)
	}
	entries, _, err := journal.ReadFile(filepath.Join(o.Resume, rundir.JournalFile))
	if err != nil {
		return nil, from, err
	}
	for _, e := range entries {
		from.At = e.T
		switch {
		case e.Kind == journal.Start:
			from.Part++
			keepReliable(job, e)
		case e.Kind == journal.Done && e.Outcome == "finished":
			return nil, from, cli.Usage(fmt.Errorf("%s is done%s", o.Resume, allOf(job)))
		}
	}
	if job.IsProgram() {
		if from.programs, err = programs.ReadPast(entries, job.Resources.Count.Least, job.Resources.Count.Most, job.Tasks, job.Elastic()); err != nil {
			return nil, from, fmt.Errorf("%s: %w", filepath.Join(o.Resume, rundir.JournalFile), err)
		}
	}
	if from.Past, err = elasticity.ReadPast(entries); err != nil {
		return nil, from, fmt.Errorf("%s: %w", filepath.Join(o.Resume, rundir.JournalFile), err)
	}
	if from.damaged = skipped; len(skipped) > 0 {
		from.Past.Distrust(len(skipped))
	}
	if len(entries) == 0 {
		return nil, from, cli.Usage(fmt.Errorf("%s had not begun: start again with its %s", o.Resume, rundir.JobFile))
	}
	if last := entries[len(entries)-1]; last.Kind == journal.Done && (job.IsProgram() || from.Past.Done == from.clock && from.checkpoint != "") {
		from.Past, from.before = nil, &from.Past.Log // the run ended cleanly
	}
	records, err := bill.ReadRecords(filepath.Join(o.Resume, rundir.CloudFile))
	if err != nil {
		return nil, from, err
	}
	if last := bill.LastTime(records); last.After(from.At) {
		from.At = last
	}
	from.At = from.At.Truncate(time.Second).Add(time.Second)
	if int(from.clock) >= job.Train.Clocks && from.Past == nil && !job.IsProgram() {
		return nil, from, cli.Usage(fmt.Errorf("%s is done%s", o.Resume, allOf(job)))
	}
	return job, from, nil
}

// allOf describes what a finished run has done.
func allOf(job *config.Job) string {
	if job.IsProgram() {
		return ""
	}
	return fmt.Sprintf(": all %d clocks", job.Train.Clocks)
}

// words describes where a run continues.
func (from ResumePoint) words(job *config.Job, endpoint string) string {
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
	} else if from.Past != nil && endpoint != "" {
		text = fmt.Sprintf("Taking over the machines that still run at %s; without them:\n", endpoint) + text
	}
	return text
}

// noEndpoint selects a cloud in this process, whatever the run used before.
const noEndpoint = "none"
