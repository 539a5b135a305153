package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
)

func objects(t *testing.T, store string) int {
	t.Helper()
	all, err := blob.List(t.Context(), location.Join(store, "state", key, "chunks"))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Many small files are stored as few objects, even after many saves of a few files.
func TestSmallFilesTravelInPacks(t *testing.T) {
	const files, rounds, changed = 1000, 40, 10
	store := t.TempDir()
	m, dir := open(t, store, 1)
	for i := range files {
		put(t, dir, fmt.Sprintf("%02d/file-%d", i%20, i), fmt.Appendf(nil, "%099d\n", i))
	}
	first := save(t, m, Selection{})
	if n := objects(t, store); n != 1 || first.Sent != files*100 {
		t.Errorf("%d objects of %d bytes", n, first.Sent)
	}
	most := 0
	for round := range rounds {
		for i := range changed {
			n := (round*changed + i) * 7 % files
			put(t, dir, fmt.Sprintf("%02d/file-%d", n%20, n), fmt.Appendf(nil, "%049d%049d\n", round, n))
		}
		save(t, m, Selection{})
		most = max(most, objects(t, store))
	}
	if most > 3*mostThin {
		t.Errorf("up to %d objects", most)
	}
	next, to := open(t, store, 2)
	if _, err := next.Restore(t.Context(), m.Latest().Name(), ""); err != nil {
		t.Fatal(err)
	}
	equal(t, tree(t, to), tree(t, dir))
	put(t, to, "00/file-0", []byte("another"))
	if saved := save(t, next, Selection{}); saved.Sent != 7 {
		t.Errorf("%d bytes of a restored folder were sent, of which 7 are new", saved.Sent)
	}
}

// A pack with little data left in use is replaced, and a generation that uses it stays whole.
func TestPackOfWhichLittleIsLeft(t *testing.T) {
	store := t.TempDir()
	m, dir := open(t, store, 1)
	for i := range 20 {
		put(t, dir, fmt.Sprint("file-", i), random(t, 100_000))
	}
	save(t, m, Selection{})
	for i := range 15 {
		if err := os.Remove(filepath.Join(dir, fmt.Sprint("file-", i))); err != nil {
			t.Fatal(err)
		}
	}
	if saved := save(t, m, Selection{}); saved.Sent != 0 {
		t.Errorf("%+v", saved)
	}
	if saved := save(t, m, Selection{}); saved.Sent != 500_000 {
		t.Errorf("%d bytes were packed again", saved.Sent)
	}
	save(t, m, Selection{})
	if n := objects(t, store); n != 1 {
		t.Errorf("%d objects are left", n)
	}
	next, to := open(t, store, 2)
	if _, err := next.Restore(t.Context(), m.Latest().Name(), ""); err != nil {
		t.Fatal(err)
	}
	equal(t, tree(t, to), tree(t, dir))
}

// Holes are neither read nor sent, and come back as holes.
func TestHoles(t *testing.T) {
	store := t.TempDir()
	m, dir := open(t, store, 1)
	file, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte("in the middle"), 3<<30)
	if err := errors.Join(err, file.Truncate(10<<30), file.Close()); err != nil {
		t.Fatal(err)
	}
	if was, err := statAt(unix.AT_FDCWD, filepath.Join(dir, "sparse")); err != nil || was.data() > 1<<20 {
		t.Skip("this file system has no holes")
	}
	saved := save(t, m, Selection{})
	if saved.Sent != chunkBytes || saved.Bytes != 10<<30 {
		t.Fatalf("%+v", saved)
	}
	next, to := open(t, store, 2)
	if _, err := next.Restore(t.Context(), saved.Manifest, ""); err != nil {
		t.Fatal(err)
	}
	restored, err := os.Open(filepath.Join(to, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	text := make([]byte, 15)
	_, err = restored.ReadAt(text, 3<<30-1)
	now, err2 := statFile(restored)
	if err := errors.Join(err, err2); err != nil || string(text) != "\x00in the middle\x00" || now.size != 10<<30 || now.data() > 2*chunkBytes {
		t.Errorf("%q, %d bytes of %d: %v", text, now.data(), now.size, err)
	}
}

// A state saved by version 1, each file an object of its own, can be restored.
func TestManifestOfVersion1(t *testing.T) {
	store := t.TempDir()
	content := []byte("of the former version")
	m, dir := open(t, store, 1)
	put(t, dir, "x", content)
	save(t, m, Selection{})
	name := m.Latest().Files[0].Chunks[0]
	put(t, filepath.Dir(manifestName(store, key, "x")), "00000001-00000007.json",
		fmt.Appendf(nil, `{"version":1,"key":"rank-0","attempt":1,"number":7,"files":[{"path":"x","mode":420,"size":%d,"chunks":["%s"]}]}`, len(content), name))
	next, to := open(t, store, 2)
	if _, err := next.Restore(t.Context(), "00000001-00000007", ""); err != nil {
		t.Fatal(err)
	}
	equal(t, tree(t, to), map[string]string{"x": string(content)})
}

// TestManySmallFiles times 100,000 files; it is slow, so it runs on request.
func TestManySmallFiles(t *testing.T) {
	if os.Getenv("TIERML_MANY_FILES") == "" {
		t.Skip("TIERML_MANY_FILES is not set")
	}
	const files = 100_000
	store := t.TempDir()
	m, dir := open(t, store, 1)
	for i := range files {
		put(t, dir, fmt.Sprintf("%02d/file-%d", i%100, i), bytes.Repeat([]byte{byte(i), byte(i >> 8), byte(i >> 16), 'x'}, 25))
	}
	began := time.Now()
	save(t, m, Selection{})
	t.Logf("first save: %v, %d objects", time.Since(began), objects(t, store))
	time.Sleep(granular + time.Second) // until then the newest files count as possibly changed
	for round := range 5 {
		for i := range 10 {
			put(t, dir, fmt.Sprintf("%02d/file-%d", (i*7)%100, i*7), []byte(strings.Repeat("y", 99)+fmt.Sprint(round)))
		}
		began = time.Now()
		saved := save(t, m, Selection{})
		t.Logf("ten changed files: %v, %d bytes sent, %d objects", time.Since(began), saved.Sent, objects(t, store))
	}
	next, _ := open(t, store, 2)
	began = time.Now()
	if _, err := next.Restore(t.Context(), m.Latest().Name(), ""); err != nil {
		t.Fatal(err)
	}
	t.Logf("restored: %v", time.Since(began))
}
