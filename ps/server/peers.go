package server

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// peers are the servers that this one calls: the others, at the addresses of the last route, and itself.
//
// Locks: mu only guards the addresses. It comes after every other lock.
type peers struct {
	self  ps.ServerID
	here  wire.Caller // calls this server itself
	links wire.Links

	mu        sync.RWMutex
	addresses map[ps.ServerID]string
}

// set adopts the addresses of a route.
func (n *peers) set(addresses map[ps.ServerID]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = maps.Clone(addresses)
}

// caller returns a client of a server, which may be this one.
func (n *peers) caller(ctx context.Context, to ps.ServerID) (wire.Caller, error) {
	if to == n.self {
		return n.here, nil
	}
	n.mu.RLock()
	address, known := n.addresses[to]
	n.mu.RUnlock()
	if !known {
		return nil, fmt.Errorf("no address of server %s is known yet: %w", to, wire.ErrRetry)
	}
	return n.links.To(ctx, address)
}

// ask calls another server, or this one.
func ask[T wire.Message](
	ctx context.Context, n *peers, to ps.ServerID, generation ps.Generation, request wire.Message,
) (T, error) {
	caller, err := n.caller(ctx, to)
	if err != nil {
		var none T
		return none, err
	}
	return wire.Ask[T](ctx, caller, generation, request)
}

// askAt calls the server at an address, which need not be in the route yet.
func askAt[T wire.Message](
	ctx context.Context, n *peers, address string, generation ps.Generation, request wire.Message,
) (T, error) {
	link, err := n.links.To(ctx, address)
	if err != nil {
		var none T
		return none, err
	}
	return wire.Ask[T](ctx, link, generation, request)
}

// pause grows from one attempt to the next. Jitter keeps callers that failed together from retrying together.
type pause struct{ last time.Duration }

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// wait returns false if ctx ended.
func (p *pause) wait(ctx context.Context) bool {
	p.last = min(max(2*p.last, firstPause), maxPause)
	timer := time.NewTimer(p.last/2 + rand.N(p.last/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
