package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/tierml/tierml/ps"
)

const (
	// headerSize is the length of a frame's header in bytes.
	headerSize = 40
	// magic begins every frame: "TML" and the version of the protocol.
	magic = "TML\x04"
	// MaxBody is the longest body that is sent or accepted, in bytes, unless a process is configured with less.
	MaxBody = 64 << 20
	// PieceBytes is the approximate size of pieces of divisible bodies: long enough that larger ones gain nothing, and below a server's
	// memory limit for concurrent bodies.
	PieceBytes = 17 << 20
)

// flagAnswer marks answers.
const flagAnswer = 1

// header is the beginning of every frame.
type header struct {
	kind       Type
	answer     bool
	request    uint64 // chosen by the client, repeated in the answer; 0 = about the connection
	job        uint64
	generation ps.Generation
	length     int // of the body
	most       int // the longest body that this end sends; 0 = MaxBody
}

// longest returns the longest body for a setting where 0 means MaxBody.
func longest(most int) int {
	if most <= 0 || most > MaxBody {
		return MaxBody
	}
	return most
}

// Piece returns PieceBytes for a process that sends bodies of at most this many bytes; 0 = MaxBody.
func Piece(most int) int { return min(PieceBytes, longest(most)/2) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// put writes the header to b, which has its size.
func (h *header) put(b []byte) {
	_ = b[:headerSize]
	copy(b, magic)
	b[4], b[5], b[6], b[7] = byte(h.kind), 0, 0, 0
	if h.answer {
		b[5] = flagAnswer
	}
	binary.LittleEndian.PutUint64(b[8:], h.request)
	binary.LittleEndian.PutUint64(b[16:], h.job)
	binary.LittleEndian.PutUint64(b[24:], uint64(h.generation))
	binary.LittleEndian.PutUint32(b[32:], uint32(h.length))
	binary.LittleEndian.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli))
}

// parseHeader reads a header and refuses one of another protocol, version or job, or with too long a body.
func parseHeader(b []byte, job uint64) (header, error) {
	if string(b[:4]) != magic {
		return header{}, refused("the frame begins with %x, not %x: another protocol or version", b[:4], magic)
	}
	if crc32.Checksum(b[:36], castagnoli) != binary.LittleEndian.Uint32(b[36:]) {
		return header{}, refused("the frame's header is damaged")
	}
	h := header{
		kind:       Type(b[4]),
		answer:     b[5]&flagAnswer != 0,
		request:    binary.LittleEndian.Uint64(b[8:]),
		job:        binary.LittleEndian.Uint64(b[16:]),
		generation: ps.Generation(binary.LittleEndian.Uint64(b[24:])),
	}
	length := binary.LittleEndian.Uint32(b[32:])
	switch {
	case h.job != job:
		return h, refused("the frame is of job %016x, not %016x", h.job, job)
	case length > MaxBody:
		return h, refused("a body of %d bytes is longer than %d", length, MaxBody)
	case b[5]&^flagAnswer != 0 || b[6] != 0 || b[7] != 0:
		return h, refused("the frame has unknown flags %x", b[5:8])
	}
	h.length = int(length)
	return h, nil
}

func refused(format string, args ...any) error {
	return &Error{Code: Refused, Text: fmt.Sprintf(format, args...)}
}
