package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tierml/tierml/sched"
)

// Run simulates until all jobs are gone.
func Run(cfg Config) (Result, error) {
	w, err := newWorld(&cfg)
	if err != nil {
		return Result{}, err
	}
	for len(w.coming)+len(w.present) > 0 && !w.idle() {
		next := w.next()
		if cfg.Horizon > 0 && next > cfg.Horizon {
			w.pass(cfg.Horizon)
			w.result.GivenUp = true
			break
		}
		if math.IsInf(next, 1) {
			w.result.GivenUp = true // nothing can happen to waiting jobs
			break
		}
		w.pass(next)
		if err := w.happen(); err != nil {
			return Result{}, err
		}
		if w.now >= w.planAt {
			if err := w.plan(); err != nil {
				return Result{}, err
			}
		}
	}
	return w.finish()
}

// job is a job in the simulation.
type job struct {
	state sched.Job
	of    *Script
	out   *Outcome

	done   float64
	still  float64 // remaining seconds of its stop
	clock  float64 // seconds per clock, with its present units
	alike  float64 // clocks done with its present units
	fedUp  bool    // it has given its feedback
	rungs  []float64
	lapsed bool // it has had units, and is waiting
}

type world struct {
	cfg     *Config
	now     float64
	coming  []*job // by arrival
	present []*job // by arrival
	byID    map[string]*job
	hosts   []sched.Host
	fleet   *fleet // nil = the hosts are fixed
	total   sched.Resources
	past    []sched.Job // finished trials
	rungs   bool
	planned float64 // time of the last plan
	planAt  float64 // time of the next plan
	result  Result
	span    Span // since the last change
}

func newWorld(cfg *Config) (*world, error) {
	w := &world{cfg: cfg, byID: map[string]*job{}, hosts: cfg.Hosts, planned: math.Inf(-1), planAt: math.Inf(1)}
	if len(cfg.Jobs) == 0 {
		return nil, errors.New("there are no jobs")
	}
	_, w.rungs = cfg.Policy.(sched.ASHA)
	trials := map[string]int{} // by sweep
	w.result.Outcomes = make([]Outcome, len(cfg.Jobs))
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		if j.Clock.Seconds(max(j.Workers, 1), j.Servers) <= 0 || j.Total <= 0 || j.Workers < 1 || w.byID[j.ID] != nil {
			return nil, fmt.Errorf("job %s: it needs a name of its own, a worker, clocks, and a time for each", j.ID)
		}
		out := &w.result.Outcomes[i]
		*out = Outcome{Job: j, Began: math.NaN(), Feedback: math.NaN(), Ended: math.NaN()}
		w.byID[j.ID] = &job{of: j, out: out, state: sched.Job{
			ID: j.ID, Group: j.Group, Sweep: j.Sweep, Phase: sched.Queued, Arrived: j.Arrives, Deadline: j.Deadline, Weight: j.Weight, Priority: j.Priority,
			Demand: j.Demand, Overhead: j.Overhead, WantWorkers: j.Workers, WantServers: j.Servers, LeastWorkers: j.LeastWorkers, MostWorkers: j.MostWorkers, Total: j.Total, Budget: j.Budget,
		}}
		x := w.byID[j.ID]
		x.fedUp = j.Feedback == 0
		if w.rungs {
			for at := j.Feedback; at > 0 && at < j.Total; at *= 3 {
				x.rungs = append(x.rungs, at)
			}
		}
		if cfg.Known {
			x.state.Pace = samples(j)
		}
		w.coming = append(w.coming, x)
		trials[j.Sweep]++
	}
	for _, x := range w.coming {
		x.state.Trials = trials[x.of.Sweep]
	}
	slices.SortStableFunc(w.coming, func(a, b *job) int { return cmp.Compare(a.of.Arrives, b.of.Arrives) })
	if cfg.Market != nil {
		var err error
		if w.fleet, err = newFleet(cfg.Market, cfg.PlanEvery); err != nil {
			return nil, err
		}
	}
	w.count()
	return w, nil
}

// samples returns a job's speeds at a few sizes.
func samples(j *Script) (p sched.Pace) {
	for _, at := range [][2]int{{1, 1}, {2, 1}, {4, 1}, {4, 4}, {8, 4}, {16, 4}} {
		workers, servers := at[0], min(at[1], j.Servers)
		if j.MostWorkers == 0 || workers <= j.MostWorkers {
			p = append(p, sched.Measured{Workers: workers, Servers: servers, Speed: 1 / j.Clock.Seconds(workers, servers)})
		}
	}
	return p
}

// runs reports whether the job holds units.
func (j *job) runs() bool { return j.state.Phase == sched.Feedback || j.state.Phase == sched.Training }

// idle reports whether the only jobs left were paused by the policy and will never resume.
func (w *world) idle() bool {
	return len(w.coming) == 0 && math.IsInf(w.planAt, 1) && !slices.ContainsFunc(w.present, func(j *job) bool { return j.state.Phase != sched.Paused })
}

