package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		live, pointers uint64
		want           int
	}{
		{0, 0, 100}, {4 << 20, 0, 100}, {64 << 20, 0, 50}, {256 << 20, 0, 12}, {1 << 30, 8 << 20, 8}, {10 << 30, 0, 8},
		{1 << 30, 128 << 20, 25}, {1 << 30, 900 << 20, 100},
	} {
		if got := Percent(c.live, c.pointers); got != c.want {
			t.Errorf("%d MB, %d of them with pointers: %d, not %d", c.live>>20, c.pointers>>20, got, c.want)
		}
	}
}

// Garbage after a large live heap is collected before it doubles the heap.
func TestTune(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	Tune()
	kept := make([][]byte, 0, 256)
	for range 256 {
		kept = append(kept, make([]byte, 1<<20))
	}
	var m runtime.MemStats
	most := uint64(0)
	for range 1000 {
		kept[0] = make([]byte, 1<<20)
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	if most > 400<<20 {
		t.Errorf("%d MB live grew to %d MB", len(kept), most>>20)
	}
	runtime.KeepAlive(kept)
}

// Objects that share memory with tiny ones live as long as those: the next collection must find each cycle.
func TestCycleIsNotTiny(t *testing.T) {
	const cycles = 64
	ran := make(chan struct{}, cycles)
	var tiny []*uint64
	for range cycles {
		tiny = append(tiny, new(uint64))
		runtime.SetFinalizer(&cycle{percent: 100}, func(*cycle) { ran <- struct{}{} })
	}
	runtime.GC()
	for n := range cycles - 1 { // the last one may still be on the stack
		select {
		case <-ran:
		case <-time.After(time.Minute):
			t.Fatalf("only %d of %d were collected", n, cycles)
		}
	}
	runtime.KeepAlive(tiny)
}
