package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() Model {
	return Model{
		Metadata: map[string]string{"app": "mf", "seed": "7", "note": "a < b \u00e9"},
		Tensors: []Tensor{
			{Name: "items", Shape: []int{2}, Float: []float32{-1, 0.5}},
			{Name: "user_ids", Shape: []int{3}, Int: []int64{1, -2, 1 << 40}},
			{Name: "users", Shape: []int{3, 2}, Float: []float32{1, 2, 3, 4, 5, 6}},
		},
	}
}

func encode(t testing.TB, m Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The bytes, derived by hand from the format's description.
func TestWriteIsTheFormat(t *testing.T) {
	m := Model{Metadata: map[string]string{"k": "v"}, Tensors: []Tensor{{Name: "x", Shape: []int{1}, Float: []float32{1}}}}
	header := `{"__metadata__":{"k":"v"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	header += strings.Repeat(" ", 7-(len(header)+7)%8)
	want := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	want = append(want, 0, 0, 0x80, 0x3f)
	if got := encode(t, m); !bytes.Equal(got, want) {
		t.Errorf("wrote\n%q, want\n%q", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	for name, m := range map[string]Model{
		"sample": sample(),
		"empty":  {},
		"scalar": {Tensors: []Tensor{{Name: "s", Shape: []int{}, Float: []float32{3}}}},
		"no rows": {Tensors: []Tensor{
			{Name: "a", Shape: []int{0, 4}, Float: []float32{}},
			{Name: "b", Shape: []int{0}, Int: []int64{}},
			{Name: "c", Shape: []int{1}, Float: []float32{1}},
			{Name: "n", Shape: []int{0}, Int32: []int32{}},
		}},
		"counts": {Tensors: []Tensor{
			{Name: "a", Shape: []int{1}, Float: []float32{1}},
			{Name: "n", Shape: []int{3}, Int32: []int32{-1, 1 << 30, -1 << 31}},
			{Name: "z", Shape: []int{1}, Int: []int64{1}},
		}},
		"more than a chunk": {Tensors: []Tensor{{Name: "c", Shape: []int{3*chunk + 1}, Float: make([]float32, 3*chunk+1)}}},
	} {
		got, err := Read(bytes.NewReader(encode(t, m)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Errorf("%s: differs (-written +read):\n%s", name, diff)
		}
	}
}

func TestOrderOfTensorsDoesNotMatter(t *testing.T) {
	a, b := sample(), sample()
	b.Tensors[0], b.Tensors[2] = b.Tensors[2], b.Tensors[0]
	if !bytes.Equal(encode(t, a), encode(t, b)) {
		t.Error("the same model gives different bytes")
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, tensors := range map[string][]Tensor{
		"wrong shape": {{Name: "x", Shape: []int{2}, Float: []float32{1}}},
		"two types":   {{Name: "x", Shape: []int{2}, Float: []float32{1}, Int: []int64{1}}},
		"negative":    {{Name: "x", Shape: []int{-1, -1}, Float: []float32{1}}},
		"no name":     {{Shape: []int{1}, Float: []float32{1}}},
		"reserved":    {{Name: "__metadata__", Shape: []int{1}, Float: []float32{1}}},
		"same name":   {{Name: "x", Shape: []int{0}}, {Name: "x", Shape: []int{0}}},
	} {
		if err := (Model{Tensors: tensors}).Write(&bytes.Buffer{}); err == nil {
			t.Errorf("%s: was written", name)
		}
	}
}

func TestReadRefusesEveryTruncation(t *testing.T) {
	whole := encode(t, sample())
	for n := range whole {
		if _, err := Read(bytes.NewReader(whole[:n])); !errors.Is(err, ErrFormat) {
			t.Fatalf("%d of %d bytes: error %v, want ErrFormat", n, len(whole), err)
		}
	}
	if _, err := Read(bytes.NewReader(append(whole, 0))); !errors.Is(err, ErrFormat) {
		t.Errorf("a byte too many: error %v, want ErrFormat", err)
	}
}

func TestReadRefusesBadHeaders(t *testing.T) {
	for name, header := range map[string]string{
		"no JSON":         `{`,
		"type":            `{"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}`,
		"hole":            `{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`,
		"overlap":         `{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`,
		"size":            `{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`,
		"huge":            `{"x":{"dtype":"F32","shape":[9223372036854775807,9],"data_offsets":[0,4]}}`,
		"negative":        `{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}}`,
		"numeric strings": `{"__metadata__":{"k":1}}`,
	} {
		data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		data = append(data, make([]byte, 8)...)
		if _, err := Read(bytes.NewReader(data)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v, want ErrFormat", name, err)
		}
	}
}

func TestSaveReplacesAndLoads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sample().Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if diff := cmp.Diff(sample(), got); err != nil || diff != "" {
		t.Errorf("loaded: %v\n%s", err, diff)
	}
	onlyFile(t, path)
}

func TestFailedSaveLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := Model{Tensors: []Tensor{{Name: "x", Shape: []int{2}, Float: []float32{1}}}}
	if err := bad.Save(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names the file", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("the old file is now %q, %v", got, err)
	}
	onlyFile(t, path)
}

// onlyFile checks that no temporary file is left next to path.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v; want the model alone", entries, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(encode(f, sample()))
	f.Add(encode(f, Model{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		again := encode(t, m)
		back, err := Read(bytes.NewReader(again))
		if err != nil || !bytes.Equal(encode(t, back), again) {
			t.Fatalf("what was read does not come back: %v", err)
		}
	})
}
