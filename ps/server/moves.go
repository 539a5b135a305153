package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

const (
	// moveAttempts is how often one message of a move is tried before the new owner is taken for lost.
	moveAttempts = 5
	// cancelTimeout bounds the message that takes a move back.
	cancelTimeout = time.Second
)

// MoveOut hands a partition to another server. It goes on serving while rows travel; only between the last
// message and its acknowledgement requests wait. Afterwards this server answers `moved`.
//
// After an error it owns the partition as before. If the new owner could not be asked to forget what it has,
// the error says so: the last message may have reached it. It does not use what it has before it is told that it may
// (MoveDone, or a route that names it), which it never is: the next move of the partition there replaces it.
func (s *Server) MoveOut(ctx context.Context, p ps.Partition, to ps.ServerID, address string) error {
	if err := s.moveOut(ctx, p, to, address); err != nil {
		return fmt.Errorf("move partition %d to %s: %w", p, to, err)
	}
	return nil
}

func (s *Server) moveOut(ctx context.Context, p ps.Partition, to ps.ServerID, address string) error {
	m, err := s.beginMove(ctx, p, to, address)
	if err != nil {
		return err
	}
	defer m.end()
	err = m.sendRows()
	if err == nil {
		err = m.sendFinal()
	}
	if err != nil {
		return errors.Join(err, m.cancel())
	}
	_ = m.send(&wire.MoveDone{Move: m.id}) // if it cannot be told, the next route tells it
	return m.left()
}

// move is a partition on its way out.
type move struct {
	server     *Server
	ctx        context.Context // ends with the generation too: a roll-back cancels moves
	end        context.CancelFunc
	generation ps.Generation
	id         wire.MoveID
	to         ps.ServerID
	address    string
	slot       *slot
	shard      *ps.Shard
	pieces     uint64
	sent       bool // something has been on its way to the new owner
}

func (s *Server) beginMove(ctx context.Context, p ps.Partition, to ps.ServerID, address string) (*move, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case int(p) >= len(s.slots) || s.slots[p].state != owned:
		return nil, fmt.Errorf("%w: it is not served here", ps.ErrInvalid)
	case to == s.cfg.Self:
		return nil, fmt.Errorf("%w: it is there already", ps.ErrInvalid)
	case s.suspended:
		return nil, ps.ErrBusy
	}
	slot := s.slots[p]
	if err := slot.shard.BeginMove(); err != nil {
		return nil, err
	}
	s.moves++
	m := &move{
		server: s, generation: s.generation, to: to, address: address, slot: slot, shard: slot.shard,
		id: wire.MoveID{From: s.cfg.Self, Version: s.route.Version, Number: s.moves, Partition: p},
	}
	m.ctx, m.end = context.WithCancel(ctx)
	epoch := s.epoch
	stop := context.AfterFunc(epoch, m.end)
	end := m.end
	m.end = func() { stop(); end() }
	return m, nil
}

// with works on the shard, unless a roll-back has ended the move.
func (m *move) with(f func() error) error {
	s := m.server
	s.mu.RLock()
	defer s.mu.RUnlock()
	m.slot.mu.Lock()
	defer m.slot.mu.Unlock()
	if s.generation != m.generation || m.slot.shard != m.shard {
		return wire.ErrStale
	}
	return f()
}

