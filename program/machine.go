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

// Config is what a machine needs to run programs.
type Config struct {
	Spec    Spec
	Dir     string      // for everything on this machine
	Report  func(Event) // called by one goroutine at a time; should return soon
	Log     *slog.Logger
	Environ []string // what programs inherit; nil = this process's environment
	// Keys are the run's credentials for its store, which programs get with Spec.CloudAccess only; nil = it has none.
	Keys func() (blob.Keys, error)
}

// Machine runs one attempt after the other. Its methods only ask; what happens is reported.
type Machine struct {
	config  Config
	notices *noticeServer
	space   func(dir string) (free, total uint64, err error)

	attempts sync.WaitGroup
	mu       sync.Mutex
	last     *attempt
	warned   *ending // an eviction is the machine's, whatever runs
	closed   bool

	// Used by the attempt that runs, one after the other.
	fetched bool // the folder is there
	used    bool // an attempt has run in it
	// container is where programs run; nil = none yet, or the job names no image.
	container *container
}

// New makes a machine ready. Close ends it.
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

// Start begins an attempt, after the one before has ended: it is killed, and its state not saved. The same attempt again is the same message again.
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

// Notice warns the program: the machine goes at the deadline, or (rebalance) is likely to go some time. What mirroring needs is kept free
// before the deadline.
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

// Save mirrors the state now, or at the program's next step where it takes snapshots. Round is the number of a set over several ranks, which grows;
// 0 = no set.
func (m *Machine) Save(round uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil {
		m.last.save(round)
	}
}

// SetPeers puts the other ranks that run into the program's file.
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

// Finish ends the program in order and saves its state, as far as both take no longer than a time. Then it does what Close does.
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

// Close kills what runs, and waits.
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

// ending says how an attempt is to end. The zero times are none.
type ending struct {
	kind     string
	deadline time.Time // the machine goes
	kill     time.Time // the program must go
	save     bool
}

// and merges a later request: the earlier times hold, and the state is saved only if both want it.
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

// newAttempt makes one that has not begun.
func newAttempt(m *Machine, s Start) *attempt {
	a := &attempt{m: m, start: s, peers: s.Peers, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	a.all, a.abandon = context.WithCancel(context.Background())
	a.prepares, a.unprepare = context.WithCancel(a.all)
	return a
}
