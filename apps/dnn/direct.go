package dnn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// direct takes the same steps as splits and servers together, in one process: each layer is one matrix, threads work on chunks of a batch,
// and the optimizer runs over whole matrices. Apart from rounding the weights are the same.
type direct struct {
	program *Program
	threads int
	train   labelled.Examples // of all splits, by rank
	test    labelled.Examples
	layers  []matrix
	chunks  []*chunk
	blocks  []block // groups of rows, the optimizer's units of work
}

// matrix is a layer's weights: a row for each input, then the biases. Rows are padded to a stride with zeros.
type matrix struct {
	in, out, stride int
	weights         []float32
	slots           [2][]float32 // the optimizer's state
}

func (m *matrix) row(i int) []float32 { return m.weights[i*m.stride : (i+1)*m.stride] }

// block is a range of a layer's rows.
type block struct{ layer, from, to int }

// chunk is a part of a batch: its gradient, and the working memory of one example. Chunks are the same for any number of threads, and added
// in order, so that the result does not depend on threads.
type chunk struct {
	from, to  int
	gradients [][]float32 // by layer, laid out like its weights
	units     []units
	wrong     int
	infinite  bool
}

// units are a layer's units, for one example.
type units struct {
	out, slope []float32
	active     []uint32  // for a hidden layer: units that are not cut off
	values     []float32 // their outputs
}

const (
	maxChunks = 8
	// addShare is the minimum number of entries of a chunk per row of the first layer: adding chunks must be cheap compared with computing
	// them.
	addShare = 8
	// blockNumbers is the approximate number of weights that a thread updates at a time.
	blockNumbers = 8192
	// testChunk is the number of held-out examples that a thread takes at a time.
	testChunk = 256
)

