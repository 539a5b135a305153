package dnn

import (
	"encoding/json"
	"fmt"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/ps"
)

// In the model file, layer N (from 1) is the tensors
//
//	layerN.weight  F32 [inputs, outputs]
//	layerN.bias    F32 [outputs]
//
// With features encoded as labelled.Task.Describe says, each layer computes inputs . weight + bias, all but the last cut off below zero;
// the class is the index of the last layer's maximum. The metadata has "sizes", a JSON list of the inputs, the units of each hidden layer
// and the classes, and "accuracy" on the held-out examples, if there are any.

// Evaluate measures all held-out examples with the final tables.
func (p *Program) Evaluate(tables apps.Rows, open apps.Open) (apps.Stats, error) {
	var total apps.Stats
	err := p.task.EachSplit(open, func(id ps.Split, train, test *labelled.Examples) error {
		s := newSplit(p, id, train, test)
		s.bind(&s.whole, tables.Row)
		count, errors := s.evaluate()
		total.TestCount += count
		total.TestLoss += errors
		return nil
	})
	if err != nil {
		return apps.Stats{}, fmt.Errorf("evaluate: %w", err)
	}
	return total, nil
}

// Export returns the model file's contents from the final tables.
func (p *Program) Export(tables apps.Rows, open apps.Open) (model.Model, error) {
	sizes, err := json.Marshal(p.sizes)
	if err != nil {
		return model.Model{}, fmt.Errorf("export: %w", err)
	}
	m := model.Model{Metadata: map[string]string{"app": p.name, "activation": "relu", "sizes": string(sizes)}}
	for layer := range p.layers() {
		in, out := p.sizes[layer], p.sizes[layer+1]
		values := make([]float32, 0, in*out)
		for row := range in {
			values = append(values, tables.Row(weights(layer, row))...)
		}
		name := fmt.Sprintf("layer%d.", layer+1)
		m.Tensors = append(m.Tensors,
			model.Tensor{Name: name + "weight", Shape: []int{in, out}, Float: values},
			model.Tensor{Name: name + "bias", Shape: []int{out}, Float: append([]float32{}, tables.Row(weights(layer, p.biasRow(layer)))...)})
	}
	p.task.Describe(&m)
	stats, err := p.Evaluate(tables, open)
	if err != nil {
		return model.Model{}, fmt.Errorf("export: %w", err)
	}
	if stats.TestCount > 0 {
		m.Metadata["accuracy"] = fmt.Sprintf("%.6g", 1-p.Score(stats.TestLoss, stats.TestCount))
	}
	return m, nil
}
