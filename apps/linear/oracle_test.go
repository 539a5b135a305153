package linear

import (
	"math"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// dense is the training data as an oracle needs it: rows with a constant 1 at the end.
type dense struct {
	rows  [][]float64
	goals []float64
}

func denseOf(t testing.TB, p *Program, files splitmem.Files) dense {
	t.Helper()
	var d dense
	err := p.task.EachSplit(files.Open, func(_ ps.Split, train, _ *labelled.Examples) error {
		for i := range train.Len() {
			row := make([]float64, p.task.Inputs+1)
			index, value := train.Row(i)
			for k, j := range index {
				row[j] = float64(value[k])
			}
			row[p.task.Inputs] = 1
			d.rows, d.goals = append(d.rows, row), append(d.goals, float64(p.goal(train.Targets[i])))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d dense) errors(w []float64) []float64 {
	e := make([]float64, len(d.rows))
	for i, row := range d.rows {
		e[i] = -d.goals[i]
		for j, x := range row {
			e[i] += x * w[j]
		}
	}
	return e
}

func (d dense) objective(r rule, l1, l2 float64, w []float64) float64 {
	var loss, penalty float64
	for i, e := range d.errors(w) {
		loss += r.value(d.goals[i]+e, d.goals[i])
	}
	for _, x := range w[:len(w)-1] {
		penalty += l1*math.Abs(x) + l2/2*x*x
	}
	return loss/float64(len(d.rows)) + penalty
}

// weighted solves the normal equations of weighted least squares with an L2 penalty on all but the constant.
func (d dense) weighted(weights []float64, l2 float64) []float64 {
	n := len(d.rows[0])
	a := make([][]float64, n) // with the right side as its last column
	for j := range a {
		a[j] = make([]float64, n+1)
	}
	for i, row := range d.rows {
		for j, x := range row {
			if x == 0 {
				continue
			}
			for k, y := range row {
				a[j][k] += weights[i] * x * y
			}
			a[j][n] += weights[i] * x * d.goals[i]
		}
	}
	for j := range n - 1 {
		a[j][j] += l2 * float64(len(d.rows))
	}
	return eliminate(a)
}

// eliminate is Gauss-Jordan elimination with pivots from the diagonal. If a pivot vanishes, the columns are dependent, as the indicators of
// a column's words are with the constant, and its weight is 0.
func eliminate(a [][]float64) []float64 {
	n := len(a)
	used := make([]bool, n)
	for range n {
		pivot := -1
		for j := range n {
			if !used[j] && (pivot < 0 || a[j][j] > a[pivot][pivot]) {
				pivot = j
			}
		}
		if a[pivot][pivot] < 1e-8 {
			break
		}
		used[pivot] = true
		for j := range n {
			if j == pivot {
				continue
			}
			f := a[j][pivot] / a[pivot][pivot]
			for k := range a[j] {
				a[j][k] -= f * a[pivot][k]
			}
		}
	}
	w := make([]float64, n)
	for j := range w {
		if used[j] {
			w[j] = a[j][n] / a[j][j]
		}
	}
	return w
}

// huberFit is iteratively reweighted least squares.
func (d dense) huberFit(delta, l2 float64) []float64 {
	weights := make([]float64, len(d.rows))
	w := make([]float64, len(d.rows[0]))
	for range 100 {
		for i, e := range d.errors(w) {
			weights[i] = min(1, delta/math.Abs(e))
		}
		w = d.weighted(weights, l2)
	}
	return w
}

// lassoFit is cyclic coordinate descent (Friedman, Hastie and Tibshirani, 2010).
func (d dense) lassoFit(l1 float64) []float64 {
	n := float64(len(d.rows))
	w := make([]float64, len(d.rows[0]))
	e := d.errors(w)
	squares := make([]float64, len(w))
	for _, row := range d.rows {
		for j, x := range row {
			squares[j] += x * x / n
		}
	}
	for range 300 {
		for j := range w {
			gradient := 0.0
			for i, row := range d.rows {
				gradient += e[i] * row[j] / n
			}
			target, threshold := squares[j]*w[j]-gradient, l1
			if j == len(w)-1 {
				threshold = 0
			}
			next := math.Copysign(max(math.Abs(target)-threshold, 0), target) / squares[j]
			for i, row := range d.rows {
				e[i] += (next - w[j]) * row[j]
			}
			w[j] = next
		}
	}
	return w
}

func ones(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// The objective comes within 0.1 % of that of a closed form, of coordinate descent, or of reweighted least squares.
func TestHousingObjective(t *testing.T) {
	const clocks, bar = 200, 0.001
	for _, name := range []string{"linear", "ridge", "lasso", "robust"} {
		var want float64
		for _, splits := range []int{1, 64} {
			files, dataset := prepareFile(t, housing, apps.Cut{Splits: splits, Holdout: 0.2, Seed: 1})
			m := train(t, kind(t, name), nil, files, dataset, clocks)
			if splits == 1 {
				d := denseOf(t, m.program, files)
				want = d.objective(m.program.rule, m.program.l1, m.program.l2, d.oracle(m.program))
			}
			got := m.objective(t)
			t.Logf("California housing, %s, %d splits: objective %.6f, oracle %.6f, gap %.4f %%; test %s %.0f",
				name, splits, got, want, 100*(got/want-1), m.program.ScoreName(), m.score(t))
			if got/want-1 > bar || got/want-1 < -1e-5 {
				t.Errorf("%s, %d splits: objective %v, oracle %v", name, splits, got, want)
			}
		}
	}
}

func (d dense) oracle(p *Program) []float64 {
	switch {
	case p.rule.loss == huber:
		return d.huberFit(p.rule.width, p.l2)
	case p.l1 > 0:
		return d.lassoFit(p.l1)
	}
	return d.weighted(ones(len(d.rows)), p.l2)
}
