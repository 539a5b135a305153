package elasticity

import (
	"slices"
	"time"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// node does what a machine's agent does, with real shards and backups, one small step at a time.
type node struct {
	w        *world
	id       ps.ServerID
	instance provisioner.Instance
	dead     bool

	generation ps.Generation
	fencedAt   ps.Generation // service for generations below is refused
	route      ps.Route

	shards  map[ps.Partition]*ps.Shard
	leaving map[ps.Partition]bool        // FINAL is on its way: requests wait
	moved   map[ps.Partition]ps.ServerID // handed over to
	backups map[ps.Partition]*ps.Backup
	fenced  map[ps.Incarnation]bool

	worker worker
}

type worker struct {
	incarnation ps.Incarnation
	sequence    uint64
	splits      map[ps.Split]ps.Clock
	until       ps.Clock
	parked      bool
	life        int // grows when what is under way is given up
	busy        bool
	waiting     bool // busy, and not begun: the rows that it needs are not fresh yet
	clock       ps.Clock
	group       []ps.Split
	releases    []release
}

type release struct {
	id     uint64
	splits []ps.Split
}

func newNode(w *world, id ps.ServerID, i provisioner.Instance) *node {
	return &node{
		w: w, id: id, instance: i, shards: map[ps.Partition]*ps.Shard{}, leaving: map[ps.Partition]bool{},
		moved: map[ps.Partition]ps.ServerID{}, backups: map[ps.Partition]*ps.Backup{}, fenced: map[ps.Incarnation]bool{},
		worker: worker{splits: map[ps.Split]ps.Clock{}},
	}
}

func (n *node) boot() {
	if !n.dead {
		n.report(tiers.Hello{Instance: n.id, Address: "addr-" + string(n.id)})
	}
}

func (n *node) report(r tiers.Report) {
	n.w.fifo(n.w.upNow, n.id, func() { n.w.step(Reported{ID: n.id, Report: r}) })
}

func (n *node) answer(id uint64, code tiers.Code, err error, r tiers.Result) {
	a := tiers.Answer{ID: id, Code: code, Result: r}
	if err != nil {
		a.Error = err.Error()
	}
	n.report(a)
}

func (n *node) check(id uint64, err error) {
	if err != nil {
		n.answer(id, tiers.CodeFailed, err, nil)
		return
	}
	n.answer(id, tiers.CodeOK, nil, nil)
}

// soon does f after a short time, unless the machine is dead by then.
func (n *node) soon(f func()) {
	n.w.after(n.w.delay(15*time.Millisecond), func() {
		if !n.dead {
			f()
		}
	})
}

func (n *node) take(c tiers.Command) {
	switch do := c.Do.(type) {
	case tiers.Welcome:
		n.generation, n.worker.incarnation, n.worker.until = do.Generation, do.Incarnation, do.Until
		n.check(c.ID, nil)
	case tiers.SetRoute:
		n.generation, n.route = max(n.generation, do.Generation), do.Route
		n.check(c.ID, nil)
		n.offerCuts()
	case tiers.Own:
		for _, p := range do.Partitions {
			n.shards[p] = ps.NewShard(&n.w.schema, p)
		}
		n.check(c.ID, nil)
	case tiers.BackUp:
		for _, p := range do.Partitions {
			n.backups[p] = ps.NewBackup(&n.w.schema, p)
		}
		n.check(c.ID, nil)
	case tiers.NameCut:
		n.nameCut(c.ID, do.Cut)
	case tiers.UnnameCut:
		for _, s := range n.shards {
			s.UnnameCut(do.Cut)
		}
		n.check(c.ID, nil)
	case tiers.CommitCut:
		n.commitCut(c.ID, do.Cut)
	case tiers.MoveOut:
		n.moveOut(c.ID, do)
	case tiers.Promote:
		n.promote(c.ID, do)
	case tiers.FenceWorker:
		n.fenceWorker(c.ID, do.Incarnation)
	case tiers.SettleWorker:
		var err error
		for _, s := range n.shards {
			if _, e := s.Settle(do.Incarnation, do.Sequence, do.Commit); e != nil {
				err = e
			}
		}
		n.offerCuts()
		n.check(c.ID, err)
	case tiers.FenceGeneration:
		n.fenceGeneration(c.ID, do.Generation)
	case tiers.Recover:
		n.recover(c.ID, do)
	case tiers.Load:
		n.w.after(n.w.delay(time.Second), func() { n.check(c.ID, nil) })
	case tiers.Assign:
		for _, s := range do.Splits {
			n.worker.splits[s.Split] = s.Clock
		}
		n.check(c.ID, nil)
		n.stopWaiting()
		n.work()
	case tiers.Release:
		n.worker.releases = append(n.worker.releases, release{id: c.ID, splits: do.Splits})
		n.stopWaiting()
		n.answerReleases()
		n.work()
	case tiers.Park:
		n.worker.parked = true
		n.stopWaiting()
		begun := ps.Clock(0)
		for s, next := range n.worker.splits {
			if n.worker.busy && slices.Contains(n.worker.group, s) {
				next = n.worker.clock + 1
			}
			begun = max(begun, next-1)
		}
		n.answer(c.ID, tiers.CodeOK, nil, tiers.Parked{Begun: begun})
	case tiers.Unpark:
		n.worker.parked, n.worker.until = false, do.Until
		n.check(c.ID, nil)
		n.work()
	case tiers.Stop:
		n.dead = true
	}
}

func (n *node) ordered() []ps.Partition {
	var parts []ps.Partition
	for p := range n.shards {
		parts = append(parts, p)
	}
	slices.Sort(parts)
	return parts
}

func (n *node) nameCut(id uint64, cut ps.Clock) {
	for _, p := range n.ordered() {
		if n.shards[p].Folded() > cut {
			n.answer(id, tiers.CodePassed, nil, nil)
			return
		}
	}
	for _, p := range n.ordered() {
		if err := n.shards[p].NameCut(cut); err != nil {
			n.check(id, err)
			return
		}
	}
	n.check(id, nil)
	n.offerCuts()
}

// offerCuts delivers what has been passed to the backups.
func (n *node) offerCuts() {
	if n.route.Version == 0 {
		return // a partition has arrived before the route
	}
	for _, p := range n.ordered() {
		s := n.shards[p]
		backup := n.w.nodes[n.route.Backup[p]]
		cut := n.w.ctrlCut()
		if cut == 0 || !s.Passed(cut) {
			continue
		}
		d, err := s.Deliver(cut, false)
		if err != nil {
			continue // committed already
		}
		generation := n.generation
		backup.soon(func() {
			if backup.generation != generation || backup.backups[p] == nil || n.dead {
				return
			}
			if c, _ := backup.backups[p].Cut(); c >= cut || backup.backups[p].Delivered() == cut {
				return
			}
			if full, err := backup.backups[p].Deliver(&d); full || err != nil {
				n.w.t.Errorf("delivery of partition %d: full %v, %v", p, full, err)
			}
			for _, b := range backup.backups {
				if c, _ := b.Cut(); c != cut && b.Delivered() != cut {
					return
				}
			}
			backup.report(tiers.CutHeld{Cut: cut, Bytes: 1000, Seconds: 0.01})
		})
	}
}

func (w *world) ctrlCut() ps.Clock {
	if w.ctrl.cut == nil {
		return 0
	}
	return w.ctrl.cut.clock
}

func (n *node) commitCut(id uint64, cut ps.Clock) {
	for _, p := range n.ordered() {
		if err := n.shards[p].CommitCut(cut); err != nil {
			n.check(id, err)
			return
		}
	}
	for _, b := range n.backups {
		if err := b.Commit(cut); err != nil {
			n.check(id, err)
			return
		}
	}
	n.check(id, nil)
}

func (n *node) moveOut(id uint64, do tiers.MoveOut) {
	s, generation := n.shards[do.Partition], n.generation
	if s == nil {
		n.answer(id, tiers.CodeFailed, ps.ErrBusy, nil)
		return
	}
	if err := s.BeginMove(); err != nil {
		n.answer(id, tiers.CodeBusy, err, nil)
		return
	}
	to := n.w.nodes[do.To]
	in := ps.NewIncoming(&n.w.schema, do.Partition)
	var send func()
	send = func() {
		if n.fencedAt > generation || n.generation != generation {
			return
		}
		if to.dead {
			s.CancelMove()
			n.answer(id, tiers.CodeFailed, ps.ErrBusy, nil)
			return
		}
		rows, more := s.MoveRows(40)
		if err := in.Rows(&rows); err != nil {
			n.w.t.Error(err)
		}
		if more {
			n.soon(send)
			return
		}
		final, err := s.FinalMove()
		if err != nil {
			n.w.t.Error(err)
		}
		n.leaving[do.Partition] = true
		n.w.after(n.w.delay(15*time.Millisecond), func() {
			if to.dead || n.dead || to.generation != generation || to.fencedAt > generation || n.fencedAt > generation {
				delete(n.leaving, do.Partition)
				return // a dead receiver means recovery
			}
			shard, err := in.Finish(final)
			if err != nil {
				n.w.t.Error(err)
			}
			to.shards[do.Partition] = shard
			delete(to.moved, do.Partition)
			delete(n.shards, do.Partition)
			delete(n.leaving, do.Partition)
			n.moved[do.Partition] = do.To
			n.answer(id, tiers.CodeOK, nil, nil)
		})
	}
	n.soon(send)
}

func (n *node) promote(id uint64, do tiers.Promote) {
	for _, p := range do.Partitions {
		s, err := n.backups[p].Promote(do.Cut)
		if err != nil {
			n.check(id, err)
			return
		}
		n.shards[p] = s
		delete(n.moved, p)
	}
	n.check(id, nil)
}

func (n *node) fenceWorker(id uint64, inc ps.Incarnation) {
	n.fenced[inc] = true
	var st tiers.Standings
	for _, p := range n.ordered() {
		s := n.shards[p]
		standing := tiers.Standing{Partition: p, Standing: s.Fence(inc)}
		for split := range n.w.schema.Splits {
			standing.Marks = append(standing.Marks, s.Mark(ps.Split(split)))
		}
		st.Partitions = append(st.Partitions, standing)
	}
	n.answer(id, tiers.CodeOK, nil, st)
}

func (n *node) fenceGeneration(id uint64, g ps.Generation) {
	n.fencedAt = g
	n.worker.life++
	n.worker.busy, n.worker.waiting = false, false
	h := tiers.Holdings{Undo: n.w.ctrl.committed}
	for _, p := range n.ordered() {
		if n.shards[p].CanRollback(h.Undo) {
			h.Owned = append(h.Owned, p)
		}
	}
	for p := range n.w.schema.Partitions {
		if b := n.backups[ps.Partition(p)]; b != nil {
			cut, _ := b.Cut()
			h.Backups = append(h.Backups, tiers.BackupHolding{Partition: ps.Partition(p), Cut: cut, Delivered: b.Delivered()})
		}
	}
	n.answer(id, tiers.CodeOK, nil, h)
}

func (n *node) recover(id uint64, do tiers.Recover) {
	n.generation, n.route = do.Generation, do.Route
	n.moved, n.leaving = map[ps.Partition]ps.ServerID{}, map[ps.Partition]bool{}
	for p, b := range n.backups {
		if cut, _ := b.Cut(); cut != do.Cut {
			if err := b.Commit(do.Cut); err != nil {
				n.w.t.Errorf("%s partition %d: %v", n.id, p, err)
			}
		}
		b.Drop()
	}
	for p, owner := range do.Route.Owner {
		p := ps.Partition(p)
		s := n.shards[p]
		if owner != n.id {
			delete(n.shards, p)
			continue
		}
		if s != nil && s.Rollback(do.Cut) == nil {
			continue
		}
		promoted, err := n.backups[p].Promote(do.Cut)
		if err != nil {
			n.w.t.Errorf("%s partition %d: %v", n.id, p, err)
		}
		n.shards[p] = promoted
	}
	k := &n.worker
	k.life++
	k.busy, k.waiting, k.parked, k.until, k.releases = false, false, false, n.w.ctrl.cfg.Job.Clocks, nil
	k.splits = map[ps.Split]ps.Clock{}
	for _, s := range do.Splits {
		k.splits[s] = do.Cut + 1
	}
	n.check(id, nil)
	n.work()
}
