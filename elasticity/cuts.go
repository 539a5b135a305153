package elasticity

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// cut is the one cut that is outstanding. It is committed when every owner has taken its name and every backup
// holds it; then it is written down durably, and only then may undo and older cuts go.
type cut struct {
	clock   ps.Clock
	naming  map[ps.ServerID]bool // owners that have not answered
	named   []ps.ServerID        // owners that took the name
	passed  bool                 // an owner was past the clock: a later one must be named
	holding map[ps.ServerID]bool // backups that do not hold it yet
	bytes   int64
	since   time.Time
}

// advanceCut names the next cut when it is due and nothing else is under way. The clock is the next to become
// complete; an owner that is past it already makes us try a later one.
func (c *Controller) advanceCut() {
	if c.cut != nil || c.halt != nil || c.recovery != nil || len(c.moves) > 0 || !c.standing() || c.ending ||
		c.wantsHalt() || c.now.Before(c.cutDue) || c.progress.done >= c.cfg.Job.Clocks {
		return
	}
	c.nameCut(c.progress.done + 1)
}

func (c *Controller) nameCut(clock ps.Clock) {
	c.cut = &cut{clock: clock, naming: map[ps.ServerID]bool{}, holding: map[ps.ServerID]bool{}, since: c.now}
	for _, m := range c.members() {
		if slices.Contains(c.route.Backup, m.id) {
			c.cut.holding[m.id] = true
		}
	}
	for _, m := range c.members() {
		if slices.Contains(c.route.Owner, m.id) {
			c.cut.naming[m.id] = true
			c.send(m.id, tiers.NameCut{Cut: clock})
		}
	}
}

func (c *Controller) takeNamed(m *machine, do tiers.NameCut, a tiers.Answer) {
	if c.cut == nil || c.cut.clock != do.Cut || !c.cut.naming[m.id] {
		return
	}
	delete(c.cut.naming, m.id)
	switch a.Code {
	case tiers.CodeOK:
		c.cut.named = append(c.cut.named, m.id)
	case tiers.CodePassed:
		c.cut.passed = true
	default:
		c.giveUp(m, "it would not take the name of a cut: "+a.Error)
		return
	}
	c.checkCut()
}

func (c *Controller) takeCutHeld(m *machine, r tiers.CutHeld) {
	if c.cut == nil || c.cut.clock != r.Cut || !c.cut.holding[m.id] {
		return
	}
	delete(c.cut.holding, m.id)
	c.cut.bytes += r.Bytes
	if r.Seconds > 0 && r.Bytes > 0 {
		c.progress.flushRate = float64(r.Bytes) / r.Seconds
	}
	c.checkCut()
}

func (c *Controller) checkCut() {
	if len(c.cut.naming) > 0 {
		return
	}
	if c.cut.passed {
		for _, id := range c.cut.named {
			c.send(id, tiers.UnnameCut{Cut: c.cut.clock})
		}
		// Naming the next clock would race with the same owner again: leave it a clock's head start.
		c.nameCut(min(max(c.cut.clock, c.progress.done)+2, c.cfg.Job.Clocks))
		return
	}
	if len(c.cut.holding) == 0 {
		c.commitCut()
	}
}

func (c *Controller) commitCut() {
	done := c.cut
	c.cut = nil
	c.committed = done.clock
	c.cutReached()
	c.cutDue = c.now.Add(c.cfg.CutEvery)
	why := "" // it was due
	if c.halt != nil {
		why = c.halt.why
	}
	c.record(journal.Entry{
		Kind: journal.Cut, Clock: int64(done.clock), Bytes: done.bytes, Seconds: c.wall(c.now.Sub(done.since)), Why: why,
	})
	for _, m := range c.reachable() {
		if slices.Contains(c.route.Owner, m.id) || slices.Contains(c.route.Backup, m.id) {
			c.send(m.id, tiers.CommitCut{Cut: done.clock})
		}
	}
	if c.halt != nil {
		c.halt.cutCommitted(c)
	}
}

// cutReached: every split has committed what a committed cut holds, even if its worker did not live to say so.
func (c *Controller) cutReached() {
	for i := range c.splits {
		c.reached(ps.Split(i), c.committed)
	}
	c.checkClock()
}

// dropFromCut goes on without a machine that owned nothing; the loss of an owner takes the cut with it.
func (c *Controller) dropFromCut(id ps.ServerID) {
	if c.cut == nil || !c.cut.naming[id] && !c.cut.holding[id] {
		return
	}
	delete(c.cut.naming, id)
	delete(c.cut.holding, id)
	c.checkCut()
}

// halting brings all work to rest at one committed cut: workers park at the highest clock begun, which is named
// as a cut, and nothing is done again. What for is said by its purpose.
type halting struct {
	purpose purpose
	why     string
	phase   haltPhase
	parking map[ps.ServerID]bool // workers that have not answered
	begun   ps.Clock
	since   time.Time
}

type purpose int

const (
	flush  purpose = iota // end-of-life: the reliable machines take over from the cut
	ending                // the run ends here, finished or not
)

type haltPhase int

const (
	haltParking haltPhase = iota
	haltCutting
	haltExporting
)

