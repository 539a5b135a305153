package aggregation

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Pool is a set of aggregators and the jobs that they serve. Its methods return moves to make; the pool counts them as made.
//
// Invariants, except for what Put takes in as it is:
//   - Each task is on one aggregator, and an aggregator's loads are the sums of its tasks by job.
//   - A cycle is at least as long as the longest iteration on it, so that every job has a turn.
//   - The work of all turns fits into the cycle, memory and bandwidth into their limits, and no job loses more of its speed than Limits.Loss.
//     A change that would break this is not made: a task that fits nowhere gets an aggregator of its own, and check refuses one that would not
//     fit even there.
//   - Equal calls in equal order give equal changes: aggregators are looked at in the order of their numbers, jobs in that of iteration and ID.
//
// A job's course:
//  1. Profile: a job that nobody has measured gets aggregators that it shares with nobody.
//  2. Arrive places its tasks, the longest first, each where the least time stays free (assign).
//  3. Measured judges a placement after a hundred iterations. If sharing costs more than the limit, the job placed last is spread (watch.go).
//  4. Leave removes it, and Recycle empties the least loaded aggregators as long as the others can take their tasks.
//  5. Repack, now and then, packs everything from nothing (repack.go), which closes the gaps that steps 2 and 4 leave.
//
// Shared hosts hold machines that exist whatever this package says: they state what is where by Add and Put, and ask for single moves
// (Relieve).
//
// Tried and dropped: to empty an aggregator by a search that lets a task take the place of a smaller one, which then looks for another. Of
// 10,000 small pools 84 instead of 132 kept an aggregator too many; on Philly's jobs it saved as much, for 40 times the time. Instead small
// pools are packed exactly, and large ones anew every so often. Packing anew saves 71.2 % of Philly's servers instead of 69.5 %
// (lab/papers/schedulers.md).
type Pool struct {
	limits      Limits
	tries       int           // of a search for a packing
	aggregators []*aggregator // in the order of allocation
	jobs        map[string]*job
	allocated   int // so far
	changes     int
}

// NewPool returns a pool without aggregators.
func NewPool(limits Limits) *Pool {
	return &Pool{limits: limits, tries: tries, jobs: map[string]*job{}}
}

// Change is what a decision does to the pool.
type Change struct {
	Moves     []Move
	Allocated []int // aggregators that must exist before the moves
	Recycled  []int // aggregators that are empty after the moves
	Why       string
}

// Move has a task served by another aggregator. From is 0 for a task that is new.
type Move struct {
	Job      string
	Task     int
	From, To int
}

// Add registers an existing aggregator with this number of cores, and returns its index.
func (p *Pool) Add(cores float64) int {
	var c Change
	a := p.allocate(&c)
	a.cores = cores
	return a.id
}

// Put has a job served as it is: each task by the aggregator of that number, whatever the limits say. The number must be of one that is
// there, and the job new.
func (p *Pool) Put(of Tenant, at []int) {
	j := &job{Tenant: of, at: make([]*aggregator, len(of.Tasks))}
	p.jobs[of.ID] = j
	var c Change
	for task, id := range at {
		p.place(&c, j, task, p.aggregators[slices.IndexFunc(p.aggregators, func(a *aggregator) bool { return a.id == id })])
	}
}

// LossAt returns the largest share of its speed that a job loses by the cycles of one aggregator.
func (p *Pool) LossAt(id int) (most float64) {
	for _, a := range p.aggregators {
		if a.id != id {
			continue
		}
		u := a.usage(a.cycle)
		for i := range a.loads {
			most = max(most, p.loss(a, a.cycle, a.loads[i].of.Iteration, u))
		}
	}
	return most
}

// Load returns how many of its cores an aggregator computes with if nobody has to wait.
func (p *Pool) Load(id int) float64 {
	for _, a := range p.aggregators {
		if a.id == id {
			return a.busy()
		}
	}
	return 0
}

// Size returns how many aggregators there are.
func (p *Pool) Size() int { return len(p.aggregators) }

// Busy returns the processor time that the jobs need, in aggregators: no packing can do with less.
func (p *Pool) Busy() (sum float64) {
	for _, a := range p.aggregators {
		sum += a.busy()
	}
	return sum
}

