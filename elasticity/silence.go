package elasticity

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// Machines are judged by silence: a stream that broke and did not come back, or one that is open and says nothing. Silence is no
// proof. Three rules keep it from being taken for one:
//
//   - Only silence that was listened to counts (Awake). A controller that was stopped has heard nobody.
//   - After an absence, a machine whose stream broke has as long as any other to call again: agents end streams that do not
//     answer, too.
//   - Machines fail one by one, or by evictions, which the provider tells, or their hosts end their streams. When most just fall
//     silent together, it is this host or its network: the hush.

// hush is a silence of most machines.
type hush struct {
	since time.Time // by Controller.awake
}

// hushFor is how many times DeadAfter a silence of most machines is waited out. Provider listings and evictions end machines
// meanwhile, as at any time.
const hushFor = 10

func (c *Controller) hushFor() time.Duration { return hushFor * c.cfg.DeadAfter }

// giveUpSilent gives up the machines that are silent for too long.
func (c *Controller) giveUpSilent() {
	if c.hush == nil && c.now.Before(c.silentAt) {
		return
	}
	silent := false // somebody is for too long, of whom nothing else is known
	for _, m := range c.roster {
		switch {
		case m.lost || m.ended:
		case m.address == "":
			if c.awake.Over(m.heard, c.cfg.BootWithin) {
				c.giveUp(m, fmt.Sprintf("its agent did not call in %.0f s", c.wall(c.cfg.BootWithin)))
			}
		default:
			why := c.silence(m)
			if why != "" && m.hungUp && !m.brokenAt.IsZero() {
				c.giveUp(m, why)
			} else {
				silent = silent || why != ""
			}
		}
	}
	if c.hushed(silent) {
		return
	}
	for _, m := range c.roster {
		if m.lost || m.ended || m.address == "" {
			continue
		}
		if why := c.silence(m); why != "" {
			c.giveUp(m, why)
		}
	}
}

// silence is why a machine that has called is to be given up for its silence; empty = it is not.
func (c *Controller) silence(m *machine) string {
	switch {
	case !m.brokenAt.IsZero() && c.awake.Over(m.brokenAt, c.brokenPatience(m)):
		return "its stream broke and did not come back"
	case c.awake.Over(m.heard, c.patience(m)):
		return fmt.Sprintf("silent for %.1f s", c.wall(c.awake.Now().Sub(m.heard)))
	}
	return ""
}

// hangUpWithin is how long a machine may have been silent when its stream breaks, for that to be the end of its process, which
// its host tells. The controller's own end breaks streams that are silent for longer, which is no news.
func (c *Controller) hangUpWithin() time.Duration {
	return c.cfg.Market(min(3*c.cfg.Job.Heartbeat, 8*time.Second))
}

// hushed reports whether most machines are silent, so that nobody is given up for it. Silent: somebody is for too long.
func (c *Controller) hushed(silent bool) bool {
	h := c.hush
	if h == nil && !silent {
		return false
	}
	unheard, all := 0, 0
	for _, m := range c.roster {
		if !m.alive() || m.warned || m.hungUp && !m.brokenAt.IsZero() {
			continue // of these, silence says nothing about the others
		}
		all++
		if !m.brokenAt.IsZero() || c.awake.Now().Sub(m.heard) >= c.cfg.DeadAfter/2 {
			unheard++
		}
	}
	most := unheard > 1 && 2*unheard > all
	switch {
	case h == nil && !most:
		return false
	case h == nil:
		c.hush = &hush{since: c.awake.Now()}
		c.recordHush(journal.Waiting, unheard, fmt.Sprintf("%d of %d machines have fallen silent together: this host is too busy, or its network is down. "+
			"Until they are heard, or for %.0f s, nobody is given up for silence and nothing is bought", unheard, all, c.wall(c.hushFor())))
		return true
	case most && !c.awake.Over(h.since, c.hushFor()):
		return true
	}
	c.hush, c.wantPlan = nil, true
	waited := c.wall(c.awake.Now().Sub(h.since))
	if most {
		c.recordHush(journal.GivenUp, unheard, fmt.Sprintf("%d of %d machines have not been heard for another %.0f s: they are given up", unheard, all, waited))
		return false
	}
	c.recordHush(journal.Heard, unheard, fmt.Sprintf("most machines are no longer silent, after another %.1f s: %d of %d are", waited, unheard, all))
	c.awake.Wake() // the others have time to call, too
	return true
}

func (c *Controller) recordHush(to string, unheard int, why string) {
	c.record(func() journal.Entry { return journal.Entry{Kind: journal.Silence, To: to, Count: unheard, Why: why} })
}

// brokenPatience is how long a machine may take to come back whose stream broke.
func (c *Controller) brokenPatience(m *machine) time.Duration {
	if c.awake.JustWoke(m.brokenAt) {
		return max(c.cfg.BrokenAfter, c.cfg.DeadAfter)
	}
	return c.cfg.BrokenAfter
}

// patience is how long a machine may be silent. One that alone holds partitions, as owner and backup, takes all work since
// the last checkpoint with it: on a busy host, waiting for it costs less. (A broken stream, and what the provider says, end it
// as soon as any other machine.)
func (c *Controller) patience(m *machine) time.Duration {
	if m.tier == tiers.Reliable && c.standing() {
		for p, owner := range c.route.Owner {
			// A backup that was just named has nothing before the next cut: keeps.
			if backup := c.route.Backup[p]; owner == m.id && (backup == m.id || backup == "" || m.keeps) {
				return 3 * c.cfg.DeadAfter
			}
		}
	}
	return c.cfg.DeadAfter
}

// nextSilent is when giveUpSilent may find somebody, if nothing is heard until then.
func (c *Controller) nextSilent() time.Time {
	if c.hush != nil {
		return c.awake.NextBeat()
	}
	next := c.now.Add(never)
	by := func(t time.Time, wait time.Duration) {
		if t.IsZero() {
			return
		}
		if at := c.awake.Due(t, wait); at.Before(next) {
			next = at
		}
	}
	var called, quiet time.Time // the first of those that have not called yet, of the others
	first := func(t *time.Time, of time.Time) {
		if t.IsZero() || of.Before(*t) {
			*t = of
		}
	}
	for _, m := range c.roster {
		switch {
		case m.lost || m.ended:
		case m.address == "":
			first(&called, m.heard)
		default:
			if m.tier == tiers.Reliable {
				by(m.heard, c.patience(m))
			} else {
				first(&quiet, m.heard)
			}
			if !m.brokenAt.IsZero() {
				by(m.brokenAt, c.brokenPatience(m))
			}
		}
	}
	by(called, c.cfg.BootWithin)
	by(quiet, c.cfg.DeadAfter)
	return next
}