// wantsFlush says whether every server is about to go and the reliable machines are to take over (TierML,
// section 3.3, bulk revocation).
func (c *Controller) wantsFlush() bool {
	if c.target.Stage != tiers.Stage1 {
		return false
	}
	for _, owner := range c.route.Owner {
		if m := c.machines[owner]; m != nil && m.warned && !m.lost {
			return true
		}
	}
	return false
}

func (c *Controller) done() bool {
	return c.progress.done >= c.cfg.Job.Clocks && c.cfg.Job.Clocks > 0
}

func (c *Controller) wantsHalt() bool {
	return c.standing() && (c.stopWhy != "" || c.done() || c.wantsFlush() && c.flushFits())
}

// flushFits says whether an end-of-life flush would be over before the machines go: what cannot finish in time
// is not started, and the last committed cut serves.
func (c *Controller) flushFits() bool {
	var deadline time.Time
	var bytes int64
	for _, m := range c.members() {
		if !slices.Contains(c.route.Owner, m.id) {
			continue
		}
		bytes += m.stats.CutBytes
		if m.warned && (deadline.IsZero() || m.deadline.Before(deadline)) {
			deadline = m.deadline
		}
	}
	need := c.progress.seconds // the clock that is under way
	if c.progress.flushRate > 0 {
		need += float64(bytes) / c.progress.flushRate
	}
	return c.halt != nil || need < c.wall(deadline.Sub(c.now))
}

// advanceHalt starts a halt when one is wanted. Every split must have a holder then, and every partition one
// owner: moves and handovers under way come first, they are short.
func (c *Controller) advanceHalt() {
	if c.halt != nil || c.recovery != nil || c.settle != nil || c.cut != nil || c.ending || len(c.moves) > 0 ||
		!c.wantsHalt() || c.handingOver() {
		return
	}
	h := &halting{purpose: ending, parking: map[ps.ServerID]bool{}, since: c.now}
	switch {
	case c.done():
		h.why = "all clocks are done"
	case c.stopWhy != "":
		h.why = c.stopWhy
	default:
		h.purpose, h.why = flush, "end-of-life flush, as every ActivePS has an eviction notice"
	}
	c.halt = h
	if c.routeNews {
		c.broadcast()
	}
	for _, m := range c.reachable() {
		if c.holdsAny(m.id) {
			h.parking[m.id] = true
			c.send(m.id, tiers.Park{})
		}
	}
	h.checkParked(c)
}

func (c *Controller) takeParked(m *machine, a tiers.Answer) {
	h := c.halt
	if h == nil || h.phase != haltParking || !h.parking[m.id] {
		return
	}
	if r, ok := a.Result.(tiers.Parked); ok {
		h.begun = max(h.begun, r.Begun)
	}
	delete(h.parking, m.id)
	h.checkParked(c)
}

func (h *halting) checkParked(c *Controller) {
	if len(h.parking) > 0 || h.phase != haltParking {
		return
	}
	h.phase = haltCutting
	// Nothing may have begun since the last cut; then that one is where all work rests.
	clock := max(h.begun, c.progress.done, c.committed)
	for _, m := range c.reachable() {
		if c.holdsAny(m.id) {
			c.send(m.id, tiers.Unpark{Until: clock})
		}
	}
	if clock == c.committed {
		h.cutCommitted(c)
		return
	}
	c.nameCut(clock)
}

func (h *halting) cutCommitted(c *Controller) {
	if h.purpose == flush {
		for _, m := range c.members() {
			if parts := partitionsOf(c.route.Backup, m.id); len(parts) > 0 {
				c.send(m.id, tiers.Promote{Cut: c.committed, Partitions: parts})
			}
		}
		// Commands of a node are done in order, so that its partitions are there before the route says so.
		c.route.Owner = slices.Clone(c.route.Backup)
		c.route.Version++
		c.broadcast()
		c.halt = nil
		for _, m := range c.reachable() {
			if !m.warned { // the others have sent their last and only hand their splits over
				c.send(m.id, tiers.Unpark{Until: c.cfg.Job.Clocks})
			}
		}
		c.layOut()
		return
	}
	h.phase = haltExporting
	c.out = append(c.out, Export{
		Clock: c.committed, Final: c.done(), Generation: c.generation, Route: c.cloneRoute(), Peers: c.peers(),
	})
}

// dropFromHalt goes on without a machine that held nothing.
func (c *Controller) dropFromHalt(id ps.ServerID) {
	if c.halt == nil || !c.halt.parking[id] {
		return
	}
	delete(c.halt.parking, id)
	if c.recovery == nil {
		c.halt.checkParked(c)
	}
}

func (c *Controller) takeExported(e Exported) {
	if c.halt == nil || c.halt.phase != haltExporting {
		return
	}
	entry := journal.Entry{Kind: journal.Export, Clock: int64(c.committed), Model: e.Model}
	switch {
	case e.Err != nil:
		c.outcome, entry.Why = "failed", "saving the model: "+e.Err.Error()
	case c.done():
		c.outcome, entry.TestLoss = "finished", &e.TestLoss
		entry.Why = "the model after all clocks"
	default:
		c.outcome, entry.TestLoss = "interrupted", &e.TestLoss
		entry.Why = c.halt.why
	}
	c.record(entry)
	c.endAll(fmt.Sprintf("the run is over: %s", c.halt.why))
}
