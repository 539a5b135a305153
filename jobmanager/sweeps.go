package jobmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/dashboard"
)

// A sweep is jobs that were submitted by one file, one job per trial. Its name is that of its first trial.

// sweeps manages them for a manager.
type sweeps struct{ *Manager }

// sweepFile is a sweep's file as submitted, in the directory of its first trial.
const sweepFile = "sweep.yaml"

// submit accepts a job, or the trials of its sweep, and returns their ids.
func (m sweeps) submit(job *config.Job, text []byte, secrets map[string]string, client, user string) (ids []string, err error) {
	search := job.TrialsOfParams()
	if search == nil {
		id, err := m.Submit(job.Name, text, secrets, client, user)
		return []string{id}, err
	}
	if m.scheduler == nil || !m.scheduler.offered.concerns(job) {
		return nil, refuse(http.StatusUnprocessableEntity, "sweep: makes a job of each trial, for a job server with --scheduler: by --hosts of the job's cloud, or by --slots")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.admit(search.Number()); err != nil {
		return nil, err
	}
	return m.enterAll(job, text, search.Trials(), secrets, client, user)
}

// enterAll adds all trials of a sweep or none, even if this process is killed: until the last one exists the first is marked, and the next
// manager removes the remains of a marked sweep. Nothing of it is started before the lock is released. The lock must be held.
func (m sweeps) enterAll(of *config.Job, text []byte, trials []map[string]string, secrets map[string]string, client, user string) (ids []string, err error) {
	var all []*job
	search := of.TrialsOfParams()
	for i, settings := range trials {
		r := record{Trials: len(trials), Half: i == 0, Client: client, User: user}
		if r.Awaits = !search.Ready(i, 0); search.TPE && !r.Awaits {
			r.Settings = settings
		}
		if i > 0 {
			r.Sweep = all[0].ID
		}
		j, err := m.enter(of.Name, of.Trial(settings).Resolved(), secrets, r)
		if err == nil {
			all, ids = append(all, j), append(ids, j.ID)
		}
		if err == nil && i == 0 {
			err = replaceFile(filepath.Join(j.dir, sweepFile), text)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("submitting trial %d of %d: %w", i+1, len(trials), err), m.remove(all))
		}
	}
	all[0].Half = false
	if err := all[0].write(all[0].dir); err != nil {
		return nil, errors.Join(fmt.Errorf("submitting a sweep: %w", err), m.remove(all))
	}
	m.cfg.Log.Info("a sweep was submitted", "first", ids[0], "trials", len(ids))
	m.nudge()
	return ids, nil
}

// remove removes trials of a sweep that could not be submitted completely, the first one last. The lock must be held.
func (m sweeps) remove(trials []*job) (err error) {
	for i, j := range slices.Backward(trials) {
		delete(m.jobs, j.ID)
		if i > 0 || err == nil {
			err = errors.Join(err, os.RemoveAll(j.dir))
		}
	}
	return err
}

// removeHalfSweeps removes the trials of sweeps whose submission was cut short: they were never reported, and none was started. The first one,
// which marks the sweep, goes last.
func removeHalfSweeps(root string, records []record) (left []record, err error) {
	half := map[string]bool{}
	for _, r := range records {
		if r.Half {
			half[r.ID] = true
		}
	}
	for _, r := range records {
		switch {
		case half[r.ID]:
		case half[r.Sweep]:
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, r.ID)))
		default:
			left = append(left, r)
		}
	}
	for first := range half {
		if err == nil {
			err = os.RemoveAll(filepath.Join(root, first))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("removing a sweep that was not submitted as a whole: %w", err)
	}
	return left, nil
}

