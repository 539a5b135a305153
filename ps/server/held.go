package server

import (
	"fmt"

	"github.com/tierml/tierml/ps"
)

// HeldCut is a partition of the committed cut that is backed up here, to be read piece by piece while the server works.
type HeldCut struct {
	term   *term
	backup *backup
	rows   *ps.Held
}

// HoldCut returns the committed cut of partitions that are backed up here. Later cuts may be committed while it is read; they copy what
// they replace until Release. Only one reader at a time: a second one ends the first.
func (s *Server) HoldCut(cut ps.Clock, partitions []ps.Partition) ([]*HeldCut, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	held := make([]*HeldCut, 0, len(partitions))
	for _, p := range partitions {
		h, err := s.backups.hold(cut, p)
		if err != nil {
			for _, h := range held {
				h.release()
			}
			return nil, fmt.Errorf("hold cut %d: %w", cut, err)
		}
		held = append(held, h)
	}
	return held, nil
}

// hold is HoldCut of one partition. term.mu must be held.
func (s *backups) hold(cut ps.Clock, p ps.Partition) (*HeldCut, error) {
	if int(p) >= len(s.all) {
		return nil, fmt.Errorf("%w: there is no partition %d", ps.ErrInvalid, p)
	}
	b := s.all[p]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rows == nil {
		return nil, fmt.Errorf("%w: partition %d is not backed up here", ps.ErrInvalid, p)
	}
	rows, err := b.rows.Hold(cut)
	return &HeldCut{term: s.term, backup: b, rows: rows}, err
}

// Next returns more rows, of about this many bytes; none at the end.
func (h *HeldCut) Next(bytes int) (ps.Block, error) {
	h.term.mu.RLock()
	defer h.term.mu.RUnlock()
	h.backup.mu.Lock()
	defer h.backup.mu.Unlock()
	return h.rows.Next(bytes)
}

// Release ends reading.
func (h *HeldCut) Release() {
	h.term.mu.RLock()
	defer h.term.mu.RUnlock()
	h.release()
}

func (h *HeldCut) release() {
	h.backup.mu.Lock()
	defer h.backup.mu.Unlock()
	h.rows.Release()
}
