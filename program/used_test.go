package program

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestUsedCountsWhatTheScriptWaitsFor: processor time and memory include a script's commands, not only its shell.
func TestUsedCountsWhatTheScriptWaitsFor(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "run.sh")
	// A child that counts, and holds 64 MiB.
	text := "bash -c 'x=$(head -c 67108864 /dev/zero | tr \"\\0\" x); for ((i = 0; i < 200000; i++)); do :; done'\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := launch(nil, script, dir, "used-test", os.Environ(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	<-p.ended
	p.finish()
	if cpu, memory := p.used(); cpu <= .05 || memory < 64<<20 {
		t.Errorf("%v s of processor time and %d bytes", cpu, memory)
	}
}
