package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// announcer tells the backups of the partitions that are owned here about the cut that is named, as each partition passes it, until
// they have acknowledged. There is one goroutine for each backup that lacks some of the news.
//
// Locks: named is guarded by term.mu. What has been reported is guarded by mu, which comes after term.mu and before the slots'. Neither
// is held while the news travels.
type announcer struct {
	term   *term
	places *places
	others *neighbours
	log    *slog.Logger

	named ps.Clock // the cut that is named or on its way to the backups; 0 = none

	mu    sync.Mutex
	cut   ps.Clock                     // that the rest is about
	round int                          // grows with each name: one may be taken back, and given again
	told  map[ps.Partition]ps.ServerID // who acknowledged
	busy  map[ps.ServerID]bool         // a goroutine is telling it
}

// name takes up a cut, unless it is the present one. The caller holds term.mu for writing.
func (a *announcer) name(c ps.Clock) {
	if a.named != c {
		a.named = c
		a.begin(c)
	}
}

// unname ends a cut: it is committed or taken back. The caller holds term.mu for writing.
func (a *announcer) unname(c ps.Clock) {
	if a.named == c {
		a.named = 0
	}
}

// reset ends any cut, and what is being told of it. The caller holds term.mu for writing.
func (a *announcer) reset() {
	a.named = 0
	a.begin(0)
}

func (a *announcer) begin(cut ps.Clock) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.round++
	a.cut, a.told, a.busy = cut, map[ps.Partition]ps.ServerID{}, map[ps.ServerID]bool{}
}

// tellBackups lets backups know of partitions that have passed the cut.
func (a *announcer) tellBackups() {
	a.term.mu.RLock()
	defer a.term.mu.RUnlock()
	if a.named == 0 || a.term.suspended {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.places.slots {
		backup := at(a.term.route.Backup, p)
		if backup == "" || a.busy[backup] || !a.untold(p, backup) {
			continue
		}
		a.busy[backup] = true
		epoch, generation, cut, round := a.term.epoch, a.term.generation, a.named, a.round
		a.term.run(func() { a.tell(epoch, generation, cut, round, backup) })
	}
}

// untold reports whether a backup lacks the news of a partition. The caller holds term.mu and mu.
func (a *announcer) untold(p int, backup ps.ServerID) bool {
	slot := a.places.slots[p]
	slot.mu.Lock()
	defer slot.mu.Unlock()
	return at(a.term.route.Backup, p) == backup && a.told[slot.id] != backup &&
		slot.state == owned && slot.shard.Passed(a.cut)
}

// nextToTell lists the partitions to tell a backup of. When there are none, telling it is over.
func (a *announcer) nextToTell(cut ps.Clock, round int, backup ps.ServerID) []ps.Partition {
	a.term.mu.RLock()
	defer a.term.mu.RUnlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.round != round { // the next round has its own announcements
		return nil
	}
	var list []ps.Partition
	if a.named == cut {
		for p := range a.places.slots {
			if a.untold(p, backup) {
				list = append(list, ps.Partition(p))
			}
		}
	}
	if list == nil {
		delete(a.busy, backup)
	}
	return list
}

// tell repeats itself until the backup knows of every partition that has passed the cut.
func (a *announcer) tell(epoch context.Context, generation ps.Generation, cut ps.Clock, round int, backup ps.ServerID) {
	var pause pause
	for {
		list := a.nextToTell(cut, round, backup)
		if list == nil {
			return
		}
		news := &wire.CutReady{From: a.others.self, Cut: cut, Partitions: list}
		ack, err := ask[*wire.Ack](epoch, a.others, backup, generation, news)
		told := 0
		if err == nil {
			told = a.markTold(round, backup, ack)
		} else {
			a.log.Debug("cannot tell a backup of a cut", "cut", cut, "backup", backup, "error", err)
		}
		if told < len(list) && !pause.wait(epoch) {
			return
		}
	}
}

func (a *announcer) markTold(round int, backup ps.ServerID, ack *wire.Ack) (told int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, status := range ack.Partitions {
		if status.Code != wire.OK {
			continue
		}
		told++
		if a.round == round {
			a.told[status.Partition] = backup
		}
	}
	return told
}
