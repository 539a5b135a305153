package sched

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// totalOf returns the capacity of all hosts, at least as long as a job's demand even without hosts.
func totalOf(hosts []Host, jobs []Job) Resources {
	var total Resources
	grow := func(n int) {
		for len(total) < n {
			total = append(total, 0)
		}
	}
	for _, j := range jobs {
		grow(len(j.Demand))
	}
	for _, h := range hosts {
		grow(len(h.Capacity))
		for k, v := range h.Capacity {
			total[k] += v
		}
	}
	return total
}

// drafts are a state's jobs while a plan is made.
type drafts struct {
	hosts []Host
	total Resources
	free  []Resources // by host
	jobs  []*draft    // by ID
	sold  int         // maximum number of slots; 0 = only the hosts
}

// draft is what a job has in the plan so far, with the reason.
type draft struct {
	Job
	host  []place // parallel to the hosts
	place float64 // in its sweep by early feedback, from 0, the worst, to below 1
	// compared is the number of jobs in its sweep that place refers to; 0 = it has given no feedback.
	compared int
	killed   bool
	why      string
}

type place struct{ workers, servers, overhead int }

func (p place) units() int { return p.workers + p.servers + p.overhead }

// begin returns drafts of the present state.
func begin(s State) *drafts {
	d := &drafts{hosts: s.Hosts, total: totalOf(s.Hosts, s.Jobs), sold: s.Market.most()}
	for _, h := range s.Hosts {
		d.free = append(d.free, slices.Clone(h.Capacity))
	}
	index := map[string]int{}
	for i, h := range s.Hosts {
		index[h.ID] = i
	}
	for _, j := range s.Jobs {
		c := &draft{Job: j, host: make([]place, len(s.Hosts))}
		for _, p := range j.Where {
			i, known := index[p.Host]
			if !known {
				continue // the host is gone, with everything on it
			}
			c.host[i] = place{p.Workers, p.Servers, p.Overhead}
			d.take(i, j.Demand, c.host[i].units())
		}
		c.Workers, c.Servers = c.count()
		d.jobs = append(d.jobs, c)
	}
	slices.SortFunc(d.jobs, func(a, b *draft) int { return cmp.Compare(a.ID, b.ID) })
	for _, trials := range d.sweeps(Training, Paused) {
		for i, c := range trials {
			c.place, c.compared = float64(i)/float64(len(trials)), len(trials)
		}
	}
	return d
}

func (c *draft) count() (workers, servers int) {
	for _, p := range c.host {
		workers, servers = workers+p.workers, servers+p.servers
	}
	return workers, servers
}

func (d *drafts) take(host int, demand Resources, units int) {
	for k, v := range demand {
		d.free[host][k] -= v * float64(units)
	}
}

// rounding is the tolerance of sums of amounts.
const rounding = 1e-9

// room returns how many units of a demand fit on a host.
func (d *drafts) room(host int, demand Resources) int {
	fits := math.Inf(1)
	for k, v := range demand {
		if v > 0 {
			fits = min(fits, math.Floor((d.free[host][k]+rounding)/v))
		}
	}
	return max(int(min(fits, 1e9)), 0)
}

// slots returns how many units of a demand fit on all hosts.
func (d *drafts) slots(demand Resources) int {
	sum := 0
	for i := range d.hosts {
		sum += d.room(i, demand)
	}
	return sum
}

// tightest returns the host with the least sufficient room for a demand, preferring the job's present hosts; -1 = none.
func (d *drafts) tightest(c *draft) int {
	best, room, here := -1, 0, false
	for i := range d.hosts {
		r := d.room(i, c.Demand)
		if r == 0 {
			continue
		}
		on := c.host[i].units() > 0
		if best < 0 || on && !here || on == here && r < room {
			best, room, here = i, r, on
		}
	}
	return best
}

