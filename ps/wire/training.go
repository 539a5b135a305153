package wire

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/tierml/tierml/ps"
)

// Messages between workers and owners.

// KeyGroup says that the next Keys keys belong to a partition.
type KeyGroup struct {
	Partition ps.Partition
	Keys      int
}

// Read requests rows as visible to a clock's work; the answer, Rows, waits until they are fresh enough.
type Read struct {
	Stored      bool // whole rows of the folded state, with the state of their rules (ps.Shard.Stored)
	Clock       ps.Clock
	Incarnation ps.Incarnation // the reader: the stamps say which of its contributions the rows include
	Groups      []KeyGroup
	Keys        []ps.Key
	// Into, for a caller that requested only dense rows, is the destination of the values if all groups are ok: pieces of memory to fill in
	// order. They are used until the answer, which is Placed then, or the call's error.
	Into   [][]float32
	pooled bool
}

var reads = sync.Pool{New: func() any { return new(Read) }}

func newRead(stored bool) *Read {
	m := reads.Get().(*Read)
	m.Stored = stored
	m.pooled = true
	return m
}

// Release frees a Read that came over the network.
func (m *Read) Release() {
	if m.pooled {
		m.pooled = false
		reads.Put(m)
	}
}

func (m *Read) Type() Type {
	if m.Stored {
		return typeReadStored
	}
	return typeRead
}

func (m *Read) encode(e *encoder) {
	e.u64(uint64(m.Clock))
	e.u64(uint64(m.Incarnation))
	e.u64(uint64(len(m.Groups)))
	for _, g := range m.Groups {
		e.u32s(uint32(g.Partition), uint32(g.Keys))
	}
	e.keys(m.Keys)
}

func (m *Read) decode(d *decoder) {
	m.Clock = d.clock()
	m.Incarnation = ps.Incarnation(d.u64())
	m.Groups = m.Groups[:0]
	total := 0
	for range d.listed(8, ps.MaxPartitions) {
		partition, keys := d.u32s()
		m.Groups = append(m.Groups, KeyGroup{ps.Partition(partition), int(keys)})
		total += int(keys)
		if total > len(d.rest)/8 {
			d.bad = true
			return
		}
	}
	m.Keys = d.keys(total, m.Keys)
}

// Rows answers Read: the outcome for each group, and the values of those that are OK, one row after another.
type Rows struct {
	Groups []PartitionStatus
	Stamps []ps.Stamp // Index: as Groups; zero for those that are not OK
	Values []float32
	Placed bool // all groups are OK and the values are in Read.Into
	buffer *Buffer
	lent   lent
	room   *semaphore.Weighted // reserved until Release
	held   int64
}

// lent are values sent from where they are stored.
type lent struct {
	pieces [][]float32
	unlock func() // nil if nothing is lent
}

// NewRows returns an answer with room for a number of values in pooled memory.
func NewRows(values int) *Rows {
	b := NewBuffer(4 * values)
	return &Rows{Values: b.Floats(), buffer: b}
}

// Hold makes Release return the values' reservation of a bounded room.
func (m *Rows) Hold(room *semaphore.Weighted, held int64) { m.room, m.held = room, held }

// LendRows returns an answer, for HandleNow, whose values are sent from where they are stored. That memory is locked until unlock is
// called, from any goroutine: about as soon as if the values had been copied.
func LendRows(groups []PartitionStatus, stamps []ps.Stamp, pieces [][]float32, unlock func()) *Rows {
	return &Rows{Groups: groups, Stamps: stamps, lent: lent{pieces: pieces, unlock: unlock}}
}

func (*Rows) Type() Type       { return typeRows }
func (m *Rows) hold(b *Buffer) { m.buffer = b }

// Release gives the memory back.
func (m *Rows) Release() {
	if m.lent.unlock != nil {
		m.lent.unlock()
		m.lent = lent{}
	}
	m.buffer.Release()
	m.buffer = nil
	if m.room != nil {
		m.room.Release(m.held)
		m.room = nil
	}
}

