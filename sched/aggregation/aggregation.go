// Package aggregation decides which parameter servers, shared by many jobs, serve which parts of their models: Parameter Service
// (AutoPS, "Elastic Model Aggregation with Parameter Service", section 3 and appendix C). A shared server is called an aggregator, as in
// the paper.
//
// The paper's pseudocode 1 is followed in its meaning rather than its print: line 4 has no unit (appendix C has the formula), line 6
// tests the loop's last job alone, and line 17 compares one execution with the free time of a cycle that may hold several.
//
// It decides over plain values, and knows neither machines, prices nor how a part is moved.
package aggregation

import (
	"cmp"
	"slices"
	"time"
)

// Task is a part of a job's model that one aggregator serves: a partition.
type Task struct {
	Exec   time.Duration // e_t, the processor time of one iteration
	Memory int64         // bytes
	Bytes  int64         // that an iteration sends and receives
}

// Tenant is one whose tasks were profiled.
type Tenant struct {
	ID        string
	Iteration time.Duration // D_j, the length of an iteration on servers of its own
	Tasks     []Task
}

// Limits of an aggregator. 0 = not limited, but for Loss.
type Limits struct {
	Loss      float64 // LossLimit, the share of its speed that a job may lose
	Memory    int64   // bytes
	Bandwidth float64 // bytes a second that the machine sustains
	Longer    int     // iterations of its slowest job that a cycle may hold after a repack, at most Longest; the paper's hold one
	Moves     int     // tasks that a repack moves at most for each aggregator that it frees
	// Late: requests beyond a job's turns run in the time of a cycle that is free (section 3.3.1), so that a job loses only what free time
	// cannot take. It is so where servers answer requests as they come.
	Late bool
}

// DefaultLoss is the paper's LossLimit.
const DefaultLoss = 0.1

// load is what an aggregator does for one job.
type load struct {
	of     *job
	tasks  int
	exec   time.Duration
	memory int64
	bytes  int64
}

func (l *load) add(t Task, n int) {
	l.tasks += n
	l.exec += t.Exec * time.Duration(n)
	l.memory += t.Memory * int64(n)
	l.bytes += t.Bytes * int64(n)
}

// aggregator executes cyclically (appendix C): in each cycle every job has as many turns as whole iterations of it fit.
//
// The cycle is the iteration of its slowest job, max D_j, or several (Limits.Longer): next to 5 s, 7.5 s lose nothing in a cycle of 15
// s. It stays longer when that job has gone and a shorter one would overload the aggregator or slow a job down: of two jobs of 6 and 12
// s, 6 loses nothing, and next to 10 s it would.
type aggregator struct {
	id       int
	cores    float64       // how much it computes at a time
	cycle    time.Duration // C_n; 0 = it has no tasks
	loads    []load
	avoided  bool   // its network is congested: it gets no more tasks
	reserved string // the job that is profiled on it and shares it with nobody
}

func (a *aggregator) clone() aggregator {
	b := *a
	b.loads = slices.Clone(a.loads)
	return b
}

// turns returns how many iterations of length d a cycle has: floor(C_n/D_j). An aggregator reserves them for a job also when another one
// slows it down, so that nothing is overloaded when that changes.
func turns(cycle, d time.Duration) int64 { return int64(cycle / d) }

// usage returns the sum of an aggregator's loads.
type usage struct {
	work   time.Duration // W_n, in a cycle
	beyond time.Duration // work of the parts of iterations that a cycle has beyond whole ones
	memory int64
	bytes  int64 // in a cycle
}

// loss returns the share of its speed that a job of iterations of length d loses in a cycle: (d_j - D_j)/d_j with d_j = C_n/floor(C_n/D_j).
func loss(cycle, d time.Duration) float64 {
	return 1 - float64(d)*float64(turns(cycle, d))/float64(cycle)
}

// loss returns that of a job on an aggregator. Late requests take of the free time in proportion. An aggregator with more work than time is slower by as much.
func (p *Pool) loss(a *aggregator, cycle, d time.Duration, u usage) float64 {
	whole := float64(turns(cycle, d))
	done := whole
	if free := a.time(cycle) - u.work; p.limits.Late && free > 0 {
		share := 1.0
		if u.beyond > free {
			share = float64(free) / float64(u.beyond)
		}
		done += share * (float64(cycle)/float64(d) - whole)
	} else if free < 0 {
		done *= float64(a.time(cycle)) / float64(u.work)
	}
	return max(1-float64(d)*done/float64(cycle), 0)
}

