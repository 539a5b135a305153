package jobmanager

import (
	"github.com/tierml/tierml/internal/dashboard"
	"github.com/tierml/tierml/internal/jobmanager/call"
)

// says is what the dashboard's list shows of this controller.
func (k *Manager) says() dashboard.Manager {
	out := dashboard.Manager{MaxRunning: k.cfg.MaxRunning, MaxQueued: k.cfg.MaxQueued, Budget: k.cfg.Limits.Total, PerHour: k.cfg.Limits.PerHour}
	for _, j := range k.list() {
		out.Jobs = append(out.Jobs, dashboard.Job{Summary: j.Summary, Place: j.Place})
		switch call.State(j.State) {
		case call.Running, call.Stopping:
			out.Running++
		case call.Queued:
			out.Queued++
		}
	}
	out.Spent, out.Rate = k.totals()
	k.mu.Lock()
	defer k.mu.Unlock()
	out.Held = k.held
	return out
}
