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

// store holds the splits that this machine has read. They stay after the worker has given them up (inactive splits,
// docs/training.md, Data and memory), so that taking one back moves no bytes. There is no bound on them yet:
// a machine must have the memory for every split that it is ever told to load.
type store struct {
	app  apps.App
	seed uint64
	open func(ps.Split) (io.ReadCloser, error)

	mu     sync.Mutex
	splits map[ps.Split]*entry
}

type entry struct {
	ready chan struct{} // closed when data or err is set
	data  apps.Split
	err   error
}

// get gives a split if it is in memory.
func (s *store) get(id ps.Split) apps.Split {
	s.mu.Lock()
	e := s.splits[id]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	select {
	case <-e.ready:
		return e.data
	default:
		return nil
	}
}

// loaded gives the splits that are in memory, in order.
func (s *store) loaded() []ps.Split {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ps.Split
	for id, e := range s.splits {
		select {
		case <-e.ready:
			out = append(out, id)
		default:
		}
	}
	slices.Sort(out)
	return out
}

// load gives a split, reading it if need be. Several callers share one reading; one that failed is tried again by the
// next caller.
func (s *store) load(ctx context.Context, id ps.Split) (apps.Split, error) {
	s.mu.Lock()
	e := s.splits[id]
	if e != nil {
		s.mu.Unlock()
		select {
		case <-e.ready:
			return e.data, e.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	e = &entry{ready: make(chan struct{})}
	s.splits[id] = e
	s.mu.Unlock()

	data, err := s.read(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.data, e.err = data, err; err != nil {
		delete(s.splits, id)
	}
	close(e.ready)
	return data, err
}

func (s *store) read(id ps.Split) (apps.Split, error) {
	file, err := s.open(id)
	if err != nil {
		return nil, fmt.Errorf("opening split %d: %w", id, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := s.app.LoadSplit(id, file, s.seed)
	if err != nil {
		return nil, fmt.Errorf("loading split %d: %w", id, err)
	}
	return data, nil
}