// resize gives a job these numbers of workers and servers, or changes nothing and returns false if there is no room. Units that it keeps
// stay where they are.
func (d *drafts) resize(c *draft, workers, servers int) bool {
	overhead := 0
	if workers+servers > 0 {
		overhead = c.Overhead
	}
	has := 0
	for _, p := range c.host {
		has += p.units()
	}
	if workers+servers+overhead-has > d.slots(c.Demand) {
		return false
	}
	held := 0
	for _, p := range c.host {
		held += p.overhead
	}
	w, s := c.count()
	for ; w > workers; w-- {
		d.drop(c, func(p *place) *int { return &p.workers })
	}
	for ; s > servers; s-- {
		d.drop(c, func(p *place) *int { return &p.servers })
	}
	for ; held > overhead; held-- {
		d.drop(c, func(p *place) *int { return &p.overhead })
	}
	for ; held < overhead; held++ {
		d.add(c, func(p *place) *int { return &p.overhead })
	}
	for ; w < workers; w++ {
		d.add(c, func(p *place) *int { return &p.workers })
	}
	for ; s < servers; s++ {
		d.add(c, func(p *place) *int { return &p.servers })
	}
	c.Workers, c.Servers = workers, servers
	return true
}

// drop removes a unit from the host where the job has the fewest, so that it ends up on few hosts.
func (d *drafts) drop(c *draft, part func(*place) *int) {
	best := -1
	for i := range c.host {
		if *part(&c.host[i]) > 0 && (best < 0 || c.host[i].units() < c.host[best].units()) {
			best = i
		}
	}
	*part(&c.host[best])--
	d.take(best, c.Demand, -1)
}

func (d *drafts) add(c *draft, part func(*place) *int) {
	i := d.tightest(c)
	*part(&c.host[i])++
	d.take(i, c.Demand, 1)
}

// release takes all units from a job.
func (d *drafts) release(c *draft) { d.resize(c, 0, 0) }

// plan turns the drafts into a plan: an action for each job from what it had and has.
func (d *drafts) plan(s State) Plan {
	had := map[string]Job{}
	for _, j := range s.Jobs {
		had[j.ID] = j
	}
	var p Plan
	for _, c := range d.jobs {
		before := had[c.ID]
		g := Grant{Job: c.ID, Workers: c.Workers, Servers: c.Servers, Where: d.where(c), Until: c.Until, Why: c.why}
		g.Action = c.action(before, g.Where)
		if g.Why == "" {
			g.Why = "as it is"
		}
		p.Grants = append(p.Grants, g)
	}
	return p
}

func (c *draft) action(before Job, where []Place) Action {
	had, has := before.Workers+before.Servers, c.Workers+c.Servers
	switch {
	case c.killed:
		return Kill
	case has == 0 && before.Phase == Queued:
		return Wait
	case has == 0:
		return Pause
	case before.Phase == Queued:
		return Start
	case before.Phase == Paused:
		return Resume
	case has > had:
		return Grow
	case has < had:
		return Shrink
	case !samePlaces(before.Where, where):
		return Move
	}
	return Keep
}

func samePlaces(a, b []Place) bool {
	order := func(x []Place) []Place {
		x = slices.DeleteFunc(slices.Clone(x), func(p Place) bool { return p.Workers+p.Servers+p.Overhead == 0 })
		slices.SortFunc(x, func(p, q Place) int { return cmp.Compare(p.Host, q.Host) })
		return x
	}
	return slices.Equal(order(a), order(b))
}

func (d *drafts) where(c *draft) []Place {
	var where []Place
	for i, p := range c.host {
		if p.units() > 0 {
			where = append(where, Place{d.hosts[i].ID, p.workers, p.servers, p.overhead})
		}
	}
	return where
}

// queued returns the waiting jobs, in the order in which they are served: by priority, then by arrival.
func (d *drafts) queued() []*draft {
	var q []*draft
	for _, c := range d.jobs {
		if c.Phase == Queued && !c.killed {
			q = append(q, c)
		}
	}
	slices.SortStableFunc(q, func(a, b *draft) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.ID, b.ID))
	})
	return q
}

func (d *drafts) inPhase(phases ...Phase) []*draft {
	var found []*draft
	for _, c := range d.jobs {
		if !c.killed && slices.Contains(phases, c.Phase) {
			found = append(found, c)
		}
	}
	return found
}

// sweeps returns the jobs in these phases by sweep, in the order of names, the worst of each first.
func (d *drafts) sweeps(phases ...Phase) (sweeps [][]*draft) {
	bySweep := map[string][]*draft{}
	for _, c := range d.inPhase(phases...) {
		bySweep[c.Sweep] = append(bySweep[c.Sweep], c)
	}
	for _, name := range slices.Sorted(maps.Keys(bySweep)) {
		slices.SortStableFunc(bySweep[name], worseLoss)
		sweeps = append(sweeps, bySweep[name])
	}
	return sweeps
}

