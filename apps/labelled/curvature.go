package labelled

import (
	"math"

	"github.com/tierml/tierml/apps"
)

const (
	// curvatureSample limits the number of examples for curvature: ranks are random, so the first are a sample.
	curvatureSample = 20_000
	powerSteps      = 30
	// settled ends the iteration: the estimate has grown by a smaller share than this.
	settled = 1e-8
	// curvatureMargin compensates for the underestimate by iteration and sampling.
	curvatureMargin = 1.05
)

// curvature estimates the largest eigenvalue of X'X/n by power iteration. A table's target is not known yet and counts as a
// feature, which makes the estimate slightly too large.
func curvature(s *source, train []int) float64 {
	t := &Task{Data: s.data, Inputs: s.data.Features, target: -1}
	if s.data.Table() {
		t.layOut()
	}
	var sample examples
	s.deal(&sample, train[:min(len(train), curvatureSample)], 0, 1)
	e, err := t.encode(&sample)
	if err != nil || e.Len() == 0 {
		return 0
	}
	v := make([]float64, t.Inputs+1) // the last one is for the constant
	stream := apps.NewStream(purposeOrder, 0, 0)
	for i := range v {
		v[i] = float64(stream.Uint64()>>11) / (1 << 53)
	}
	normalise(v)
	var largest float64
	for range powerSteps {
		before := largest
		v = e.gram(v)
		if largest = normalise(v); largest-before <= settled*largest {
			break
		}
	}
	return curvatureMargin * largest
}

// normalise scales a vector to length 1 and returns its former length.
func normalise(v []float64) float64 {
	var squares float64
	for _, x := range v {
		squares += float64(x * x)
	}
	length := math.Sqrt(squares)
	if length > 0 {
		for i := range v {
			v[i] /= length
		}
	}
	return length
}

// gram multiplies a vector by X'X/n.
func (e *Examples) gram(v []float64) []float64 {
	constant := len(v) - 1
	product := make([]float64, len(v))
	for i := range e.Len() {
		index, value := e.Row(i)
		sum := v[constant]
		for k, j := range index {
			sum += float64(value[k]) * v[j]
		}
		for k, j := range index {
			product[j] += float64(value[k]) * sum
		}
		product[constant] += sum
	}
	for i := range product {
		product[i] /= float64(e.Len())
	}
	return product
}