// target returns the clock of the job's next event.
func (j *job) target() float64 {
	switch {
	case len(j.rungs) > 0 && j.state.Until < len(j.rungs):
		return j.rungs[j.state.Until]
	case !j.fedUp:
		return j.of.Feedback
	}
	return j.of.Total
}

func (j *job) due(now float64) float64 {
	if !j.runs() || len(j.rungs) > 0 && len(j.state.Rungs) > j.state.Until { // at a rung it stops until the policy decides
		return math.Inf(1)
	}
	return now + j.still + max(0, j.target()-j.done)*j.clock
}

// next returns the time of the next event.
func (w *world) next() float64 {
	next := w.planAt
	if len(w.coming) > 0 {
		next = min(next, w.coming[0].of.Arrives)
	}
	for _, j := range w.present {
		next = min(next, j.due(w.now))
	}
	if w.fleet != nil {
		next = min(next, w.fleet.next())
	}
	return max(next, w.now)
}

// instant is the largest difference, in seconds, between times that count as equal.
const instant = 1e-6

// pass advances time.
func (w *world) pass(until float64) {
	seconds := until - w.now
	rate := 0.
	if w.fleet != nil {
		rate = w.fleet.rate(w.now) / 3600
	}
	for _, j := range w.present {
		if !j.runs() {
			continue
		}
		if len(j.of.Demand) > 0 {
			j.state.Spent += seconds * rate * j.of.Demand[0] * float64(j.state.Workers+j.state.Servers+j.of.Overhead)
		}
		still := min(seconds, j.still)
		j.still -= still
		clocks := (seconds - still) / j.clock
		j.done += clocks
		j.alike += clocks
		j.out.Ran += seconds
		j.out.Still += still
	}
	w.now = until
}

// happen handles all events that are due.
func (w *world) happen() error {
	changed := false
	for len(w.coming) > 0 && w.coming[0].of.Arrives <= w.now+instant {
		w.present = append(w.present, w.coming[0])
		w.coming = w.coming[1:]
		changed = true
	}
	for _, j := range w.present {
		if j.due(w.now) <= w.now+instant {
			w.reach(j)
			changed = true
		}
	}
	w.leave()
	if w.fleet != nil {
		lost, others, err := w.fleet.step(w.now, w.asked)
		if err != nil {
			return err
		}
		if others {
			w.lose(lost)
			w.hosts = w.fleet.hosts()
			w.count()
			changed = true
		}
	}
	if changed {
		w.planAt = min(w.planAt, max(w.now, w.planned+w.cfg.PlanEvery))
		if w.planAt > w.now {
			w.mark()
		}
	}
	return nil
}

// reach handles a job's arrival at its target.
func (w *world) reach(j *job) {
	target := j.target()
	j.done = max(j.done, target)
	if len(j.rungs) > 0 && j.state.Until < len(j.rungs) {
		j.state.Rungs = append(j.state.Rungs, j.of.Loss)
	}
	if !j.fedUp {
		j.fedUp, j.out.Feedback = true, w.now
		j.state.Phase, j.state.Loss = sched.Training, j.of.Loss
		if !w.rungs {
			j.state.Rungs = []float64{j.of.Loss}
		}
		if !j.of.Leaves {
			return
		}
	}
	if j.of.Leaves || target == j.of.Total {
		j.out.Ended = w.now
	}
}

// leave removes jobs that have ended.
func (w *world) leave() {
	w.present = slices.DeleteFunc(w.present, func(j *job) bool {
		if math.IsNaN(j.out.Ended) {
			return false
		}
		if len(j.state.Rungs) > 0 {
			w.past = append(w.past, j.state)
		}
		return true
	})
}

// asked returns how many units the present jobs requested, and how many they could use, in the first kind of resource.
func (w *world) asked() (asked, most float64) {
	for _, j := range w.present {
		if len(j.of.Demand) == 0 {
			continue
		}
		units := j.of.Workers + j.of.Servers + j.of.Overhead
		asked += float64(units) * j.of.Demand[0]
		most += float64(units+max(j.of.MostWorkers-j.of.Workers, 0)) * j.of.Demand[0]
	}
	return asked, most
}

// lose removes hosts. Jobs hand their work over within the notice; a job left with too little to run waits, and keeps
// its state.
func (w *world) lose(lost map[string]bool) {
	for _, j := range w.present {
		if !j.runs() || !slices.ContainsFunc(j.state.Where, func(p sched.Place) bool { return lost[p.Host] }) {
			continue
		}
		j.out.Evicted++
		over := 0
		j.state.Workers, j.state.Servers = 0, 0
		j.state.Where = slices.DeleteFunc(slices.Clone(j.state.Where), func(p sched.Place) bool { return lost[p.Host] })
		for _, p := range j.state.Where {
			j.state.Workers, j.state.Servers, over = j.state.Workers+p.Workers, j.state.Servers+p.Servers, over+p.Overhead
		}
		workers, servers := j.of.least()
		if w.cfg.Gang || j.state.Workers < workers || j.state.Servers < servers || over < j.of.Overhead {
			j.state.Phase, j.lapsed = sched.Queued, true
			j.state.Workers, j.state.Servers, j.state.Where = 0, 0, nil
			continue
		}
		j.sized()
		j.still = max(j.still, w.cfg.Costs.Resize)
	}
}

