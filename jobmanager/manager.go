// Package jobmanager runs jobs for others: it accepts them over HTTP, runs each like `tierml run`, in a process of its own, and resumes
// them after it was killed or the machine was restarted.
//
// The processes have their own sessions, and survive the job manager however it ends. Everything it needs to find them again is on disk: a
// job's record in its run's directory, the run's journal, and the lock that a run holds on its directory (rundir.Hold). A job's state, and
// what to do about it, follows from these alone (judge).
//
// It knows nothing about how training works, what machines are, or what a run costs.
package jobmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sched/grants"
	"github.com/tierml/tierml/watch/alert"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/status"
)

// Config is what a Manager needs to know.
type Config struct {
	Home       string       // the directory that holds runs and inputs
	Command    []string     // begins every command of tierml: the program
	Hosts      string       // a file of machines that jobs with cloud: local share; empty = each has its own
	Slots      int          // total number of jobs' own transient machines that the Scheduler grants; 0 = it grants slots of the Hosts
	Scheduler  sched.Policy // grants slots to jobs; nil = first come, first served
	MaxRunning int          // jobs at a time
	MaxQueued  int          // waiting jobs; more are refused
	MaxUpload  int64        // bytes of one input file
	JobMemory  int64        // memory limit of each process of a job or plan, in bytes; 0 = unlimited
	// EndExpiredMachines ends machines with expired leases, in the cluster that a job file names; nil = they stay.
	EndExpiredMachines func(ctx context.Context, file string) error
	KeepInputs         time.Duration // how long unused inputs are kept; 0 = forever
	Log                *slog.Logger
	Now                func() time.Time                // the wall clock
	Limits             budget.Cluster                  // of all jobs together
	Budgets            map[string]market.USD           // of all jobs of a group together, including ended ones
	Quotas             map[string]Quota                // of groups
	Fences             map[string]Fence                // of all groups; nil for one without
	Notifier           *alert.Notifier                 // for all jobs; nil = no alerts
	Allow              []string                        // what submitted jobs may name besides uploads: see config.Foreign
	KeepFree           int64                           // bytes of the disk that uploads leave free
	Free               func(dir string) (int64, error) // nil = the file system is queried
}

// Manager holds the jobs of a directory.
//
// Invariant: what must outlive this process is on disk before it is acted upon or answered: a job's record, which this manager writes, and
// its run's journal and lock, which the run has. jobs caches records; a new manager has no other source.
//
// A job's life: Submit writes the record. startDue starts its run at its turn. supervise waits for the run's end and forwards requests.
// rule asks judge what the end means: it has ended, or is started again after backOff.
//
// The next manager finds each job by these (find), whenever this one dies:
//   - before the record is written: the directory is no job, and the client has no answer.
//   - before the run is started: it is queued. The start is counted before it is made (Starts, Fruitless), so that a run that takes its manager
//     along is given up in the end.
//   - while the run holds its lock: it is supervised as before, and its end is seen by the lock alone (wait).
//   - between the start and the lock: a second run is started. One of the two gets the lock, and the other ends by itself.
//   - after the run's end: judge reads the journal, as it would have then.
//   - after a wish for its end was written: pass hands it on again; asking twice is harmless.
type Manager struct {
	cfg    Config
	root   string // of the runs
	board  *dashboard.Board
	wake   chan struct{}
	plans  chan struct{} // a place for each plan being made
	inputs inputs
	// release passes the directory to the next manager.
	release func()

	mu        sync.Mutex
	jobs      map[string]*job // by id
	deleted   []record        // of runs whose files were deleted
	number    int64           // of the newest
	tending   sync.WaitGroup
	decided   map[limited]budget.Decision // last decisions about the limits
	hosts     *job                        // the shared hosts; nil = none
	launcher  launcher
	scheduler *scheduler // nil = none
	health    health
}

// job is a submitted job.
type job struct {
	record
	dir       string
	tended    bool           // its run has a process here, or its end is being judged
	notBefore time.Time      // it is not started before, by the time of this process, which cannot be set: not Config.Now's
	pid       int            // of the run that was started here
	wished    chan struct{}  // closed when its end is requested, or requested more strongly
	asked     *grants.Asked  // for a scheduler; nil = not read yet
	sweep     *config.Job    // of a sweep's first trial: the sweep as submitted; nil = not read yet
	params    map[string]any // of a trial; nil = not read yet
	deadline  time.Time      // in market time, read with asked; zero = none
	unsaved   bool           // its record could not be written
	unrated   bool           // its run's hourly cost is unknown yet
	started   time.Time      // its run, by the time of this process
	most      *int           // transient machines, by its file; nil = not read yet
}

