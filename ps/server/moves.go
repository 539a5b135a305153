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
	// moveAttempts is how often one message of a move is sent before the new owner is considered lost.
	moveAttempts = 5
	// cancelTimeout bounds the message that takes a move back.
	cancelTimeout = time.Second
)

// Move is a partition to hand to another server.
type Move struct {
	Partition ps.Partition
	To        ps.ServerID
	Address   string
	// Window copies it, and hands it over, while workers compute (window), one partition after another; otherwise as soon as possible.
	Window bool
	// FaultIn makes the new owner answer reads at once, and fetch rows on demand: see faultin.go.
	FaultIn bool
}

// MoveOut hands a partition to another server. It keeps serving while rows travel; requests wait only between the last message and its
// acknowledgement. Afterwards this server answers `moved`.
//
// After an error it owns the partition as before. If the new owner could not be reached to drop its rows, the error says so: the last
// message may have arrived there. That does no harm: it uses its copy only after MoveDone or a route that names it, and neither comes. The
// next move of the partition there replaces it.
func (s *Server) MoveOut(ctx context.Context, do Move) (ps.Moved, error) {
	m, err := s.moveOut(ctx, do)
	if err != nil {
		return ps.Moved{}, fmt.Errorf("move partition %d to %s: %w", do.Partition, do.To, err)
	}
	return m.took, nil
}

// HurryMoves stops outgoing moves from waiting for a window.
func (s *Server) HurryMoves() { s.turns.hurry() }

func (s *Server) moveOut(ctx context.Context, do Move) (*move, error) {
	m := s.newMove(ctx, do)
	defer m.end()
	if m.Window {
		if err := s.turns.take(m.ctx); err != nil {
			return m, err
		}
		defer s.turns.release()
	}
	if err := m.begin(); err != nil {
		return m, err
	}
	send := m.copyThenFinal
	if m.FaultIn {
		send = m.finalThenRows
	}
	if err := send(); err != nil {
		return m, errors.Join(err, m.cancel())
	}
	_ = m.send(&wire.MoveDone{Move: m.id}) // if this fails, the next route does the same
	return m, m.left()
}

// move is a partition on its way out. ps/move.go has the messages' contents.
//
// Invariant: at no time do two servers accept updates of a partition. The old one stops before its last message is sent (leaving). The new
// one begins when it knows that the old one will not continue: by MoveDone, or by a route that names it (setRoute), which the controller
// sends after the old one has answered.
//
//  1. begin takes a number, by which the receiver orders moves (MoveID), so that late messages of older ones are refused.
//  2. sendAll copies the rows while the old server serves, in windows where it may wait for them.
//  3. sendFinal: from here requests wait, at either server.
//  4. The last message is acknowledged: the receiver is sent MoveDone, and the old server answers `moved` (left).
//
// If the new server dies before step 4, the old one cancels and continues to serve; the controller recovers only if it learns of the death
// before it has the answer of the move (layout.OwnsAny). If it dies later, or the old one at any time, an owner is lost and there is a
// recovery. A lost MoveDone delays the new server until the next route. A copy that the receiver was never told to forget serves nothing,
// and the next move of the partition to it replaces it.
//
// A fault-in move sends its last message first (faultin.go).
type move struct {
	Move
	server     *Server
	ctx        context.Context // ends with the generation too: a roll-back cancels moves
	end        context.CancelFunc
	generation ps.Generation
	waits      bool // for windows
	id         wire.MoveID
	slot       *slot
	shard      *ps.Shard
	pieces     uint64
	sent       bool // something was sent to the new owner
	took       ps.Moved
}

func (s *Server) newMove(ctx context.Context, do Move) *move {
	s.mu.RLock()
	defer s.mu.RUnlock()
	// Without BSP there is no moment without reads and writes.
	m := &move{Move: do, server: s, generation: s.generation, waits: do.Window && s.schema.Bound() == 0}
	m.ctx, m.end = context.WithCancel(ctx)
	stop := context.AfterFunc(s.epoch, m.end)
	end := m.end
	m.end = func() { stop(); end() }
	return m
}

func (m *move) begin() error {
	s, p := m.server, m.Partition
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.generation != m.generation:
		return wire.ErrStale
	case int(p) >= len(s.slots) || s.slots[p].state != owned:
		return fmt.Errorf("%w: it is not served here", ps.ErrInvalid)
	case m.To == s.cfg.Self:
		return fmt.Errorf("%w: it is there already", ps.ErrInvalid)
	case s.suspended:
		return ps.ErrBusy
	}
	m.slot = s.slots[p]
	m.shard = m.slot.shard
	if err := m.shard.BeginMove(); err != nil {
		return err
	}
	s.moves++
	m.id = wire.MoveID{From: s.cfg.Self, Version: s.route.Version, Number: s.moves, Partition: p}
	return nil
}