// sized handles a change of a job's numbers.
func (j *job) sized() {
	j.clock, j.alike = j.of.Clock.Seconds(j.state.Workers, j.state.Servers), 0
}

// measure records a job's speed once it has done a clock with its present units.
func (j *job) measure() {
	if !j.runs() || j.alike < 1 || j.clock <= 0 {
		return
	}
	m := sched.Measured{Workers: j.state.Workers, Servers: j.state.Servers, Speed: 1 / j.clock}
	if !slices.Contains(j.state.Pace, m) {
		j.state.Pace = append(j.state.Pace, m)
	}
}

func (w *world) state() sched.State {
	s := sched.State{Now: w.now, Seed: w.cfg.Seed, Hosts: w.hosts, Past: w.past}
	for _, j := range w.present {
		j.state.Done = j.done
		s.Jobs = append(s.Jobs, j.state)
	}
	return s
}

func (w *world) plan() error {
	for _, j := range w.present {
		j.measure()
	}
	w.planned, w.planAt = w.now, math.Inf(1)
	s := w.state()
	if w.fleet != nil {
		s.Market = w.fleet.prices(w.now)
	}
	p := w.cfg.Policy.Plan(s)
	if err := sched.Check(s, p); err != nil {
		return fmt.Errorf("%s at second %.0f: %w", w.cfg.Policy.Name(), w.now, err)
	}
	w.result.Plans++
	if p.Unsolved {
		w.result.Unsolved++
	}
	wait, changed := 0., 0
	for _, g := range p.Grants {
		switch g.Action {
		case sched.Grow, sched.Shrink, sched.Move:
			changed++
		}
		switch g.Action {
		case sched.Shrink, sched.Move, sched.Pause:
			wait = w.cfg.Costs.Release
		}
	}
	w.result.Changed += changed
	w.result.Most = max(w.result.Most, changed)
	for _, g := range p.Grants {
		w.apply(w.byID[g.Job], g, wait)
	}
	w.leave()
	if w.fleet != nil {
		w.fleet.follow(w.now, p.Supply)
	}
	w.mark()
	return nil
}

// apply carries out a grant; a job that starts waits for units that others release.
func (w *world) apply(j *job, g sched.Grant, wait float64) {
	if w.cfg.Saw != nil && g.Action != sched.Keep && g.Action != sched.Wait {
		w.cfg.Saw(w.now, g)
	}
	before := [2]int{j.state.Workers, j.state.Servers}
	switch g.Action {
	case sched.Kill:
		j.out.Ended, j.out.Killed = w.now, true
	case sched.Start, sched.Resume:
		j.still = wait + w.cfg.Costs.Start
		if g.Action == sched.Resume || j.lapsed {
			j.still = wait + w.cfg.Costs.Resume
		}
		j.state.Phase = sched.Feedback
		if j.fedUp {
			j.state.Phase = sched.Training
		}
		if math.IsNaN(j.out.Began) {
			j.out.Began = w.now
		}
	case sched.Grow, sched.Shrink, sched.Move:
		j.still = max(j.still, w.cfg.Costs.Resize)
		j.out.Resized++
	case sched.Pause:
		j.state.Phase, j.lapsed = sched.Paused, true
	}
	j.state.Workers, j.state.Servers, j.state.Where, j.state.Until = g.Workers, g.Servers, g.Where, g.Until
	if before != [2]int{g.Workers, g.Servers} {
		j.sized()
	}
}

// count adds up the hosts' resources.
func (w *world) count() {
	w.total = nil
	for _, h := range w.hosts {
		for k, v := range h.Capacity {
			if k == len(w.total) {
				w.total = append(w.total, 0)
			}
			w.total[k] += v
		}
	}
}

// mark ends the present span and begins the next.
func (w *world) mark() {
	if w.now > w.span.From {
		w.span.To = w.now
		w.result.Spans = append(w.result.Spans, w.span)
	}
	next := Span{From: w.now, Unfair: sched.Unfairness(w.state())}
	for _, j := range w.present {
		switch {
		case !j.runs():
			next.Waiting++
			continue
		case j.fedUp:
			next.Train++
		default:
			next.Feedback++
		}
		next.Units += j.state.Workers + j.state.Servers
		for k, v := range j.of.Demand {
			if w.total[k] > 0 {
				next.Used += v * float64(j.state.Workers+j.state.Servers+j.of.Overhead) / w.total[k]
			}
		}
	}
	w.span = next
}

func (w *world) finish() (Result, error) {
	w.mark()
	w.result.End = w.now
	if w.fleet != nil {
		var err error
		if w.result.Bill, err = w.fleet.close(w.now); err != nil {
			return Result{}, err
		}
	}
	return w.result, nil
}