// Open opens a directory, which no other manager may have, and reads what is known about its jobs.
func Open(cfg Config) (*Manager, error) {
	home, err := filepath.Abs(cfg.Home)
	if err != nil {
		return nil, fmt.Errorf("opening the job server's directory: %w", err)
	}
	cfg.Home = home
	root := filepath.Join(home, rundir.Root)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("opening the job server's directory: %w", err)
	}
	release, err := rundir.HoldUntil(home)
	if err != nil {
		return nil, fmt.Errorf("another job server uses the directory %s: end it, or name another --directory", home)
	}
	m := &Manager{cfg: cfg, root: root, board: dashboard.New(root, cfg.Now, cfg.Log), wake: make(chan struct{}, 1), plans: make(chan struct{}, plansAtOnce), jobs: map[string]*job{}, decided: map[limited]budget.Decision{},
		inputs: inputs{cfg: cfg, dir: filepath.Join(home, inputsDir)}, release: release}
	m.launcher = m.launch
	m.inputs.removeHalves()
	records, err := readRecords(root)
	if err == nil {
		records, err = removeHalfSweeps(root, records)
	}
	if err != nil {
		release()
		return nil, err
	}
	m.board.ManagedBy(m.summary, api{m}.pageRights())
	m.board.Shows(m.inputs.outOfPlace)
	m.board.Offers(dashboard.Acts{Stop: func(ctx context.Context, dir string) error {
		return m.Stop(ctx, filepath.Base(dir), "the dashboard", false)
	}, Scaling: func(dir string, workers int32) error {
		return bounds{m}.gate(filepath.Base(dir), call.Scale{Workers: workers})
	}, Delete: func(ctx context.Context, dir string) error { return m.deleteRun(ctx, dir) }})
	for _, r := range records {
		m.number = max(m.number, r.Number)
		if r.Deleted != nil {
			m.deleted = append(m.deleted, r)
			err = errors.Join(err, empty(filepath.Join(root, r.ID))) // left by an earlier job server
			continue
		}
		m.jobs[r.ID] = &job{record: r, dir: filepath.Join(root, r.ID), wished: make(chan struct{})}
	}
	if err := errors.Join(err, m.keepHosts(), m.openScheduler()); err != nil {
		release()
		return nil, err
	}
	return m, nil
}

// Run starts waiting jobs, supervises running ones, and finds runs of an earlier manager, until the context ends. Runs continue then.
func (m *Manager) Run(ctx context.Context) {
	defer m.release()
	var following sync.WaitGroup
	following.Go(func() { m.board.Run(ctx) })
	following.Go(func() { bounds{m}.guard(ctx) })
	following.Go(func() { sweeps{m}.guard(ctx) })
	if m.scheduler != nil {
		following.Go(func() { m.scheduler.run(ctx) })
	}
	following.Go(func() { m.inputs.tidy(ctx, m.neededInputs) })
	following.Go(func() { m.endExpiredMachines(ctx) })
	m.find(ctx)
	for {
		next := m.startDue(ctx)
		select {
		case <-ctx.Done():
			m.tending.Wait()
			following.Wait()
			return
		case <-m.wake:
		case <-time.After(next):
		}
	}
}

// find judges every unfinished job as an earlier job server left it.
func (m *Manager) find(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.inOrder() {
		if j.State.Over() {
			continue
		}
		if rundir.Held(j.dir) {
			m.cfg.Log.Info("a run of an earlier job server continues", "job", j.ID)
			m.supervise(ctx, j, nil)
			continue
		}
		m.rule(ctx, j, ending{})
	}
}

// inOrder requires the lock.
func (m *Manager) inOrder() []*job {
	all := make([]*job, 0, len(m.jobs))
	for _, j := range m.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *job) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// ending is what only the process that started a run knows about its end. The zero ending: nothing.
type ending struct {
	counted bool   // its start was counted in record.Fruitless
	refused string // why the run was refused; empty = it was not
	host    string // the fault of the host, a store or a cloud that ended it; empty = none
}

