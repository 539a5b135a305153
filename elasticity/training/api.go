package training

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// New returns training that has not begun.
func New(cfg *Config, s *step.Step, machines Machines) *Training {
	schema := &cfg.Job.Schema
	t := &Training{Step: s, cfg: cfg, machines: machines}
	t.Pause.t = t
	t.Nodes = &nodes{Step: s, ByID: make(map[ps.ServerID]*Node, step.UsualFleet), callers: map[ps.ServerID]tiers.Hello{}, lastID: cfg.FirstID}
	t.Layout = &layout{Step: s, cfg: cfg, nodes: t.Nodes, Generation: max(cfg.FirstGeneration, 1), Stage: tiers.Stage1,
		Splits: make([]splitState, schema.Splits), between: schema.Splits, Moves: map[ps.Partition]ps.ServerID{}}
	for i := range t.Layout.Splits {
		t.Layout.Splits[i].next = cfg.Job.ResumeAt + 1
	}
	t.Layout.Route.Owner = make([]ps.ServerID, schema.Partitions)
	t.Layout.Route.Backup = make([]ps.ServerID, schema.Partitions)
	done := newProgress(schema.Splits, cfg.Job.ResumeAt)
	t.Load = &load{Step: s, cfg: cfg, nodes: t.Nodes, layout: t.Layout, progress: &done,
		held: func() bool { return t.Recovery != nil || t.Halt != nil || t.Pause.AtRest }}
	t.Clocks = &clocks{Step: s, progress: &done, cfg: cfg, nodes: t.Nodes, layout: t.Layout, load: t.Load}
	t.Saves = &saves{Step: s, cfg: cfg, nodes: t.Nodes, layout: t.Layout}
	t.Cuts = &cuts{Step: s, cfg: cfg, machines: machines, nodes: t.Nodes, layout: t.Layout, load: t.Load, clocks: t.Clocks, saves: t.Saves,
		Committed: cfg.Job.ResumeAt}
	t.Silence = &failureDetector{Step: s, cfg: cfg, machines: machines, nodes: t.Nodes, layout: t.Layout}
	var known tiers.Profile
	if cfg.Past != nil {
		known = cfg.Past.Profile
	}
	t.profile = profile{Step: s, layout: t.Layout, of: tiers.NewProfiler(schema.Partitions, known)}
	t.Clocks.after = func(clock ps.Clock, loss *float64) {
		t.profile.clockDone(clock, t.Clocks.Seconds)
		t.tuned.clock(t, clock, loss)
	}
	if cfg.Tune != nil && !s.Silent {
		t.tuned.brain = tuning.New(*cfg.Tune)
	}
	switch before := cfg.Job.Before; {
	case cfg.Past != nil:
		t.restore(cfg.Past)
	case before != nil:
		t.Clocks.furthest = max(t.Clocks.furthest, before.Furthest)
		t.Clocks.measured(before.Figures)
	}
	return t
}

// Begin is the first step.
func (t *Training) Begin() {
	how := &t.cfg.Checkpoints
	if known := t.profile.of.Profile(); known.Known() {
		t.Do(Profiled{tiers.Served{Profile: known}})
	}
	t.Saves.Newest, t.Saves.At, t.Saves.Older, t.Saves.due = how.Newest, how.NewestAt, how.Older, t.Now.Add(how.Every)
	if t.adopting != nil {
		t.adopting.since = t.Awake.Now()
		for _, m := range t.Nodes.Roster {
			m.Heard = t.Awake.Now()
		}
		t.Silence.Stale = true
	}
}

// Advance does whatever the state now requires. Each part depends only on the state, so that their order affects only latency: recovery
// comes first, then halts, which wait for moves and handovers.
func (t *Training) Advance() {
	if t.Layout.Due && !t.Now.Before(t.Layout.Gathering) {
		t.layOut()
	}
	t.advanceRecovery()
	t.spreadRoute()
	t.advanceSettle()
	t.Pause.advance()
	if t.Halt == nil { // otherwise it is in progress
		t.Cuts.planFlush(t.Recovery != nil)
	}
	t.Layout.hurryMoves(t.wantsHalt() || t.unsettled())
	t.advanceHalt()
	t.advanceBackups()
	t.advanceMoves()
	t.advanceSplits()
	if t.Halt == nil && t.Recovery == nil && !t.Pause.AtRest && !t.wantsHalt() {
		t.Cuts.advance()
	}
	t.Saves.Advance()
}

// Look schedules the next check by GiveUp, if nothing is heard until then, and reports whether that is now: an action may have shortened a
// silent machine's patience (see patience). Restless reports whether the next step may have something to do, whatever happens: a flush's
// remaining time changes by itself, and any message may end an outage.
func (t *Training) Look() (now, restless bool) {
	if t.adopting == nil { // which also checks for lost machines
		t.Nodes.prune()
	}
	t.Silence.Next = t.Silence.next()
	return !t.Now.Before(t.Silence.Next), t.Layout.WantsFlush() || t.Silence.outage != nil
}

// NextDue calls by with each time at which something other than a cut is due even without events.
func (t *Training) NextDue(by func(time.Time)) {
	by(t.Layout.MoveRetry)
	by(t.Layout.Gathering)
	by(t.Saves.saveEnds())
	if t.adopting != nil {
		by(t.Awake.Due(t.adopting.since, t.cfg.adoptWithin()))
	}
	if t.Halt != nil {
		by(t.Halt.Retry)
	}
	if !t.ReadySince.IsZero() {
		by(t.ReadySince.Add(t.cfg.JoinWait))
	}
	by(t.Silence.Next)
}

