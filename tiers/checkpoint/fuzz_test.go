package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tierml/tierml/internal/fuzzing"
	"github.com/tierml/tierml/ps"
)

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// resealed returns a manifest with the digests of the actual parts, if it is one: a checkpoint's writer knows them.
func resealed(manifest, rows []byte) []byte {
	var m Manifest
	if json.Unmarshal(manifest, &m) != nil {
		return manifest
	}
	for i, p := range m.Parts {
		if p.Offset >= 0 && p.Bytes >= 0 && p.Offset <= int64(len(rows)) && p.Bytes <= int64(len(rows))-p.Offset {
			sum := sha256.Sum256(rows[p.Offset : p.Offset+p.Bytes])
			m.Parts[i].SHA256 = hex.EncodeToString(sum[:])
		}
	}
	text, err := json.Marshal(&m)
	if err != nil {
		return manifest
	}
	return text
}

// FuzzCheckpoint: whatever a manifest and its parts contain, only a partition of the job's schema is read, and rejected input allocates
// little memory.
func FuzzCheckpoint(f *testing.F) {
	schema, values := example()
	all := []ps.Partition{0, 1, 2, 3}
	var sources []Source
	for i, b := range Partitions(schema, values, all) {
		sources = append(sources, Source{all[i], &list{schema: &schema, rows: *b}})
	}
	dir, folder := f.TempDir(), "clock-000000042-1.1"
	parts, err := SaveParts(f.Context(), filepath.Join(dir, folder), "a.rows", sources)
	if err != nil {
		f.Fatal(err)
	}
	rows, err := os.ReadFile(filepath.Join(dir, folder, "a.rows"))
	if err != nil {
		f.Fatal(err)
	}
	m, err := NewManifest("demo-1", &schema, 42, folder, parts)
	if err != nil {
		f.Fatal(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	for _, honest := range []bool{false, true} {
		f.Add(text, rows, honest)
		f.Add(text, rows[:len(rows)-3], honest)
		f.Add([]byte(`{"form": 2, "clock": 42, "folder": "clock-000000042-1.1", "schema": {"partitions": 2147483647}}`), rows, honest)
	}
	f.Fuzz(func(t *testing.T, manifest, rows []byte, honest bool) {
		if honest {
			manifest = resealed(manifest, rows)
		}
		place := t.TempDir()
		name := filepath.Join(place, folder+"-"+sumOf(manifest)+manifestSuffix)
		write(t, name, manifest)
		write(t, filepath.Join(place, folder, "a.rows"), rows)
		fuzzing.AtMost(t, len(manifest)+len(rows), 4<<10, func() {
			found, doubts, err := Newest(t.Context(), place, nil)
			if len(found)+len(doubts) == 0 || err != nil {
				t.Errorf("neither found nor doubted: %v", err)
			}
			for _, p := range all {
				blocks, err := LoadParts(t.Context(), name, &schema, 42, []ps.Partition{p})
				if err != nil {
					continue
				}
				if err := blocks[0].Check(&schema, p); err != nil {
					t.Error(err)
				}
			}
			_ = Prune(t.Context(), place, 1, nil)
		})
	})
}

// FuzzFile: a checkpoint in one file is read back as it was written, or refused.
func FuzzFile(f *testing.F) {
	schema, values := example()
	path := filepath.Join(f.TempDir(), "a.safetensors")
	if err := Save(path, schema, 42, values); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "a.safetensors")
		write(t, path, content)
		fuzzing.AtMost(t, len(content), 4<<10, func() {
			clock, got, err := Load(path, schema)
			if err == nil && (clock < 0 || len(got) != len(schema.Tables)) {
				t.Errorf("clock %d, %d tables", clock, len(got))
			}
		})
	})
}