func (m *Rows) encode(e *encoder) {
	e.statuses(m.Groups)
	e.stamps(m.Stamps, len(m.Groups))
	if m.lent.unlock == nil {
		e.u64(uint64(len(m.Values)))
		e.bytes(raw(m.Values))
		return
	}
	total := 0
	for _, piece := range m.lent.pieces {
		total += len(piece)
	}
	e.u64(uint64(total))
	for _, piece := range m.lent.pieces {
		e.unpadded(raw(piece))
	}
	e.pad(4 * total)
}

func (m *Rows) decode(d *decoder) {
	m.Groups = d.statuses()
	m.Stamps = d.stamps(len(m.Groups))
	m.Values = array[float32](d, uint64(d.count(4)), 4)
}

// stampBytes is the length of a stamp in a body.
const stampBytes = 16

// stamps writes the stamps of n groups.
func (e *encoder) stamps(stamps []ps.Stamp, n int) {
	for _, s := range stamps {
		e.u64(uint64(s.Folded))
		e.u64(s.Own)
	}
	if len(stamps) != n {
		e.err = refused("%d stamps for %d groups", len(stamps), n)
	}
}

// stamps reads the stamps of n groups.
func (d *decoder) stamps(n int) []ps.Stamp {
	if n == 0 || n > len(d.rest)/stampBytes {
		d.bad = d.bad || n > 0
		return nil
	}
	stamps := make([]ps.Stamp, n)
	for i := range stamps {
		stamps[i] = ps.Stamp{Folded: d.clock(), Own: d.u64()}
	}
	return stamps
}

// PartitionSums holds all or a piece of a contribution's updates of one partition (ps.Shard.StagePiece).
type PartitionSums struct {
	Partition ps.Partition
	Piece     uint32 // the first is 0
	More      bool   // other pieces follow
	// Transport packs the sums, if it can carry them.
	Transport ps.Transport
	Sums      ps.Sums
}

// Stage gives owners their parts of a contribution, to hold until Commit.
type Stage struct {
	Incarnation ps.Incarnation
	Sequence    uint64
	Clock       ps.Clock
	Splits      []ps.Split // ascending
	Partitions  []PartitionSums
	buffer      *Buffer
}

func (*Stage) Type() Type       { return typeStage }
func (m *Stage) hold(b *Buffer) { m.buffer = b }

// Share returns a function to be called once for each of Partitions, when its sums are unused: the last call frees their memory. The garbage
// collector frees it if a call never comes.
func (m *Stage) Share() func() {
	buffer, users := m.buffer, new(atomic.Int64)
	users.Store(int64(len(m.Partitions)))
	return func() {
		if users.Add(-1) == 0 {
			buffer.Release()
		}
	}
}

func (m *Stage) encode(e *encoder) {
	e.u64(uint64(m.Incarnation))
	e.u64(m.Sequence)
	e.u64(uint64(m.Clock))
	e.splits(m.Splits)
	e.u64(uint64(len(m.Partitions)))
	for i := range m.Partitions {
		p := &m.Partitions[i]
		e.u64(uint64(p.Partition))
		packed, ok := p.Transport.Pack(&p.Sums)
		if !ok {
			e.u64(uint64(p.Piece))
			e.bool(p.More)
			e.sums(&p.Sums)
			continue
		}
		e.u32s(p.Piece, uint32(p.Transport))
		e.bool(p.More)
		e.sizes(&p.Sums)
		e.bytes(packed)
	}
}

