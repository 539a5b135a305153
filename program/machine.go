package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/blob"
)

// Config is the configuration of a Machine.
type Config struct {
	Spec    Spec
	Dir     string      // for all files on this machine
	Report  func(Event) // called by one goroutine at a time; should return quickly
	Log     *slog.Logger
	Environ []string // inherited by programs; nil = this process's environment
	// Keys are the run's credentials for its store, passed to programs only with Spec.CloudAccess; nil = none.
	Keys func() (blob.Keys, error)
}

// Machine runs attempts one after another. Its methods only make requests; results are reported.
type Machine struct {
	config  Config
	notices *noticeServer
	space   func(dir string) (free, total uint64, err error)

	attempts sync.WaitGroup
	mu       sync.Mutex
	last     *attempt
	warned   *ending // set once the machine has an eviction notice, for all attempts
	closed   bool

	// Used by the running attempt, one after another.
	fetched bool // the folder exists
	used    bool // an attempt has run in it
	// container is where programs run; nil = none yet, or the job names no image.
	container *container
}

// New returns a ready machine. Close it when done.
func New(config Config) (*Machine, error) {
	if err := config.Spec.Check(); err != nil {
		return nil, err
	}
	if config.Environ == nil {
		config.Environ = os.Environ()
	}
	for _, folder := range []string{"work", "logs", "attempts"} {
		if err := os.MkdirAll(filepath.Join(config.Dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	// The system names open files by their real paths.
	dir, err := filepath.EvalSymlinks(config.Dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, err
	}
	config.Dir = dir
	keys := config.Keys
	if !config.Spec.CloudAccess {
		keys = nil
	}
	b, err := serveNotices(keys, config.Log)
	if err != nil {
		return nil, err
	}
	return &Machine{config: config, notices: b, space: space}, nil
}

// Start begins an attempt after killing the previous one, whose state is not saved. Repeating an attempt is a duplicate message and has no
// effect.
func (m *Machine) Start(s Start) error {
	if s.Key == "" || strings.ContainsAny(s.Key, "/\\ ") || strings.HasPrefix(s.Key, ".") {
		return fmt.Errorf("%q is no name for a program's state", s.Key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("the machine has been closed")
	}
	before := m.last
	if before != nil && before.start.Key == s.Key && s.Attempt <= before.start.Attempt {
		if s.Attempt == before.start.Attempt {
			return nil
		}
		return fmt.Errorf("attempt %d of %s is over: attempt %d is here", s.Attempt, s.Key, before.start.Attempt)
	}
	if before != nil {
		before.end(ending{kind: stopped, kill: time.Now()})
	}
	a := newAttempt(m, s)
	if m.warned != nil {
		a.end(*m.warned)
	}
	m.last = a
	m.attempts.Go(func() { a.run(before) })
	return nil
}

// Notice warns the program that the machine goes at the deadline, or (early) is likely to go at some time. The time that mirroring needs is
// reserved before the deadline.
func (m *Machine) Notice(deadline time.Time, early bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if early {
		if m.warned == nil && m.last != nil {
			m.last.warnEarly()
		}
		return
	}
	e := ending{kind: evicted, deadline: byThisClock(deadline, time.Now()), save: true}
	m.warned = &e
	if m.last != nil {
		m.last.end(e)
	}
}

// Save mirrors the state now, or at the program's next step if it takes snapshots. Round numbers a set over several ranks, increasing; 0 =
// no set.
func (m *Machine) Save(round uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil {
		m.last.save(round)
	}
}

// SetPeers writes the other running ranks to the program's file.
func (m *Machine) SetPeers(peers []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil {
		m.last.setPeers(peers)
	}
}

// Stop ends the program: SIGTERM, and SIGKILL after the grace. The machine stays.
func (m *Machine) Stop(grace time.Duration, save bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil {
		m.last.end(ending{kind: stopped, kill: time.Now().Add(grace), save: save})
	}
}

// Finish ends the program gracefully and saves its state, within the given time. Then it closes the machine.
func (m *Machine) Finish(within time.Duration) {
	now := time.Now()
	m.mu.Lock()
	last := m.last
	if last != nil {
		last.end(ending{kind: stopped, deadline: now.Add(within), kill: now.Add(within / 2), save: true})
	}
	m.mu.Unlock()
	if last != nil {
		timer := time.NewTimer(within)
		defer timer.Stop()
		select {
		case <-last.done:
		case <-timer.C:
		}
	}
	m.Close()
}

// Close kills what runs, and waits for it.
func (m *Machine) Close() {
	m.mu.Lock()
	m.closed = true
	if m.last != nil {
		m.last.end(ending{kind: stopped, kill: time.Now()})
		m.last.abandon()
	}
	m.mu.Unlock()
	m.attempts.Wait()
	if m.container != nil {
		m.container.close()
	}
	m.notices.close()
}

func (m *Machine) work() string { return filepath.Join(m.config.Dir, "work") }

// state returns the directory of the program's state; empty = none.
func (m *Machine) state() string {
	if m.config.Spec.State == "" {
		return ""
	}
	return filepath.Join(m.work(), filepath.FromSlash(m.config.Spec.State))
}

// ending describes how an attempt should end. Zero times mean none.
type ending struct {
	kind     string
	deadline time.Time // when the machine goes
	kill     time.Time // when the program must be killed
	save     bool
}

// and merges a later request: the earlier times apply, and the state is saved only if both want it.
func (e ending) and(later ending) ending {
	earliest := func(a, b time.Time) time.Time {
		if a.IsZero() || !b.IsZero() && b.Before(a) {
			return b
		}
		return a
	}
	e.deadline, e.kill = earliest(e.deadline, later.deadline), earliest(e.kill, later.kill)
	e.save = e.save && later.save
	if later.kind == evicted {
		e.kind = evicted
	}
	return e
}

// newAttempt returns an attempt that has not started.
func newAttempt(m *Machine, s Start) *attempt {
	a := &attempt{m: m, start: s, peers: s.Peers, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	a.all, a.abandon = context.WithCancel(context.Background())
	a.prepares, a.unprepare = context.WithCancel(a.all)
	return a
}
