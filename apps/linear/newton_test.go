package linear

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
)

// noisy generates two classes, or numbers, from features on very different scales.
func noisy(rare bool) string {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for range 2000 {
		score, line := r.NormFloat64(), ""
		for j := range 12 {
			if r.IntN(3) > 0 {
				x := r.NormFloat64()
				score += x * float64(j%5-2)
				line += fmt.Sprintf(" %d:%.4g", j+1, x*math.Pow(10, float64(j%4)))
			}
		}
		if rare {
			score -= 6
		}
		if score > 0 {
			fmt.Fprintln(&b, "+1"+line)
		} else {
			fmt.Fprintln(&b, "-1"+line)
		}
	}
	return b.String()
}

func directly(t testing.TB, p *Program, files splitmem.Files, threads int) *newton {
	t.Helper()
	trainer, err := local.NewDirect(p, 1, files.Open, threads)
	if err != nil {
		t.Fatal(err)
	}
	n := trainer.DirectTrainer.(*newton)
	for n.Converged() == "" {
		if trainer.Clock() == 300 {
			t.Fatalf("%s has not converged after 300 clocks: objective %v", p.name, n.at.objective)
		}
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s, l2 %v: %d clocks to %.6f, %s", p.name, p.l2, trainer.Clock(), n.at.objective, n.Converged())
	return n
}

// Newton's method ends at the minimum, for each loss and penalty, with rare classes and features on any scale: plain gradient steps from
// there improve almost nothing.
func TestNewtonFindsTheMinimum(t *testing.T) {
	for _, rare := range []bool{false, true} {
		files, dataset := prepare(t, "noisy", strings.NewReader(noisy(rare)), apps.Cut{Splits: 3, Holdout: 0.1, Seed: 1})
		for _, name := range []string{"logistic", "svm", "ridge", "robust"} {
			for _, l2 := range []float64{0, 1e-5, 1e-3, 1} {
				made, err := kind(t, name).New(apps.Params{"l2": l2}, dataset)
				if err != nil {
					t.Fatal(err)
				}
				p := made.(*Program)
				n := directly(t, p, files, 2)
				least := descended(n)
				if gap := n.at.objective/least - 1; gap > 2e-3 {
					t.Errorf("%s, l2 %v, rare %v: objective %.6f is %.2g above %.6f", name, l2, rare, n.at.objective, gap, least)
				}
				// The tables give the same model.
				objective, err := p.Objective(anyRows{n}, files.Open)
				if err != nil || math.Abs(objective/n.at.objective-1) > 1e-5 {
					t.Errorf("%s, l2 %v: objective %v by its tables, %v; want %v", name, l2, objective, err, n.at.objective)
				}
				stats, err := p.Evaluate(anyRows{n}, files.Open)
				if count, loss := n.evaluate(); err != nil || stats.TestCount != count || math.Abs(stats.TestLoss-loss) > 1e-3*loss+1 {
					t.Errorf("%s, l2 %v: %+v by its tables, %v; want %d, %v", name, l2, stats, err, count, loss)
				}
			}
		}
	}
}

// anyRows hides the tables' type.
type anyRows struct{ apps.Rows }

// descended continues with gradient steps scaled by each feature's own curvature, as long as they help.
func descended(n *newton) float64 {
	at, trial := n.at, state{point: slices.Clone(n.at.point), gradient: make([]float64, len(n.at.point)), diagonal: make([]float64, len(n.at.point))}
	at.point, at.gradient, at.diagonal = slices.Clone(at.point), slices.Clone(at.gradient), slices.Clone(at.diagonal)
	for step := 1.0; step > 1e-9; {
		for j := range trial.point {
			trial.point[j] = at.point[j] - step*at.gradient[j]/max(at.diagonal[j], 1e-9)
		}
		if n.measure(&trial); trial.objective < at.objective-1e-9 {
			at, trial = trial, at
			step *= 1.5
		} else {
			step /= 2
		}
	}
	return at.objective
}

func TestNewtonAndThreads(t *testing.T) {
	files, dataset := prepare(t, "noisy", strings.NewReader(noisy(false)), apps.Cut{Splits: 5, Seed: 1})
	made, err := kind(t, "logistic").New(nil, dataset)
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*Program)
	var want []float64
	for _, threads := range []int{1, 2, 7} {
		got := directly(t, p, files, threads).at.point
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d threads: another model", threads)
		}
	}
}

// The servers' rule has other tables; the model is the same.
func TestNewtonForServersTables(t *testing.T) {
	files, dataset := prepare(t, "noisy", strings.NewReader(noisy(false)), apps.Cut{Splits: 2, Seed: 1})
	var weights [][]float32
	for _, optimizer := range methodNames {
		made, err := kind(t, "logistic").New(apps.Params{"optimizer": optimizer}, dataset)
		if err != nil {
			t.Fatal(err)
		}
		p := made.(*Program)
		w, bias := p.weights(directly(t, p, files, 1))
		weights = append(weights, append(w, bias))
	}
	if !slices.Equal(weights[0], weights[1]) || !slices.Equal(weights[0], weights[2]) {
		t.Errorf("%v", weights)
	}
}

func TestNewtonRefuses(t *testing.T) {
	files, dataset := prepare(t, "noisy", strings.NewReader(noisy(false)), apps.Cut{Splits: 2, Seed: 1})
	made, err := kind(t, "logistic").New(apps.Params{"l1": 0.1}, dataset)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.(apps.Direct).NewDirect(files.Open, 1, 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("l1: %v", err)
	}
	for id, file := range files {
		files[id] = bytes.NewBuffer(file.Bytes()[:10])
	}
	if made, err = kind(t, "logistic").New(nil, dataset); err != nil {
		t.Fatal(err)
	}
	if _, err := made.(apps.Direct).NewDirect(files.Open, 1, 1); err == nil {
		t.Error("damaged splits were read")
	}
}
