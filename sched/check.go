package sched

import (
	"fmt"
	"slices"
)

// Check returns an error unless the plan has one grant with a reason for each job, on hosts with room, between the job's least and most,
// and its parts add up.
func Check(s State, p Plan) error {
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
			return fmt.Errorf("job %s has %d units besides workers and servers, and needs %d", j.ID, over, j.Overhead)
		}
	}
	return nil
}
