// Package child runs a user's program on a machine, as a child of the agent, and makes it compute rounds (apps.Child): it starts the
// program by package program, talks to it over a Unix socket and shared memory (python/wire.md), and restarts it when it fails. It knows
// nothing about splits, servers or where rows come from.
package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/program"
)

// Config configures a child.
type Config struct {
	Terms   apps.Terms
	Store   string // where the initial model is kept for all machines
	Retries int    // how many times in a row the program may fail
	// Start begins an attempt of the program with an additional environment variable, and ends the previous one. Its events go to Ended.
	Start func(attempt uint64, environment map[string]string) error
	Log   *slog.Logger
	// HelloWithin bounds the time from the program's start to its first pull; 0 = the default.
	HelloWithin time.Duration
	// Grace is how long the program may continue after its last round; 0 = the default.
	Grace time.Duration
	// StuckAfter is the minimum time before a round counts as stuck; 0 = the default. See patience.
	StuckAfter time.Duration
}

const (
	helloWithin = 20 * time.Minute // it may load a model
	stuckAfter  = 2 * time.Minute
	byeGrace    = 3 * time.Second
	closedGrace = 30 * time.Second // its exit status says more
	// stuckTimes bounds a round, in multiples of the median round.
	stuckTimes = 10
)

// ErrFailed is the error of a program that has failed permanently. Run returns the reason.
var ErrFailed = errors.New("the program failed")

// Variable tells the program how to reach its agent.
const Variable = "TIERML_TIERS"

// Child is the program of a machine. Its Run method owns it.
type Child struct {
	cfg    Config
	dir    string
	listen *net.UnixListener

	ended  chan program.Exited
	warned atomic.Bool // this machine is about to be lost

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	faulty  chan struct{} // holds a token when broken was set
	session *session      // nil = none
	attempt uint64
	since   time.Time // of the attempt
	entered bool      // the attempt requested a round
	failed  error     // permanent failure
	failing int       // attempts that failed since a round counted
	broken  string    // why the agent ended the session
	closed  time.Time // when the program closed the socket within a round; zero = it did not
	over    bool
	took    []time.Duration // durations of the last rounds

	memory *memory // of the session, and of the next one

	// Used only by Round's caller.
	refused int    // consecutive deliveries that were not finite
	given   uint64 // sum of the rows at the first such delivery
}

// New makes a child; Run starts it.
func New(cfg Config) (*Child, error) {
	if cfg.HelloWithin == 0 {
		cfg.HelloWithin = helloWithin
	}
	if cfg.StuckAfter == 0 {
		cfg.StuckAfter = stuckAfter
	}
	if cfg.Grace == 0 {
		cfg.Grace = byeGrace
	}
	dir, listen, err := listenBelow(os.Getenv("HOME")) // on the machine: a killed child leaves nothing elsewhere
	if err != nil {
		dir, listen, err = listenBelow("") // its name may be too long for a socket
	}
	if err != nil {
		return nil, err
	}
	return &Child{cfg: cfg, dir: dir, listen: listen, ended: make(chan program.Exited, 1), changed: make(chan struct{}), faulty: make(chan struct{}, 1)}, nil
}

func listenBelow(parent string) (dir string, listen *net.UnixListener, err error) {
	dir, err = os.MkdirTemp(parent, "tierml-")
	if err != nil {
		return "", nil, err
	}
	listen, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("listening for the program: %w", err), os.RemoveAll(dir))
	}
	return dir, listen, nil
}

// Ended handles the end of an attempt. Only the newest counts.
func (c *Child) Ended(e program.Exited) {
	c.mu.Lock()
	newest := e.Attempt == c.attempt
	c.mu.Unlock()
	if newest {
		select {
		case c.ended <- e:
		default:
		}
	}
}

