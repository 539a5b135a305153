package jobmanager

import (
	"context"
	"time"

	"github.com/tierml/tierml/internal/alert"
	"github.com/tierml/tierml/internal/budget"
	"github.com/tierml/tierml/internal/jobmanager/call"
	"github.com/tierml/tierml/market"
)

// lookAtSpending is how often the limits of all jobs are looked at.
const lookAtSpending = 5 * time.Second

// totals are what all runs of the directory have cost, and cost an hour now, by their journals.
func (k *Manager) totals() (spent, rate market.USD) {
	for _, s := range k.board.Summaries() {
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
func (k *Manager) guard(ctx context.Context) {
	if k.cfg.Limits.Total == 0 && k.cfg.Limits.PerHour == 0 {
		return
	}
	for {
		k.keepTo(ctx, k.cfg.Limits.Judge(k.totals()))
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAtSpending):
		}
	}
}

// keepTo does what a decision asks for, and tells of each change.
func (k *Manager) keepTo(ctx context.Context, d budget.Decision) {
	k.mu.Lock()
	before := k.said.Do
	k.said = d
	held := k.held
	k.held = ""
	if d.Do == budget.Pause || d.Do == budget.Stop {
		k.held = d.Why
	}
	free := held != "" && k.held == ""
	var running []string
	for _, j := range k.inOrder() {
		if j.tended && !j.Stop {
			running = append(running, j.ID)
		}
	}
	k.mu.Unlock()
	if d.Do != before && d.Do != "" {
		k.cfg.Log.Warn("a limit of the controller", "do", string(d.Do), "why", d.Why)
		k.cfg.Notifier.Notify(alert.Alert{Kind: alert.Budget, Run: "controller", Why: string(d.Do) + ": " + d.Why, At: k.cfg.Now().UTC()})
	}
	if free {
		k.nudge()
	}
	if d.Do != budget.Stop {
		return
	}
	for _, id := range running {
		if err := k.Stop(ctx, id, d.Why, false); err != nil {
			k.cfg.Log.Error("a job cannot be asked to end", "job", id, "error", err)
		}
	}
}

// waitsFor is why a job that waits is not started. It needs the lock.
func (k *Manager) waitsFor(j *job) string {
	if j.State == call.Queued && k.held != "" {
		return "held: " + k.held
	}
	return j.Why
}
