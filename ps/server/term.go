package server

import (
	"context"
	"fmt"
	"sync"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// term is what a server serves under: a generation and its route, and the contexts that end with them.
//
// Invariant: a request is answered only under the present generation, and never while suspended. So once FenceGeneration has returned, no
// message of an older generation changes anything here, however late it arrives: pulls and moves end with epoch, and work on a slot admits
// its request under the same lock.
//
// A generation starts by FenceGeneration and later Recover, by Recover alone, or by a route. In the last case it began without this server,
// and its present contents are useless (outlive).
//
// Locks: mu is held for writing to change the term, or many partitions at once. Otherwise it is held for reading, together with the lock of
// the slot or backup in question, while working on memory. It comes before every other lock. No lock is held during a transfer or a wait.
type term struct {
	panicked wire.Panicked

	mu         sync.RWMutex
	generation ps.Generation
	suspended  bool // between FenceGeneration and Recover
	routed     bool // has had a route of this generation
	route      ps.Route

	// life ends with Serve; epoch ends with it and with the generation. Only epoch changes.
	life     context.Context
	end      context.CancelFunc
	epoch    context.Context
	endEpoch context.CancelFunc
	tasks    sync.WaitGroup // goroutines that notify backups of cuts and pull deliveries
}

func (t *term) init(generation ps.Generation, panicked wire.Panicked) {
	t.generation, t.panicked = generation, panicked
	t.life, t.end = context.WithCancel(context.Background())
	t.epoch, t.endEpoch = context.WithCancel(t.life)
}

// begin enters a generation, which has no route yet, and ends the work of the previous one. mu must be held for writing.
func (t *term) begin(generation ps.Generation) {
	t.generation, t.routed = generation, false
	t.endEpoch()
	t.epoch, t.endEpoch = context.WithCancel(t.life)
}

// run starts a goroutine that Serve waits for. mu must be held, for reading or writing.
func (t *term) run(errand func()) {
	if t.life.Err() == nil {
		t.tasks.Go(func() {
			defer t.panicked.Report()
			errand()
		})
	}
}

// refusal returns why a request of a generation is not served now; nil if it is.
func (t *term) refusal(generation ps.Generation) *wire.Error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.admit(generation)
}

// admit is refusal; mu must be held.
func (t *term) admit(generation ps.Generation) *wire.Error {
	switch {
	case generation < t.generation:
		return &wire.Error{Code: wire.Stale, Text: fmt.Sprintf("generation %d; now it is %d", generation, t.generation)}
	case generation > t.generation || t.suspended || t.life.Err() != nil:
		return &wire.Error{Code: wire.Retry, Text: fmt.Sprintf("generation %d is not served yet", generation)}
	}
	return nil
}

// serverAt returns a partition's server, which may be missing in a short route.
func serverAt(servers []ps.ServerID, partition int) ps.ServerID {
	if partition < len(servers) {
		return servers[partition]
	}
	return ""
}
