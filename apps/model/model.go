// Package model reads and writes model files in the safetensors format: an 8-byte little-endian header length, a JSON header that names
// every tensor's type, shape and place, and the raw little-endian values (https://github.com/huggingface/safetensors). Any framework can
// load them, and loading runs no code.
//
// The same model gives the same bytes: tensors and metadata are sorted by name. The package knows tensors and strings, but not what they
// mean.
package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Model is the contents of one file.
type Model struct {
	Metadata map[string]string
	Tensors  []Tensor
}

// Tensor is one named array in row-major order. One of Float, Int and Int32 holds the values.
type Tensor struct {
	Name  string
	Shape []int
	Float []float32 // type F32
	Int   []int64   // type I64
	Int32 []int32   // type I32
}

const (
	typeFloat   = "F32"
	typeInt     = "I64"
	typeInt32   = "I32"
	metadataKey = "__metadata__"
	// maxHeader is the limit that the reference implementation keeps.
	maxHeader = 100_000_000
)

// Tensor returns the tensor of that name.
func (m Model) Tensor(name string) (Tensor, bool) {
	for _, t := range m.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

func (t Tensor) typeName() string {
	switch {
	case t.Int != nil:
		return typeInt
	case t.Int32 != nil:
		return typeInt32
	}
	return typeFloat
}

// values returns the number of values in the shape, or an error if the tensor has another number.
func (t Tensor) check() error {
	want, err := volume(t.Shape)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if t.Float != nil && t.Int != nil || t.Int32 != nil && (t.Int != nil || t.Float != nil) {
		return fmt.Errorf("tensor %q holds two types of values", t.Name)
	}
	if got := len(t.Float) + len(t.Int) + len(t.Int32); got != want {
		return fmt.Errorf("tensor %q has %d values for the shape %v", t.Name, got, t.Shape)
	}
	if t.Name == "" || t.Name == metadataKey {
		return fmt.Errorf("a tensor cannot be named %q", t.Name)
	}
	return nil
}

func volume(shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d < 0 || (d > 0 && n > math.MaxInt64/8/d) {
			return 0, fmt.Errorf("impossible shape %v", shape)
		}
		n *= d
	}
	return n, nil
}

func (t Tensor) size() int { return 4*len(t.Float) + 8*len(t.Int) + 4*len(t.Int32) }

// entry is a tensor's line in the header. The field order is that of the reference implementation.
type entry struct {
	Type    string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// Write writes the model.
func (m Model) Write(w io.Writer) error {
	tensors, err := m.inFileOrder()
	if err != nil {
		return err
	}
	header, err := m.header(tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))); err != nil {
		return fmt.Errorf("write the header's length: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("write the header: %w", err)
	}
	for _, t := range tensors {
		if err := t.write(w); err != nil {
			return fmt.Errorf("write tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// inFileOrder checks and sorts the tensors: wider types first, so that every value is aligned to its size,
// then by name.
func (m Model) inFileOrder() ([]Tensor, error) {
	tensors := slices.Clone(m.Tensors)
	slices.SortFunc(tensors, func(a, b Tensor) int {
		if byType := bytes.Compare([]byte(b.typeName()), []byte(a.typeName())); byType != 0 {
			return byType // I64 before I32 before F32
		}
		return bytes.Compare([]byte(a.Name), []byte(b.Name))
	})
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		if err := t.check(); err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("two tensors are named %q", t.Name)
		}
		seen[t.Name] = true
	}
	return tensors, nil
}

// header encodes the JSON header, padded with spaces so that the values start at a multiple of 8 bytes. encoding/json sorts maps by key.
func (m Model) header(tensors []Tensor) ([]byte, error) {
	entries := make(map[string]any, len(tensors)+1)
	if len(m.Metadata) > 0 {
		entries[metadataKey] = m.Metadata
	}
	at := 0
	for _, t := range tensors {
		shape := t.Shape
		if shape == nil {
			shape = []int{} // a scalar: [] and not null
		}
		entries[t.Name] = entry{t.typeName(), shape, [2]int{at, at + t.size()}}
		at += t.size()
	}
	header, err := json.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("make the header: %w", err)
	}
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if len(header) > maxHeader {
		return nil, fmt.Errorf("the header of %d bytes is over the format's limit of %d", len(header), maxHeader)
	}
	return header, nil
}

// chunk is how many values are converted at a time.
const chunk = 8192

func (t Tensor) write(w io.Writer) error {
	buffer := make([]byte, 0, 8*chunk)
	for part := range slices.Chunk(t.Float, chunk) {
		buffer = buffer[:0]
		for _, x := range part {
			buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(x))
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(t.Int32, chunk) {
		buffer = buffer[:0]
		for _, x := range part {
			buffer = binary.LittleEndian.AppendUint32(buffer, uint32(x))
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(t.Int, chunk) {
		buffer = buffer[:0]
		for _, x := range part {
			buffer = binary.LittleEndian.AppendUint64(buffer, uint64(x))
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
	}
	return nil
}

// ErrFormat means that a file is not a model that this package can read.
var ErrFormat = errors.New("not a safetensors file that can be read here")
