package jobmanager

import (
	"cmp"
	"context"
	"time"

	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun/budget"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/alert"
)

// lookAtSpending is how often the limits of all jobs are looked at.
const lookAtSpending = 5 * time.Second

// totals are what all runs of the directory have cost, and cost an hour now, by their journals. What jobs on shared hosts pay is part of
// what the hosts cost.
func (m *Manager) totals() (spent, rate market.USD) {
	slots := map[string]bool{}
	m.mu.Lock()
	for id, j := range m.jobs {
		slots[id] = j.Slots
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

// guard keeps to the limits of all jobs until the context ends.
func (m *Manager) guard(ctx context.Context) {
	if m.cfg.Limits.Total == 0 && m.cfg.Limits.PerHour == 0 {
		return
	}
	for {
		m.keepTo(ctx, m.cfg.Limits.Judge(m.totals()))
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAtSpending):
		}
	}
}

// keepTo does what a decision asks for, and tells of each change.
func (m *Manager) keepTo(ctx context.Context, d budget.Decision) {
	m.mu.Lock()
	before := m.said.Do
	m.said = d
	held := m.held
	m.held = ""
	if d.Do == budget.Pause || d.Do == budget.Stop {
		m.held = d.Why
	}
	free := held != "" && m.held == ""
	var running []string
	for _, j := range m.inOrder() {
		if j.tended && !j.Stop {
			running = append(running, j.ID)
		}
	}
	m.mu.Unlock()
	if d.Do != before && d.Do != "" {
		m.cfg.Log.Warn("a limit of the controller", "do", string(d.Do), "why", d.Why)
		m.cfg.Notifier.Notify(alert.Alert{Kind: alert.Budget, Run: "controller", Why: string(d.Do) + ": " + d.Why, At: m.cfg.Now().UTC()})
	}
	if free {
		m.nudge()
	}
	if d.Do != budget.Stop {
		return
	}
	for _, id := range running {
		if err := m.Stop(ctx, id, d.Why, false); err != nil {
			m.cfg.Log.Error("a job cannot be asked to end", "job", id, "error", err)
		}
	}
}

// waitsFor is why a job that waits is not started. It needs the lock.
func (m *Manager) waitsFor(j *job) string {
	if j.State == call.Queued && m.held != "" {
		return "held: " + m.held
	}
	if m.scheduler.holds(j) && j.State == call.Queued {
		return cmp.Or(m.scheduler.last.Of(j.ID).Why, m.scheduler.leftOut(), "waits for the scheduler")
	}
	if why := m.lacksHosts(j); why != "" && j.State == call.Queued {
		return why
	}
	return j.Why
}
