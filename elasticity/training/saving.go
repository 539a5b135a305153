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

// saveWithin is how long, in wall-clock time, a checkpoint may take before it is given up and the next one may begin.
const saveWithin = 10 * time.Minute

// saving is the only checkpoint in progress.
//
// Invariant: what Newest names is complete. A checkpoint counts once its manifest is written, which is after all of its parts, and is in
// the journal, since only manifests in the journal are trusted (jobrun). Older ones are removed after that. So whatever dies at any time,
// the previous checkpoint is usable.
//
//  1. A cut has just been committed, and one is due: each backup is sent SaveCut for its partitions. Later cuts need not wait, because a
//     backup copies rows of the saved cut before it replaces them (ps.Held).
//  2. With the answer of the last backup the manifest is written (WriteManifest), which also removes old checkpoints.
//  3. TakeManifest writes the `checkpoint` line.
//
// A lost or failed backup, a manifest that cannot be written, or saveWithin ends it with a `save-failed` line. Training does not wait for
// any of this, and the next checkpoint is due as if this one had been taken. A recovery does not affect it: the cut stays committed.
type saving struct {
	cut    ps.Clock
	folder string
	asked  map[ps.ServerID]bool // machines that have not answered
	parts  []tiers.SavedPart
	since  time.Time
	began  time.Time // the same, by Step.Awake
}

// saves holds the checkpoints, and when the next one is due.
type saves struct {
	*step.Step
	cfg    *Config
	nodes  *nodes
	layout *layout

	Current *saving
	Newest  string // manifest of the newest complete checkpoint; empty = none
	At      ps.Clock
	Older   []Kept // those that may still exist, newest first
	due     time.Time
	tried   ps.Clock // clock of the last one begun
	wanted  bool     // save at the next cut, whether due or not
}

// mostOlder bounds the remembered older checkpoints. Ones that were removed meanwhile are treated like damaged ones.
const mostOlder = 8

// saveCut begins a checkpoint of the cut that was just committed, if one is due.
func (sv *saves) saveCut(committed ps.Clock) {
	how := &sv.cfg.Checkpoints
	if how.Place == "" || sv.Current != nil || sv.Ending || committed <= sv.At {
		return
	}
	byTime := how.Every > 0 && !sv.Now.Before(sv.due)
	byClocks := how.EveryClocks > 0 && committed-max(sv.At, sv.tried) >= how.EveryClocks
	if !byTime && !byClocks && !sv.wanted {
		return
	}
	sv.beginSave(committed)
}

// saveCommitted saves the committed cut although it is not new, if every partition's backup can do so.
func (sv *saves) saveCommitted(committed ps.Clock) {
	if sv.cfg.Checkpoints.Place == "" || sv.Current != nil || sv.Ending || committed <= sv.At {
		return
	}
	for _, backup := range sv.layout.Route.Backup {
		if m := sv.nodes.ByID[backup]; m == nil || !m.Member() || !m.alive() {
			return
		}
	}
	sv.beginSave(committed)
}

func (sv *saves) beginSave(committed ps.Clock) {
	how := &sv.cfg.Checkpoints
	sv.wanted = false
	sv.due, sv.tried = sv.Now.Add(how.Every), committed
	sv.Current = &saving{
		cut: committed, folder: fmt.Sprintf("clock-%09d-%s.%d", committed, how.Life, sv.layout.Generation),
		asked: map[ps.ServerID]bool{}, since: sv.Now, began: sv.Awake.Now(),
	}
	for _, m := range sv.nodes.reachable() {
		if parts := partitionsOf(sv.layout.Route.Backup, m.ID); len(parts) > 0 {
			sv.Current.asked[m.ID] = true
			sv.nodes.send(m.ID, tiers.SaveCut{Cut: committed, Partitions: parts, Place: how.Place, Folder: sv.Current.folder})
		}
	}
}

func (sv *saves) takeSaved(m *Node, do tiers.SaveCut, a tiers.Answer) {
	s := sv.Current
	if s == nil || s.folder != do.Folder || !s.asked[m.ID] {
		return
	}
	saved, ok := a.Result.(tiers.Saved)
	if a.Code != tiers.CodeOK || !ok {
		sv.saveFailed(fmt.Sprintf("machine %s: %s", m.ID, a.Error))
		return
	}
	delete(s.asked, m.ID)
	s.parts = append(s.parts, saved.Parts...)
	if len(s.asked) == 0 {
		slices.SortFunc(s.parts, func(a, b tiers.SavedPart) int { return int(a.Partition) - int(b.Partition) })
		sv.Do(WriteManifest{Cut: s.cut, Place: sv.cfg.Checkpoints.Place, Folder: s.folder, Parts: s.parts})
	}
}

// TakeManifest records whether a checkpoint is complete.
func (sv *saves) TakeManifest(e ManifestWritten) {
	s := sv.Current
	switch {
	case s == nil || s.folder != e.Folder:
		return
	case e.Err != nil:
		sv.saveFailed(e.Err.Error())
		return
	}
	if sv.Newest != "" {
		sv.Older = append([]Kept{{sv.Newest, sv.At}}, sv.Older[:min(len(sv.Older), mostOlder)]...)
	}
	sv.Current, sv.Newest, sv.At = nil, e.Manifest, s.cut
	sv.Record(func() journal.Entry {
		entry := journal.Entry{Kind: journal.Checkpoint, Clock: int64(s.cut), Model: e.Manifest, Partitions: len(s.parts),
			Seconds: sv.Wall(sv.Now.Sub(s.since)), Why: e.Trouble}
		for _, p := range s.parts {
			entry.Bytes += p.Bytes
		}
		return entry
	})
}

// doubt drops a damaged checkpoint: the previous one becomes the newest.
func (sv *saves) doubt(checkpoint string) {
	if checkpoint == sv.cfg.Job.ResumeFrom { // and is never used again
		sv.cfg.Job.ResumeFrom, sv.cfg.Job.ResumeAt = "", 0
	}
	if checkpoint != sv.Newest {
		return
	}
	sv.Newest, sv.At, sv.tried = "", 0, 0
	if len(sv.Older) > 0 {
		sv.Newest, sv.At, sv.Older = sv.Older[0].Name, sv.Older[0].At, sv.Older[1:]
	}
}

// saveFailed records that a checkpoint failed. The run continues; earlier checkpoints remain.
func (sv *saves) saveFailed(why string) {
	s := sv.Current
	sv.Current = nil
	sv.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.SaveFailed, Clock: int64(s.cut), Why: why}
	})
}

// dropFromSave continues without a machine.
func (sv *saves) dropFromSave(id ps.ServerID) {
	if sv.Current != nil && sv.Current.asked[id] {
		sv.saveFailed("machine " + string(id) + " is gone")
	}
}

// saveEnds returns when the current checkpoint is given up; zero = there is none.
func (sv *saves) saveEnds() time.Time {
	if sv.Current == nil {
		return time.Time{}
	}
	return sv.Awake.Due(sv.Current.began, sv.cfg.Market(saveWithin))
}

// Advance gives up a checkpoint that takes too long.
func (sv *saves) Advance() {
	if end := sv.saveEnds(); !end.IsZero() && !sv.Now.Before(end) {
		sv.saveFailed(fmt.Sprintf("it was not done in %v", saveWithin))
	}
}
