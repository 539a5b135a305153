// Package training decides how machines train: who serves and who works (layout), when everything is cut, halted, saved and
// brought back after losses, and how it goes on when the controller is started again. It is told which machines there are,
// and asks for no others. It refuses to know what machines cost, where they come from and why they go: it names no pool and
// no price.
//
// Each file uses those before it: nodes, layout, progress and load, saving, pace and cuts, flush, silence, and then what
// needs all of them: moves, join, halt, settling, recovery, adopt, contact.
package training

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Config is what training needs to know beforehand: see elasticity.Config.
type Config struct {
	tempo.Settings
	Job         Job
	Stages      tiers.Thresholds
	Load        tiers.LoadRule
	Checkpoints Checkpoints
	Past        *Log // nil = the run begins

	FirstID         uint64
	FirstGeneration ps.Generation

	CutsUnpaced bool
}

// Job is what is trained.
type Job struct {
	Schema      ps.Schema
	App         string
	Params      map[string]string
	Dataset     []byte // what was learned about the data when it was cut, for the application
	SplitsURL   string
	Clocks      ps.Clock
	Work        float64 // of all clocks, in vCPU hours at the declared rates, for the policy; 0 = unknown
	EvalEvery   ps.Clock
	Stop        stopping.Rules // end before all clocks are done
	Figure      string         // what people call the figure that Metric gives
	Heartbeat   time.Duration  // wall clock
	OrphanAfter time.Duration  // wall clock
	// Metric turns a mean loss per example into the figure that people read (RMSE: the square root); nil leaves
	// it as it is.
	Metric func(mean float64) float64
	// ResumeFrom is a checkpoint at clock ResumeAt; empty starts from the initial state.
	ResumeFrom string
	ResumeAt   ps.Clock
}

func (c *Config) loadRule() tiers.LoadRule {
	if c.Load == (tiers.LoadRule{}) {
		return tiers.DefaultLoadRule()
	}
	return c.Load
}

// Machines is the fleet, as training sees it. Each call may come back as one of Training's (Lose).
type Machines interface {
	// GiveUp declares a machine dead, and has it terminated.
	GiveUp(m *step.Machine, why string)
	// Crashed: its agent ended by itself, or could not do what it was asked for.
	Crashed(m *step.Machine, why, log string)
	Terminate(m *step.Machine, why string)
	// Ready: it has answered its welcome.
	Ready(m *step.Machine)
	// Reorder is due when machines have been given places in the order of joining, before Joined.
	Reorder()
	// Joined: it takes part. The fleet completes the line.
	Joined(m *step.Machine, line func() journal.Entry)
	// Lost: nothing more is expected of it. Ready: it had been.
	Lost(m *step.Machine, ready bool)
	// Warned: it has heard of its own end, or (rebalance) of a raised risk.
	Warned(id step.ID, deadline time.Time, rebalance bool) (stirs bool)
	// Called: a machine has called that training does not know.
	Called(id step.ID)
	// Surveyed reports whether the provider has said which machines there are of a run that is taken over.
	Surveyed() bool
	// TakenOver: all machines are accounted for, and StartedOver: no reliable one serves.
	TakenOver()
	StartedOver()
	// Progressed: work has been done that will not be lost.
	Progressed()
	// Replan: the policy is to be asked again, and PlanDue reports whether it will be.
	Replan()
	PlanDue() bool
}

// Training is the state of the work.
type Training struct {
	*step.Step
	cfg      *Config
	machines Machines

	Nodes    *nodes
	Layout   *layout
	Load     *load
	Clocks   *clocks
	Saves    *saves
	Cuts     *cuts
	Silence  *silence
	Halt     *Halting
	Settle   *settling
	Recovery *recovery
	adopting *adoption // while a run is being taken over

	ReadySince time.Time // when the first of the machines that wait to join was ready
	Totals     Totals
}

// Totals is what training has come to.
type Totals struct {
	Rollbacks int
	Lost      ps.Clock // clocks that roll-backs undid
}

// New returns training that has not begun.
func New(cfg *Config, s *step.Step, machines Machines) *Training {
	schema := &cfg.Job.Schema
	t := &Training{Step: s, cfg: cfg, machines: machines}
	t.Nodes = &nodes{Step: s, ByID: map[ps.ServerID]*Node{}, callers: map[ps.ServerID]tiers.Hello{}, Commands: map[uint64]sent{}, lastID: cfg.FirstID}
	t.Layout = &layout{Step: s, cfg: cfg, nodes: t.Nodes, Generation: max(cfg.FirstGeneration, 1), Stage: tiers.Stage1,
		Splits: make([]splitState, schema.Splits), between: schema.Splits, Moves: map[ps.Partition]ps.ServerID{}}
	for i := range t.Layout.Splits {
		t.Layout.Splits[i].next = cfg.Job.ResumeAt + 1
	}
	t.Layout.Route.Owner = make([]ps.ServerID, schema.Partitions)
	t.Layout.Route.Backup = make([]ps.ServerID, schema.Partitions)
	done := newProgress(schema.Splits, cfg.Job.ResumeAt)
	t.Load = &load{Step: s, cfg: cfg, nodes: t.Nodes, layout: t.Layout, progress: &done,
		held: func() bool { return t.Recovery != nil || t.Halt != nil }}
	t.Clocks = &clocks{Step: s, progress: &done, cfg: cfg, nodes: t.Nodes, layout: t.Layout, load: t.Load}
	t.Saves = &saves{Step: s, cfg: cfg, nodes: t.Nodes, layout: t.Layout}
	t.Cuts = &cuts{Step: s, cfg: cfg, machines: machines, nodes: t.Nodes, layout: t.Layout, load: t.Load, clocks: t.Clocks, saves: t.Saves,
		Committed: cfg.Job.ResumeAt}
	t.Silence = &silence{Step: s, cfg: cfg, machines: machines, nodes: t.Nodes, layout: t.Layout}
	if cfg.Past != nil {
		t.remember(cfg.Past)
	}
	return t
}