// change wakes all waiters. mu must be held.
func (c *Child) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Run keeps the program running until ctx is done. It returns an error when the program has failed permanently.
func (c *Child) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	serving.Go(c.accept)
	err := c.supervise(ctx)
	if err == nil {
		c.sayBye()
	}
	_ = c.listen.Close() // ends accept
	c.mu.Lock()
	if c.over, c.failed = true, context.Canceled; err != nil {
		c.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	s := c.session
	c.change()
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
	serving.Wait()
	if c.memory != nil {
		c.memory.close()
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// sayBye makes the program leave its steps, and waits a little for its end.
func (c *Child) sayBye() {
	c.mu.Lock()
	s := c.session
	c.over = true
	c.mu.Unlock()
	if s == nil || s.memory == nil {
		return
	}
	s.memory.set(wordLeave)
	if s.write(message{Type: typeBye}) != nil {
		return
	}
	select {
	case <-c.ended:
	case <-time.After(c.cfg.Grace):
	}
}

func (c *Child) supervise(ctx context.Context) error {
	for attempt := uint64(1); ; attempt++ {
		c.mu.Lock()
		c.attempt, c.since, c.entered, c.broken, c.closed = attempt, time.Now(), false, "", time.Time{}
		c.mu.Unlock()
		if err := c.cfg.Start(attempt, map[string]string{Variable: filepath.Join(c.dir, "s")}); err != nil {
			return fmt.Errorf("starting the program: %w", err)
		}
		why, exited := c.await(ctx)
		if ctx.Err() != nil {
			return nil
		}
		c.mu.Lock()
		c.failing++
		failing, broken, s, entered := c.failing, c.broken, c.session, c.entered
		c.mu.Unlock()
		if s != nil {
			s.close()
		}
		if broken != "" {
			why = broken
		} else if why == "" {
			why = describe(exited, entered)
		}
		if failing > c.cfg.Retries {
			return errors.New(why)
		}
		c.cfg.Log.Warn("the program failed and is started again", "failures", failing, "retries", c.cfg.Retries, "why", why)
	}
}

// await waits for the end of the present attempt, or for a reason to end it.
func (c *Child) await(ctx context.Context) (why string, exited program.Exited) {
	ticker := time.NewTicker(time.Second / 4)
	defer ticker.Stop()
	for {
		if why := c.stuck(time.Now()); why != "" {
			return why, exited
		}
		select {
		case <-ctx.Done():
			return "", exited
		case exited = <-c.ended:
			if exited.Attempt == c.present() {
				return "", exited
			}
		case <-c.faulty:
		case <-ticker.C:
		}
	}
}

func (c *Child) present() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempt
}

// stuck returns why a live attempt should be given up; empty = it should not.
func (c *Child) stuck(now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.session
	switch {
	case c.broken != "":
		return c.broken
	case s == nil && !c.closed.IsZero():
		if now.Sub(c.closed) > min(closedGrace, c.cfg.HelloWithin) {
			return "the program closed its socket within a round, and has not ended since"
		}
	case s == nil || !s.pulled:
		if now.Sub(c.since) > c.cfg.HelloWithin {
			return fmt.Sprintf("the program has run for %.0f s and has not entered `with tierml.DiLoCo(...)` and its steps: every path of the script must, or it hangs before",
				c.cfg.HelloWithin.Seconds())
		}
	case s.order != nil && now.Sub(s.began) > c.patience():
		return fmt.Sprintf("the program has worked on round %d for %.0f s and is taken for stuck: ten times as long as the rounds before, and at least %.0f s",
			s.order.Clock, now.Sub(s.began).Seconds(), c.cfg.StuckAfter.Seconds())
	}
	return ""
}

// patience is how long a round may take. The first ones may compile, and have no limit.
func (c *Child) patience() time.Duration {
	if len(c.took) < 3 {
		return math.MaxInt64
	}
	sorted := slices.Sorted(slices.Values(c.took))
	return max(stuckTimes*sorted[len(sorted)/2], c.cfg.StuckAfter)
}

// describe describes how an attempt ended unexpectedly, possibly without ever requesting a round.
func describe(e program.Exited, entered bool) string {
	how := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != "" {
		how += " (" + e.Signal + ")"
	}
	switch {
	case e.Code != 0:
	case entered:
		how += " before all steps were done: let `for step in run.steps(n)` run to its end"
	default:
		how += " and never entered `with tierml.DiLoCo(...)` and its steps: put the training loop into them"
	}
	text := "the program ended with " + how
	if e.Phase != program.Running {
		text = fmt.Sprintf("the program could not start (%s)", e.Phase)
	}
	if e.Note != "" {
		text += "; " + e.Note
	}
	if tail := strings.TrimSpace(e.Tail); tail != "" {
		text += ": " + lastOf(tail, 300)
	}
	return text
}

// lastOf returns the end of a text, starting at a line if possible.
func lastOf(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		return rest
	}
	return text
}

