package linear

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// rare returns a table in which one class of two has 19 of 200 examples.
func rare() string {
	var b strings.Builder
	b.WriteString("a,b,class\n")
	for i := range 200 {
		x, y, class := float64(i*37%101)/10, float64(i*53%97)/7, "no"
		if x*.6-y*.35+float64(i*29%31)/10 > 5.3 {
			class = "yes"
		}
		fmt.Fprintf(&b, "%v,%v,%s\n", x, y, class)
	}
	return b.String()
}

// Balanced classes find the rare one. Weights and figures equal those of scikit-learn's LogisticRegression(C=1, class_weight=...) on
// standardised columns, and of its metrics.
func TestClassWeights(t *testing.T) {
	files, dataset := prepare(t, "rare", strings.NewReader(rare()), apps.Cut{Splits: 2, Seed: 1})
	for name, c := range map[string]struct {
		weights []float64 // and the bias
		figure  string
	}{
		"none":     {[]float64{2.23893, -2.07082, -4.64641}, `class "yes": recall 0.5263, F1 0.625; AUC 0.9747`},
		"balanced": {[]float64{2.97761, -2.58267, -3.80264}, `class "yes": recall 1, F1 0.6909; AUC 0.9747`},
	} {
		k := kind(t, "logistic")
		made, err := k.New(apps.Params{"class_weights": name}, dataset)
		if err != nil {
			t.Fatal(err)
		}
		p := made.(*Program)
		n := directly(t, p, files, 2)
		for i, want := range c.weights {
			if got := n.at.point[i]; math.Abs(got-want) > .01*math.Abs(want) {
				t.Errorf("%s: weight %d is %v, want %v", name, i, got, want)
			}
		}
		m, err := p.Export(n, files.Open)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Predict(m, apps.Input{Name: "rare", Data: strings.NewReader(rare())})
		if err != nil || !strings.HasSuffix(got.Figure, c.figure) {
			t.Errorf("%s: %s, %v; want %s", name, got.Figure, err, c.figure)
		}
		// On machines the same minimum is found.
		trainer := train(t, k, apps.Params{"class_weights": name}, files, dataset, 600)
		for i, want := range c.weights[:2] {
			if got := float64(trainer.trainer.Row(ps.Key{})[i]); math.Abs(got-want) > .03*math.Abs(want) {
				t.Errorf("%s on machines: weight %d is %v, want %v", name, i, got, want)
			}
		}
	}
}

// Held-out examples are judged with the finished model; a regression has no classes.
func TestJudge(t *testing.T) {
	files, dataset := prepare(t, "rare", strings.NewReader(rare()), apps.Cut{Splits: 2, Holdout: .5, Seed: 1})
	p, err := kind(t, "logistic").New(nil, dataset)
	if err != nil {
		t.Fatal(err)
	}
	n := directly(t, p.(*Program), files, 1)
	m, err := p.Export(n, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := p.Evaluate(n, files.Open)
	if err != nil {
		t.Fatal(err)
	}
	q, err := apps.Judge(p, m, files.Open)
	if err != nil || q == nil || q.Examples != stats.TestCount || math.Abs(q.Accuracy-(1-p.Score(stats.TestLoss, stats.TestCount))) > 1e-12 || q.AUC == nil {
		t.Errorf("%+v, %v; tested %+v", q, err, stats)
	}
	files, dataset = small(t, "ridge", 1)
	made := train(t, kind(t, "ridge"), nil, files, dataset, 5)
	m, _ = made.program.Export(made.trainer, files.Open)
	if q, err := apps.Judge(made.program, m, files.Open); q != nil || err != nil {
		t.Errorf("of a regression: %+v, %v", q, err)
	}
}
