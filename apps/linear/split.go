package linear

import (
	"fmt"
	"math"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/internal/vector"
	"github.com/tierml/tierml/ps"
)

// split is one split in memory. Its vectors hold the blocks that it works on, concatenated; indexes in them are
// local.
type split struct {
	program     *Program
	id          ps.Split
	train, test part
	bias        int // index

	// Working memory of Run, not kept between calls. By index.
	point    []float32 // x_k, or the weights during the measurement of held-out examples
	gradient []float32
}

// part is a list of examples and the blocks that they need.
type part struct {
	examples *labelled.Examples // indices are local indexes
	goals    []float32
	blocks   []blockPlace
}

// blockPlace is a block and its index in the split's vectors.
type blockPlace struct{ block, place int }

func newSplit(p *Program, id ps.Split, train, test *labelled.Examples) *split {
	s := &split{program: p, id: id}
	trainBlocks, testBlocks := p.touched(train), p.touched(test)
	for block := int(id); block < p.blocks() && !p.ruled(); block += p.task.Dataset.Splits {
		trainBlocks[block] = true // kept here
	}
	place := map[int]int{}
	for block := range p.blocks() {
		if trainBlocks[block] || testBlocks[block] {
			place[block] = blockSize * len(place)
		}
	}
	s.train = p.part(train, trainBlocks, place)
	s.test = p.part(test, testBlocks, place)
	s.bias = place[p.bias()/blockSize] + p.bias()%blockSize
	s.point, s.gradient = make([]float32, blockSize*len(place)), make([]float32, blockSize*len(place))
	return s
}

// touched marks the blocks of some examples' features and of the bias.
func (p *Program) touched(e *labelled.Examples) map[int]bool {
	blocks := map[int]bool{p.bias() / blockSize: true}
	for _, feature := range e.Index {
		blocks[int(feature)/blockSize] = true
	}
	return blocks
}

func (p *Program) part(e *labelled.Examples, touched map[int]bool, place map[int]int) part {
	made := part{examples: e}
	for i, feature := range e.Index {
		e.Index[i] = uint32(place[int(feature)/blockSize] + int(feature)%blockSize)
	}
	for _, target := range e.Targets {
		made.goals = append(made.goals, p.goal(target))
	}
	for block := range touched {
		made.blocks = append(made.blocks, blockPlace{block, place[block]})
	}
	slices.SortFunc(made.blocks, func(a, b blockPlace) int { return a.block - b.block })
	return made
}

func (p *Program) keys(m *part, keys []ps.Key) []ps.Key {
	for _, b := range m.blocks {
		keys = append(keys, p.key(b.block))
	}
	return keys
}

// Needs lists the blocks of the examples' features and those that this split keeps.
func (s *split) Needs(_ ps.Clock, keys []ps.Key) []ps.Key { return s.program.keys(&s.train, keys) }

// EvalNeeds lists the blocks of the held-out examples' features.
func (s *split) EvalNeeds(keys []ps.Key) []ps.Key { return s.program.keys(&s.test, keys) }

// Run adds the gradient of all examples; without a rule it updates the weights that this split keeps.
func (s *split) Run(c ps.Clock, rows apps.Rows, evaluate bool) (apps.Stats, error) {
	if c < 1 {
		return apps.Stats{}, fmt.Errorf("clock %d: the first one is 1", c)
	}
	var stats apps.Stats
	if evaluate {
		stats.TestCount, stats.TestLoss = s.evaluate(rows)
	}
	if s.program.ruled() {
		stats.Loss = s.pushGradient(rows)
	} else {
		stats.Loss = s.average(c, rows)
	}
	stats.Examples = int64(s.train.examples.Len())
	stats.Work = work(stats.Examples, int64(len(s.train.examples.Index)))
	if math.IsNaN(stats.Loss) || math.IsInf(stats.Loss, 0) {
		return stats, fmt.Errorf("%s diverged by clock %d: lower step", s.program.name, c)
	}
	return stats, nil
}

