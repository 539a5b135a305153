package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// Buffer is memory that begins at a multiple of 8, so that numbers in it can be used in place.
type Buffer struct {
	words []uint64
	size  int // bytes
}

// Pooled sizes are powers of two and three quarters of those, up to the longest body. Smaller pieces are cheap to allocate.
const (
	minPooledShift = 9  // 512 bytes
	maxPooledShift = 26 // 64 MiB
)

var pools [2 * (maxPooledShift + 1)]sync.Pool

// Large buffers outlive garbage collections, which empty a sync.Pool: a server's heap is collected after little garbage (package heap),
// several times a round. Long unused ones are dropped.
const (
	largeBuffer = 1 << 20
	unusedFor   = time.Second
)

type unused struct {
	buffer *Buffer
	since  time.Time
}

var large struct {
	sync.Mutex
	free []unused // the last used at the end
}

// takeLarge returns a free buffer of exactly this size; nil = there is none.
func takeLarge(bytes int) *Buffer {
	large.Lock()
	defer large.Unlock()
	for i, f := range slices.Backward(large.free) {
		if 8*len(f.buffer.words) == bytes {
			large.free = slices.Delete(large.free, i, i+1)
			return f.buffer
		}
	}
	return nil
}

func putLarge(b *Buffer) {
	large.Lock()
	defer large.Unlock()
	if large.free = append(large.free, unused{b, time.Now()}); len(large.free) == 1 {
		time.AfterFunc(unusedFor, dropUnused)
	}
}

func dropUnused() {
	large.Lock()
	defer large.Unlock()
	large.free = slices.DeleteFunc(large.free, func(f unused) bool { return time.Since(f.since) >= unusedFor })
	if len(large.free) > 0 {
		time.AfterFunc(unusedFor, dropUnused)
	}
}

// pooled returns the smallest pooled size that holds this many bytes, and its pool.
func pooled(size int) (bytes int, pool *sync.Pool) {
	shift := max(bits.Len(uint(max(size, 1)-1)), minPooledShift)
	if shift > maxPooledShift {
		return size, nil
	}
	if less := 3 << (shift - 2); size <= less {
		return less, &pools[2*shift]
	}
	return 1 << shift, &pools[2*shift+1]
}

// NewBuffer returns a buffer of a size in bytes, with undefined content.
func NewBuffer(size int) *Buffer {
	bytes, pool := pooled(size)
	if pool == nil {
		return newExactBuffer(size)
	}
	if bytes >= largeBuffer {
		if b := takeLarge(bytes); b != nil {
			b.size = size
			return b
		}
	} else if b, ok := pool.Get().(*Buffer); ok {
		b.size = size
		return b
	}
	return &Buffer{words: make([]uint64, bytes/8), size: size}
}

// keptStep is what large buffers for something that is kept are a multiple of, in bytes, so that similar ones can follow each other.
const keptStep = 64 << 10

// newExactBuffer returns a buffer for something that is kept: no larger than needed, up to keptStep, and with undefined content.
func newExactBuffer(size int) *Buffer {
	if size < largeBuffer {
		return &Buffer{words: make([]uint64, (size+7)/8), size: size}
	}
	bytes := (size + keptStep - 1) / keptStep * keptStep
	if b := takeLarge(bytes); b != nil {
		b.size = size
		return b
	}
	return &Buffer{words: make([]uint64, bytes/8), size: size}
}

// resize changes a buffer's size. It returns false if there is none, or its memory is too small or larger than needed.
func (b *Buffer) resize(size int) bool {
	if b == nil || 8*len(b.words) < size || 8*len(b.words) > size+size/16+8 {
		return false
	}
	b.size = size
	return true
}

// Bytes returns the buffer's memory.
func (b *Buffer) Bytes() []byte {
	if len(b.words) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&b.words[0])), 8*len(b.words))[:b.size]
}

// Floats returns the buffer's memory as numbers, for callers that fill it in this process.
func (b *Buffer) Floats() []float32 {
	if len(b.words) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b.words[0])), 2*len(b.words))[:b.size/4]
}

// Release frees the memory. The buffer must not be used afterwards. Releasing nil is harmless.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	held := 8 * len(b.words)
	if held >= largeBuffer {
		putLarge(b)
	} else if bytes, pool := pooled(held); bytes == held {
		pool.Put(b)
	}
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// number is the element type of arrays on the wire.
type number interface {
	uint32 | uint64 | int64 | float32
}

// view interprets little-endian numbers, in place if the processor and the alignment permit.
func view[T number](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	n := len(b) / size
	if n == 0 {
		return nil
	}
	if littleEndian && uintptr(unsafe.Pointer(&b[0]))%uintptr(size) == 0 {
		return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
	}
	out := make([]T, n)
	for i := range out {
		switch p := any(&out[i]).(type) {
		case *uint32:
			*p = binary.LittleEndian.Uint32(b[4*i:])
		case *float32:
			*p = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		case *uint64:
			*p = binary.LittleEndian.Uint64(b[8*i:])
		case *int64:
			*p = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	return out
}

// raw returns numbers as little-endian bytes, in place if the processor permits.
func raw[T number](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), size*len(v))
	}
	out := make([]byte, 0, size*len(v))
	for i := range v {
		switch p := any(&v[i]).(type) {
		case *uint32:
			out = binary.LittleEndian.AppendUint32(out, *p)
		case *float32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(*p))
		case *uint64:
			out = binary.LittleEndian.AppendUint64(out, *p)
		case *int64:
			out = binary.LittleEndian.AppendUint64(out, uint64(*p))
		}
	}
	return out
}
