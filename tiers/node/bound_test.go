package node

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// TestWorkersKeepTheBound: real workers, which read ahead and write behind, never compute with a value older than their bound, find the
// whole past of each split in its own column, wherever it comes from, and count everything once; meanwhile splits change hands at random
// moments, partitions commit one after the other and everything returns to a cut.
func TestWorkersKeepTheBound(t *testing.T) {
	for _, staleness := range []ps.Clock{0, 1, 2, 5, ps.Unbounded} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("staleness=%d,seed=%d", staleness, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { keepTheBound(t, staleness, rand.New(rand.NewPCG(seed, 1))) })
			})
		}
	}
}

func keepTheBound(t *testing.T, staleness ps.Clock, random *rand.Rand) {
	const until, splits = 60, 6
	schema := ps.Schema{Partitions: 3, Splits: splits, Seed: 11, Staleness: staleness,
		Tables: []ps.Table{{Name: "clocks", Rows: countedRows, Cols: splits}}}
	app := &counted{t: t, staleness: staleness}
	w := &world{t: t, schema: schema, work: testWork, parties: newDataPlane(&schema), changed: make(chan struct{}), app: app}
	w.parties.delay = time.Duration(random.IntN(400)) * time.Millisecond
	w.openLink()
	ids := []ps.ServerID{"i-1", "i-2"}
	machines := []*machine{w.join(ids[0], 1, until), w.join(ids[1], 2, until)}
	w.do(ids[0], tiers.Assign{Splits: all(0, 1, 2)})
	w.do(ids[1], tiers.Assign{Splits: all(3, 4, 5)})
	holder := []int{0, 0, 0, 1, 1, 1}
	hand := func() {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		split := random.IntN(splits)
		released := w.do(ids[holder[split]], tiers.Release{Splits: []ps.Split{ps.Split(split)}}).(tiers.Released)
		holder[split] = 1 - holder[split]
		w.do(ids[holder[split]], tiers.Assign(released))
	}
	for range 6 {
		hand()
	}
	w.do(ids[0], tiers.Park{})
	cut := max(w.do(ids[0], tiers.Park{}).(tiers.Parked).Begun, w.do(ids[1], tiers.Park{}).(tiers.Parked).Begun) + 1
	w.do(ids[0], tiers.NameCut{Cut: cut})
	for _, id := range ids {
		w.do(id, tiers.Unpark{Until: until})
	}
	w.awaitClock(cut)
	synctest.Wait()
	w.do(ids[0], tiers.CommitCut{Cut: cut})
	hand()
	for _, id := range ids {
		w.do(id, tiers.FenceGeneration{Generation: 1})
	}
	var mine [2][]ps.Split
	for split, machine := range holder {
		mine[machine] = append(mine[machine], ps.Split(split))
	}
	for i, id := range ids {
		w.do(id, tiers.Recover{Generation: 1, Cut: cut, Splits: mine[i]})
	}
	for range 4 {
		hand()
	}
	for !w.parties.complete(until) {
		time.Sleep(time.Second)
	}
	rows := make([]float32, splits)
	for row := range ps.RowID(countedRows) {
		if err := (fakeClient{w.parties, 0}).Read(t.Context(), 1, until+1, []ps.Key{{Row: row}}, rows, nil); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(rows, func(x float32) bool { return x != until }) {
			t.Errorf("row %d holds %v; every split has done %d clocks", row, rows, until)
		}
	}
	if err := errors.Join(machines[0].end(), machines[1].end()); err != nil {
		t.Error(err)
	}
	w.closeLink()
}

// complete reports whether a clock is complete in every partition.
func (d *dataPlane) complete(c ps.Clock) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !slices.ContainsFunc(d.shards, func(s *ps.Shard) bool { return s.Folded() < c })
}

// counted is an application in which each split adds one to its column of every row in every clock.
type counted struct {
	t         *testing.T
	staleness ps.Clock
}

const countedRows = 5

func (*counted) Name() string { return "toy" }
func (a *counted) Tables() []ps.Table {
	panic("the schema has them")
}

func (a *counted) LoadSplit(id ps.Split, _ io.Reader, _ uint64) (apps.Split, error) {
	return &countedSplit{a, id}, nil
}

type countedSplit struct {
	*counted
	id ps.Split
}

func (*countedSplit) Needs(_ ps.Clock, keys []ps.Key) []ps.Key {
	for row := range ps.RowID(countedRows) {
		keys = append(keys, ps.Key{Row: row})
	}
	return keys
}

func (*countedSplit) EvalNeeds(keys []ps.Key) []ps.Key { return keys }

func (s *countedSplit) Run(c ps.Clock, rows apps.Rows, _ bool) (apps.Stats, error) {
	for row := range ps.RowID(countedRows) {
		cells := rows.Row(ps.Key{Row: row})
		for split, x := range cells {
			if ps.Clock(x) < c-s.staleness-1 || ps.Split(split) == s.id && ps.Clock(x) != c-1 {
				s.t.Errorf("split %d at clock %d, staleness %d: row %d holds %v clocks of split %d", s.id, c, s.staleness, row, x, split)
			}
		}
		cells[s.id]++
	}
	return apps.Stats{Examples: 1, Work: testWork}, nil
}
