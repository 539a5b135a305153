package linear

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// An example's best force pulls as its loss does, at the margin that it leads to: found here by bisection.
func TestForceBalancesTheLoss(t *testing.T) {
	for _, r := range []rule{{hinge, 0.5}, {hinge, 0.01}} {
		for _, curvature := range []float64{1e-6, 0.1, 1, 30, 1e4} {
			for _, old := range []float64{0, 0.3, 1} {
				for margin := -40.0; margin <= 40; margin += 0.7 {
					low, high := 0.0, 1.0
					for range 60 {
						f := (low + high) / 2
						if pulls := -float64(r.slope(float32(margin+curvature*(f-old)), 1)); pulls > f {
							low = f
						} else {
							high = f
						}
					}
					if got := r.force(margin, old, curvature); math.Abs(got-low) > 2e-3 {
						t.Fatalf("%s, margin %v, force %v, curvature %v: new force %v, want %v", lossNames[r.loss], margin, old, curvature, got, low)
					}
				}
			}
		}
	}
}

// At the minimum the objective's gradient is 0, along the bias too, which no penalty holds.
func TestDualFindsTheMinimum(t *testing.T) {
	for _, name := range []string{"svm"} {
		for _, l2 := range []float64{0.003, 0.03, 1} {
			files, dataset := small(t, name, 3)
			var last []float32
			for _, seed := range []uint64{1, 1, 2} {
				program, err := kind(t, name).New(apps.Params{"l2": l2}, dataset)
				if err != nil {
					t.Fatal(err)
				}
				p := program.(*Program)
				train, test, err := p.readAll(files.Open)
				if err != nil {
					t.Fatal(err)
				}
				d := newDual(p, seed, train, test)
				for c := range 300 {
					if _, err := d.Step(ps.Clock(c+1), c%100 == 0); err != nil {
						t.Fatal(err)
					}
				}
				if seed == 1 && last != nil && !slices.Equal(last, d.weights) {
					t.Errorf("%s, l2 %v: the same seed leads to other weights", name, l2)
				}
				last = slices.Clone(d.weights)
				if slope := steepest(denseOf(t, p, files), p, d.weights); slope > 2e-4 {
					t.Errorf("%s, l2 %v, seed %d: the gradient at the end has %v", name, l2, seed, slope)
				}
			}
		}
	}
}

// steepest is the largest number of the objective's gradient.
func steepest(d dense, p *Program, weights []float32) float64 {
	gradient := make([]float64, len(weights))
	for j, w := range weights[:len(weights)-1] {
		gradient[j] = p.l2 * float64(w)
	}
	for i, row := range d.rows {
		score := 0.0
		for j, x := range row {
			score += x * float64(weights[j])
		}
		slope := float64(p.rule.slope(float32(score), float32(d.goals[i])))
		for j, x := range row {
			gradient[j] += slope * x / float64(len(d.rows))
		}
	}
	largest := 0.0
	for _, g := range gradient {
		largest = max(largest, math.Abs(g))
	}
	return largest
}

// Logistic regression goes by Newton's method and the hinge by the dual. With no or another penalty, with too little of
// one for the dual, or for numbers, gradients are taken.
func TestWhichMethod(t *testing.T) {
	for _, c := range []struct {
		name   string
		params apps.Params
		want   string
	}{
		{"logistic", apps.Params{"l2": 0.001}, "*linear.newton"},
		{"logistic", apps.Params{"l2": 1e-9}, "*linear.newton"},
		{"svm", apps.Params{"l2": 0.01}, "*linear.dual"},
		{"logistic", apps.Params{"l1": 0.001}, "*linear.direct"},
		{"logistic", apps.Params{"l2": 0}, "*linear.direct"},
		{"svm", apps.Params{"l2": 1e-9}, "*linear.direct"},
		{"ridge", nil, "*linear.direct"},
	} {
		files, dataset := small(t, c.name, 1)
		_, d := inPlace(t, kind(t, c.name), c.params, files, dataset, 0, 1)
		if got := fmt.Sprintf("%T", d.DirectTrainer); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.name, c.params, got, c.want)
		}
	}
}
