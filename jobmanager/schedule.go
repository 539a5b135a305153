package jobmanager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/scaling"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sched/grants"
	"github.com/tierml/tierml/watch/dashboard"
)

// ScheduleFile has a line for each decision of the scheduler. It is in the manager's directory.
const ScheduleFile = "schedule.jsonl"

// lookAtGrants is the interval at which the scheduler checks jobs and slots.
const lookAtGrants = 250 * time.Millisecond

// scheduler shares the slots of the shared hosts among jobs, or Config.Slots: machines of their own, wherever those are. It is used by one
// goroutine at a time, with the manager's lock.
//
// Invariant: a decision is on disk before any part of it is carried out, and what jobs have is read anew each time, from the book of slots
// and their journals. So the next manager continues from the last whole line; grants.Calls does not need told, which the next one lacks.
//
//  1. decide reads jobs, slots and prices. If there is something to decide (grants.Due), the decision is kept.
//  2. Of what grants.Calls says, new runs are started by their records (Granted), also by the next manager if this one dies.
//  3. carryOut sends the other requests, without the lock. A run that cannot be reached yet, or refuses, gets the request again at the
//     next look.
//  4. giveBack asks the shared hosts to release those that the decision has no use for, once no job has more than it was granted.
type scheduler struct {
	m        *Manager
	policy   sched.Policy
	offered  offered
	file     *os.File
	whole    int64 // its bytes, of whole lines
	last     grants.Decision
	slots    slotBook
	hosts    follower
	market   *clock.Mapping // of the shared hosts; nil = unknown yet
	supply   supply
	progress map[string]*progress // by job
	others   grants.Others
	told     map[string]int    // workers requested from a run, and accepted
	said     map[string]string // the refusal of a run, logged once
}

// openScheduler reads the last decision of a manager before.
func (m *Manager) openScheduler() (err error) {
	if m.cfg.Scheduler == nil {
		return nil
	}
	s := &scheduler{m: m, policy: m.cfg.Scheduler, told: map[string]int{}, said: map[string]string{}, progress: map[string]*progress{}}
	switch {
	case m.cfg.Slots > 0 && m.hosts != nil:
		return fmt.Errorf("the shared hosts %s still run: stop them first, or schedule their slots with --hosts in place of --slots", m.hosts.ID)
	case m.cfg.Slots > 0:
		s.offered.machines = m.cfg.Slots
	case m.hosts == nil:
		return errors.New("a scheduler shares machines among jobs: name hosts with --hosts, or say with --slots how many machines of their own all jobs have")
	default:
		s.slots.reader = desk.NewReader(m.hosts.dir)
		if s.supply, s.offered, err = supplyOf(filepath.Join(m.hosts.dir, submittedFile)); err != nil {
			return err
		}
	}
	path := filepath.Join(m.cfg.Home, ScheduleFile)
	s.whole, err = s.readLast(path)
	if err == nil {
		s.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	}
	if err == nil {
		err = s.file.Truncate(s.whole) // an incomplete line was not acted upon
	}
	if err != nil {
		return fmt.Errorf("opening the scheduler's decisions: %w", err)
	}
	m.scheduler = s
	return nil
}

// readLast reads the last decision, and returns where the next line goes.
func (s *scheduler) readLast(path string) (whole int64, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	end := bytes.LastIndexByte(text, '\n')
	if end < 0 {
		return 0, nil
	}
	if err := json.Unmarshal(text[bytes.LastIndexByte(text[:end], '\n')+1:end], &s.last); err != nil {
		return 0, fmt.Errorf("the last line of %s: %w", path, err)
	}
	return int64(end + 1), nil
}

// run makes and carries out decisions until the context ends.
func (s *scheduler) run(ctx context.Context) {
	for {
		calls, leave := s.decide()
		for _, c := range calls {
			s.carryOut(ctx, c)
		}
		for _, host := range leave {
			s.giveBack(ctx, host)
		}
		select {
		case <-ctx.Done():
			_ = s.file.Close() // each line was synced
			s.hosts.close()
			for _, p := range s.progress {
				p.close()
			}
			return
		case <-time.After(lookAtGrants):
		}
	}
}

