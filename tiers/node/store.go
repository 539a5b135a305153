package node

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// store holds the splits that this machine has read. They stay after the worker has given them up (inactive splits, docs/training.md, Data
// and memory), so that taking one back moves no bytes. The most recently used are in memory, as far as they fit; the rest is in the files
// they were read from.
type store struct {
	app  apps.App
	seed uint64
	open func(ps.Split) (io.ReadCloser, error)
	// limit bounds the bytes in memory, counted as on disk; 0 = unlimited. Active splits are always in memory.
	limit  int64
	active func() []ps.Split // the worker's splits; nil = none

	mu     sync.Mutex
	splits map[ps.Split]*entry
	onDisk map[ps.Split]bool // evicted from memory
	bytes  int64             // of all splits in memory
	uses   uint64            // a counter, for recency
}

type entry struct {
	ready chan struct{} // closed when data or err is set
	data  apps.Split
	err   error
	bytes int64
	used  uint64
}

// get returns a split if it is in memory.
func (s *store) get(id ps.Split) apps.Split {
	s.mu.Lock()
	e := s.splits[id]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	select {
	case <-e.ready:
		s.touch(e)
		return e.data
	default:
		return nil
	}
}

// loaded returns the splits in memory or on disk, in order.
func (s *store) loaded() []ps.Split {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ps.Split
	for id := range s.onDisk {
		out = append(out, id)
	}
	for id, e := range s.splits {
		select {
		case <-e.ready:
			out = append(out, id)
		default:
		}
	}
	slices.Sort(out)
	return slices.Compact(out) // one may be both on disk and loading
}

func (s *store) touch(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	e.used = s.uses
}

// trim drops inactive splits from memory, the least recently used first, until the rest fits.
func (s *store) trim() {
	if s.limit == 0 {
		return
	}
	var active []ps.Split
	if s.active != nil {
		active = s.active() // before locking: the worker requests splits while it holds its own lock
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes > s.limit {
		var oldest *entry
		var which ps.Split
		for id, e := range s.splits {
			if e.data != nil && !slices.Contains(active, id) && e.used != s.uses && (oldest == nil || e.used < oldest.used) {
				oldest, which = e, id
			}
		}
		if oldest == nil {
			return
		}
		s.bytes -= oldest.bytes
		delete(s.splits, which)
		if s.onDisk == nil {
			s.onDisk = map[ps.Split]bool{}
		}
		s.onDisk[which] = true
	}
}

// load returns a split, reading it if necessary. Concurrent callers share one read; after a failure the next caller retries.
func (s *store) load(ctx context.Context, id ps.Split) (apps.Split, error) {
	s.mu.Lock()
	e := s.splits[id]
	if e != nil {
		s.mu.Unlock()
		select {
		case <-e.ready:
			s.touch(e)
			return e.data, e.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	e = &entry{ready: make(chan struct{})}
	s.splits[id] = e
	s.mu.Unlock()

	data, bytes, err := s.read(id)
	s.keep(id, e, data, bytes, err)
	s.trim()
	return data, err
}

func (s *store) keep(id ps.Split, e *entry, data apps.Split, bytes int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	if e.data, e.err, e.bytes, e.used = data, err, bytes, s.uses; err != nil {
		delete(s.splits, id)
	} else {
		s.bytes += bytes
		delete(s.onDisk, id)
	}
	close(e.ready)
}

func (s *store) read(id ps.Split) (data apps.Split, bytes int64, err error) {
	file, err := s.open(id)
	if err != nil {
		return nil, 0, fmt.Errorf("opening split %d: %w", id, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	counted := &counter{Reader: file}
	if data, err = s.app.LoadSplit(id, counted, s.seed); err != nil {
		return nil, 0, fmt.Errorf("loading split %d: %w", id, err)
	}
	return data, counted.bytes, nil
}

// counter counts the bytes read.
type counter struct {
	io.Reader
	bytes int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes += int64(n)
	return n, err
}
