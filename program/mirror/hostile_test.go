package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// A program that swaps files, links, pipes, folders and hard links in its state folder gets nothing from outside into the store, and stops
// no save.
func TestSwapsWhileSaving(t *testing.T) {
	swaps := 1000
	if n, err := strconv.Atoi(os.Getenv("TIERML_SWAPS")); err == nil {
		swaps = n
	}
	base := t.TempDir()
	store, outside := filepath.Join(base, "store"), filepath.Join(base, "outside")
	secret := strings.Repeat("SECRET", 1000)
	put(t, outside, "secret", []byte(secret))
	put(t, outside, "sub/secret", []byte(secret))
	dir := filepath.Join(base, "state")
	put(t, dir, "steady", []byte("steady"))
	m, err := Open(t.Context(), Config{Store: store, Key: key, Attempt: 1, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "sub/secret", "sub"}
	remove := func(name string) { // os.RemoveAll would block if the folder has become a pipe
		_ = os.Remove(filepath.Join(name, "deep"))
		_ = os.Remove(name)
	}
	var over atomic.Bool
	var swapping sync.WaitGroup
	for seed := range uint64(2) {
		swapping.Go(func() {
			r := rand.New(rand.NewPCG(1, seed))
			for range swaps / 2 {
				name := filepath.Join(dir, names[r.IntN(len(names))])
				next := fmt.Sprint(name, ".next", seed) // of its own: writing to another one's pipe would block
				remove(next)                            // each of these may fail, as the other swaps meanwhile
				switch r.IntN(6) {
				case 0:
					if f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600); err == nil {
						_, _ = f.WriteString("plain")
						_ = f.Close()
					}
				case 1:
					_ = os.Symlink(filepath.Join(outside, "secret"), next)
				case 2:
					_ = syscall.Mkfifo(next, 0o600)
				case 3:
					_ = os.MkdirAll(filepath.Join(next, "deep"), 0o755)
				case 4:
					_ = os.Link(filepath.Join(outside, "secret"), next)
				case 5:
					_ = os.Symlink(outside, next)
				}
				if os.Rename(next, name) != nil {
					remove(name)
					_ = os.Rename(next, name)
				}
			}
		})
	}
	go func() {
		swapping.Wait()
		over.Store(true)
	}()
	saves := 0
	for last := false; !last; saves++ {
		last = over.Load()
		save(t, m, Selection{Last: last})
	}
	t.Logf("%d saves during %d swaps", saves, swaps)
	if len(m.Latest().Files) == 0 {
		t.Error("the last generation is empty")
	}
	err = filepath.WalkDir(store, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte("SECRET")) {
			t.Errorf("%s has what is outside", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Hard links are saved if all their names are in the folder.
func TestHardLinks(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "state")
	put(t, dir, "step-1/model", []byte("model"))
	put(t, base, "elsewhere", []byte("elsewhere"))
	if err := errors.Join(os.Link(filepath.Join(dir, "step-1/model"), filepath.Join(dir, "latest")), os.Link(filepath.Join(base, "elsewhere"), filepath.Join(dir, "other"))); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), Config{Store: filepath.Join(base, "store"), Key: key, Attempt: 1, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	saved := save(t, m, Selection{})
	if len(saved.Foreign) != 1 || saved.Foreign[0] != "other" || saved.Bytes != 10 {
		t.Errorf("%+v", saved)
	}
}

// The folder itself is a link, or a pipe: the link is not followed, and the pipe does not block.
func TestStateFolderIsALinkOrPipe(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"link":      func(dir string) error { return os.Symlink("/etc", dir) },
		"near link": func(dir string) error { return os.Symlink("other", dir) },
		"pipe":      func(dir string) error { return syscall.Mkfifo(dir, 0o600) },
		"file":      func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		m, dir := open(t, t.TempDir(), 1)
		put(t, dir, "model", []byte("x"))
		save(t, m, Selection{})
		put(t, filepath.Join(filepath.Dir(dir), "other"), "model", []byte("y"))
		if err := errors.Join(os.RemoveAll(dir), replace(dir)); err != nil {
			t.Fatal(err)
		}
		if saved, err := m.Save(t.Context(), Selection{}); err == nil {
			t.Errorf("%s: %+v", name, saved)
		}
	}
}
