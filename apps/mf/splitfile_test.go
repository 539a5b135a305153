package mf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
	"strings"
	"testing"
)

func sampleSplit() *splitData {
	return &splitData{
		id:    3,
		users: []userEntry{{0, 10, ""}, {5, 99, ""}},
		items: []itemEntry{{1, 7, 2, ""}, {2, 8, 1, ""}, {9, 1 << 40, 0, ""}},
		train: []example{{0, 0, 4.5}, {0, 1, -2}, {1, 0, 3}},
		test:  []example{{1, 2, 1}},
	}
}

func encodeSplit(t testing.TB, s *splitData) []byte {
	t.Helper()
	b, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSplitRoundTrip(t *testing.T) {
	for _, want := range []*splitData{sampleSplit(), {id: 3}} {
		got, err := readSplit(bytes.NewReader(encodeSplit(t, want)), 3)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

func TestEveryTruncationIsNoticed(t *testing.T) {
	whole := encodeSplit(t, sampleSplit())
	for n := range whole {
		if _, err := readSplit(bytes.NewReader(whole[:n]), 3); !errors.Is(err, ErrSplit) {
			t.Fatalf("%d of %d bytes: error %v, want ErrSplit", n, len(whole), err)
		}
	}
	if _, err := readSplit(bytes.NewReader(append(whole, 0)), 3); !errors.Is(err, ErrSplit) {
		t.Errorf("a byte too many: error %v, want ErrSplit", err)
	}
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	whole := encodeSplit(t, sampleSplit())
	for bit := range 8 * len(whole) {
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := readSplit(bytes.NewReader(damaged), 3); err == nil {
			t.Fatalf("bit %d flipped: not noticed", bit)
		}
	}
}

func TestOtherVersionAndOtherSplit(t *testing.T) {
	whole := encodeSplit(t, sampleSplit())
	if _, err := readSplit(bytes.NewReader(whole), 4); err == nil || !strings.Contains(err.Error(), "split 4: ") {
		t.Errorf("read as another split: %v", err)
	}
	binary.LittleEndian.PutUint32(whole[8:], 3)
	if _, err := readSplit(bytes.NewReader(whole), 3); err == nil || !strings.Contains(err.Error(), "version 3") {
		t.Errorf("another version: %v", err)
	}
}

// A file with a correct checksum and wrong contents, as a faulty writer would make it.
func TestContentsAreChecked(t *testing.T) {
	for name, spoil := range map[string]func(*splitData){
		"unknown user":  func(s *splitData) { s.train[0].user = 2 },
		"unknown item":  func(s *splitData) { s.test[0].item = 3 },
		"rating":        func(s *splitData) { s.train[0].value = float32(math.NaN()) },
		"order of user": func(s *splitData) { s.users[1].row = 0 },
		"order of item": func(s *splitData) { s.items[2].row = 2 },
	} {
		s := sampleSplit()
		spoil(s)
		if _, err := readSplit(bytes.NewReader(encodeSplit(t, s)), 3); !errors.Is(err, ErrSplit) {
			t.Errorf("%s: error %v, want ErrSplit", name, err)
		}
	}
}

func FuzzReadSplit(f *testing.F) {
	f.Add(encodeSplit(f, sampleSplit()))
	f.Add(encodeSplit(f, &splitData{id: 3}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4 { // let contents past the checksum, so that the checks behind it run
			body := data[:len(data)-4]
			data = binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, castagnoli))
		}
		s, err := readSplit(bytes.NewReader(data), 3)
		if err != nil {
			return
		}
		if again := encodeSplit(t, s); !bytes.Equal(again, data) {
			t.Fatalf("read %+v, which is written differently", s)
		}
	})
}
