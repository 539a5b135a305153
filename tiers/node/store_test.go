package node

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// sized is an application whose splits are the contents of their files.
type sized struct{ apps.App }

func (sized) LoadSplit(_ ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	_, err := io.Copy(io.Discard, r)
	return &toySplit{}, err
}

// The contract, Data and memory: an inactive split is in memory where it fits, and on local disk otherwise; an active one is
// in memory. The most recently used stay.
func TestInactiveSplitsStayWhereTheyFit(t *testing.T) {
	var read []ps.Split
	active := []ps.Split{0}
	s := &store{app: sized{}, splits: map[ps.Split]*entry{}, limit: 35, active: func() []ps.Split { return active },
		open: func(id ps.Split) (io.ReadCloser, error) {
			read = append(read, id)
			if id == 9 {
				return nil, errors.New("no such file")
			}
			return io.NopCloser(bytes.NewReader(make([]byte, 10))), nil
		}}
	load := func(ids ...ps.Split) {
		t.Helper()
		for _, id := range ids {
			if _, err := s.load(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	inMemory := func(want ...ps.Split) {
		t.Helper()
		var got []ps.Split
		for id := range ps.Split(10) {
			if e := s.splits[id]; e != nil && e.data != nil {
				got = append(got, id)
			}
		}
		for id := range s.onDisk {
			if s.splits[id] != nil || !slices.Contains(s.loaded(), id) {
				t.Errorf("split %d is here: %v; on disk %v", id, s.loaded(), s.onDisk)
			}
		}
		if !slices.Equal(got, want) || s.bytes != int64(10*len(got)) {
			t.Errorf("in memory are %v, %d bytes; want %v", got, s.bytes, want)
		}
	}
	load(0, 1, 2)
	inMemory(0, 1, 2)
	s.get(1)
	load(3) // 2 is the least recently used, as 0 is active
	inMemory(0, 1, 3)
	load(1, 2, 2)
	inMemory(0, 1, 2)
	if want := []ps.Split{0, 1, 2, 3, 2}; !slices.Equal(read, want) {
		t.Errorf("read %v, want %v: what is in memory is not read again", read, want)
	}
	if _, err := s.load(t.Context(), 9); err == nil {
		t.Error("a split that is not there was loaded")
	}
	inMemory(0, 1, 2)
	s.limit = 1 // less than the active ones: nothing inactive stays but the newest, which is about to become active
	load(4)
	inMemory(0, 4)
}
