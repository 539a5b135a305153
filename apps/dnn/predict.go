package dnn

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/internal/journal"
)

// predictor predicts from a model file.
type predictor struct {
	classes  []string
	layers   []affine
	examples *labelled.Examples
}

// affine is one layer: its weights, a row for each input, and its biases.
type affine struct {
	outputs      int
	weight, bias []float32
}

// Predict implements apps.Predictor: each example's class and its probability, the softmax of the last layer.
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
	tally := labelled.NewTally(p.classes)
	for i, label := range labels {
		class, probabilities := p.predict(i)
		tally.Add(label, class, probabilities...)
	}
	return apps.Predictions{
		Columns: []string{"prediction", "probability"},
		Rows:    len(examples.Start) - 1,
		Row: func(i int, cells []string) []string {
			class, probabilities := p.predict(i)
			return append(cells, p.classes[class], strconv.FormatFloat(probabilities[class], 'g', 9, 64))
		},
		Figure:   tally.Figure(),
		BadLines: badLines,
	}, nil
}

func newPredictor(m model.Model) (*predictor, *labelled.Encoding, error) {
	var sizes []int
	if err := json.Unmarshal([]byte(m.Metadata["sizes"]), &sizes); err != nil || len(sizes) < 2 {
		return nil, nil, fmt.Errorf("the model's sizes are %q", m.Metadata["sizes"])
	}
	p := &predictor{}
	for i, inputs := range sizes[:len(sizes)-1] {
		name := fmt.Sprintf("layer%d.", i+1)
		weight, _ := m.Tensor(name + "weight")
		bias, _ := m.Tensor(name + "bias")
		if inputs < 1 || len(bias.Float) != sizes[i+1] || len(weight.Float) != inputs*sizes[i+1] {
			return nil, nil, fmt.Errorf("the model's layer %d does not fit its sizes %v", i+1, sizes)
		}
		p.layers = append(p.layers, affine{outputs: sizes[i+1], weight: weight.Float, bias: bias.Float})
	}
	encoding, err := labelled.NewEncoding(m, sizes[0])
	if err != nil {
		return nil, nil, err
	}
	if p.classes = encoding.Classes; len(p.classes) != sizes[len(sizes)-1] {
		return nil, nil, errors.New("the model's classes do not fit its last layer")
	}
	return p, encoding, nil
}

// Judge implements apps.Classifier.
func (p *Program) Judge(m model.Model, open apps.Open) (*journal.Quality, error) {
	from, _, err := newPredictor(m)
	if err != nil {
		return nil, err
	}
	return p.task.Judge(open, func(test *labelled.Examples, i int) (int, []float64) {
		from.examples = test
		return from.predict(i)
	})
}

// predict returns the index of the most likely class, the first of equals, and the classes' probabilities.
func (p *predictor) predict(i int) (class int, probabilities []float64) {
	index, value := p.examples.Row(i)
	first := p.layers[0]
	units := first.start()
	for k, feature := range index {
		first.add(units, int(feature), float64(value[k]))
	}
	for _, l := range p.layers[1:] {
		next := l.start()
		for j, x := range units {
			if x > 0 {
				l.add(next, j, x)
			}
		}
		units = next
	}
	for j, x := range units {
		if x > units[class] {
			class = j
		}
	}
	var sum float64
	top := units[class]
	for j, x := range units {
		units[j] = math.Exp(x - top)
		sum += units[j]
	}
	for j := range units {
		units[j] /= sum
	}
	return class, units
}

func (l affine) start() []float64 {
	units := make([]float64, l.outputs)
	for j, b := range l.bias {
		units[j] = float64(b)
	}
	return units
}

func (l affine) add(units []float64, input int, x float64) {
	for j, w := range l.weight[input*l.outputs : (input+1)*l.outputs] {
		units[j] += float64(float64(w) * x)
	}
}
