package linear

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/apps/parallel"
	"github.com/tierml/tierml/internal/vector"
	"github.com/tierml/tierml/ps"
)

// direct makes the same objective small in one process, where more is known than a parameter server's rows tell:
// FISTA (Beck and Teboulle, "A fast iterative shrinkage-thresholding algorithm", SIAM J. Imaging Sciences 2(1), 2009)
//
//	x_(k+1) = prox of the penalty at y_k - gradient(y_k)/M        y_(k+1) = x_(k+1) + (t_k - 1)/t_(k+1) * (x_(k+1) - x_k)
//
// where the metric M is diagonal: a feature that is rare or small has a small share in the curvature, and gets long steps.
// The momentum starts anew when it leads uphill (O'Donoghue and Candes, "Adaptive restart for accelerated gradient
// schemes", 2015), so that the minimum's neighbourhood is approached as fast as the objective is curved there.
type direct struct {
	program     *Program
	threads     int
	train, test examples
	metric      []float32 // M; the bias is the last of all vectors here
	x, y        []float32
	momentum    float64 // t_k
	chunks      []chunk
}

// examples are those of all splits. Every one has the constant 1 for the bias.
type examples struct {
	start []int
	index []uint32
	value []float32
	goals []float32
}

// chunk is a stretch of the training examples, with its part of the gradient and of the loss. Chunks are added up in
// their order, so that the result does not depend on the threads.
type chunk struct {
	from, to int
	gradient []float32
	loss     float64
}

// NewDirect reads all splits, and takes the method that suits the loss, the penalty and the data.
func (p *Program) NewDirect(open apps.Open, seed uint64, threads int) (apps.DirectTrainer, error) {
	train, test, err := p.readAll(open)
	if err != nil {
		return nil, fmt.Errorf("read the splits: %w", err)
	}
	switch {
	case p.ruled():
		return newRuledDirect(p, threads, train, test), nil
	case p.suitsNewton():
		return newNewton(p, threads, train, test), nil
	case p.suitsDual(&train):
		return newDual(p, seed, train, test), nil
	}
	return newDirect(p, threads, train, test), nil
}

func (p *Program) readAll(open apps.Open) (train, test examples, err error) {
	err = p.task.EachSplit(open, func(_ ps.Split, some, held *labelled.Examples) error {
		train.add(p, some)
		test.add(p, held)
		return nil
	})
	return train, test, err
}

// newDirect draws nothing at random.
func newDirect(p *Program, threads int, train, test examples) *direct {
	size := p.task.Inputs + 1
	d := &direct{
		program: p, threads: threads, momentum: 1, train: train, test: test,
		x: make([]float32, size), y: make([]float32, size), chunks: cut(&train, size),
	}
	d.measure()
	return d
}

func (e *examples) add(p *Program, more *labelled.Examples) {
	if len(e.start) == 0 {
		e.start = []int{0}
	}
	for i, target := range more.Targets {
		index, value := more.Row(i)
		e.index, e.value = append(e.index, index...), append(e.value, value...)
		e.start = append(e.start, len(e.index))
		e.goals = append(e.goals, p.goal(target))
	}
}

func (e *examples) row(i int) (index []uint32, value []float32) {
	from, to := e.start[i], e.start[i+1]
	return e.index[from:to], e.value[from:to]
}

// score includes the bias, the last of the weights.
func (e *examples) score(i int, weights []float32) float32 {
	index, value := e.row(i)
	return vector.SparseDot(index, value, weights) + weights[len(weights)-1]
}

// faults adds up what the examples cost with some weights.
func (e *examples) faults(p *Program, weights []float32) (sum float64, count int64) {
	for i, goal := range e.goals {
		sum += p.fault(e.score(i, weights), goal)
	}
	return sum, int64(len(e.goals))
}

const (
	maxChunks = 32
	// addShare is how many entries a chunk has at least for each number of its gradient: adding chunks up must be little
	// work beside making them.
	addShare = 8
)

// cut cuts examples into chunks for gradients of a size.
func cut(e *examples, size int) []chunk {
	n := len(e.goals)
	chunks := make([]chunk, max(min(len(e.index)/(addShare*size), maxChunks, n), 1))
	for i := range chunks {
		chunks[i] = chunk{from: i * n / len(chunks), to: (i + 1) * n / len(chunks), gradient: make([]float32, size)}
	}
	return chunks
}

