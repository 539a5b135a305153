//go:build linux

package jobmanager

import (
	"log/slog"
	"os/exec"
	"strings"
	"testing"
)

// A process that exceeds its memory limit ends.
func TestJobsMemoryIsBounded(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read confined; head -c 1G /dev/zero | tail") // tail buffers a whole line
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	cmd.Stderr = &problems
	m := Manager{cfg: Config{JobMemory: 256 << 20, Log: slog.New(slog.DiscardHandler)}}
	if err := m.spawn(cmd); err != nil {
		t.Fatal(err)
	}
	_ = hold.Close()
	if err := cmd.Wait(); err == nil || !strings.Contains(problems.String(), "memory") {
		t.Errorf("it ended with %v: %s", err, problems.String())
	}
}
