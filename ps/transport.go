package ps

import (
	"encoding/binary"
	"math"
)

// Transport is the encoding of the numbers that workers deliver. The last column of a row, a weight (Mean), is always sent whole.
//
// A worker rounds its deliveries (Round) before they are added up. So a transport loses nothing in transit, and the folded state does not
// depend on whether a delivery went over a network, or by which transport: sums of several splits, which a narrow one cannot carry, are
// sent whole.
type Transport uint32

const (
	// Whole numbers take 4 bytes, in deterministic mode 8.
	Whole Transport = iota
	// BF16 numbers take 2: sign, exponent and 7 bits of a float32's fraction.
	BF16
	// Int8 numbers take 1: k·2^e with -127 ≤ k ≤ 127, and an e for each block of a row.
	Int8
)

var transports = []string{Whole: "float32", BF16: "bf16", Int8: "int8"}

// Transports returns the names of all.
func Transports() []string { return append([]string(nil), transports...) }

// TransportOf returns the transport of a name. There is none: Whole.
func TransportOf(name string) Transport {
	for t, n := range transports {
		if n == name {
			return Transport(t)
		}
	}
	return Whole
}

// packBlock is the number of consecutive numbers of a row that share an exponent.
const packBlock = 256

// Numbers with other exponents do not occur in healthy training: smaller ones are rounded to 0, larger ones are sent whole.
const mostExponent = 100

// Bytes returns the size of n numbers of a row in transit, without its weight.
func (t Transport) Bytes(n int) int {
	switch t {
	case BF16:
		return 2 * n
	case Int8:
		return n + (n+packBlock-1)/packBlock
	}
	return 4 * n
}

// Round rounds the numbers of a row, without its weight, to ones that can be packed: the nearest, ties to even.
func (t Transport) Round(row []float32) {
	switch t {
	case BF16:
		for i, x := range row {
			bits := math.Float32bits(x)
			rounded := math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
			if rounded-rounded != 0 { // beyond the largest
				rounded = math.Float32frombits(bits &^ 0xffff)
			}
			row[i] = rounded
		}
	case Int8:
		for len(row) > 0 {
			block := row[:min(packBlock, len(row))]
			row = row[len(block):]
			most := 0.0
			for _, x := range block {
				most = max(most, math.Abs(float64(x)))
			}
			e, ok := exponent(most)
			if !ok {
				continue
			}
			down, up := math.Ldexp(1, -e), math.Ldexp(1, e)
			for i, x := range block {
				block[i] = float32(float64(int64(math.RoundToEven(float64(x)*down))) * up)
			}
		}
	}
}

// exponent returns the exponent of a block with this largest number; false: there is none.
func exponent(most float64) (e int, ok bool) {
	if !(most < math.MaxFloat32) {
		return 0, false
	}
	if most == 0 {
		return -mostExponent, true
	}
	fraction, e := math.Frexp(most)
	if e -= 7; math.RoundToEven(128*fraction) > 127 {
		e++
	}
	return max(e, -mostExponent), e <= mostExponent
}

// packedWeight is the size of a row's last column.
const packedWeight = 8

// PackedBytes returns the size of packed rows with this total of numbers; false: they cannot be packed.
func (t Transport) PackedBytes(rows, numbers int) (bytes int, ok bool) {
	if t == Whole || t > Int8 || rows < 1 || numbers%rows != 0 || numbers/rows < 2 {
		return 0, false
	}
	return rows * (packedWeight + t.Bytes(numbers/rows-1)), true
}

// Pack returns rows of equal length in the transport's form; false: it cannot carry them.
func (t Transport) Pack(u *Sums) ([]byte, bool) {
	numbers := len(u.Fixed) + len(u.Float)
	size, ok := t.PackedBytes(len(u.Keys), numbers)
	if !ok || len(u.Fixed) > 0 && len(u.Float) > 0 {
		return nil, false
	}
	to, cols := make([]byte, 0, size), numbers/len(u.Keys)
	var block [packBlock]float64
	for first := 0; first < numbers; first += cols {
		last := first + cols - 1
		if len(u.Fixed) > 0 {
			to = binary.LittleEndian.AppendUint64(to, uint64(u.Fixed[last]))
		} else {
			to = binary.LittleEndian.AppendUint64(to, uint64(math.Float32bits(u.Float[last])))
		}
		for at := first; at < last; at += packBlock {
			some := block[:min(packBlock, last-at)]
			if !u.numbers(some, at) {
				return nil, false
			}
			if to, ok = t.packBlock(to, some); !ok {
				return nil, false
			}
		}
	}
	return to, true
}

