package ps

import "math"

// Hash mixes words into 64 well-distributed bits. It is the root of every pseudo-random choice of a job (initial values, held-out examples,
// the order of a batch), so it must never change: a test pins its values. Each word passes through the finaliser of SplitMix64 (Steele, Lea
// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), chained, so that (1, 2) and (2, 1) differ.
func Hash(words ...uint64) uint64 {
	h := uint64(len(words))
	for _, w := range words {
		h = mix(h + golden + w)
	}
	return h
}

// golden is SplitMix64's increment: 2^64 divided by the golden ratio, made odd.
const golden = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// InitRow sets dst to a row's values at clock 0, before any update. They depend only on the job's seed, the table, the row and the column,
// so that any server can compute any row at any time, and a row that was never changed need not be stored, moved or backed up. Dst has the
// table's columns.
func InitRow(seed uint64, table Table, id TableID, row RowID, dst []float32) {
	low, high := table.Init.Low, table.Init.High
	if low == 0 && high == 0 {
		clear(dst)
		return
	}
	state := Hash(seed, uint64(id), uint64(row))
	for column := range dst {
		state += golden
		dst[column] = uniform(mix(state), low, high)
	}
}

// uniform maps 64 random bits to [low, high).
func uniform(bits uint64, low, high float32) float32 {
	share := float64(bits>>11) / (1 << 53)
	// The conversion forbids a fused multiply-add, which would round differently on some processors.
	value := float32(float64(low) + float64(share*(float64(high)-float64(low))))
	if value >= high && low < high { // rounded up to the open end
		return math.Nextafter32(high, low)
	}
	return value
}
