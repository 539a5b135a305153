package linear

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fmt"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// wide is a LIBSVM file with more features than the Hessian is worked out for, some of which hardly occur.
func wide(t *testing.T, examples, features int) (splitmem.Files, apps.Dataset) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 3))
	var text strings.Builder
	for i := range examples {
		fmt.Fprintf(&text, "%d", 2*(i&1)-1)
		for j := range features {
			if r.Float64() < 20/float64(features)/float64(1+j%7*j%7) {
				fmt.Fprintf(&text, " %d:%.3f", j+1, r.NormFloat64()+0.3*float64(i&1)*math.Sin(float64(j)))
			}
		}
		text.WriteByte('\n')
	}
	return prepare(t, "wide.svm", strings.NewReader(text.String()), apps.Cut{Splits: 2, Seed: 1})
}

// At the minimum the objective's gradient is 0, however the Hessian is made and however many threads there are.
func TestNewtonFindsTheMinimum(t *testing.T) {
	narrow, narrowData := small(t, "logistic", 3)
	many, manyData := wide(t, 1500, 700)
	for _, c := range []struct {
		files   splitmem.Files
		dataset apps.Dataset
		matrix  bool
	}{{narrow, narrowData, true}, {many, manyData, false}} {
		for _, l2 := range []float64{1e-6, 1e-3, 1} {
			program, err := kind(t, "logistic").New(apps.Params{"l2": l2}, c.dataset)
			if err != nil {
				t.Fatal(err)
			}
			p := program.(*Program)
			var last []float32
			for _, threads := range []int{1, 3} {
				train, test, err := p.readAll(c.files.Open)
				if err != nil {
					t.Fatal(err)
				}
				d := newNewton(p, threads, train, test)
				if got := d.hessian.matrix != nil; got != c.matrix {
					t.Fatalf("%d features: the Hessian is worked out: %v", p.task.Inputs, got)
				}
				for clock := range 60 {
					if _, err := d.Step(ps.Clock(clock+1), clock%50 == 0); err != nil {
						t.Fatal(err)
					}
				}
				if last != nil && !slices.Equal(last, d.weights) {
					t.Errorf("l2 %v: other weights with %d threads", l2, threads)
				}
				last = slices.Clone(d.weights)
			}
			if slope := steepest(denseOf(t, p, c.files), p, last); slope > 1e-5 {
				t.Errorf("%d features, l2 %v: the gradient at the end has %v", p.task.Inputs, l2, slope)
			}
		}
	}
}

// A step that goes too far is shortened.
func TestNewtonShortensItsSteps(t *testing.T) {
	files, dataset := small(t, "logistic", 3)
	program, err := kind(t, "logistic").New(nil, dataset)
	if err != nil {
		t.Fatal(err)
	}
	p := program.(*Program)
	train, test, err := p.readAll(files.Open)
	if err != nil {
		t.Fatal(err)
	}
	d := newNewton(p, 1, train, test)
	shortened := false
	for c := range ps.Clock(60) {
		if _, err := d.Step(c+1, false); err != nil {
			t.Fatal(err)
		}
		if shortened = shortened || d.share < 1; c == 0 {
			for j := range d.step { // as if the Hessian were 40 times too small
				d.step[j] *= 40
				d.weights[j] = d.step[j]
			}
			d.falls *= 40
		}
	}
	if slope := steepest(denseOf(t, p, files), p, d.weights); !shortened || slope > 1e-5 {
		t.Errorf("shortened: %v, the gradient at the end has %v", shortened, slope)
	}
}

func TestSigmoid(t *testing.T) {
	for x := -100.0; x <= 100; x += 0.01 {
		if got, want := float64(sigmoid(float32(x))), 1/(1+math.Exp(-x)); math.Abs(got/want-1) > 2e-5 && math.Abs(got-want) > 1e-30 {
			t.Fatalf("sigmoid(%v) is %v, want %v", x, got, want)
		}
	}
}