// average adds the split's part to the sums, and updates its own state.
func (s *split) average(c ps.Clock, rows apps.Rows) (loss float64) {
	p := s.program
	step := p.stepAt(c)
	for _, b := range s.train.blocks {
		s.move(step, b, rows.Row(p.key(b.block)))
	}
	loss = s.learn()
	share := float32(step.weight / float64(p.task.Size()))
	for _, b := range s.train.blocks {
		sums := rows.Row(p.key(b.block))[blockSize:]
		vector.Axpy(share, s.gradient[b.place:b.place+blockSize], sums)
	}
	return loss
}

// step has the figures of clock k+1, all functions of the clock alone. With a_k = (k+1)/2 and A_k their sum:
type step struct {
	weight  float64 // a_k, of the gradient at x_k
	total   float32 // A_(k-1), of the gradients so far
	average float32 // a_(k-1)/A_(k-1): w_(k-1) = w_(k-2) + average * (z_(k-1) - w_(k-2))
	ahead   float32 // a_k/A_k:         x_k     = w_(k-1) + ahead   * (z_(k-1) - w_(k-1))
	// z minimises sums . z + total * penalty + steepest/2 * |z|^2: the solution is the sums, shrunk by a
	// threshold, times a scale.
	threshold, scale, biasScale float32
}

func (p *Program) stepAt(c ps.Clock) step {
	k := float64(c - 1)
	total := float64(k*(k+1)) / 4
	return step{
		weight:    (k + 1) / 2,
		total:     float32(total),
		average:   float32(2 / (k + 1)),
		ahead:     float32(2 / (k + 2)),
		threshold: float32(total * p.l1),
		scale:     float32(-1 / (p.steepest + float64(total*p.l2))),
		biasScale: float32(-1 / p.steepest),
	}
}

// move computes x_k of a block from its state. The split that keeps the block also stores w_(k-1). float32 rounds
// z-w the same way everywhere, as all splits compute it from the same state.
func (s *split) move(step step, b blockPlace, row []float32) {
	weights, sums := row[:blockSize], row[blockSize:]
	point := s.point[b.place : b.place+blockSize]
	clear(s.gradient[b.place : b.place+blockSize])
	keep := s.program.keeper(b.block) == s.id
	bias := s.program.bias() - b.block*blockSize // usually beyond the block
	for j := range point {
		threshold, scale := step.threshold, step.scale
		if j == bias {
			threshold, scale = 0, step.biasScale
		}
		z := scale * shrink(sums[j], threshold)
		w := weights[j] + float32(step.average*(z-weights[j]))
		point[j] = w + float32(step.ahead*(z-w))
		if keep {
			weights[j] = w
		}
	}
}

// shrink moves a number towards zero by a threshold, but not past zero.
func shrink(x, threshold float32) float32 {
	switch {
	case x > threshold:
		return x - threshold
	case x < -threshold:
		return x + threshold
	}
	return 0
}

// learn sums the gradient of all examples at the point and returns their loss there.
func (s *split) learn() (loss float64) {
	p, e := s.program, s.train.examples
	var biasGradient float32
	for i, goal := range s.train.goals {
		places, values := e.Row(i)
		score := vector.SparseDot(places, values, s.point) + s.point[s.bias]
		slope := p.rule.slope(score, goal)
		loss += p.fault(score, goal)
		if slope != 0 {
			vector.SparseAxpy(slope, places, values, s.gradient)
			biasGradient += slope
		}
	}
	s.gradient[s.bias] += biasGradient
	return loss
}

// evaluate measures the held-out examples with the weights in rows.
func (s *split) evaluate(rows apps.Rows) (count int64, loss float64) {
	for _, b := range s.test.blocks {
		copy(s.point[b.place:b.place+blockSize], rows.Row(s.program.key(b.block))[:blockSize])
	}
	s.eachScore(&s.test, func(score, goal float32) { loss += s.program.fault(score, goal) })
	return int64(s.test.examples.Len()), loss
}

// eachScore scores examples at the point.
func (s *split) eachScore(m *part, do func(score, goal float32)) {
	for i, goal := range m.goals {
		places, values := m.examples.Row(i)
		do(vector.SparseDot(places, values, s.point)+s.point[s.bias], goal)
	}
}
