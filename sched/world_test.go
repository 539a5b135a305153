package sched

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// trial is a job of a world: what a policy does not know of it.
type trial struct {
	job      Job
	arrives  float64
	feedback float64 // clocks until its early feedback
	total    float64
	loss     float64
	stop     bool // its user ends it when the feedback is there
	speed    func(workers, servers int) float64

	done, pause   float64
	arrived, gone bool
	fedBack       float64 // when; 0 = not yet
	ended         float64
	killed        bool
}

// world runs jobs under a policy: events are arrivals, feedback and ends, and after each the policy plans.
type world struct {
	policy Policy
	hosts  []Host
	trials []*trial
	adjust float64 // seconds that a job stands still when it is resized
	start  float64 // and when it starts
	resume float64 // and when it resumes
	wait   bool    // a job that starts waits until those that make room for it are resized
	now    float64
	held   float64                 // unit seconds of workers and servers
	see    func(t *trial, g Grant) // called for grants that change something
}

func (w *world) run(t testing.TB) {
	for {
		next, event := math.Inf(1), func() {}
		for _, c := range w.trials {
			at, what := w.nextOf(c)
			if at < next {
				next, event = at, what
			}
		}
		if math.IsInf(next, 1) {
			return
		}
		w.pass(next - w.now)
		w.now = next
		event()
		w.plan(t)
	}
}

// nextOf is when something happens to a job by itself.
func (w *world) nextOf(c *trial) (float64, func()) {
	switch {
	case c.gone:
		return math.Inf(1), nil
	case !c.arrived:
		return c.arrives, func() { c.arrived = true }
	case !c.job.runs():
		return math.Inf(1), nil
	}
	target := c.total
	if c.fedBack == 0 {
		target = c.feedback
	}
	at := w.now + c.pause + math.Max(0, target-c.done)/c.speed(c.job.Workers, c.job.Servers)
	return at, func() {
		c.done = math.Max(c.done, target)
		if c.fedBack == 0 {
			c.fedBack = w.now
			c.job.Phase, c.job.Loss = Training, c.loss
			if !c.stop {
				return
			}
		}
		c.gone, c.ended = true, w.now
	}
}

func (w *world) pass(seconds float64) {
	for _, c := range w.trials {
		if c.gone || !c.job.runs() {
			continue
		}
		still := math.Min(seconds, c.pause)
		c.pause -= still
		c.done += (seconds - still) * c.speed(c.job.Workers, c.job.Servers)
		w.held += seconds * float64(c.job.Workers+c.job.Servers)
	}
}

func (w *world) plan(t testing.TB) {
	s := State{Now: w.now, Hosts: w.hosts}
	for _, c := range w.trials {
		if c.arrived && !c.gone {
			c.job.Done = c.done
			s.Jobs = append(s.Jobs, c.job)
		}
	}
	p := w.policy.Plan(s)
	if err := check(s, p); err != nil {
		t.Fatalf("%s at %v: %v", w.policy.Name(), w.now, err)
	}
	resized := 0.
	for _, starts := range []bool{false, true} {
		for _, c := range w.trials {
			g, in := p.Grant(c.job.ID)
			if !in || c.gone || (g.Action == Start) != starts {
				continue
			}
			w.apply(c, g, &resized)
		}
	}
}

func (w *world) apply(c *trial, g Grant, resized *float64) {
	if w.see != nil && g.Action != Keep && g.Action != Wait {
		w.see(c, g)
	}
	switch g.Action {
	case Kill:
		c.gone, c.killed, c.ended = true, true, w.now
	case Start:
		c.job.Phase, c.pause = Feedback, w.start
		if w.wait {
			c.pause += *resized
		}
	case Grow, Shrink, Move:
		c.pause = math.Max(c.pause, w.adjust)
		*resized = w.adjust
	case Pause:
		c.job.Phase = Paused
	case Resume:
		c.job.Phase, c.pause = Training, w.resume
	}
	c.job.Workers, c.job.Servers, c.job.Where, c.job.Until = g.Workers, g.Servers, g.Where, g.Until
}

// check is what holds of every plan: a grant for each job with its reason, on hosts with room, between the job's least and most, and its
// parts add up.
func check(s State, p Plan) error {
	free := map[string]Resources{}
	for _, h := range s.Hosts {
		free[h.ID] = slices.Clone(h.Capacity)
	}
	if len(p.Grants) != len(s.Jobs) {
		return fmt.Errorf("%d grants for %d jobs", len(p.Grants), len(s.Jobs))
	}
	for _, j := range s.Jobs {
		g, in := p.Grant(j.ID)
		if !in || g.Why == "" {
			return fmt.Errorf("job %s: grant %+v without a reason", j.ID, g)
		}
		w, sv := 0, 0
		over := 0
		for _, at := range g.Where {
			units := at.Workers + at.Servers + at.Overhead
			over += at.Overhead
			if free[at.Host] == nil || at.Workers < 0 || at.Servers < 0 || units == 0 {
				return fmt.Errorf("job %s is at %+v", j.ID, at)
			}
			w, sv = w+at.Workers, sv+at.Servers
			for k, v := range j.Demand {
				if free[at.Host][k] -= v * float64(units); free[at.Host][k] < -1e-6 {
					return fmt.Errorf("host %s is overfull by job %s", at.Host, j.ID)
				}
			}
		}
		if w != g.Workers || sv != g.Servers {
			return fmt.Errorf("job %s: %d and %d units are placed of %+v", j.ID, w, sv, g)
		}
		if holds := g.Action != Kill && g.Action != Wait && g.Action != Pause; holds != (w+sv > 0) {
			return fmt.Errorf("job %s: %+v", j.ID, g)
		}
		if w+sv > 0 && (w < j.leastWorkers() || sv < j.leastServers() || j.MostWorkers > 0 && w > j.MostWorkers) {
			return fmt.Errorf("job %s has %d and %d units, outside its limits", j.ID, w, sv)
		}
		if over != j.Overhead*boolean(w+sv > 0) {
			return fmt.Errorf("job %s has %d units beside workers and servers, and needs %d", j.ID, over, j.Overhead)
		}
	}
	return nil
}

func cluster(count int, capacity ...float64) []Host {
	var hosts []Host
	for i := range count {
		hosts = append(hosts, Host{ID: fmt.Sprintf("h%03d", i), Capacity: capacity})
	}
	return hosts
}