// onShard runs f on the shard, unless a roll-back has ended the move.
func (m *move) onShard(f func() error) error {
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

// sendAgain is how often changed rows are sent again before the last message takes the rest.
const sendAgain = 3

// sendAll copies the rows. In windows it continues until the new owner has every row's present version, at a moment within a window.
func (m *move) sendAll() error {
	for again := 0; ; again++ {
		if err := m.sendRows(); err != nil || !m.waits {
			return err
		}
		if err := m.awaitWindow(); err != nil {
			return err
		}
		changed := false
		err := m.onShard(func() error {
			changed = m.shard.MoveAgain()
			return nil
		})
		if err != nil || !changed || again == sendAgain {
			return err
		}
	}
}

func (m *move) sendRows() error {
	for more := true; more; m.pieces++ {
		if err := m.awaitWindow(); err != nil {
			return err
		}
		message := &wire.MoveRows{Move: m.id, Piece: m.pieces}
		err := m.onShard(func() error {
			message.Rows, more = m.shard.MoveRows(m.server.cfg.ChunkBytes)
			return nil
		})
		if err == nil {
			m.took.Bytes += int64(message.Rows.Bytes())
			err = m.send(message)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitWindow waits for one. If none has come for longer than a clock, neither this move nor those behind it wait any longer.
func (m *move) awaitWindow() error {
	var late *time.Timer
	defer func() {
		if late != nil {
			late.Stop()
		}
	}()
	for m.waits {
		hasty := m.server.turns.hurried()
		select {
		case <-hasty:
			m.waits = false
			return nil
		default:
		}
		var changed <-chan struct{}
		err := m.onShard(func() error {
			if m.slot.open() {
				return nil
			}
			changed = m.slot.wait()
			if late == nil {
				late = time.NewTimer(m.slot.window.patience())
			}
			return nil
		})
		if err != nil || changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-hasty:
		case <-late.C:
			m.server.turns.hurry()
		case <-m.ctx.Done():
			return m.ctx.Err()
		}
	}
	return nil
}

func (m *move) copyThenFinal() error {
	if err := m.sendAll(); err != nil {
		return err
	}
	return m.sendFinal(m.shard.FinalMove)
}

func (m *move) sendFinal(last func() (*ps.Final, error)) error {
	var parts []*ps.Final
	err := m.onShard(func() error {
		final, err := last()
		if err != nil {
			return err
		}
		m.took.Bytes += int64(final.Rows.Bytes())
		parts = final.Cut(m.server.schema, wire.Piece(m.server.cfg.MaxBody))
		m.slot.state, m.slot.missed = leaving, time.Time{}
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

// send repeats a message of the move until it is acknowledged: the receiver recognises duplicates.
func (m *move) send(message wire.Message) error {
	return m.repeat(func() error {
		ack, err := askAt[*wire.Ack](m.ctx, &m.server.others, m.Address, m.generation, message)
		if err == nil && len(ack.Partitions) == 1 {
			err = ack.Partitions[0].Code.Err()
		}
		return err
	})
}

func (m *move) repeat(ask func() error) error {
	var pause pause
	began := time.Now()
	defer func() { m.took.Seconds += time.Since(began).Seconds() }()
	for attempt := 1; ; attempt++ {
		m.sent = true
		err := ask()
		if err == nil || errors.Is(err, ps.ErrInvalid) || errors.Is(err, wire.ErrRefused) {
			return err
		}
		if attempt == moveAttempts || !pause.wait(m.ctx) {
			return err
		}
	}
}

// left records that the partition has moved away.
func (m *move) left() error {
	return m.onShard(func() error {
		m.took.Waited += m.slot.met()
		m.slot.leave(m.To, m.Address)
		return nil
	})
}

// cancel resumes serving.
func (m *move) cancel() error {
	var unanswered error
	if m.sent {
		ctx, done := context.WithTimeout(context.WithoutCancel(m.ctx), cancelTimeout)
		defer done()
		message := &wire.MoveCancel{Move: m.id}
		if _, err := askAt[*wire.Ack](ctx, &m.server.others, m.Address, m.generation, message); err != nil {
			unanswered = fmt.Errorf("it may hold a copy: %w", err)
		}
	}
	// A roll-back that came first has reset the shard.
	_ = m.onShard(func() error {
		m.shard.CancelMove()
		m.slot.stay()
		return nil
	})
	return unanswered
}

// receive runs f on a slot for a message of a move.
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
		return fmt.Errorf("%w: a move of partition %d that has ended", ps.ErrInvalid, s.id)
	}
	s.newest = id
	s.wake() // of requests that wait for rows of an earlier one
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

// takeFinal processes the next part of a move's last message. With the last part the partition is complete.
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
			return nil // a duplicate, or a route has named it
		}
		if a := slot.arrival; slot.state != absent || a == nil || a.move != m.Move || a.shard == nil {
			return fmt.Errorf("%w: a partition is handed over that has not arrived", ps.ErrInvalid)
		}
		s.ownArrived(slot)
		return nil
	})
}

// ownArrived puts a moved partition into service. The locks that own requires must be held.
func (s *Server) ownArrived(slot *slot) {
	a := slot.arrival
	s.own(slot, a.shard)
	slot.arrived = a.move
}

func (s *Server) moveCancel(generation ps.Generation, m *wire.MoveCancel) wire.Message {
	return s.receive(generation, m.Move, func(slot *slot) error {
		if slot.arrival != nil && slot.arrival.move == m.Move {
			slot.arrival = nil
			slot.wake()
		}
		if m.Move.After(slot.newest) { // its first message may still arrive
			slot.newest = m.Move
		}
		return nil
	})
}
