package ps

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// rounded returns a row of numbers of many sizes and a weight, before and after rounding.
func rounded(transport Transport, random *rand.Rand, n int) (before, row []float32) {
	for range n {
		before = append(before, float32(math.Ldexp(random.NormFloat64(), random.IntN(20)-30)))
	}
	row = slices.Clone(before)
	transport.Round(row)
	return before, append(row, 0.37)
}

// Rounded numbers survive packing, in fixed point, too, and take the declared number of bytes.
func TestPacked(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, transport := range []Transport{BF16, Int8} {
		for _, n := range []int{1, 64, 256, 257, 1000} {
			var float, fixed Sums
			for r := range 3 {
				_, row := rounded(transport, random, n)
				key := Key{Row: RowID(r)}
				float.Keys, fixed.Keys = append(float.Keys, key), append(fixed.Keys, key)
				float.Float = append(float.Float, row...)
				for _, x := range row {
					number, err := ToFixed(x)
					if err != nil {
						t.Fatal(err)
					}
					fixed.Fixed = append(fixed.Fixed, number)
				}
			}
			for _, u := range []Sums{float, fixed} {
				packed, ok := transport.Pack(&u)
				if !ok || len(packed) != 3*(8+transport.Bytes(n)) {
					t.Fatalf("%s of %d: %v, %d bytes", transports[transport], n, ok, len(packed))
				}
				back := Sums{Keys: u.Keys}
				if !transport.Unpack(packed, &back, len(u.Fixed), len(u.Float)) || !slices.Equal(back.Fixed, u.Fixed) || !slices.Equal(back.Float, u.Float) {
					t.Errorf("%s of %d: other numbers come back", transports[transport], n)
				}
				for _, cut := range [][]byte{packed[1:], append(packed, 0)} {
					if transport.Unpack(cut, &Sums{Keys: u.Keys}, len(u.Fixed), len(u.Float)) {
						t.Errorf("%s of %d: %d bytes are taken for %d", transports[transport], n, len(cut), len(packed))
					}
				}
			}
		}
	}
	if Int8.Bytes(1<<16) != 1<<16+256 || BF16.Bytes(10) != 20 || Whole.Bytes(10) != 40 {
		t.Error("the sizes are others")
	}
}

// Rounding is to the nearest representable number.
func TestRoundedToTheNearest(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	before, row := rounded(BF16, random, 1000)
	for i, x := range before {
		if math.Abs(float64(row[i]-x)) > math.Abs(float64(x))/256 {
			t.Fatalf("bf16 makes %v of %v", row[i], x)
		}
	}
	before, row = rounded(Int8, random, 1000)
	for from := 0; from < 1000; from += packBlock {
		most := 0.0
		for _, x := range before[from:min(from+packBlock, 1000)] {
			most = max(most, math.Abs(float64(x)))
		}
		for i := from; i < min(from+packBlock, 1000); i++ {
			if math.Abs(float64(row[i]-before[i])) > most/63.75/2*1.0001 {
				t.Fatalf("int8 makes %v of %v in a block up to %v", row[i], before[i], most)
			}
		}
	}
	extremes := []float32{math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0}
	for _, transport := range []Transport{BF16, Int8} {
		row := slices.Clone(extremes)
		if transport.Round(row); slices.ContainsFunc(row, func(x float32) bool { return x-x != 0 }) || row[3] != 0 {
			t.Errorf("%s makes %v of %v", transports[transport], row, extremes)
		}
	}
}

// What a transport cannot represent is not packed: other numbers, sums of several rows, rows of different lengths.
func TestNotPacked(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for _, transport := range []Transport{BF16, Int8} {
		_, a := rounded(transport, random, 300)
		_, b := rounded(transport, random, 300)
		sum := slices.Clone(a)
		for i := range sum {
			sum[i] += b[i]
		}
		if _, ok := transport.Pack(&Sums{Keys: make([]Key, 1), Float: sum}); ok {
			t.Errorf("%s carries a sum of two", transports[transport])
		}
		if _, ok := transport.Pack(&Sums{Keys: make([]Key, 2), Float: a}); ok {
			t.Errorf("%s carries two rows of %d numbers", transports[transport], len(a))
		}
		if _, ok := transport.Pack(&Sums{Keys: make([]Key, 1), Float: []float32{float32(math.Inf(1)) * 0, 1}}); ok {
			t.Errorf("%s carries what is no number", transports[transport])
		}
	}
	if _, ok := Whole.Pack(&Sums{Keys: make([]Key, 1), Float: make([]float32, 4)}); ok {
		t.Error("whole numbers are packed")
	}
	if TransportOf("int8") != Int8 || TransportOf("") != Whole || len(Transports()) != 3 {
		t.Error("the names are others")
	}
}
