// Package grants runs a scheduler over jobs that exist: Decide asks a sched.Policy what each job gets and why, and Calls says what to ask of
// the jobs so that they have it. A Decision is on disk before anything is asked for; another process reads the last one and goes on.
//
// A job is asked for more workers only when nobody holds the slots for them. So no slot is granted twice, whenever the process that
// schedules is killed: what it had asked for is seen in the slots, and asking again for the same number changes nothing.
//
// The package decides over values. It refuses to know processes, files, networks, clocks and machines.
package grants

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/sched"
)

// Job is one that is not over.
type Job struct {
	ID      string
	Arrived float64 // seconds
	Asked
	// Began: its run was started, and has or will have slots.
	Began bool
	// Held is how many slots it has or waits for.
	Held int
	// Told is how many workers its run was asked to have by this process; below 0 = none was yet.
	Told int
}

// Asked is what a job's file asks for.
type Asked struct {
	Group       string
	Weight      float64 // 0 = 1
	Priority    int
	Least, Most int             // workers
	Unit        sched.Resources // of one worker
	Fixed       bool            // it cannot be resized while it runs
}

// Decision is what all jobs have from a time on.
type Decision struct {
	T      time.Time `json:"t"`
	Policy string    `json:"policy"`
	Why    string    `json:"why,omitempty"` // of the decision as a whole
	Grants []Grant   `json:"grants"`        // by job
}

// Grant is a job's.
type Grant struct {
	Job     string        `json:"job"`
	Action  sched.Action  `json:"action"`
	Was     int           `json:"was"`     // workers before
	Workers int           `json:"workers"` // 0 = it waits, or is paused
	Why     string        `json:"why"`
	Where   []sched.Place `json:"where,omitempty"`
}

// Of is a job's grant; the zero Grant when it has none.
func (d Decision) Of(job string) Grant {
	for _, g := range d.Grants {
		if g.Job == job {
			return g
		}
	}
	return Grant{}
}

// Due reports whether there is something to decide since the last decision: jobs have come or ended, or the policy is another.
func Due(p sched.Policy, jobs []Job, last Decision) bool {
	if last.Policy != p.Name() || len(jobs) != len(last.Grants) {
		return true
	}
	return slices.ContainsFunc(jobs, func(j Job) bool { return last.Of(j.ID).Job == "" })
}

// Decide asks a policy what each job gets on these hosts, after the last decision.
func Decide(p sched.Policy, now time.Time, hosts []sched.Host, jobs []Job, last Decision) Decision {
	s, fixed := stateOf(now, hosts, jobs, last)
	plan := p.Plan(s)
	d := Decision{T: now, Policy: p.Name(), Why: plan.Why}
	for _, g := range plan.Grants {
		d.Grants = append(d.Grants, Grant{g.Job, g.Action, last.Of(g.Job).Workers, g.Workers, g.Why, g.Where})
	}
	for _, g := range fixed {
		d.Grants = append(d.Grants, Grant{g.Job, sched.Keep, g.Workers, g.Workers, "keeps what it began with: such a job cannot be resized", g.Where})
	}
	slices.SortFunc(d.Grants, func(a, b Grant) int { return cmp.Compare(a.Job, b.Job) })
	return d
}

// stateOf is what a policy looks at. Fixed jobs that run are no longer decided about: what they have is taken off the hosts.
func stateOf(now time.Time, hosts []sched.Host, jobs []Job, last Decision) (s sched.State, fixed []Grant) {
	s = sched.State{Now: float64(now.Unix()), Seed: uint64(now.UnixNano())}
	for _, h := range hosts {
		s.Hosts = append(s.Hosts, sched.Host{ID: h.ID, Capacity: slices.Clone(h.Capacity)})
	}
	for _, j := range jobs {
		g := last.Of(j.ID)
		if j.Fixed && j.Began && g.Workers > 0 {
			fixed = append(fixed, g)
			for _, at := range g.Where {
				for i := range s.Hosts {
					if s.Hosts[i].ID == at.Host {
						add(s.Hosts[i].Capacity, j.Unit, -at.Workers)
					}
				}
			}
			continue
		}
		of := sched.Job{ID: j.ID, Group: j.Group, Phase: sched.Queued, Arrived: j.Arrived, Weight: j.Weight, Priority: j.Priority, Demand: j.Unit,
			WantWorkers: j.Most, LeastWorkers: j.Least, MostWorkers: j.Most, Workers: g.Workers, Where: g.Where}
		switch {
		case g.Workers > 0:
			of.Phase = sched.Training
		case j.Began:
			of.Phase = sched.Paused
		}
		s.Jobs = append(s.Jobs, of)
	}
	return s, fixed
}

// Else is how many workers each of other policies would grant a job now, from nothing: what else could be had.
func Else(policies []sched.Policy, now time.Time, hosts []sched.Host, jobs []Job, job string) map[string]int {
	all := map[string]int{}
	for _, p := range policies {
		all[p.Name()] = Decide(p, now, hosts, jobs, Decision{}).Of(job).Workers
	}
	return all
}

// Call is what is asked of a job's run.
type Call struct {
	Job     string
	Start   bool // its run is started, with so many workers
	Workers int  // from now on; 0 = it is paused
	Why     string
}

// Calls are what to ask now, so that jobs come to have what was decided: first of those that get less. Those that get more are asked as
// slots become free, and asked again for the rest later.
func Calls(d Decision, hosts []sched.Host, jobs []Job) (calls []Call) {
	var free sched.Resources
	for _, h := range hosts {
		for len(free) < len(h.Capacity) {
			free = append(free, 0)
		}
		add(free, h.Capacity, 1)
	}
	for _, j := range jobs {
		add(free, j.Unit, -j.reserved(d.Of(j.ID)))
	}
	call := func(j Job, g Grant, workers int) {
		if workers != j.Told || !j.Began {
			calls = append(calls, Call{Job: j.ID, Start: !j.Began, Workers: workers, Why: fmt.Sprintf("scheduler %s: %s", d.Policy, g.Why)})
		}
	}
	for _, j := range jobs {
		if g := d.Of(j.ID); j.Began && g.Job != "" && g.Workers <= j.has() {
			call(j, g, g.Workers)
		}
	}
	for _, j := range jobs {
		g, has := d.Of(j.ID), j.has()
		if g.Workers <= has {
			continue
		}
		own := j.reserved(g)
		add(free, j.Unit, own)
		workers := min(g.Workers, max(units(free, j.Unit), has))
		if workers < max(j.Least, 1) { // it waits for more
			add(free, j.Unit, -own)
			continue
		}
		add(free, j.Unit, -workers)
		call(j, g, workers)
	}
	return calls
}

// has is how many slots a job is known to have, or to be asking for.
func (j Job) has() int { return max(j.Held, j.Told) }

// reserved is how many slots nobody else may have. A run that this process has not asked for anything may be doing what was decided.
func (j Job) reserved(g Grant) int {
	if j.Began && j.Told < 0 {
		return max(j.Held, g.Workers)
	}
	return max(j.has(), 0)
}

func add(to, unit sched.Resources, times int) {
	for k, v := range unit {
		if k < len(to) {
			to[k] += v * float64(times)
		}
	}
}

// units is how many units are in what is free.
func units(free, unit sched.Resources) int {
	fits := math.Inf(1)
	for k, v := range unit {
		if v > 0 && k < len(free) {
			fits = min(fits, math.Floor(free[k]/v+1e-9))
		}
	}
	return int(max(min(fits, 1e9), 0))
}
