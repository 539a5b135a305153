package linear

import (
	"errors"
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/ps"
)

// newton trains in one process, by Newton's method with conjugate gradients (as liblinear does: Lin, Weng and Keerthi, "Trust region Newton
// method for large-scale logistic regression", JMLR 9, 2008; here with a line search, not a region), which the diagonal of the second
// derivative preconditions (Hsia, Chiang and Lin, "Preconditioned conjugate gradient methods in truncated Newton frameworks", ACML 2018). A
// clock is one pass over the data: for a gradient, or for the product of the second derivative and a vector. Features of different sizes
// cost few clocks; on machines the largest one shortens all steps.
//
// It is for smooth losses without l1. The hinge qualifies, as its corner is rounded.
type newton struct {
	program *Program
	threads int
	chunks  []*chunk
	tests   []*labelled.Examples

	at, trial state   // the best point so far, and the one being tried
	enough    float64 // the length of a gradient at which training ends
	slope     float64 // of the objective along direction
	step      float64 // of the line search
	straight  float64 // share of curvature where the loss is linear: see rule.at
	direction []float64
	gradients conjugate

	phase phase
	why   string // why it is finished
}

// phase is the purpose of the next pass.
type phase int

const (
	tryPoint phase = iota
	multiply       // by the second derivative
	finished
)

// state is a point, whose last weight is the bias, and the objective there.
type state struct {
	point, gradient, diagonal []float64
	objective, faults, length float64 // faults as Stats has them; length of the gradient
}

// conjugate is the search for a direction: see Nocedal and Wright, "Numerical optimization", algorithm 7.1.
type conjugate struct {
	residual, scaled, search, product []float64
	reach, goal                       float64 // residual . scaled, and its goal
	products                          int
}

const (
	// tolerance ends training when the gradient is this share of the first one, for classes times the share of the rarer: the objective is
	// then usually within a ten-thousandth of the minimum. liblinear's is 0.01.
	tolerance = 0.003
	// forcing is how far conjugate gradients reduce the residual in a step. Squared losses need only one step, to the minimum.
	forcing      = 0.3
	mostProducts = 100 // in a step
	// sufficient is the share of the decrease promised by the slope for which a step is accepted (Armijo's rule), and mostHalvings how
	// often it is halved first.
	sufficient   = 1e-4
	mostHalvings = 30
	bolder       = 4
	mostChunks   = 16
	// entriesPerWeight is the minimum number of entries per weight in a chunk, since chunks are added up.
	entriesPerWeight = 4
)

