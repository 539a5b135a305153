package sched

import (
	"cmp"
	"fmt"
	"slices"
)

// H is EPS's H-scheduler (section 4, algorithm 1).
type H struct {
	// Most bounds the number of jobs in training; the worst beyond it are killed. 0 = as many as fit as submitted.
	Most int
}

// Name returns "h".
func (H) Name() string { return "h" }

// Plan kills the worst jobs beyond the threshold, takes back units that slowed a job down, admits waiting jobs, and gives free units to
// jobs in training.
//
// Invariant: a job without early feedback keeps the units it was submitted with, and no job falls below its least. A waiting job gets
// everything it was submitted with, or nothing is taken for it.
//
// Freed units go to waiting jobs first, so killing and taking back precede them. A job that cannot start holds back those behind it, and
// also the running mode, which would give away the units that it waits for.
//
// The printed algorithm does not terminate if one of its lists runs empty, and strips every job if it needs units of only one kind;
// incoming documents the changes.
func (h H) Plan(s State) Plan {
	d := begin(s)
	d.keepBest(h.Most, s.Past, Training)
	for _, c := range d.inPhase(Training) {
		d.slower(c)
	}
	waiting := false
	for _, c := range d.queued() {
		if waiting = !d.incoming(c); waiting {
			break // first come, first served
		}
	}
	if !waiting {
		d.running(d.inPhase(Training))
	}
	return d.plan(s)
}

// incoming implements lines 1 to 27: a submitted job starts with the units it was submitted with; missing ones are
// taken from jobs that have given feedback. It returns false if the job waits, and takes nothing then.
func (d *drafts) incoming(c *draft) bool {
	// Lines 2 to 4: available units are divided by the submitted job's ratio of workers to servers. Units are interchangeable: one part's
	// surplus goes to the other.
	available := d.slots(c.Demand) - c.Overhead
	workers := max(available, 0) * c.WantWorkers / max(c.WantWorkers+c.WantServers, 1)
	workers = max(min(workers, c.WantWorkers), min(available-c.WantServers, c.WantWorkers))
	servers := min(available-workers, c.WantServers)
	if workers >= c.WantWorkers && servers >= c.WantServers { // lines 5 and 6
		return d.startAsSubmitted(c)
	}
	// Line 7. One of the two may be 0; the printed loop raises count before comparing and would then strip every job.
	removeWorkers, removeServers := c.WantWorkers-workers, c.WantServers-servers
	// Lines 8 to 16: jobs without early feedback keep what they have.
	training := d.inPhase(Training)
	spare := func(least func(*draft) (int, int)) (sum int) {
		for _, j := range training {
			has, keeps := least(j)
			sum += max(has-keeps, 0)
		}
		return sum
	}
	ofWorkers := func(j *draft) (int, int) { return j.Workers, j.leastWorkers() }
	ofServers := func(j *draft) (int, int) { return j.Servers, j.leastServers() }
	spareWorkers, spareServers := spare(ofWorkers), spare(ofServers)
	if missing := removeWorkers + removeServers; missing > spareWorkers+spareServers {
		c.why = fmt.Sprintf("waits: %d units are missing, and jobs that have given feedback can spare %d", missing, spareWorkers+spareServers)
		return false
	}
	// If one of the lists runs empty, the printed loop never terminates. The other list supplies the rest, since units are interchangeable.
	removeServers += max(removeWorkers-spareWorkers, 0)
	removeWorkers = min(removeWorkers, spareWorkers)
	removeWorkers += max(removeServers-spareServers, 0)
	removeServers = min(removeServers, spareServers)
	fromWorkers := roundRobin(training, removeWorkers, ofWorkers)
	fromServers := roundRobin(training, removeServers, ofServers)
	before := d.snapshot()
	for i, j := range training {
		if fromWorkers[i]+fromServers[i] > 0 {
			d.resize(j, j.Workers-fromWorkers[i], j.Servers-fromServers[i])
			j.why = fmt.Sprintf("gives %s to %s, which has not given feedback yet", numbers(fromWorkers[i], fromServers[i]), c.ID)
		}
	}
	if !d.startAsSubmitted(c) { // units differ in size: the slots taken are not where they are needed
		d.restore(before)
		c.why = "waits: what other jobs can spare is not on hosts with room for it"
		return false
	}
	return true
}

