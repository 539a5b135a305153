package server

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// Serving counts the time of each contribution and each commit, but not of reads, by partition and clock. Refused requests take time too.
func TestServingIsMeasured(t *testing.T) {
	schema := ps.Schema{Tables: []ps.Table{{Name: "t", Rows: 64, Cols: 1}}, Partitions: 2, Splits: 2, Deterministic: true}
	s := New(Config{Self: "a", Schema: schema, Generation: 1})
	calls := 0
	s.now = func() time.Time { // each piece of work takes a millisecond
		calls++
		return time.Unix(0, int64(calls)*int64(time.Millisecond))
	}
	s.SetRoute(1, ps.Route{Version: 1, Owner: []ps.ServerID{"a", "a"}, Backup: []ps.ServerID{"", ""}}, nil)
	s.Own([]ps.Partition{0, 1})
	do := func(request wire.Message) {
		t.Helper()
		if answer := s.HandleNow(1, request); answer == nil {
			t.Fatalf("%T has to wait", request)
		}
	}
	stage := func(split ps.Split, clock ps.Clock, p ps.Partition) {
		do(&wire.Stage{Incarnation: ps.Incarnation(split + 1), Sequence: uint64(clock), Clock: clock, Splits: []ps.Split{split},
			Partitions: []wire.PartitionSums{{Partition: p}}})
	}
	commit := func(split ps.Split, clock ps.Clock, partitions ...ps.Partition) {
		do(&wire.Commit{Incarnation: ps.Incarnation(split + 1), Sequence: uint64(clock), Partitions: partitions})
	}
	for clock := ps.Clock(1); clock <= 3; clock++ {
		for split := range ps.Split(2) {
			stage(split, clock, 0)
			commit(split, clock, 0)
		}
	}
	stage(0, 1, 1)
	stage(0, 1, 1) // again: the answer was lost
	commit(0, 1, 1)
	want := []ps.Serving{{Partition: 0, Took: 12 * time.Millisecond, Clocks: 3}, {Partition: 1, Took: 3 * time.Millisecond}}
	if got := s.Stats().Serving; !slices.Equal(got, want) {
		t.Errorf("serving %v, want %v", got, want)
	}
}