// Begin is the first step.
func (t *Training) Begin() {
	how := &t.cfg.Checkpoints
	t.Saves.Newest, t.Saves.At, t.Saves.Older, t.Saves.due = how.Newest, how.NewestAt, how.Older, t.Now.Add(how.Every)
	if t.adopting != nil {
		t.adopting.since = t.Awake.Now()
		for _, m := range t.Nodes.Roster {
			m.Heard = t.Awake.Now()
		}
	}
}

// Need returns what the work asks for.
func (t *Training) Need() step.Need {
	return step.Need{
		Standing: t.Layout.Standing(), Begun: t.Layout.Stood, Recovering: t.Recovery != nil, TakingOver: t.adopting != nil, Done: t.Clocks.Over(),
		Hushed: t.Silence.hush != nil, Gathering: t.Now.Before(t.Layout.Gathering),
	}
}

// Bare reports whether something has no second copy.
func (t *Training) Bare() bool { return t.Layout.Bare() }

// Done is how much of the work is done, of how much.
func (t *Training) Done() (done, of int64) { return int64(t.Clocks.Done), int64(t.cfg.Job.Clocks) }

// Enter takes a bought machine up.
func (t *Training) Enter(m *step.Machine, kind step.Kind) {
	n := &Node{Machine: m, Heard: t.Awake.Now(), Incarnation: ps.Incarnation(m.Number), Loaded: make([]bool, len(t.Layout.Splits)), kind: kind}
	t.Nodes.ByID[m.ID] = n
	t.Nodes.seat(n)
	if t.adopting != nil && m.Member() {
		t.adopting.members = append(t.adopting.members, m.ID)
	}
}

// Entered lets a machine's first call count that came before it was known.
func (t *Training) Entered(m *step.Machine) {
	hello, called := t.Nodes.callers[m.ID]
	delete(t.Nodes.callers, m.ID)
	if called && !m.Ended {
		t.takeHello(t.Nodes.ByID[m.ID], hello)
	}
}

// Archive forgets machines of which nothing can come any more.
func (t *Training) Archive() {
	t.Nodes.Roster = slices.DeleteFunc(t.Nodes.Roster, func(m *Node) bool { return m.Archived })
}

// Idle reports whether a machine has no work.
func (t *Training) Idle(m *step.Machine) bool { return t.Nodes.ByID[m.ID].Splits == 0 }

// Holds reports whether a machine that is to leave still has something that others need.
func (t *Training) Holds(m *step.Machine) bool {
	n := t.Nodes.ByID[m.ID]
	return n.Joined > 0 && (t.Layout.OwnsAny(n.ID) || n.Splits > 0 || n.Keeps || slices.Contains(t.Layout.Route.Backup, n.ID))
}

// Talks reports whether a machine's agent has been heard of lately.
func (t *Training) Talks(m *step.Machine) bool {
	n := t.Nodes.ByID[m.ID]
	return !n.Lost && n.Address != "" && !t.Awake.Over(n.Heard, t.cfg.DeadAfter)
}

// Rearrange has the layout looked at again: which machines stay has changed.
func (t *Training) Rearrange() { t.Layout.Due = true }

// Warned: a machine has an eviction notice. It reports whether there is more to do than when others have one already.
func (t *Training) Warned(m *step.Machine) (stirs bool) {
	la := t.Layout
	// When notices are gathered already, the next one that comes to a mere worker is one more of them.
	stirs = !la.Due || !t.Now.Before(la.Gathering) || m.Joined == 0 || m.Tier == step.Reliable || la.OwnsAny(m.ID)
	la.Due = true
	if m.Tier == step.Reliable { // what it holds is saved
		t.SaveNow()
	}
	if !t.Now.Before(la.Gathering) {
		la.Gathering = t.Now.Add(t.cfg.NoticeWait)
	}
	return stirs
}

// SaveNow has the next cut named at once, and saved.
func (t *Training) SaveNow() { t.Saves.wanted, t.Cuts.Due = true, t.Now }

// CutShort ends all work: machines are being terminated for good.
func (t *Training) CutShort() {
	t.Cuts.Cut, t.Halt, t.Recovery, t.Settle, t.Saves.Current = nil, nil, nil, nil, nil
	clear(t.Layout.Moves)
}

// Park has everybody finish what they have begun, and saves the committed cut if that can be.
func (t *Training) Park() {
	for _, m := range t.Nodes.reachable() {
		t.Nodes.send(m.ID, tiers.Park{})
	}
	t.Saves.saveCommitted(t.Cuts.Committed)
}

// Disconnected: a machine's stream broke.
func (t *Training) Disconnected(id step.ID) {
	if m := t.Nodes.ByID[id]; m != nil && m.BrokenAt.IsZero() {
		m.BrokenAt, m.hungUp = t.Awake.Now(), !t.Awake.Over(m.Heard, t.Silence.hangUpWithin())
		t.Silence.lookAgain(t.Now.Add(t.cfg.BrokenAfter))
	}
}

func (t *Training) layOut() {
	t.Layout.Due = false
	if t.Layout.Standing() && t.Recovery == nil && !t.Ending {
		t.Load.layOut()
	}
}
