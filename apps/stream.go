package apps

import (
	"math/bits"

	"github.com/tierml/tierml/ps"
)

// Stream is a stream of pseudo-random numbers (SplitMix64). It is a small value: create one where needed, named for its purpose, and never
// keep it from one clock to the next.
type Stream struct{ state uint64 }

// NewStream returns the stream of one batch. Whichever machine processes the batch, and however often it is repeated, draws the same
// numbers.
func NewStream(seed uint64, split ps.Split, c ps.Clock) Stream {
	return Stream{ps.Hash(seed, uint64(split), uint64(c))}
}

// Uint64 draws 64 random bits.
func (s *Stream) Uint64() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below draws a number in [0, n), n > 0. It multiplies instead of dividing; the bias of at most n/2^64 does
// not matter to an order of examples.
func (s *Stream) Below(n int) int {
	high, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int(high)
}

// Shuffle puts items in a random order (Fisher and Yates).
func Shuffle[T any](s *Stream, items []T) {
	for i := len(items) - 1; i > 0; i-- {
		j := s.Below(i + 1)
		items[i], items[j] = items[j], items[i]
	}
}