// time returns what an aggregator computes in a cycle.
func (a *aggregator) time(cycle time.Duration) time.Duration {
	if a.cores == 1 {
		return cycle
	}
	return time.Duration(a.cores * float64(cycle))
}

func (a *aggregator) usage(cycle time.Duration) (u usage) {
	for i := range a.loads {
		u.add(&a.loads[i], cycle)
	}
	return u
}

func (u *usage) add(l *load, cycle time.Duration) {
	n := turns(cycle, l.of.Iteration)
	u.work += l.exec * time.Duration(n)
	u.beyond += time.Duration(float64(l.exec) * (float64(cycle)/float64(l.of.Iteration) - float64(n)))
	u.memory += l.memory
	u.bytes += l.bytes * n
}

// holds reports whether loads are within the limits in a cycle, whatever jobs lose.
func (a *aggregator) holds(u usage, cycle time.Duration, limits Limits) bool {
	return u.work <= a.time(cycle) && u.moderate(cycle, limits)
}

// within reports the same of an aggregator of one core.
func (u usage) within(cycle time.Duration, limits Limits) bool {
	return u.work <= cycle && u.moderate(cycle, limits)
}

// moderate reports whether memory and bandwidth are.
func (u usage) moderate(cycle time.Duration, limits Limits) bool {
	return (limits.Memory == 0 || u.memory <= limits.Memory) &&
		(limits.Bandwidth == 0 || float64(u.bytes) <= limits.Bandwidth*cycle.Seconds())
}

// allowed reports whether the loads would be within the limits in a cycle.
func (p *Pool) allowed(a *aggregator, cycle time.Duration) bool {
	u := a.usage(cycle)
	return p.bearable(a, cycle, u) && a.holds(u, cycle, p.limits)
}

// bearable reports whether no job that an aggregator serves would lose more than the limit.
func (p *Pool) bearable(a *aggregator, cycle time.Duration, u usage) bool {
	for i := range a.loads {
		if p.loss(a, cycle, a.loads[i].of.Iteration, u) > p.limits.Loss {
			return false
		}
	}
	return true
}

// fits reports whether an aggregator can take a task, and the time of a cycle that is free then.
func (p *Pool) fits(a *aggregator, of *job, t Task) (free time.Duration, ok bool) {
	if a.avoided || a.reserved != "" && a.reserved != of.ID {
		return 0, false
	}
	cycle := max(a.cycle, of.Iteration)
	u, added := a.usage(cycle), load{of: of}
	added.add(t, 1)
	u.add(&added, cycle)
	if p.loss(a, cycle, of.Iteration, u) > p.limits.Loss {
		return 0, false
	}
	if (cycle > a.cycle || p.limits.Late) && !p.bearable(a, cycle, u) {
		return 0, false
	}
	return a.time(cycle) - u.work, a.holds(u, cycle, p.limits)
}

// take adds a task.
func (a *aggregator) take(of *job, t Task) {
	a.cycle = max(a.cycle, of.Iteration)
	i := slices.IndexFunc(a.loads, func(l load) bool { return l.of == of })
	if i < 0 {
		i = len(a.loads)
		a.loads = append(a.loads, load{of: of})
	}
	a.loads[i].add(t, 1)
}

// drop removes a task, and shortens the cycle if the rest fits.
func (p *Pool) drop(a *aggregator, of *job, t Task) {
	i := slices.IndexFunc(a.loads, func(l load) bool { return l.of == of })
	if a.loads[i].add(t, -1); a.loads[i].tasks == 0 {
		a.loads = slices.Delete(a.loads, i, i+1)
	}
	var cycle time.Duration
	for i := range a.loads {
		cycle = max(cycle, a.loads[i].of.Iteration)
	}
	if cycle == 0 || p.allowed(a, cycle) {
		a.cycle = cycle
	}
}

// busy returns the share of its time that an aggregator would compute if nobody had to wait.
func (a *aggregator) busy() (share float64) {
	for i := range a.loads {
		share += float64(a.loads[i].exec) / float64(a.loads[i].of.Iteration)
	}
	return share
}

// job is one in a pool.
type job struct {
	Tenant
	at    []*aggregator // of each task
	since int           // the change that placed it last
	pace  Pace          // since then
}

// order returns that of a job's tasks for packing: the longest first.
func (j *job) order() []int {
	order := make([]int, len(j.Tasks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(j.Tasks[b].Exec, j.Tasks[a].Exec) })
	return order
}
