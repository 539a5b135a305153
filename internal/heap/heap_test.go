package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 100}, {4 << 20, 100}, {64 << 20, 50}, {256 << 20, 12}, {1 << 30, 8}, {10 << 30, 8}} {
		if got := Percent(c.live); got != c.want {
			t.Errorf("%d MB: %d, not %d", c.live>>20, got, c.want)
		}
	}
}

// What comes after a large live heap is collected before it is as much again.
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
