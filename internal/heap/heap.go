// Package heap keeps a process's garbage small compared with its live heap. Go lets the heap grow to twice its live size before it
// collects, which is right for small heaps of many pointers. A server's heap is rows, large pieces of memory without a pointer: a
// collection costs next to nothing there, and garbage as large as the rows would double a machine's memory need.
//
// It knows nothing about the heap's contents.
package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// spare is how much garbage a heap of any size may hold, in bytes: small ones are collected as Go does by default.
	spare = 32 << 20
	// share is the garbage of a large heap, as a share of the live part.
	share = 12
)

// Percent returns GOGC's value for a live heap of this many bytes, where a collection has to scan some for pointers: it takes time for
// those, and garbage is permitted in proportion.
func Percent(live, pointers uint64) int {
	garbage := max(spare, live/share, 2*pointers)
	if live <= garbage {
		return 100
	}
	return int(100 * garbage / live)
}

// Tune adapts GOGC after every collection, from now on. Do not call it if the environment has a GOGC.
var Tune = sync.OnceFunc(func() { arm(100) })

// cycle is garbage immediately: its finalizer runs once after each collection. The pointer keeps it out of the allocator for tiny objects,
// where it would share memory with others and live as long as any: processes then kept the setting of that time, and servers occasionally
// held 28 bytes a parameter, not 18.
type cycle struct {
	percent int
	_       *cycle
}

func arm(percent int) {
	runtime.SetFinalizer(&cycle{percent: percent}, func(c *cycle) {
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
		metrics.Read(heap)
		percent := Percent(heap[0].Value.Uint64(), heap[1].Value.Uint64())
		if percent != c.percent {
			debug.SetGCPercent(percent)
		}
		arm(percent)
	})
}