// gradient adds up slope * example over all training examples, the slopes being those of the scores at a point, and
// gives it in the first chunk's memory.
func (d *direct) gradient(point []float32, slope func(score float32, example int) (slope float32, loss float64)) (gradient []float32, loss float64) {
	bias := len(point) - 1
	parallel.For(d.threads, len(d.chunks), func(_, number int) {
		c := &d.chunks[number]
		clear(c.gradient)
		c.loss = 0
		var biasGradient float32
		for i := c.from; i < c.to; i++ {
			s, loss := slope(d.train.score(i, point), i)
			c.loss += loss
			if s != 0 {
				index, value := d.train.row(i)
				vector.SparseAxpy(s, index, value, c.gradient)
				biasGradient += s
			}
		}
		c.gradient[bias] = biasGradient
	})
	gradient = d.chunks[0].gradient
	for i, c := range d.chunks {
		loss += c.loss
		if i > 0 {
			vector.Axpy(1, c.gradient, gradient)
		}
	}
	return gradient, loss
}

const (
	powerSteps = 20
	// powerMargin makes up for what the power iteration falls short of.
	powerMargin = 1.05
	// leastCurvature, as a share of the mean, keeps steps finite along features that hardly occur.
	leastCurvature = 1e-4
)

// measure sets the metric: the diagonal of the Hessian's bound, times the largest eigenvalue that is left when the
// Hessian is scaled by it, found by power iteration.
func (d *direct) measure() {
	n := float64(len(d.train.goals))
	squares := make([]float64, len(d.x))
	squares[len(squares)-1] = n
	var sum float64
	for k, j := range d.train.index {
		squares[j] += float64(d.train.value[k]) * float64(d.train.value[k])
	}
	for _, s := range squares {
		sum += s / n
	}
	d.metric = make([]float32, len(d.x))
	scale := make([]float32, len(d.x)) // 1 / root of the diagonal
	for j, s := range squares {
		d.metric[j] = float32(max(s/n, leastCurvature*sum/float64(len(squares))))
		scale[j] = float32(1 / math.Sqrt(float64(d.metric[j])))
	}
	largest, point := 1.0, make([]float32, len(d.x))
	v := append([]float32(nil), scale...)
	for range powerSteps {
		length := math.Sqrt(float64(vector.Dot(v, v)))
		for j := range v {
			v[j] /= float32(length)
			point[j] = v[j] * scale[j]
		}
		product, _ := d.gradient(point, func(score float32, _ int) (float32, float64) { return score / float32(n), 0 })
		largest = 0
		for j := range v {
			v[j] = product[j] * scale[j]
			largest += float64(v[j]) * float64(v[j])
		}
		largest = math.Sqrt(largest)
	}
	for j := range d.metric {
		d.metric[j] *= float32(powerMargin * largest * d.program.rule.curvature() / d.program.step)
	}
}

// Row returns a block's weights; the sums of gradients that a parameter server keeps are not needed here.
func (d *direct) Row(k ps.Key) []float32 { return blockOf(d.x, k) }

// blockOf returns a row of the table, with zeros where it has sums of gradients.
func blockOf(weights []float32, k ps.Key) []float32 {
	row := make([]float32, rowSize)
	if first := int(k.Row) * blockSize; first < len(weights) {
		copy(row[:blockSize], weights[first:])
	}
	return row
}

// Step is one pass over the examples.
func (d *direct) Step(c ps.Clock, evaluate bool) (apps.Stats, error) {
	p := d.program
	var stats apps.Stats
	if evaluate {
		stats.TestLoss, stats.TestCount = d.test.faults(p, d.x)
	}
	var gradient []float32
	gradient, stats.Loss = d.gradient(d.y, func(score float32, i int) (float32, float64) {
		goal := d.train.goals[i]
		return p.rule.slope(score, goal), p.fault(score, goal)
	})
	d.move(gradient)
	stats.Examples = int64(len(d.train.goals))
	stats.Work = work(stats.Examples, int64(len(d.train.index)))
	if math.IsNaN(stats.Loss) || math.IsInf(stats.Loss, 0) {
		return stats, fmt.Errorf("%s diverged by clock %d: the numbers are too large", p.name, c)
	}
	return stats, nil
}

// move steps from y to the next x, and makes the next y.
func (d *direct) move(gradient []float32) {
	mean := 1 / float64(len(d.train.goals))
	next := (1 + math.Sqrt(1+4*d.momentum*d.momentum)) / 2
	ahead := float32((d.momentum - 1) / next)
	d.momentum = next
	var uphill float64 // of the way from the last x to this one; M's scalar product with the step from y
	for j, y := range d.y {
		l1, l2 := d.program.l1, d.program.l2
		if j == len(d.y)-1 {
			l1, l2 = 0, 0 // the bias
		}
		m := float64(d.metric[j])
		x := shrink(y-float32(float64(gradient[j])*mean/m), float32(l1/m)) / float32(1+l2/m)
		last := d.x[j]
		uphill += m * float64(y-x) * float64(x-last)
		d.x[j], d.y[j] = x, x+ahead*(x-last)
	}
	if uphill > 0 {
		d.momentum = 1
		copy(d.y, d.x)
	}
}