// decide stores a decision if one is due, has jobs started, and returns what to request from others, and the hosts to give back.
func (s *scheduler) decide() (calls []grants.Call, leave []string) {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs, err := s.jobs()
	var slots grants.Slots
	if err == nil {
		sweeps{m}.search()
		slots, err = s.shared(jobs)
	}
	if err != nil {
		m.cfg.Log.Warn("what jobs have cannot be read", "error", err)
		return nil, nil
	}
	if now := m.cfg.Now(); grants.Due(s.policy, now, slots, jobs, s.last) {
		d := grants.Decide(s.policy, now, slots, jobs, s.others, s.last)
		for i, g := range d.Grants {
			own := m.jobs[g.Job].Group
			d.Grants[i].Why = m.unnamed(g.Why, func(group string) bool { return group == own })
		}
		if err := s.keep(d); err != nil {
			m.cfg.Log.Error("a decision of the scheduler cannot be saved, so it is not carried out", "error", err)
			return nil, nil
		}
		for _, g := range d.Grants {
			if g.Action != sched.Keep {
				m.cfg.Log.Info("a grant", "job", g.Job, "action", string(g.Action), "was", g.Was, "workers", g.Workers, "why", g.Why)
			}
		}
	}
	for _, c := range grants.Calls(s.last, jobs) {
		j := m.jobs[c.Job]
		if c.Stop || j.tended && !c.Start {
			calls = append(calls, c)
			continue
		}
		s.told[c.Job] = c.Workers
		if c.Start || c.Workers > 0 {
			j.Granted = c.Workers
		}
		_ = m.save(j) // its run is started with this number, even by the next manager
		m.nudge()
	}
	for _, host := range grants.Leaving(s.last, jobs) {
		if _, there := s.supply.there[host]; there {
			leave = append(leave, host)
		}
	}
	return calls, leave
}

// shared returns what jobs share now. The cost of its own machines is each job's own affair.
func (s *scheduler) shared(jobs []grants.Claim) (slots grants.Slots, err error) {
	if n := s.m.cfg.Slots; n > 0 {
		return grants.Slots{Hosts: []sched.Host{{ID: "slots", Capacity: sched.Resources{float64(n)}}}, There: 1}, nil
	}
	take := func(e journal.Entry) {
		s.market = cmp.Or(marketClock(e), s.market)
		s.supply.take(e)
	}
	if err := s.hosts.read(s.m.hosts.dir, take); err != nil {
		return slots, fmt.Errorf("the shared hosts' journal: %w", err)
	}
	wish := s.supply.least
	if !slices.ContainsFunc(jobs, func(j grants.Claim) bool { return s.last.Of(j.ID).Workers == 0 }) {
		for _, j := range jobs {
			if slices.Compare(j.Unit, wish) < 0 {
				wish = j.Unit
			}
		}
	}
	now := s.m.cfg.Now()
	slots.Hosts, slots.There = s.supply.hosts(now, s.slots.waiting, wish, s.last.Hosts)
	slots.Market = s.supply.costs.market(s.supply.there, now, *cmp.Or(s.market, &clock.Mapping{Wall: now, Market: now, Speed: 1}))
	return slots, nil
}

// keep puts a decision on disk.
func (s *scheduler) keep(d grants.Decision) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	n, err := s.file.WriteAt(append(text, '\n'), s.whole)
	if err = errors.Join(err, s.file.Sync()); err != nil {
		return errors.Join(err, s.file.Truncate(s.whole)) // the next line must not begin within this one
	}
	s.last, s.whole = d, s.whole+int64(n)
	return nil
}

// jobs returns the jobs among which slots are shared, in order of submission. The lock must be held.
func (s *scheduler) jobs() ([]grants.Claim, error) {
	all, most, err := s.claims()
	all, left := grants.Admit(all, most)
	s.others.Waiting += left
	return all, err
}

// claims returns all jobs that no quota holds back, and how many may have a run at a time. The lock must be held.
func (s *scheduler) claims() (all []grants.Claim, most int, err error) {
	held, err := s.slots.held()
	if err != nil {
		return nil, 0, err
	}
	s.others, most = grants.Others{}, s.m.cfg.MaxRunning
	for _, j := range s.m.inOrder() {
		if !s.shares(j) {
			if j.placed() {
				most--
			}
			continue
		}
		if j.Awaits && !j.State.Over() {
			continue
		}
		if j.asked == nil {
			var asked grants.Asked
			asked, j.deadline = s.offered.askedBy(filepath.Join(j.dir, submittedFile))
			if j.Sweep != "" {
				asked.Sweep, asked.Trials = j.Sweep, j.Trials
			}
			j.asked = &asked
		}
		if j.State.Over() {
			delete(s.told, j.ID)
			if err := s.recall(j); err != nil {
				return nil, 0, err
			}
			continue
		}
		if (bounds{s.m}).overQuota(j) != "" {
			s.others.Waiting++
			continue
		}
		told, known := s.told[j.ID]
		if !known {
			told = -1
		}
		is, err := s.progressOf(j)
		if err != nil {
			return nil, 0, err
		}
		if is.PausedBy != "" || s.progress[j.ID].rests { // it rests until the scheduler resumes it
			s.told[j.ID], told = 0, 0
		}
		has := held[j.ID]
		if j.Counted {
			has.slots = len(s.progress[j.ID].live)
		}
		claim := grants.Claim{ID: j.ID, Arrived: j.arrived(), Deadline: s.deadline(j), Asked: *j.asked, Progress: is, Began: j.Granted > 0,
			Held: has.slots, Where: has.where, Told: told, Wants: s.progress[j.ID].wants, Ending: j.Stop || j.asked.Clocks > 0 && is.Done >= j.asked.Clocks}
		if claim.Fixed && j.Own > 0 { // it resumes with what it began with
			claim.Least, claim.Most, claim.Start = j.Own, j.Own, j.Own
		}
		all = append(all, claim)
	}
	return all, most, nil
}

