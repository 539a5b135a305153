package training

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// splitState is the holder of a split.
type splitState struct {
	Holder    ps.ServerID // none while it changes hands
	by        *Node       // the holder; nil = none or unknown
	next      ps.Clock    // first clock not begun; known while it has no holder
	releasing bool        // its holder was told to release it
}

// arrangement is the input that the target was last computed from.
type arrangement struct {
	now     tiers.Layout
	members []tiers.Member
	loads   []int // counters of changes to the members' data
	stage   tiers.Stage
	serving int
}

// layout is where everything is, and where it should be: owners and backups of partitions, workers of splits.
//
// Route and Splits are the former, Target the latter. When members, loads or the stage change (Due), the target is computed by a pure
// function that keeps in place whatever can stay (tiers.Arrange). Moves and hand-overs then lead to it. They may fail, and the target may
// change meanwhile: each step looks only at the difference between the two.
//
// Invariant: a partition has one owner in Route at any time. A move changes it when the new owner has acknowledged the last message.
type layout struct {
	*step.Step
	cfg   *Config
	nodes *nodes

	Generation ps.Generation
	Stage      tiers.Stage
	Stood      bool // the job has begun: the journal has its stage
	Route      ps.Route
	routeNews  bool // owners changed since the last broadcast
	Splits     []splitState
	between    int // splits without a holder, or being released
	idle       idleSplits
	Moves      map[ps.Partition]ps.ServerID
	MoveRetry  time.Time
	rotating   *rotation // all partitions should change places
	preferred  tiers.Preference
	hurried    bool  // moves no longer wait for a window
	moved      moved // cost of the moves since the last journal line about them

	Due       bool            // the target is outdated
	Gathering time.Time       // until then notices are gathered before any decision
	Servers   int             // requested; 0 = the stage's number
	tuned     *tuning.Setting // by the tuner; nil = the stage decides
	tunedFor  int             // number of transient machines that it applies to
	handed    int             // how often a split has changed hands
	Target    tiers.Layout
	takers    []*Node       // Index: Split; those of Target.Worker, nil if unknown
	workers   []ps.ServerID // of Target, each once, in order; nil = not computed yet
	arranged  arrangement   // inputs of the target
	// Kept to reuse their memory.
	spareLoads   []int
	spareWorkers []ps.ServerID
}

// idleSplits are those whose holder should change and for which advanceSplits has something to do.
type idleSplits struct {
	free    int  // have no holder
	held    int  // not being released
	lacking bool // a taker may have to load some first
}

// count adds a split or, before it changes, removes it (-1).
func (la *layout) count(split ps.Split, by int) {
	switch s := &la.Splits[split]; {
	case !la.isMisplaced(split) || s.releasing:
	case s.Holder == "":
		la.idle.free += by
	default:
		la.idle.held += by
	}
}

// onlyServes reports whether others work on the splits than reliable machines.
func (la *layout) onlyServes() (others bool) {
	for i := range la.Splits {
		switch by := la.Splits[i].by; {
		case by == nil: // it is changing hands
		case by.Tier == tiers.Reliable:
			return false
		default:
			others = true
		}
	}
	return others
}

func partitionsOf(holders []ps.ServerID, id ps.ServerID) []ps.Partition {
	var out []ps.Partition
	for p, h := range holders {
		if h == id {
			out = append(out, ps.Partition(p))
		}
	}
	return out
}

// holdersOf lists the distinct machines of a list.
func holdersOf(ids []ps.ServerID) []ps.ServerID {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}

func roleNames(roles []tiers.Role) string {
	s := ""
	for i, r := range roles {
		if i > 0 {
			s += ", "
		}
		s += string(r)
	}
	return s
}

// Standing reports whether the reliable tier has started the job.
func (la *layout) Standing() bool { return la.Route.Version > 0 }

// present returns the present layout, as opposed to the target.
func (la *layout) present() tiers.Layout {
	l := tiers.Layout{Stage: la.Stage, Route: la.Route, Worker: la.spareWorkers}
	if la.spareWorkers = nil; l.Worker == nil {
		l.Worker = make([]ps.ServerID, len(la.Splits))
	}
	for i, s := range la.Splits {
		l.Worker[i] = s.Holder
		if s.Holder == "" && la.Target.Worker != nil {
			l.Worker[i] = la.Target.Worker[i]
		}
	}
	return l
}