// rule applies judge's verdict on a job without an active run. The lock must be held.
func (m *Manager) rule(ctx context.Context, j *job, e ending) {
	f, clock := m.look(ctx, j)
	if j.Journal > 0 && journalSize(j.dir) == j.Journal { // the run was resumed and wrote nothing: the outcome is the previous one
		f.outcome, f.why = "", ""
	}
	if clock > j.Clock {
		j.Clock, j.Fruitless, j.HostSince, j.HostFaults = clock, 0, nil, 0
	}
	if f.outcome == "" || e.host != "" {
		if f.host = m.blame(j, e); f.host != "" {
			f.outlasted, e.refused = j.outlasted(m.cfg.Now()), ""
		}
	}
	f.fruitless, f.refused = j.Fruitless, e.refused
	v := judge(f)
	if v.start && f.outcome != "" { // it restarts, on machines that may belong to others by now
		m.scheduler.forget(j)
	}
	before := j.State
	j.State, j.Why = v.state, v.why
	if v.state.Over() {
		now := m.cfg.Now()
		j.Ended = &now
		m.cfg.Notifier.Notify(alert.Alert{Kind: alert.Kind(v.state), Run: j.ID, Why: v.why, At: now.UTC(), Clock: j.Clock})
	}
	if v.state == call.Finished {
		_ = os.Remove(filepath.Join(j.dir, jobrun.SecretsFile)) // a job without secrets has none
	}
	j.notBefore = time.Now().Add(backOff(max(j.Fruitless, j.HostFaults)))
	_ = m.save(j) // otherwise it is written later
	if before != j.State || j.Why != "" {
		m.cfg.Log.Info("a job", "job", j.ID, "state", string(j.State), "why", j.Why)
	}
}

// look gathers the facts about a job without an active run.
func (m *Manager) look(ctx context.Context, j *job) (f facts, clock int64) {
	f = facts{stop: j.Stop, again: j.Again}
	if !began(j.dir) {
		return f, 0
	}
	f.began = true
	run, err := dashboard.Read(ctx, j.dir)
	if err != nil {
		m.cfg.Log.Warn("a journal cannot be read", "job", j.ID, "error", err)
		return f, 0
	}
	if run.State != status.Killed && !run.Active() {
		f.outcome, f.why = run.State, run.Why
	}
	if j.Hosts { // they have no clocks: each start is progress
		entries, _, _ := journal.ReadFile(filepath.Join(j.dir, rundir.JournalFile)) // as above
		for _, e := range entries {
			if e.Kind == journal.Start {
				clock++
			}
		}
		return f, clock
	}
	return f, run.Clock
}

// began reports whether a run's journal has a line: then it resumes with --resume, otherwise it starts.
func began(dir string) bool {
	r, err := runs.Open(dir)
	if err != nil {
		return false
	}
	defer r.Close()
	entries, _, _ := r.More() // the run reports a bad line
	return len(entries) > 0
}

// journalSize returns 0 if there is no journal.
func journalSize(dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, rundir.JournalFile))
	if err != nil {
		return 0
	}
	return info.Size()
}

// save writes a job's record. One that cannot be written is kept in memory until the host is well.
func (m *Manager) save(j *job) error {
	err := j.write(j.dir)
	j.unsaved = err != nil
	if err != nil {
		m.cfg.Log.Error("the state of a job cannot be saved", "job", j.ID, "error", err)
		m.examine()
	}
	return err
}

// startDue starts the runs whose turn it is, and returns how long nothing is due.
func (m *Manager) startDue(ctx context.Context) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	const idle = time.Minute
	next, running := idle, 0
	if m.waitsForHost() != "" {
		return lookAgain
	}
	for _, j := range m.jobs {
		if j.placed() {
			running++
		}
	}
	for _, j := range m.inOrder() {
		if j.tended || j.State.Over() || ctx.Err() != nil {
			continue
		}
		if wait := time.Until(j.notBefore); wait > 0 {
			next = min(next, wait)
			continue
		}
		switch {
		case j.State == call.Stopping: // a stopping job does not wait for others
		case bounds{m}.heldBy(j) != "":
			continue
		case j.Hosts: // they are no job
		case running >= m.cfg.MaxRunning && !j.placed():
			continue
		case m.scheduler.holds(j), bounds{m}.overQuota(j) != "":
			continue
		case m.lacksHosts(j) != "":
			next = min(next, lookAgain)
			continue
		}
		if !j.placed() && !j.Hosts {
			running++
		}
		m.start(ctx, j)
	}
	return next
}

// placed reports whether a job counts as running: it has a run, or was granted slots to begin with.
func (j *job) placed() bool {
	return !j.Hosts && (j.tended || j.Granted > 0 && j.Starts == 0 && !j.State.Over())
}

