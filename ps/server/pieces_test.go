package server_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/ps/server"
	"github.com/tierml/tierml/ps/wire"
)

// A partition many times larger than a frame trains, is cut, moves and comes back, with the same rows as one that fits a frame.
func TestModelLargerThanFrames(t *testing.T) {
	schema := ps.Schema{
		Tables:     []ps.Table{{Name: "w", Rows: 3000, Cols: 16}, {Name: "long", Rows: 5, Cols: 200}},
		Partitions: 3, Splits: 6, Deterministic: true,
	}
	want := trainedRows(t, schema, 0)
	if got := trainedRows(t, schema, 4<<10); !slices.Equal(got, want) {
		t.Error("rows differ with the length of frames")
	}
}

// trainedRows returns all rows after six clocks, a cut, moves and a roll-back, with frames of a maximum length.
func trainedRows(t *testing.T, schema ps.Schema, longest int) []float32 {
	t.Helper()
	maxBody = longest
	defer func() { maxBody = 0 }()
	c := newCluster(t, schema, nil, "a", "b", "r")
	team := c.team("a")
	run := func(from, to ps.Clock) {
		t.Helper()
		team.start(c.ctx, from, to)
		if err := team.wait(); err != nil {
			t.Fatal(err)
		}
	}
	run(1, 3)
	if err := c.nodes["a"].NameCut(3); err != nil {
		t.Fatal(err)
	}
	c.cut(3)
	run(4, 5)
	c.recover(3)
	run(4, 4)
	if err := c.moveAround(9); err != nil {
		t.Fatal(err)
	}
	c.announce()
	run(5, 6)
	team.verify(6)
	var rows client.Rows
	if err := c.client("").Read(c.ctx, c.generation, 7, allKeys(&schema), &rows); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(rows.Values)
}

// Pending pieces of contributions that never end are bounded by the partition's rows, and by as many workers as there are splits.
func TestPiecesAreBounded(t *testing.T) {
	schema := ps.Schema{Tables: []ps.Table{{Name: "w", Rows: 64, Cols: 1 << 10}}, Partitions: 1, Splits: 4, Deterministic: true}
	s, _, end := serving(schema, slog.New(slog.DiscardHandler))
	defer end()
	before := heap()
	codes := map[wire.Code]int{}
	for i := range 5000 {
		m := &wire.Stage{Incarnation: ps.Incarnation(1 + i%10), Sequence: 1, Clock: 1, Splits: []ps.Split{0}}
		m.Partitions = []wire.PartitionSums{{Piece: uint32(i / 10), More: true, Sums: ps.Sums{
			Keys: []ps.Key{{Row: ps.RowID(i / 10 % 64)}}, Fixed: make([]int64, 1<<10),
		}}}
		codes[s.Handle(context.Background(), 1, m).(*wire.Ack).Partitions[0].Code]++
	}
	if want := 4 * 64; codes[wire.OK] != want || codes[wire.Invalid] == 0 || codes[wire.Retry] == 0 {
		t.Errorf("answers %v; only %d pieces are rows that are not there yet", codes, want)
	}
	if took := int64(heap()) - int64(before); took > 4<<20 {
		t.Errorf("it holds %d bytes", took)
	}
}

// owner counts pulls of cuts and answers them without rows, each once the expected number are concurrent. It holds the first ones a
// little longer to catch any beyond that number.
type owner struct {
	pulls, atOnce int

	mu         sync.Mutex
	news       sync.Cond
	come, gone int
	most       int
	grace      bool // has ended
	ended      bool
}

func (o *owner) HandleNow(ps.Generation, wire.Message) wire.Message { return nil }

func (o *owner) Handle(_ context.Context, _ ps.Generation, request wire.Message) wire.Message {
	m, ok := request.(*wire.PullCut)
	if !ok {
		return &wire.Error{Code: wire.Invalid}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.come++
	o.most = max(o.most, o.come-o.gone)
	o.news.Broadcast()
	if o.come == o.atOnce {
		time.AfterFunc(100*time.Millisecond, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.grace = true
			o.news.Broadcast()
		})
	}
	for (o.come < min(o.gone+o.atOnce, o.pulls) || !o.grace && o.come <= o.atOnce) && !o.ended {
		o.news.Wait()
	}
	o.gone++
	return &wire.DeliveryEnd{Cut: m.Cut, Full: true}
}

func (o *owner) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.news.Broadcast()
}

// However many partitions pass a cut at once, a backup pulls no more at a time than its limit.
func TestPullsAtOnce(t *testing.T) {
	for _, c := range []struct{ setting, want int }{{0, 4}, {7, 7}} {
		const partitions = 300
		o := &owner{pulls: partitions, atOnce: c.want}
		o.news.L = &o.mu
		address := listen(t, o)
		held := make(chan ps.Clock, 1)
		s := server.New(server.Config{
			Self: "r", Schema: ps.Schema{Tables: []ps.Table{{Name: "w", Rows: 1, Cols: 1}}, Partitions: partitions, Splits: 1},
			Job: job, Listener: nobody{}, PullsAtOnce: c.setting,
			OnCutHeld: func(cut ps.Clock, _ int64, _ time.Duration) { held <- cut },
		})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		var all []ps.Partition
		for p := range ps.Partition(partitions) {
			all = append(all, p)
		}
		s.BackUp(all, false)
		route := ps.Route{Version: 1, Backup: slices.Repeat([]ps.ServerID{"r"}, partitions)}
		s.SetRoute(1, route, map[ps.ServerID]string{"a": address})
		if _, err := wire.Ask[*wire.Ack](ctx, s.Local(), 1, &wire.CutReady{From: "a", Cut: 1, Partitions: all}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-held:
		case <-ctx.Done():
			t.Error("the cut does not arrive: fewer come at once")
		}
		o.end()
		cancel()
		_ = s.Serve(ctx) // ends what it has begun; its listener never was one
		o.mu.Lock()
		if o.come != partitions || o.most != c.want {
			t.Errorf("with PullsAtOnce %d, %d pulls came, %d of them at once, not %d", c.setting, o.come, o.most, c.want)
		}
		o.mu.Unlock()
	}
}
