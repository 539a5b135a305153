package sched

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Dorm is Dorm's utilisation-fairness optimizer (section IV-B, P2): it maximises the use of all resources, while the
// jobs' distance from their fair shares and the number of jobs resized at once stay within bounds. Go has no
// well-maintained solver for such problems: the answer is found by search, with an upper bound from Lagrangian
// relaxation (dormbound.go).
type Dorm struct {
	// Theta1 bounds the loss of fairness to Theta1 2m for m resources (15), Theta2 the resized jobs as a fraction of the running ones (16),
	// rounded up. 0 = .1, as Dorm-3; less than 0 = none. Here jobs are resized while they run, so Theta2 may be 1.
	Theta1, Theta2 float64
	// Ceil rounds the bound on fairness up, as (15) is printed. Figure 7's losses (1.5 and .6) fit neither reading.
	Ceil bool
	// Patience is how many seconds a job waits at most if P2 has no solution with it: then the bounds are lifted until there is one. 0 = an
	// hour; less than 0 = none, as in the paper.
	Patience float64
}

// Name returns "dorm", with the bounds if they differ from Dorm-3's.
func (o Dorm) Name() string {
	if o.Theta1 == 0 && o.Theta2 == 0 {
		return "dorm"
	}
	return fmt.Sprintf("dorm:%g,%g", theta(o.Theta1), theta(o.Theta2))
}

// with parses THETA1,THETA2.
func (o Dorm) with(settings string) (Policy, error) {
	parts := strings.Split(settings, ",")
	if len(parts) != 2 {
		return nil, errors.New("write THETA1,THETA2, such as dorm:0.1,0.2")
	}
	for i, to := range []*float64{&o.Theta1, &o.Theta2} {
		x, err := strconv.ParseFloat(parts[i], 64)
		if err != nil || !(x >= 0 && x <= 1) {
			return nil, fmt.Errorf("%q is no number from 0 to 1", parts[i])
		}
		if *to = x; x == 0 {
			*to = -1 // nothing is allowed; 0 would be the default
		}
	}
	return o, nil
}

// theta returns a bound as written: 0 = the default, and less = 0.
func theta(x float64) float64 {
	if x == 0 {
		x = .1
	}
	return max(x, 0)
}

// Plan solves P2. If there is no solution the newest waiting job keeps waiting, and so on; in the end everything stays
// as it is (IV-B).
//
// Invariant: an answer that is carried out respects capacity (6), each job's least and most units (7, 8), and the bounds on unfairness (15)
// and on resized jobs (16), unless these two are lifted. Its Value is at most that of the best answer, and that is at most Bound.
//
//  1. problem states P2 in units, with the shares that weighted DRF would give (fairShares).
//  2. search chooses which running jobs may be resized, and fills up for each choice (fill). repair looks for an answer where that gave none, and
//     polish improves it: to the best on one or two hosts (TestP2IsOptimalOnFewHosts), and near it on more (TestP2IsNearTheOptimum).
//  3. Without an answer the newest waiting job is left out, and 1 begins again. So jobs that run are never stopped for a new one.
//  4. The last waiting job to be left out has the bounds lifted when it has waited for Patience: P2 alone could make it wait forever.
//  5. carryOut places the units; workers and servers stay where they are as far as they can (settle).
func (o Dorm) Plan(s State) Plan {
	d := begin(s)
	out := map[string]bool{}
	lifted := ""
	for unsolved := false; ; unsolved = true {
		p := o.problem(d, out)
		x, found := p.search()
		if found {
			plan := o.carryOut(s, d, p, x)
			plan.Unsolved, plan.Why = unsolved, plan.Why+lifted
			return plan
		}
		newest, left := p.newest()
		if newest == nil {
			break
		}
		if left == 1 && lifted == "" && o.overdue(s.Now, newest) {
			o.Theta1, o.Theta2 = math.Inf(1), 1
			lifted = fmt.Sprintf("; the bounds are lifted for %s, which has waited for %.0f s", newest.ID, s.Now-newest.Arrived)
			continue
		}
		c := newest
		c.why = "waits: with it P2 has no answer that is as fair, and resizes as few jobs, as the bounds ask for"
		out[c.ID] = true
	}
	plan := d.plan(s)
	plan.Unsolved, plan.Why = true, "P2 has no answer: everything stays as it is"
	return plan
}

// newest returns the most recent waiting job.
func (p *problem) newest() (newest *draft, waiting int) {
	for _, a := range p.apps {
		if a.old {
			continue
		}
		if waiting++; newest == nil || comparePriority(newest, a.job) < 0 {
			newest = a.job
		}
	}
	return newest, waiting
}

// overdue reports whether a job has waited as long as P2 may make it wait.
func (o Dorm) overdue(now float64, c *draft) bool {
	patience := o.Patience
	if patience == 0 {
		patience = 3600
	}
	return patience > 0 && now-c.Arrived > patience
}

// problem is P2 in units.
type problem struct {
	apps   []app
	caps   []Resources // by host
	total  Resources
	unfair float64 // highest loss of fairness (15)
	resize int     // most old jobs resized (16)
	prices *relaxed
	types  []int // a host's type
	looks  int   // moves to consider for one answer
}

// app is a job in P2.
type app struct {
	job         *draft
	demand      Resources
	value       float64 // per unit: its share of every resource, summed (10)
	share       float64 // per unit: its dominant share
	fair        float64 // its dominant share under DRF
	least, most int     // units (7, 8)
	held        []int   // its present units on each host
	holds       int
	old         bool // it runs: resizing it counts (16)
}