// arrange computes the target, unless it would not change: when a fleet of a hundred is reclaimed, its machines go one by one, and nothing
// depends on those that had nothing left to do.
func (la *layout) arrange(members []tiers.Member, stage tiers.Stage) {
	now, was := la.present(), &la.arranged
	transient, _ := tiers.Count(members)
	if s, tuned := la.setting(transient); tuned && s.Apart {
		serveOnly(members, s.Servers)
	}
	if la.cfg.Job.Standby != nil {
		leaveWork(members, la.onlyServes())
	}
	serving, loads := la.serving(members, stage), la.spareLoads[:0]
	for i := range members {
		loads = append(loads, la.nodes.ByID[members[i].ID].loads)
	}
	like := func(a, b tiers.Member) bool {
		return a.ID == b.ID && a.Tier == b.Tier && a.Joined == b.Joined && a.VCPU == b.VCPU && a.Rate == b.Rate && a.Leaving == b.Leaving && a.NoWork == b.NoWork
	}
	if la.rotating == nil && was.members != nil && was.stage == stage && was.serving == serving && was.now.Stage == now.Stage &&
		slices.EqualFunc(was.members, members, like) && slices.Equal(was.loads, loads) &&
		slices.Equal(was.now.Worker, now.Worker) && slices.Equal(was.now.Route.Owner, now.Route.Owner) &&
		slices.Equal(was.now.Route.Backup, now.Route.Backup) {
		la.Target.Route.Version = now.Route.Version
		la.spareLoads, la.spareWorkers = loads, now.Worker
		return
	}
	target := tiers.Arrange(now, members, stage, serving)
	if la.rotating != nil {
		if owners, ok := tiers.Rotate(target, members); ok {
			target.Route.Owner = owners
		}
	} else if serving == 0 { // otherwise the number of servers was set explicitly
		tiers.Prefer(&target, members, la.preferred.Owners)
	}
	la.setTarget(target)
	now.Route = la.cloneRoute()
	la.spareLoads, *was = was.loads, arrangement{now: now, members: members, loads: loads, stage: stage, serving: serving}
}

// serving returns how many machines should serve: the number set, or what suits the model. 0 = all reliable ones.
func (la *layout) serving(members []tiers.Member, stage tiers.Stage) int {
	transient, reliable := tiers.Count(members)
	if s, tuned := la.setting(transient); tuned {
		return s.Servers
	}
	if la.Servers > 0 || stage == tiers.Stage1 && reliable > 0 {
		return la.Servers
	}
	return la.cfg.Stages.Serving(transient)
}

// setTarget changes where everything should be. Except when called by arrange, it discards the inputs of the last target.
func (la *layout) setTarget(to tiers.Layout) {
	la.arranged = arrangement{}
	takers := slices.Grow(la.takers[:0], len(to.Worker))[:len(to.Worker)]
	for i, id := range to.Worker {
		if m := takers[i]; m == nil || m.ID != id {
			takers[i] = la.nodes.ByID[id]
		}
	}
	la.Target, la.takers, la.workers = to, takers, nil
	la.idle = idleSplits{lacking: true}
	for i := range la.Splits {
		la.count(ps.Split(i), 1)
	}
}

// isMisplaced reports whether a split should change hands.
func (la *layout) isMisplaced(split ps.Split) bool {
	return int(split) < len(la.takers) && la.takers[split] != nil && la.Splits[split].by != la.takers[split]
}

func (la *layout) setRoute() tiers.SetRoute {
	return tiers.SetRoute{Generation: la.Generation, Route: la.cloneRoute(), Peers: la.nodes.peers()}
}

func (la *layout) cloneRoute() ps.Route {
	return ps.Route{Version: la.Route.Version, Owner: slices.Clone(la.Route.Owner), Backup: slices.Clone(la.Route.Backup)}
}

// broadcast sends every member the present route.
func (la *layout) broadcast() {
	la.routeNews = false
	route := la.setRoute()
	for _, m := range la.nodes.reachable() {
		la.nodes.send(m.ID, route)
	}
}

