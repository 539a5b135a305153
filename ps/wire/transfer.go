package wire

import (
	"hash/crc32"

	"github.com/tierml/tierml/ps"
)

// Messages between servers: cuts on their way to a backup, and moves.

// CutReady notifies a backup that partitions have passed a cut, which it may pull now.
type CutReady struct {
	From       ps.ServerID
	Cut        ps.Clock
	Partitions []ps.Partition
}

func (*CutReady) Type() Type { return typeCutReady }

func (m *CutReady) encode(e *encoder) {
	e.string(string(m.From))
	e.u64(uint64(m.Cut))
	e.partitions(m.Partitions)
}

func (m *CutReady) decode(d *decoder) {
	m.From = ps.ServerID(d.string())
	m.Cut = d.clock()
	m.Partitions = d.partitions()
}

// PullCut requests a piece of a delivery. The answer is Delivery with at least one row from row From on and about MaxBytes in total, or
// DeliveryEnd if none are left.
type PullCut struct {
	Cut       ps.Clock
	Partition ps.Partition
	Full      bool
	From      uint64
	MaxBytes  uint64
	memory    *Buffer
}

// Into offers memory of a former delivery for the answer, and returns the request, which uses it up.
func (m *PullCut) Into(memory *Buffer) *PullCut {
	m.memory = memory
	return m
}

func (*PullCut) Type() Type { return typePullCut }

func (m *PullCut) encode(e *encoder) {
	e.u64(uint64(m.Cut))
	e.u64(uint64(m.Partition))
	e.bool(m.Full)
	e.u64(m.From)
	e.u64(m.MaxBytes)
}

func (m *PullCut) decode(d *decoder) {
	m.Cut = d.clock()
	m.Partition = d.partition()
	m.Full = d.bool()
	m.From = d.u64()
	m.MaxBytes = d.u64()
}

// Delivery is a piece of a cut: the rows from row From on.
type Delivery struct {
	Cut, Base ps.Clock
	Full      bool
	From      uint64
	Rows      ps.Block
	buffer    *Buffer
}

// NewDelivery returns a piece of about this many bytes whose rows go to pooled memory.
func NewDelivery(bytes int) *Delivery {
	b := NewBuffer(min(bytes, PieceBytes))
	return &Delivery{Rows: ps.Block{Values: b.Floats()[:0]}, buffer: b}
}

func (*Delivery) Type() Type { return typeDelivery }

// Own returns a piece for a receiver in this process that keeps it, in memory of its own that is no larger than needed.
func (m *Delivery) Own() *Delivery {
	own := *m
	own.buffer, own.Rows.Values = nil, append([]float32(nil), m.Rows.Values...)
	m.Release()
	return &own
}

func (m *Delivery) hold(b *Buffer) { m.buffer = b }

// Memory returns the memory of a received piece, for another pull once its rows are unused. Nil: there is none.
func (m *Delivery) Memory() *Buffer { return m.buffer }

// Release frees the memory of a piece from NewDelivery.
func (m *Delivery) Release() { m.buffer.Release(); m.buffer = nil }

func (m *Delivery) encode(e *encoder) {
	e.u64(uint64(m.Cut))
	e.u64(uint64(m.Base))
	e.bool(m.Full)
	e.u64(m.From)
	e.block(&m.Rows)
}

func (m *Delivery) decode(d *decoder) {
	m.Cut, m.Base = d.clock(), d.clock()
	m.Full = d.bool()
	m.From = d.u64()
	d.block(&m.Rows)
}

// DeliveryEnd is the closing frame of a delivery: the pieces count only if they match it.
type DeliveryEnd struct {
	Cut, Base ps.Clock
	Full      bool
	Rows      uint64
	Sum       Checksum
}

func (*DeliveryEnd) Type() Type { return typeDeliveryEnd }

func (m *DeliveryEnd) encode(e *encoder) {
	e.u64(uint64(m.Cut))
	e.u64(uint64(m.Base))
	e.bool(m.Full)
	e.u64(m.Rows)
	e.u32s(m.Sum.Keys, m.Sum.Values)
}

