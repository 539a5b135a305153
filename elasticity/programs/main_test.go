package programs_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets worlds, which live in a few MB, collect their garbage less often: that took a third of the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}