func splitsOf(holders []ps.ServerID, id ps.ServerID) []ps.Split {
	var out []ps.Split
	for s, h := range holders {
		if h == id {
			out = append(out, ps.Split(s))
		}
	}
	return out
}

// hand assigns a split to a machine, or to none. Only this changes holders, and maintains the machines' counts.
func (la *layout) hand(split ps.Split, to ps.ServerID) {
	s := &la.Splits[split]
	la.handed++
	la.count(split, -1)
	if s.by != nil {
		s.by.Splits--
	}
	if s.Holder == "" || s.releasing {
		la.between--
	}
	s.Holder, s.by, s.releasing = to, la.nodes.ByID[to], false
	if s.by != nil {
		s.by.Splits++
	}
	if to == "" {
		la.between++
	}
	la.count(split, 1)
}

// askBack records that a split's holder must give it back.
func (la *layout) askBack(split ps.Split) {
	if s := &la.Splits[split]; s.Holder != "" && !s.releasing {
		la.count(split, -1)
		s.releasing = true
		la.between++
	}
}

// askNoMore cancels that.
func (la *layout) askNoMore(split ps.Split) {
	if s := &la.Splits[split]; s.releasing {
		if s.Holder != "" {
			la.between--
		}
		s.releasing = false
		la.count(split, 1)
	}
}

// outruns reports whether repeating the clock that a machine has begun is faster than waiting for it, now that the release of some of its
// splits was requested. On average half of that clock is left: neither what the machine keeps nor what the others take may need longer.
// Only reliable machines can be much slower than their replacements: in stage 1 they had all splits.
func (la *layout) outruns(m *Node) bool {
	if m.Tier != tiers.Reliable || m.kind.Rate <= 0 {
		return false
	}
	given := 0
	for i := range la.Splits {
		if s := &la.Splits[i]; s.by == m && s.releasing {
			given++
		}
	}
	half := float64(m.Splits) / (2 * m.kind.Rate)
	if float64(m.Splits-given)/m.kind.Rate > half {
		return false
	}
	if la.workers == nil { // a bulk eviction calls this hundreds of times
		la.workers = holdersOf(la.Target.Worker)
	}
	others := 0.0
	for _, id := range la.workers {
		if n := la.nodes.ByID[id]; n != nil && n != m {
			others += n.kind.Rate
		}
	}
	return float64(given)/others <= half
}

// standbysHandOver reports whether a standby machine holds a split that a worker is about to take. A halt waits for that: the standby would
// complete the split's clock without computing anything.
func (la *layout) standbysHandOver() bool {
	if la.cfg.Job.Standby == nil {
		return false
	}
	for i, s := range la.Splits {
		if la.isMisplaced(ps.Split(i)) && s.by != nil && la.cfg.standsBy(s.by) {
			if taker := la.takers[i]; taker.Member() && taker.alive() {
				return true
			}
		}
	}
	return false
}

// HandingOver reports whether a split is between two holders.
func (la *layout) HandingOver() bool { return la.between > 0 }

// A reliable machine that is lost takes its backups with it. The owners have the newest values and the undo to the committed cut:
// everything returns to that cut, a replacement is bought, and the next cut is delivered to it in full. While a partition has no backup, no
// cut is named. If neither an owner nor a backup holds a partition at the cut, it is read from the newest checkpoint, and then everything
// is.

// Backups also move without a loss, to a reliable machine that was added or from one that leaves: the next cut is delivered in full to the
// new one, and until it is committed the old one keeps the previous cut.

// loseBackups forgets a lost machine's backups, and reports whether there were any.
func (la *layout) loseBackups(id ps.ServerID) (any bool) {
	for p, backup := range la.Route.Backup {
		if backup == id {
			la.Route.Backup[p], any = "", true
		}
	}
	return any
}

// Bare reports whether a partition has no backup.
func (la *layout) Bare() bool { return la.Standing() && slices.Contains(la.Route.Backup, "") }

// stray reports whether a partition is backed up by a different machine than the layout names.
func (la *layout) stray(p ps.Partition) bool {
	to := la.Target.Route.Backup[p]
	return la.Route.Backup[p] != "" && to != "" && to != la.Route.Backup[p]
}

