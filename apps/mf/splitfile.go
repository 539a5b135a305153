package mf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/tierml/tierml/ps"
)

// A split file holds everything that one split needs, all numbers little endian:
//
//	offset  bytes  what
//	0       8      magic "TMLmf\r\n\x00" (a file changed by a text-mode copy is noticed at once)
//	8       4      version, 1
//	12      4      split number
//	16      4      U, users in the split
//	20      4      I, items that they rated
//	24      4      N, ratings to train on
//	28      4      H, ratings held out
//	32      12 U   users: row u32, id i64; rows ascending
//	        16 I   items: row u32, id i64, training ratings over all splits u32; rows ascending
//	        12 N   ratings to train on: place in users u32, place in items u32, rating f32; by user, then item
//	        12 H   ratings held out, likewise
//	        4      CRC-32C of all bytes before
const (
	splitMagic   = "TMLmf\r\n\x00"
	splitVersion = 1
	headerSize   = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSplit says that a split file cannot be used.
var ErrSplit = errors.New("damaged split file: prepare the data again")

// splitData is the contents of a split file.
type splitData struct {
	id    ps.Split
	users []userEntry
	items []itemEntry
	train []example
	test  []example
}

type userEntry struct {
	row uint32
	id  int64
}

type itemEntry struct {
	row   uint32
	id    int64
	count uint32 // training ratings of this item over all splits
}

// example is one rating; user and item are places in the split's own lists.
type example struct {
	user, item uint32
	value      float32
}

func (s *splitData) write(w io.Writer) error {
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	le := binary.LittleEndian
	record := append(make([]byte, 0, headerSize), splitMagic...)
	for _, n := range []int{splitVersion, int(s.id), len(s.users), len(s.items), len(s.train), len(s.test)} {
		if n > math.MaxUint32 {
			return fmt.Errorf("%d does not fit the format: cut the data into more splits", n)
		}
		record = le.AppendUint32(record, uint32(n))
	}
	out.Write(record) // bufio keeps the first error until Flush
	for _, u := range s.users {
		out.Write(le.AppendUint64(le.AppendUint32(record[:0], u.row), uint64(u.id)))
	}
	for _, i := range s.items {
		record = le.AppendUint64(le.AppendUint32(record[:0], i.row), uint64(i.id))
		out.Write(le.AppendUint32(record, i.count))
	}
	for _, examples := range [][]example{s.train, s.test} {
		for _, e := range examples {
			record = le.AppendUint32(le.AppendUint32(record[:0], e.user), e.item)
			out.Write(le.AppendUint32(record, math.Float32bits(e.value)))
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(le.AppendUint32(nil, sum.Sum32()))
	return err
}

// readSplit reads and checks a split file.
func readSplit(r io.Reader, want ps.Split) (*splitData, error) {
	f := &splitReader{in: bufio.NewReaderSize(r, 1<<16)}
	s, err := f.read(want)
	if err == nil {
		err = s.check()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it is cut short", ErrSplit)
	}
	if err != nil {
		return nil, fmt.Errorf("split %d: %w", want, err)
	}
	return s, nil
}

// splitReader sums up what it reads. Lists grow as their bytes come, so that a false count cannot ask for
// more memory than the file has bytes.
type splitReader struct {
	in  *bufio.Reader
	sum uint32
}

func (f *splitReader) record(buffer []byte) error {
	if _, err := io.ReadFull(f.in, buffer); err != nil {
		return err
	}
	f.sum = crc32.Update(f.sum, castagnoli, buffer)
	return nil
}

func (f *splitReader) read(want ps.Split) (*splitData, error) {
	counts, err := f.header(want)
	if err != nil {
		return nil, err
	}
	s := &splitData{id: want}
	if err := f.lists(s, counts); err != nil {
		return nil, err
	}
	sum := f.sum
	var stored [4]byte
	if err := f.record(stored[:]); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(stored[:]) != sum {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrSplit)
	}
	if _, err := f.in.ReadByte(); err == nil {
		return nil, fmt.Errorf("%w: bytes after its end", ErrSplit)
	} else if err != io.EOF {
		return nil, err
	}
	return s, nil
}

func (f *splitReader) header(want ps.Split) (counts [4]uint32, err error) {
	var header [headerSize]byte
	if err := f.record(header[:]); err != nil {
		return counts, err
	}
	if string(header[:len(splitMagic)]) != splitMagic {
		return counts, fmt.Errorf("%w: it is not a split file of matrix factorisation", ErrSplit)
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(header[len(splitMagic)+4*i:]) }
	if v := word(0); v != splitVersion {
		return counts, fmt.Errorf("split file of version %d, this program reads version %d: prepare the data again",
			v, splitVersion)
	}
	if id := ps.Split(word(1)); id != want {
		return counts, fmt.Errorf("%w: it holds split %d", ErrSplit, id)
	}
	for i := range counts {
		counts[i] = word(2 + i)
	}
	return counts, nil
}

func (f *splitReader) lists(s *splitData, counts [4]uint32) error {
	le := binary.LittleEndian
	var b [16]byte
	for range counts[0] {
		if err := f.record(b[:12]); err != nil {
			return err
		}
		s.users = append(s.users, userEntry{row: le.Uint32(b[:]), id: int64(le.Uint64(b[4:]))})
	}
	for range counts[1] {
		if err := f.record(b[:16]); err != nil {
			return err
		}
		s.items = append(s.items, itemEntry{row: le.Uint32(b[:]), id: int64(le.Uint64(b[4:])), count: le.Uint32(b[12:])})
	}
	for i, list := range []*[]example{&s.train, &s.test} {
		for range counts[2+i] {
			if err := f.record(b[:12]); err != nil {
				return err
			}
			*list = append(*list, example{user: le.Uint32(b[:]), item: le.Uint32(b[4:]),
				value: math.Float32frombits(le.Uint32(b[8:]))})
		}
	}
	return nil
}

// check makes sure that nothing which follows can index out of range, whatever wrote the file.
func (s *splitData) check() error {
	for i, u := range s.users {
		if i > 0 && u.row <= s.users[i-1].row {
			return fmt.Errorf("%w: users are out of order", ErrSplit)
		}
	}
	for i, item := range s.items {
		if i > 0 && item.row <= s.items[i-1].row {
			return fmt.Errorf("%w: items are out of order", ErrSplit)
		}
	}
	for _, examples := range [][]example{s.train, s.test} {
		for _, e := range examples {
			if int(e.user) >= len(s.users) || int(e.item) >= len(s.items) {
				return fmt.Errorf("%w: a rating of an unknown user or item", ErrSplit)
			}
			if math.IsNaN(float64(e.value)) || math.IsInf(float64(e.value), 0) {
				return fmt.Errorf("%w: a rating that is not a finite number", ErrSplit)
			}
		}
	}
	return nil
}