func (o Dorm) problem(d *drafts, out map[string]bool) *problem {
	p := &problem{total: d.total}
	for _, h := range d.hosts {
		p.caps = append(p.caps, h.Capacity)
	}
	old := 0
	for _, c := range d.jobs {
		if out[c.ID] {
			continue
		}
		a := app{job: c, demand: c.Demand, held: make([]int, len(d.hosts)), least: c.leastWorkers() + c.leastServers() + c.Overhead, most: c.mostUnits()}
		for k, v := range c.Demand {
			if p.total[k] > 0 {
				a.value += v / p.total[k]
				a.share = max(a.share, v/p.total[k])
			}
		}
		for i, at := range c.host {
			a.held[i] = at.units()
			a.holds += at.units()
		}
		a.old = c.runs() && a.holds >= a.least && a.holds <= a.most
		if a.old {
			old++
		} else {
			a.held, a.holds = make([]int, len(d.hosts)), 0
		}
		p.apps = append(p.apps, a)
	}
	p.unfair = theta(o.Theta1) * 2 * float64(len(p.total))
	if o.Ceil {
		p.unfair = math.Ceil(p.unfair - rounding)
	}
	p.resize = int(math.Ceil(theta(o.Theta2)*float64(old) - rounding))
	p.fairShares()
	return p
}

// mostUnits is n_max in units: at most MostWorkers are workers.
func (c *draft) mostUnits() int {
	if c.MostWorkers == 0 {
		return math.MaxInt32
	}
	n := c.MostWorkers + c.Overhead
	for w, _ := c.parts(n + 1); w <= c.MostWorkers && c.WantServers > 0; w, _ = c.parts(n + 1) {
		n++
	}
	return max(n, c.leastWorkers()+c.leastServers()+c.Overhead)
}

// parts returns the workers and servers among units, in the submitted ratio.
func (c *draft) parts(units int) (workers, servers int) {
	units -= c.Overhead
	w, s := split(units, c.WantWorkers, c.WantServers)
	if s < c.leastServers() {
		w, s = units-c.leastServers(), c.leastServers()
	}
	if w < c.leastWorkers() {
		w, s = c.leastWorkers(), units-c.leastWorkers()
	}
	return w, s
}

// fairShares is weighted DRF on all hosts as one pool, starting from each job's least.
func (p *problem) fairShares() {
	n := make([]int, len(p.apps))
	left := slices.Clone(p.total)
	take := func(i, units int) {
		n[i] += units
		for k, v := range p.apps[i].demand {
			left[k] -= v * float64(units)
		}
	}
	fits := func(i int) bool {
		for k, v := range p.apps[i].demand {
			if v > left[k]+rounding {
				return false
			}
		}
		return true
	}
	var active []int
	for i, a := range p.apps {
		take(i, a.least)
		active = append(active, i)
	}
	for len(active) > 0 {
		next, least := 0, math.Inf(1)
		for at, i := range active {
			if s := p.apps[i].share * float64(n[i]) / p.apps[i].job.weight(); s < least {
				next, least = at, s
			}
		}
		if i := active[next]; n[i] < p.apps[i].most && fits(i) {
			take(i, 1)
		} else {
			active = slices.Delete(active, next, next+1)
		}
	}
	for i := range p.apps {
		p.apps[i].fair = p.apps[i].share * float64(n[i])
	}
}

// carryOut turns an answer into a plan.
func (o Dorm) carryOut(s State, d *drafts, p *problem, x *answer) Plan {
	loss := 0.
	for _, c := range d.jobs {
		i := slices.IndexFunc(p.apps, func(a app) bool { return a.job == c })
		if i < 0 { // it waits, losing its whole fair share
			continue
		}
		a := p.apps[i]
		units := x.counts[i]
		loss += math.Abs(a.share*float64(units) - a.fair)
		c.why = fmt.Sprintf("has a dominant share of %.3g; its fair one is %.3g", a.share*float64(units), a.fair)
		if a.old && slices.Equal(a.held, x.on[i]) {
			continue
		}
		d.settle(c, x.on[i])
	}
	plan := d.plan(s)
	plan.Value, plan.Bound = p.valueOf(x), p.bound(p.valueOf(x))
	plan.Why = fmt.Sprintf("uses %.4g of all resources, and nothing uses more than %.4g; fairness loss %.3g of at most %.3g, %d jobs resized of at most %d",
		plan.Value, plan.Bound, loss, p.unfair, p.resized(x), p.resize)
	return plan
}

// settle places a job's units on hosts; workers and servers keep their places as far as possible.
func (d *drafts) settle(c *draft, on []int) {
	units := 0
	for _, n := range on {
		units += n
	}
	over := c.Overhead
	workers, servers := c.parts(units)
	next := make([]place, len(on))
	for i, at := range c.host { // what stays
		room := on[i]
		for _, part := range []struct{ had, left, put *int }{
			{&at.overhead, &over, &next[i].overhead}, {&at.servers, &servers, &next[i].servers}, {&at.workers, &workers, &next[i].workers},
		} {
			n := min(*part.had, *part.left, room)
			*part.put, *part.left, room = n, *part.left-n, room-n
		}
	}
	for i := range on {
		room := on[i] - next[i].units()
		for _, part := range []struct{ left, put *int }{{&over, &next[i].overhead}, {&servers, &next[i].servers}, {&workers, &next[i].workers}} {
			n := min(*part.left, room)
			*part.put, *part.left, room = *part.put+n, *part.left-n, room-n
		}
	}
	c.host = next
	c.Workers, c.Servers = c.count()
}
