package training

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// cut is the only outstanding cut.
//
// Invariant: every partition can return to Committed at any time. So owners keep their undo, and backups the previous cut, until the new
// one is in the journal.
//
//  1. nameCut sends its clock to all owners, those with the least time left first.
//  2. An owner beyond the clock answers "passed": the others are sent UnnameCut, and a clock two later is named. The very next
//     one would race with the same owner again.
//  3. Each backup pulls its partitions and reports CutHeld.
//  4. When every owner has taken the name and every backup holds the cut, commitCut writes the line, then sends CommitCut.
//
// Losing an owner ends the cut by a recovery; losing a backup that owns nothing does not (dropFromCut). See backupBehind for why the next
// cut may have to wait, and decision 3 for why partitions do not move meanwhile.
type cut struct {
	Clock    ps.Clock
	Naming   map[ps.ServerID]bool // owners that have not answered
	named    []ps.ServerID        // owners that accepted the name
	passed   bool                 // an owner was past the clock: a later one must be named
	holding  map[ps.ServerID]bool // backups that do not hold it yet
	bytes    int64                // to all backups
	busiest  int64                // to the backup that received most
	since    time.Time
	rest     *restPoint // all work rests at it; nil = work continues
	standbys bool       // they work up to it (complete)
}

// Taken is the measurement of a committed cut, in wall-clock seconds: how long the busiest backup takes to receive its part, and how long
// it may. The plan sizes the reliable tier by the same two bounds (planner.SizeReliable), there for a cut of every row at the declared
// rate.
type Taken struct {
	Clock                    ps.Clock
	Seconds, Interval, Flush float64 // Flush: 0 = none is in time, however little there is to deliver
}

// restPoint is a cut at which all work rests, and what follows once it is committed.
type restPoint struct {
	why     string
	reached func() // called when the cut is committed
}

// cuts are the points that everything can return to.
type cuts struct {
	*step.Step
	cfg      *Config
	machines Machines
	nodes    *nodes
	layout   *layout
	load     *load
	clocks   *clocks
	saves    *saves

	Committed ps.Clock // newest committed cut
	furthest  ps.Clock // newest one ever committed
	Due       time.Time
	Cut       *cut
	unnamed   bool // cuts of the previous controller were withdrawn
	bare      bool // a backup was named since the newest cut was committed, and does not hold it
	Pace      pace
	Newest    Taken
	rescue    Rescue // of the work of servers that are about to go
	// naming and holding are those of the only outstanding cut, kept to reuse their memory.
	naming, holding map[ps.ServerID]bool
}

// advance names the next cut when it is due and nothing else is in progress. It uses the next clock to become complete; if an owner is past
// it already, a later one is tried.
func (cu *cuts) advance() {
	if cu.Cut != nil || len(cu.layout.Moves) > 0 || !cu.layout.Standing() || cu.Ending || cu.layout.Bare() ||
		cu.Now.Before(cu.Due) || cu.clocks.Done >= cu.cfg.Job.Clocks || cu.backupBehind() {
		return
	}
	cu.nameCut(cu.clocks.Done+1, nil)
}

// backupBehind reports whether a backup may not have heard yet of what the next cut builds on. It would say that it holds the cut, and
// lack a part of it, or lose one that counts:
//   - Of a partition that it is to back up from now on (BackUp) it knows nothing, so that what it backs up besides is all to it.
//   - A cut that was committed is to it one that was delivered (CommitCut), which the next delivery replaces.
//   - The name of a cut was taken back when a run was taken over (UnnameCut). Named again, the same clock would be dropped after
//     its owner was notified that it is there; and the word that it is held may be of before.
//
// A halt parks all workers before it names a cut: all their work is known by then.
func (cu *cuts) backupBehind() bool {
	return waiting[tiers.BackUp](cu.nodes) || waiting[tiers.CommitCut](cu.nodes) || cu.unnamed && waiting[tiers.UnnameCut](cu.nodes)
}

// cutWaited reports whether a due cut has waited for the present answer.
func (cu *cuts) cutWaited() bool { return !cu.Now.Before(cu.Due) && !cu.backupBehind() }

func (cu *cuts) nameCut(clock ps.Clock, rest *restPoint) {
	if cu.naming == nil {
		cu.naming, cu.holding = map[ps.ServerID]bool{}, map[ps.ServerID]bool{}
	}
	clear(cu.naming)
	clear(cu.holding)
	cu.Cut = &cut{Clock: clock, rest: rest, Naming: cu.naming, holding: cu.holding, since: cu.Now}
	for _, m := range cu.nodes.members(cu.layout.Route.Backup) {
		cu.Cut.holding[m.ID] = true
	}
	owners := cu.nodes.members(cu.layout.Route.Owner)
	slices.SortStableFunc(owners, soonest)
	for _, m := range owners {
		cu.Cut.Naming[m.ID] = true
		cu.nodes.send(m.ID, tiers.NameCut{Cut: clock})
	}
}