// Loss returns the share of its speed that a job loses by the cycles of its aggregators: the slowest one sets the pace.
func (p *Pool) Loss(id string) (most float64) {
	for _, a := range p.jobs[id].at {
		most = max(most, p.loss(a, a.cycle, p.jobs[id].Iteration, a.usage(a.cycle)))
	}
	return most
}

// Profile gives a job that nobody has measured yet aggregators of its own, one per server, as its iteration alone cannot be measured
// on those that are shared (section 3.3.1). Arrive or Leave ends it.
func (p *Pool) Profile(id string, servers int) (c Change) {
	for range servers {
		p.allocate(&c).reserved = id
	}
	c.Why = fmt.Sprintf("job %s is measured on %d aggregators of its own", id, servers)
	return c
}

// Arrive places the tasks of a job.
func (p *Pool) Arrive(of Tenant) (c Change, err error) {
	if err := p.check(of); err != nil {
		return Change{}, err
	}
	p.changes++
	j := &job{Tenant: of, at: make([]*aggregator, len(of.Tasks)), since: p.changes}
	p.jobs[of.ID] = j
	measured := p.share(of.ID)
	for _, i := range j.order() {
		p.assign(&c, j, i, p.aggregators)
	}
	p.release(&c, measured)
	c.Why = fmt.Sprintf("job %s arrived", of.ID)
	return c, nil
}

func (p *Pool) check(of Tenant) error {
	if p.jobs[of.ID] != nil {
		return fmt.Errorf("aggregation: job %s is there already", of.ID)
	}
	if of.Iteration <= 0 {
		return fmt.Errorf("aggregation: job %s has iterations of %s, which must be above 0", of.ID, of.Iteration)
	}
	for i, t := range of.Tasks {
		a, j := &aggregator{cores: 1}, &job{Tenant: of}
		if _, ok := p.fits(a, j, t); t.Exec < 0 || !ok {
			return fmt.Errorf("aggregation: task %d of job %s does not fit an aggregator of its own: %s of %s, %d bytes of memory, %d bytes an iteration",
				i, of.ID, t.Exec, of.Iteration, t.Memory, t.Bytes)
		}
	}
	return nil
}

// assign is pseudocode 1: among the aggregators where no job would lose more than the limit, the one on which the least time is left
// free; a new one if there is none.
func (p *Pool) assign(c *Change, j *job, task int, among []*aggregator) {
	a := p.bestFit(j, task, among)
	if a == nil {
		a = p.allocate(c)
	}
	p.place(c, j, task, a)
}

func (p *Pool) bestFit(j *job, task int, among []*aggregator) (best *aggregator) {
	var least time.Duration
	for _, a := range among {
		if free, ok := p.fits(a, j, j.Tasks[task]); ok && (best == nil || free < least) {
			best, least = a, free
		}
	}
	return best
}

func (p *Pool) allocate(c *Change) *aggregator {
	p.allocated++
	a := &aggregator{id: p.allocated, cores: 1}
	p.aggregators = append(p.aggregators, a)
	c.Allocated = append(c.Allocated, a.id)
	return a
}

func (p *Pool) place(c *Change, j *job, task int, to *aggregator) {
	from := j.at[task]
	move := Move{Job: j.ID, Task: task, To: to.id}
	if from == to {
		return
	}
	if from != nil {
		p.drop(from, j, j.Tasks[task])
		move.From = from.id
	}
	to.take(j, j.Tasks[task])
	j.at[task] = to
	c.Moves = append(c.Moves, move)
}

// share gives what a job was measured on to everybody.
func (p *Pool) share(id string) (measured []*aggregator) {
	for _, a := range p.aggregators {
		if a.reserved == id {
			a.reserved = ""
			measured = append(measured, a)
		}
	}
	return measured
}

// release gives back those aggregators that nobody uses.
func (p *Pool) release(c *Change, among []*aggregator) {
	among = slices.Clone(among)
	p.aggregators = slices.DeleteFunc(p.aggregators, func(a *aggregator) bool {
		if len(a.loads) > 0 || a.reserved != "" || !slices.Contains(among, a) {
			return false
		}
		c.Recycled = append(c.Recycled, a.id)
		return true
	})
}

