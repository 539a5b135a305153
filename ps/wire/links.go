package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Links keeps one link for each address.
type Links struct {
	Dial    Dialer // nil: DialNear
	Job     uint64
	Traffic *Traffic // may be nil
	MaxBody int      // the longest body of a frame, in bytes; 0 = MaxBody
	// Panicked is called for panics in the links' goroutines.
	Panicked Panicked

	mu      sync.Mutex
	closed  bool
	dialing map[string]*dialing
	open    map[string]*Link
	opened  sync.WaitGroup // links that are not closed yet
}

// dialing lets several callers wait for the same connection.
type dialing struct {
	done chan struct{}
	link *Link
	err  error
}

// To returns the link to an address, a new one if there is no working one.
func (s *Links) To(ctx context.Context, address string) (*Link, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, ErrClosed
		}
		if l := s.open[address]; l != nil && !l.Broken() {
			s.mu.Unlock()
			return l, nil
		}
		d := s.dialing[address]
		if d == nil {
			return s.dial(ctx, address) // unlocks
		}
		s.mu.Unlock()
		select {
		case <-d.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// An error may be due to the context of the caller that dialled: only one's own failure counts.
		if d.err == nil {
			return d.link, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !errors.Is(d.err, context.Canceled) && !errors.Is(d.err, context.DeadlineExceeded) {
			return nil, d.err
		}
	}
}

func (s *Links) dial(ctx context.Context, address string) (*Link, error) {
	d := &dialing{done: make(chan struct{})}
	if s.dialing == nil {
		s.dialing, s.open = map[string]*dialing{}, map[string]*Link{}
	}
	s.dialing[address] = d
	broken := s.open[address]
	delete(s.open, address)
	s.mu.Unlock()

	if broken != nil {
		s.close(broken)
	}
	dial := s.Dial
	if dial == nil {
		dial = DialLocal(s.Job)
	}
	conn, err := dial(ctx, address)

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(d.done)
	delete(s.dialing, address)
	switch {
	case err != nil:
		d.err = fmt.Errorf("connect to %s: %w", address, err)
	case s.closed:
		_ = conn.Close()
		d.err = ErrClosed
	default:
		d.link = NewLink(conn, s.Job, s.Traffic)
		d.link.panicked, d.link.most, d.link.frames.most = s.Panicked, s.MaxBody, s.MaxBody
		s.opened.Add(1)
		s.open[address] = d.link
	}
	return d.link, d.err
}

func (s *Links) close(l *Link) {
	l.Close()
	s.opened.Done()
}

// Keep closes the links to all addresses except these; their requests in progress fail.
func (s *Links) Keep(addresses map[string]bool) {
	s.mu.Lock()
	var gone []*Link
	for address, l := range s.open {
		if !addresses[address] {
			gone = append(gone, l)
			delete(s.open, address)
		}
	}
	s.mu.Unlock()
	for _, l := range gone {
		s.close(l)
	}
}

// Close closes all links permanently, and waits until their readers have ended.
func (s *Links) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Keep(nil)
	s.opened.Wait()
}
