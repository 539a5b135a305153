package linear

import (
	"math"

	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/internal/parallel"
)

// chunk is some examples and a thread's sums over them. Chunks are cut the same way for any number of threads, and added up in order, so
// that the result does not depend on threads.
type chunk struct {
	spans             []span
	sum, diagonal     []float64 // by weight
	objective, faults float64
}

// span is a part of a split's examples.
type span struct {
	examples *labelled.Examples
	from, to int
	goals    []float32 // of these examples
	bends    []float32 // second derivatives of their losses with respect to the score, at the last point measured
}

// chunks distributes examples evenly.
func (p *Program) chunks(splits []*labelled.Examples, weights int) []*chunk {
	examples, entries := 0, 0
	for _, e := range splits {
		examples += e.Len()
		entries += len(e.Index)
	}
	chunks := make([]*chunk, max(1, min(mostChunks, entries/(entriesPerWeight*weights), examples)))
	for i := range chunks {
		from, to := i*examples/len(chunks), (i+1)*examples/len(chunks)
		c := &chunk{sum: make([]float64, weights), diagonal: make([]float64, weights)}
		before := 0
		for _, e := range splits {
			if first, end := max(from-before, 0), min(to-before, e.Len()); first < end {
				s := span{examples: e, from: first, to: end, goals: make([]float32, end-first), bends: make([]float32, end-first)}
				for k := range s.goals {
					s.goals[k] = p.goal(e.Targets[first+k])
				}
				c.spans = append(c.spans, s)
			}
			before += e.Len()
		}
		chunks[i] = c
	}
	return chunks
}

// measure computes the objective, its gradient and the diagonal of its second derivative at a point.
func (t *newton) measure(s *state) {
	p, bias := t.program, t.program.task.Inputs
	parallel.For(t.threads, len(t.chunks), func(_, i int) { t.chunks[i].measure(p, s.point, t.straight) })
	clear(s.gradient)
	clear(s.diagonal)
	s.objective, s.faults = 0, 0
	for _, c := range t.chunks {
		for j := range s.gradient {
			s.gradient[j] += c.sum[j]
			s.diagonal[j] += c.diagonal[j]
		}
		s.objective += c.objective
		s.faults += c.faults
	}
	n := float64(p.task.Size())
	s.objective /= n
	for j := range s.gradient {
		s.gradient[j] /= n
		if s.diagonal[j] /= n; j != bias {
			s.objective += p.l2 / 2 * s.point[j] * s.point[j]
			s.gradient[j] += p.l2 * s.point[j]
			s.diagonal[j] += p.l2
		}
		if s.diagonal[j] == 0 { // the loss is linear there
			s.diagonal[j] = 1
		}
	}
	s.length = math.Sqrt(dot(s.gradient, s.gradient))
}

func (c *chunk) measure(p *Program, point []float64, straight float64) {
	clear(c.sum)
	clear(c.diagonal)
	c.objective, c.faults = 0, 0
	var slopes [atOnce]float64
	for _, s := range c.spans {
		for from := 0; from < len(s.goals); from += atOnce {
			to := min(from+atOnce, len(s.goals))
			part := span{examples: s.examples, from: s.from + from, goals: s.goals[from:to], bends: s.bends[from:to]}
			c.score(p, part, point, straight, slopes[:to-from])
			c.addUp(part, slopes[:to-from])
		}
	}
}

// atOnce is how many examples go through each loop of measure: a loss is the same work for each, and a processor overlaps several unless
// loops over a varying number of entries are in between.
const atOnce = 256

// score computes losses and returns their slopes.
func (c *chunk) score(p *Program, s span, point []float64, straight float64, slopes []float64) {
	for k := range slopes {
		index, value := s.examples.Row(s.from + k)
		slopes[k] = scoreOf(index, value, point)
	}
	product := 1.0 // at most 2^atOnce
	for k, score := range slopes {
		goal := s.goals[k]
		loss, factor, slope, bend := p.rule.at(score, float64(goal), straight)
		c.objective += loss
		product *= factor
		c.faults += p.fault(float32(score), goal)
		slopes[k], s.bends[k] = slope, float32(bend)
	}
	c.objective += math.Log(product)
}

// addUp adds examples to the gradient and the diagonal.
func (c *chunk) addUp(s span, slopes []float64) {
	bias := len(c.sum) - 1
	for k, slope := range slopes {
		bend := float64(s.bends[k])
		if slope == 0 && bend == 0 {
			continue
		}
		c.sum[bias] += slope
		c.diagonal[bias] += bend
		index, value := s.examples.Row(s.from + k)
		for e, j := range index {
			x := float64(value[e])
			c.sum[j] += slope * x
			c.diagonal[j] += bend * x * x
		}
	}
}

// times multiplies a vector by the second derivative at the last point measured.
func (t *newton) times(v, product []float64) {
	parallel.For(t.threads, len(t.chunks), func(_, i int) { t.chunks[i].times(v) })
	clear(product)
	for _, c := range t.chunks {
		for j, x := range c.sum {
			product[j] += x
		}
	}
	n, bias := float64(t.program.task.Size()), len(v)-1
	for j := range product {
		if product[j] /= n; j != bias {
			product[j] += t.program.l2 * v[j]
		}
	}
}

func (c *chunk) times(v []float64) {
	clear(c.sum)
	bias := len(v) - 1
	for _, s := range c.spans {
		for k, bend := range s.bends {
			if bend == 0 {
				continue
			}
			index, value := s.examples.Row(s.from + k)
			by := float64(bend) * scoreOf(index, value, v)
			c.sum[bias] += by
			for e, j := range index {
				c.sum[j] += by * float64(value[e])
			}
		}
	}
}

// scoreOf returns the weighted sum of an example's features and the bias, the last weight.
func scoreOf(index []uint32, value []float32, weights []float64) float64 {
	score := weights[len(weights)-1]
	value = value[:len(index)]
	for e, j := range index {
		score += float64(value[e]) * weights[j]
	}
	return score
}

// evaluate measures the held-out examples.
func (t *newton) evaluate() (count int64, faults float64) {
	for _, e := range t.tests {
		for i := range e.Len() {
			index, value := e.Row(i)
			faults += t.program.fault(float32(scoreOf(index, value, t.at.point)), t.program.goal(e.Targets[i]))
		}
		count += int64(e.Len())
	}
	return count, faults
}
