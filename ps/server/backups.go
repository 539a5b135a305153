package server

import (
	"context"
	"fmt"
	"sync"

	"github.com/tierml/tierml/internal/loglimit"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// backup is the place of one partition that may be backed up here. Everything in it is guarded like a slot: by term.mu held for
// writing, or for reading together with its own lock.
type backup struct {
	id ps.Partition

	mu      sync.Mutex
	rows    *ps.Backup // nil: not backed up here
	retired bool       // the route names another server: its rows stay here until the other server has committed a cut
	pulling ps.Clock   // the cut that a goroutine is pulling; 0 = none
	again   bool       // it was notified again meanwhile
	cancel  context.CancelFunc
	spent   []*wire.Buffer // memory of the last cut's pieces, for reuse: memory that the kernel has already provided costs less than new memory
}

// takeSpent returns memory for the next piece, if any.
func (b *backup) takeSpent() *wire.Buffer {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.spent) == 0 {
		return nil
	}
	memory := b.spent[0]
	b.spent = b.spent[1:]
	return memory
}

// stop ends a pull. Later deliveries are discarded.
func (b *backup) stop() {
	if b.cancel != nil {
		b.cancel()
	}
	b.pulling, b.cancel, b.again = 0, nil, false
}

func (b *backup) clear() {
	b.stop()
	b.rows, b.retired, b.spent = nil, false, nil
}

// holds reports whether the cut is here, committed or not.
func (b *backup) holds(c ps.Clock) bool {
	cut, any := b.rows.Cut()
	return any && cut == c || b.rows.Delivered() == c
}

func (b *backup) commit(c ps.Clock) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.rows == nil:
		return nil
	case b.retired:
		if cut, any := b.rows.Cut(); !any || cut != c { // if the present cut is reported again, it is still the only one
			b.clear()
		}
		return nil
	}
	if b.rows.Delivered() == c {
		b.spent = nil // memory that the cut did not need, the next will not need
	}
	return b.rows.Commit(c)
}

// backups are the partitions that are backed up here, and the pulls that fetch their cuts.
//
// Locks: each backup has one, which comes after term.mu; that of held comes between the two. None is held while a delivery is received. A
// pull is cancelled under the same locks under which its delivery is accepted, so that none is accepted afterwards.
type backups struct {
	cfg    *Config
	term   *term
	others *peers
	said   *loglimit.Limit
	all    []*backup     // Index: Partition
	pulls  chan struct{} // one token for each delivery being received
	held   heldCut
}

func newBackups(cfg *Config, t *term, others *peers, said *loglimit.Limit) *backups {
	s := &backups{
		cfg: cfg, term: t, others: others, said: said,
		all:   make([]*backup, cfg.Schema.Partitions),
		pulls: make(chan struct{}, cfg.PullsAtOnce),
	}
	for i := range s.all {
		s.all[i] = &backup{id: ps.Partition(i)}
	}
	return s
}

// add is Server.BackUp; term.mu must be held for writing.
func (s *backups) add(partitions []ps.Partition, empty bool) {
	for _, p := range partitions {
		b := s.all[p]
		switch {
		case b.rows != nil: // reported before
		case empty:
			b.rows = ps.NewEmptyBackup(&s.cfg.Schema, p)
		default:
			b.rows = ps.NewBackup(&s.cfg.Schema, p)
		}
		b.retired = false // a route that says so follows
	}
}

// addFrom is Server.BackUpFrom; term.mu must be held for writing.
func (s *backups) addFrom(partitions []ps.Partition, clock ps.Clock, rows []*ps.Block) error {
	for i, p := range partitions {
		b := s.all[p]
		if b.rows == nil {
			restored, err := ps.RestoreBackup(&s.cfg.Schema, p, clock, rows[i])
			if err != nil {
				return fmt.Errorf("restore the backup of partition %d: %w", p, err)
			}
			b.rows = restored
		}
		b.retired = false
	}
	return nil
}

// retire marks the backups that a route gives to other servers. term.mu must be held for writing.
func (s *backups) retire(route ps.Route) {
	for p, b := range s.all {
		b.retired = b.rows != nil && serverAt(route.Backup, p) != s.cfg.Self
	}
}

// stop ends all pulls, and accepts any cut as the first: a generation begins. term.mu must be held for writing.
func (s *backups) stop() {
	s.held.reset()
	for _, b := range s.all {
		b.stop()
	}
}

// clear drops everything. term.mu must be held for writing.
func (s *backups) clear() {
	for _, b := range s.all {
		b.clear()
	}
}

// commit makes a cut the one to return to. term.mu must be held for reading.
func (s *backups) commit(c ps.Clock) (failed []error) {
	for _, b := range s.all {
		if err := b.commit(c); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// forget drops deliveries of a cut that will not be committed. term.mu must be held for writing.
func (s *backups) forget(c ps.Clock) {
	for _, b := range s.all {
		if b.pulling == c {
			b.stop()
		}
		if b.rows != nil && b.rows.Delivered() == c {
			b.rows.Drop()
		}
	}
	s.held.forget(c)
}

// returnTo keeps only committed state, after committing a newer cut that is here. term.mu must be held for writing.
func (s *backups) returnTo(cut ps.Clock) (failed []error) {
	for _, b := range s.all {
		if b.rows == nil {
			continue
		}
		held, any := b.rows.Cut()
		if b.rows.Delivered() == cut && cut > 0 && (!any || held < cut) {
			if err := b.rows.Commit(cut); err != nil {
				failed = append(failed, err)
			}
		}
		b.rows.Drop()
	}
	return failed
}

// promote turns a backup into a shard. term.mu must be held for writing.
func (s *backups) promote(p ps.Partition, cut ps.Clock) (*ps.Shard, error) {
	b := s.all[p]
	if b.rows == nil {
		return nil, fmt.Errorf("%w: it is not backed up here", ps.ErrInvalid)
	}
	return b.rows.Promote(cut)
}

// restore creates a backup from a checkpoint's rows; see Server.RecoverFrom.
func (s *backups) restore(p ps.Partition, cut ps.Clock, rows map[ps.Partition]*ps.Block) (*ps.Backup, error) {
	switch {
	case rows[p] != nil:
		return ps.RestoreBackup(&s.cfg.Schema, p, cut, rows[p])
	case rows != nil || cut != 0:
		return nil, fmt.Errorf("%w: it is not in the checkpoint", ps.ErrInvalid)
	}
	return ps.NewBackup(&s.cfg.Schema, p), nil
}

// holdings lists the state of each partition here. term.mu must be held for writing.
func (s *backups) holdings() (list []ps.BackupHolding) {
	for _, b := range s.all {
		if b.rows == nil {
			continue
		}
		if h := b.rows.Holding(); h.Cut != ps.NoCut || h.Delivered > 0 {
			list = append(list, h)
		}
	}
	return list
}