// complete makes standbys complete the clock that the outstanding cut waits for, if no worker is left to do so. A halt begins only after
// that cut.
func (cu *cuts) complete() {
	c := cu.Cut
	if c == nil || c.standbys || cu.cfg.Job.Standby == nil || cu.clocks.Over() || cu.layout.Due || cu.layout.HandingOver() || cu.layout.standbysHandOver() {
		return
	}
	standbys := slices.DeleteFunc(cu.nodes.reachable(), func(m *Node) bool { return !cu.cfg.standsBy(m) })
	if c.standbys = slices.ContainsFunc(standbys, func(m *Node) bool { return m.Splits > 0 }); !c.standbys {
		return
	}
	for _, m := range standbys {
		cu.nodes.send(m.ID, tiers.Unpark{Until: c.Clock})
	}
}

func (cu *cuts) takeNamed(m *Node, do tiers.NameCut, a tiers.Answer) {
	if cu.Cut == nil || cu.Cut.Clock != do.Cut || !cu.Cut.Naming[m.ID] {
		return
	}
	delete(cu.Cut.Naming, m.ID)
	switch a.Code {
	case tiers.CodeOK:
		cu.Cut.named = append(cu.Cut.named, m.ID)
	case tiers.CodePassed:
		cu.Cut.passed = true
	default:
		cu.machines.GiveUp(m.Machine, "it did not accept the name of a cut: "+a.Error)
		return
	}
	cu.checkCut()
}

func (cu *cuts) takeCutHeld(m *Node, r tiers.CutHeld) {
	if cu.Cut == nil || cu.Cut.Clock != r.Cut || !cu.Cut.holding[m.ID] {
		return
	}
	delete(cu.Cut.holding, m.ID)
	cu.Cut.bytes += r.Bytes
	cu.Cut.busiest = max(cu.Cut.busiest, r.Bytes)
	cu.Pace.received(r.Bytes, r.Seconds, m.kind.Link)
	cu.checkCut()
}

func (cu *cuts) checkCut() {
	if len(cu.Cut.Naming) > 0 {
		return
	}
	if cu.Cut.passed {
		for _, id := range cu.Cut.named {
			cu.nodes.send(id, tiers.UnnameCut{Cut: cu.Cut.Clock})
		}
		// Naming the next clock would race with the same owner again: leave a margin of one clock.
		cu.nameCut(min(max(cu.Cut.Clock, cu.clocks.Done)+2, cu.cfg.Job.Clocks), cu.Cut.rest)
		return
	}
	if len(cu.Cut.holding) == 0 && (!cu.bareCut() || cu.clocks.Done >= cu.Cut.Clock) {
		cu.commitCut()
	}
}

// bareCut reports whether the outstanding cut lacks a backup that would confirm it. Only a halt names one then, since no backup is bought
// for an ending run. The owners have the cut when every split has committed its clock.
func (cu *cuts) bareCut() bool { return cu.Cut != nil && cu.Cut.rest != nil && cu.layout.Bare() }

func (cu *cuts) commitCut() {
	done := cu.Cut
	cu.Cut = nil
	cu.Committed, cu.bare = done.Clock, false
	if done.Clock > cu.furthest { // a cut that was committed before and lost with its holders is no progress
		cu.furthest = done.Clock
		cu.machines.Progressed()
	}
	cu.cutReached()
	cu.Newest = cu.taken(done)
	why := cu.nextCut(done.busiest) // otherwise it was due
	if done.rest != nil {
		why = done.rest.why
	}
	cu.Record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Cut, Clock: int64(done.Clock), Bytes: done.bytes, Seconds: cu.Wall(cu.Now.Sub(done.since)), Why: why,
		}
	})
	for _, m := range cu.nodes.members(cu.layout.Route.Owner, cu.layout.Route.Backup, cu.nodes.keepers()) {
		if m.alive() {
			cu.nodes.send(m.ID, tiers.CommitCut{Cut: done.Clock})
			m.Keeps = false
		}
	}
	if done.rest != nil {
		done.rest.reached()
	} else if !cu.clocks.Over() {
		cu.saves.saveCut(cu.Committed)
	}
}

// taken returns a cut's measurement. Tiny cuts count as taking no time.
func (cu *cuts) taken(c *cut) Taken {
	out := Taken{Clock: c.Clock, Interval: MostShare * cu.Wall(cu.cfg.CutEvery)}
	if notice := cu.Wall(cu.cfg.Notice); notice > 0 {
		out.Flush = max(FlushMargin*notice-cu.clocks.Seconds, 0)
	}
	if cu.Pace.Rate > 0 && c.busiest >= tellingBytes {
		out.Seconds = float64(c.busiest) / cu.Pace.Rate
	}
	return out
}

