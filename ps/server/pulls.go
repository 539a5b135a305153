package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// heldCut is the progress of the backups here with a cut.
type heldCut struct {
	mu       sync.Mutex
	cut      ps.Clock
	began    time.Time
	bytes    int64
	reported bool
}

// begin records the news of a cut, whose end must be reported: even if it was reported before, as its name may have been withdrawn and
// given again since. It returns false for a cut older than the present one.
func (h *heldCut) begin(c ps.Clock) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c > h.cut {
		h.cut, h.began, h.bytes = c, time.Now(), 0
	}
	if c == h.cut {
		h.reported = false
	}
	return c == h.cut
}

func (h *heldCut) add(c ps.Clock, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut == c {
		h.bytes += bytes
	}
}

// forget ends a cut that will not be committed.
func (h *heldCut) forget(c ps.Clock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut == c {
		h.cut = 0
	}
}

// reset accepts any cut as the first: clocks start again.
func (h *heldCut) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = 0
}

// reportHeld calls OnCutHeld, once for each cut, when every backup here holds it.
func (s *backups) reportHeld() {
	cut, bytes, took, complete := s.checkHeld()
	if complete && s.cfg.OnCutHeld != nil {
		s.cfg.OnCutHeld(cut, bytes, took)
	}
}

func (s *backups) checkHeld() (cut ps.Clock, bytes int64, took time.Duration, complete bool) {
	s.term.mu.RLock()
	defer s.term.mu.RUnlock()
	h := &s.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut == 0 || h.reported || s.term.suspended {
		return 0, 0, 0, false
	}
	for _, b := range s.all {
		b.mu.Lock()
		lacks := b.rows != nil && !b.retired && !b.holds(h.cut)
		b.mu.Unlock()
		if lacks {
			return 0, 0, 0, false
		}
	}
	h.reported = true
	return h.cut, h.bytes, time.Since(h.began), true
}

// cutReady begins to pull what another server has ready.
func (s *backups) cutReady(generation ps.Generation, m *wire.CutReady) wire.Message {
	s.term.mu.RLock()
	defer s.term.mu.RUnlock()
	if refusal := s.term.admit(generation); refusal != nil {
		return refusal
	}
	wanted := s.held.begin(m.Cut)
	ack := &wire.Ack{}
	for _, p := range m.Partitions {
		status := wire.PartitionStatus{Partition: p, Code: wire.Retry}
		if !wanted || int(p) < len(s.all) && s.startPull(s.all[p], m.Cut, m.From) {
			status.Code = wire.OK
		}
		ack.Partitions = append(ack.Partitions, status)
	}
	s.term.run(s.reportHeld) // all of it may already be here
	return ack
}

// startPull returns false if the partition is not backed up here. term.mu must be held.
func (s *backups) startPull(b *backup, cut ps.Clock, from ps.ServerID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rows == nil {
		return false
	}
	if b.pulling == cut {
		b.again = true
		return true
	}
	if b.holds(cut) {
		return true
	}
	b.stop()
	ctx, cancel := context.WithCancel(s.term.epoch)
	b.pulling, b.cancel = cut, cancel
	generation := s.term.generation
	s.term.run(func() {
		defer cancel()
		s.pull(ctx, generation, b, cut, from)
	})
	return true
}

// pull fetches a cut of a partition. It retries after every failure, until the cut is here or no longer wanted.
func (s *backups) pull(ctx context.Context, generation ps.Generation, b *backup, cut ps.Clock, from ps.ServerID) {
	p := puller{backups: s, into: b, generation: generation, cut: cut, from: from}
	var pause pause
	for {
		needFull, err := s.pullOnce(ctx, b, &p)
		switch {
		case err == nil && !needFull:
			s.reportHeld()
			return
		case err == nil:
			p.full = true
			continue
		case errors.Is(err, ps.ErrInvalid) && b.notifiedAgain():
			continue
		case errors.Is(err, ps.ErrInvalid):
			s.said.Warn(s.cfg.Log, "a cut is not to be had any more", "cut", cut, "partition", b.id, "from", from, "error", err)
			s.endPull(ctx, b)
			return
		}
		s.cfg.Log.Debug("pull of a cut failed", "cut", cut, "partition", b.id, "from", from, "error", err)
		if !pause.wait(ctx) {
			return
		}
	}
}

