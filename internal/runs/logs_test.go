package runs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/fuzzing"
	"github.com/tierml/tierml/internal/rundir"
)

// However long logs and their lines are, little is held in memory.
func TestLogsAreReadInPieces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, rundir.LogsDir, "agent.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	add := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	logs := OpenLogs(dir, nil)
	printed := func() string {
		var out bytes.Buffer
		if err := logs.Print(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	add("one\ntwo\nthr")
	if got := printed(); got != "agent | one\nagent | two\n" {
		t.Errorf("%q", got)
	}
	add("ee\n" + strings.Repeat("x", longestLine+1) + "\n")
	if got, want := printed(), "agent | three\nagent | "+strings.Repeat("x", longestLine)+"\nagent | x\n"; got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	add(strings.Repeat(strings.Repeat("y", 999)+"\n", 32<<10))
	fuzzing.AtMost(t, 0, 0, func() {
		if err := logs.Print(io.Discard); err != nil {
			t.Error(err)
		}
	})
	add("end")
	var last bytes.Buffer
	if err := logs.Follow(t.Context(), func() bool { return false }, &last); err != nil || last.String() != "agent | end\n" {
		t.Errorf("at last %q, %v", last.String(), err)
	}
}