// all returns the sweeps with trials among these jobs, the newest first.
func (m sweeps) all(jobs []call.Job) (all []dashboard.Sweep) {
	summaries := map[string]dashboard.Summary{}
	for _, j := range jobs {
		summaries[j.Run] = j.Summary
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	index := map[string]int{}
	began, last := map[string]time.Time{}, map[string]time.Time{}
	spent := map[string]market.USD{}
	for _, j := range m.inOrder() {
		s, among := summaries[j.ID]
		if j.Sweep == "" || !among {
			continue
		}
		i, known := index[j.Sweep]
		if !known {
			i = len(all)
			index[j.Sweep] = i
			all = append(all, m.sweepOf(j))
		}
		all[i].Metric = cmp.Or(all[i].Metric, s.Metric)
		all[i].Trials = append(all[i].Trials, m.trial(j, all[i], s))
		if usd, err := market.ParseUSD(s.Spent); err == nil {
			spent[j.Sweep] += usd
		}
		if !s.Began.IsZero() && (began[j.Sweep].IsZero() || s.Began.Before(began[j.Sweep])) {
			began[j.Sweep] = s.Began
		}
		if s.AsOf.After(last[j.Sweep]) {
			last[j.Sweep] = s.AsOf
		}
	}
	for i := range all {
		s := &all[i]
		s.Spent, s.Seconds = spent[s.ID].String(), last[s.ID].Sub(began[s.ID]).Seconds()
		if s.Rank(); s.Best != "" {
			if path := filepath.Join(m.root, s.Best, rundir.ModelFile); exists(path) {
				s.Model = path
			}
		}
	}
	slices.Reverse(all)
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sweepOf returns a trial's sweep, from its file. The lock must be held.
func (m sweeps) sweepOf(j *job) dashboard.Sweep {
	name, _, _ := cutLast(j.Sweep)
	s := dashboard.Sweep{ID: j.Sweep, Job: name, Of: j.Trials}
	first := m.jobs[j.Sweep]
	if first == nil {
		return s // its directory was removed
	}
	if first.sweep == nil {
		first.sweep = &config.Job{}
		if file, err := config.Load(filepath.Join(first.dir, sweepFile)); err == nil {
			first.sweep = file
		}
	}
	of := first.sweep.Sweep
	for _, f := range of.Feedback {
		s.Feedback = append(s.Feedback, int64(f.At))
	}
	if of.Budget > 0 {
		s.Budget = of.Budget.String()
	}
	s.Longest, s.Why = of.MaxDuration.Seconds(), first.Over
	return s
}

// trial returns a trial as lists show it. The lock must be held.
func (m sweeps) trial(j *job, of dashboard.Sweep, s dashboard.Summary) dashboard.Trial {
	if j.params == nil {
		j.params = map[string]any{}
		if file, err := config.Load(filepath.Join(j.dir, submittedFile)); err == nil && !j.Awaits {
			var drawn map[string]config.Choices
			if first := m.jobs[of.ID]; first != nil {
				drawn = first.sweep.Sweep.Params
			}
			for name, value := range file.Train.Params {
				if drawn == nil || drawn[name] != nil {
					j.params[name] = value
				}
			}
		}
	}
	t := dashboard.Trial{Run: j.ID, Params: j.params, State: string(j.State), Why: bounds(m).waitsFor(j), Test: s.Test, Clock: s.Clock, Clocks: s.Clocks,
		Spent: s.Spent, Seconds: s.Seconds, Losses: []*float64{}}
	if j.Stop && j.Starts == 0 {
		t.Why = "before it began: " + j.By
	}
	if m.scheduler == nil || m.scheduler.progress[j.ID] == nil {
		return t
	}
	for _, loss := range m.scheduler.progress[j.ID].is.Rungs {
		figure := &loss
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			figure = nil
		}
		t.Losses = append(t.Losses, figure)
	}
	return t
}

// serve returns the sweep that a client names: by its name, by that of one of its trials, the newest of a job's name, or the latest.
func (m sweeps) serve(w http.ResponseWriter, r *http.Request) error {
	meant, all := r.PathValue("id"), m.all(seen(access.ClientOf(r.Context()), m.list()))
	for _, s := range all {
		if meant == "latest" || s.ID == meant || s.Job == meant || slices.ContainsFunc(s.Trials, func(t dashboard.Trial) bool { return t.Run == meant }) {
			answer(w, http.StatusOK, s)
			return nil
		}
	}
	return refuse(http.StatusNotFound, "there is no sweep %q here: a sweep is submitted by a job file with sweep: and params:", meant)
}

// lookAtSweeps is the interval at which the limits of sweeps are checked.
const lookAtSweeps = time.Second

// guard stops the trials of sweeps that exceed their limits, until the context ends.
func (m sweeps) guard(ctx context.Context) {
	for {
		if m.limited() {
			for _, s := range m.all(m.list()) {
				m.keepTo(ctx, s)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAtSweeps):
		}
	}
}

// limited reports whether an unfinished trial belongs to a sweep with limits.
func (m sweeps) limited() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		if j.Sweep == "" || j.State.Over() {
			continue
		}
		if s := m.sweepOf(j); s.Budget != "" || s.Longest > 0 {
			return true
		}
	}
	return false
}

// keepTo stops all trials of a sweep that exceeds its limits. The reason is on disk first: trials that still have to be stopped after a
// restart exceed the limit again.
func (m sweeps) keepTo(ctx context.Context, s dashboard.Sweep) {
	why := aboveLimits(s)
	if why == "" || !slices.ContainsFunc(s.Trials, func(t dashboard.Trial) bool { return !call.State(t.State).Over() }) {
		return
	}
	m.mu.Lock()
	if first := m.jobs[s.ID]; first != nil && first.Over == "" {
		m.cfg.Log.Warn("a sweep is above its limits", "sweep", s.ID, "why", why)
		first.Over = why
		_ = m.save(first) // otherwise it is written later
	}
	m.mu.Unlock()
	for _, t := range s.Trials {
		if call.State(t.State).Over() {
			continue
		}
		if err := m.Stop(ctx, t.Run, why, false); err != nil {
			m.cfg.Log.Error("a trial cannot be asked to end", "job", t.Run, "error", err)
		}
	}
}

// aboveLimits returns why a sweep should end; empty = it should not.
func aboveLimits(s dashboard.Sweep) string {
	spent, err := market.ParseUSD(s.Spent)
	budget, none := market.ParseUSD(s.Budget)
	switch {
	case err == nil && none == nil && budget > 0 && spent >= budget:
		return fmt.Sprintf("the sweep's budget of %s is spent: %s, with hours that have begun", budget.Cents(), spent.Cents())
	case s.Longest > 0 && s.Seconds >= s.Longest:
		return fmt.Sprintf("the sweep's max_duration of %s is over", time.Duration(s.Longest*float64(time.Second)))
	}
	return ""
}
