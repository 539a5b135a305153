package checkpoint

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/ps"
)

// A part is the rows of one partition as bytes, little-endian: pieces, each
//
//	uint32   number of rows, 0 = the end
//	uint32   number of cells
//	uint64   per row: table << 48 | row
//	uint32   per cell: its bits
//
// One object has the parts of one machine one after another. The manifest has the offset and the SHA-256 of each.

const (
	pieceHeader = 8
	rowBits     = 48 // of a key; ps keeps rows within it
	pieceBytes  = 256 << 10
)

// Rows returns a partition's rows piece by piece, none at the end (ps.Held).
type Rows interface {
	Next(bytes int) (ps.Block, error)
}

// Part is the location of a partition's rows.
type Part struct {
	Partition ps.Partition `json:"partition"`
	Object    string       `json:"object"` // below the checkpoint's folder
	Offset    int64        `json:"offset"`
	Bytes     int64        `json:"bytes"`
	SHA256    string       `json:"sha256"` // of its bytes
}

// Source is one partition to be saved.
type Source struct {
	Partition ps.Partition
	Rows      Rows
}

// SaveParts writes partitions into one object below a folder, and returns their locations.
func SaveParts(ctx context.Context, folder, object string, sources []Source) ([]Part, error) {
	parts := make([]Part, 0, len(sources))
	err := blob.Write(ctx, location.Join(folder, object), func(w io.Writer) error {
		parts = parts[:0]
		offset := int64(0)
		for _, s := range sources {
			out := partWriter{to: w, sum: sha256.New()}
			if err := out.writeAll(s.Rows); err != nil {
				return fmt.Errorf("partition %d: %w", s.Partition, err)
			}
			parts = append(parts, Part{Partition: s.Partition, Object: object, Offset: offset, Bytes: out.bytes, SHA256: digest(out.sum)})
			offset += out.bytes
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("saving partitions: %w", err)
	}
	return parts, nil
}

type partWriter struct {
	to    io.Writer
	sum   hash.Hash
	bytes int64
	piece []byte
}

func (w *partWriter) writeAll(rows Rows) error {
	for {
		block, err := rows.Next(pieceBytes)
		if err != nil {
			return err
		}
		if err := w.write(&block); err != nil || len(block.Keys) == 0 {
			return err
		}
	}
}

func (w *partWriter) write(b *ps.Block) error {
	p := binary.LittleEndian.AppendUint32(w.piece[:0], uint32(len(b.Keys)))
	p = binary.LittleEndian.AppendUint32(p, uint32(len(b.Values)))
	for _, k := range b.Keys {
		p = binary.LittleEndian.AppendUint64(p, uint64(k.Table)<<rowBits|uint64(k.Row))
	}
	for _, v := range b.Values {
		p = binary.LittleEndian.AppendUint32(p, math.Float32bits(v))
	}
	w.piece = p
	_, _ = w.sum.Write(p) // never fails
	n, err := w.to.Write(p)
	w.bytes += int64(n)
	return err
}

// loadPart reads a partition and verifies every byte.
func loadPart(ctx context.Context, folder string, schema *ps.Schema, part Part) (_ *ps.Block, err error) {
	file, err := blob.OpenRange(ctx, location.Join(folder, part.Object), part.Offset, part.Bytes)
	if err != nil {
		return nil, missing(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	whole := &readErrors{from: file}
	sum := sha256.New()
	rows, err := readPart(bufio.NewReaderSize(io.TeeReader(io.LimitReader(whole, part.Bytes), sum), pieceBytes), part.Bytes)
	switch got := digest(sum); {
	case whole.failed != nil:
		return nil, whole.failed
	case err != nil:
		return nil, damaged(err)
	case got != part.SHA256:
		return nil, wrongChecksum(got, part.SHA256)
	}
	if err := rows.Check(schema, part.Partition); err != nil {
		return nil, damaged(err)
	}
	return rows, nil
}

// verify reads an object's parts, which are consecutive, and compares their checksums.
func verify(ctx context.Context, folder string, parts []Part) (err error) {
	first, last := parts[0], parts[len(parts)-1]
	file, err := blob.OpenRange(ctx, location.Join(folder, first.Object), first.Offset, last.Offset+last.Bytes-first.Offset)
	if err != nil {
		return missing(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for _, part := range parts {
		sum := sha256.New()
		if _, err := io.CopyN(sum, file, part.Bytes); errors.Is(err, io.EOF) {
			return damaged(fmt.Errorf("%s ends in partition %d", part.Object, part.Partition))
		} else if err != nil {
			return err
		}
		if got := digest(sum); got != part.SHA256 {
			return fmt.Errorf("partition %d: %w", part.Partition, wrongChecksum(got, part.SHA256))
		}
	}
	return nil
}

func wrongChecksum(got, want string) error {
	return damaged(fmt.Errorf("its checksum is %s, and should be %s", got, want))
}

func digest(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// readErrors distinguishes a failing store from a damaged object.
type readErrors struct {
	from   io.Reader
	failed error
}

func (r *readErrors) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return n, err
}

// readPart uses no more memory than the given bytes need, whatever sizes they claim.
func readPart(r io.Reader, bytes int64) (*ps.Block, error) {
	rows := &ps.Block{}
	var header [pieceHeader]byte
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return nil, fmt.Errorf("it ends too early: %w", err)
		}
		keys, cells := binary.LittleEndian.Uint32(header[:]), binary.LittleEndian.Uint32(header[4:])
		if keys == 0 {
			if n, err := io.Copy(io.Discard, r); n > 0 || err != nil {
				return nil, errors.Join(fmt.Errorf("%d bytes follow its end", n), err)
			}
			return rows, nil
		}
		size := 8*int64(keys) + 4*int64(cells)
		if bytes -= pieceHeader; size > bytes {
			return nil, fmt.Errorf("a piece of %d rows and %d cells is more than its part has", keys, cells)
		}
		bytes -= size
		piece := make([]byte, size)
		if _, err := io.ReadFull(r, piece); err != nil {
			return nil, fmt.Errorf("it ends too early: %w", err)
		}
		for range keys {
			k := binary.LittleEndian.Uint64(piece)
			rows.Keys = append(rows.Keys, ps.Key{Table: ps.TableID(k >> rowBits), Row: ps.RowID(k & (1<<rowBits - 1))})
			piece = piece[8:]
		}
		for range cells {
			rows.Values = append(rows.Values, math.Float32frombits(binary.LittleEndian.Uint32(piece)))
			piece = piece[4:]
		}
	}
}
