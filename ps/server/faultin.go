package server

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// A fault-in move sends its last message first, without rows (on-demand relocation: "Towards self-tuning parameter servers", section V).
// From then on the new owner answers reads, and the old one sends rows: first those that a read waits for, eventually all. In the paper
// workers carry values from the old server to the new one; here servers do.
//
// Contributions wait until all rows have arrived. So both sides have the same state until the move ends, and the old owner can take it back
// as in any other move. The paper's new server accepts updates at once: then a loss of either machine would lose the partition.

// finalThenRows is the sending side.
func (m *move) finalThenRows() error {
	if err := m.awaitWindow(); err != nil {
		return err
	}
	if err := m.send(&wire.MoveRows{Move: m.id}); err != nil { // no rows: it begins the move
		return err
	}
	m.pieces = 1
	if err := m.sendFinal(m.shard.FirstMove); err != nil {
		return err
	}
	rows, more, err := m.fillWith(nil)
	for piece := uint64(0); err == nil; piece++ {
		var wanted *wire.MoveWanted
		if wanted, err = m.fill(piece, rows); err != nil {
			break
		}
		if !more {
			m.took.Waited += float64(wanted.Waited) / 1e6
			return nil
		}
		rows, more, err = m.fillWith(wanted.Keys)
	}
	return err
}

// fillWith returns the next rows to send, wanted ones first.
func (m *move) fillWith(wanted []ps.Key) (rows ps.Block, more bool, err error) {
	err = m.onShard(func() error {
		m.shard.MoveFirst(wanted)
		rows, more = m.shard.MoveRows(m.server.cfg.ChunkBytes)
		return nil
	})
	m.took.Bytes += int64(rows.Bytes())
	return rows, more, err
}

// fill sends rows. With the first, the new owner begins to serve, and requests that arrive here are sent there.
func (m *move) fill(piece uint64, rows ps.Block) (wanted *wire.MoveWanted, err error) {
	err = m.repeat(func() (err error) {
		wanted, err = askAt[*wire.MoveWanted](m.ctx, &m.server.others, m.Address, m.generation, &wire.MoveFill{Move: m.id, Piece: piece, Rows: rows})
		return err
	})
	if err != nil || piece > 0 {
		return wanted, err
	}
	return wanted, m.onShard(func() error {
		m.took.Waited += m.slot.met()
		m.slot.to, m.slot.address = m.To, m.Address
		m.slot.wake()
		return nil
	})
}

// fill is the receiver's state of a partition whose rows are arriving.
type fill struct {
	pieces uint64 // received so far
	// asked are all rows that a read has waited for. Of those, news have not been in an answer yet, and wanted are in the last one.
	asked        map[ps.Key]bool
	news, wanted []ps.Key
	waited       float64 // seconds
}

// mostWanted bounds the keys of an answer.
const mostWanted = 1 << 16

func (s *Server) moveFill(generation ps.Generation, m *wire.MoveFill) wire.Message {
	answer := &wire.MoveWanted{}
	refusal := s.receive(generation, m.Move, func(slot *slot) error {
		a := slot.arrival
		if a == nil || a.move != m.Move || a.shard == nil {
			return fmt.Errorf("%w: rows of a partition that has not arrived", ps.ErrInvalid)
		}
		if a.fill == nil {
			a.fill, slot.missed = &fill{asked: map[ps.Key]bool{}}, time.Time{}
		}
		f := a.fill
		switch {
		case m.Piece > f.pieces:
			return fmt.Errorf("%w: piece %d after %d", ps.ErrInvalid, m.Piece, f.pieces)
		case m.Piece == f.pieces:
			if err := a.rows.Rows(&m.Rows); err != nil {
				return err
			}
			f.pieces++
			n := min(len(f.news), mostWanted)
			f.wanted, f.news = f.news[:n], f.news[n:]
			f.waited += slot.met()
			slot.wake()
		}
		answer.Keys, answer.Waited = f.wanted, uint64(1e6*f.waited)
		return nil
	})
	if _, refused := refusal.(*wire.Error); refused {
		return refusal
	}
	return answer
}

// filling reports whether the partition is being received and reads are answered.
func (s *slot) filling() bool { return s.state == absent && s.arrival != nil && s.arrival.fill != nil }

// readable returns the shard if rows can be read for a clock. Otherwise it requests the missing rows.
func (s *slot) readable(c ps.Clock, keys []ps.Key) *ps.Shard {
	shard := s.shard
	if s.filling() {
		shard = s.arrival.shard
	}
	if !shard.CanRead(c) {
		return nil
	}
	if s.filling() && !s.arrival.has(keys) {
		s.miss()
		return nil
	}
	return shard
}

func (a *arrival) has(keys []ps.Key) bool {
	all := true
	for _, k := range keys {
		if a.shard.Arrived(k) {
			continue
		}
		all = false
		if f := a.fill; !f.asked[k] {
			f.asked[k] = true
			f.news = append(f.news, k)
		}
	}
	return all
}

// miss records that a request waits for the move.
func (s *slot) miss() {
	if s.missed.IsZero() {
		s.missed = time.Now()
	}
}
