package apps

import "github.com/tierml/tierml/apps/model"

// Predictor is a Kind whose finished models predict the examples of a data file.
type Predictor interface {
	Kind
	// Predict reads a data file in a format that Prepare reads, in which the predicted column may be missing, and predicts each of its
	// examples, in the file's order.
	Predict(m model.Model, in Input) (Predictions, error)
}

// Predictions are the predictions for one data file, as a table of words.
type Predictions struct {
	Columns []string
	Rows    int
	// Row appends the cells of one row. An empty cell means that the model has no answer.
	Row func(i int, cells []string) []string
	// Figure compares them with the file's values, such as "accuracy 0.93 on 120 examples"; empty if there are none.
	Figure   string
	BadLines int // left out
}
