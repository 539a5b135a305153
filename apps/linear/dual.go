package linear

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/vector"
	"github.com/tierml/tierml/ps"
)

// dual makes the objective of a support vector machine with an L2 penalty small in one process, by coordinate ascent on
// the dual (Hsieh et al., "A dual coordinate descent method for large-scale linear SVM", ICML 2008; Shalev-Shwartz and
// Zhang, "Stochastic dual coordinate ascent methods for regularized loss minimization", JMLR 14, 2013). With a force f in [0, 1] for each example, its goal y and its features x,
//
//	w = sum y*f*x / (l2*n)        at the minimum f = -(derivative of the loss by the margin)
//
// Examples come in a random order, anew in every pass, and each gets the force that is best while those of the others
// stay. One pass moves the weights n times, where a gradient moves them once.
//
// The bias is not penalised, which would tie the forces of all examples together. It is found by the method of
// multipliers instead (Bertsekas, "Constrained optimization and Lagrange multiplier methods", 1982, chapter 2): in a
// pass it is penalised for its distance from a center, which is where it was when the pass began.
type dual struct {
	program     *Program
	seed        uint64
	train, test examples
	weights     []float32 // the bias is the last
	order       []dualExample
	pull        float64 // 1/(l2*n): how far a force moves the weights along its example
	biasPull    float64 // the same for the bias
	balance     float64 // sum y*f, which is 0 at the minimum
}

// dualExample is what a step knows of its example, side by side because steps come in a random order.
type dualExample struct {
	from, to    int     // of its features in the list of all
	goal, force float32 // y, f
	square      float32 // |x|^2
}

const (
	// dualConditioning bounds curvature*|x|^2/l2, of the mean example, in passes that the dual takes to come nearer by a
	// constant factor (Shalev-Shwartz and Zhang, theorem 1): with less penalty than that, accelerated gradients are as
	// good.
	dualConditioning = 20
	// biasShare is the most that the bias is held to its center, as a share of the loss's curvature. The distance to the
	// best bias shrinks by about that factor with every pass.
	biasShare = 0.01
)

// suitsDual reports whether coordinate ascent is the faster method.
func (p *Program) suitsDual(train *examples) bool {
	n := float64(len(train.goals))
	if p.rule.loss != hinge || p.l1 != 0 || p.l2 == 0 || n == 0 {
		return false
	}
	squares := n // of the bias
	for _, x := range train.value {
		squares += float64(x) * float64(x)
	}
	return p.rule.curvature()*squares/n/p.l2 <= dualConditioning*n
}

func newDual(p *Program, seed uint64, train, test examples) *dual {
	n := len(train.goals)
	d := &dual{
		program: p, seed: seed, train: train, test: test,
		weights:  make([]float32, p.task.Inputs+1),
		order:    make([]dualExample, n),
		pull:     1 / (p.l2 * float64(n)),
		biasPull: 1 / (min(p.l2, biasShare*p.rule.curvature()) * float64(n)),
	}
	for i := range d.order {
		_, value := train.row(i)
		d.order[i] = dualExample{from: train.start[i], to: train.start[i+1], goal: train.goals[i], square: vector.Dot(value, value)}
	}
	return d
}

// Row returns a block's weights.
func (d *dual) Row(k ps.Key) []float32 { return blockOf(d.weights, k) }

// Step is one pass over the examples. What it counts as wrong is each example as it was when its turn came.
func (d *dual) Step(c ps.Clock, evaluate bool) (apps.Stats, error) {
	p := d.program
	var stats apps.Stats
	if evaluate {
		stats.TestLoss, stats.TestCount = d.test.faults(p, d.weights)
	}
	random := apps.NewStream(d.seed, 0, c)
	apps.Shuffle(&random, d.order)
	bias := len(d.weights) - 1
	d.weights[bias] += float32(d.balance * d.biasPull) // the center is moved to the bias
	for i := range d.order {
		e := &d.order[i]
		index, value := d.train.index[e.from:e.to], d.train.value[e.from:e.to]
		score := vector.SparseDot(index, value, d.weights) + d.weights[bias]
		stats.Loss += p.fault(score, e.goal)
		curvature := float64(e.square)*d.pull + d.biasPull
		next := float32(p.rule.force(float64(e.goal*score), float64(e.force), curvature))
		if next == e.force {
			continue
		}
		move := float64(e.goal * (next - e.force))
		e.force = next
		vector.SparseAxpy(float32(move*d.pull), index, value, d.weights)
		d.weights[bias] += float32(move * d.biasPull)
		d.balance += move
	}
	stats.Examples = int64(len(d.order))
	stats.Work = work(stats.Examples, int64(len(d.train.index)))
	if b := float64(d.weights[bias]); math.IsNaN(b) || math.IsInf(b, 0) {
		return stats, fmt.Errorf("%s diverged by clock %d: the numbers are too large", p.name, c)
	}
	return stats, nil
}

// force returns the best force of one example for the hinge: the f at which the loss, at the margin that f leads to, pulls
// with f.
//
//	f = -loss'(margin + curvature*(f - old))
//
// Margin is what it is with the old force, and curvature is how much of it a force of 1 makes.
func (r rule) force(margin, old, curvature float64) float64 {
	return min(max((1-margin+curvature*old)/(r.width+curvature), 0), 1)
}
