package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Read reads a model. Types other than F32, I32 and I64 are rejected, and so are holes, overlaps and bytes that belong to no tensor, as the
// format demands. Tensors are sorted by name.
func Read(r io.Reader) (Model, error) {
	header, err := readHeader(r)
	if err != nil {
		return Model{}, err
	}
	m, places, err := parseHeader(header)
	if err != nil {
		return Model{}, err
	}
	if err := m.readValues(r, places); err != nil {
		return Model{}, err
	}
	slices.SortFunc(m.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	return m, nil
}

func readHeader(r io.Reader) ([]byte, error) {
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, fmt.Errorf("%w: it is empty or cut short: %w", ErrFormat, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader {
		return nil, fmt.Errorf("%w: it does not begin as a model file, such as runs/NAME-N/model.safetensors", ErrFormat)
	}
	header, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	if uint64(len(header)) != n {
		return nil, fmt.Errorf("%w: it ends within the header", ErrFormat)
	}
	return header, nil
}

// parseHeader returns the tensors without values, in file order.
func parseHeader(header []byte) (Model, []entry, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(header, &raw); err != nil {
		return Model{}, nil, fmt.Errorf("%w: header: %w", ErrFormat, err)
	}
	var m Model
	type named struct {
		name string
		entry
	}
	var found []named
	for name, text := range raw {
		if name == metadataKey {
			if err := json.Unmarshal(text, &m.Metadata); err != nil {
				return Model{}, nil, fmt.Errorf("%w: metadata: %w", ErrFormat, err)
			}
			continue
		}
		e, err := parseEntry(text)
		if err != nil {
			return Model{}, nil, fmt.Errorf("%w: tensor %q: %w", ErrFormat, name, err)
		}
		found = append(found, named{name, e})
	}
	slices.SortFunc(found, func(a, b named) int {
		if d := a.Offsets[0] - b.Offsets[0]; d != 0 {
			return d
		}
		if d := a.Offsets[1] - b.Offsets[1]; d != 0 { // an empty tensor precedes its neighbour
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	places, at := make([]entry, len(found)), 0
	for i, f := range found {
		if f.Offsets[0] != at {
			return Model{}, nil, fmt.Errorf("%w: tensor %q starts at %d, want %d", ErrFormat, f.name, f.Offsets[0], at)
		}
		places[i], at = f.entry, f.Offsets[1]
		m.Tensors = append(m.Tensors, Tensor{Name: f.name, Shape: f.Shape})
	}
	return m, places, nil
}

func parseEntry(text []byte) (entry, error) {
	var e entry
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, err
	}
	width := map[string]int{typeFloat: 4, typeInt: 8, typeInt32: 4}[e.Type]
	if width == 0 {
		return e, fmt.Errorf("type %q: only %s, %s and %s are read here", e.Type, typeFloat, typeInt32, typeInt)
	}
	n, err := volume(e.Shape)
	if err != nil {
		return e, err
	}
	if e.Offsets[0] < 0 || e.Offsets[1]-e.Offsets[0] != n*width {
		return e, fmt.Errorf("%d values in the bytes %d to %d", n, e.Offsets[0], e.Offsets[1])
	}
	return e, nil
}

func (m Model) readValues(r io.Reader, places []entry) error {
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if err := t.read(r, places[i]); err != nil {
			return fmt.Errorf("%w: it ends within tensor %q: %w", ErrFormat, t.Name, err)
		}
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return fmt.Errorf("%w: bytes after the last tensor", ErrFormat)
	}
	return nil
}

// read allocates values as they arrive, so that a wrong header cannot request more memory than the file has.
func (t *Tensor) read(r io.Reader, e entry) error {
	left := e.Offsets[1] - e.Offsets[0]
	t.Float = nil
	switch e.Type {
	case typeInt:
		t.Int = []int64{}
	case typeInt32:
		t.Int32 = []int32{}
	default:
		t.Float = []float32{}
	}
	buffer := make([]byte, min(left, 8*chunk))
	for left > 0 {
		part := buffer[:min(left, len(buffer))]
		if _, err := io.ReadFull(r, part); err != nil {
			return err
		}
		left -= len(part)
		t.decode(part)
	}
	return nil
}

func (t *Tensor) decode(part []byte) {
	if t.Int != nil {
		for ; len(part) > 0; part = part[8:] {
			t.Int = append(t.Int, int64(binary.LittleEndian.Uint64(part)))
		}
		return
	}
	if t.Int32 != nil {
		for ; len(part) > 0; part = part[4:] {
			t.Int32 = append(t.Int32, int32(binary.LittleEndian.Uint32(part)))
		}
		return
	}
	for ; len(part) > 0; part = part[4:] {
		t.Float = append(t.Float, math.Float32frombits(binary.LittleEndian.Uint32(part)))
	}
}
