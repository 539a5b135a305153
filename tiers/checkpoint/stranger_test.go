package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tierml/tierml/ps"
)

// Another writer to the same store can make checkpoints useless, but cannot replace them with its own.
func TestCheckpointsOfSomebodyElse(t *testing.T) {
	place, theirs := t.TempDir(), t.TempDir()
	schema, _, manifest := save(t, place, 42, "1.1")
	name := Name(manifest)
	all := []ps.Partition{0, 1, 2, 3}
	refused := func(what string) {
		t.Helper()
		if _, err := LoadParts(t.Context(), manifest, &schema, 42, all); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	replaced := func(path string, change func([]byte) []byte) (restore func()) {
		t.Helper()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write := func(text []byte) {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(change(bytes.Clone(before)))
		return func() { write(before) }
	}

	// Another model in our folder, with a manifest that says so.
	other, values := example()
	for _, v := range values {
		for i := range v {
			v[i]++
		}
	}
	var sources []Source
	for i, b := range Partitions(other, values, all) {
		sources = append(sources, Source{all[i], &list{schema: &other, rows: *b}})
	}
	folder := "clock-000000042-1.1"
	parts, err := SaveParts(t.Context(), filepath.Join(theirs, folder), "a.rows", sources)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewManifest("demo-1", &other, 42, folder, parts)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := m.Write(t.Context(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadParts(t.Context(), forged, &other, 42, all); err != nil {
		t.Fatalf("the other model is none by itself: %v", err)
	}
	text, err := os.ReadFile(forged)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(filepath.Join(folderOf(forged), "a.rows"))
	if err != nil {
		t.Fatal(err)
	}
	restoreCell := replaced(filepath.Join(folderOf(manifest), "a.rows"), func(text []byte) []byte { text[len(text)-pieceHeader-1] ^= 1; return text })
	refused("another value of a cell")
	restoreCell()
	restoreRows := replaced(filepath.Join(folderOf(manifest), "a.rows"), func([]byte) []byte { return rows })
	refused("other rows")
	restore := replaced(manifest, func([]byte) []byte { return text })
	refused("other rows and another manifest")
	restore()
	restoreRows()

	// A newer foreign checkpoint next to ours is not found and does not displace ours.
	_, _, planted := save(t, place, 900, "9.9")
	known := func(of string) bool { return of == name }
	if found, doubts, err := Newest(t.Context(), place, known); err != nil || len(found) != 1 || found[0].Manifest != manifest || len(doubts) > 0 {
		t.Errorf("found %v, doubts %v, %v", found, doubts, err)
	}
	if err := Prune(t.Context(), place, 1, known); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(planted); !os.IsNotExist(err) {
		t.Errorf("the planted one is left: %v", err)
	}
	if _, err := LoadParts(t.Context(), manifest, &schema, 42, all); err != nil {
		t.Errorf("ours is gone: %v", err)
	}
}

// A checkpoint that claims to be larger than allowed is refused before memory is allocated for it.
func TestCheckpointsThatAreTooLarge(t *testing.T) {
	place := t.TempDir()
	schema, _, manifest := save(t, place, 42, "1.1")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	object := filepath.Join(folderOf(manifest), "a.rows")
	text, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	copy(text, []byte{0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f}) // rows and cells of the first piece
	if err := errors.Join(os.WriteFile(object, text, 0o600), os.Truncate(object, 64<<30)); err != nil {
		t.Skipf("no sparse files in %s: set TMPDIR to a file system that has them: %v", place, err)
	}
	if _, err := LoadParts(t.Context(), manifest, &schema, 42, []ps.Partition{0, 1, 2, 3}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "more than its part has") {
		t.Errorf("an endless part: %v", err)
	}
	if err := os.Truncate(manifest, 64<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadManifest(t.Context(), manifest); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "more than 33554432 bytes") {
		t.Errorf("an endless manifest: %v", err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*largestManifest {
		t.Errorf("it took %d bytes", took)
	}
}

// A manifest names the digest of each part.
func TestManifestHasDigests(t *testing.T) {
	_, _, manifest := save(t, t.TempDir(), 42, "1.1")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil || len(m.Parts) != 4 {
		t.Fatalf("%v, %v", m, err)
	}
	for _, p := range m.Parts {
		if len(p.SHA256) != 64 {
			t.Errorf("%+v", p)
		}
	}
}
