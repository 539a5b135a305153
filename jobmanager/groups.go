package jobmanager

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/dashboard"
)

// groupOf returns the group that a job's file names. A file that cannot be read is refused by its run.
func groupOf(dir string) string {
	job, err := config.Load(filepath.Join(dir, submittedFile))
	if err != nil {
		return ""
	}
	return job.Group
}

// groupOfJob returns the group of a job or run.
func (m *Manager) groupOfJob(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[id]; j != nil {
		return j.Group
	}
	return ""
}

// account is the machines and costs of jobs by group, which with the idle share add up to the total.
type account struct {
	groups     map[string]*groupAccount
	idle, rest market.USD // of the shared hosts: what no job pays, and the present hourly rate
	total      market.USD
	perHour    market.USD
}

type groupAccount struct {
	jobs, running, machines int
	spent, perHour          market.USD
}

// accounts sums up the journals of all runs. Manually started runs belong to no group, like jobs that name none.
func (m *Manager) accounts() account {
	jobs := map[string]job{}
	m.mu.Lock()
	for id, j := range m.jobs {
		jobs[id] = *j
	}
	deleted := slices.Clone(m.deleted)
	m.mu.Unlock()
	a := account{groups: map[string]*groupAccount{}}
	for group := range m.cfg.Budgets {
		a.groups[group] = &groupAccount{}
	}
	for group := range m.cfg.Quotas {
		a.groups[group] = &groupAccount{}
	}
	seen := map[string]bool{}
	for _, s := range m.board.Summaries() {
		seen[s.Run] = true
		a.add(jobs[s.Run], s)
	}
	for _, r := range deleted {
		a.add(job{record: r}, *r.Deleted)
	}
	for id, j := range jobs {
		if !seen[id] && !j.Hosts { // it has not begun
			a.of(j.Group).jobs++
		}
	}
	return a
}

func (a *account) of(group string) *groupAccount {
	if a.groups[group] == nil {
		a.groups[group] = &groupAccount{}
	}
	return a.groups[group]
}

func (a *account) add(j job, s dashboard.Summary) {
	spent, _ := market.ParseUSD(cmp.Or(s.Spent, "0")) // a run that has cost nothing yet has no figures
	perHour, _ := market.ParseUSD(cmp.Or(s.PerHour, "0"))
	if !j.Slots { // whose share is in the hosts' cost
		a.total, a.perHour = a.total+spent, a.perHour+perHour
	}
	if j.Hosts {
		a.idle, a.rest = a.idle+spent, a.rest+perHour
		return
	}
	if j.Slots {
		a.idle, a.rest = a.idle-spent, a.rest-perHour
	}
	of := a.of(j.Group)
	if j.Deleted == nil {
		of.jobs++
	}
	of.spent, of.perHour = of.spent+spent, of.perHour+perHour
	if s.Active() {
		of.running++
		of.machines += s.Reliable + s.Transient
	}
}

// answered returns a client's view of the account: the groups that it may see, and the total if it may see all.
func (a account) answered(m *Manager, c access.Client) call.Account {
	out := call.Account{Groups: []call.Group{}}
	if seesAll(c) {
		out.Idle, out.IdlePerHour, out.Total, out.PerHour = a.idle.String(), a.rest.String(), a.total.String(), a.perHour.String()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for group, of := range a.groups {
		if c.Right(group) < access.Watch {
			continue
		}
		g := call.Group{Group: group, Jobs: of.jobs, Running: of.running, Machines: of.machines, Spent: of.spent.String(), PerHour: of.perHour.String(),
			Held: withheld(m.decided[limited{group: group}])}
		if usd := m.cfg.Budgets[group]; usd > 0 {
			g.Budget = usd.String()
		}
		g.QuotaJobs, g.QuotaMachines = m.cfg.Quotas[group].Jobs, m.cfg.Quotas[group].Machines
		out.Groups = append(out.Groups, g)
	}
	slices.SortFunc(out.Groups, func(a, b call.Group) int { return cmp.Compare(a.Group, b.Group) })
	return out
}