func (m *DeliveryEnd) decode(d *decoder) {
	m.Cut, m.Base = d.clock(), d.clock()
	m.Full = d.bool()
	m.Rows = d.u64()
	m.Sum.Keys, m.Sum.Values = d.u32s()
}

// Checksum is a running CRC-32C of keys and one of values, as on the wire; it does not depend on the division into pieces.
type Checksum struct{ Keys, Values uint32 }

// Add adds more rows.
func (c *Checksum) Add(rows *ps.Block) {
	var packed [64]uint64
	for keys := rows.Keys; len(keys) > 0; {
		n := min(len(keys), len(packed))
		for i, k := range keys[:n] {
			packed[i] = packKey(k)
		}
		c.Keys = crc32.Update(c.Keys, castagnoli, raw(packed[:n]))
		keys = keys[n:]
	}
	c.Values = crc32.Update(c.Values, castagnoli, raw(rows.Values))
}

// MoveID names one attempt to move a partition.
type MoveID struct {
	From      ps.ServerID
	Version   uint64 // of the route by which that server owns the partition
	Number    uint64 // increases with each attempt of that server
	Partition ps.Partition
}

// After reports whether a move of the same partition, in the same generation, began after another. In a route a partition has one owner,
// which numbers its moves.
func (id MoveID) After(other MoveID) bool {
	return id.Version > other.Version || id.Version == other.Version && id.Number > other.Number
}

func (e *encoder) move(id *MoveID) {
	e.string(string(id.From))
	e.u64(id.Version)
	e.u64(id.Number)
	e.u64(uint64(id.Partition))
}

func (d *decoder) move() MoveID {
	return MoveID{From: ps.ServerID(d.string()), Version: d.u64(), Number: d.u64(), Partition: d.partition()}
}

// MoveRows carries rows to a partition's new owner. Piece 0 begins the move; pieces arrive in order, and a repeated one is acknowledged
// again and has no effect.
type MoveRows struct {
	Move   MoveID
	Piece  uint64
	Rows   ps.Block
	buffer *Buffer
}

func (*MoveRows) Type() Type       { return typeMoveRows }
func (m *MoveRows) hold(b *Buffer) { m.buffer = b }
func (m *MoveRows) Release()       { m.buffer.Release(); m.buffer = nil }

func (m *MoveRows) encode(e *encoder) {
	e.move(&m.Move)
	e.u64(m.Piece)
	e.block(&m.Rows)
}

func (m *MoveRows) decode(d *decoder) {
	m.Move = d.move()
	m.Piece = d.u64()
	d.block(&m.Rows)
}

// MoveFinal ends a move: with its acknowledgement the sender gives the partition up, and with MoveDone or a route that names it the
// receiver is the owner. Pieces is the number of preceding ones. If it is too long for a frame it comes in parts (ps.Final.Cut), in order.
type MoveFinal struct {
	Move   MoveID
	Pieces uint64
	Part   uint64 // the first is 0
	More   bool   // other parts follow
	Final  ps.Final
}

func (*MoveFinal) Type() Type { return typeMoveFinal }

func (m *MoveFinal) encode(e *encoder) {
	e.move(&m.Move)
	e.u64(m.Pieces)
	e.u64(m.Part)
	e.bool(m.More)
	e.final(&m.Final)
}

func (m *MoveFinal) decode(d *decoder) {
	m.Move = d.move()
	m.Pieces = d.u64()
	m.Part = d.u64()
	m.More = d.bool()
	d.final(&m.Final)
}

