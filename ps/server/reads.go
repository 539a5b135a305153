package server

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// answerBytes bounds the memory of rows in answers, unless they are sent from where they are stored. Further answers wait for earlier ones
// to be read, or for their connections to time out.
const answerBytes = 128 << 20

// reads answers workers' requests for rows; requests whose clock has not been reached wait.
//
// Locks: it has none. Only the semaphore ever changes, and no lock is held while waiting for it.
type reads struct {
	places  *places
	lends   int                 // the width of the widest table whose rows View returns; 0 = none
	answers *semaphore.Weighted // bytes of rows in answers in progress
}

func newReads(p *places) *reads {
	return &reads{places: p, lends: widestView(p.schema), answers: semaphore.NewWeighted(answerBytes)}
}

// read returns rows once all are fresh enough. No memory is reserved for them while it waits.
func (r *reads) read(ctx context.Context, generation ps.Generation, m *wire.Read) wire.Message {
	total, refusal := r.check(m)
	if refusal != nil {
		return refusal
	}
	room := 4 * int64(total)
	for {
		if ctx == noWait {
			if !r.answers.TryAcquire(room) {
				return mustWait
			}
		} else {
			if refusal := r.await(ctx, generation, m); refusal != nil {
				return refusal
			}
			if rows := r.place(generation, m); rows != nil {
				return rows
			}
			if ctx.Err() != nil || r.answers.Acquire(ctx, room) != nil {
				return &wire.Error{Code: wire.Retry, Text: "the request was given up"}
			}
		}
		rows := wire.NewRows(total)
		rows.Hold(r.answers, room)
		refusal := r.copyRows(generation, m, rows)
		if refusal == nil {
			r.places.answered(rows.Groups)
			return rows
		}
		rows.Release()
		if refusal != mustWait || ctx == noWait {
			return refusal
		}
	}
}

// await waits until each group can be read, or has moved.
func (r *reads) await(ctx context.Context, generation ps.Generation, m *wire.Read) *wire.Error {
	keys := m.Keys
	for _, g := range m.Groups {
		group := keys[:g.Keys]
		keys = keys[g.Keys:]
		_, refusal := r.places.serveRead(ctx, generation, g.Partition, func(slot *slot) (wire.Code, bool) {
			return wire.OK, slot.readable(m.Clock, group) == nil
		})
		if refusal != nil {
			return refusal
		}
	}
	return nil
}

// place copies the rows to where a caller in this process wants them. Nil: it does not say where, or not all rows are here now.
func (r *reads) place(generation ps.Generation, m *wire.Read) *wire.Rows {
	if m.Into == nil {
		return nil
	}
	rows := &wire.Rows{Placed: true, Stamps: make([]ps.Stamp, len(m.Groups))}
	into, keys := slices.Clone(m.Into), m.Keys
	for i, g := range m.Groups {
		group := keys[:g.Keys]
		keys = keys[g.Keys:]
		status, refusal := r.places.serveRead(noWait, generation, g.Partition, func(slot *slot) (wire.Code, bool) {
			shard := slot.readable(m.Clock, group)
			if shard == nil {
				return 0, true
			}
			for _, k := range group {
				if len(into[0]) == 0 {
					into = into[1:]
				}
				cells := r.cells(k, m.Stored)
				copyRow(shard, k, m.Stored, into[0][:cells])
				into[0] = into[0][cells:]
			}
			rows.Stamps[i] = shard.Stamp(m.Incarnation)
			return wire.OK, false
		})
		if refusal != nil || status.Code != wire.OK {
			return nil
		}
		rows.Groups = append(rows.Groups, status)
	}
	r.places.answered(rows.Groups)
	return rows
}

// cells returns the width of a row in an answer.
func (r *reads) cells(k ps.Key, stored bool) int {
	if stored {
		return r.places.schema.Tables[k.Table].Width()
	}
	return r.places.schema.Cols(k)
}

func copyRow(shard *ps.Shard, k ps.Key, stored bool, to []float32) {
	if stored {
		shard.Stored(k, to)
		return
	}
	shard.Read(k, to)
}

// copyRows copies the rows. If one is missing, it returns mustWait.
func (r *reads) copyRows(generation ps.Generation, m *wire.Read, rows *wire.Rows) *wire.Error {
	rows.Groups = make([]wire.PartitionStatus, 0, len(m.Groups))
	rows.Stamps = make([]ps.Stamp, len(m.Groups))
	keys, filled := m.Keys, 0
	for i, g := range m.Groups {
		group := keys[:g.Keys]
		keys = keys[g.Keys:]
		status, refusal := r.places.serveRead(noWait, generation, g.Partition, func(slot *slot) (wire.Code, bool) {
			shard := slot.readable(m.Clock, group)
			if shard == nil {
				return 0, true
			}
			for _, k := range group {
				filled = r.readRow(shard, k, m.Stored, rows.Values, filled)
			}
			rows.Stamps[i] = shard.Stamp(m.Incarnation)
			return wire.OK, false
		})
		if refusal != nil {
			return refusal
		}
		rows.Groups = append(rows.Groups, status)
	}
	rows.Values = rows.Values[:filled]
	return nil
}

// readRow copies a row in transit form into values from filled on, and returns the new filled.
func (r *reads) readRow(shard *ps.Shard, k ps.Key, stored bool, values []float32, filled int) int {
	cells := r.cells(k, stored)
	if !r.places.schema.Tables[k.Table].Sparse {
		copyRow(shard, k, stored, values[filled:filled+cells])
		return filled + cells
	}
	row := make([]float32, cells)
	copyRow(shard, k, stored, row)
	return len(r.places.schema.AppendRow(values[:filled], k, row))
}

// check returns the maximum number of values that a request needs.
func (r *reads) check(m *wire.Read) (values int, refusal *wire.Error) {
	keys := m.Keys
	if len(m.Groups) > len(r.places.slots) {
		return 0, &wire.Error{Code: wire.Invalid, Text: fmt.Sprintf("%d groups of %d partitions", len(m.Groups), len(r.places.slots))}
	}
	for _, g := range m.Groups {
		if g.Keys < 0 || g.Keys > len(keys) {
			return 0, &wire.Error{Code: wire.Invalid, Text: "groups of more keys than there are"}
		}
		n, err := r.places.schema.CheckKeys(g.Partition, keys[:g.Keys])
		if err != nil {
			return 0, &wire.Error{Code: wire.Invalid, Text: err.Error()}
		}
		values += n
		keys = keys[g.Keys:]
	}
	if len(keys) > 0 || values > wire.MaxBody/4-1024 {
		return 0, &wire.Error{Code: wire.Invalid, Text: "keys without a group, or more values than fit a frame"}
	}
	return values, nil
}