// notifiedAgain reports whether another notification of the cut being pulled has arrived: its owner may have refused it before, and have it
// now.
func (b *backup) notifiedAgain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.again
	b.again = false
	return again
}

// endPull gives up, so that a further notification starts again.
func (s *backups) endPull(ctx context.Context, b *backup) {
	s.term.mu.RLock()
	defer s.term.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() == nil {
		b.stop()
	}
}

func (s *backups) pullOnce(ctx context.Context, b *backup, p *puller) (needFull bool, err error) {
	select {
	case s.pulls <- struct{}{}:
		defer func() { <-s.pulls }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	delivery, err := p.fetch(ctx)
	if err != nil {
		return false, err
	}
	s.held.add(p.cut, p.bytes)
	s.term.mu.RLock()
	defer s.term.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil { // pulls are cancelled under the same locks
		return false, ctx.Err()
	}
	needFull, err = b.rows.Deliver(delivery)
	if err == nil && !needFull {
		b.stop()
	}
	return needFull, err
}

// puller fetches one delivery.
type puller struct {
	backups    *backups
	into       *backup
	generation ps.Generation
	cut        ps.Clock
	from       ps.ServerID
	full       bool
	bytes      int64
	rows       uint64 // received so far
}

// fetch requests piece after piece, and compares the whole with the end's figures.
func (p *puller) fetch(ctx context.Context) (*ps.Delivery, error) {
	d := &ps.Delivery{Cut: p.cut}
	var sum wire.Checksum
	p.bytes, p.rows = 0, 0
	for {
		request := &wire.PullCut{
			Cut:       p.cut,
			Partition: p.into.id,
			Full:      p.full,
			From:      p.rows,
			MaxBytes:  uint64(p.backups.cfg.ChunkBytes),
		}
		answer, err := ask[wire.Message](ctx, p.backups.others, p.from, p.generation, request.Into(p.into.takeSpent()))
		if err != nil {
			return nil, err
		}
		switch m := answer.(type) {
		case *wire.Delivery:
			if err := p.add(d, m, &sum); err != nil {
				return nil, err
			}
		case *wire.DeliveryEnd:
			d.Base, d.Full = m.Base, m.Full
			if m.Cut != p.cut || m.Rows != p.rows || m.Sum != sum {
				return nil, fmt.Errorf("delivery of %d rows, checksum %08x, ends with %d rows, checksum %08x",
					p.rows, sum, m.Rows, m.Sum)
			}
			return d, nil
		default:
			return nil, fmt.Errorf("a request for a cut was answered by type %d", m.Type())
		}
	}
}

func (p *puller) add(d *ps.Delivery, m *wire.Delivery, sum *wire.Checksum) error {
	if m.Cut != p.cut || m.From != p.rows || len(m.Rows.Keys) == 0 {
		return fmt.Errorf("delivery of cut %d from row %d is not what was asked for", m.Cut, m.From)
	}
	if p.rows > 0 && (m.Base != d.Base || m.Full != d.Full) {
		return errors.New("the delivery changed on its way: it begins again")
	}
	if err := p.follows(d, m.Rows.Keys); err != nil {
		return err
	}
	d.Base, d.Full = m.Base, m.Full
	sum.Add(&m.Rows)
	d.Add(m.Rows, func() { // on commit, which holds the backup's lock
		if memory := m.Memory(); memory != nil {
			p.into.spent = append(p.into.spent, memory)
		}
	})
	p.rows += uint64(len(m.Rows.Keys))
	p.bytes += int64(8*len(m.Rows.Keys) + 4*len(m.Rows.Values))
	return nil
}

// follows checks that a delivery is finite: its rows belong to the partition, and ascend.
func (p *puller) follows(d *ps.Delivery, keys []ps.Key) error {
	if _, err := p.backups.cfg.Schema.CheckKeys(p.into.id, keys); err != nil {
		return err
	}
	last, any := d.Last()
	for _, k := range keys {
		if any && !last.Before(k) {
			return fmt.Errorf("delivery of row %d of table %d after row %d of table %d", k.Row, k.Table, last.Row, last.Table)
		}
		last, any = k, true
	}
	return nil
}