func (e *encoder) final(f *ps.Final) {
	e.u64(uint64(f.Folded))
	e.u64(uint64(f.Base))
	e.bool(f.Full)
	e.block(&f.Rows)
	e.u64(uint64(len(f.Marks)))
	for _, mark := range f.Marks {
		e.u64(uint64(mark))
	}
	e.u64(uint64(len(f.Pending)))
	for i := range f.Pending {
		p := &f.Pending[i]
		e.u64(uint64(p.Clock))
		e.u64(uint64(p.Committed))
		e.sums(&p.Sums)
	}
	e.u64(uint64(len(f.Staged)))
	for _, c := range f.Staged {
		e.u64(uint64(c.Incarnation))
		e.u64(c.Sequence)
		e.u64(uint64(c.Clock))
		e.splits(c.Splits)
		e.sums(&c.Updates)
	}
	e.u64(uint64(len(f.Settled)))
	for _, t := range f.Settled {
		e.u64(uint64(t.Incarnation))
		e.u64(t.Sequence)
		e.bool(t.Fenced)
	}
	e.u64(uint64(len(f.Dirty)))
	e.keys(f.Dirty)
}

func (d *decoder) final(f *ps.Final) {
	f.Folded, f.Base = d.clock(), d.clock()
	f.Full = d.bool()
	d.block(&f.Rows)
	if n := d.listed(8, ps.MaxSplits); n > 0 {
		f.Marks = make([]ps.Clock, n)
		for i := range f.Marks {
			f.Marks[i] = d.clock()
		}
	}
	if n := d.count(32); n > 0 {
		f.Pending = make([]ps.PendingClock, n)
		for i := range f.Pending {
			p := &f.Pending[i]
			p.Clock = d.clock()
			p.Committed = int(d.clock())
			d.sums(&p.Sums, ps.Whole)
		}
	}
	if n := d.count(48); n > 0 {
		f.Staged = make([]*ps.Contribution, n)
		for i := range f.Staged {
			c := &ps.Contribution{Incarnation: ps.Incarnation(d.u64()), Sequence: d.u64(), Clock: d.clock(), Given: true}
			c.Splits = d.splits()
			d.sums(&c.Updates, ps.Whole)
			f.Staged[i] = c
		}
	}
	if n := d.count(24); n > 0 {
		f.Settled = make([]ps.Settled, n)
		for i := range f.Settled {
			f.Settled[i] = ps.Settled{Incarnation: ps.Incarnation(d.u64()), Sequence: d.u64(), Fenced: d.bool()}
		}
	}
	f.Dirty = d.keys(d.count(8), nil)
}

// MoveCancel says that the sender keeps the partition: the receiver drops what it has of the move.
type MoveCancel struct{ Move MoveID }

func (*MoveCancel) Type() Type          { return typeMoveCancel }
func (m *MoveCancel) encode(e *encoder) { e.move(&m.Move) }
func (m *MoveCancel) decode(d *decoder) { m.Move = d.move() }

// MoveDone says that the sender has the acknowledgement of the last message: the receiver is the owner.
type MoveDone struct{ Move MoveID }

func (*MoveDone) Type() Type          { return typeMoveDone }
func (m *MoveDone) encode(e *encoder) { e.move(&m.Move) }
func (m *MoveDone) decode(d *decoder) { m.Move = d.move() }

// MoveFill sends rows to a new owner that already has the last message and answers reads of received rows. Pieces are numbered from 0. The
// answer is MoveWanted.
type MoveFill MoveRows

func (*MoveFill) Type() Type       { return typeMoveFill }
func (m *MoveFill) hold(b *Buffer) { m.buffer = b }
func (m *MoveFill) Release()       { m.buffer.Release(); m.buffer = nil }

func (m *MoveFill) encode(e *encoder) { (*MoveRows)(m).encode(e) }
func (m *MoveFill) decode(d *decoder) { (*MoveRows)(m).decode(d) }

// MoveWanted lists rows that reads wait for, to be sent next. Waited is the time in microseconds that requests have waited at the new owner
// since the move began.
type MoveWanted struct {
	Waited uint64
	Keys   []ps.Key
}

func (*MoveWanted) Type() Type { return typeMoveWanted }

func (m *MoveWanted) encode(e *encoder) {
	e.u64(m.Waited)
	e.u64(uint64(len(m.Keys)))
	e.keys(m.Keys)
}

func (m *MoveWanted) decode(d *decoder) {
	m.Waited = d.u64()
	m.Keys = d.keys(d.count(8), nil)
}
