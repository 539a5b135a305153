package elasticity

import (
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// NameCut names a cut to every owned partition: all accept the name or none does.
func (n *node) NameCut(c ps.Clock) error {
	if n.suspended {
		return ps.ErrBusy
	}
	for _, p := range n.owned() {
		if err := n.shards[p].NameCut(c); err != nil {
			n.unnameOwned(c)
			return err
		}
	}
	if n.cut != c {
		n.cut = c
		clear(n.offered)
	}
	return nil
}

func (n *node) unnameOwned(c ps.Clock) {
	for _, p := range n.owned() {
		n.shards[p].UnnameCut(c)
	}
	if n.cut == c {
		n.cut = 0
	}
}

func (n *node) UnnameCut(c ps.Clock) error {
	n.w.reach("unname", n)
	n.unnameOwned(c)
	for _, b := range n.backups {
		if b.Delivered() == c {
			b.Drop()
		}
	}
	if n.held == c {
		n.held = 0
	}
	return nil
}

func (n *node) CommitCut(c ps.Clock) (err error) {
	for _, p := range n.owned() {
		if e := n.shards[p].CommitCut(c); e != nil {
			err = e
		}
	}
	if n.cut == c {
		n.cut = 0
	}
	for p := range n.w.schema.Partitions {
		if b := n.backups[ps.Partition(p)]; b != nil {
			if n.retired[ps.Partition(p)] { // it was kept while it was the only one
				if cut, any := b.Cut(); !any || cut != c {
					delete(n.backups, ps.Partition(p))
				}
				continue
			}
			if e := b.Commit(c); e != nil {
				err = e
			}
		}
	}
	return err
}

// offerCuts delivers partitions that have passed the cut to their backups, repeating each until it has arrived.
func (n *node) offerCuts() {
	if n.cut == 0 || n.suspended || n.route.Version == 0 {
		return
	}
	for _, p := range n.owned() {
		if n.offered[p] != n.cut && n.shards[p].Passed(n.cut) {
			n.offered[p] = n.cut
			n.deliver(p, n.cut, n.generation, false)
		}
	}
}

func (n *node) deliver(p ps.Partition, cut ps.Clock, g ps.Generation, full bool) {
	s := n.shards[p]
	if n.generation != g || n.suspended || n.cut != cut || s == nil || !s.Passed(cut) {
		return
	}
	d, err := s.Deliver(cut, full)
	if err != nil {
		return // committed already
	}
	n.w.reach("delivering", n)
	needFull := false
	n.ask(n.route.Backup[p], func(b *node) reply {
		if b.generation != g || b.suspended || b.backups[p] == nil || b.route.Version == 0 {
			return reply{code: retry}
		}
		if cut < b.held {
			return reply{code: refused} // a newer one is on its way
		}
		b.held = cut
		copied := d
		var err error
		if needFull, err = b.backups[p].Deliver(&copied); err != nil {
			return reply{code: refused}
		}
		b.told = 0 // a repeated name may have been revoked, and given again
		b.reportHeld()
		return reply{}
	}, func(r reply) {
		if r.code == retry || r.code == unreachable || needFull {
			n.soon(func() { n.deliver(p, cut, g, needFull) })
		}
	})
}

// reportHeld reports once that all backups here hold a cut.
func (n *node) reportHeld() {
	if n.told == n.held {
		return
	}
	for p, b := range n.backups {
		if n.retired[p] {
			continue
		}
		if c, _ := b.Cut(); c != n.held && b.Delivered() != n.held {
			return
		}
	}
	n.told = n.held
	held := tiers.CutHeld{Cut: n.held, Bytes: 1000, Seconds: 0.01}
	if n.w.cutSize != nil {
		held.Bytes, held.Seconds = n.w.cutSize(n.w.now.Sub(n.w.ctrl.training.Cuts.Pace.At))
	}
	n.report(held)
}

// moveID identifies a move among all moves of the partition.
type moveID struct {
	from    ps.ServerID
	version uint64 // of the route by which it owns the partition
	number  int
}

func (id moveID) after(other moveID) bool {
	return id.version > other.version || id.version == other.version && id.number > other.number
}

// arrival is a partition that is being received.
type arrival struct {
	move  moveID
	piece int
	rows  *ps.Incoming
	shard *ps.Shard // complete; it serves once the sender is known to have given up the partition
}

// move is a partition on its way out.
type move struct {
	n          *node
	command    uint64
	do         tiers.MoveOut
	id         moveID
	shard      *ps.Shard
	generation ps.Generation
	piece      int
	attempts   int
	again      int  // how often changed rows were sent again
	given      bool // the new owner has all of it
}

const moveAttempts = 5

func (n *node) moveOut(id uint64, do tiers.MoveOut) {
	s := n.shards[do.Partition]
	if s == nil || n.suspended || n.leaving[do.Partition] {
		n.answer(id, failure("it is not served here"), nil)
		return
	}
	if err := s.BeginMove(); err != nil {
		n.answer(id, err, nil)
		return
	}
	n.moves++
	n.hasty = false
	m := &move{n: n, command: id, do: do, id: moveID{n.id, n.route.Version, n.moves}, shard: s, generation: n.generation}
	m.sendRows()
}

// over reports whether a roll-back has ended the move.
func (m *move) over() bool {
	return m.n.generation != m.generation || m.n.shards[m.do.Partition] != m.shard
}

// giveUp answers some time after the roll-back.
func (m *move) giveUp() {
	m.n.w.after(m.n.w.delay(time.Second), func() {
		if !m.n.dead {
			m.n.answer(m.command, failure("rolled back"), nil)
		}
	})
}

// send repeats a message of the move until it is acknowledged.
func (m *move) send(receive func(*node) reply, then func()) {
	m.attempts = 0
	var try func()
	try = func() {
		if m.over() {
			m.giveUp()
			return
		}
		m.n.ask(m.do.To, func(to *node) reply {
			if to.generation < m.generation || to.suspended {
				return reply{code: retry}
			}
			if to.generation > m.generation {
				return reply{code: stale}
			}
			return receive(to)
		}, func(r reply) {
			if m.attempts++; m.over() {
				m.giveUp()
				return
			}
			switch {
			case r.code == ok:
				then()
			case (r.code == refused || m.attempts == moveAttempts) && m.given:
				m.left()
			case r.code == refused || m.attempts == moveAttempts:
				m.cancel()
			default:
				m.n.soon(try)
			}
		})
	}
	try()
}

func (m *move) sendRows() {
	rows, more := m.shard.MoveRows(40)
	piece := m.piece
	m.piece++
	m.send(func(to *node) reply {
		if piece == 0 && !to.expect(m.do.Partition, m.id) {
			return reply{code: refused}
		}
		a := to.arriving[m.do.Partition]
		switch {
		case a == nil || a.move != m.id || piece > a.piece:
			return reply{code: refused}
		case piece < a.piece:
			return reply{} // repeated
		}
		a.piece++
		if err := a.rows.Rows(&rows); err != nil {
			m.n.w.failf("move: %v", err)
		}
		return reply{}
	}, func() {
		if more {
			m.sendRows()
			return
		}
		if !m.do.Window || m.n.hasty || !m.n.w.windows {
			m.sendFinal()
			return
		}
		m.await(m.n.w.rng.IntN(8))
	})
}

// await waits for a window, which comes at any moment here.
func (m *move) await(steps int) {
	if m.n.hasty || steps == 0 {
		m.sendAgain()
		return
	}
	m.n.soon(func() { m.await(steps - 1) })
}

// sendAgain sends what has changed since the last time, several times, and then the end.
func (m *move) sendAgain() {
	switch m.again++; {
	case m.over():
		m.giveUp()
	case !m.n.hasty && m.again < 3 && m.shard.MoveAgain():
		m.sendRows()
	default:
		m.sendFinal()
	}
}

// expect begins to receive a partition.
func (n *node) expect(p ps.Partition, id moveID) bool {
	switch a := n.arriving[p]; {
	case a != nil && a.move == id:
		return true
	case n.shards[p] != nil || !id.after(n.newest[p]):
		return false // it is served here, or the move has ended
	}
	n.newest[p] = id
	n.arriving[p] = &arrival{move: id, rows: ps.NewIncoming(&n.w.schema, p)}
	return true
}

func (m *move) sendFinal() {
	p := m.do.Partition
	final, err := m.shard.FinalMove()
	if err != nil {
		m.n.w.failf("move of partition %d: %v", p, err)
	}
	m.n.leaving[p] = true
	m.n.w.reach("final", m.n)
	m.send(func(to *node) reply {
		if to.shards[p] != nil && to.arrived[p] == m.id {
			return reply{} // repeated
		}
		a := to.arriving[p]
		if a == nil || a.move != m.id || a.piece != m.piece {
			return reply{code: refused}
		}
		if a.shard == nil {
			var err error
			if a.shard, err = a.rows.Finish(final); err != nil {
				m.n.w.failf("move: %v", err)
			}
			m.n.w.reach("arrived", to)
		}
		return reply{}
	}, m.sendDone)
}

// sendDone gives up the partition. If the message is lost, the next route announces the same.
func (m *move) sendDone() {
	p := m.do.Partition
	m.given = true
	m.send(func(to *node) reply {
		if a := to.arriving[p]; a != nil && a.move == m.id && a.shard != nil {
			to.ownArrived(p)
		}
		return reply{}
	}, m.left)
}

func (m *move) left() {
	p := m.do.Partition
	delete(m.n.shards, p)
	delete(m.n.leaving, p)
	m.n.gone[p] = m.do.To
	m.n.answer(m.command, nil, tiers.Moved{Bytes: int64(40 * m.piece), Seconds: 0.02, Waited: 0.001})
}

// ownArrived puts a moved partition into service.
func (n *node) ownArrived(p ps.Partition) {
	a := n.arriving[p]
	n.own(p, a.shard)
	n.arrived[p] = a.move
}

// cancel continues as before, and makes the new owner discard its copy.
func (m *move) cancel() {
	p := m.do.Partition
	m.n.ask(m.do.To, func(to *node) reply {
		if a := to.arriving[p]; a != nil && a.move == m.id {
			delete(to.arriving, p)
		}
		if m.id.after(to.newest[p]) { // its first message may still come
			to.newest[p] = m.id
		}
		return reply{}
	}, func(reply) {
		if m.over() {
			m.giveUp()
			return
		}
		m.shard.CancelMove()
		delete(m.n.leaving, p)
		m.n.answer(m.command, failure("the new owner does not answer"), nil)
	})
}
