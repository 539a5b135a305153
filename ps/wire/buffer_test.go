package wire

import (
	"runtime"
	"testing"
	"time"
)

// Large buffers are reused however often garbage is collected meanwhile, and released when they have been unused for a while.
func TestLargeBuffersOutliveCollections(t *testing.T) {
	const size = 5 << 20
	b := NewBuffer(size)
	first := &b.words[0]
	b.Release()
	for range 3 {
		runtime.GC()
	}
	b = NewBuffer(size - 100)
	if &b.words[0] != first || len(b.Bytes()) != size-100 {
		t.Error("another buffer was made")
	}
	if other := NewBuffer(size); &other.words[0] == first {
		t.Error("it was given away twice")
	}
	b.Release()
	large.Lock()
	for i := range large.free {
		large.free[i].since = time.Now().Add(-unusedFor)
	}
	large.Unlock()
	dropUnused()
	if b := NewBuffer(size); &b.words[0] == first {
		t.Error("it is kept for good")
	}
}
