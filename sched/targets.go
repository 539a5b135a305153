package sched

import (
	"cmp"
	"slices"
)

// targets are numbers of units for all jobs, on initially empty hosts; apply reaches them with the fewest moved units.
type targets struct {
	real  *drafts
	empty *drafts
	jobs  map[string]*draft
	total Resources
}

type numbersOf struct{ workers, servers int }

func newTargets(d *drafts) *targets {
	t := &targets{real: d, empty: &drafts{hosts: d.hosts, total: d.total}, jobs: map[string]*draft{}, total: d.total}
	for _, h := range d.hosts {
		t.empty.free = append(t.empty.free, slices.Clone(h.Capacity))
	}
	for _, c := range d.jobs {
		j := &draft{Job: c.Job, host: make([]place, len(d.hosts))}
		j.Workers, j.Servers = 0, 0
		t.empty.jobs = append(t.empty.jobs, j)
		t.jobs[c.ID] = j
	}
	return t
}

func (t *targets) of(c *draft) numbersOf {
	j := t.jobs[c.ID]
	return numbersOf{j.Workers, j.Servers}
}

// set sets a job's target; false = it does not fit with the others', and nothing changes.
func (t *targets) set(c *draft, workers, servers int) bool {
	return t.empty.resize(t.jobs[c.ID], workers, servers)
}

func (t *targets) fits(c *draft, units int) bool {
	for i := range t.empty.hosts {
		if units -= t.empty.room(i, c.Demand); units <= 0 {
			return true
		}
	}
	return false
}

// share returns a unit's dominant share (DRF): the largest of its shares of all hosts' resources.
func (t *targets) share(c *draft) float64 {
	most := 0.
	for k, v := range c.Demand {
		if t.total[k] > 0 {
			most = max(most, v/t.total[k])
		}
	}
	return most
}

// apply shrinks jobs that have too much, then grows others. If jobs in their present places leave no room for a target
// though all targets fit on empty hosts, units move: jobs are placed as on empty hosts.
func (t *targets) apply() {
	before := t.real.snapshot()
	var grow []*draft
	for _, c := range t.real.jobs {
		n := t.of(c)
		w, s := min(c.Workers, n.workers), min(c.Servers, n.servers)
		if w+s < c.Workers+c.Servers {
			t.real.resize(c, w, s)
		}
		if c.Workers != n.workers || c.Servers != n.servers {
			grow = append(grow, c)
		}
	}
	slices.SortStableFunc(grow, func(a, b *draft) int { // large units first
		return cmp.Or(cmp.Compare(t.share(b), t.share(a)), cmp.Compare(a.ID, b.ID))
	})
	for _, c := range grow {
		n := t.of(c)
		if !t.real.resize(c, n.workers, n.servers) {
			t.real.restore(before)
			t.replace()
			return
		}
	}
}

func (t *targets) replace() {
	t.real.free = t.empty.free
	for _, c := range t.real.jobs {
		j := t.jobs[c.ID]
		c.host, c.Workers, c.Servers = j.host, j.Workers, j.Servers
	}
}

func comparePriority(a, b *draft) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.ID, b.ID))
}