// NewDirect reads all splits and initialises the weights as servers do.
func (p *Program) NewDirect(open apps.Open, seed uint64, threads int) (apps.DirectTrainer, error) {
	d := &direct{program: p, threads: threads}
	var train labelled.Examples
	train.Start, d.test.Start = []int{0}, []int{0}
	err := p.task.EachSplit(open, func(_ ps.Split, some, held *labelled.Examples) error {
		for i := range some.Len() {
			copyExample(&train, some, i)
		}
		for i := range held.Len() {
			copyExample(&d.test, held, i)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the splits: %w", err)
	}
	d.train = byRank(&train)
	for layer, table := range p.Tables() {
		d.layers = append(d.layers, firstValues(seed, ps.TableID(layer), table))
		m := &d.layers[layer]
		most := max(blockNumbers/m.stride, 1)
		for from := 0; from <= m.in; from += most {
			d.blocks = append(d.blocks, block{layer, from, min(from+most, m.in+1)})
		}
	}
	for range d.chunksOf(len(d.train.Index) / p.batches) {
		d.chunks = append(d.chunks, d.newChunk())
	}
	return d, nil
}

func copyExample(to, from *labelled.Examples, i int) {
	index, value := from.Row(i)
	to.Index, to.Value = append(to.Index, index...), append(to.Value, value...)
	to.Start = append(to.Start, len(to.Index))
	to.Targets = append(to.Targets, from.Targets[i])
	to.Ranks = append(to.Ranks, from.Ranks[i])
}

func byRank(e *labelled.Examples) labelled.Examples {
	order := make([]int, e.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(e.Ranks[a], e.Ranks[b]) })
	sorted := labelled.Examples{Start: []int{0}}
	for _, i := range order {
		copyExample(&sorted, e, i)
	}
	return sorted
}

func firstValues(seed uint64, id ps.TableID, table ps.Table) matrix {
	m := matrix{in: int(table.Rows) - 1, out: table.Cols, stride: fast.Stride(table.Cols)}
	m.weights = make([]float32, int(table.Rows)*m.stride)
	for row := range int(table.Rows) {
		ps.InitRow(seed, table, id, ps.RowID(row), m.row(row)[:m.out])
	}
	for i := range (table.Width()-1)/table.Cols - 1 {
		m.slots[i] = make([]float32, len(m.weights))
	}
	return m
}

// chunksOf returns the number of chunks for a batch with that many entries.
func (d *direct) chunksOf(entries int) int {
	return max(min(entries/(addShare*d.program.sizes[0]), maxChunks), 1)
}

func (d *direct) newChunk() *chunk {
	c := &chunk{units: d.newUnits()}
	for i := range d.layers {
		c.gradients = append(c.gradients, make([]float32, len(d.layers[i].weights)))
	}
	return c
}

func (d *direct) newUnits() (list []units) {
	for i := range d.layers {
		stride := d.layers[i].stride
		list = append(list, units{out: make([]float32, stride), slope: make([]float32, stride)})
	}
	return list
}

// Row returns a layer's weights.
func (d *direct) Row(k ps.Key) []float32 {
	m := &d.layers[k.Table]
	return m.row(int(k.Row))[:m.out]
}

// Step takes one step down the mean gradient of the clock's batch.
func (d *direct) Step(c ps.Clock, evaluate bool) (apps.Stats, error) {
	p := d.program
	var stats apps.Stats
	if evaluate {
		stats.TestCount, stats.TestLoss = d.evaluate()
	}
	_, first, end := p.batchAt(c)
	from, to := int(first), int(end)
	parallel.For(d.threads, len(d.chunks), func(_, number int) {
		chunk, n := d.chunks[number], len(d.chunks)
		chunk.from, chunk.to = from+number*(to-from)/n, from+(number+1)*(to-from)/n
		d.learn(chunk)
	})
	for _, chunk := range d.chunks {
		if chunk.infinite {
			return stats, p.diverged(c)
		}
		stats.Loss += float64(chunk.wrong)
	}
	stats.Examples = int64(to - from)
	stats.Work = p.work(stats.Examples, int64(d.train.Start[to]-d.train.Start[from]))
	share := p.shareAt(c)
	mean := float32(share / float64(max(to-from, 1)))
	parallel.For(d.threads, len(d.blocks), func(_, number int) {
		d.update(d.blocks[number], c, mean, float32(share*p.l2))
	})
	return stats, nil
}

// learn computes the gradient of a chunk.
func (d *direct) learn(c *chunk) {
	for _, g := range c.gradients {
		clear(g)
	}
	c.wrong, c.infinite = 0, false
	for i := c.from; i < c.to; i++ {
		index, value := d.train.Row(i)
		d.forward(c, index, value)
		if !d.backward(c, index, value, int(d.train.Targets[i])) {
			c.infinite = true
			return
		}
	}
}

// forward computes the outputs of all units; the last layer's are scores.
func (d *direct) forward(c *chunk, index []uint32, value []float32) {
	for i := range d.layers {
		m, u := &d.layers[i], &c.units[i]
		copy(u.out, m.row(m.in))
		fast.SumRows(u.out, m.weights, index, value)
		if i == len(d.layers)-1 {
			return
		}
		u.active, u.values = u.active[:0], u.values[:0]
		for j, v := range u.out[:m.out] {
			if v > 0 {
				u.active, u.values = append(u.active, uint32(j)), append(u.values, v)
			}
		}
		index, value = u.active, u.values
	}
}

// backward adds an example's gradient, and reports whether all values are finite.
func (d *direct) backward(c *chunk, index []uint32, value []float32, class int) bool {
	last := len(d.layers) - 1
	u := &c.units[last]
	scores := u.out[:d.layers[last].out]
	if best(scores) != class {
		c.wrong++
	}
	if !softmax(u.slope[:len(scores)], scores) {
		return false
	}
	u.slope[class]--
	weigh(u.slope[:len(scores)], d.program.weights, class)
	for i := last; ; i-- {
		m, slope, gradient := &d.layers[i], c.units[i].slope, c.gradients[i]
		fast.Axpy(1, slope, gradient[m.in*m.stride:])
		if i == 0 {
			fast.AddToRows(gradient, index, value, slope)
			return true
		}
		below := &c.units[i-1]
		fast.AddToRows(gradient, below.active, below.values, slope)
		clear(below.slope)
		for _, j := range below.active { // a unit that is cut off neither learns nor propagates
			below.slope[j] = fast.Dot(m.row(int(j)), slope)
		}
	}
}

// softmax turns scores into probabilities, if they are finite.
func softmax(p, scores []float32) (finite bool) {
	top := slices.Max(scores)
	var total float32
	for i, s := range scores {
		p[i] = fast.Exp(s - top)
		total += p[i]
	}
	if total-total != 0 {
		return false
	}
	share := 1 / total
	for i := range p {
		p[i] *= share
	}
	return true
}

// update applies the optimizer to some rows: the sum of the chunks' gradients, times mean, and the penalty.
func (d *direct) update(b block, clock ps.Clock, mean, l2 float32) {
	m := &d.layers[b.layer]
	from, to := b.from*m.stride, b.to*m.stride
	gradient := d.chunks[0].gradients[b.layer][from:to]
	for _, c := range d.chunks[1:] {
		fast.Axpy(1, c.gradients[b.layer][from:to], gradient)
	}
	weights := m.weights[from:to]
	for j := range gradient {
		gradient[j] *= mean
	}
	penalised := min(len(weights), m.in*m.stride-from) // not the biases
	fast.Axpy(l2, weights[:penalised], gradient)
	p := d.program
	rate := float32(p.step)
	switch p.optimizer {
	case adaGrad:
		squares := m.slots[0][from:to]
		for j, g := range gradient {
			squares[j] += g * g
			weights[j] -= rate * g / (float32(math.Sqrt(float64(squares[j]))) + epsilon)
		}
	case adam:
		means, squares := m.slots[0][from:to], m.slots[1][from:to]
		grown := math.Sqrt(1 - math.Pow(beta2, float64(clock)))
		rate := float32(p.step * grown / (1 - math.Pow(beta1, float64(clock))))
		for j, g := range gradient {
			means[j] = beta1*means[j] + (1-beta1)*g
			squares[j] = beta2*squares[j] + (1-beta2)*g*g
			weights[j] -= rate * means[j] / (float32(math.Sqrt(float64(squares[j]))) + float32(grown*epsilon))
		}
	default:
		if p.momentum == 0 {
			fast.Axpy(-rate, gradient, weights)
			return
		}
		velocity := m.slots[0][from:to]
		for j, g := range gradient {
			v := p.momentum*velocity[j] + g
			velocity[j] = v
			weights[j] -= rate * v
		}
	}
}

// evaluate measures the held-out examples.
func (d *direct) evaluate() (count int64, errors float64) {
	n := d.test.Len()
	wrong := make([]int, (n+testChunk-1)/testChunk)
	last := len(d.layers) - 1
	work := make([]*chunk, d.threads)
	parallel.For(d.threads, len(wrong), func(thread, number int) {
		if work[thread] == nil {
			work[thread] = &chunk{units: d.newUnits()}
		}
		c := work[thread]
		for i := number * testChunk; i < min((number+1)*testChunk, n); i++ {
			index, value := d.test.Row(i)
			d.forward(c, index, value)
			if best(c.units[last].out[:d.layers[last].out]) != int(d.test.Targets[i]) {
				wrong[number]++
			}
		}
	})
	for _, w := range wrong {
		errors += float64(w)
	}
	return int64(n), errors
}
