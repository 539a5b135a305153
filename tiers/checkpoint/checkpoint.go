// Package checkpoint saves all tables of a job at one committed clock and reads them back. A checkpoint is a safetensors file with one
// tensor per table, under the table's name, and the clock in its metadata; its bytes depend only on the parameters. It is written
// atomically.
//
// While training continues, the machines write a checkpoint themselves, each its own partitions, and then a manifest, which is written
// last (manifest.go).
//
// It does not know when to take one, nor which run continues from it.
package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

const (
	clockKey    = "tierml_clock"
	checksumKey = "tierml_crc32c" // of the values, table after table by name, as 32 bits each
)

// ErrDamaged is the error shared with controller and machines.
var ErrDamaged = tiers.ErrDamaged

// ErrEarlier is in the chain of errors about checkpoints written by an earlier version in another form.
var ErrEarlier = errors.New("an earlier version of tierml wrote it")

func damaged(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

// missing reports an absent file named by a manifest as damage.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(err)
	}
	return err
}

// Save writes a checkpoint. Values of a table are row after row, as ps.Shard.Stored returns them. Index: table.
func Save(path string, schema ps.Schema, clock ps.Clock, values [][]float32) error {
	m := model.Model{Metadata: map[string]string{clockKey: strconv.FormatInt(int64(clock), 10)}}
	for id, t := range schema.Tables {
		tensor := model.Tensor{Name: t.Name, Shape: shape(t)}
		if t.Kind == ps.Int32 {
			tensor.Int32 = ps.Ints(values[id])
		} else {
			tensor.Float = values[id]
		}
		m.Tensors = append(m.Tensors, tensor)
	}
	m.Metadata[checksumKey] = checksum(m)
	if err := m.Save(path); err != nil {
		return fmt.Errorf("saving the checkpoint: %w", err)
	}
	return nil
}

// shape returns the shape of stored rows: with their rules' state.
func shape(t ps.Table) []int { return []int{int(t.Rows), t.Width()} }

func checksum(m model.Model) string {
	sum := crc32.New(castagnoli)
	tensors := slices.Clone(m.Tensors)
	slices.SortFunc(tensors, func(a, b model.Tensor) int { return strings.Compare(a.Name, b.Name) })
	buffer := make([]byte, 0, 64<<10)
	for _, t := range tensors {
		values := t.Float
		if t.Int32 != nil {
			values = ps.Cells(t.Int32)
		}
		for some := range slices.Chunk(values, cap(buffer)/4) {
			buffer = buffer[:0]
			for _, v := range some {
				buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
			}
			_, _ = sum.Write(buffer) // never fails
		}
	}
	return fmt.Sprintf("%08x", sum.Sum32())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// read reads a checkpoint's file and compares it with its checksum; older files have none.
func read(path string) (m model.Model, clock ps.Clock, err error) {
	if m, err = model.Load(path); err != nil {
		var system *fs.PathError
		if !errors.As(err, &system) {
			err = damaged(err)
		}
		return m, 0, fmt.Errorf("reading the checkpoint: %w", err)
	}
	if clock, err = clockOf(path, m); err != nil {
		return m, 0, err
	}
	if want, got := m.Metadata[checksumKey], checksum(m); want != "" && want != got {
		return m, 0, fmt.Errorf("reading the checkpoint %s: %w", path, wrongChecksum(got, want))
	}
	return m, clock, nil
}

// Clock reads a checkpoint's clock, and whether it is undamaged.
func Clock(path string) (ps.Clock, error) {
	_, clock, err := read(path)
	return clock, err
}

func clockOf(path string, m model.Model) (ps.Clock, error) {
	n, err := strconv.ParseInt(m.Metadata[clockKey], 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is no checkpoint: its clock is %q", path, m.Metadata[clockKey])
	}
	return ps.Clock(n), nil
}

// Load reads a checkpoint of a job with this schema. Index of values: table.
func Load(path string, schema ps.Schema) (clock ps.Clock, values [][]float32, err error) {
	m, clock, err := read(path)
	if err != nil {
		return 0, nil, err
	}
	for _, t := range schema.Tables {
		tensor, ok := m.Tensor(t.Name)
		if !ok || !slices.Equal(tensor.Shape, shape(t)) || (t.Kind == ps.Int32) != (tensor.Int32 != nil) {
			return 0, nil, fmt.Errorf("%s does not fit this job: it has no table %s of %d x %d %v",
				path, t.Name, t.Rows, t.Width(), t.Kind)
		}
		if t.Kind == ps.Int32 {
			values = append(values, ps.Cells(tensor.Int32))
		} else {
			values = append(values, tensor.Float)
		}
	}
	return clock, values, nil
}

// Partitions extracts partitions from whole tables. Index: as parts.
func Partitions(schema ps.Schema, values [][]float32, parts []ps.Partition) []*ps.Block {
	blocks := make([]*ps.Block, len(parts))
	wanted := make(map[ps.Partition]*ps.Block, len(parts))
	for i, p := range parts {
		blocks[i] = &ps.Block{}
		wanted[p] = blocks[i]
	}
	for id, t := range schema.Tables {
		for row := range t.Rows {
			k := ps.Key{Table: ps.TableID(id), Row: ps.RowID(row)}
			if block := wanted[schema.PartitionOf(k)]; block != nil {
				block.AddRow(&schema, k, values[id][int(row)*t.Width():int(row+1)*t.Width()])
			}
		}
	}
	return blocks
}
