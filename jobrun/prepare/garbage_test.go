package prepare

import (
	"runtime/debug"
	"testing"
)

// Simulations have a memory limit; a lower limit from the environment stays. Both are restored.
func TestLittleGarbage(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, limit := range []int64{mostGarbage / 2, 4 * mostGarbage} {
		debug.SetMemoryLimit(limit)
		end := LittleGarbage()
		if is, want := debug.SetMemoryLimit(-1), min(limit, mostGarbage); is != want {
			t.Errorf("a limit of %d bytes is %d while simulating, want %d", limit, is, want)
		}
		if end(); debug.SetMemoryLimit(-1) != limit {
			t.Errorf("the limit is %d bytes afterwards, want %d", debug.SetMemoryLimit(-1), limit)
		}
	}
}
