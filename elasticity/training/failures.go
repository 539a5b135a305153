package training

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// Machines are judged by silence: a stream that broke and was not restored, or one that is open but idle. Silence is no proof. Three rules
// prevent false conclusions:
//
//   - Silence counts only while the controller was listening (Awake): one that was stopped has received nothing.
//   - After an absence, a machine whose stream broke has as long as any other to call again: agents end streams that do not
//     answer, too.
//   - Machines fail one by one, or by evictions, which the provider reports, or their hosts end their streams. When most just
//     fall silent together, it is this host or its network: an outage.
//
// Decision 10 lists the rejected alternatives: a detector that learns the delay of heartbeats, asking through other machines, more
// patience.

// outage is a silence of most machines.
type outage struct {
	since time.Time // by Step.Awake
}

// failureDetector gives up machines that have been silent too long.
type failureDetector struct {
	*step.Step
	cfg      *Config
	machines Machines
	nodes    *nodes
	layout   *layout

	outage *outage   // most machines have fallen silent together
	Next   time.Time // no machine is silent too long before this time
	Gave   time.Time // when it last gave machines up: see together

	// Next follows from the machines heard longest ago: it stays as it is until one is heard again.
	Stale         bool // others may
	called, quiet longestSilent
	broken        []*Node // whose streams broke, including some that have reconnected or ended since
}

// longestSilent is the machine that has been silent longest, and since when; nil = none.
type longestSilent struct {
	of *Node
	at time.Time
}

// holds reports whether that is still true.
func (h longestSilent) holds(called bool) bool {
	return h.of == nil || !h.of.Lost && !h.of.Ended && (h.of.Address == "") == called && h.of.Heard.Equal(h.at)
}

// before adds another machine.
func (h *longestSilent) before(m *Node) {
	if h.of == nil || m.Heard.Before(h.at) {
		*h = longestSilent{m, m.Heard}
	}
}

// OutageFor is the multiple of DeadAfter for which a silence of most machines is tolerated. Provider listings and evictions still end
// machines meanwhile.
const OutageFor = 10

func (si *failureDetector) outageFor() time.Duration { return OutageFor * si.cfg.DeadAfter }

// together returns when machines may be given up again. Those of a bulk eviction fall silent one by one within milliseconds, and giving up
// each one involves examining all.
func (si *failureDetector) together() time.Time { return si.Gave.Add(si.cfg.BrokenAfter / 10) }

// GiveUp gives up machines that have been silent too long.
func (si *failureDetector) GiveUp() {
	if si.outage == nil && (si.Now.Before(si.Next) || si.Now.Before(si.together())) {
		return
	}
	silent := false // a machine is silent too long, and nothing else explains it
	for _, m := range si.nodes.Roster {
		switch {
		case m.Lost || m.Ended:
		case m.Address == "":
			if si.Awake.Over(m.Heard, si.cfg.BootWithin) {
				si.giveUp(m, fmt.Sprintf("its agent did not call in %.0f s", si.Wall(si.cfg.BootWithin)))
			}
		default:
			why := si.why(m)
			if why != "" && m.hungUp && !m.BrokenAt.IsZero() {
				si.giveUp(m, why)
			} else {
				silent = silent || why != ""
			}
		}
	}
	if si.inOutage(silent) {
		return
	}
	for _, m := range si.nodes.Roster {
		if m.Lost || m.Ended || m.Address == "" {
			continue
		}
		if why := si.why(m); why != "" {
			si.giveUp(m, why)
		}
	}
}

func (si *failureDetector) giveUp(m *Node, why string) {
	si.Gave = si.Now
	si.machines.GiveUp(m.Machine, why)
}

// why returns why a machine that has called should be given up for its silence; empty = it should not.
func (si *failureDetector) why(m *Node) string {
	switch {
	case !m.BrokenAt.IsZero() && si.Awake.Over(m.BrokenAt, si.brokenPatience(m)):
		return "its stream broke and did not come back"
	case si.Awake.Over(m.Heard, si.patience(m)):
		return fmt.Sprintf("silent for %.1f s", si.Wall(si.Awake.Now().Sub(m.Heard)))
	}
	return ""
}

// hangUpWithin bounds the silence before a stream breaks for the break to count as the end of the machine's process, as reported by its
// host. The controller itself closes streams that are silent for longer, which is no evidence.
func (si *failureDetector) hangUpWithin() time.Duration {
	return si.cfg.Market(min(3*si.cfg.Job.Heartbeat, 8*time.Second))
}

