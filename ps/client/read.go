package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// Rows are the result of Read: the rows in the order of the keys, concatenated in Values. Another Read
// reuses the memory.
type Rows struct {
	Keys   []ps.Key
	Values []float32
	Stamps []ps.Stamp // Index: Partition; which work its rows include
	starts []int      // Index: as Keys, plus one at the end
}

// At returns the row of Keys[i]. Changing it changes Values.
func (r *Rows) At(i int) []float32 { return r.Values[r.starts[i]:r.starts[i+1]:r.starts[i+1]] }

// reset makes room for the rows of keys.
func (r *Rows) reset(schema *ps.Schema, keys []ps.Key, stored bool) error {
	r.Keys = append(r.Keys[:0], keys...)
	r.Stamps = slices.Grow(r.Stamps[:0], schema.Partitions)[:schema.Partitions]
	clear(r.Stamps)
	r.starts = append(r.starts[:0], 0)
	total := 0
	for _, k := range keys {
		if int(k.Table) >= len(schema.Tables) || uint64(k.Row) >= schema.Tables[k.Table].Rows {
			return fmt.Errorf("%w: there is no row %d of table %d", ps.ErrInvalid, k.Row, k.Table)
		}
		if stored {
			total += schema.Tables[k.Table].Width()
		} else {
			total += schema.Cols(k)
		}
		r.starts = append(r.starts, total)
	}
	r.Values = slices.Grow(r.Values[:0], total)[:total]
	return nil
}

// layout groups keys by partition.
type layout struct {
	owners     []server
	partition  []ps.Partition // by key
	begins     []int          // Index: Partition, plus one at the end: where its keys begin in order
	order      []int          // indices of keys, by partition
	partitions []ps.Partition // still to be read
	left       []bool         // Index: Partition; the same as a set
	torn       []bool         // Index: Partition; its pieces include different work, and it must be read again
	keys       []ps.Key       // for partitions, in their order
	keyBegins  []int          // Index: Partition; where its keys begin in keys
}

func (l *layout) group(schema *ps.Schema, keys []ps.Key) {
	n := schema.Partitions
	l.partition, l.partitions, l.order = l.partition[:0], l.partitions[:0], slices.Grow(l.order[:0], len(keys))[:len(keys)]
	l.begins = slices.Grow(l.begins[:0], n+1)[:n+1]
	l.keyBegins = slices.Grow(l.keyBegins[:0], n)[:n]
	l.left = slices.Grow(l.left[:0], n)[:n]
	l.torn = slices.Grow(l.torn[:0], n)[:n]
	clear(l.begins)
	for _, k := range keys {
		p := schema.PartitionOf(k)
		l.partition = append(l.partition, p)
		l.begins[p+1]++
	}
	for p := range n {
		l.left[p] = l.begins[p+1] > 0
		l.begins[p+1] += l.begins[p]
		l.keyBegins[p] = l.begins[p] // temporarily: the next free place in order
	}
	for i, p := range l.partition {
		l.order[l.keyBegins[p]] = i
		l.keyBegins[p]++
	}
}

// next lists what is still to be read, and reports whether there is any.
func (l *layout) next() bool {
	l.partitions = l.partitions[:0]
	for p, left := range l.left {
		if left {
			l.partitions = append(l.partitions, ps.Partition(p))
		}
	}
	return len(l.partitions) > 0
}

// of returns the indices of a partition's keys.
func (l *layout) of(p ps.Partition) []int { return l.order[l.begins[p]:l.begins[p+1]] }

// gather orders the keys by partition, so that each server's are contiguous.
func (l *layout) gather(keys []ps.Key) {
	l.keys = l.keys[:0]
	for _, p := range l.partitions {
		l.keyBegins[p] = len(l.keys)
		for _, i := range l.of(p) {
			l.keys = append(l.keys, keys[i])
		}
	}
}

