package vector

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func wave(n int, frequency float64) []float32 {
	v := make([]float32, n)
	for k := range v {
		v[k] = float32(math.Sin(frequency * float64(k+1)))
	}
	return v
}

// Slow twins spell out the shape of the sums; the fast ones must agree bit for bit.
func slowDot(lanes int, a, b []float32) float32 {
	s := make([]float32, lanes)
	for k := range a {
		s[k%lanes] += float32(a[k] * b[k])
	}
	for half := lanes / 2; half >= 1; half /= 2 { // fold the upper half onto the lower
		for k := range half {
			s[k] += s[k+half]
		}
	}
	return s[0]
}

func TestSumsHaveOneShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 70).Draw(t, "n")
		a := rapid.SliceOfN(rapid.Float32Range(-2, 2), n, n).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Float32Range(-2, 2), n, n).Draw(t, "b")
		if got, want := Dot(a, b), slowDot(8, a, b); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("Dot is %v, want %v", got, want)
		}
		places := make([]uint32, n)
		for k := range places {
			places[k] = uint32(n - 1 - k)
		}
		back := make([]float32, n)
		for k := range back {
			back[n-1-k] = b[k]
		}
		if got, want := SparseDot(places, a, back), slowDot(4, a, b); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("SparseDot is %v, want %v", got, want)
		}
	})
}

// Assembly and Go give the same bits, even for sums that overflow or underflow.
func TestAssemblyAgreesWithGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 70).Draw(t, "n")
		numbers := rapid.SliceOfN(rapid.Float32Range(-1e20, 1e20), n, n)
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		f := rapid.SliceOfN(rapid.Float32Range(-2, 2), 4, 4).Draw(t, "factors")
		// Both begin at an odd offset, and nothing beyond the end may change.
		copies := func(v []float32) (one, two []float32) {
			padded := append(append([]float32{7}, v...), 7, 7, 7, 7, 7, 7, 7, 7)
			return slices.Clone(padded), padded
		}
		if got, want := Dot(a, b), dotGo(unsafe.SliceData(a), unsafe.SliceData(b), n); !sameBits([]float32{got}, []float32{want}) {
			t.Fatalf("Dot is %v, want %v", got, want)
		}
		y, wantY := copies(b)
		Axpy(f[0], a, y[1:])
		axpyGo(f[0], unsafe.SliceData(a), &wantY[1], n)
		p, wantP := copies(a)
		q, wantQ := copies(b)
		Blend(p[1:n+1], q[1:], f[0], f[1], f[2], f[3])
		blendGo(&wantP[1], &wantQ[1], n, f[0], f[1], f[2], f[3])
		if !sameBits(y, wantY) || !sameBits(p, wantP) || !sameBits(q, wantQ) {
			t.Fatalf("Axpy gives %v, want %v; Blend %v, %v, want %v, %v", y, wantY, p, q, wantP, wantQ)
		}
		w, wantW := copies(a)
		v, wantV := copies(b)
		weight, momentum, rate := 1/float64(f[0]), float64(f[1]), float64(f[2])
		Nesterov(w[1:n+1], v[1:], a, weight, momentum, rate)
		nesterovGo(&wantW[1], &wantV[1], unsafe.SliceData(a), n, weight, momentum, rate)
		if !sameBits(w, wantW) || !sameBits(v, wantV) {
			t.Fatalf("Nesterov gives %v, %v, want %v, %v", w, v, wantW, wantV)
		}
	})
}

func TestFinite(t *testing.T) {
	for n := range 50 {
		x := wave(n+1, 1e38)
		if !Finite(x[1:]) {
			t.Errorf("%v is finite", x[1:])
		}
		for k := range n + 1 {
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				good := x[k]
				x[k] = bad
				if got := Finite(x[1:]); got != (k == 0) || got != finiteGo(unsafe.SliceData(x[1:]), n) {
					t.Errorf("%v at %d of %d: %v", bad, k, n, got)
				}
				x[k] = good
			}
		}
	}
}

// sameBits treats all NaNs as equal.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

func TestAxpy(t *testing.T) {
	for n := range 30 {
		x, dense, sparse := wave(n, 0.7), wave(n, 1.3), wave(n, 1.3)
		places := make([]uint32, n)
		for k := range places {
			places[k] = uint32(k)
		}
		Axpy(0.3, x, dense)
		SparseAxpy(0.3, places, x, sparse)
		for k, y := range wave(n, 1.3) {
			if want := y + float32(float32(0.3)*x[k]); dense[k] != want || sparse[k] != want {
				t.Errorf("%d elements, place %d: %v and %v, want %v", n, k, dense[k], sparse[k], want)
			}
		}
	}
}

// The compiler fuses on some processors only: also run this with GOAMD64=v3. (1+e)^2 - 1 needs 2e + e^2, but
// e^2 is lost when the product is rounded first.
func TestNothingIsFused(t *testing.T) {
	e := float32(1.0 / (1 << 13))
	x := 1 + e
	p, q := []float32{x}, []float32{-1}
	Blend(p, q, x, 1, 0, 0)
	if want := 2 * e; p[0] != want {
		t.Errorf("Blend gives %x, want %x", p[0], want)
	}
	y := make([]float32, 9)
	for k := range y {
		y[k] = -1
	}
	Axpy(x, []float32{x, x, x, x, x, x, x, x, x}, y)
	SparseAxpy(x, []uint32{0}, []float32{0}, y)
	for k := range y {
		if y[k] != 2*e {
			t.Errorf("Axpy gives %x at %d, want %x", y[k], k, 2*e)
		}
	}
	a := []float32{-1, 0, 0, 0, 0, 0, 0, 0, x}
	b := []float32{1, 0, 0, 0, 0, 0, 0, 0, x}
	if got := Dot(a, b); got != 2*e {
		t.Errorf("Dot gives %x, want %x", got, 2*e)
	}
	if got := SparseDot([]uint32{0, 1, 2, 3, 8}, []float32{-1, 0, 0, 0, x}, b); got != 2*e {
		t.Errorf("SparseDot gives %x, want %x", got, 2*e)
	}
}

func TestExp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-690, 690).Draw(t, "x")
		if got, want := Exp(x), math.Exp(x); math.Abs(got-want) > 1e-14*want {
			t.Fatalf("Exp(%v) = %v, want %v", x, got, want)
		}
	})
	if Exp(0) != 1 || Exp(-1e9) != 0 || Exp(math.Inf(-1)) != 0 || math.IsInf(Exp(1e9), 0) {
		t.Error("wrong at 0 or far out")
	}
	if !math.IsNaN(Exp(math.NaN())) {
		t.Error("not a number becomes a number")
	}
}

func TestSoftmax(t *testing.T) {
	p := []float32{1000, 1001, 998, -1e30}
	Softmax(p)
	want := []float64{math.Exp(-1), 1, math.Exp(-3), 0}
	total := want[0] + want[1] + want[2]
	for i := range p {
		if math.Abs(float64(p[i])-want[i]/total) > 1e-6 {
			t.Errorf("probability %d is %v, want %v", i, p[i], want[i]/total)
		}
	}
}

func BenchmarkVector(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		x, y := wave(n, 0.3), wave(n, 0.7)
		b.Run(fmt.Sprintf("dot/%d", n), func(b *testing.B) {
			for b.Loop() {
				Dot(x, y)
			}
			b.ReportMetric(2*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
		})
		b.Run(fmt.Sprintf("axpy/%d", n), func(b *testing.B) {
			for b.Loop() {
				Axpy(1e-9, x, y)
			}
			b.ReportMetric(2*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
		})
	}
}
