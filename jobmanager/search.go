package jobmanager

import (
	"math"
	"path/filepath"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched/trials"
)

// awaits returns why a trial without settings waits.
const awaits = "search: tpe draws its settings from the results of earlier trials"

// search draws the settings of trials that await the results of earlier ones (`search: tpe`), as soon as there are enough. It only reads
// records and journals, so the next manager draws the same settings from the same results. It requires the lock, and the progress of all
// jobs.
func (m sweeps) search() {
	before, waits := map[string][]*job{}, map[string]bool{} // by sweep
	for _, j := range m.inOrder() {
		if j.Sweep == "" {
			continue
		}
		if j.Awaits && !j.State.Over() && !waits[j.Sweep] {
			waits[j.Sweep] = !m.draw(j, before[j.Sweep]) // later ones need more results
		}
		before[j.Sweep] = append(before[j.Sweep], j)
	}
}

// draw reports whether a trial has settings now, from the results of earlier ones. The file is on disk before the record: a manager that is
// killed in between leaves a trial that still awaits its settings.
func (m sweeps) draw(j *job, before []*job) bool {
	m.sweepOf(j) // reads the sweep's file
	var file *config.Job
	var search *trials.Sweep
	if first := m.jobs[j.Sweep]; first != nil {
		file, search = first.sweep, first.sweep.TrialsOfParams()
	}
	if search == nil {
		m.cfg.Log.Warn("a sweep's file is gone: the trial runs with random settings", "job", j.ID)
		m.settle(j, nil)
		return true
	}
	settings, ready := search.Draw(m.outcomes(before))
	if !ready {
		return false
	}
	if err := replaceFile(filepath.Join(j.dir, submittedFile), file.Trial(settings).Resolved()); err != nil {
		m.cfg.Log.Error("the settings of a trial cannot be saved, so it is not started", "job", j.ID, "error", err)
		return false
	}
	m.cfg.Log.Info("settings of a trial", "job", j.ID, "settings", settings)
	m.settle(j, settings)
	return true
}

// settle lets a trial start with the settings in its file.
func (m sweeps) settle(j *job, settings map[string]string) {
	j.Awaits, j.Settings, j.params = false, settings, nil
	_ = m.save(j) // otherwise it is written later
}

// outcomes returns the trials' progress.
func (m sweeps) outcomes(of []*job) (all []trials.Trial) {
	for _, j := range of {
		t := trials.Trial{Settings: j.Settings, Ended: j.State.Over(), Failed: j.State == call.Failed, Stopped: j.State == call.Stopped, Last: math.NaN()}
		if p := m.scheduler.progress[j.ID]; p != nil {
			t.Losses, t.Last = p.is.Rungs, p.loss
		}
		all = append(all, t)
	}
	return all
}