func numbers(workers, servers int) string {
	return fmt.Sprintf("%d workers and %d servers", workers, servers)
}

// startAsSubmitted starts a job with its requested number; false = it does not fit.
func (d *drafts) startAsSubmitted(c *draft) bool {
	if !d.resize(c, c.WantWorkers, c.WantServers) {
		return false
	}
	c.Phase, c.why = Feedback, "starts with "+numbers(c.WantWorkers, c.WantServers)+", as submitted"
	return true
}

// keepBest kills the worst jobs in training while there are more than most in a sweep: EPS, section 6 ("when the number of running jobs is
// larger than the threshold, the one with the worst early feedback is killed"); 0 = as many as fit as submitted. If a sweep says how many
// continue, the others are killed.
func (d *drafts) keepBest(most int, past []Job, phases ...Phase) {
	if most == 0 {
		most = d.threshold()
	}
	for _, training := range d.sweeps(phases...) {
		if len(training[0].Keeps) > 0 {
			d.keepAtRungs(training[0].Sweep, training[0].Keeps, past)
			continue
		}
		for i, c := range training[:max(len(training)-most, 0)] {
			d.kill(c, fmt.Sprintf("killed: its early feedback, %.4g, is number %d of the %d that are there, and the best %d go on", c.Loss, len(training)-i, len(training), most))
		}
	}
}

// keepAtRungs kills the trials of a sweep that are not among the best of a rung, whatever those still to come report. Finished trials
// count, so it makes no difference when one ends; a trial that is out at a rung does not count at later ones.
func (d *drafts) keepAtRungs(sweep string, keeps []int, past []Job) {
	trials := d.trialsOf(sweep, past)
	for rung, keep := range keeps {
		out := trials.at(rung)
		out = out[:max(len(out)-keep, 0)]
		for i, j := range out {
			if c := d.draftOf(j.ID); c != nil && !c.killed {
				d.kill(c, fmt.Sprintf("killed: its loss, %.4g, is number %d of the %d that have come to feedback %d, and the best %d go on", j.Rungs[rung], len(out)+keep-i, len(out)+keep, rung+1, keep))
			}
		}
		trials = slices.DeleteFunc(trials, func(j *Job) bool { return slices.Contains(out, j) })
	}
}

func (d *drafts) kill(c *draft, why string) {
	d.release(c)
	c.killed, c.why = true, why
}

// trialList are trials of one sweep, including finished ones.
type trialList []*Job

func (d *drafts) trialsOf(sweep string, past []Job) (all trialList) {
	for i := range past {
		if past[i].Sweep == sweep {
			all = append(all, &past[i])
		}
	}
	for _, c := range d.jobs {
		if c.Sweep == sweep {
			all = append(all, &c.Job)
		}
	}
	return all
}

// at returns the trials that have reached a rung, the worst there first.
func (t trialList) at(rung int) (there trialList) {
	for _, j := range t {
		if len(j.Rungs) > rung {
			there = append(there, j)
		}
	}
	slices.SortFunc(there, func(a, b *Job) int { return worseOf(a, b, a.Rungs[rung], b.Rungs[rung]) })
	return there
}

func (d *drafts) draftOf(job string) *draft {
	i, found := slices.BinarySearchFunc(d.jobs, job, func(c *draft, id string) int { return cmp.Compare(c.ID, id) })
	if !found {
		return nil // it has ended
	}
	return d.jobs[i]
}

// threshold returns how many jobs like the first one fit as submitted, on all machines that there may be: 11 = floor(144/13) in EPS.
func (d *drafts) threshold() int {
	if len(d.jobs) == 0 {
		return 0
	}
	c := d.jobs[0]
	slots := 0
	for _, h := range d.hosts {
		fits := math.Inf(1)
		for k, v := range c.Demand {
			if v > 0 {
				fits = min(fits, math.Floor((h.Capacity[k]+rounding)/v))
			}
		}
		slots += int(min(fits, 1e9))
	}
	if len(c.Demand) > 0 && c.Demand[0] > 0 {
		slots = max(slots, int(float64(d.sold)/c.Demand[0]))
	}
	return max(slots/max(c.WantWorkers+c.WantServers+c.Overhead, 1), 1)
}