func (la *layout) straying() bool {
	if !la.Standing() || la.Target.Route.Backup == nil {
		return false
	}
	for p := range la.Route.Backup {
		if la.stray(ps.Partition(p)) {
			return true
		}
	}
	return false
}

func (la *layout) OwnsAny(id ps.ServerID) bool {
	if slices.Contains(la.Route.Owner, id) {
		return true
	}
	// A move to it may have passed its FINAL: the answer would have shown it.
	for _, to := range la.Moves {
		if to == id {
			return true
		}
	}
	return false
}

func (la *layout) takeMoved(do tiers.MoveOut, a tiers.Answer) {
	to, ok := la.Moves[do.Partition]
	if !ok || to != do.To {
		return
	}
	delete(la.Moves, do.Partition)
	if a.Code != tiers.CodeOK {
		la.MoveRetry = la.Now.Add(la.cfg.BrokenAfter)
		if do.FaultIn { // workers may have been sent to a machine that is not the owner after all
			la.Route.Version++
			la.routeNews = true
		}
		return
	}
	la.Route.Owner[do.Partition] = do.To
	la.Route.Version++
	la.routeNews = true
	if took, ok := a.Result.(tiers.Moved); ok {
		la.moved.add(took)
	}
	if len(la.Moves) == 0 {
		la.recordMoved()
	}
}

// passOn assigns splits without a holder to their target workers, unless some of those wait for something else: it does what advanceSplits
// would do, which examines all splits, and is due at each of hundreds of answers when a fleet comes or goes.
func (la *layout) passOn(splits []tiers.SplitAt) bool {
	var takers []*Node
	for i, s := range splits {
		taker := la.takers[s.Split]
		if la.Splits[s.Split].Holder != "" || taker == nil || i > 0 && s.Split <= splits[i-1].Split ||
			!taker.Member() || !taker.alive() || !taker.Loaded.Has(s.Split) {
			return false
		}
		if !slices.Contains(takers, taker) {
			takers = append(takers, taker)
		}
	}
	slices.SortFunc(takers, inOrder)
	for _, m := range takers {
		var given []tiers.SplitAt
		for _, s := range splits {
			if la.takers[s.Split] == m {
				given = append(given, tiers.SplitAt{Split: s.Split, Clock: la.Splits[s.Split].next})
				la.hand(s.Split, m.ID)
			}
		}
		la.nodes.send(m.ID, tiers.Assign{Splits: given})
	}
	return len(takers) > 0
}

// WantsFlush reports whether every server is about to go and the reliable machines should take over (TierML, section 3.3, bulk revocation).
func (la *layout) WantsFlush() bool {
	if la.Target.Stage != tiers.Stage1 {
		return false
	}
	for p := range la.Route.Owner {
		if la.flushes(ps.Partition(p)) {
			return true
		}
	}
	return false
}

// flushes reports whether a flush hands a partition to its backup because its owner is about to go. Partitions of other owners move when it
// ends.
func (la *layout) flushes(p ps.Partition) bool {
	m := la.nodes.ByID[la.Route.Owner[p]]
	return m != nil && m.Warned && !m.Lost && m.ID != la.Route.Backup[p] && la.Route.Backup[p] != ""
}

// Serving returns how many machines serve.
func (la *layout) Serving() (n int) {
	for _, m := range la.nodes.Roster {
		if m.Member() && slices.Contains(la.Route.Owner, m.ID) {
			n++
		}
	}
	return n
}

// TargetServers returns how many machines serve once the target is reached.
func (la *layout) TargetServers() int { return len(holdersOf(la.Target.Route.Owner)) }

// Placed reports whether everything is where it should be, on the requested number of servers.
func (la *layout) Placed() bool {
	return la.inPlace() && (la.Servers == 0 || len(holdersOf(la.Route.Owner)) == la.Servers)
}

// inPlace reports whether everything is where it should be.
func (la *layout) inPlace() bool {
	if la.Bare() || la.straying() || !slices.Equal(la.Route.Owner, la.Target.Route.Owner) {
		return false
	}
	for i := range la.Splits {
		if la.Splits[i].Holder != la.Target.Worker[i] {
			return false
		}
	}
	return true
}