// into returns the memory for a server's rows, in the order of its answer, if that is worth it: if rows are dense and
// not in many short pieces.
func (l *layout) into(c *Client, spans []span, dst *Rows, keys int) [][]float32 {
	if len(dst.Values) < placeCells {
		return nil
	}
	most := min(len(dst.Values)/placePiece, keys)
	pieces := make([][]float32, 0, most)
	next := -1
	for _, sp := range spans {
		for _, i := range l.of(sp.partition)[sp.from:sp.to] {
			if c.schema.Tables[dst.Keys[i].Table].Sparse {
				return nil
			}
			row := dst.At(i)
			switch {
			case i == next:
				last := &pieces[len(pieces)-1]
				*last = (*last)[:len(*last)+len(row)]
			case len(pieces) == most:
				return nil
			default:
				pieces = append(pieces, dst.Values[dst.starts[i]:dst.starts[i+1]])
			}
			next = i + 1
		}
	}
	return pieces
}

const (
	// placeCells and placePiece are the least numbers of cells, in total and per piece of memory, for which values are
	// read to their destination; fewer are cheaper to copy.
	placeCells = 8 << 10
	placePiece = 128
)

// Read reads rows as work of a clock may see them, into dst: one message for each server that has some. It
// waits until they are fresh enough, across moves and failures, until ctx is done or the generation has
// ended (ErrStale).
func (c *Client) Read(ctx context.Context, generation ps.Generation, clock ps.Clock, keys []ps.Key, dst *Rows) error {
	return c.read(ctx, generation, clock, keys, false, dst)
}

// read is Read or, for whole rows in stored form, reads the folded state.
func (c *Client) read(
	ctx context.Context, generation ps.Generation, clock ps.Clock, keys []ps.Key, stored bool, dst *Rows,
) error {
	if err := dst.reset(&c.schema, keys, stored); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	l := c.layouts.Get().(*layout)
	defer c.layouts.Put(l)
	l.group(&c.schema, keys)
	var pace attempts
	for l.next() {
		v, err := c.look(ctx, generation, l.owners)
		if err != nil {
			return fmt.Errorf("read for clock %d: %w", clock, err)
		}
		l.owners = v.owners
		outcome, err := c.round(v, l.partitions, func() { l.gather(keys) }, func(b batch) (outcome, error) {
			return c.readBatch(ctx, generation, clock, stored, l, b, dst)
		})
		if err != nil {
			return fmt.Errorf("read for clock %d: %w", clock, err)
		}
		pace.next(ctx, v, outcome)
	}
	return nil
}

// span is a piece of a partition's keys in one message.
type span struct {
	partition ps.Partition
	from, to  int // indices into layout.of
}

// spanBytes estimates the size of a partition's part of an answer without its rows.
const spanBytes = 40

// spans appends the contents of one message: whole partitions that fit, or a piece of one. It starts after from.
func (l *layout) spans(c *Client, stored bool, keys []ps.Key, partitions []ps.Partition, from int, to []span) []span {
	room := wire.Piece(c.cfg.MaxBody)
	for i, p := range partitions {
		indices, begin := l.of(p), 0
		if i == 0 {
			begin = from
		}
		end := begin
		left := room - spanBytes
		for ; end < len(indices); end++ {
			k := keys[indices[end]]
			t := &c.schema.Tables[k.Table]
			cells := t.Cols
			if stored {
				cells = t.Width()
			}
			if left -= 8 + 4*(cells+1); left < 0 && (i > 0 || end > begin) {
				break
			}
		}
		if end < len(indices) && i > 0 { // the next message starts with it
			return to
		}
		to = append(to, span{p, begin, end})
		if room = left; end < len(indices) {
			return to
		}
	}
	return to
}

// readBatch requests a server's rows in as many messages as needed. A partition that needs several is read
// once all are answered and include the same of the reader's own work: between two messages some may have
// been committed.
func (c *Client) readBatch(
	ctx context.Context, generation ps.Generation, clock ps.Clock, stored bool, l *layout, b batch, dst *Rows,
) (outcome, error) {
	worst, from := progress, 0
	var spans []span
	for left := b.partitions; len(left) > 0; {
		spans = l.spans(c, stored, dst.Keys, left, from, spans[:0])
		o, err := c.readSpans(ctx, generation, clock, stored, l, batch{to: b.to, partitions: left[:len(spans)], changed: b.changed}, spans, dst)
		worst = max(worst, o)
		if err != nil || o == setback {
			return worst, err
		}
		last := spans[len(spans)-1]
		left, from = left[len(spans):], 0
		if last.to < len(l.of(last.partition)) && o == progress {
			left, from = b.partitions[len(b.partitions)-len(left)-1:], last.to
		}
	}
	return worst, nil
}

