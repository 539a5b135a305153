package tuner

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// hyper are the parameters of a Gaussian process with a Matern 5/2 kernel (Rasmussen and Williams, 4.17) and a length
// scale per knob: the covariance of f at two points is signal * m(r); two observations at the same point have noise in
// addition.
type hyper struct {
	lengths []float64
	signal  float64 // variance of f
	noise   float64 // variance of one observation of f
}

// process is a Gaussian process given observations.
type process struct {
	hyper
	scales []int       // a column's index into lengths
	x      [][]float64 // observed points, one per row
	y      []float64
	upper  mat.Cholesky // of the observations' covariance
	alpha  []float64    // its inverse times y
}

// matern is m(r) and -dm/d(r²) for r². Both are needed for the likelihood's slope.
func matern(squared float64) (value, slope float64) {
	r := math.Sqrt(5 * squared)
	e := math.Exp(-r)
	return (1 + r + r*r/3) * e, 5. / 6 * (1 + r) * e
}

// distance returns the square of r between two points.
func distance(a, b []float64, scales []int, lengths []float64) float64 {
	sum := 0.
	for c, v := range a {
		d := (v - b[c]) / lengths[scales[c]]
		sum += d * d
	}
	return sum
}

// condition returns the process for observations; false if the covariance is not positive definite in floating point.
func condition(h hyper, scales []int, x [][]float64, y []float64) (*process, bool) {
	p := &process{hyper: h, scales: scales, x: x, y: y}
	n := len(x)
	k := mat.NewSymDense(n, nil)
	for i := range n {
		k.SetSym(i, i, h.signal+h.noise)
		for j := range i {
			m, _ := matern(distance(x[i], x[j], scales, h.lengths))
			k.SetSym(j, i, h.signal*m)
		}
	}
	if !p.upper.Factorize(k) {
		return nil, false
	}
	p.alpha = make([]float64, n)
	if err := p.upper.SolveVecTo(mat.NewVecDense(n, p.alpha), mat.NewVecDense(n, y)); err != nil {
		return nil, false
	}
	return p, true
}

// predict returns the mean and the variance of f at points: Rasmussen and Williams, 2.25 and 2.26.
func (p *process) predict(at [][]float64) (mean, variance []float64) {
	n, m := len(p.x), len(at)
	mean, variance = make([]float64, m), make([]float64, m)
	k := blas64.General{Rows: n, Cols: m, Stride: m, Data: make([]float64, n*m)}
	for i, xi := range p.x {
		row := k.Data[i*m : (i+1)*m]
		for j, point := range at {
			value, _ := matern(distance(xi, point, p.scales, p.lengths))
			row[j] = p.signal * value
			mean[j] += p.alpha[i] * row[j]
		}
	}
	// The covariance is U'U: k' (U'U)^-1 k is the square of v, the solution of U'v = k.
	blas64.Trsm(blas.Left, blas.Trans, 1, p.upper.RawU().(*mat.TriDense).RawTriangular(), k)
	for j := range variance {
		variance[j] = p.signal
	}
	for i := range n {
		for j, v := range k.Data[i*m : (i+1)*m] {
			variance[j] -= v * v
		}
	}
	for j, v := range variance {
		variance[j] = max(v, 1e-12*p.signal) // rounding can leave slightly negative values
	}
	return mean, variance
}

// likelihood returns the log of the marginal likelihood (Rasmussen and Williams, 2.30).
func (p *process) likelihood() float64 {
	fit := 0.
	for i, v := range p.y {
		fit += v * p.alpha[i]
	}
	return -.5*fit - .5*p.upper.LogDet() - .5*float64(len(p.y))*math.Log(2*math.Pi)
}

// slopes returns the likelihood's derivatives by the logs of lengths, signal and noise, in this order (Rasmussen and Williams, 5.9).
func (p *process) slopes() []float64 {
	n, d := len(p.x), len(p.lengths)
	slopes := make([]float64, d+2)
	var inverse mat.SymDense
	if err := p.upper.InverseTo(&inverse); err != nil {
		return slopes
	}
	raw := inverse.RawSymmetric()
	perScale := make([]float64, d)
	for i := range n {
		own := p.alpha[i]*p.alpha[i] - raw.Data[i*raw.Stride+i]
		slopes[d] += .5 * own * p.signal
		slopes[d+1] += .5 * own * p.noise
		for j := i + 1; j < n; j++ {
			clear(perScale)
			squared := 0.
			for c, v := range p.x[i] {
				l := (v - p.x[j][c]) / p.lengths[p.scales[c]]
				perScale[p.scales[c]] += l * l
				squared += l * l
			}
			value, slope := matern(squared)
			weight := (p.alpha[i]*p.alpha[j] - raw.Data[i*raw.Stride+j]) * p.signal
			slopes[d] += weight * value
			for s, part := range perScale {
				slopes[s] += weight * slope * 2 * part
			}
		}
	}
	return slopes
}
