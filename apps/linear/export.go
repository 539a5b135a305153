package linear

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/ps"
)

// Names in the model file. With features encoded as labelled.Task says, an example's score is
//
//	weights . features + bias
//
// A regression predicts center + scale * score; a classification the second of the classes if the score is above 0,
// else the first; center and scale are in the metadata, and labelled.Task.Describe adds how features are encoded.
const (
	tensorWeights = "weights" // F32 [features]
	tensorBias    = "bias"    // F32 [1]
)

// each calls do for every split, with finished weights at its point.
func (p *Program) each(tables apps.Rows, open apps.Open, do func(*split)) error {
	return p.task.EachSplit(open, func(id ps.Split, train, test *labelled.Examples) error {
		s := newSplit(p, id, train, test)
		for _, blocks := range [][]blockPlace{s.train.blocks, s.test.blocks} {
			for _, b := range blocks {
				copy(s.point[b.place:b.place+blockSize], tables.Row(p.key(b.block))[:blockSize])
			}
		}
		do(s)
		return nil
	})
}

// Evaluate measures all held-out examples with finished tables.
func (p *Program) Evaluate(tables apps.Rows, open apps.Open) (apps.Stats, error) {
	var total apps.Stats
	if t, here := tables.(*newton); here {
		total.TestCount, total.TestLoss = t.evaluate()
		return total, nil
	}
	err := p.each(tables, open, func(s *split) {
		s.eachScore(&s.test, func(score, goal float32) { total.TestLoss += p.fault(score, goal) })
		total.TestCount += int64(s.test.examples.Len())
	})
	if err != nil {
		return apps.Stats{}, fmt.Errorf("evaluate: %w", err)
	}
	return total, nil
}

// Objective returns what training minimises, at finished tables: see the package comment.
func (p *Program) Objective(tables apps.Rows, open apps.Open) (float64, error) {
	if t, here := tables.(*newton); here {
		return t.at.objective, nil
	}
	var losses float64
	err := p.each(tables, open, func(s *split) {
		s.eachScore(&s.train, func(score, goal float32) { losses += p.rule.value(float64(score), float64(goal)) })
	})
	if err != nil {
		return 0, fmt.Errorf("objective: %w", err)
	}
	var absolute, squares float64
	weights, _ := p.weights(tables)
	for _, w := range weights {
		absolute += math.Abs(float64(w))
		squares += float64(w) * float64(w)
	}
	return losses/float64(p.task.Size()) + p.l1*absolute + p.l2/2*squares, nil
}

// weights reads the weights and the bias.
func (p *Program) weights(tables apps.Rows) (weights []float32, bias float32) {
	for block := range p.blocks() {
		weights = append(weights, tables.Row(p.key(block))[:blockSize]...)
	}
	return weights[:p.task.Inputs], weights[p.bias()]
}

// Export creates the model file from finished tables.
func (p *Program) Export(tables apps.Rows, open apps.Open) (model.Model, error) {
	objective, err := p.Objective(tables, open)
	if err != nil {
		return model.Model{}, fmt.Errorf("export: %w", err)
	}
	weights, bias := p.weights(tables)
	m := model.Model{
		Metadata: map[string]string{
			"app":       p.name,
			"loss":      lossNames[p.rule.loss],
			"l1":        exact(p.l1),
			"l2":        exact(p.l2),
			"objective": exact(objective),
		},
		Tensors: []model.Tensor{
			{Name: tensorWeights, Shape: []int{len(weights)}, Float: weights},
			{Name: tensorBias, Shape: []int{1}, Float: []float32{bias}},
		},
	}
	if p.rule.width > 0 {
		m.Metadata["width"] = exact(p.rule.width)
	}
	if !p.rule.loss.classifies() {
		m.Metadata["center"], m.Metadata["scale"] = exact(p.center), exact(p.scale)
	}
	p.task.Describe(&m)
	return m, nil
}

// exact formats a number so that parsing returns the same value.
func exact(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
