package sched

import (
	"cmp"
	"fmt"
	"slices"
)

// DRF is dominant resource fairness (NSDI 2011): the next unit goes to the job with the least dominant share by weight. Groups come
// first: the unit goes to the group with the least dominant share of all its jobs together, and in it to the job with the least.
type DRF struct{}

// Name returns "drf".
func (DRF) Name() string { return "drf" }

// Plan fills the hosts from empty and then moves as few units as possible.
func (DRF) Plan(s State) Plan {
	d := begin(s)
	t := newTargets(d)
	f := &filling{targets: t, used: map[string]Resources{}}
	f.fill(d.jobs)
	for _, c := range d.jobs {
		n := t.of(c)
		if n.workers+n.servers == 0 {
			c.why = fmt.Sprintf("waits: the %d units that it needs at least do not fit", c.leastWorkers()+c.leastServers()+c.Overhead)
			continue
		}
		c.why = fmt.Sprintf("has a dominant share of %.3g by weight %.3g: %s", f.shareOf(c), c.weight(), f.full[c.ID])
	}
	t.apply()
	return d.plan(s)
}

// filling is DRF's progressive filling.
type filling struct {
	*targets
	used map[string]Resources // by group
	full map[string]string    // by job: why it gets no more
}

func (f *filling) shareOf(c *draft) float64 {
	n := f.of(c)
	units := n.workers + n.servers
	if units > 0 {
		units += c.Overhead
	}
	return float64(units) * f.share(c)
}

func (f *filling) groupShare(group string) float64 {
	most := 0.
	for k, v := range f.used[group] {
		if f.total[k] > 0 {
			most = max(most, v/f.total[k])
		}
	}
	return most
}

func (f *filling) fill(jobs []*draft) {
	f.full = map[string]string{}
	active := slices.Clone(jobs)
	for len(active) > 0 {
		next := slices.MinFunc(active, func(a, b *draft) int {
			return cmp.Or(cmp.Compare(f.groupShare(a.Group), f.groupShare(b.Group)), cmp.Compare(a.Group, b.Group),
				cmp.Compare(f.shareOf(a)/a.weight(), f.shareOf(b)/b.weight()), comparePriority(a, b))
		})
		if why := f.more(next); why != "" {
			f.full[next.ID] = why
			active = slices.DeleteFunc(active, func(c *draft) bool { return c == next })
		}
	}
}

// more gives a job its least, or one unit more; otherwise it returns the reason.
func (f *filling) more(c *draft) string {
	n := f.of(c)
	units, grown := n.workers+n.servers, c.leastWorkers()+c.leastServers()
	if units > 0 {
		grown = units + 1
	}
	w, s := grown, 0
	if c.WantServers > 0 {
		w, s = split(grown, c.WantWorkers, c.WantServers)
	}
	if units == 0 {
		w, s = c.leastWorkers(), c.leastServers()
	}
	if c.MostWorkers > 0 && w > c.MostWorkers {
		return "it wants no more"
	}
	if !f.set(c, w, s) {
		return "no other unit of its size fits"
	}
	added := grown - units
	if units == 0 {
		added += c.Overhead
	}
	if f.used[c.Group] == nil {
		f.used[c.Group] = make(Resources, len(c.Demand))
	}
	for k, v := range c.Demand {
		f.used[c.Group][k] += v * float64(added)
	}
	return ""
}
