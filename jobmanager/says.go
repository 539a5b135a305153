package jobmanager

import (
	"maps"
	"net/http"
	"time"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/dashboard"
)

// summary returns the dashboard list's information of this job server for a client: only the jobs that the client may see. Without a
// request it is all.
func (m *Manager) summary(r *http.Request) dashboard.Manager {
	out := dashboard.Manager{MaxRunning: m.cfg.MaxRunning, MaxQueued: m.cfg.MaxQueued, Budget: m.cfg.Limits.Total, PerHour: m.cfg.Limits.PerHour}
	jobs := m.list()
	if r != nil {
		jobs = seen(access.ClientOf(r.Context()), jobs)
		out.Deleted = m.deletedFor(access.ClientOf(r.Context()))
	}
	out.Sweeps = sweeps{m}.all(jobs)
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, dashboard.Row{Summary: j.Summary, Place: j.Place})
		if j.Hosts {
			continue
		}
		switch {
		case j.Active() || j.State == string(call.Stopping):
			out.Running++
		case j.State == string(call.Queued):
			out.Queued++
		}
	}
	if out.Spent, out.Rate = m.totals(); r != nil && !seesAll(access.ClientOf(r.Context())) {
		out.Spent, out.Rate = spentBy(jobs)
		for _, s := range out.Deleted {
			usd, _ := market.ParseUSD(s.Spent) // as above
			out.Spent += usd
		}
		out.Budget, out.PerHour = bounds{m}.limitsOf(access.ClientOf(r.Context()))
	}
	out.Groups = map[string]dashboard.GroupLimits{}
	for group := range m.cfg.Budgets {
		out.Groups[group] = dashboard.GroupLimits{Budget: m.cfg.Budgets[group], Quota: m.cfg.Quotas[group].String()}
	}
	for group, quota := range m.cfg.Quotas {
		out.Groups[group] = dashboard.GroupLimits{Budget: m.cfg.Budgets[group], Quota: quota.String()}
	}
	if r != nil {
		maps.DeleteFunc(out.Groups, func(group string, _ dashboard.GroupLimits) bool {
			return access.ClientOf(r.Context()).Right(group) < access.Watch
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scheduler != nil {
		out.Granted = map[string]string{}
		for _, g := range m.scheduler.last.Grants {
			out.Granted[g.Job] = g.Why
		}
	}
	if out.Held = withheld(m.decided[limited{all: true}]); out.Held != "" && r != nil && !seesAll(access.ClientOf(r.Context())) {
		out.Held = limitOfAllJobs
	}
	if m.scheduler != nil {
		out.Grants = m.scheduler.standing(time.Now(), func(group string) bool { return r == nil || access.ClientOf(r.Context()).Right(group) >= access.Watch })
	}
	return out
}

// spentBy returns the cost of these jobs so far, and per hour now.
func spentBy(jobs []call.Job) (spent, perHour market.USD) {
	for _, j := range jobs {
		usd, _ := market.ParseUSD(j.Spent) // unknown is 0
		spent += usd
		usd, _ = market.ParseUSD(j.PerHour)
		perHour += usd
	}
	return spent, perHour
}

// limitsOf returns the total budget and price per hour of a client's groups; 0 = one has no such limit.
func (m bounds) limitsOf(c access.Client) (budget, perHour market.USD) {
	groups := c.Groups(access.Watch)
	for i, group := range groups {
		total, hourly := m.cfg.Budgets[group], m.cfg.Quotas[group].PerHour
		if budget += total; total == 0 || i > 0 && budget == total {
			budget = 0
		}
		if perHour += hourly; hourly == 0 || i > 0 && perHour == hourly {
			perHour = 0
		}
	}
	return budget, perHour
}