// nudge makes Run check what is due.
func (m *Manager) nudge() {
	select {
	case m.wake <- struct{}{}:
	default: // a signal is already pending
	}
}

// errFull is the refusal of a job too many.
var errFull = errors.New("the queue is full")

// Submit accepts a job. Text is a valid job file, with all files in place; name is the job's, client and user are its submitter.
func (m *Manager) Submit(name string, text []byte, secrets map[string]string, client, user string) (id string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.submitLocked(name, text, secrets, record{Client: client, User: user})
}

// admit refuses jobs beyond the maximum that may wait. The lock must be held.
func (m *Manager) admit(jobs int) error {
	waiting := 0
	for _, j := range m.jobs {
		if !j.State.Over() && !j.tended && !j.Hosts {
			waiting++
		}
	}
	if waiting+jobs > m.cfg.MaxQueued {
		return fmt.Errorf("%w: %d jobs wait already; stop one of them, or start the job server with --set max-queued=%d", errFull, waiting, 2*m.cfg.MaxQueued)
	}
	return nil
}

func (m *Manager) submitLocked(name string, text []byte, secrets map[string]string, r record) (id string, err error) {
	if err := m.admit(1); err != nil {
		return "", err
	}
	j, err := m.enter(name, text, secrets, r)
	if err != nil {
		return "", err
	}
	m.cfg.Log.Info("a job was submitted", "job", j.ID)
	m.nudge()
	return j.ID, nil
}

// enter creates a job's directory and its record. The lock must be held.
func (m *Manager) enter(name string, text []byte, secrets map[string]string, r record) (*job, error) {
	dir, err := rundir.NewBelow(m.root, name)
	if err != nil {
		return nil, err
	}
	r.ID, r.Number, r.Submitted, r.State = filepath.Base(dir), m.number+1, m.cfg.Now(), call.Queued
	if r.Trials > 0 {
		r.Sweep = cmp.Or(r.Sweep, r.ID)
	}
	j := &job{dir: dir, wished: make(chan struct{}), record: r}
	if err = errors.Join(keepSecrets(dir, secrets), replaceFile(filepath.Join(dir, submittedFile), text)); err == nil {
		m.giveSlots(j)
		j.Group = groupOf(dir)
		err = j.write(dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir)) // nothing has happened in it
	}
	m.number++
	m.jobs[j.ID] = j
	return j, nil
}

// Stop requests a job's end, graceful or immediate. The request is on disk before it returns.
func (m *Manager) Stop(ctx context.Context, id, by string, now bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[id]
	if j == nil {
		return m.stopForeign(ctx, id, by, now)
	}
	if j.State.Over() || j.Stop && (j.Now || !now) {
		return nil
	}
	j.Stop, j.Now, j.By = true, now, cmp.Or(by, "a user asked")
	m.cfg.Log.Info("a job shall end", "job", id, "by", j.By, "now", now)
	if !j.tended {
		m.rule(ctx, j, ending{})
		m.nudge()
		return nil
	}
	j.State = call.Stopping
	_ = m.save(j) // otherwise it is written later
	close(j.wished)
	j.wished = make(chan struct{})
	return nil
}

// stopForeign ends a manually started run of the directory.
func (m *Manager) stopForeign(ctx context.Context, id, by string, now bool) error {
	dir := filepath.Join(m.root, id)
	if !rundir.Held(dir) {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the client does not wait for it
	m.tending.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := jobrun.End(ctx, dir, by, now, cancel); err != nil && !errors.Is(err, context.Canceled) {
			m.cfg.Log.Warn("a run cannot be asked to end", "run", id, "error", err)
		}
	})
	return nil
}

// errFinished and errGoesOn refuse to resume a job that cannot be resumed.
var (
	errFinished = errors.New("it is finished: there is nothing to resume")
	errGoesOn   = errors.New("it is queued or running")
)

// Resume queues a stopped or failed job again.
func (m *Manager) Resume(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[id]
	switch {
	case j == nil:
		return fmt.Errorf("%s was not submitted: resume it by `tierml run --resume` on the job server's host", id)
	case j.State == call.Finished:
		return errFinished
	case !j.State.Over():
		return errGoesOn
	}
	j.Stop, j.Now, j.By, j.Again, j.Fruitless, j.Ended = false, false, "", true, 0, nil
	m.scheduler.forget(j)
	j.State, j.Why, j.notBefore = call.Queued, "resumes from its saved state", time.Time{}
	_ = m.save(j) // otherwise it is written later
	m.nudge()
	return nil
}