// standing returns the outcome of the last decision for the groups that are seen. The lock must be held.
func (s *scheduler) standing(now time.Time, sees func(group string) bool) *dashboard.Grants {
	out := &dashboard.Grants{}
	for _, j := range s.m.jobs {
		if !s.shares(j) || j.State.Over() || j.Awaits || !sees(j.Group) {
			continue
		}
		workers := s.last.Of(j.ID).Workers
		out.Workers += workers
		switch {
		case j.Granted == 0 && workers == 0:
			out.Longest = max(out.Longest, now.Sub(j.Submitted))
		case workers == 0:
			out.Paused++
		}
	}
	return out
}

// deadline returns a job's deadline in wall-clock seconds; 0 = none, or the speed of its market time is unknown yet: by its own run, or by
// the shared hosts before that.
func (s *scheduler) deadline(j *job) float64 {
	passes := s.progress[j.ID].market
	if passes == nil && j.Slots {
		passes = s.market
	}
	if j.deadline.IsZero() || passes == nil {
		return 0
	}
	return float64(passes.WallAt(j.deadline).UnixMilli()) / 1000
}

// marketClock returns a run's mapping of market time from its first line; nil = another line.
func marketClock(e journal.Entry) *clock.Mapping {
	if e.Kind != journal.Start {
		return nil
	}
	d, err := e.StartDetails()
	if err != nil {
		return nil
	}
	m, err := clock.Parse(d.Clock)
	if err != nil {
		return nil
	}
	return &m
}

// leftOut returns why a job outside the decisions waits; empty = it does not wait for others to end.
func (s *scheduler) leftOut() string {
	if s.others.Waiting == 0 {
		return ""
	}
	return fmt.Sprintf("waits for the end of another job: %d at a time, paused ones included (--max-running)", s.m.cfg.MaxRunning)
}

// arrived returns when a job was submitted, in seconds.
func (j *job) arrived() float64 { return float64(j.Submitted.UnixMilli()) / 1000 }

// shares reports whether the scheduler decides about a job.
func (s *scheduler) shares(j *job) bool {
	if s.m.cfg.Slots > 0 {
		return j.Counted
	}
	return j.Slots
}

// refuses returns why a job would never have slots; nil = it will, or there is no scheduler.
func (s *scheduler) refuses(job *config.Job) error {
	if s == nil || !s.offered.concerns(job) {
		return nil
	}
	return s.offered.refuses(job)
}

// holds reports whether a job's run is not started yet because it has no slots. The lock must be held.
func (s *scheduler) holds(j *job) bool { return s != nil && s.shares(j) && j.Granted == 0 }

// grantFor returns how many transient machines a run begins or resumes with: at most its grant, and what is known to be reserved for it.
// Below 0: no scheduler decides about it. The lock must be held.
func (s *scheduler) grantFor(j *job) int {
	if s == nil || !s.shares(j) {
		return -1
	}
	most, told := s.told[j.ID]
	if !told {
		most = j.Granted
	}
	if g := s.last.Of(j.ID); g.Job != "" {
		most = min(most, g.Workers)
	}
	return most
}

// forget makes a job whose run has ended wait for slots again: its former ones belong to others by now. The lock must be held.
func (s *scheduler) forget(j *job) {
	if j.Granted = 0; s != nil {
		delete(s.told, j.ID)
	}
}

// tells records that a run begins with its grant. The lock must be held.
func (s *scheduler) tells(j *job, grant int) {
	if grant >= 0 {
		s.told[j.ID] = grant
	}
}

