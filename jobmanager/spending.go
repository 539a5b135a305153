package jobmanager

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/alert"
)

// lookAtSpending is the interval at which the limits of all jobs are checked.
const lookAtSpending = 5 * time.Second

// bounds keeps jobs within quotas and budgets.
type bounds struct{ *Manager }

// totals returns the cost of all runs in the directory, so far and per hour now, by their journals. What jobs on shared hosts pay is part
// of the hosts' cost.
func (m *Manager) totals() (spent, rate market.USD) {
	slots := map[string]bool{}
	m.mu.Lock()
	for id, j := range m.jobs {
		slots[id] = j.Slots
	}
	for _, r := range m.deleted {
		if !r.Slots {
			usd, _ := market.ParseUSD(r.Deleted.Spent) // a run that never had a machine has no figure
			spent += usd
		}
	}
	m.mu.Unlock()
	for _, s := range m.board.Summaries() {
		if slots[s.Run] {
			continue
		}
		if usd, err := market.ParseUSD(s.Spent); err == nil {
			spent += usd
		}
		if usd, err := market.ParseUSD(s.PerHour); err == nil {
			rate += usd
		}
	}
	return spent, rate
}

// guard enforces the limits of all jobs, and of groups, until the context ends.
func (m bounds) guard(ctx context.Context) {
	groups := slices.Sorted(maps.Keys(m.cfg.Budgets))
	for group, q := range m.cfg.Quotas { // any order
		if q.PerHour > 0 && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	if m.cfg.Limits.Total == 0 && m.cfg.Limits.PerHour == 0 && len(groups) == 0 {
		return
	}
	for {
		m.rate()
		m.keepTo(ctx, m.cfg.Limits.Judge(m.totals()))
		all := m.accounts()
		for _, group := range groups {
			of := all.of(group)
			limit := budget.Cluster{Of: "group " + group, Total: m.cfg.Budgets[group], PerHour: m.cfg.Quotas[group].PerHour, WarnAt: m.cfg.Limits.WarnAt, Over: m.cfg.Limits.Over}
			m.keepWithin(ctx, limited{group: group}, limit.Judge(of.spent, of.perHour))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAtSpending):
		}
	}
}

// limited are the jobs that a limit applies to: all, or those of a group.
type limited struct {
	all   bool
	group string
}

func (l limited) has(j *job) bool { return l.all || l.group == j.Group && !j.Hosts }

// withheld returns why a decision starts nothing more; empty = it does not.
func withheld(d budget.Decision) string {
	if d.Do == budget.Pause || d.Do == budget.Stop {
		return d.Why
	}
	return ""
}

// heldBy returns the limit for which a waiting job is not started; empty = none. The lock must be held.
func (m bounds) heldBy(j *job) string {
	why := m.toGroup(j.Group, withheld(m.decided[limited{all: true}]))
	if why == "" && !j.Hosts {
		why = withheld(m.decided[limited{group: j.Group}])
	}
	if why == "" && m.cfg.Limits.PerHour > 0 {
		why = m.unrated(limited{all: true}, j)
	}
	if why == "" && m.cfg.Quotas[j.Group].PerHour > 0 && !j.Hosts {
		why = m.unrated(limited{group: j.Group}, j)
	}
	return why
}

// ratedWithin is how long a started job may take to show its hourly cost, until others start regardless.
const ratedWithin = 2 * time.Minute

// rate records which running jobs show their hourly cost. Jobs that wait for that are checked again.
func (m bounds) rate() {
	shown := map[string]bool{}
	for _, s := range m.board.Summaries() {
		usd, err := market.ParseUSD(s.PerHour)
		shown[s.Run] = err == nil && usd > 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		if j.unrated && (shown[j.ID] || !j.tended || time.Since(j.started) > ratedWithin) {
			j.unrated = false
			m.nudge()
		}
	}
}

// unrated returns why a job does not start under an hourly limit: another one has just been started, and does not count yet. The lock must
// be held.
func (m bounds) unrated(of limited, j *job) string {
	for _, o := range m.jobs {
		if o != j && o.unrated && of.has(o) {
			return "what " + m.unnamed(o.ID, func(group string) bool { return group == j.Group }) + " costs an hour is not known yet"
		}
	}
	return ""
}

// keepTo carries out a decision about all jobs.
func (m bounds) keepTo(ctx context.Context, d budget.Decision) {
	m.keepWithin(ctx, limited{all: true}, d)
}

// keepWithin carries out a decision, and reports each change.
func (m bounds) keepWithin(ctx context.Context, of limited, d budget.Decision) {
	m.mu.Lock()
	before := m.decided[of]
	m.decided[of] = d
	free := withheld(before) != "" && withheld(d) == ""
	running := map[string]string{}
	for _, j := range m.inOrder() {
		if j.tended && !j.Stop && of.has(j) {
			if running[j.ID] = d.Why; of.all {
				running[j.ID] = m.toGroup(j.Group, d.Why)
			}
		}
	}
	m.mu.Unlock()
	if d.Do != before.Do && d.Do != "" {
		m.cfg.Log.Warn("a limit of the job server", "do", string(d.Do), "why", d.Why)
		m.cfg.Notifier.Notify(alert.Alert{Kind: alert.Budget, Run: "server", Why: string(d.Do) + ": " + d.Why, At: m.cfg.Now().UTC()})
	}
	if free {
		m.nudge()
	}
	if d.Do != budget.Stop {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(running)) {
		if err := m.Stop(ctx, id, running[id], false); err != nil {
			m.cfg.Log.Error("a job cannot be asked to end", "job", id, "error", err)
		}
	}
}

// waitsFor returns why a waiting job is not started. The lock must be held.
func (m bounds) waitsFor(j *job) string {
	if m.health.ill != "" && !j.tended && !j.State.Over() {
		return m.waitsForHost()
	}
	if why := m.heldBy(j); j.State == call.Queued && why != "" {
		return "held: " + why
	}
	if j.Awaits && j.State == call.Queued {
		return awaits
	}
	if why := m.overQuota(j); why != "" {
		return why
	}
	if m.scheduler.holds(j) && j.State == call.Queued {
		return cmp.Or(m.scheduler.last.Of(j.ID).Why, m.scheduler.leftOut(), "waits for the scheduler")
	}
	if why := m.lacksHosts(j); why != "" && j.State == call.Queued {
		return why
	}
	return j.Why
}