// readSpans sends one message.
func (c *Client) readSpans(
	ctx context.Context, generation ps.Generation, clock ps.Clock, stored bool, l *layout, b batch, spans []span, dst *Rows,
) (outcome, error) {
	request := &wire.Read{Stored: stored, Clock: clock, Incarnation: c.cfg.Incarnation, Groups: make([]wire.KeyGroup, len(spans))}
	total := 0
	for i, sp := range spans {
		request.Groups[i] = wire.KeyGroup{Partition: sp.partition, Keys: sp.to - sp.from}
		total += sp.to - sp.from
	}
	begin := l.keyBegins[spans[0].partition] + spans[0].from
	request.Keys = l.keys[begin : begin+total]
	request.Into = l.into(c, spans, dst, total)
	answer, err := c.call(ctx, generation, b.to, b.partitions, request)
	if err != nil {
		return c.failure(ctx, b.to, err)
	}
	rows, ok := answer.(*wire.Rows)
	if !ok {
		return setback, unexpected(b.to, answer)
	}
	defer rows.Release()
	if len(rows.Stamps) != len(spans) {
		return setback, fmt.Errorf("%w: server %s sent %d stamps for %d partitions", wire.ErrInternal, b.to.id, len(rows.Stamps), len(spans))
	}
	if rows.Placed {
		for i := range spans {
			l.arrived(spans[i], rows.Stamps[i], dst)
		}
		return progress, nil
	}
	values, short, at := rows.Values, false, 0
	o, err := c.settle(b, rows.Groups, func(p ps.Partition, _ wire.Code) {
		for spans[at].partition != p {
			at++
		}
		for _, i := range l.of(p)[spans[at].from:spans[at].to] {
			var ok bool
			if values, ok = c.schema.TakeRow(dst.Keys[i], values, dst.At(i)); !ok {
				short = true
				return
			}
		}
		l.arrived(spans[at], rows.Stamps[at], dst)
	})
	if err == nil && (short || len(values) > 0) {
		return setback, fmt.Errorf("%w: server %s sent other than the values asked for", wire.ErrInternal, b.to.id)
	}
	return o, err
}

// arrived records the arrival of a span's rows. A partition is complete with the last of its spans, if all their rows
// include the same of the reader's own work; they then include all work through the lowest of their clocks.
func (l *layout) arrived(sp span, stamp ps.Stamp, dst *Rows) {
	p := sp.partition
	switch have := &dst.Stamps[p]; {
	case sp.from == 0:
		*have, l.torn[p] = stamp, false
	case have.Own != stamp.Own:
		l.torn[p] = true
	default:
		have.Folded = min(have.Folded, stamp.Folded)
	}
	if sp.to == len(l.of(p)) {
		l.left[p] = l.torn[p]
	}
}

// tableChunk is about how many values ReadTable requests at a time.
const tableChunk = 1 << 18

// ReadTable passes on every row of a table in order, touched or not, as of a folded clock. It is for the end of
// training, or a pause in it: otherwise later rows may be newer than earlier ones. Rows of a table with a rule are
// whole, with the rule's own state (ps.Table.Seen gives their columns). Each must not keep the slice.
func (c *Client) ReadTable(
	ctx context.Context, generation ps.Generation, folded ps.Clock, table ps.TableID,
	each func(row ps.RowID, values []float32) error,
) error {
	if int(table) >= len(c.schema.Tables) {
		return fmt.Errorf("read table %d: %w", table, ps.ErrInvalid)
	}
	t := &c.schema.Tables[table]
	atOnce := uint64(max(tableChunk/max(t.Width(), 1), 1))
	var keys []ps.Key
	var rows Rows
	for row := uint64(0); row < t.Rows; {
		keys = keys[:0]
		for ; row < t.Rows && uint64(len(keys)) < atOnce; row++ {
			keys = append(keys, ps.Key{Table: table, Row: ps.RowID(row)})
		}
		stored := t.Rule.Name != ps.Add
		if err := c.read(ctx, generation, folded+c.schema.Bound()+1, keys, stored, &rows); err != nil {
			return fmt.Errorf("read table %s: %w", t.Name, err)
		}
		for i, k := range rows.Keys {
			if err := each(k.Row, rows.At(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
