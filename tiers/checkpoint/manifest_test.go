package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/ps"
)

// list returns a block in pieces.
type list struct {
	schema *ps.Schema
	rows   ps.Block
	at     int
	fails  error
}

func (l *list) Next(int) (ps.Block, error) {
	var out ps.Block
	i := 0
	l.rows.Each(l.schema, func(k ps.Key, cells []float32) {
		if i == l.at {
			out.Add(k, cells)
		}
		i++
	})
	l.at++
	return out, l.fails
}

// save writes a checkpoint of the example from two machines.
func save(t *testing.T, place string, clock ps.Clock, life string) (schema ps.Schema, blocks []*ps.Block, manifest string) {
	t.Helper()
	schema, values := example()
	all := []ps.Partition{0, 1, 2, 3}
	blocks = Partitions(schema, values, all)
	folder := fmt.Sprintf("clock-%09d-%s", clock, life)
	var parts []Part
	for object, mine := range map[string][]ps.Partition{"b.rows": {2, 0}, "a.rows": {1, 3}} {
		var sources []Source
		for _, p := range mine {
			sources = append(sources, Source{p, &list{schema: &schema, rows: *blocks[p]}})
		}
		some, err := SaveParts(t.Context(), location.Join(place, folder), object, sources)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, some...)
	}
	m, err := NewManifest("demo-1", &schema, clock, folder, parts)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = m.Write(t.Context(), place); err != nil {
		t.Fatal(err)
	}
	return schema, blocks, manifest
}

func TestManifestRoundTrip(t *testing.T) {
	place := t.TempDir()
	schema, blocks, manifest := save(t, place, 42, "1.1")
	if !IsManifest(manifest) || IsManifest(filepath.Join(place, "checkpoint.safetensors")) {
		t.Errorf("%s is not taken for a manifest", manifest)
	}
	want := []ps.Partition{3, 0, 1}
	got, err := LoadParts(t.Context(), manifest, &schema, 42, want)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range want {
		if !slices.Equal(got[i].Keys, blocks[p].Keys) || !slices.Equal(got[i].Values, blocks[p].Values) {
			t.Errorf("partition %d: %v, want %v", p, got[i], blocks[p])
		}
	}
	found, doubts, err := List(t.Context(), place, nil)
	if err != nil || len(doubts) > 0 || len(found) != 1 || found[0].Manifest != manifest || found[0].Clock != 42 || found[0].Bytes == 0 {
		t.Errorf("found %v %v %v", found, doubts, err)
	}
}

// The newest complete checkpoint counts; incomplete and foreign ones do not.
func TestListKnowsWhatIsComplete(t *testing.T) {
	place := t.TempDir()
	if found, _, err := List(t.Context(), filepath.Join(place, "nowhere"), nil); err != nil || found != nil {
		t.Errorf("where nothing is: %v %v", found, err)
	}
	save(t, place, 9, "1.1")
	_, _, want := save(t, place, 100, "1.1")
	_, _, lacking := save(t, place, 120, "1.1")
	_, _, torn := save(t, place, 130, "1.2")
	for _, err := range []error{
		os.Remove(filepath.Join(folderOf(lacking), "a.rows")),
		os.Truncate(torn, 40),
		os.MkdirAll(filepath.Join(place, "clock-000000140-1.2"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	found, doubts, err := List(t.Context(), place, nil)
	if err != nil || len(found) != 2 || found[0].Manifest != want || found[1].Clock != 9 || len(doubts) != 2 {
		t.Errorf("found %v, doubts %v, %v", found, doubts, err)
	}
}

func TestPrune(t *testing.T) {
	place := t.TempDir()
	for clock, life := range []string{"1.1", "1.1", "1.2", "1.2"} {
		save(t, place, ps.Clock(10*clock+5), life)
	}
	if err := os.MkdirAll(filepath.Join(place, "clock-000000017-1.1"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"clock-000000017-1.1/a.rows": "left by a killed process", "notes.txt": "somebody else's"} {
		if err := os.WriteFile(filepath.Join(place, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Prune(t.Context(), place, 2, nil); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(place)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		folder, _ := splitName(e.Name())
		left = append(left, folder)
	}
	want := []string{"clock-000000025-1.2", "clock-000000025-1.2", "clock-000000035-1.2", "clock-000000035-1.2", "notes.txt"} // each and its manifest
	if !reflect.DeepEqual(left, want) {
		t.Errorf("left: %v, want %v", left, want)
	}
	if found, doubts, err := List(t.Context(), place, nil); len(found) != 2 || doubts != nil || err != nil {
		t.Errorf("%v %v %v", found, doubts, err)
	}
}

// A run that continued from an older checkpoint writes new ones at clocks below that of a damaged one: those are kept.
func TestTheNewestIsTheOneWrittenLast(t *testing.T) {
	place := t.TempDir()
	save(t, place, 100, "1.3")
	save(t, place, 20, "2.4")
	save(t, place, 30, "2.4")
	_, _, want := save(t, place, 25, "2.5")
	if err := Prune(t.Context(), place, 2, nil); err != nil {
		t.Fatal(err)
	}
	found, _, err := List(t.Context(), place, nil)
	if err != nil || len(found) != 2 || found[0].Manifest != want || found[1].Clock != 30 {
		t.Errorf("%v %v", found, err)
	}
}

func TestManifestRefuses(t *testing.T) {
	place := t.TempDir()
	schema, blocks, manifest := save(t, place, 42, "1.1")
	load := func(s ps.Schema, clock ps.Clock, name string) error {
		_, err := LoadParts(t.Context(), name, &s, clock, []ps.Partition{0, 1, 2, 3})
		return err
	}
	other := schema
	other.Partitions = 5
	flip := func(name string, at int64) {
		path := filepath.Join(folderOf(manifest), name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[at] ^= 1
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for want, err := range map[string]error{
		"its tables differ":        load(other, 42, manifest),
		"is of clock 42, not 41":   load(schema, 41, manifest),
		"no such file":             load(schema, 42, filepath.Join(place, strings.Replace(filepath.Base(manifest), "42", "43", 1))),
		"its checksum":             func() error { flip("a.rows", 18); return load(schema, 42, manifest) }(),
		"more than its part has":   func() error { flip("a.rows", 18); flip("b.rows", 3); return load(schema, 42, manifest) }(),
		"it has 1 partitions of 4": second(NewManifest("r", &schema, 1, "f", []Part{{Object: "x", Bytes: 8}})),
		"the disk is full":         second(SaveParts(t.Context(), place, "x.rows", []Source{{0, &list{schema: &schema, rows: *blocks[0], fails: errors.New("the disk is full")}}})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(place, "x.rows")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half an object is left: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
