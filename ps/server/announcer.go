package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// announcer notifies backups that partitions owned here have passed the named cut, and repeats itself until they acknowledge. There is one
// goroutine for each backup that has not acknowledged all of its partitions.
//
// Locks: named is guarded by term.mu. Reported state is guarded by mu, which comes after term.mu and before the slots'. Neither is held
// while a notification is in flight.
type announcer struct {
	term   *term
	places *places
	peers  *peers
	log    *slog.Logger

	named ps.Clock // the cut that is named or on its way to the backups; 0 = none

	mu           sync.Mutex
	cut          ps.Clock                     // the cut of the fields below
	round        int                          // grows with each name, which may be withdrawn and given again
	acknowledged map[ps.Partition]ps.ServerID // backup that acknowledged
	busy         map[ps.ServerID]bool         // a goroutine is notifying it
}

// name adopts a cut, unless it is the present one. term.mu must be held for writing.
func (a *announcer) name(c ps.Clock) {
	if a.named != c {
		a.named = c
		a.begin(c)
	}
}

// unname ends a cut, committed or withdrawn. term.mu must be held for writing.
func (a *announcer) unname(c ps.Clock) {
	if a.named == c {
		a.named = 0
	}
}

// reset ends any cut and its notifications. term.mu must be held for writing.
func (a *announcer) reset() {
	a.named = 0
	a.begin(0)
}

func (a *announcer) begin(cut ps.Clock) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.round++
	a.cut, a.acknowledged, a.busy = cut, map[ps.Partition]ps.ServerID{}, map[ps.ServerID]bool{}
}

// notifyBackups starts the missing goroutines that notify backups.
func (a *announcer) notifyBackups() {
	a.term.mu.RLock()
	defer a.term.mu.RUnlock()
	if a.named == 0 || a.term.suspended {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.places.slots {
		backup := serverAt(a.term.route.Backup, p)
		if backup == "" || a.busy[backup] || !a.unaware(p, backup) {
			continue
		}
		a.busy[backup] = true
		epoch, generation, cut, round := a.term.epoch, a.term.generation, a.named, a.round
		a.term.run(func() { a.notify(epoch, generation, cut, round, backup) })
	}
}

// unaware reports whether a partition has passed the cut without an acknowledgement by its backup. term.mu and mu must be held.
func (a *announcer) unaware(p int, backup ps.ServerID) bool {
	slot := a.places.slots[p]
	slot.mu.Lock()
	defer slot.mu.Unlock()
	return serverAt(a.term.route.Backup, p) == backup && a.acknowledged[slot.id] != backup &&
		slot.state == owned && slot.shard.Passed(a.cut)
}

// nextToNotify lists the partitions to notify a backup of. If there are none, its goroutine ends.
func (a *announcer) nextToNotify(cut ps.Clock, round int, backup ps.ServerID) []ps.Partition {
	a.term.mu.RLock()
	defer a.term.mu.RUnlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.round != round { // the next round has its own notifications
		return nil
	}
	var list []ps.Partition
	if a.named == cut {
		for p := range a.places.slots {
			if a.unaware(p, backup) {
				list = append(list, ps.Partition(p))
			}
		}
	}
	if list == nil {
		delete(a.busy, backup)
	}
	return list
}

// notify repeats itself until the backup has acknowledged every partition that has passed the cut.
func (a *announcer) notify(epoch context.Context, generation ps.Generation, cut ps.Clock, round int, backup ps.ServerID) {
	var pause pause
	for {
		list := a.nextToNotify(cut, round, backup)
		if list == nil {
			return
		}
		news := &wire.CutReady{From: a.peers.self, Cut: cut, Partitions: list}
		ack, err := ask[*wire.Ack](epoch, a.peers, backup, generation, news)
		acknowledged := 0
		if err == nil {
			acknowledged = a.markAcknowledged(round, backup, ack)
		} else {
			a.log.Debug("cannot notify a backup of a cut", "cut", cut, "backup", backup, "error", err)
		}
		if acknowledged < len(list) && !pause.wait(epoch) {
			return
		}
	}
}

func (a *announcer) markAcknowledged(round int, backup ps.ServerID, ack *wire.Ack) (count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, status := range ack.Partitions {
		if status.Code != wire.OK {
			continue
		}
		count++
		if a.round == round {
			a.acknowledged[status.Partition] = backup
		}
	}
	return count
}
