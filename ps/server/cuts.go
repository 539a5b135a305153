package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// NameCut asks every owned partition for a cut at a clock; all take the name or none does. ps.ErrPassed: a later
// clock is needed. ps.ErrBusy: another cut, a move or a roll-back is under way.
func (s *Server) NameCut(c ps.Clock) error {
	if err := s.nameCut(c); err != nil {
		return err
	}
	s.tellBackups() // some may stand at the clock already
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
	if named && s.cut != c {
		s.cut = c
		s.telling.begin(c)
	}
	return nil
}

// unname takes a name from the owned partitions. The caller holds mu for writing.
func (s *Server) unname(c ps.Clock) {
	for _, slot := range s.slots {
		if slot.state == absent {
			continue
		}
		slot.shard.UnnameCut(c)
		slot.outgoing = nil
	}
	if s.cut == c {
		s.cut = 0
	}
}

// UnnameCut takes a cut's name back. What was delivered of it goes.
func (s *Server) UnnameCut(c ps.Clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unname(c)
	for _, b := range s.backups {
		if b.pulling == c {
			b.stop()
		}
		if b.rows != nil && b.rows.Delivered() == c {
			b.rows.Drop()
		}
	}
	s.held.forget(c)
}

// CommitCut makes a cut the one that is returned to: owners drop older undo, and backups the older cut.
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
	if s.cut == c {
		s.cut = 0
	}
	s.mu.Unlock()

	s.mu.RLock() // copying rows takes long, and does not concern the owned partitions
	defer s.mu.RUnlock()
	for _, b := range s.backups {
		if err := b.commit(c); err != nil {
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("commit cut %d: %w", c, err)
	}
	return nil
}

// announcements are what backups have been told of the present cut.
type announcements struct {
	mu    sync.Mutex
	cut   ps.Clock
	round int                          // grows with each name: one may be taken back, and given again
	told  map[ps.Partition]ps.ServerID // who acknowledged
	busy  map[ps.ServerID]bool         // a goroutine is telling it
}

func (a *announcements) begin(cut ps.Clock) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.round++
	a.cut, a.told, a.busy = cut, map[ps.Partition]ps.ServerID{}, map[ps.ServerID]bool{}
}

// tellBackups lets backups know of partitions that have passed the cut.
func (s *Server) tellBackups() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cut == 0 || s.suspended {
		return
	}
	s.telling.mu.Lock()
	defer s.telling.mu.Unlock()
	for p := range s.slots {
		backup := at(s.route.Backup, p)
		if backup == "" || s.telling.busy[backup] || !s.untold(p, backup) {
			continue
		}
		s.telling.busy[backup] = true
		epoch, generation, cut, round := s.epoch, s.generation, s.cut, s.telling.round
		s.run(func() { s.tell(epoch, generation, cut, round, backup) })
	}
}

// untold reports whether a backup lacks the news of a partition. The caller holds mu and telling.mu.
func (s *Server) untold(p int, backup ps.ServerID) bool {
	slot := s.slots[p]
	slot.mu.Lock()
	defer slot.mu.Unlock()
	return at(s.route.Backup, p) == backup && s.telling.told[slot.id] != backup &&
		slot.state == owned && slot.shard.Passed(s.telling.cut)
}

// nextToTell lists the partitions to tell a backup of. When there are none, telling it is over.
func (s *Server) nextToTell(cut ps.Clock, round int, backup ps.ServerID) []ps.Partition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.telling.mu.Lock()
	defer s.telling.mu.Unlock()
	if s.telling.round != round { // others tell of the next one
		return nil
	}
	var list []ps.Partition
	if s.cut == cut {
		for p := range s.slots {
			if s.untold(p, backup) {
				list = append(list, ps.Partition(p))
			}
		}
	}
	if list == nil {
		delete(s.telling.busy, backup)
	}
	return list
}

// tell repeats itself until the backup knows of every partition that has passed the cut.
func (s *Server) tell(epoch context.Context, generation ps.Generation, cut ps.Clock, round int, backup ps.ServerID) {
	var pause pause
	for {
		list := s.nextToTell(cut, round, backup)
		if list == nil {
			return
		}
		news := &wire.CutReady{From: s.cfg.Self, Cut: cut, Partitions: list}
		ack, err := ask[*wire.Ack](epoch, s, backup, generation, news)
		told := 0
		if err == nil {
			told = s.markTold(round, backup, ack)
		} else {
			s.log.Debug("cannot tell a backup of a cut", "cut", cut, "backup", backup, "error", err)
		}
		if told < len(list) && !pause.wait(epoch) {
			return
		}
	}
}

func (s *Server) markTold(round int, backup ps.ServerID, ack *wire.Ack) (told int) {
	s.telling.mu.Lock()
	defer s.telling.mu.Unlock()
	for _, status := range ack.Partitions {
		if status.Code != wire.OK {
			continue
		}
		told++
		if s.telling.round == round {
			s.telling.told[status.Partition] = backup
		}
	}
	return told
}

// ask asks another server, or this one.
func ask[T wire.Message](
	ctx context.Context, s *Server, to ps.ServerID, generation ps.Generation, request wire.Message,
) (T, error) {
	if to == s.cfg.Self {
		return wire.Ask[T](ctx, s.Local(), generation, request)
	}
	s.mu.RLock()
	address, known := s.peers[to]
	s.mu.RUnlock()
	if !known {
		var none T
		return none, fmt.Errorf("no address of server %s is known yet: %w", to, wire.ErrRetry)
	}
	return askAt[T](ctx, s, address, generation, request)
}

func askAt[T wire.Message](
	ctx context.Context, s *Server, address string, generation ps.Generation, request wire.Message,
) (T, error) {
	link, err := s.links.To(ctx, address)
	if err != nil {
		var none T
		return none, err
	}
	return wire.Ask[T](ctx, link, generation, request)
}

// pause grows from one attempt to the next. Its jitter keeps those that failed together from coming back
// together.
type pause struct{ last time.Duration }

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// wait returns false when ctx ended.
func (p *pause) wait(ctx context.Context) bool {
	p.last = min(max(2*p.last, firstPause), maxPause)
	timer := time.NewTimer(p.last/2 + rand.N(p.last/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// outgoing is a cut of a partition that its backup is pulling, kept between one piece and the next.
type outgoing struct {
	reading *ps.Reading
	asked   bool // whether the backup asked for all rows
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
		if _, end := answer.(*wire.DeliveryEnd); end { // if it gets lost on its way, the delivery is made again
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

// piece returns rows from a row on, about so many bytes of them, or the end.
func (o *outgoing) piece(from, bytes int) (wire.Message, error) {
	r := o.reading
	if from < r.At() { // its backup begins again
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
