package jobmanager

import (
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/dashboard"
)

// summary is what the dashboard's list shows of this controller.
func (m *Manager) summary() dashboard.Manager {
	out := dashboard.Manager{MaxRunning: m.cfg.MaxRunning, MaxQueued: m.cfg.MaxQueued, Budget: m.cfg.Limits.Total, PerHour: m.cfg.Limits.PerHour}
	jobs := m.list()
	out.Sweeps = sweeps{m}.all(jobs)
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, dashboard.Job{Summary: j.Summary, Place: j.Place})
		if j.Hosts {
			continue
		}
		switch call.State(j.State) {
		case call.Running, call.Stopping:
			out.Running++
		case call.Queued:
			out.Queued++
		}
	}
	out.Spent, out.Rate = m.totals()
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Held = withheld(m.decided[limited{all: true}])
	return out
}
