// Package client connects a worker process to the parameter servers: it reads rows that are fresh enough, and
// contributes a clock's updates so that they count once or not at all, whatever moves or fails meanwhile.
//
// It follows routes and never makes one. It knows nothing about what the numbers mean.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// Errors that the worker, not the client, must handle. Others are in package ps.
var (
	// ErrStale: the generation has ended. The worker waits for the recovery's announcement.
	ErrStale = wire.ErrStale
	// ErrFenced: this incarnation was abandoned. The process must rejoin empty.
	ErrFenced = ps.ErrFenced
	// ErrClosed: Close was called.
	ErrClosed = wire.ErrClosed
)

// Config configures a client.
type Config struct {
	Schema ps.Schema
	Job    uint64
	Log    *slog.Logger // nil: none
	// Incarnation is the worker's: answers tell which of its own contributions they include.
	Incarnation ps.Incarnation
	// Transport of contributions. Values that it cannot represent are sent whole.
	Transport ps.Transport
	// MaxBody is the longest body of a frame, in bytes; 0 = wire.MaxBody. Larger reads and contributions are split.
	MaxBody int
	Dial    wire.Dialer // nil: TCP, or a Unix socket if the server is on this host
	TLS     *tls.Config // nil: none. With it, everything uses TCP
	// Local returns the server of this process if it has that id, to call it without a network. Nil: no local server.
	Local func(ps.ServerID) wire.Caller
	// Panicked is called for panics in the client's goroutines, not in its callers'.
	Panicked wire.Panicked
}

// PartitionSums are a contribution's updates of one partition.
type PartitionSums = wire.PartitionSums

// Client is a worker process's connection to all servers. It is safe for concurrent use.
type Client struct {
	cfg     Config
	schema  ps.Schema
	log     *slog.Logger
	links   wire.Links
	traffic wire.Traffic
	layouts sync.Pool // *layout
	// contributions are reused ones.
	contributions sync.Pool // *contribution

	mu         sync.Mutex
	generation ps.Generation
	routed     bool
	version    uint64
	owners     []server      // Index: Partition; from the route, updated by the servers themselves
	changed    chan struct{} // closed and replaced when a route arrives
	flights    map[*flight]struct{}
	closed     bool
}

// server is the destination of requests.
type server struct {
	id      ps.ServerID
	address string
}

// New returns a client without a route: its methods wait for one.
func New(cfg Config) *Client {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		cfg:     cfg,
		schema:  cfg.Schema,
		log:     cfg.Log,
		owners:  make([]server, cfg.Schema.Partitions),
		changed: make(chan struct{}),
		flights: map[*flight]struct{}{},
	}
	c.layouts.New = func() any { return new(layout) }
	c.contributions.New = func() any { return new(contribution) }
	if cfg.TLS != nil {
		cfg.Dial = wire.SecureDialer(cfg.Dial, cfg.TLS)
	}
	c.links = wire.Links{Dial: cfg.Dial, Job: cfg.Job, Traffic: &c.traffic, MaxBody: cfg.MaxBody, Panicked: cfg.Panicked}
	return c
}

// Close ends everything in progress and waits for the client's goroutines.
func (c *Client) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.wake()
	}
	c.mu.Unlock()
	c.links.Close()
}

// Traffic returns how many bytes came in and went out over the network.
func (c *Client) Traffic() (in, out int64) { return c.traffic.In.Load(), c.traffic.Out.Load() }

// Requests returns how many requests went out over the network.
func (c *Client) Requests() int64 { return c.traffic.Requests.Load() }

// SetRoute sets which server owns each partition, and the servers' addresses. Requests in progress to servers that were
// replaced are sent again to the new ones. A route older than the present one is ignored.
func (c *Client) SetRoute(generation ps.Generation, route ps.Route, peers map[ps.ServerID]string) {
	c.mu.Lock()
	if generation < c.generation || c.routed && generation == c.generation && route.Version < c.version {
		c.mu.Unlock()
		return
	}
	c.generation, c.routed, c.version = generation, true, route.Version
	for p := range c.owners {
		c.owners[p] = server{}
		if p < len(route.Owner) {
			c.owners[p] = server{id: route.Owner[p], address: peers[route.Owner[p]]}
		}
	}
	c.wake()
	c.mu.Unlock()

	addresses := map[string]bool{}
	for _, address := range peers {
		addresses[address] = true
	}
	c.links.Keep(addresses)
}