// Settled reports whether nothing is in transit between machines. A split whose release was requested counts, even if it will return to the
// same machine.
func (t *Training) Settled() bool {
	return !t.Layout.HandingOver() && t.Recovery == nil && t.Settle == nil && t.Halt == nil && !t.Layout.Due && len(t.Layout.Moves) == 0
}

// OnlyCuts reports whether a cut is due, nothing delays it, and nothing else is in progress. There must be no checkpoints either, which
// follow cuts.
func (t *Training) OnlyCuts(now time.Time) bool {
	return t.Cuts.Due.Equal(now) && t.Cuts.Cut == nil && t.Nodes.Commands.open == 0 && t.Settled() && t.adopting == nil && t.Layout.Standing() &&
		!t.Layout.Bare() && !t.Pause.AtRest && !t.wantsHalt() && t.cfg.Checkpoints.Place == ""
}

// Need returns the work's needs.
func (t *Training) Need() step.Need {
	return step.Need{
		Standing: t.Layout.Standing(), Begun: t.Layout.Stood, Recovering: t.Recovery != nil, TakingOver: t.adopting != nil, Done: t.Clocks.Over(),
		Outage: t.Silence.outage != nil, Gathering: t.Now.Before(t.Layout.Gathering),
		Idle: t.cfg.Job.Standby != nil && !slices.ContainsFunc(t.Nodes.Roster, func(m *Node) bool { return m.Tier == tiers.Transient && !m.Lost && m.Staying() }),
	}
}

// Progress returns how far the work has got.
func (t *Training) Progress() step.Progress {
	return step.Progress{Done: int64(t.Clocks.Done), Saved: int64(t.Saves.At), Whole: int64(t.cfg.Job.Clocks), Clock: t.cfg.Market(time.Duration(t.Clocks.Seconds * float64(time.Second)))}
}

// Bare reports whether anything lacks a second copy.
func (t *Training) Bare() bool { return t.Layout.Bare() }

// Enter adds a bought machine.
func (t *Training) Enter(m *step.Machine, kind step.Kind) {
	n := &Node{Machine: m, Heard: t.Awake.Now(), Incarnation: ps.Incarnation(m.Number), kind: kind}
	t.Nodes.ByID[m.ID] = n
	t.Nodes.seat(n)
	t.Silence.Stale = true
	if m.Lost && m.Joined > 0 {
		t.Nodes.dead = append(t.Nodes.dead, n)
	}
	if t.adopting != nil && m.Member() {
		t.adopting.members = append(t.adopting.members, m.ID)
	}
}

// Entered processes a first call that arrived before the machine was known.
func (t *Training) Entered(m *step.Machine) {
	hello, called := t.Nodes.callers[m.ID]
	delete(t.Nodes.callers, m.ID)
	if called && !m.Ended {
		t.takeHello(t.Nodes.ByID[m.ID], hello)
	}
}

// Archive removes machines that can no longer have an effect.
func (t *Training) Archive() {
	archived := func(m *Node) bool { return m.Archived }
	t.Nodes.Roster, t.Nodes.reliable = slices.DeleteFunc(t.Nodes.Roster, archived), slices.DeleteFunc(t.Nodes.reliable, archived)
}

// Idle reports whether a machine has no work.
func (t *Training) Idle(m *step.Machine) bool { return t.Nodes.ByID[m.ID].Splits == 0 }

// Holds reports whether a departing machine still has something that others need.
func (t *Training) Holds(m *step.Machine) bool {
	n := t.Nodes.ByID[m.ID]
	return n.Joined > 0 && (t.Layout.OwnsAny(n.ID) || n.Splits > 0 || n.Keeps || slices.Contains(t.Layout.Route.Backup, n.ID))
}

// Connected reports whether a machine's agent has been heard recently.
func (t *Training) Connected(m *step.Machine) bool {
	n := t.Nodes.ByID[m.ID]
	return !n.Lost && n.Address != "" && !t.Awake.Over(n.Heard, t.cfg.DeadAfter)
}

// Rearrange marks the layout as outdated: the set of staying machines has changed.
func (t *Training) Rearrange() { t.Layout.Due = true }

// Warned handles a machine's eviction notice. It reports whether it changes more than further notices of an eviction do.
func (t *Training) Warned(m *step.Machine) (due bool) {
	la := t.Layout
	// While notices are being gathered, one for a machine that only works joins them, unless moves must hurry because of it.
	due = !la.Due || !t.Now.Before(la.Gathering) || m.Joined == 0 || m.Tier == step.Reliable || la.OwnsAny(m.ID) || len(la.Moves) > 0 && !la.hurried
	la.Due = true
	if m.Tier == step.Reliable { // save what it holds
		t.Cuts.SaveNow()
	}
	if !t.Now.Before(la.Gathering) {
		la.Gathering = t.Now.Add(t.cfg.NoticeWait)
	}
	return due
}

// CutShort ends all work: machines are being terminated.
func (t *Training) CutShort() {
	t.Cuts.Cut, t.Halt, t.Recovery, t.Settle, t.Saves.Current = nil, nil, nil, nil, nil
	clear(t.Layout.Moves)
}

// Park lets all workers finish what they have begun, and saves the committed cut if possible.
func (t *Training) Park() {
	for _, m := range t.Nodes.reachable() {
		t.Nodes.send(m.ID, tiers.Park{})
	}
	t.Saves.saveCommitted(t.Cuts.Committed)
}