// Leave removes a job. What it leaves empty is given back by the next Recycle.
func (p *Pool) Leave(id string) {
	p.share(id)
	j := p.jobs[id]
	if j == nil {
		return
	}
	delete(p.jobs, id)
	for task, a := range j.at {
		p.drop(a, j, j.Tasks[task])
	}
}

// Recycle gives empty aggregators back, and then, from the least loaded, those whose tasks the others can take (section 3.3.2). It is
// called when a job has left, or periodically (section 3.3.3), which disturbs jobs less often. A pool of few tasks is also packed anew.
func (p *Pool) Recycle() (c Change) {
	p.release(&c, p.aggregators)
	for {
		shared := slices.DeleteFunc(slices.Clone(p.aggregators), func(a *aggregator) bool { return a.reserved != "" })
		if len(shared) == 0 {
			break
		}
		least := slices.MinFunc(shared, func(a, b *aggregator) int { return cmp.Compare(a.busy(), b.busy()) })
		if !p.empty(&c, least) {
			break
		}
		p.release(&c, p.aggregators)
	}
	tasks := 0
	for _, j := range p.jobs {
		tasks += len(j.Tasks)
	}
	if tasks <= few {
		p.repack(&c)
	}
	c.Why = "fewer aggregators can serve the same tasks"
	return c
}

// empty moves all tasks of an aggregator to others, or none, each to the best fit.
func (p *Pool) empty(c *Change, of *aggregator) bool {
	others := slices.DeleteFunc(slices.Clone(p.aggregators), func(a *aggregator) bool { return a == of })
	type placed struct {
		j    *job
		task int
	}
	var tasks []placed
	for _, l := range of.loads {
		for _, task := range l.of.order() {
			if l.of.at[task] == of {
				tasks = append(tasks, placed{l.of, task})
			}
		}
	}
	var tried Change
	before := map[*aggregator]aggregator{of: of.clone()}
	for _, t := range tasks {
		to := p.bestFit(t.j, t.task, others)
		if to == nil {
			for a, was := range before {
				*a = was
			}
			for _, t := range tasks {
				t.j.at[t.task] = of
			}
			return false
		}
		if _, saved := before[to]; !saved {
			before[to] = to.clone()
		}
		p.place(&tried, t.j, t.task, to)
	}
	p.changes++
	for _, t := range tasks {
		p.watch(t.j)
	}
	c.Moves = append(c.Moves, tried.Moves...)
	return true
}

// Congested moves everything away from an aggregator whose network is congested, and nothing to it again (appendix D).
func (p *Pool) Congested(id int) (c Change) {
	i := slices.IndexFunc(p.aggregators, func(a *aggregator) bool { return a.id == id })
	if i < 0 {
		return c
	}
	of := p.aggregators[i]
	of.avoided = true
	p.changes++
	for _, l := range slices.Clone(of.loads) {
		for _, task := range l.of.order() {
			if l.of.at[task] == of {
				p.assign(&c, l.of, task, p.aggregators)
			}
		}
		p.watch(l.of)
	}
	p.release(&c, p.aggregators)
	c.Why = fmt.Sprintf("the network of aggregator %d is congested", id)
	return c
}

// Relieve moves tasks of a job away from an aggregator, the longest first, until no job there loses more than the limit. Each goes to the best
// fit among some others, which are those that the job has anyway; what fits none stays. The caller makes the moves and watches them.
func (p *Pool) Relieve(id int, of string, among []int) (c Change) {
	others := slices.DeleteFunc(slices.Clone(p.aggregators), func(a *aggregator) bool { return a.id == id || !slices.Contains(among, a.id) })
	j := p.jobs[of]
	if j == nil {
		return c
	}
	for _, task := range j.order() {
		if p.LossAt(id) <= p.limits.Loss {
			break
		}
		if j.at[task].id != id {
			continue
		}
		if to := p.bestFit(j, task, others); to != nil {
			p.place(&c, j, task, to)
		}
	}
	return c
}
