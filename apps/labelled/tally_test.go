package labelled

import (
	"math"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
)

// The figures equal those of scikit-learn's accuracy_score, recall_score, f1_score and roc_auc_score (for two classes, with ties; for three
// with average="macro" and multi_class="ovr").
func TestTally(t *testing.T) {
	two := NewTally([]string{"no", "yes"})
	for i, score := range []float64{-2, -1.5, -1, -.5, .2, .2, .2, 1.5, -1, -3} {
		class, said := "no", 0
		if i >= 6 && i < 9 {
			class = "yes"
		}
		if score > 0 {
			said = 1
		}
		two.Add(class, said, score)
	}
	three := NewTally([]string{"a", "b", "c"})
	truth := []int{0, 0, 0, 1, 1, 2, 2, 2, 2, 1}
	for i, p := range [][]float64{{.6, .3, .1}, {.2, .5, .3}, {.5, .25, .25}, {.1, .8, .1}, {.4, .35, .25}, {.1, .1, .8}, {.3, .3, .4}, {.5, .2, .3}, {.2, .2, .6}, {.3, .4, .3}} {
		three.AddPlace(truth[i], []int{0, 1, 0, 1, 0, 2, 2, 0, 2, 1}[i], p...)
	}
	for name, c := range map[string]struct {
		tally *Tally
		want  journal.Quality
		auc   float64
	}{
		"two":   {two, journal.Quality{Examples: 10, Accuracy: .7, Majority: .7, Usual: "no", Class: "yes", Recall: 2. / 3, F1: 4. / 7}, .7857142857142857},
		"three": {three, journal.Quality{Examples: 10, Accuracy: .7, Majority: .4, Usual: "c", Recall: 0.6944444444444443, F1: 0.6984126984126985}, .875},
	} {
		got := c.tally.Quality()
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
		if got.AUC == nil || !near(*got.AUC, c.auc) || !near(got.Recall, c.want.Recall) || !near(got.F1, c.want.F1) || !near(got.Accuracy, c.want.Accuracy) {
			t.Errorf("%s: %+v, AUC %v", name, got, got.AUC)
		}
		if got.Majority != c.want.Majority || got.Usual != c.want.Usual || got.Class != c.want.Class || got.Examples != c.want.Examples {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if NewTally([]string{"a", "b"}).Quality() != nil {
		t.Error("figures without examples")
	}
	two.Add("perhaps", 0, 1) // a class that the model does not know
	if q := two.Quality(); q.AUC != nil || q.Class != "" || q.Examples != 11 {
		t.Errorf("an unknown class: %+v", q)
	}
	if text := three.Figure(); !strings.HasPrefix(text, `accuracy 0.7 on 10 examples; always "c" would reach 0.4; mean over classes: recall 0.6944`) || !strings.HasSuffix(text, "AUC 0.875") {
		t.Error(text)
	}
}