// NewDirect implements apps.Direct, without l1.
func (p *Program) NewDirect(open apps.Open, _ uint64, threads int) (apps.DirectTrainer, error) {
	if p.l1 > 0 {
		return nil, fmt.Errorf("l1 by Newton's method: %w", errors.ErrUnsupported)
	}
	t := &newton{program: p, threads: threads, straight: 1}
	var trains []*labelled.Examples
	err := p.task.EachSplit(open, func(_ ps.Split, train, test *labelled.Examples) error {
		trains, t.tests = append(trains, train), append(t.tests, test)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the splits: %w", err)
	}
	n := p.task.Inputs + 1
	t.chunks = p.chunks(trains, n)
	for _, v := range []*[]float64{&t.at.point, &t.at.gradient, &t.at.diagonal, &t.trial.point, &t.trial.gradient, &t.trial.diagonal,
		&t.direction, &t.gradients.residual, &t.gradients.scaled, &t.gradients.search, &t.gradients.product} {
		*v = make([]float64, n)
	}
	return t, nil
}

// Row returns the weights of a block, in the form of the tables that machines train.
func (t *newton) Row(k ps.Key) []float32 {
	p := t.program
	row := make([]float32, p.Tables()[k.Table].Cols)
	first := int(k.Row) * blockSize
	if p.ruled() && k.Table == tableBias {
		first = p.bias()
	}
	for j := range blockSize {
		switch feature := first + j; {
		case feature < p.task.Inputs:
			row[j] = float32(t.at.point[feature])
		case feature == p.bias():
			row[j] = float32(t.at.point[p.task.Inputs])
		}
	}
	return row
}

// Step makes one pass over the data.
func (t *newton) Step(c ps.Clock, evaluate bool) (apps.Stats, error) {
	p := t.program
	stats := apps.Stats{Examples: p.task.Size(), Work: p.WorkPerClock()}
	if evaluate {
		stats.TestCount, stats.TestLoss = t.evaluate()
	}
	switch t.phase {
	case tryPoint:
		t.measure(&t.trial)
		if f := t.trial.objective; c == 1 && f-f != 0 {
			return stats, fmt.Errorf("%s: the data's numbers are too large", p.name)
		}
		t.search(c == 1)
	case multiply:
		t.multiply()
	}
	stats.Loss = t.at.faults
	return stats, nil
}

// Converged implements apps.Converging.
func (t *newton) Converged() string { return t.why }

// search accepts the point that was tried, or tries one half as far away.
func (t *newton) search(first bool) {
	if !first && !(t.trial.objective <= t.at.objective+sufficient*t.step*t.slope) {
		t.straight = min(1, bolder*t.straight)
		if t.step /= 2; t.step < math.Pow(2, -mostHalvings) {
			t.phase, t.why = finished, "no step makes the objective smaller"
			return
		}
		t.aim()
		return
	}
	if t.at, t.trial = t.trial, t.at; !first && t.step == 1 { // the next one may be bolder
		t.straight /= bolder
	}
	if first {
		t.enough = tolerance * t.balance() * t.at.length
	}
	if t.at.length <= t.enough {
		t.phase, t.why = finished, "it has converged: nearly no gradient is left"
		return
	}
	t.begin()
}

// balance returns the share of the rarer class, as the first gradient is small if nearly all examples are of one; 1 for numbers.
func (t *newton) balance() float64 {
	if !t.program.rule.loss.classifies() {
		return 1
	}
	var positive int64
	for _, c := range t.chunks {
		for _, s := range c.spans {
			for _, goal := range s.goals {
				if goal > 0 {
					positive++
				}
			}
		}
	}
	n := t.program.task.Size()
	return float64(max(min(positive, n-positive), 1)) / float64(n)
}

// begin starts the search for the next direction.
func (t *newton) begin() {
	g := &t.gradients
	clear(t.direction)
	for j, slope := range t.at.gradient {
		g.residual[j] = -slope
		g.scaled[j] = -slope / t.at.diagonal[j]
		g.search[j] = g.scaled[j]
	}
	g.reach = dot(g.residual, g.scaled)
	share := forcing
	if t.program.rule.loss == squared {
		share = tolerance / 4
	}
	g.goal, g.products, t.phase = share*share*g.reach, 0, multiply
}

// multiply moves along the current search direction, and ends the search when it is accurate enough.
func (t *newton) multiply() {
	g := &t.gradients
	t.times(g.search, g.product)
	g.products++
	bend := dot(g.search, g.product)
	flat := !(bend > 1e-12*dot(g.search, g.search)*t.program.l2) || bend <= 0
	if flat {
		if g.products == 1 {
			copy(t.direction, g.search)
		}
		t.turn()
		return
	}
	far := g.reach / bend
	for j := range t.direction {
		t.direction[j] += far * g.search[j]
		g.residual[j] -= far * g.product[j]
		g.scaled[j] = g.residual[j] / t.at.diagonal[j]
	}
	before := g.reach
	if g.reach = dot(g.residual, g.scaled); g.reach <= g.goal || g.products == mostProducts {
		t.turn()
		return
	}
	for j := range g.search {
		g.search[j] = g.scaled[j] + g.reach/before*g.search[j]
	}
}

// turn starts the line search along the direction.
func (t *newton) turn() {
	t.slope, t.step = dot(t.at.gradient, t.direction), 1
	t.aim()
}

// aim sets the point to be tried.
func (t *newton) aim() {
	for j := range t.trial.point {
		t.trial.point[j] = t.at.point[j] + t.step*t.direction[j]
	}
	t.phase = tryPoint
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
