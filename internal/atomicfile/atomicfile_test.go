package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFailureKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	err := WriteTo(path, 0o644, func(w io.Writer) error {
		_, _ = w.Write([]byte("ne"))
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
		t.Errorf("the file holds %q: %v", text, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), Unfinished+"*")); len(left) > 0 {
		t.Errorf("%v are left behind", left)
	}
}

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"a longer one", "b"} {
		if err := Write(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the file holds %q: %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v: %v", info.Mode(), err)
	}
}

// A rename over a device or a pipe would turn it into a file.
func TestOnlyFilesAreReplaced(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir()} {
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(path, []byte("x"), 0o600); err == nil {
			t.Errorf("%s was written", path)
		}
		if after, err := os.Stat(path); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s is %v now: %v", path, after.Mode(), err)
		}
	}
}