func (m *Stage) decode(d *decoder) {
	m.Incarnation = ps.Incarnation(d.u64())
	m.Sequence = d.u64()
	m.Clock = d.clock()
	m.Splits = d.splits()
	n := d.listed(40, ps.MaxPartitions)
	if n == 0 {
		m.Partitions = nil
		return
	}
	if cap(m.Partitions) < n {
		m.Partitions = make([]PartitionSums, n)
	}
	m.Partitions = m.Partitions[:n]
	for i := range m.Partitions {
		p := &m.Partitions[i]
		p.Partition = d.partition()
		piece, transport := d.u32s()
		p.Piece, p.Transport = piece, ps.Transport(transport)
		p.More = d.bool()
		d.sums(&p.Sums, p.Transport)
	}
}

func (d *decoder) partition() ps.Partition {
	return ps.Partition(d.below(1 << 32))
}

// below reads a number that is less than a limit.
func (d *decoder) below(limit uint64) uint64 {
	x := d.u64()
	if x >= limit {
		d.bad = true
	}
	return x
}

// Clone returns a copy that shares no memory with updates, for a receiver in the same process that keeps it.
func (m *Stage) Clone() *Stage {
	c := *m
	c.Splits = append([]ps.Split(nil), m.Splits...)
	c.Partitions = make([]PartitionSums, len(m.Partitions))
	words := 0
	for i := range m.Partitions {
		u := &m.Partitions[i].Sums
		words += len(u.Fixed) + (len(u.Float)+1)/2
	}
	c.buffer = newExactBuffer(8 * words)
	rest := c.buffer.Bytes()
	for i, p := range m.Partitions {
		u := ps.Sums{Keys: append([]ps.Key(nil), p.Sums.Keys...)}
		u.Fixed, rest = cloned(p.Sums.Fixed, rest)
		u.Float, rest = cloned(p.Sums.Float, rest)
		c.Partitions[i] = PartitionSums{p.Partition, p.Piece, p.More, p.Transport, u}
	}
	return &c
}

// cloned copies numbers to the beginning of memory, and returns them and the rest, which begins at a multiple of 8.
func cloned[T number](v []T, memory []byte) ([]T, []byte) {
	from := raw(v)
	if len(from) == 0 {
		return nil, memory
	}
	copy(memory, from)
	end := (len(from) + 7) &^ 7
	return view[T](memory[:len(from):len(from)]), memory[end:]
}

// Contribute sends a whole contribution to its only owner: it stages all parts, and if all are staged commits them at once. The answer is
// Committed for parts that count and OK for those that are staged and wait for Commit, because another part is not.
type Contribute struct {
	Stage
	keys   []ps.Key // memory of Partitions' keys
	pooled bool
}

var contributes = sync.Pool{New: func() any { return new(Contribute) }}

func newContribute() *Contribute {
	m := contributes.Get().(*Contribute)
	m.pooled = true
	return m
}

// keptKeys bounds the memory for keys that a released message keeps.
const keptKeys = 1 << 18

func (*Contribute) Type() Type { return typeContribute }

func (m *Contribute) decode(d *decoder) {
	d.keyMemory = m.keys[:0]
	if d.keyMemory == nil {
		d.keyMemory = make([]ps.Key, 0, 64)
	}
	m.Stage.decode(d)
	m.keys = d.keyMemory
}

// Release may be called by a receiver that has kept nothing of it.
func (m *Contribute) Release() {
	m.buffer.Release()
	m.buffer = nil
	if !m.pooled {
		return
	}
	m.pooled = false
	if cap(m.keys) > keptKeys {
		m.keys = nil
	}
	clear(m.Partitions)
	contributes.Put(m)
}

// Commit makes staged contributions count.
type Commit struct {
	Incarnation ps.Incarnation
	Sequence    uint64
	Partitions  []ps.Partition
}

func (*Commit) Type() Type { return typeCommit }

func (m *Commit) encode(e *encoder) {
	e.u64(uint64(m.Incarnation))
	e.u64(m.Sequence)
	e.partitions(m.Partitions)
}

func (m *Commit) decode(d *decoder) {
	m.Incarnation = ps.Incarnation(d.u64())
	m.Sequence = d.u64()
	m.Partitions = d.partitions()
}
