package plainfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPipesAreNotWaitedFor(t *testing.T) {
	folder := t.TempDir()
	pipe, file := filepath.Join(folder, "pipe"), filepath.Join(folder, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(pipe); err == nil || !strings.Contains(err.Error(), "pipe: it is a pipe or a socket, not a file") {
		t.Errorf("a pipe without a writer: %v", err)
	}
	for _, path := range []string{file, "/dev/null"} {
		f, err := Open(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_ = f.Close()
	}
	if _, err := Open(filepath.Join(folder, "absent")); !os.IsNotExist(err) {
		t.Errorf("an absent file: %v", err)
	}
}
