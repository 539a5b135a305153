package wire

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/tierml/tierml/ps"
)

// Everything in a body takes a multiple of 8 bytes, so that arrays of numbers are aligned and can be used in place.

// inlineBytes is the size from which an array is sent in place instead of being copied.
const inlineBytes = 8 << 10

// encoder encodes one frame.
type encoder struct {
	small  []byte // header, scalars and short arrays
	large  []segment
	placed int // bytes in large
	err    error
}

// segment is memory that belongs between small[:at] and small[at:].
type segment struct {
	at    int
	bytes []byte
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// encode encodes a message as a frame. The caller releases the encoder, and must not change the message's arrays before that.
func encode(h header, m Message) (*encoder, error) {
	e := encoders.Get().(*encoder)
	e.small = append(e.small[:0], make([]byte, headerSize)...)
	h.kind = m.Type()
	m.encode(e)
	length := len(e.small) - headerSize + e.placed
	if most := longest(h.most); length > most && e.err == nil {
		e.err = refused("a body of %d bytes is longer than %d", length, most)
	}
	if e.err != nil {
		err := e.err
		e.release()
		return nil, err
	}
	h.length = length
	h.put(e.small)
	return e, nil
}

func (e *encoder) release() {
	clear(e.large)
	e.large, e.placed, e.err = e.large[:0], 0, nil
	if cap(e.small) <= 1<<20 {
		encoders.Put(e)
	}
}

// appendTo appends the frame's pieces to a vector, large arrays in place.
func (e *encoder) appendTo(vector [][]byte) [][]byte {
	at := 0
	for _, s := range e.large {
		if at < s.at {
			vector = append(vector, e.small[at:s.at])
		}
		vector = append(vector, s.bytes)
		at = s.at
	}
	if at < len(e.small) {
		vector = append(vector, e.small[at:])
	}
	return vector
}

func (e *encoder) u64(x uint64) { e.small = binary.LittleEndian.AppendUint64(e.small, x) }

func (e *encoder) u32s(a, b uint32) {
	e.small = binary.LittleEndian.AppendUint32(e.small, a)
	e.small = binary.LittleEndian.AppendUint32(e.small, b)
}

func (e *encoder) bool(b bool) {
	if b {
		e.u64(1)
	} else {
		e.u64(0)
	}
}

func (e *encoder) string(s string) {
	e.u64(uint64(len(s)))
	e.small = append(e.small, s...)
	e.pad(len(s))
}

func (e *encoder) bytes(b []byte) {
	e.unpadded(b)
	e.pad(len(b))
}

func (e *encoder) unpadded(b []byte) {
	if len(b) >= inlineBytes {
		e.large = append(e.large, segment{at: len(e.small), bytes: b})
		e.placed += len(b)
	} else {
		e.small = append(e.small, b...)
	}
}

// pad pads to a multiple of 8 after n bytes.
func (e *encoder) pad(n int) {
	for ; n%8 != 0; n++ {
		e.small = append(e.small, 0)
	}
}

// rowBits is the number of bits of a key on the wire for the row; the others are the table.
const rowBits = 48

func packKey(k ps.Key) uint64 { return uint64(k.Table)<<rowBits | uint64(k.Row) }

func unpackKey(x uint64) ps.Key {
	return ps.Key{Table: ps.TableID(x >> rowBits), Row: ps.RowID(x & (1<<rowBits - 1))}
}

func (e *encoder) keys(keys []ps.Key) {
	for _, k := range keys {
		if k.Row >= 1<<rowBits {
			e.err = refused("row %d of table %d is beyond 2^%d", k.Row, k.Table, rowBits)
		}
		e.u64(packKey(k))
	}
}

func (e *encoder) block(b *ps.Block) {
	e.u32s(uint32(len(b.Keys)), uint32(len(b.Values)))
	e.keys(b.Keys)
	e.bytes(raw(b.Values))
}

// sizes is the header of sums. They are fixed-point or floating; the count of the other kind is 0.
func (e *encoder) sizes(u *ps.Sums) {
	e.u64(uint64(len(u.Keys)))
	e.u32s(uint32(len(u.Fixed)), uint32(len(u.Float)))
	e.keys(u.Keys)
}

func (e *encoder) sums(u *ps.Sums) {
	e.sizes(u)
	e.bytes(raw(u.Fixed))
	e.bytes(raw(u.Float))
}

func (e *encoder) splits(s []ps.Split) {
	e.u64(uint64(len(s)))
	for _, split := range s {
		e.small = binary.LittleEndian.AppendUint32(e.small, uint32(split))
	}
	e.pad(4 * len(s))
}

func (e *encoder) partitions(p []ps.Partition) {
	e.u64(uint64(len(p)))
	for _, partition := range p {
		e.small = binary.LittleEndian.AppendUint32(e.small, uint32(partition))
	}
	e.pad(4 * len(p))
}

// decoder decodes one body. The first error sticks; after it everything reads as zero. Results may share the body's memory.
type decoder struct {
	rest []byte
	bad  bool
	// keyMemory is where the keys of sums are stored consecutively, as long as there is room. Nil: each in memory of their own.
	keyMemory []ps.Key
}

// take returns the next n bytes, which are present together with their padding.
func (d *decoder) take(n uint64) []byte {
	padded := (n + 7) &^ 7
	if d.bad || n > uint64(len(d.rest)) || padded > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	b := d.rest[:n:n]
	for _, zero := range d.rest[n:padded] {
		if zero != 0 { // one encoding for each message
			d.bad = true
		}
	}
	d.rest = d.rest[padded:]
	return b
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) u32s() (a, b uint32) {
	x := d.u64()
	return uint32(x), uint32(x >> 32)
}

func (d *decoder) bool() bool {
	x := d.u64()
	if x > 1 {
		d.bad = true
	}
	return x == 1
}

func (d *decoder) clock() ps.Clock {
	x := d.u64()
	if x > math.MaxInt64 {
		d.bad = true
		return 0
	}
	return ps.Clock(x)
}

// longestString bounds names, addresses and error messages, in bytes.
const longestString = 4 << 10

func (d *decoder) string() string {
	n := d.u64()
	if n > longestString {
		d.bad = true
		return ""
	}
	return string(d.take(n))
}

// listed is count for a list with at most this many elements, whatever the body could hold.
func (d *decoder) listed(size, most int) int {
	n := d.count(size)
	if n > most {
		d.bad = true
		return 0
	}
	return n
}

// count reads the number of following elements of at least size bytes. It never exceeds what the body can hold, so memory for them may be
// allocated.
func (d *decoder) count(size int) int {
	n := d.u64()
	if n > uint64(len(d.rest)/size) {
		d.bad = true
		return 0
	}
	return int(n)
}

func array[T number](d *decoder, n uint64, size uint64) []T { return view[T](d.take(n * size)) }

// keys reads n keys into memory of their own, reusing into.
func (d *decoder) keys(n int, into []ps.Key) []ps.Key {
	packed := array[uint64](d, uint64(n), 8)
	if len(packed) == 0 {
		return into[:0]
	}
	if cap(into) < len(packed) {
		into = make([]ps.Key, len(packed))
	}
	into = into[:len(packed)]
	for i, x := range packed {
		into[i] = unpackKey(x)
	}
	return into
}

// roomForKeys takes room for n keys from keyMemory. If that is too short, it allocates enough for the next message; memory taken before
// stays as it is.
func (d *decoder) roomForKeys(n int) []ps.Key {
	if d.keyMemory == nil || n == 0 {
		return nil
	}
	at := len(d.keyMemory)
	if at+n > cap(d.keyMemory) {
		d.keyMemory, at = make([]ps.Key, 0, max(n, min(2*(at+n), len(d.rest)/8))), 0
	}
	d.keyMemory = d.keyMemory[:at+n]
	return d.keyMemory[at : at : at+n]
}

func (d *decoder) block(b *ps.Block) {
	keys, values := d.u32s()
	b.Keys = d.keys(int(keys), nil)
	b.Values = array[float32](d, uint64(values), 4)
}

func (d *decoder) sums(u *ps.Sums, by ps.Transport) {
	keys := d.u64()
	fixed, floats := d.u32s()
	if keys > uint64(len(d.rest)/8) {
		d.bad = true
		return
	}
	u.Keys = d.keys(int(keys), d.roomForKeys(int(keys)))
	if by != ps.Whole {
		size, ok := by.PackedBytes(len(u.Keys), int(fixed)+int(floats))
		if packed := d.take(uint64(size)); !ok || packed == nil || !by.Unpack(packed, u, int(fixed), int(floats)) {
			d.bad = true
		}
		return
	}
	u.Fixed = array[int64](d, uint64(fixed), 8)
	u.Float = array[float32](d, uint64(floats), 4)
}

func (d *decoder) splits() []ps.Split {
	n := d.listed(4, ps.MaxSplits)
	return convert[ps.Split](array[uint32](d, uint64(n), 4))
}

func (d *decoder) partitions() []ps.Partition {
	n := d.listed(4, ps.MaxPartitions)
	return convert[ps.Partition](array[uint32](d, uint64(n), 4))
}

func convert[T ~uint32](from []uint32) []T {
	if len(from) == 0 {
		return nil
	}
	to := make([]T, len(from))
	for i, x := range from {
		to[i] = T(x)
	}
	return to
}
