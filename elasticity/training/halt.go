package training

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

func (h *Halting) advance(t *Training) {
	switch h.phase {
	case haltParking:
		// A dead worker's unfinished work counts too, if it was committed anywhere.
		if len(h.parking) == 0 && !t.unsettled() {
			h.rest(t)
		}
	case haltPromoting:
		if !waiting[tiers.Promote](t.Nodes) {
			h.takeOver(t)
		}
	case haltExporting:
		if !h.Retry.IsZero() && !t.Now.Before(h.Retry) {
			h.export(t)
		}
	}
}

// rest names the clock at which all work should rest, and allows workers that are behind to reach it.
func (h *Halting) rest(t *Training) {
	h.phase = haltCutting
	// If nothing has begun since the last cut, all work rests there, unless a backup that may have to take over does not hold it yet.
	clock := max(h.begun, t.Clocks.highest(), t.Cuts.Committed)
	if clock == t.Cuts.Committed && t.Cuts.bare && h.Purpose != ending {
		clock++
	}
	for _, m := range t.Nodes.reachable() {
		t.Nodes.send(m.ID, tiers.Unpark{Until: clock})
	}
	if clock == t.Cuts.Committed {
		h.cutCommitted(t)
		return
	}
	t.Cuts.nameCut(clock, &restPoint{why: h.why, reached: func() { h.fresh = true; h.cutCommitted(t) }})
}

func (h *Halting) cutCommitted(t *Training) {
	if h.Purpose != ending {
		h.phase = haltPromoting
		if !h.promoteBackups(t) {
			h.takeOver(t)
		}
		return
	}
	h.phase = haltExporting
	h.export(t)
}

func (h *Halting) export(t *Training) {
	h.Retry = time.Time{}
	t.Do(Export{
		Clock: t.Cuts.Committed, Final: t.Clocks.Over(), Generation: t.Layout.Generation, Route: t.Layout.cloneRoute(), Peers: t.Nodes.peers(),
	})
}

// exportWithin is how long, in wall-clock time, a run retries saving the model. The machines may hold its only copy,
// and a full disk or an unresponsive store can be fixed meanwhile.
const exportWithin = 10 * time.Minute

// tryAgain schedules a retry of a failed export, and reports whether there is time for it.
func (h *Halting) tryAgain(t *Training, err error) bool {
	if h.failing.IsZero() {
		h.failing = t.Now
	}
	if t.Now.Sub(h.failing) >= t.cfg.exportPatience() {
		return false
	}
	if why := err.Error(); why != h.failure {
		h.failure = why
		t.Record(func() journal.Entry {
			return journal.Entry{Kind: journal.Export, Clock: int64(t.Cuts.Committed),
				Why: fmt.Sprintf("%s; retrying for %.0f s", why, t.Wall(h.failing.Add(t.cfg.exportPatience()).Sub(t.Now)))}
		})
	}
	h.Retry = t.Now.Add(max(t.cfg.BrokenAfter, t.cfg.DeadAfter/3))
	return true
}

// advanceHalt starts a halt when one is wanted. Every split must then have a holder, and every partition one owner: moves and handovers in
// progress finish first, as they are short.
func (t *Training) advanceHalt() {
	if t.Halt != nil {
		t.Halt.advance(t)
		return
	}
	if t.wantsHalt() && t.Recovery == nil {
		t.Cuts.complete()
	}
	if t.Recovery != nil || t.Settle != nil || t.Cuts.Cut != nil || t.Ending || len(t.Layout.Moves) > 0 ||
		!t.wantsHalt() || t.Layout.HandingOver() || !t.Clocks.Over() && t.Layout.standbysHandOver() {
		return
	}
	h := &Halting{Purpose: ending, parking: map[ps.ServerID]bool{}}
	switch {
	case t.Clocks.Over():
		h.why = "all clocks are done"
		if t.Enough != "" {
			h.why = t.Enough
		}
	case t.Stop != "":
		h.why = t.Stop
	case t.Cuts.flushesAll():
		h.Purpose, h.why = Flush, "end-of-life flush, as ActivePSs have eviction notices"
	default:
		h.Purpose, h.why = pausing, "paused: "+t.Pause.Why
	}
	t.Halt = h
	// Idle workers park too: splits of a worker that dies now may be assigned to one, and no worker may begin a clock beyond the rest
	// point.
	for _, m := range t.Nodes.reachable() {
		h.parking[m.ID] = true
		t.Nodes.send(m.ID, tiers.Park{})
	}
	h.advance(t)
}

