package elasticity

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Checkpoints says where committed cuts are saved while training goes on, and how often. A checkpoint is what remains
// when reliable machines and their copies are gone.
type Checkpoints struct {
	Place       string        // directory or URL; empty = none are taken
	Life        string        // sets the folders of this start of the run apart from those of others
	Every       time.Duration // 0 = not by time
	EveryClocks ps.Clock      // 0 = not by clocks
	Newest      string        // complete one of an earlier start of the run, at clock NewestAt; empty = none
	NewestAt    ps.Clock
	Older       []Kept // than Newest, the newest first
}

// Kept is a checkpoint that is there.
type Kept struct {
	Name string // of its manifest, or file
	At   ps.Clock
}

// saveWithin is how long, on the wall clock, a checkpoint may take before it is given up and the next one may begin.
const saveWithin = 10 * time.Minute

// saving is the one checkpoint that is on its way: the backups write the cut that was just committed, each what it backs
// up; when all have, the manifest is written.
type saving struct {
	cut    ps.Clock
	folder string
	asked  map[ps.ServerID]bool // have not answered
	parts  []tiers.SavedPart
	since  time.Time
	began  time.Time // the same, by Controller.awake
}

// savings is what is known of checkpoints.
type savings struct {
	now    *saving
	newest string // manifest of the newest complete one; empty = none
	at     ps.Clock
	older  []Kept // that may still be there, the newest first
	due    time.Time
	tried  ps.Clock // clock of the last one that was begun
	wanted bool     // now, whether one is due or not
}

// saveCut begins a checkpoint of the cut that was just committed, if one is due.
func (c *Controller) saveCut() {
	s, how := &c.saves, &c.cfg.Checkpoints
	if how.Place == "" || s.now != nil || c.halt != nil || c.ending || c.done() || c.committed <= s.at {
		return
	}
	byTime := how.Every > 0 && !c.now.Before(s.due)
	byClocks := how.EveryClocks > 0 && c.committed-max(s.at, s.tried) >= how.EveryClocks
	if !byTime && !byClocks && !s.wanted {
		return
	}
	c.beginSave()
}

// saveCommitted saves the committed cut although it is not new, if every partition's backup can do so.
func (c *Controller) saveCommitted() {
	s := &c.saves
	if c.cfg.Checkpoints.Place == "" || s.now != nil || c.ending || c.committed <= s.at {
		return
	}
	for _, backup := range c.route.Backup {
		if m := c.machines[backup]; m == nil || !m.member() || !m.alive() {
			return
		}
	}
	c.beginSave()
}

func (c *Controller) beginSave() {
	s, how := &c.saves, &c.cfg.Checkpoints
	s.wanted = false
	s.due, s.tried = c.now.Add(how.Every), c.committed
	s.now = &saving{
		cut: c.committed, folder: fmt.Sprintf("clock-%09d-%s.%d", c.committed, how.Life, c.generation),
		asked: map[ps.ServerID]bool{}, since: c.now, began: c.awake.Now(),
	}
	for _, m := range c.reachable() {
		if parts := partitionsOf(c.route.Backup, m.id); len(parts) > 0 {
			s.now.asked[m.id] = true
			c.send(m.id, tiers.SaveCut{Cut: c.committed, Partitions: parts, Place: how.Place, Folder: s.now.folder})
		}
	}
}

func (c *Controller) takeSaved(m *machine, do tiers.SaveCut, a tiers.Answer) {
	s := c.saves.now
	if s == nil || s.folder != do.Folder || !s.asked[m.id] {
		return
	}
	saved, ok := a.Result.(tiers.Saved)
	if a.Code != tiers.CodeOK || !ok {
		c.saveFailed(fmt.Sprintf("machine %s: %s", m.id, a.Error))
		return
	}
	delete(s.asked, m.id)
	s.parts = append(s.parts, saved.Parts...)
	if len(s.asked) == 0 {
		slices.SortFunc(s.parts, func(a, b tiers.SavedPart) int { return int(a.Partition) - int(b.Partition) })
		c.act(WriteManifest{Cut: s.cut, Place: c.cfg.Checkpoints.Place, Folder: s.folder, Parts: s.parts})
	}
}

func (c *Controller) takeManifest(e ManifestWritten) {
	s := c.saves.now
	switch {
	case s == nil || s.folder != e.Folder:
		return
	case e.Err != nil:
		c.saveFailed(e.Err.Error())
		return
	}
	if c.saves.newest != "" {
		c.saves.older = append([]Kept{{c.saves.newest, c.saves.at}}, c.saves.older[:min(len(c.saves.older), mostOlder)]...)
	}
	c.saves.now, c.saves.newest, c.saves.at = nil, e.Manifest, s.cut
	c.record(func() journal.Entry {
		entry := journal.Entry{Kind: journal.Checkpoint, Clock: int64(s.cut), Model: e.Manifest, Partitions: len(s.parts),
			Seconds: c.wall(c.now.Sub(s.since)), Why: e.Trouble}
		for _, p := range s.parts {
			entry.Bytes += p.Bytes
		}
		return entry
	})
}

// mostOlder is how many older checkpoints are remembered. Those that were removed meanwhile are as good as damaged ones.
const mostOlder = 8

// doubt is told that a checkpoint is damaged: the one before it is the newest then.
func (c *Controller) doubt(checkpoint string) {
	if checkpoint == c.cfg.Job.ResumeFrom { // and is never begun with again
		c.cfg.Job.ResumeFrom, c.cfg.Job.ResumeAt = "", 0
	}
	if checkpoint != c.saves.newest {
		return
	}
	c.saves.newest, c.saves.at, c.saves.tried = "", 0, 0
	if len(c.saves.older) > 0 {
		c.saves.newest, c.saves.at, c.saves.older = c.saves.older[0].Name, c.saves.older[0].At, c.saves.older[1:]
	}
}

// saveFailed says that a checkpoint could not be taken. The run goes on: what was saved before stays.
func (c *Controller) saveFailed(why string) {
	s := c.saves.now
	c.saves.now = nil
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.SaveFailed, Clock: int64(s.cut), Why: why}
	})
}

// dropFromSave goes on without a machine.
func (c *Controller) dropFromSave(id ps.ServerID) {
	if c.saves.now != nil && c.saves.now.asked[id] {
		c.saveFailed("machine " + string(id) + " is gone")
	}
}

// saveEnds is when the checkpoint under way is given up; zero = there is none.
func (c *Controller) saveEnds() time.Time {
	if c.saves.now == nil {
		return time.Time{}
	}
	return c.awake.Due(c.saves.now.began, c.cfg.Market(saveWithin))
}

func (c *Controller) advanceSave() {
	if end := c.saveEnds(); !end.IsZero() && !c.now.Before(end) {
		c.saveFailed(fmt.Sprintf("it was not done in %v", saveWithin))
	}
}