// numbers reads the numbers from an index on; false: a float64 cannot represent them all.
func (u *Sums) numbers(to []float64, at int) bool {
	if len(u.Float) > 0 {
		for i := range to {
			to[i] = float64(u.Float[at+i])
		}
		return true
	}
	for i := range to {
		x := u.Fixed[at+i]
		if to[i] = float64(x) / fixedOne; x < -(1<<53) || x > 1<<53 {
			return false
		}
	}
	return true
}

func (t Transport) packBlock(to []byte, some []float64) ([]byte, bool) {
	if t == BF16 {
		for _, x := range some {
			f := float32(x)
			bits := math.Float32bits(f)
			if float64(f) != x || bits&0xffff != 0 {
				return nil, false
			}
			to = binary.LittleEndian.AppendUint16(to, uint16(bits>>16))
		}
		return to, true
	}
	most := 0.0
	for _, x := range some {
		most = max(most, math.Abs(x))
	}
	e, ok := exponent(most)
	if !ok {
		return nil, false
	}
	to = append(to, byte(e+128))
	down := math.Ldexp(1, -e)
	for _, x := range some {
		k := x * down
		if k != math.Trunc(k) || math.Abs(k) > 127 {
			return nil, false
		}
		to = append(to, byte(int8(k)))
	}
	return to, true
}

// Unpack decodes packed rows with the sums' keys and this total of numbers, all of one kind. It reports whether that is possible.
func (t Transport) Unpack(from []byte, u *Sums, fixed, floats int) bool {
	size, ok := t.PackedBytes(len(u.Keys), fixed+floats)
	if !ok || size != len(from) || fixed > 0 && floats > 0 {
		return false
	}
	cols := (fixed + floats) / len(u.Keys)
	if fixed > 0 {
		u.Fixed = make([]int64, fixed)
	} else {
		u.Float = make([]float32, floats)
	}
	var block [packBlock]float64
	for first := 0; first < fixed+floats; first += cols {
		last, weight := first+cols-1, binary.LittleEndian.Uint64(from)
		from = from[packedWeight:]
		switch {
		case fixed > 0:
			u.Fixed[last] = int64(weight)
		case weight > math.MaxUint32:
			return false
		default:
			u.Float[last] = math.Float32frombits(uint32(weight))
		}
		for at := first; at < last; at += packBlock {
			some := block[:min(packBlock, last-at)]
			if !t.unpackBlock(some, from) || !u.put(some, at) {
				return false
			}
			from = from[t.Bytes(len(some)):]
		}
	}
	return true
}

// unpackBlock is the opposite of packBlock. It refuses anything that Pack does not produce.
func (t Transport) unpackBlock(some []float64, from []byte) bool {
	if t == BF16 {
		for i := range some {
			x := math.Float32frombits(uint32(binary.LittleEndian.Uint16(from[2*i:])) << 16)
			if some[i] = float64(x); x != x {
				return false
			}
		}
		return true
	}
	e, most := int(from[0])-128, 0
	up := math.Ldexp(1, e)
	for i := range some {
		k := int(int8(from[1+i]))
		some[i], most = float64(k)*up, max(most, k, -k)
	}
	return most <= 127 && e <= mostExponent && (e == -mostExponent || e > -mostExponent && most >= 64)
}

// put is the opposite of numbers.
func (u *Sums) put(some []float64, at int) bool {
	if len(u.Float) > 0 {
		for i, x := range some {
			u.Float[at+i] = float32(x)
		}
		return true
	}
	for i, x := range some {
		scaled := x * fixedOne
		if !(math.Abs(scaled) <= 1<<53) || scaled != math.Trunc(scaled) || scaled == 0 && math.Signbit(scaled) {
			return false
		}
		u.Fixed[at+i] = int64(scaled)
	}
	return true
}
