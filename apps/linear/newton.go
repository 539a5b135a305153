package linear

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/parallel"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// newton makes logistic regression's objective small in one process by Newton's method: a clock is one pass, for the
// gradient at the point that the last step led to, and a step from there
//
//	H s = -gradient
//
// by preconditioned conjugate gradients, which are stopped early (Lin, Weng and Keerthi, "Trust region Newton method for
// large-scale logistic regression", JMLR 9, 2008). The Hessian H is of a part of the examples only, which grows while
// the gradient does not shrink fast: far from the minimum little has to be known of the curvature (Byrd, Chin, Neveitt
// and Nocedal, "On the use of stochastic Hessian information in optimization methods for machine learning", SIAM J.
// Optimization 21(3), 2011). At the end H is exact, and so is the method.
//
// A step that went too far shows in the next gradient: along the step the objective rises as steeply as it fell. Then it
// is shortened to where a straight line between the two slopes crosses 0, so that no pass is spent on values.
type newton struct {
	program     *Program
	threads     int
	train, test examples
	chunks      []chunk
	hessian     *hessian
	from        []float32 // where the step begins
	weights     []float32 // where it ends; the bias is the last of all vectors
	step        []float32
	falls       float64 // the objective's slope along the step at its beginning; 0 before the first step
	share       float64 // of the step that is taken
	length      float64 // of the last gradient
}

const (
	// tooSteep is the slope at a step's end, as a share of the one at its beginning, that calls for a shorter step: at 1
	// the objective of a parabola is what it was before the step.
	tooSteep = 0.5
	// shortest bounds how much a step is shortened at once.
	shortest = 0.1
	// slowly is by how much a gradient should shrink at least with every step. A better known Hessian makes it shrink
	// faster.
	slowly = 0.35
)

// suitsNewton: without a penalty there may be no minimum to step to.
func (p *Program) suitsNewton() bool { return p.rule.loss == logistic && p.l1 == 0 && p.l2 > 0 }

func newNewton(p *Program, threads int, train, test examples) *newton {
	size := p.task.Inputs + 1
	return &newton{
		program: p, threads: threads, train: train, test: test, chunks: cut(&train, size),
		hessian: newHessian(p, threads, &train), share: 1,
		from: make([]float32, size), weights: make([]float32, size), step: make([]float32, size),
	}
}

// Row returns a block's weights.
func (d *newton) Row(k ps.Key) []float32 { return blockOf(d.weights, k) }

// Step is one pass over the examples and one step.
func (d *newton) Step(c ps.Clock, evaluate bool) (apps.Stats, error) {
	var stats apps.Stats
	if evaluate {
		stats.TestLoss, stats.TestCount = d.test.faults(d.program, d.weights)
	}
	var gradient []float32
	gradient, stats.Loss = d.gradient()
	stats.Examples = int64(len(d.train.goals))
	stats.Work = work(stats.Examples, int64(len(d.train.index)))
	rises := float64(fast.Dot(gradient, d.step))
	if math.IsNaN(rises) || math.IsInf(rises, 0) {
		return stats, fmt.Errorf("%s diverged by clock %d: the numbers are too large", d.program.name, c)
	}
	if rises > -tooSteep*d.falls {
		d.share *= max(d.falls/(d.falls-rises), shortest)
	} else {
		d.turn(gradient, c)
	}
	for j, s := range d.step {
		d.weights[j] = d.from[j] + float32(d.share)*s
	}
	return stats, nil
}

// turn accepts the last step and finds the next one.
func (d *newton) turn(gradient []float32, c ps.Clock) {
	copy(d.from, d.weights)
	length := math.Sqrt(float64(fast.Dot(gradient, gradient)))
	if d.falls < 0 && length > slowly*d.length {
		d.hessian.refine()
	}
	d.length = length
	d.hessian.measure(c)
	d.hessian.solve(d.step, gradient)
	d.falls = float64(fast.Dot(gradient, d.step))
	d.share = 1
}

// gradient returns the mean gradient of the objective at the weights, in the first chunk's memory, and leaves each
// example's curvature with the Hessian.
func (d *newton) gradient() (gradient []float32, loss float64) {
	parallel.For(d.threads, len(d.chunks), func(_, number int) {
		c := &d.chunks[number]
		clear(c.gradient)
		c.loss = d.train.logistic(c, d.weights, d.hessian.curvature)
	})
	gradient = d.chunks[0].gradient
	for i, c := range d.chunks {
		loss += c.loss
		if i > 0 {
			fast.Axpy(1, c.gradient, gradient)
		}
	}
	bias := len(gradient) - 1
	mean, l2 := float32(1/float64(len(d.train.goals))), float32(d.program.l2)
	for j := range gradient {
		gradient[j] *= mean
	}
	fast.Axpy(l2, d.weights[:bias], gradient[:bias])
	return gradient, loss
}

// logistic adds up the gradient of a chunk, gives how many of its examples are on the wrong side, and sets their
// curvatures.
func (e *examples) logistic(c *chunk, weights, curvature []float32) (wrong float64) {
	bias := weights[len(weights)-1]
	var biasGradient float32
	for i := c.from; i < c.to; i++ {
		index, value := e.row(i)
		goal := e.goals[i]
		margin := goal * (sparseDot(index, value, weights) + bias)
		if !(margin > 0) && (margin < 0 || goal > 0) { // a score of 0 is taken for -1
			wrong++
		}
		p := sigmoid(-margin)
		curvature[i] = p * (1 - p)
		slope := -goal * p
		sparseAxpy(slope, index, value, c.gradient)
		biasGradient += slope
	}
	c.gradient[len(c.gradient)-1] = biasGradient
	return wrong
}

// sparseDot is as vector.SparseDot but for the bits of its result, which may differ between processors.
func sparseDot(index []uint32, value, dense []float32) float32 {
	value = value[:len(index)]
	var s0, s1 float32
	for len(index) >= 2 && len(value) >= 2 {
		s0 += value[0] * dense[index[0]]
		s1 += value[1] * dense[index[1]]
		index, value = index[2:], value[2:]
	}
	if len(index) > 0 {
		s0 += value[0] * dense[index[0]]
	}
	return s0 + s1
}

// sparseAxpy is as vector.SparseAxpy, but for the last bits.
func sparseAxpy(a float32, index []uint32, value, dense []float32) {
	value = value[:len(index)]
	for k, j := range index {
		dense[j] += a * value[k]
	}
}

// sigmoid returns 1/(1+exp(-x)) to about six digits.
func sigmoid(x float32) float32 {
	return 1 / (1 + fast.Exp(-x))
}
