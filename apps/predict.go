package apps

import "github.com/tierml/tierml/apps/model"

// Predictor is a Kind whose finished models predict the examples of a data file.
type Predictor interface {
	Kind
	// Predict reads a data file in a format that Prepare reads, which need not have the predicted column, and predicts each of its
	// examples, in the file's order.
	Predict(m model.Model, in Input) (Predictions, error)
}

// Predictions are those of one data file, as a table of words.
type Predictions struct {
	Columns []string
	Rows    int
	// Row appends the cells of one row. An empty cell means that the model has no answer.
	Row func(i int, cells []string) []string
	// Figure compares them with what the file has, such as "accuracy 0.93 on 120 examples"; empty if it has nothing to compare with.
	Figure   string
	BadLines int // left out
}
