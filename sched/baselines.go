package sched

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// FIFO is first come, first served: jobs start as submitted and are not resized. It is EPS's "default PS".
type FIFO struct {
	// Backfill lets jobs behind one that does not fit start where they fit.
	Backfill bool
}

// Name returns "fifo".
func (FIFO) Name() string { return "fifo" }

// Plan starts waiting jobs in order; the first that does not fit holds up those behind it.
func (f FIFO) Plan(s State) Plan {
	d := begin(s)
	for _, c := range d.queued() {
		if d.startAsSubmitted(c) {
			continue
		}
		why := fmt.Sprintf("waits: it requested %s, and %d units are free", numbers(c.WantWorkers, c.WantServers), d.slots(c.Demand))
		if c.why = why; f.Backfill {
			continue
		}
		d.hold(c, why)
		break
	}
	return d.plan(s)
}

// hold records why a job waits, and that those behind it wait, too.
func (d *drafts) hold(c *draft, why string) {
	c.why = why
	for _, behind := range d.queued() {
		if behind.why == "" {
			behind.why = "waits behind " + c.ID
		}
	}
}

// Priority is Litz's scheduler in EPS's comparison (section 6): a submitted job takes random numbers of workers from random jobs that have
// given feedback and have no higher priority. Servers stay. If a number was too small more are drawn; if it was too large units stay idle.
type Priority struct {
	Most int // as in H
}

// Name returns "priority".
func (Priority) Name() string { return "priority" }

// Plan admits waiting jobs.
func (p Priority) Plan(s State) Plan {
	d := begin(s)
	d.keepBest(p.Most, s.Past, Training)
	for _, c := range d.queued() {
		if d.startAsSubmitted(c) {
			continue
		}
		if !d.takeAtRandom(c, s.Seed) {
			d.hold(c, "waits: jobs of no higher priority that have given feedback have too few workers to spare")
			break
		}
	}
	return d.plan(s)
}

func (d *drafts) takeAtRandom(c *draft, seed uint64) bool {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(c.ID))
	r := rand.New(rand.NewPCG(seed, hash.Sum64()))
	before := d.snapshot()
	for {
		var can []*draft
		for _, j := range d.inPhase(Training) {
			if j.Workers > j.leastWorkers() && j.Priority <= c.Priority {
				can = append(can, j)
			}
		}
		if len(can) == 0 {
			d.restore(before)
			return false
		}
		j := can[r.IntN(len(can))]
		count := 1 + r.IntN(j.Workers-j.leastWorkers())
		d.resize(j, j.Workers-count, j.Servers)
		j.why = fmt.Sprintf("gives workers, %d in the last draw, to %s, which came later", count, c.ID)
		if d.startAsSubmitted(c) {
			return true
		}
	}
}

// KillWorst is Optimus's scheduler in EPS's comparison (section 6): when a submitted job does not fit, the job in training with the worst
// feedback is checkpointed and killed, its units and the free ones are divided between it and the new one, and both run. The paper does not
// say how: the new one gets the larger half, and at least a third of what it requested, as others wait for its feedback. Units that become
// free later go to running jobs. All changes are by restarts.
type KillWorst struct {
	Most int // as in H
}

// Name returns "kill".
func (KillWorst) Name() string { return "kill" }

// Plan is H's with one victim instead of many.
func (k KillWorst) Plan(s State) Plan {
	d := begin(s)
	d.keepBest(k.Most, s.Past, Training)
	waiting := false
	halved := map[string]bool{}
	for _, c := range d.queued() {
		if d.startAsSubmitted(c) {
			continue
		}
		if waiting = !d.halve(c, halved); waiting {
			d.hold(c, "waits: no job that has given feedback has enough for two")
			break
		}
	}
	if !waiting {
		d.running(d.inPhase(Training))
	}
	return d.plan(s)
}