// Hurry ends the current round after its present step and, if the machine is about to go, later ones after their first.
func (c *Child) Hurry(forGood bool) {
	if c.cfg.Terms.Deterministic {
		return // a partial round is a different result
	}
	if forGood {
		c.warned.Store(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.session; s != nil && s.order != nil {
		s.memory.set(wordDeliver)
	}
}

// Ready implements apps.Child.
func (c *Child) Ready(ctx context.Context) (floats int, err error) {
	s, err := c.idle(ctx)
	if err != nil {
		return 0, err
	}
	return s.floats, nil
}

// idle waits for a session that can take an order.
func (c *Child) idle(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, failed, changed := c.session, c.failed, c.changed
		if s != nil && s.pulled && s.order == nil {
			c.mu.Unlock()
			return s, nil
		}
		c.mu.Unlock()
		if failed != nil {
			return nil, failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Memory implements apps.Child.
func (c *Child) Memory() (rows, delta []float32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.session; s != nil && s.pulled {
		return s.memory.areas()
	}
	return nil, nil
}

// Round implements apps.Child. If the program dies meanwhile, its successor repeats the round from the beginning.
func (c *Child) Round(ctx context.Context, o apps.Order, give func(to []float32)) (apps.Delivery, []float32, error) {
	for {
		s, err := c.idle(ctx)
		if err != nil {
			return apps.Delivery{}, nil, err
		}
		rows, delta := s.memory.areas()
		give(rows)
		if err := c.send(s, o); err != nil {
			continue // its end is noticed elsewhere
		}
		d, delivered, err := c.awaitPush(ctx, s)
		if err != nil {
			return apps.Delivery{}, nil, err
		}
		if !delivered {
			continue
		}
		return c.judge(s, o, d, rows, delta)
	}
}

// send sends an order to a session.
func (c *Child) send(s *session, o apps.Order) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.number++
	s.order, s.began, s.pushed = &o, time.Now(), nil
	word := uint32(wordWork)
	if c.warned.Load() {
		word = wordDeliver
	}
	s.memory.set(word)
	err := s.write(message{Type: typeRound, Round: int64(o.Clock), Number: s.number, Replica: int(o.Replica), First: o.First, Steps: o.Steps})
	if err != nil {
		s.order = nil
		s.pulled = false
	}
	return err
}

// awaitPush waits for the result of an order; false: the session ended. When ctx ends, the shared word makes the program leave the round:
// its delivery no longer counts.
func (c *Child) awaitPush(ctx context.Context, s *session) (apps.Delivery, bool, error) {
	for {
		c.mu.Lock()
		pushed, ended, failed, changed := s.pushed, c.session != s, c.failed, c.changed
		c.mu.Unlock()
		switch {
		case pushed != nil:
			return *pushed, true, nil
		case failed != nil:
			return apps.Delivery{}, false, failed
		case ended:
			return apps.Delivery{}, false, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.memory.set(wordLeave)
			return apps.Delivery{}, false, context.Cause(ctx)
		}
	}
}

// mostRefused is the limit of consecutive rounds that change nothing anywhere.
const mostRefused = 3

// judge refuses a delta that is not finite. If that happens three times to rows that nobody has changed meanwhile, no replica delivers, and
// the program has failed.
func (c *Child) judge(s *session, o apps.Order, d apps.Delivery, rows, delta []float32) (apps.Delivery, []float32, error) {
	c.mu.Lock()
	c.failing = 0
	if d.Steps == o.Steps {
		c.took = append(slices.Delete(c.took, 0, max(len(c.took)-8, 0)), time.Since(s.began))
	}
	c.mu.Unlock()
	if d.Steps == 0 {
		return d, delta, nil
	}
	bad := s.memory.notFinite()
	if bad < 0 {
		c.refused = 0
		return d, delta, nil
	}
	where, value := s.tensorAt(bad), delta[bad+bad/s.memory.row]
	sum := checksum(rows)
	if c.refused == 0 || sum != c.given {
		c.refused, c.given = 0, sum
	}
	c.refused++
	c.cfg.Log.Warn("the round's delta is not delivered: it holds a value that is no number", "round", o.Clock, "replica", o.Replica, "tensor", where, "value", value)
	if c.refused >= mostRefused {
		return d, nil, fmt.Errorf("tensor %s became %v in round %d, and for %d rounds no replica has delivered: lower the learning rate, or clip gradients",
			where, value, o.Clock, mostRefused)
	}
	return apps.Delivery{}, nil, nil
}