// inOutage reports whether most machines are silent, so that none is given up for it. Silent: one has been silent too long.
func (si *failureDetector) inOutage(silent bool) bool {
	h := si.outage
	if h == nil && !silent {
		return false
	}
	unheard, all := 0, 0
	for _, m := range si.nodes.Roster {
		if !m.alive() || m.Warned || m.hungUp && !m.BrokenAt.IsZero() {
			continue // their silence says nothing about the others
		}
		all++
		if !m.BrokenAt.IsZero() || si.Awake.Now().Sub(m.Heard) >= si.cfg.DeadAfter/2 {
			unheard++
		}
	}
	most := unheard > 1 && 2*unheard > all
	switch {
	case h == nil && !most:
		return false
	case h == nil:
		si.outage = &outage{since: si.Awake.Now()}
		si.recordOutage(journal.Waiting, unheard, fmt.Sprintf("%d of %d machines have fallen silent together: this host is too busy, or its network is down. "+
			"Until they answer, or for %.0f s, no machine is given up for silence and nothing is bought", unheard, all, si.Wall(si.outageFor())))
		return true
	case most && !si.Awake.Over(h.since, si.outageFor()):
		return true
	}
	si.outage = nil
	si.machines.Replan()
	waited := si.Wall(si.Awake.Now().Sub(h.since))
	if most {
		si.recordOutage(journal.GivenUp, unheard, fmt.Sprintf("%d of %d machines have not answered for another %.0f s: they are given up", unheard, all, waited))
		return false
	}
	si.recordOutage(journal.Heard, unheard, fmt.Sprintf("most machines are no longer silent, after another %.1f s: %d of %d are", waited, unheard, all))
	si.Awake.Resume() // the others get time to call, too
	return true
}

func (si *failureDetector) recordOutage(to string, unheard int, why string) {
	si.Record(func() journal.Entry { return journal.Entry{Kind: journal.Silence, To: to, Count: unheard, Why: why} })
}

// brokenPatience returns how long a machine whose stream broke may take to reconnect.
func (si *failureDetector) brokenPatience(m *Node) time.Duration {
	if si.Awake.JustResumed(m.BrokenAt) {
		return max(si.cfg.BrokenAfter, si.cfg.DeadAfter)
	}
	return si.cfg.BrokenAfter
}

// patience returns how long a machine may be silent. If a machine is the only holder of partitions, as owner and backup, all work since the
// last checkpoint is lost with it: on a busy host, waiting for it costs less. (A broken stream, or the provider's report, ends it as soon
// as any other machine.)
func (si *failureDetector) patience(m *Node) time.Duration {
	if m.Tier == tiers.Reliable && si.layout.Standing() {
		for p, owner := range si.layout.Route.Owner {
			// A backup that was just named has nothing before the next cut: keep waiting.
			if backup := si.layout.Route.Backup[p]; owner == m.ID && (backup == m.ID || backup == "" || m.Keeps) {
				return 3 * si.cfg.DeadAfter
			}
		}
	}
	return si.cfg.DeadAfter
}

// next returns when GiveUp may next give a machine up, if nothing is heard until then.
func (si *failureDetector) next() time.Time {
	if si.outage != nil {
		return si.Awake.NextBeat()
	}
	next := si.Now.Add(step.Never)
	by := func(t time.Time, wait time.Duration) {
		if t.IsZero() {
			return
		}
		if at := si.Awake.Due(t, wait); at.Before(next) {
			next = at
		}
	}
	if si.Stale || !si.called.holds(true) || !si.quiet.holds(false) {
		si.Stale, si.broken, si.called, si.quiet = false, si.broken[:0], longestSilent{}, longestSilent{}
		for _, m := range si.nodes.Roster {
			switch {
			case m.Lost || m.Ended:
			case m.Address == "":
				si.called.before(m)
			default:
				if m.Tier != tiers.Reliable {
					si.quiet.before(m)
				}
				if !m.BrokenAt.IsZero() {
					si.broken = append(si.broken, m)
				}
			}
		}
	}
	si.broken = slices.DeleteFunc(si.broken, func(m *Node) bool { return m.BrokenAt.IsZero() || m.Address == "" || m.Lost || m.Ended })
	var usual, later *Node // those that broke first, by patience
	for _, m := range si.broken {
		first := &usual
		if si.Awake.JustResumed(m.BrokenAt) {
			first = &later
		}
		if *first == nil || m.BrokenAt.Before((*first).BrokenAt) {
			*first = m
		}
	}
	for _, m := range []*Node{usual, later} {
		if m != nil {
			by(m.BrokenAt, si.brokenPatience(m))
		}
	}
	for _, m := range si.nodes.reliable {
		if !m.Lost && !m.Ended && m.Address != "" {
			by(m.Heard, si.patience(m))
		}
	}
	by(si.called.at, si.cfg.BootWithin)
	by(si.quiet.at, si.cfg.DeadAfter)
	if again := si.together(); next.Before(again) {
		return again
	}
	return next
}

// lookAgain schedules the next check for silent machines.
func (si *failureDetector) lookAgain(by time.Time) {
	if by.Before(si.Next) {
		si.Next = by
	}
	if by.Before(si.RestUntil) {
		si.RestUntil = by
	}
}

// Disconnected handles a broken stream.
func (si *failureDetector) Disconnected(id step.ID) {
	if m := si.nodes.ByID[id]; m != nil && m.BrokenAt.IsZero() {
		si.broken = append(si.broken, m)
		m.BrokenAt, m.hungUp = si.Awake.Now(), !si.Awake.Over(m.Heard, si.hangUpWithin())
		si.lookAgain(si.Now.Add(si.cfg.BrokenAfter))
	}
}