// halve divides the free slots and the worst training job's between that job and a new one.
func (d *drafts) halve(c *draft, halved map[string]bool) bool {
	training := d.inPhase(Training)
	slices.SortStableFunc(training, worse)
	for _, v := range training {
		all := v.Workers + v.Servers + d.slots(c.Demand) - c.Overhead
		want := c.WantWorkers + c.WantServers
		give := min(want, max((all+1)/2, want/3))
		workers, servers := split(give, c.WantWorkers, c.WantServers)
		keepWorkers, keepServers := split(all-give, v.Workers, v.Servers)
		if v.MostWorkers > 0 {
			keepWorkers = min(keepWorkers, v.MostWorkers)
		}
		small := 2*(v.Workers+v.Servers) < c.WantWorkers+c.WantServers // both would crawl
		if halved[v.ID] || small || workers < c.leastWorkers() || servers < c.leastServers() || keepWorkers < v.leastWorkers() || keepServers < v.leastServers() {
			continue
		}
		before := d.snapshot()
		if d.resize(v, keepWorkers, keepServers) && d.resize(c, workers, servers) {
			halved[v.ID] = true
			v.why = fmt.Sprintf("restarts from a checkpoint with %s: its feedback is the worst, and %s gets the rest", numbers(keepWorkers, keepServers), c.ID)
			c.Phase, c.why = Feedback, fmt.Sprintf("starts with %s of what %s had", numbers(workers, servers), v.ID)
			return true
		}
		d.restore(before)
	}
	return false
}

// split divides units in the ratio of workers to servers, at least one of each if there are any.
func split(units, workers, servers int) (int, int) {
	if servers == 0 {
		return units, 0
	}
	s := min(max((units*servers+(workers+servers)/2)/(workers+servers), 1), max(units-1, 0))
	return units - s, s
}

// Marginal is Optimus's (EuroSys 2018, section 4.1): every job gets a worker and a server, and each further unit goes where it shortens the
// remaining time the most, as a worker or as a server, as long as it shortens any.
type Marginal struct{}

// Name returns "marginal".
func (Marginal) Name() string { return "marginal" }

// Plan starts from nothing; jobs with an unknown pace come first, with what they requested.
func (Marginal) Plan(s State) Plan {
	d := begin(s)
	order := slices.Clone(d.jobs)
	slices.SortStableFunc(order, comparePriority)
	targets := newTargets(d)
	targets.marginal(order, nil)
	targets.apply()
	return d.plan(s)
}

// marginal gives jobs their least and then shares the rest among these and jobs that already have units.
func (t *targets) marginal(order, have []*draft) {
	fits := map[string]Fit{}
	var known, unknown []*draft
	for _, c := range have {
		fits[c.ID], _ = c.Pace.Fit()
		if n := t.of(c); n.workers > 0 {
			known = append(known, c)
		}
	}
	for _, c := range order {
		if fit, ok := c.Pace.Fit(); !ok {
			t.unknown(c)
			unknown = append(unknown, c)
		} else if t.set(c, c.leastWorkers(), c.leastServers()) {
			c.why = "has the least that it can run with: more would not be faster, or others gain more"
			fits[c.ID] = fit
			known = append(known, c)
		} else {
			c.why = "waits: nothing is left"
		}
	}
	for {
		var best *draft
		most, workers, servers := 0., 0, 0
		for _, c := range known {
			n := t.of(c)
			now := fits[c.ID].Seconds(n.workers, n.servers)
			for _, add := range [2][2]int{{1, 0}, {0, 1}} {
				w, sv := n.workers+add[0], n.servers+add[1]
				if c.WantServers == 0 && add[1] > 0 || c.MostWorkers > 0 && w > c.MostWorkers || !t.fits(c, 1) {
					continue
				}
				// seconds saved until the end, per share of the hosts that the unit takes
				if gain := (c.Total - c.Done) * (now - fits[c.ID].Seconds(w, sv)) / t.share(c); gain > most {
					best, most, workers, servers = c, gain, w, sv
				}
			}
		}
		if best == nil || !t.set(best, workers, servers) {
			break
		}
		best.why = fmt.Sprintf("has %s: the last unit shortens its time by %.3g s, more than elsewhere", numbers(workers, servers), most*t.share(best))
	}
	for more := true; more; { // no other job can use them
		more = false
		for _, c := range unknown {
			if n := t.of(c); n.workers > 0 && n.workers < c.WantWorkers && t.set(c, n.workers+1, n.servers) {
				more = true
				c.why = fmt.Sprintf("has %s, what is left, until its pace is known", numbers(n.workers+1, n.servers))
			}
		}
	}
}

// unknown gives a job of unknown pace its requested number, or its least.
func (t *targets) unknown(c *draft) {
	switch {
	case t.set(c, c.WantWorkers, c.WantServers):
		c.why = "has " + numbers(c.WantWorkers, c.WantServers) + ", as submitted, until its pace is known"
	case t.set(c, c.leastWorkers(), c.leastServers()):
		c.why = "has the least that it can run with, as its pace is not known and not more is left"
	default:
		c.why = "waits: nothing is left"
	}
}
