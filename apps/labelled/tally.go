package labelled

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tierml/tierml/internal/journal"
)

// Tally collects a classifier's predictions for examples whose classes are known. Its metrics match scikit-learn's.
type Tally struct {
	classes     []string // the model's classes, then those found only in the data
	known       int      // classes of the model
	truth, said []int
	scores      [][]float64 // of the second of two classes, or of each class, by example; nil beyond mostScores
}

// mostScores bounds the memory of a tally.
const mostScores = 1 << 24

// NewTally creates a Tally for a model with these classes.
func NewTally(classes []string) *Tally {
	return &Tally{classes: slices.Clone(classes), known: len(classes), scores: [][]float64{}}
}

// Add adds an example: its class, the index of the predicted one, and a score for each class, or for the second of two.
func (t *Tally) Add(class string, predicted int, scores ...float64) {
	at := slices.Index(t.classes, class)
	if at < 0 {
		at, t.classes = len(t.classes), append(t.classes, class)
	}
	t.AddPlace(at, predicted, scores...)
}

// AddPlace is Add with the class's index.
func (t *Tally) AddPlace(class, predicted int, scores ...float64) {
	t.truth, t.said = append(t.truth, class), append(t.said, predicted)
	if len(scores) == 2 {
		scores = scores[1:]
	}
	if len(t.truth)*len(scores) > mostScores {
		t.scores = nil
	}
	if t.scores != nil {
		t.scores = append(t.scores, slices.Clone(scores))
	}
}

// Quality returns the metrics; nil without examples.
func (t *Tally) Quality() *journal.Quality {
	n := len(t.truth)
	if n == 0 {
		return nil
	}
	are, said, right := make([]int, len(t.classes)), make([]int, len(t.classes)), make([]int, len(t.classes))
	all := 0
	for i, class := range t.truth {
		are[class]++
		if said[t.said[i]]++; class == t.said[i] {
			right[class]++
			all++
		}
	}
	most := 0
	for class := range are {
		if are[class] > are[most] {
			most = class
		}
	}
	share := func(part, of int) float64 { return float64(part) / float64(max(of, 1)) }
	q := &journal.Quality{Examples: int64(n), Accuracy: share(all, n), Majority: share(are[most], n), Usual: t.classes[most]}
	if t.known == 2 && len(t.classes) == 2 { // of the rarer, or the second
		rarer := 1
		if are[0] < are[1] {
			rarer = 0
		}
		q.Class, q.Recall, q.F1 = t.classes[rarer], share(right[rarer], are[rarer]), share(2*right[rarer], are[rarer]+said[rarer])
	} else {
		there := 0
		for class := range are {
			if are[class]+said[class] > 0 {
				q.Recall += share(right[class], are[class])
				q.F1 += share(2*right[class], are[class]+said[class])
				there++
			}
		}
		q.Recall, q.F1 = q.Recall/float64(there), q.F1/float64(there)
	}
	q.AUC = t.auc(are)
	return q
}

// auc returns the area under the receiver operating characteristic: for two classes, or the mean of each against the others. Nil if the
// examples lack a class of the model.
func (t *Tally) auc(are []int) *float64 {
	if t.scores == nil || len(t.classes) != t.known || slices.Contains(are, 0) {
		return nil
	}
	sum := 0.0
	columns := len(t.scores[0])
	for column := range columns {
		class := column
		if columns == 1 {
			class = 1
		}
		sum += t.area(column, class, are[class])
	}
	area := sum / float64(columns)
	return &area
}

// area returns the share of pairs, one of each of two classes, that the scores order correctly; ties count half.
func (t *Tally) area(column, class, ones int) float64 {
	order := make([]int, len(t.truth))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(t.scores[a][column], t.scores[b][column]) })
	ranks := 0.0
	for from := 0; from < len(order); {
		to := from
		inClass := 0
		for to < len(order) && t.scores[order[to]][column] == t.scores[order[from]][column] {
			if t.truth[order[to]] == class {
				inClass++
			}
			to++
		}
		ranks += float64(inClass) * float64(from+1+to) / 2
		from = to
	}
	n := float64(ones)
	return (ranks - n*(n+1)/2) / (n * (float64(len(order)) - n))
}

// Figure describes the quality of the predictions; empty without examples.
func (t *Tally) Figure() string {
	q := t.Quality()
	if q == nil {
		return ""
	}
	return fmt.Sprintf("accuracy %.6g on %d examples; %s", q.Accuracy, q.Examples, q)
}
