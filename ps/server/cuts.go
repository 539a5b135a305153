package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// NameCut requests a cut at a clock from every owned partition; all accept the name or none does. ps.ErrPassed: a later clock is needed.
// ps.ErrBusy: another cut, a move or a roll-back is in progress.
func (s *Server) NameCut(c ps.Clock) error {
	if err := s.nameCut(c); err != nil {
		return err
	}
	s.announcer.notifyBackups() // some may already be at the clock
	return nil
}

func (s *Server) nameCut(c ps.Clock) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended {
		return ps.ErrBusy
	}
	named := false
	for _, slot := range s.slots {
		if slot.state == absent {
			continue
		}
		if err := slot.shard.NameCut(c); err != nil {
			s.unname(c)
			return fmt.Errorf("name cut %d in partition %d: %w", c, slot.id, err)
		}
		named = true
	}
	if named {
		s.announcer.name(c)
	}
	return nil
}

// unname withdraws a name from the owned partitions. mu must be held for writing.
func (s *Server) unname(c ps.Clock) {
	for _, slot := range s.slots {
		if slot.state == absent {
			continue
		}
		slot.shard.UnnameCut(c)
		slot.outgoing = nil
	}
	s.announcer.unname(c)
}

// UnnameCut withdraws a cut's name. Its deliveries are discarded.
func (s *Server) UnnameCut(c ps.Clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unname(c)
	s.backups.forget(c)
}

// CommitCut makes a cut the one to return to: owners drop older undo, and backups the older cut.
func (s *Server) CommitCut(c ps.Clock) error {
	var failed []error
	s.mu.Lock()
	for _, slot := range s.slots {
		if slot.state == absent {
			continue
		}
		if err := slot.shard.CommitCut(c); err != nil {
			failed = append(failed, err)
		}
		slot.outgoing = nil
	}
	s.announcer.unname(c)
	s.mu.Unlock()

	s.mu.RLock() // copying rows takes long, and does not affect the owned partitions
	defer s.mu.RUnlock()
	failed = append(failed, s.backups.commit(c)...)
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("commit cut %d: %w", c, err)
	}
	return nil
}

// outgoing is a cut of a partition that its backup is pulling, kept between two pieces.
type outgoing struct {
	reading *ps.Reading
	asked   bool // whether the backup requested all rows
	sum     wire.Checksum
}

// pullCut returns a piece of a cut to the partition's backup.
func (s *Server) pullCut(ctx context.Context, generation ps.Generation, m *wire.PullCut) wire.Message {
	if s.withholds(m.Partition) {
		return &wire.Error{Code: wire.Retry, Text: "a drill withholds it"}
	}
	var answer wire.Message
	status, refusal := s.serve(ctx, generation, m.Partition, func(slot *slot) (code wire.Code, wait bool) {
		o := slot.outgoing
		if o == nil || o.reading.Cut != m.Cut || o.asked != m.Full {
			reading, err := slot.shard.OpenCut(m.Cut, m.Full)
			if err != nil {
				return wire.Invalid, false
			}
			o = &outgoing{reading: reading, asked: m.Full}
			slot.outgoing = o
		}
		if m.From > uint64(o.reading.Rows()) {
			return wire.Invalid, false
		}
		var err error
		if answer, err = o.piece(int(m.From), int(min(m.MaxBytes, uint64(s.cfg.MaxBody)/2))); err != nil {
			return wire.Invalid, false
		}
		if _, end := answer.(*wire.DeliveryEnd); end { // if it gets lost, the delivery is read again
			slot.outgoing = nil
		}
		return wire.OK, false
	})
	switch {
	case refusal != nil:
		return refusal
	case answer == nil:
		return &wire.Error{Code: status.Code, Text: fmt.Sprintf("cut %d of partition %d", m.Cut, m.Partition)}
	}
	return answer
}

// piece returns rows of about this many bytes, from a row on, or the end.
func (o *outgoing) piece(from, bytes int) (wire.Message, error) {
	r := o.reading
	if from < r.At() { // its backup starts again
		r.Rewind()
		o.sum = wire.Checksum{}
	}
	for r.At() < from {
		skipped := wire.NewDelivery(bytes)
		err := r.Next(&skipped.Rows, bytes, from-r.At())
		o.sum.Add(&skipped.Rows)
		skipped.Release()
		if err != nil {
			return nil, err
		}
	}
	if from == r.Rows() {
		return &wire.DeliveryEnd{Cut: r.Cut, Base: r.Base, Full: r.Full, Rows: uint64(from), Sum: o.sum}, nil
	}
	d := wire.NewDelivery(bytes)
	if err := r.Next(&d.Rows, max(bytes, 1), r.Rows()); err != nil {
		d.Release()
		return nil, err
	}
	o.sum.Add(&d.Rows)
	d.Cut, d.Base, d.Full, d.From = r.Cut, r.Base, r.Full, uint64(from)
	return d, nil
}