func (h *Halting) takeParked(m *Node, a tiers.Answer) {
	if h == nil || h.phase != haltParking || !h.parking[m.ID] {
		return
	}
	if r, ok := a.Result.(tiers.Parked); ok {
		h.begun = max(h.begun, r.Begun)
	}
	delete(h.parking, m.ID)
}

// promotes reports whether a halt hands a partition to its backup.
func (h *Halting) promotes(t *Training, p ps.Partition) bool {
	if h.Purpose == pausing {
		return t.Layout.away(p)
	}
	return t.Layout.flushes(p)
}

// promoteBackups makes the backups owners of the promoted partitions, after committing the last delivery. It reports whether there were
// any.
func (h *Halting) promoteBackups(t *Training) (any bool) {
	promoted := map[ps.ServerID][]ps.Partition{}
	for p, backup := range t.Layout.Route.Backup {
		if h.promotes(t, ps.Partition(p)) {
			promoted[backup] = append(promoted[backup], ps.Partition(p))
			t.Layout.Route.Owner[p] = backup
		}
	}
	for _, m := range t.Nodes.Members() {
		if parts := promoted[m.ID]; len(parts) > 0 {
			t.Nodes.send(m.ID, tiers.Promote{Cut: t.Cuts.Committed, Partitions: parts})
		}
	}
	return len(promoted) > 0
}

// takeOver resumes work when all backups serve. Not earlier: a backup that does not know the route yet would send workers to the machine
// that had handed the partition to it, and work done there is lost.
func (h *Halting) takeOver(t *Training) {
	t.Layout.Route.Version++
	t.Layout.broadcast()
	t.Halt = nil
	if h.Purpose == pausing {
		t.Pause.rest(h.fresh)
		return
	}
	unparkAll(t, func(m *Node) bool { return !m.Warned }) // the others have sent everything and only hand their splits over
	t.layOut()
}

// exportPatience returns how long a run retries saving, in market time. An owner that does not answer may be dead: it
// is given up within three times DeadAfter (see patience), and the recovery that follows saves the model from its
// backup. So retries never end before that.
func (c *Config) exportPatience() time.Duration {
	return max(c.Market(exportWithin), 4*c.DeadAfter)
}

// TakeExported records whether the model is saved.
func (t *Training) TakeExported(e Exported) {
	h := t.Halt
	if h == nil || h.phase != haltExporting || e.Generation != t.Layout.Generation {
		return // the answer to an export that a recovery aborted
	}
	if e.Err != nil && h.tryAgain(t, e.Err) {
		return
	}
	entry := journal.Entry{Kind: journal.Export, Clock: int64(t.Cuts.Committed), Model: e.Model, Details: e.Details}
	switch {
	case e.Err != nil:
		t.Outcome, entry.Why = "failed", fmt.Sprintf("saving the model has failed for %.0f s: %v", t.Wall(t.Now.Sub(h.failing)), e.Err)
		t.FailWhy = entry.Why
	case t.Clocks.Over():
		t.Outcome, entry.TestLoss = "finished", &e.TestLoss
		entry.Why = "the model after all clocks"
	default:
		t.Outcome, entry.TestLoss = "interrupted", &e.TestLoss
		entry.Why = h.why
	}
	entry.Outcome = t.Outcome
	t.Record(func() journal.Entry { return entry })
	t.End(fmt.Sprintf("the run is over: %s", h.why))
}