func (m *move) sendRows() error {
	for more := true; more; m.pieces++ {
		message := &wire.MoveRows{Move: m.id, Piece: m.pieces}
		err := m.with(func() error {
			message.Rows, more = m.shard.MoveRows(m.server.cfg.ChunkBytes)
			return nil
		})
		if err == nil {
			err = m.send(message)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *move) sendFinal() error {
	var parts []*ps.Final
	err := m.with(func() error {
		final, err := m.shard.FinalMove()
		if err != nil {
			return err
		}
		parts = final.Cut(m.server.schema, wire.Piece(m.server.cfg.MaxBody))
		m.slot.state = leaving
		return nil
	})
	for i := range parts {
		if err == nil {
			err = m.send(&wire.MoveFinal{Move: m.id, Pieces: m.pieces, Part: uint64(i), More: i < len(parts)-1, Final: *parts[i]})
		}
		parts[i] = nil // its memory is large
	}
	return err
}

// send repeats a message of the move until it is acknowledged: the receiver knows those that it has had.
func (m *move) send(message wire.Message) error {
	var pause pause
	for attempt := 1; ; attempt++ {
		m.sent = true
		ack, err := askAt[*wire.Ack](m.ctx, &m.server.others, m.address, m.generation, message)
		if err == nil && len(ack.Partitions) == 1 {
			err = ack.Partitions[0].Code.Err()
		}
		if err == nil || errors.Is(err, ps.ErrInvalid) || errors.Is(err, wire.ErrRefused) {
			return err
		}
		if attempt == moveAttempts || !pause.wait(m.ctx) {
			return err
		}
	}
}

// left makes the move known here.
func (m *move) left() error {
	return m.with(func() error {
		m.slot.leave(m.to, m.address)
		return nil
	})
}

// cancel goes on as before.
func (m *move) cancel() error {
	var unheard error
	if m.sent {
		ctx, done := context.WithTimeout(context.WithoutCancel(m.ctx), cancelTimeout)
		defer done()
		message := &wire.MoveCancel{Move: m.id}
		if _, err := askAt[*wire.Ack](ctx, &m.server.others, m.address, m.generation, message); err != nil {
			unheard = fmt.Errorf("it may hold a copy: %w", err)
		}
	}
	// A roll-back that came first has reset the shard.
	_ = m.with(func() error {
		m.shard.CancelMove()
		m.slot.state = owned
		m.slot.wake()
		return nil
	})
	return unheard
}

// receive works on a slot for a message of a move.
func (s *Server) receive(generation ps.Generation, id wire.MoveID, f func(*slot) error) wire.Message {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if refusal := s.admit(generation); refusal != nil {
		return refusal
	}
	if int(id.Partition) >= len(s.slots) {
		return &wire.Error{Code: wire.Invalid, Text: fmt.Sprintf("partition %d of %d", id.Partition, len(s.slots))}
	}
	slot := s.slots[id.Partition]
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := f(slot); err != nil {
		s.said.Warn(s.log, "move refused", "partition", id.Partition, "from", id.From, "error", err)
		return &wire.Error{Code: wire.CodeOf(err), Text: err.Error()}
	}
	return &wire.Ack{Partitions: []wire.PartitionStatus{{Partition: id.Partition}}}
}

func (s *Server) moveRows(generation ps.Generation, m *wire.MoveRows) wire.Message {
	return s.receive(generation, m.Move, func(slot *slot) error {
		if m.Piece == 0 {
			if err := slot.expect(s.schema, m.Move); err != nil {
				return err
			}
		}
		switch a := slot.arrival; {
		case a == nil || a.move != m.Move || m.Piece > a.piece:
			return fmt.Errorf("%w: piece %d of a move that has not begun", ps.ErrInvalid, m.Piece)
		case m.Piece < a.piece:
			return nil // sent again
		default:
			a.piece++
			return a.rows.Rows(&m.Rows)
		}
	})
}

// expect begins to receive a partition.
func (s *slot) expect(schema *ps.Schema, id wire.MoveID) error {
	switch {
	case s.arrival != nil && s.arrival.move == id:
		return nil // sent again
	case s.state != absent:
		return fmt.Errorf("%w: partition %d is served here", ps.ErrInvalid, s.id)
	case !id.After(s.newest):
		return fmt.Errorf("%w: a move of partition %d that is over", ps.ErrInvalid, s.id)
	}
	s.newest = id
	s.arrival = &arrival{move: id, rows: ps.NewIncoming(schema, s.id)}
	return nil
}

func (s *Server) moveFinal(generation ps.Generation, m *wire.MoveFinal) wire.Message {
	return s.receive(generation, m.Move, func(slot *slot) error {
		if slot.state == owned && slot.arrived == m.Move {
			return nil // sent again
		}
		a := slot.arrival
		if slot.state != absent || a == nil || a.move != m.Move || a.piece != m.Pieces {
			return fmt.Errorf("%w: the end of a move that is not under way", ps.ErrInvalid)
		}
		if a.shard != nil || m.Part < a.parts {
			return nil // sent again
		}
		if err := a.takeFinal(m); err != nil {
			slot.arrival = nil
			return err
		}
		return nil
	})
}

// takeFinal takes the next part of a move's last message. With the last of them the partition is here.
func (a *arrival) takeFinal(m *wire.MoveFinal) (err error) {
	switch {
	case m.Part != a.parts:
		return fmt.Errorf("%w: part %d of the end of a move, after %d", ps.ErrInvalid, m.Part, a.parts)
	case m.Part == 0:
		a.final, err = m.Final.Begin()
	default:
		err = a.final.Join(&m.Final)
	}
	a.parts++
	if err == nil && !m.More {
		a.shard, err = a.rows.Finish(a.final)
		a.final = nil
	}
	return err
}

func (s *Server) moveDone(generation ps.Generation, m *wire.MoveDone) wire.Message {
	return s.receive(generation, m.Move, func(slot *slot) error {
		if slot.state == owned && slot.arrived == m.Move {
			return nil // sent again, or a route has told of it
		}
		if a := slot.arrival; slot.state != absent || a == nil || a.move != m.Move || a.shard == nil {
			return fmt.Errorf("%w: a partition is handed over that has not arrived", ps.ErrInvalid)
		}
		s.ownArrived(slot)
		return nil
	})
}

// ownArrived puts what a move has brought into service. The caller holds the locks that own asks for.
func (s *Server) ownArrived(slot *slot) {
	a := slot.arrival
	s.own(slot, a.shard)
	slot.arrived = a.move
}

func (s *Server) moveCancel(generation ps.Generation, m *wire.MoveCancel) wire.Message {
	return s.receive(generation, m.Move, func(slot *slot) error {
		if slot.arrival != nil && slot.arrival.move == m.Move {
			slot.arrival = nil
		}
		if m.Move.After(slot.newest) { // its first message may still come
			slot.newest = m.Move
		}
		return nil
	})
}
