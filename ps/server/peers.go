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

// peers are the servers that this one asks: the others, at the addresses that the last route came with, and itself.
//
// Locks: mu guards the addresses alone. It comes after every other lock.
type peers struct {
	self  ps.ServerID
	here  wire.Caller // reaches this server
	links wire.Links

	mu        sync.RWMutex
	addresses map[ps.ServerID]string
}

// set takes over the addresses of a route.
func (n *peers) set(addresses map[ps.ServerID]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = maps.Clone(addresses)
}

// caller reaches a server, also this one.
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

// ask asks another server, or this one.
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

// askAt asks the server at an address, which need not be in the route yet.
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

// pause grows from one attempt to the next. Its jitter keeps those that failed together from coming back
// together.
type pause struct{ last time.Duration }

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// wait returns false when ctx ended.
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
