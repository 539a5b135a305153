package fakecloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/computeapi"
	"github.com/tierml/tierml/fakecloud/internal/query"
	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/internal/sameuser"
)

// Cloud is a running cloud: New, then Run.
type Cloud struct {
	config   Config
	listener net.Listener
	server   *http.Server
	poke     chan struct{}  // makes the market's loop check again
	machines sync.WaitGroup // one per instance process

	mu      sync.Mutex
	region  *region.Region
	now     time.Time // latest market time seen
	script  []step    // future steps, by time
	running map[string]*machine
	cores   cores
	records *recorder
	err     error // why Run must end
}

// New checks the configuration, opens the records and the API's port. Nothing happens before Run, which also releases both.
func New(c Config) (*Cloud, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("fake cloud: %w", err)
	}
	if c.LogDir != "" {
		if err := os.MkdirAll(c.LogDir, 0o755); err != nil {
			return nil, fmt.Errorf("fake cloud: folder for the instances' output: %w", err)
		}
	}
	records, err := openRecorder(c.Records)
	if err != nil {
		return nil, fmt.Errorf("fake cloud: launch records: %w", err)
	}
	cloud, err := newCloud(c, records)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fake cloud: %w", err), records.close())
	}
	return cloud, nil
}

func newCloud(c Config, records *recorder) (*Cloud, error) {
	r, err := c.region(records.sessions())
	if err != nil {
		return nil, err
	}
	script, err := c.Script.schedule(c.Clock.Market, r)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("port of the API: %w", err)
	}
	cloud := &Cloud{
		config: c, listener: listener, poke: make(chan struct{}, 1), region: r, now: c.Clock.Now(), script: script,
		running: make(map[string]*machine), records: records, cores: cores{all: coresHere()},
	}
	mux := http.NewServeMux()
	mux.Handle("/", cloud.api())
	mux.Handle("/_control/", cloud.control())
	cloud.server = newServer(mux)
	return cloud, nil
}

// operationTime (wall) is the duration of Compute Engine's operations here.
const operationTime = 50 * time.Millisecond

// api speaks the provider's protocol.
func (c *Cloud) api() http.Handler {
	if c.config.Provider == GCE {
		return computeapi.New(c, c.config.Log, computeapi.Lengths{
			Operation: c.config.Clock.ToMarket(operationTime), Market: c.config.Clock.ToMarket})
	}
	return query.New(c, c.config.Log)
}

// Endpoint returns the URL of the API, known after New. Connections wait until Run.
func (c *Cloud) Endpoint() string { return "http://" + c.listener.Addr().String() }

// shutdownTime bounds requests in progress when the cloud ends.
const shutdownTime = time.Second

// Run serves until ctx is done. Then it accepts no more requests, terminates every instance and waits until their processes have ended. A
// cloud that is killed leaves its instances running: they stop themselves.
func (c *Cloud) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.open()
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer stop()
		if err := c.server.Serve(sameuser.Listener(c.listener, c.config.Log)); !errors.Is(err, http.ErrServerClosed) {
			c.fail(fmt.Errorf("serving the API: %w", err))
		}
	}()
	c.replay(ctx)

	timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if c.server.Shutdown(timeout) != nil {
		c.server.Close()
	}
	<-served
	return c.close()
}

func (c *Cloud) open() {
	c.Do(func(_ *region.Region, now time.Time) {
		c.record(Record{T: now, Kind: Opened, Region: c.config.Region, Rules: c.config.Rules.Name(), Clock: c.config.Clock.String()})
	})
}

// close ends running instances and records it.
func (c *Cloud) close() error {
	c.Do(func(r *region.Region, now time.Time) { r.TerminateAll(now) })
	c.machines.Wait()
	c.bury()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record(Record{T: c.advance(), Kind: Closed})
	if err := errors.Join(c.err, c.records.close()); err != nil {
		return fmt.Errorf("fake cloud: %w", err)
	}
	return nil
}

