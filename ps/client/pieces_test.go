package client

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// inPieces is a job of one partition whose messages hold at most two rows.
var inPieces = Config{
	Schema: ps.Schema{Tables: []ps.Table{{Name: "t", Rows: 5, Cols: 100}}, Partitions: 1, Splits: 1, Staleness: 1}, MaxBody: 2000,
}

func (c Config) served(t *testing.T, by wire.Caller) *Client {
	c.Local = func(ps.ServerID) wire.Caller { return by }
	cl := New(c)
	t.Cleanup(cl.Close)
	cl.SetRoute(1, ps.Route{Version: 1, Owner: []ps.ServerID{"a"}}, nil)
	return cl
}

// answers calls a function for each request.
type answers func(request wire.Message) wire.Message

func (f answers) Call(_ context.Context, _ ps.Generation, request wire.Message) (wire.Message, error) {
	return f(request), nil
}

// A partition that is read in several messages counts if all include the same amount of the reader's own work.
func TestReadInPieces(t *testing.T) {
	stamps := []ps.Stamp{{Folded: 3, Own: 1}, {Folded: 3, Own: 2}, {Folded: 4, Own: 2}, {Folded: 5, Own: 2}, {Folded: 4, Own: 2}, {Folded: 6, Own: 2}}
	var asked []string
	cl := inPieces.served(t, answers(func(request wire.Message) wire.Message {
		m := request.(*wire.Read)
		asked = append(asked, fmt.Sprint(m.Keys[0].Row, "+", len(m.Keys)))
		values := make([]float32, 100*len(m.Keys))
		for i := range values {
			values[i] = float32(m.Keys[i/100].Row) + float32(len(asked))/100
		}
		return &wire.Rows{Groups: []wire.PartitionStatus{{}}, Stamps: []ps.Stamp{stamps[len(asked)-1]}, Values: values}
	}))
	var keys []ps.Key
	for row := range ps.RowID(5) {
		keys = append(keys, ps.Key{Row: row})
	}
	var rows Rows
	if err := cl.Read(t.Context(), 1, 5, keys, &rows); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0+2", "2+2", "4+1", "0+2", "2+2", "4+1"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, not %v", asked, want)
	}
	if rows.Stamps[0] != (ps.Stamp{Folded: 4, Own: 2}) {
		t.Errorf("the rows are stamped %+v", rows.Stamps[0])
	}
	for i, want := range []float32{0.04, 1.04, 2.05, 3.05, 4.06} {
		if got := rows.At(i)[99]; got != want {
			t.Errorf("row %d is %v, not %v", i, got, want)
		}
	}
}

// Pieces follow each other, and a server that lacks earlier ones gets all again.
func TestContributeInPieces(t *testing.T) {
	for name, test := range map[string]struct {
		codes []wire.Code
		want  []string
	}{
		"one after another": {want: []string{"0 of 2 more", "1 of 2 more", "2 of 1", "commit"}},
		"not ready":         {codes: []wire.Code{0, wire.Retry}, want: []string{"0 of 2 more", "1 of 2 more", "1 of 2 more", "2 of 1", "commit"}},
		"replaced":          {codes: []wire.Code{0, 0, wire.NotStaged}, want: []string{"0 of 2 more", "1 of 2 more", "2 of 1", "0 of 2 more", "1 of 2 more", "2 of 1", "commit"}},
		"replaced at the end": {codes: []wire.Code{0, 0, 0, wire.NotStaged},
			want: []string{"0 of 2 more", "1 of 2 more", "2 of 1", "commit", "0 of 2 more", "1 of 2 more", "2 of 1", "commit"}},
		"counted before": {codes: []wire.Code{wire.Committed}, want: []string{"0 of 2 more"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			var rows []ps.RowID
			cl := inPieces.served(t, answers(func(request wire.Message) wire.Message {
				code := wire.OK
				if len(asked) < len(test.codes) {
					code = test.codes[len(asked)]
				}
				m, ok := request.(*wire.Stage)
				if !ok {
					asked = append(asked, "commit")
					return &wire.Ack{Partitions: []wire.PartitionStatus{{Code: code}}}
				}
				part := m.Partitions[0]
				text := fmt.Sprintf("%d of %d", part.Piece, len(part.Sums.Keys))
				if part.More {
					text += " more"
				}
				asked = append(asked, text)
				for _, k := range part.Sums.Keys {
					rows = append(rows, k.Row)
				}
				return &wire.Ack{Partitions: []wire.PartitionStatus{{Code: code}}}
			}))
			var sums ps.Sums
			for row := range ps.RowID(5) {
				sums.Keys, sums.Float = append(sums.Keys, ps.Key{Row: row}), append(sums.Float, make([]float32, 100)...)
			}
			if err := cl.Contribute(t.Context(), 1, 1, 1, 1, []ps.Split{0}, []PartitionSums{{Sums: sums}}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(asked, test.want) {
				t.Errorf("asked %q, not %q", asked, test.want)
			}
			slices.Sort(rows)
			if got := slices.Compact(rows); len(got) != 5 && name != "counted before" {
				t.Errorf("rows %v were sent", got)
			}
		})
	}
}