// roundRobin implements lines 17 to 26: it returns how many units each job gives, one at a time, starting with the
// largest and repeating; no job falls below its least. Together they can spare count.
func roundRobin(jobs []*draft, count int, of func(*draft) (has, least int)) []int {
	gives := make([]int, len(jobs))
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, _ := of(jobs[a])
		y, _ := of(jobs[b])
		return cmp.Compare(y, x)
	})
	for count > 0 {
		for _, i := range order {
			if has, least := of(jobs[i]); count > 0 && has-gives[i] > least {
				gives[i], count = gives[i]+1, count-1
			}
		}
	}
	return gives
}

// running implements lines 29 to 40: free units are divided by the cluster's ratio of workers to servers, and each job
// in training, starting with the fewest workers, gets one more worker and server. Jobs that were measured to be slower
// with more units are skipped (4.2).
func (d *drafts) running(jobs []*draft) {
	if len(jobs) == 0 {
		return
	}
	workers, servers := 0, 0
	for _, c := range d.inPhase(Feedback, Training) {
		workers, servers = workers+c.Workers, servers+c.Servers
	}
	free := d.slots(jobs[0].Demand)
	addWorkers := 0
	if workers+servers > 0 {
		addWorkers = (free*workers + (workers+servers)/2) / (workers + servers)
	}
	addServers := free - addWorkers
	slices.SortStableFunc(jobs, func(a, b *draft) int { return cmp.Compare(a.Workers, b.Workers) })
	type more struct{ workers, servers int }
	gets := make([]more, len(jobs))
	for i, c := range jobs {
		if addWorkers > 0 && (c.MostWorkers == 0 || c.Workers < c.MostWorkers) {
			gets[i].workers, addWorkers = 1, addWorkers-1
		}
	}
	slices.SortStableFunc(jobs, func(a, b *draft) int { return cmp.Compare(a.Workers, b.Workers) })
	for i, c := range jobs {
		if addServers > 0 && c.WantServers > 0 {
			gets[i].servers, addServers = 1, addServers-1
		}
	}
	for i, c := range jobs {
		w, s := c.Workers+gets[i].workers, c.Servers+gets[i].servers
		if w+s == c.Workers+c.Servers {
			continue
		}
		if now, known := c.Pace.at(c.Workers, c.Servers); known {
			if then, tried := c.Pace.at(w, s); tried && then < now {
				if c.why == "" {
					c.why = fmt.Sprintf("keeps what it has: with %s it was slower", numbers(w, s))
				}
				continue
			}
		}
		if d.resize(c, w, s) {
			c.why = fmt.Sprintf("gets %s that are free while no job waits", numbers(gets[i].workers, gets[i].servers))
		}
	}
}

// slower takes back added units if the job was faster before (4.2: "if the speed drops due to the additional communication overhead, it
// removes the added worker and server").
func (d *drafts) slower(c *draft) {
	now, known := c.Pace.at(c.Workers, c.Servers)
	if !known {
		return
	}
	for _, less := range [3][2]int{{1, 1}, {1, 0}, {0, 1}} {
		w, s := c.Workers-less[0], c.Servers-less[1]
		if w < c.leastWorkers() || s < c.leastServers() {
			continue
		}
		if then, tried := c.Pace.at(w, s); tried && then > now && d.resize(c, w, s) {
			c.why = fmt.Sprintf("gives %s back: with them it does %.3g clocks a second and did %.3g without", numbers(less[0], less[1]), now, then)
			return
		}
	}
}

type snapshot struct {
	free []Resources
	jobs []draft
}

func (d *drafts) snapshot() snapshot {
	var s snapshot
	for _, f := range d.free {
		s.free = append(s.free, slices.Clone(f))
	}
	for _, c := range d.jobs {
		copied := *c
		copied.host = slices.Clone(c.host)
		s.jobs = append(s.jobs, copied)
	}
	return s
}

func (d *drafts) restore(s snapshot) {
	d.free = s.free
	for i, c := range d.jobs {
		*c = s.jobs[i]
	}
}
