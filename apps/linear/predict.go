package linear

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/internal/journal"
)

// predictor predicts from a model file; the package's comment about its tensors has the formula.
type predictor struct {
	weights       []float32
	bias          float64
	center, scale float64
	classes       []string
	probability   bool
	examples      *labelled.Examples
}

// Predict implements apps.Predictor. A classification returns each example's class, and its probability if the loss is logistic, else its
// score; a regression returns the number.
func (k Kind) Predict(m model.Model, in apps.Input) (apps.Predictions, error) {
	p, encoding, err := newPredictor(m)
	if err != nil {
		return apps.Predictions{}, fmt.Errorf("%s: %w", k.name, err)
	}
	examples, labels, badLines, err := encoding.Read(in)
	if err != nil {
		return apps.Predictions{}, err
	}
	p.examples = examples
	out := apps.Predictions{Rows: len(examples.Start) - 1, BadLines: badLines}
	switch {
	case len(p.classes) == 0:
		out.Columns = []string{"prediction"}
		out.Row = func(i int, cells []string) []string { return append(cells, cell(p.number(i))) }
		if out.Figure = labelled.RMSE(labels, p.number); m.Metadata["loss"] == lossNames[huber] {
			out.Figure = labelled.MAE(labels, p.number)
		}
		return out, nil
	case p.probability:
		out.Columns = []string{"prediction", "probability"}
	default:
		out.Columns = []string{"prediction", "score"}
	}
	out.Row = func(i int, cells []string) []string { return append(cells, p.class(i), cell(p.sure(i))) }
	tally := labelled.NewTally(p.classes)
	for i, label := range labels {
		tally.Add(label, p.place(i), p.score(i))
	}
	out.Figure = tally.Figure()
	return out, nil
}

func newPredictor(m model.Model) (*predictor, *labelled.Encoding, error) {
	weights, _ := m.Tensor(tensorWeights)
	bias, _ := m.Tensor(tensorBias)
	if weights.Float == nil || len(bias.Float) != 1 {
		return nil, nil, errors.New("the model has no weights and bias")
	}
	encoding, err := labelled.NewEncoding(m, len(weights.Float))
	if err != nil {
		return nil, nil, err
	}
	p := &predictor{weights: weights.Float, bias: float64(bias.Float[0]), classes: encoding.Classes, probability: m.Metadata["loss"] == lossNames[logistic]}
	switch len(p.classes) {
	case 2:
		return p, encoding, nil
	case 0:
	default:
		return nil, nil, fmt.Errorf("the model has %d classes", len(p.classes))
	}
	if p.center, err = strconv.ParseFloat(m.Metadata["center"], 64); err != nil {
		return nil, nil, fmt.Errorf("the model's center: %w", err)
	}
	if p.scale, err = strconv.ParseFloat(m.Metadata["scale"], 64); err != nil {
		return nil, nil, fmt.Errorf("the model's scale: %w", err)
	}
	return p, encoding, nil
}

func (p *predictor) score(i int) float64 {
	index, value := p.examples.Row(i)
	score := p.bias
	for k, feature := range index {
		score += float64(float64(p.weights[feature]) * float64(value[k]))
	}
	return score
}

func (p *predictor) number(i int) float64 { return p.center + float64(p.scale*p.score(i)) }

func (p *predictor) class(i int) string { return p.classes[p.place(i)] }

// place returns the predicted class's place.
func (p *predictor) place(i int) int {
	if p.score(i) > 0 {
		return 1
	}
	return 0
}

// Judge implements apps.Classifier.
func (p *Program) Judge(m model.Model, open apps.Open) (*journal.Quality, error) {
	if !p.rule.loss.classifies() {
		return nil, nil
	}
	from, _, err := newPredictor(m)
	if err != nil {
		return nil, err
	}
	return p.task.Judge(open, func(test *labelled.Examples, i int) (int, []float64) {
		from.examples = test
		return from.place(i), []float64{from.score(i)}
	})
}

// sure returns the probability of the predicted class, or the score if the loss has no probabilities.
func (p *predictor) sure(i int) float64 {
	score := p.score(i)
	if !p.probability {
		return score
	}
	return 1 / (1 + math.Exp(-math.Abs(score)))
}

func cell(x float64) string { return strconv.FormatFloat(x, 'g', 9, 64) }