// view is the client's knowledge at one moment.
type view struct {
	owners  []server
	changed chan struct{} // closed when the next route arrives
}

// look waits for a route of a generation, and copies it to owners.
func (c *Client) look(ctx context.Context, generation ps.Generation, owners []server) (view, error) {
	for {
		c.mu.Lock()
		v := view{owners: append(owners[:0], c.owners...), changed: c.changed}
		closed, known, now := c.closed, c.routed, c.generation
		c.mu.Unlock()
		switch {
		case closed:
			return v, ErrClosed
		case ctx.Err() != nil:
			return v, ctx.Err()
		case known && now > generation:
			return v, ErrStale
		case known && now == generation:
			return v, nil
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
		}
	}
}

// learn records a partition's new server from an answer to b; unless a route has arrived since b was sent, which may
// name the answering server because the move was cancelled.
func (c *Client) learn(p ps.Partition, b batch, to server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == b.changed && c.owners[p] == b.to {
		c.owners[p] = to
	}
}

// flight is a call in progress.
type flight struct {
	generation ps.Generation
	to         server
	partitions []ps.Partition
	cancel     context.CancelFunc
}

// call sends a server one request. It is cancelled if the route no longer assigns all of the partitions to that server.
func (c *Client) call(
	ctx context.Context, generation ps.Generation, to server, partitions []ps.Partition, request wire.Message,
) (wire.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &flight{generation: generation, to: to, partitions: partitions, cancel: cancel}
	if !c.depart(f) {
		return nil, wire.ErrRetry
	}
	defer c.arrive(f)
	if c.cfg.Local != nil {
		if caller := c.cfg.Local(to.id); caller != nil {
			return caller.Call(ctx, generation, request)
		}
	}
	if to.address == "" {
		return nil, wire.ErrRetry
	}
	link, err := c.links.To(ctx, to.address)
	if err != nil {
		return nil, err
	}
	return link.Call(ctx, generation, request)
}

// depart registers a call, unless it is obsolete.
func (c *Client) depart(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.current(f) {
		return false
	}
	c.flights[f] = struct{}{}
	return true
}

func (c *Client) arrive(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, f)
}

// current reports whether a call still goes to the right server. The caller holds mu.
func (c *Client) current(f *flight) bool {
	if c.closed || c.generation != f.generation {
		return false
	}
	for _, p := range f.partitions {
		if c.owners[p] != f.to {
			return false
		}
	}
	return true
}

// wake ends pauses and obsolete calls. The caller holds mu.
func (c *Client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
	for f := range c.flights { // any order: they are independent
		if !c.current(f) {
			f.cancel()
		}
	}
}

// fatal reports whether a failed request must not simply be retried.
func fatal(err error) bool {
	for _, reason := range []error{ErrStale, ErrFenced, ps.ErrInvalid, ps.ErrOverflow, wire.ErrRefused, wire.ErrInternal} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// attempts paces the rounds of one operation.
type attempts struct {
	pause time.Duration
	hops  int // consecutive rounds that only followed moved partitions
}

const (
	firstPause = 2 * time.Millisecond
	maxPause   = 200 * time.Millisecond
	// maxHops is how many moves are followed without a pause: servers with outdated information could send the
	// client in a circle.
	maxHops = 4
)

// outcome is the result of a round, best first.
type outcome int

const (
	progress outcome = iota // something was done; the rest may be requested at once
	followed                // partitions have moved
	setback                 // a server is not ready, or cannot be reached
)

// next waits as long as a round's outcome suggests. A new route ends the pause.
func (a *attempts) next(ctx context.Context, v view, o outcome) {
	switch {
	case o == progress:
		*a = attempts{}
		return
	case o == followed && a.hops < maxHops:
		a.hops++
		return
	}
	a.hops = 0
	a.pause = min(max(2*a.pause, firstPause), maxPause)
	timer := time.NewTimer(a.pause/2 + rand.N(a.pause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-v.changed:
	case <-ctx.Done():
	}
}
