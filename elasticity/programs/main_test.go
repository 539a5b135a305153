package programs_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain makes worlds, which need only a few MB, collect garbage less often: collection took a third of the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}
