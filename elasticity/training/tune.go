package training

import (
	"slices"

	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// tuned carries out the tuner's decisions: which machines serve and which work. A setting takes effect like any change of the layout:
// partitions move while they serve, and splits change hands between two clocks.
type tuned struct {
	brain *tuning.Brain
	at    disturbances // at the end of the last clock
}

// disturbances is a fingerprint: equal values before and after a clock mean that nothing disturbed it.
type disturbances struct {
	generation ps.Generation
	route      uint64
	handed     int
	joins      int
	committed  ps.Clock
}

func disturbancesOf(t *Training) disturbances {
	return disturbances{t.Layout.Generation, t.Layout.Route.Version, t.Layout.handed, t.Nodes.joins, t.Cuts.Committed}
}

// resume restores an earlier controller's decision.
func (u *tuned) resume(la *layout, past []tuning.Past) {
	if u.brain == nil {
		return
	}
	if d, ok := u.brain.Remember(past); ok {
		la.use(d)
	}
}

// clock reports a completed clock to the brain, and carries out its decision.
func (u *tuned) clock(t *Training, clock ps.Clock, loss *float64) {
	if u.brain == nil || t.Ending || t.Stop != "" || clock >= t.cfg.Job.Clocks {
		return
	}
	d, asked := u.brain.Clock(u.report(t, clock, loss))
	if !asked {
		return
	}
	t.Record(func() journal.Entry {
		details, _ := journal.Pack(d.Details) // consists of finite numbers and text
		return journal.Entry{Kind: journal.Tune, From: d.From, To: d.To, Clock: int64(clock), Why: d.Why, Details: details}
	})
	t.Layout.use(d)
}

// report returns what the brain has to know about a clock.
func (u *tuned) report(t *Training, clock ps.Clock, loss *float64) tuning.Report {
	before, now := u.at, disturbancesOf(t)
	u.at = now
	members := t.Nodes.tierMembers()
	transient, reliable := tiers.Count(members)
	fleet := tuning.Fleet{Machines: transient}
	for _, m := range members {
		if m.Tier == tiers.Transient && !m.Leaving {
			fleet.Rate += m.Rate
		}
	}
	r := tuning.Report{
		Clock: int64(clock), Seconds: t.Clocks.Seconds, Fleet: fleet, Default: t.Load.untuned(transient, reliable),
		Disturbed: now.generation != before.generation || now.joins != before.joins || t.Layout.Servers > 0 || t.Recovery != nil || t.Halt != nil ||
			t.unsettled() || t.adopting != nil || t.Now.Before(t.Layout.Gathering) || t.Layout.WantsFlush() || t.Silence.outage != nil ||
			t.Awake.JustResumed(t.Awake.Now()),
		Moving: now.route != before.route || now.handed != before.handed || !t.Settled() || !t.Layout.inPlace(),
		Cut:    t.Cuts.Cut != nil || now.committed != before.committed || t.Saves.Current != nil,
	}
	if loss != nil {
		r.Loss = *loss
	}
	return r
}

// use adopts a setting. An owner that is about to go comes first: it is already in the layout, or follows.
func (la *layout) use(d tuning.Decision) {
	if d.Setting == nil {
		la.Due = la.Due || la.tuned != nil
		la.tuned = nil
		return
	}
	if la.tuned == nil || *la.tuned != *d.Setting || la.tunedFor != d.Machines {
		la.tuned, la.tunedFor, la.Due = d.Setting, d.Machines, true
	}
}

// setting returns the tuned setting, if it is for about the present number of transient machines. Numbers requested by people have
// priority.
func (la *layout) setting(transient int) (s tuning.Setting, ok bool) {
	if la.tuned == nil || la.Servers > 0 || 2*transient < la.tunedFor || transient > 2*la.tunedFor {
		return s, false
	}
	s = *la.tuned
	s.Servers = min(s.Servers, transient)
	s.Apart = s.Apart && s.Servers < transient // some machines work
	return s, true
}

// stageOf returns the stage that a setting amounts to.
func stageOf(s tuning.Setting) tiers.Stage {
	switch {
	case s.Servers == 0:
		return tiers.Stage1
	case s.Rest:
		return tiers.Stage3
	}
	return tiers.Stage2
}

// serveOnly removes work from the oldest transient machines, which serve.
func serveOnly(members []tiers.Member, servers int) {
	for i := range members {
		if m := &members[i]; m.Tier == tiers.Transient && !m.Leaving && servers > 0 {
			m.NoWork = true
			servers--
		}
	}
}

// leaveWork removes work from reliable machines if others can do it, and with begun from those whose program is not ready while others'
// are: a split of a leaving machine would wait for its start.
func leaveWork(members []tiers.Member, begun bool) {
	works := func(m tiers.Member) bool { return m.Tier == tiers.Transient && !m.NoWork }
	up := func(m tiers.Member) bool { return works(m) && len(m.Loaded) > 0 }
	if !slices.ContainsFunc(members, works) {
		return
	}
	begun = begun && slices.ContainsFunc(members, up)
	for i := range members {
		if m := &members[i]; m.Tier == tiers.Reliable || begun && !up(*m) {
			m.NoWork = true
		}
	}
}

// loadAhead makes machines load all splits before any is assigned to them, once others work: then their programs are ready.
func (t *Training) loadAhead() {
	if t.cfg.Job.Standby == nil || !t.Layout.onlyServes() {
		return
	}
	for _, m := range t.Nodes.Members() {
		if m.Tier != tiers.Transient || !m.alive() || m.noWork() || m.Loading || len(m.Loaded) > 0 {
			continue
		}
		all := make([]ps.Split, len(t.Layout.Splits))
		for i := range all {
			all[i] = ps.Split(i)
		}
		m.Loading = true
		t.Nodes.send(m.ID, tiers.Load{Splits: all})
	}
}

// untuned returns the stage's own setting.
func (ld *load) untuned(transient, reliable int) tuning.Setting {
	var s tuning.Setting
	stage := ld.stageBy(transient, reliable)
	if s.Rest = stage == tiers.Stage3; stage != tiers.Stage1 {
		s.Servers = ld.cfg.Stages.Serving(transient)
	}
	return s
}