// cutReached records that every split has committed what a committed cut holds, even if its worker died before reporting it.
func (cu *cuts) cutReached() {
	cu.clocks.floor = max(cu.clocks.floor, cu.Committed)
	cu.checkClock()
}

// dropFromCut continues without a machine that owned nothing; the loss of an owner aborts the cut.
func (cu *cuts) dropFromCut(id ps.ServerID) {
	if cu.Cut == nil || !cu.Cut.Naming[id] && !cu.Cut.holding[id] {
		return
	}
	delete(cu.Cut.Naming, id)
	delete(cu.Cut.holding, id)
	cu.checkCut()
}

// checkClock advances to the last complete clock, and commits a cut that has waited for one.
func (cu *cuts) checkClock() {
	cu.clocks.advance()
	if cu.bareCut() {
		cu.checkCut()
	}
}

// Rescue is how much work to save when all servers have warnings: the largest that fits into the remaining time. What cannot finish in time
// is not started.
type Rescue int

const (
	undecided  Rescue = iota
	FlushAll          // everything that has begun is finished and delivered; nothing is lost
	CutOnly           // the current clock is delivered as an ordinary cut; with staleness, later work is given up
	GiveUpRest        // the last committed cut is used; later work is given up and will be repeated
)

// soonest orders owners for a cut: those with the least time left deliver first.
func soonest(a, b *Node) int {
	switch {
	case a.Warned && b.Warned:
		return a.Deadline.Compare(b.Deadline)
	case a.Warned:
		return -1
	case b.Warned:
		return 1
	}
	return 0
}

// nextCut schedules the next cut, after one that sent bytes to its busiest backup; it returns a reason if the interval differs much from
// the previous one.
func (cu *cuts) nextCut(bytes int64) (why string) {
	p := &cu.Pace
	base, notice := cu.Wall(cu.cfg.CutEvery), cu.Wall(cu.cfg.Notice)
	seconds, why := p.interval(bytes, cu.Wall(cu.Now.Sub(p.At)), base, notice, cu.clocks.Seconds)
	if cu.cfg.CutsUnpaced {
		seconds, why = base, ""
	}
	before := cu.Wall(p.Every)
	if before == 0 {
		before = base
	}
	p.Every, p.At = cu.cfg.Market(time.Duration(seconds*float64(time.Second))), cu.Now
	p.Limit = 0
	if fits := FlushMargin*notice - cu.clocks.Seconds; fits > 0 && p.Rate > 0 {
		p.Limit = int64(fits * p.Rate * float64(max(len(holdersOf(cu.layout.Route.Backup)), 1)))
	}
	cu.Due = cu.Now.Add(p.Every)
	if ratio := seconds / before; ratio > 0.8 && ratio < 1.25 {
		return ""
	}
	if why == "" {
		why = "little changes"
	}
	return fmt.Sprintf("cuts every %.1f s, in place of %.1f s: %s", seconds, before, why)
}

// overdue reports whether more has changed since the last cut than a flush could deliver, well before the next is due.
func (cu *cuts) overdue() bool {
	p := &cu.Pace
	return p.Limit > 0 && p.Dirty > p.Limit && cu.Now.Before(cu.Due) && cu.Now.Sub(p.At) > p.Every/4
}

// TakeHeartbeat records a node's counters. It reports whether that makes a cut due.
func (cu *cuts) TakeHeartbeat(m *Node, h tiers.Heartbeat) (due bool) {
	cu.Pace.Dirty += h.CutBytes - m.Stats.CutBytes
	m.Stats = h
	m.Meter.Heard = cu.Now
	if m.Meter.Since.IsZero() {
		m.Meter.begin(h)
	}
	cu.load.metered = true
	if cu.overdue() {
		cu.Due = cu.Now
		return true
	}
	return false
}

// SaveNow makes the next cut due at once, and saves it.
func (cu *cuts) SaveNow() { cu.saves.wanted, cu.Due = true, cu.Now }

// Skip commits n cuts like the last one: see Controller.SkipCuts.
func (cu *cuts) Skip(n int, every time.Duration, clocks ps.Clock) {
	further := ps.Clock(n) * clocks
	cu.Committed += further
	cu.furthest = max(cu.furthest, cu.Committed)
	cu.Newest.Clock += further
	cu.Pace.At, cu.Due = cu.Pace.At.Add(time.Duration(n)*every), cu.Due.Add(time.Duration(n)*every)
	cu.machines.Progressed()
}
