package server

import (
	"testing"

	"github.com/tierml/tierml/ps"
)

// The window of a partition is open between the last read of a clock, when there were as many as in the clock before, and its first
// contribution.
func TestWindow(t *testing.T) {
	schema := ps.Schema{Tables: []ps.Table{{Name: "t", Rows: 4, Cols: 1}}, Partitions: 1, Splits: 2}
	s := &slot{state: owned, shard: ps.NewShard(&schema, 0)}
	if err := s.shard.BeginMove(); err != nil {
		t.Fatal(err)
	}
	commit := func(split ps.Split, clock ps.Clock, expect bool) {
		t.Helper()
		inc := ps.Incarnation(split + 1)
		c := &ps.Contribution{Incarnation: inc, Sequence: uint64(clock), Clock: clock, Splits: []ps.Split{split}}
		if _, err := s.shard.Stage(c); err != nil {
			t.Fatal(err)
		}
		if s.open() {
			t.Errorf("clock %d: open with a contribution that is staged", clock)
		}
		folded, err := s.shard.Commit(inc, uint64(clock))
		if err != nil || folded != expect {
			t.Fatalf("clock %d: folded %v, %v", clock, folded, err)
		}
		if folded {
			s.fold()
		} else if s.open() {
			t.Errorf("clock %d: open while another split's contribution is awaited", clock)
		}
	}
	if !s.open() {
		t.Error("closed before anybody has read or written")
	}
	for clock := ps.Clock(1); clock <= 3; clock++ {
		for read := range 3 {
			if clock > 1 && s.open() {
				t.Errorf("clock %d: open after %d of 3 reads", clock, read)
			}
			wakes := s.wait()
			s.answered()
			select {
			case <-wakes:
				if clock == 1 || read < 2 {
					t.Errorf("clock %d: read %d wakes a move", clock, read)
				}
			default:
				if clock > 1 && read == 2 {
					t.Errorf("clock %d: the last read wakes nobody", clock)
				}
			}
		}
		if !s.open() {
			t.Errorf("clock %d: closed after the last read", clock)
		}
		commit(0, clock, false)
		commit(1, clock, true)
	}
}
