package mf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// A split file contains everything that one split needs, all numbers little endian:
//
//	offset  bytes  what
//	0       8      magic "TMLmf\r\n\x00" (a file changed by a text-mode copy is noticed at once)
//	8       4      version, 1; 2 with names
//	12      4      split number
//	16      4      U, users in the split
//	20      4      I, items that they rated
//	24      4      N, ratings to train on
//	28      4      H, ratings held out
//	32      12 U   users: row u32, id i64; rows ascending
//	        16 I   items: row u32, id i64, training ratings over all splits u32; rows ascending
//	        12 N   ratings to train on: place in users u32, place in items u32, rating f32; by user, then item
//	        12 H   ratings held out, likewise
//	        4 B    in version 2: bytes of the names u32; the names of the users, then of the items, a line feed between
//	        4      CRC-32C of all bytes before
const (
	splitMagic   = "TMLmf\r\n\x00"
	splitVersion = 1
	namesVersion = 2
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
	named bool // users and items have names
}

type userEntry struct {
	row  uint32
	id   int64
	name string
}

type itemEntry struct {
	row   uint32
	id    int64
	count uint32 // training ratings of this item over all splits
	name  string
}

// example is one rating; user and item are indexes into the split's own lists.
type example struct {
	user, item uint32
	value      float32
}

func (s *splitData) encode() ([]byte, error) {
	le := binary.LittleEndian
	names, version := s.names(), splitVersion
	if s.named {
		version = namesVersion
	}
	b := append(make([]byte, 0, s.size()+len(names)), splitMagic...)
	for _, n := range []int{version, int(s.id), len(s.users), len(s.items), len(s.train), len(s.test)} {
		if n > math.MaxUint32 {
			return nil, fmt.Errorf("write split %d: %d does not fit the format: cut the data into more splits", s.id, n)
		}
		b = le.AppendUint32(b, uint32(n))
	}
	for _, u := range s.users {
		b = le.AppendUint64(le.AppendUint32(b, u.row), uint64(u.id))
	}
	for _, i := range s.items {
		b = le.AppendUint32(le.AppendUint64(le.AppendUint32(b, i.row), uint64(i.id)), i.count)
	}
	for _, examples := range [][]example{s.train, s.test} {
		for _, e := range examples {
			b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, e.user), e.item), math.Float32bits(e.value))
		}
	}
	if s.named {
		b = append(le.AppendUint32(b, uint32(len(names))), names...)
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// names returns the names of the users and items, in one text.
func (s *splitData) names() string {
	if !s.named {
		return ""
	}
	all := make([]string, 0, len(s.users)+len(s.items))
	for _, u := range s.users {
		all = append(all, u.name)
	}
	for _, i := range s.items {
		all = append(all, i.name)
	}
	return strings.Join(all, "\n")
}

// setNames names users and items from such a text.
func (s *splitData) setNames(text string) error {
	all := strings.Split(text, "\n")
	if len(all) != len(s.users)+len(s.items) {
		return fmt.Errorf("%w: %d names of %d users and %d items", ErrSplit, len(all), len(s.users), len(s.items))
	}
	s.named = true
	for i := range s.users {
		s.users[i].name = all[i]
	}
	for i := range s.items {
		s.items[i].name = all[len(s.users)+i]
	}
	return nil
}

// Bytes of a user, an item and a rating.
const (
	userSize    = 12
	itemSize    = 16
	exampleSize = 12
)

// size returns the length of the file in bytes.
func (s *splitData) size() int {
	return headerSize + userSize*len(s.users) + itemSize*len(s.items) + exampleSize*(len(s.train)+len(s.test)) + 4
}

// readSplit reads and checks a split file.
func readSplit(r io.Reader, want ps.Split) (*splitData, error) {
	data, err := apps.ReadSplit(r)
	var s *splitData
	if err == nil {
		s, err = decodeSplit(data, want)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("split %d: %w", want, err)
	}
	return s, nil
}

func decodeSplit(data []byte, want ps.Split) (*splitData, error) {
	if len(data) < headerSize {
		return nil, fmt.Errorf("%w: it is cut short", ErrSplit)
	}
	if string(data[:len(splitMagic)]) != splitMagic {
		return nil, fmt.Errorf("%w: it is not a split file of matrix factorisation", ErrSplit)
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(data[len(splitMagic)+4*i:]) }
	version := word(0)
	if v := version; v != splitVersion && v != namesVersion {
		return nil, fmt.Errorf("split file of version %d, this program reads version %d: prepare the data again",
			v, splitVersion)
	}
	if id := ps.Split(word(1)); id != want {
		return nil, fmt.Errorf("%w: it holds split %d", ErrSplit, id)
	}
	var counts [4]int
	size := uint64(headerSize + 4)
	for i, each := range [...]uint64{userSize, itemSize, exampleSize, exampleSize} {
		counts[i] = int(word(2 + i))
		size += each * uint64(word(2+i))
	}
	lists := size - 4 // where the names start
	if version == namesVersion && uint64(len(data)) >= size {
		size += 4 + uint64(binary.LittleEndian.Uint32(data[lists:]))
	}
	switch got := uint64(len(data)); { // before a wrong count requests memory
	case got < size:
		return nil, fmt.Errorf("%w: it is cut short", ErrSplit)
	case got > size:
		return nil, fmt.Errorf("%w: bytes after its end", ErrSplit)
	}
	body := data[:len(data)-4]
	if binary.LittleEndian.Uint32(data[len(body):]) != crc32.Checksum(body, castagnoli) {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrSplit)
	}
	s := decodeLists(&splitData{id: want}, body[headerSize:lists], counts)
	if version == namesVersion {
		return s, s.setNames(string(body[lists+4:]))
	}
	return s, nil
}

// decodeLists decodes data of the right length; empty lists stay nil.
func decodeLists(s *splitData, b []byte, counts [4]int) *splitData {
	le := binary.LittleEndian
	for range counts[0] {
		s.users = append(s.users, userEntry{row: le.Uint32(b), id: int64(le.Uint64(b[4:]))})
		b = b[userSize:]
	}
	for range counts[1] {
		s.items = append(s.items, itemEntry{row: le.Uint32(b), id: int64(le.Uint64(b[4:])), count: le.Uint32(b[12:])})
		b = b[itemSize:]
	}
	for i, list := range []*[]example{&s.train, &s.test} {
		*list = slices.Grow(*list, counts[2+i])
		for range counts[2+i] {
			*list = append(*list, example{user: le.Uint32(b), item: le.Uint32(b[4:]), value: math.Float32frombits(le.Uint32(b[8:]))})
			b = b[exampleSize:]
		}
	}
	return s
}

// check ensures that nothing that follows can index out of range, whatever wrote the file.
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