// shortestWait keeps rounding in the clock's mapping from making the loop spin.
const shortestWait = time.Millisecond

// replay runs the market and the script in time, and ticks, until ctx is done. It sleeps in between.
func (c *Cloud) replay(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	nextTick := time.Now().Add(c.config.Tick)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.poke:
		}
		var wait time.Duration
		var failed bool
		c.Do(func(r *region.Region, now time.Time) {
			if !time.Now().Before(nextTick) {
				c.record(Record{T: now, Kind: Tick})
				nextTick = time.Now().Add(c.config.Tick)
			}
			wait = time.Until(nextTick)
			if at, ok := c.nextDue(); ok {
				wait = min(wait, c.config.Clock.Until(at))
			}
			failed = c.err != nil
		})
		if failed {
			return
		}
		timer.Reset(max(shortestWait, wait))
	}
}

// nextDue returns the market time of the next event.
func (c *Cloud) nextDue() (time.Time, bool) {
	at, ok := c.region.NextWake()
	if len(c.script) > 0 && (!ok || c.script[0].at.Before(at)) {
		return c.script[0].at, true
	}
	return at, ok
}

// Do passes the region to f at the present market time, after everything due until then, and carries out the effects. One call at a time.
func (c *Cloud) Do(f func(r *region.Region, now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, had := c.nextDue()
	now := c.advance()
	f(c.region, now)
	c.carryOut()
	if at, ok := c.nextDue(); ok && (!had || !at.Equal(before)) {
		c.wake()
	}
}

// wake makes the market's loop check again for due events.
func (c *Cloud) wake() {
	select {
	case c.poke <- struct{}{}:
	default: // it will check anyway
	}
}

// advance advances the region and the script to the present market time, which never goes back.
func (c *Cloud) advance() time.Time {
	if now := c.config.Clock.Now(); now.After(c.now) {
		c.now = now
	}
	for len(c.script) > 0 && !c.script[0].at.After(c.now) {
		s := c.script[0]
		c.script = c.script[1:]
		if targets, err := s.execute(c.region, c.config.Clock, s.at); err != nil {
			c.config.Log.Warn("script step failed", "step", s.String(), "error", err)
		} else {
			c.config.Log.Info("script step", "step", s.String(), "targets", targets)
		}
	}
	c.region.Advance(c.now)
	c.carryOut()
	return c.now
}

// carryOut executes the region's effects.
func (c *Cloud) carryOut() {
	for _, e := range c.region.Effects() {
		switch e := e.(type) {
		case region.Launched:
			i := e.Instance
			c.config.Log.Info("launched", "instance", i.ID, "pool", i.Pool, "bid", i.Bid)
			c.record(Record{T: c.now, Kind: Launched, ID: i.ID, Pool: i.Pool, Bid: i.Bid, Launched: i.Launched})
		case region.Ended:
			i := e.Instance
			c.config.Log.Info("ended", "instance", i.ID, "by", i.Cause.By, "reason", i.Cause.Code)
			c.record(Record{T: c.now, Kind: Ended, ID: i.ID, Ended: i.Ended, By: i.Cause.By, Reason: i.Cause.Code})
		case region.Boot:
			c.boot(e.Instance)
		case region.Halt:
			if m := c.running[e.ID]; m != nil {
				m.halt(e.Force)
			}
		}
	}
}

// record writes a launch record. A cloud whose bill would be wrong must end.
func (c *Cloud) record(r Record) {
	if err := c.records.write(r); err != nil {
		c.failLocked(fmt.Errorf("launch records: %w", err))
	}
}

func (c *Cloud) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *Cloud) failLocked(err error) {
	if c.err == nil {
		c.err = err
	}
	c.wake()
}

// Bill returns the bill of the launch records so far.
func (c *Cloud) Bill() (Bill, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return NewBill(c.records.all(c.advance()), c.config.Rules, c.config.Histories())
}
