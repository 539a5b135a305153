package aggregation

import (
	"fmt"
	"slices"
	"time"
)

// Watched is after how many iterations an assignment is judged (section 5.2.2).
const Watched = 100

// Pace is how long a job's iterations take under an assignment that is watched. The zero Pace has none yet.
type Pace struct {
	iterations int
	took       time.Duration
}

// Took records a number of iterations of a length. Once a hundred are known it returns the share of its speed that the job loses compared with one of
// iterations of length d, and starts over.
func (p *Pace) Took(n int, each, d time.Duration) (lost float64, judged bool) {
	p.iterations, p.took = p.iterations+n, p.took+time.Duration(n)*each
	if p.iterations < Watched {
		return 0, false
	}
	lost = 1 - float64(d)*float64(p.iterations)/float64(p.took)
	*p = Pace{}
	return lost, true
}

// watch begins to judge a job's assignment.
func (p *Pool) watch(j *job) { j.since, j.pace = p.changes, Pace{} }

// Measured takes in how long iterations of a job took. When a job has lost more of its speed than the limit over the last hundred, the
// job that was placed last on any of its aggregators is placed again, with one aggregator more (sections 3.3.1 and 3.3.2). Calls repeat it
// until the loss is within the limit, or the job has all of its aggregators for itself: then it is not sharing that costs the speed.
func (p *Pool) Measured(id string, iterations ...time.Duration) (c Change) {
	j := p.jobs[id]
	if j == nil {
		return c
	}
	var lost float64
	for _, took := range iterations {
		if now, judged := j.pace.Took(1, took, j.Iteration); judged {
			lost = now
		}
	}
	if lost <= p.limits.Loss {
		return c
	}
	last := p.lastBeside(j)
	if last == nil {
		return c
	}
	p.changes++
	p.spread(&c, last)
	c.Why = fmt.Sprintf("job %s lost %.0f %% of its speed over %d iterations, so job %s gets an aggregator more", id, 100*lost, Watched, last.ID)
	return c
}

// lastBeside returns the job that was placed last among those on a job's shared aggregators; nil = it shares none.
func (p *Pool) lastBeside(j *job) (last *job) {
	for _, a := range j.at {
		if len(a.loads) < 2 {
			continue
		}
		for _, l := range a.loads {
			if last == nil || l.of.since > last.since || l.of.since == last.since && l.of.ID > last.ID {
				last = l.of
			}
		}
	}
	return last
}

// spread places a job again, on the aggregators that it has and a new one, each task where the largest share of a cycle is free. Best
// fit would fill again what has just proved too full.
func (p *Pool) spread(c *Change, j *job) {
	had := append(slices.Clone(j.at), p.allocate(c))
	slices.SortFunc(had, func(a, b *aggregator) int { return a.id - b.id })
	had = slices.Compact(had)
	added := had[len(had)-1]
	before := slices.Clone(j.at)
	for task := range j.Tasks { // out of the way of each other
		p.drop(j.at[task], j, j.Tasks[task])
		j.at[task] = nil
	}
	var placed Change
	for _, task := range j.order() {
		best, most := added, -1.0
		for _, a := range had {
			if free, ok := p.fits(a, j, j.Tasks[task]); ok && float64(free)/float64(a.time(max(a.cycle, j.Iteration))) > most {
				best, most = a, float64(free)/float64(a.time(max(a.cycle, j.Iteration)))
			}
		}
		if _, ok := p.fits(best, j, j.Tasks[task]); !ok {
			best = p.allocate(c)
			had = append(had, best)
		}
		p.place(&placed, j, task, best)
	}
	for _, m := range placed.Moves {
		if m.From = before[m.Task].id; m.From != m.To {
			c.Moves = append(c.Moves, m)
		}
	}
	p.watch(j)
	p.release(c, had)
}
