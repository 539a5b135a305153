package labelled

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// A split file holds one split's examples, all numbers little endian:
//
//	offset  bytes  what
//	0       8      magic "TMLex\r\n\x00" (a file changed by a text-mode copy is noticed at once)
//	8       4      version, 1
//	12      4      split number
//	16      4      F, features or columns: every index is below it
//	20      4      N, examples to train on
//	24      4      H, examples held out
//	28             N + H examples, each:
//	        4        rank, ascending within the N and within the H
//	        4        label f32 (0 in tables, where it is a column)
//	        4        number of entries
//	        8 each   entries: index u32, ascending, value f32
//	        4      CRC-32C of all bytes before
const (
	splitMagic   = "TMLex\r\n\x00"
	splitVersion = 1
	headerSize   = 28
	entrySize    = 8
	exampleSize  = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSplit says that a split file cannot be used.
var ErrSplit = errors.New("damaged split file: prepare the data again")

// examples are a split file's examples as stored.
type examples struct {
	ranks  []uint32
	labels []float32
	start  []int
	index  []uint32
	value  []float32
}

type splitFile struct {
	id          ps.Split
	features    uint32
	train, test examples
}

// encode appends the file to b, which is empty.
func (s *splitFile) encode(b []byte) []byte {
	le := binary.LittleEndian
	size := headerSize + 4 + exampleSize*(len(s.train.labels)+len(s.test.labels)) + entrySize*(len(s.train.index)+len(s.test.index))
	b = append(slices.Grow(b, size), splitMagic...)
	for _, n := range []uint32{splitVersion, uint32(s.id), s.features, uint32(len(s.train.labels)), uint32(len(s.test.labels))} {
		b = le.AppendUint32(b, n)
	}
	for _, e := range []*examples{&s.train, &s.test} {
		for i := range e.labels {
			from, to := e.start[i], e.start[i+1]
			b = le.AppendUint32(b, e.ranks[i])
			b = le.AppendUint32(b, math.Float32bits(e.labels[i]))
			b = le.AppendUint32(b, uint32(to-from))
			for k := from; k < to; k++ {
				b = le.AppendUint32(b, e.index[k])
				b = le.AppendUint32(b, math.Float32bits(e.value[k]))
			}
		}
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readSplit reads and checks a split file. Nothing that follows can index out of range, whatever wrote the file.
func readSplit(r io.Reader, want ps.Split) (*splitFile, error) {
	data, err := apps.ReadSplit(r)
	if err != nil {
		return nil, err
	}
	if len(data) < headerSize+4 {
		return nil, fmt.Errorf("%w: it is cut short", ErrSplit)
	}
	if string(data[:len(splitMagic)]) != splitMagic {
		return nil, fmt.Errorf("%w: it is not a split file of labelled examples", ErrSplit)
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(data[len(splitMagic)+4*i:]) }
	if v := word(0); v != splitVersion {
		return nil, fmt.Errorf("split file of version %d, this program reads version %d: prepare the data again", v, splitVersion)
	}
	body, stored := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != stored {
		return nil, fmt.Errorf("%w: it is cut short, or its checksum does not match", ErrSplit)
	}
	s := &splitFile{id: ps.Split(word(1)), features: word(2)}
	if s.id != want {
		return nil, fmt.Errorf("%w: it holds split %d", ErrSplit, s.id)
	}
	rest := body[headerSize:]
	if rest, err = s.train.decode(rest, word(3), s.features); err != nil {
		return nil, err
	}
	if rest, err = s.test.decode(rest, word(4), s.features); err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: bytes after its end", ErrSplit)
	}
	return s, nil
}

func (e *examples) decode(b []byte, count, features uint32) (rest []byte, err error) {
	le := binary.LittleEndian
	if uint64(count)*exampleSize > uint64(len(b)) {
		return nil, fmt.Errorf("%w: it is cut short", ErrSplit)
	}
	e.start = append(make([]int, 0, count+1), 0)
	e.ranks, e.labels = slices.Grow(e.ranks, int(count)), slices.Grow(e.labels, int(count))
	entries := (len(b) - int(count)*exampleSize) / entrySize // or less, if other examples follow
	e.index, e.value = slices.Grow(e.index, entries), slices.Grow(e.value, entries)
	for i := range count {
		if len(b) < exampleSize {
			return nil, fmt.Errorf("%w: it is cut short", ErrSplit)
		}
		rank, label, n := le.Uint32(b), math.Float32frombits(le.Uint32(b[4:])), le.Uint32(b[8:])
		b = b[exampleSize:]
		switch {
		case uint64(n)*entrySize > uint64(len(b)):
			return nil, fmt.Errorf("%w: it is cut short", ErrSplit)
		case i > 0 && rank <= e.ranks[i-1]:
			return nil, fmt.Errorf("%w: examples are out of order", ErrSplit)
		case !finite(label):
			return nil, fmt.Errorf("%w: a label that is not a finite number", ErrSplit)
		}
		e.ranks, e.labels = append(e.ranks, rank), append(e.labels, label)
		if err := e.decodeEntries(b[:n*entrySize], features); err != nil {
			return nil, err
		}
		b = b[n*entrySize:]
		e.start = append(e.start, len(e.index))
	}
	return b, nil
}

func (e *examples) decodeEntries(b []byte, features uint32) error {
	le := binary.LittleEndian
	first := len(e.index)
	for ; len(b) > 0; b = b[entrySize:] {
		index, value := le.Uint32(b), math.Float32frombits(le.Uint32(b[4:]))
		if index >= features || len(e.index) > first && index <= e.index[len(e.index)-1] {
			return fmt.Errorf("%w: indices are out of order or range", ErrSplit)
		}
		if !finite(value) {
			return fmt.Errorf("%w: a value that is not a finite number", ErrSplit)
		}
		e.index, e.value = append(e.index, index), append(e.value, value)
	}
	return nil
}

func finite(x float32) bool { return x-x == 0 }
