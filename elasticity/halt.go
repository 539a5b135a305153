package elasticity

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// halting brings all work to rest at one committed cut: workers park at the highest clock begun, which is named
// as a cut, and nothing is done again. What for is said by its purpose.
type halting struct {
	purpose purpose
	why     string
	phase   haltPhase
	parking map[ps.ServerID]bool // members that have not answered
	begun   ps.Clock
	failing time.Time // since when the export fails; zero = it has not failed
	failure string    // the newest in the journal
	retry   time.Time // when to try the export again; zero = one is under way
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
	haltPromoting
	haltExporting
)

// wantsFlush reports whether every server is about to go and the reliable machines are to take over (TierML,
// section 3.3, bulk revocation).
func (c *Controller) wantsFlush() bool {
	if c.target.Stage != tiers.Stage1 {
		return false
	}
	for p := range c.route.Owner {
		if c.flushes(ps.Partition(p)) {
			return true
		}
	}
	return false
}

// flushes reports whether a flush hands a partition to its backup: its owner is about to go. Those of other owners
// move when it is over.
func (c *Controller) flushes(p ps.Partition) bool {
	m := c.machines[c.route.Owner[p]]
	return m != nil && m.warned && !m.lost && m.id != c.route.Backup[p] && c.route.Backup[p] != ""
}

func (c *Controller) done() bool {
	return c.enough != "" || c.progress.done >= c.cfg.Job.Clocks && c.cfg.Job.Clocks > 0
}

func (c *Controller) wantsHalt() bool {
	return c.standing() && (c.stopWhy != "" || c.done() || c.salvage == flushAll && c.wantsFlush())
}

// advanceHalt starts a halt when one is wanted. Every split must have a holder then, and every partition one
// owner: moves and handovers under way come first, they are short.
func (c *Controller) advanceHalt() {
	if c.halt != nil {
		c.halt.advance(c)
		return
	}
	if c.recovery != nil || c.settle != nil || c.cut != nil || c.ending || len(c.moves) > 0 ||
		!c.wantsHalt() || c.handingOver() {
		return
	}
	h := &halting{purpose: ending, parking: map[ps.ServerID]bool{}}
	switch {
	case c.done():
		h.why = "all clocks are done"
		if c.enough != "" {
			h.why = c.enough
		}
	case c.stopWhy != "":
		h.why = c.stopWhy
	default:
		h.purpose, h.why = flush, "end-of-life flush, as ActivePSs have eviction notices"
	}
	c.halt = h
	// Who works on nothing parks too: splits of a worker that dies now may go to it, and nobody may begin a clock
	// beyond the one at which all rests.
	for _, m := range c.reachable() {
		h.parking[m.id] = true
		c.send(m.id, tiers.Park{})
	}
	h.advance(c)
}

func (h *halting) advance(c *Controller) {
	switch h.phase {
	case haltParking:
		// What a dead worker has begun counts too, if it was committed anywhere.
		if len(h.parking) == 0 && !c.unsettled() {
			h.rest(c)
		}
	case haltPromoting:
		if !waiting[tiers.Promote](c) {
			c.takeOver()
		}
	case haltExporting:
		if !h.retry.IsZero() && !c.now.Before(h.retry) {
			h.export(c)
		}
	}
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
}

// rest names the clock at which all work is to rest, and lets those who are behind come up to it.
func (h *halting) rest(c *Controller) {
	h.phase = haltCutting
	// Nothing may have begun since the last cut; then that one is where all work rests.
	clock := max(h.begun, slices.Max(c.progress.marks), c.committed)
	for _, m := range c.reachable() {
		c.send(m.id, tiers.Unpark{Until: clock})
	}
	if clock == c.committed {
		h.cutCommitted(c)
		return
	}
	c.nameCut(clock)
}

func (h *halting) cutCommitted(c *Controller) {
	if h.purpose == flush {
		h.phase = haltPromoting
		c.promoteBackups()
		return
	}
	h.phase = haltExporting
	h.export(c)
}

// promoteBackups makes the backups owners of what warned machines served: their last delivery is committed.
func (c *Controller) promoteBackups() {
	promoted := map[ps.ServerID][]ps.Partition{}
	for p, backup := range c.route.Backup {
		if c.flushes(ps.Partition(p)) {
			promoted[backup] = append(promoted[backup], ps.Partition(p))
			c.route.Owner[p] = backup
		}
	}
	for _, m := range c.members() {
		if parts := promoted[m.id]; len(parts) > 0 {
			c.send(m.id, tiers.Promote{Cut: c.committed, Partitions: parts})
		}
	}
}

// takeOver lets the work go on when all backups serve. Not before: a backup that has not heard of it yet sends workers
// to the machine that it had handed the partition to, and what is done there is lost.
func (c *Controller) takeOver() {
	c.route.Version++
	c.broadcast()
	c.halt = nil
	for _, m := range c.reachable() {
		if !m.warned { // the others have sent their last and only hand their splits over
			c.send(m.id, tiers.Unpark{Until: c.cfg.Job.Clocks})
		}
	}
	c.layOut()
}

func (h *halting) export(c *Controller) {
	h.retry = time.Time{}
	c.act(Export{
		Clock: c.committed, Final: c.done(), Generation: c.generation, Route: c.cloneRoute(), Peers: c.peers(),
	})
}

// exportWithin is how long, on the wall clock, saving the model is tried. The machines may hold its only copy, and a full disk
// or a store that does not answer can be mended meanwhile.
const exportWithin = 10 * time.Minute

// exportPatience is how long saving is tried, in market time. An owner that does not answer may be dead: it is given up within
// three times DeadAfter (see patience), and the recovery that follows saves the model from its backup. So trying never ends
// before that.
func (c *Controller) exportPatience() time.Duration {
	return max(c.cfg.Market(exportWithin), 4*c.cfg.DeadAfter)
}

func (c *Controller) takeExported(e Exported) {
	h := c.halt
	if h == nil || h.phase != haltExporting || e.Generation != c.generation {
		return // the answer to one that a recovery has ended
	}
	if e.Err != nil && h.tryAgain(c, e.Err) {
		return
	}
	entry := journal.Entry{Kind: journal.Export, Clock: int64(c.committed), Model: e.Model}
	switch {
	case e.Err != nil:
		c.outcome, entry.Why = "failed", fmt.Sprintf("saving the model has failed for %.0f s: %v", c.wall(c.now.Sub(h.failing)), e.Err)
		c.failWhy = entry.Why
	case c.done():
		c.outcome, entry.TestLoss = "finished", &e.TestLoss
		entry.Why = "the model after all clocks"
	default:
		c.outcome, entry.TestLoss = "interrupted", &e.TestLoss
		entry.Why = h.why
	}
	entry.Outcome = c.outcome
	c.record(func() journal.Entry { return entry })
	c.endAll(fmt.Sprintf("the run is over: %s", h.why))
}

// tryAgain has a failed export tried again in a while, and reports whether there is time for that.
func (h *halting) tryAgain(c *Controller, err error) bool {
	if h.failing.IsZero() {
		h.failing = c.now
	}
	if c.now.Sub(h.failing) >= c.exportPatience() {
		return false
	}
	if why := err.Error(); why != h.failure {
		h.failure = why
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Export, Clock: int64(c.committed),
				Why: fmt.Sprintf("%s; it is tried again for %.0f s", why, c.wall(h.failing.Add(c.exportPatience()).Sub(c.now)))}
		})
	}
	h.retry = c.now.Add(max(c.cfg.BrokenAfter, c.cfg.DeadAfter/3))
	return true
}