// carryOut sends a run the request that was decided. If it cannot be reached yet, the request is repeated.
func (s *scheduler) carryOut(ctx context.Context, c grants.Call) {
	m := s.m
	m.mu.Lock()
	j := m.jobs[c.Job]
	fixed, granted := j.asked.Fixed, cmp.Or(j.Own, j.Granted)
	m.mu.Unlock()
	var err error
	switch {
	case c.Stop:
		err = m.Stop(ctx, c.Job, c.Why, false)
	case !fixed: // a fixed job has what it was started with
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err = sendGrant(ctx, j.dir, c, granted)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		if !c.Stop {
			s.told[c.Job] = c.Workers
		}
		delete(s.said, c.Job)
	} else if s.said[c.Job] != err.Error() {
		s.said[c.Job] = err.Error()
		m.cfg.Log.Info("a run cannot be sent the scheduler's decision yet", "job", c.Job, "workers", c.Workers, "error", err)
	}
}

// giveBack makes the shared hosts release one when its paid time ends. The request is repeated until their journal shows it.
func (s *scheduler) giveBack(ctx context.Context, host string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := scaling.Cancel(ctx, s.m.hosts.dir, "scheduler "+s.policy.Name(), host)
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	switch {
	case err == nil:
		delete(s.said, host)
	case s.said[host] != err.Error():
		s.said[host] = err.Error()
		s.m.cfg.Log.Info("a host that is not worth its price cannot be given back yet", "host", host, "error", err)
	}
}

// sendGrant requests a number of workers from a run, or a pause; it is idempotent. Own is the number that it was started with.
func sendGrant(ctx context.Context, dir string, c grants.Call, own int) error {
	change := &pb.Change{Pause: true, Scheduled: true, By: c.Why}
	if c.Workers > 0 { // the run refuses if a person has paused it
		change = &pb.Change{Restore: true, Workers: int32(c.Workers - own), Resume: true, Scheduled: true, By: c.Why}
	}
	return scaling.Ask(ctx, dir, change, func(*pb.Standing) {})
}

// grantedFile returns a job's file with the number of workers that its run begins with.
func (s *scheduler) grantedFile(j *job) (string, error) {
	submitted := filepath.Join(j.dir, submittedFile)
	if s == nil || j.Granted == 0 {
		return submitted, nil
	}
	job, err := config.Load(submitted)
	if err != nil {
		return submitted, nil // its run reports the problem
	}
	least := j.Granted
	if job.IsProgram() {
		least = min(job.Resources.Count.Least, least)
	}
	job.Resources.Count, job.Resources.VCPU, job.StartWith = config.Machines{Least: least, Most: j.Granted}, 0, 0
	path := filepath.Join(j.dir, "granted.yaml")
	return path, replaceFile(path, job.Resolved())
}

// why returns a job's grant, the reason, and the alternatives.
func (s *scheduler) why(m *Manager, id string) (call.Why, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[id]
	switch {
	case s == nil:
		return call.Why{}, errors.New("the job server has no scheduler: jobs get slots first come, first served; start it with --scheduler")
	case j == nil || !s.shares(j):
		return call.Why{}, fmt.Errorf("%s was submitted before the scheduler started, or has no slots, so it is not scheduled", id)
	case j.Awaits:
		return call.Why{}, fmt.Errorf("%s waits: %s", id, awaits)
	case s.last.Of(id).Job == "":
		return call.Why{}, fmt.Errorf("there is no decision about %s: it has ended, or was submitted just now", id)
	}
	jobs, err := s.jobs()
	if err != nil {
		return call.Why{}, err
	}
	w := call.Why{Policy: s.last.Policy, At: s.last.T, Plan: s.last.Why, Jobs: s.last.Grants, Refused: s.said[id]}
	for _, g := range s.last.Grants {
		if g.Job == id {
			w.Grant = g
		}
	}
	if i := slices.IndexFunc(jobs, func(o grants.Claim) bool { return o.ID == id }); i >= 0 {
		w.Held, w.Least, w.Most = jobs[i].Held, jobs[i].Least, jobs[i].Most
		var others []sched.Policy
		for _, name := range Schedulers {
			if p, err := sched.ByName(name); err == nil && name != s.last.Policy {
				others = append(others, p)
			}
		}
		w.Else = grants.Else(others, s.last.T, grants.Slots{Hosts: s.last.Hosts, There: len(s.last.Hosts), Market: s.last.Market}, jobs, id)
	}
	return w, nil
}

// Schedulers are the policies of sched that can share slots among jobs that run.
var Schedulers = []string{"asha", "deadline", "dorm", "drf", "feedback", "fifo", "h", "kill", "marginal", "priority"}
