package dnn

import (
	"fmt"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/internal/vector"
	"github.com/tierml/tierml/ps"
)

// split is one split in memory. Features are renumbered among those that occur in it; these numbers are called places.
type split struct {
	program  *Program
	id       ps.Split
	features []uint32 // by place
	train    *labelled.Examples
	test     *labelled.Examples
	batches  []batch
	whole    batch // all held-out examples
	kept     [][]int
	net      network
}

// batch is a range of examples and the places of their features, ascending.
type batch struct {
	from, to int
	places   []uint32
}

func newSplit(p *Program, id ps.Split, train, test *labelled.Examples) *split {
	s := &split{program: p, id: id, train: train, test: test}
	s.number()
	seen := make([]bool, len(s.features))
	at := 0
	for number := range p.batches {
		_, _, end := p.batchAt(ps.Clock(number + 1))
		from := at
		for at < train.Len() && int64(train.Ranks[at]) < end {
			at++
		}
		s.batches = append(s.batches, newBatch(train, from, at, seen))
	}
	s.whole = newBatch(test, 0, test.Len(), seen)
	for layer := range p.layers() {
		s.kept = append(s.kept, p.keptBy(id, layer))
	}
	s.net = newNetwork(p.sizes, len(s.features))
	s.net.classes = p.weights
	return s
}

// number maps features to places.
func (s *split) number() {
	s.features = append(slices.Clone(s.train.Index), s.test.Index...)
	slices.Sort(s.features)
	s.features = slices.Clone(slices.Compact(s.features))
	place := make([]uint32, s.program.task.Inputs)
	for p, feature := range s.features {
		place[feature] = uint32(p)
	}
	for _, e := range []*labelled.Examples{s.train, s.test} {
		for i, feature := range e.Index {
			e.Index[i] = place[feature]
		}
	}
}

// newBatch lists the places that examples touch. Seen is working memory, all false before and after.
func newBatch(e *labelled.Examples, from, to int, seen []bool) batch {
	b := batch{from: from, to: to}
	for _, place := range e.Index[e.Start[from]:e.Start[to]] {
		if !seen[place] {
			seen[place] = true
			b.places = append(b.places, place)
		}
	}
	slices.Sort(b.places)
	for _, place := range b.places {
		seen[place] = false
	}
	return b
}

func (b *batch) empty() bool { return b.from == b.to }

func weights(layer, row int) ps.Key {
	return ps.Key{Table: weightsTable(layer), Row: ps.RowID(row)}
}

// keys lists the weights that a batch touches, each once, except leave.
func (s *split) keys(b *batch, keys []ps.Key, leaveOut func(layer, row int) bool) []ps.Key {
	if b.empty() {
		return keys
	}
	p := s.program
	for _, place := range b.places {
		if row := int(s.features[place]); !leaveOut(0, row) {
			keys = append(keys, weights(0, row))
		}
	}
	if row := p.biasRow(0); !leaveOut(0, row) {
		keys = append(keys, weights(0, row))
	}
	for layer := 1; layer < p.layers(); layer++ {
		for row := range p.biasRow(layer) + 1 {
			if !leaveOut(layer, row) {
				keys = append(keys, weights(layer, row))
			}
		}
	}
	return keys
}

// Needs lists the rows of the batch's features, all rows of the further layers, and the rows kept here.
func (s *split) Needs(c ps.Clock, keys []ps.Key) []ps.Key {
	for layer, rows := range s.kept {
		for _, row := range rows {
			keys = append(keys, weights(layer, row))
		}
	}
	number, _, _ := s.program.batchAt(c)
	return s.keys(&s.batches[number], keys, s.keeps)
}

// keeps reports whether a row is kept here.
func (s *split) keeps(layer, row int) bool {
	return s.program.l2 != 0 && row != s.program.biasRow(layer) && row%s.program.task.Dataset.Splits == int(s.id)
}

// EvalNeeds lists the rows of the held-out examples.
func (s *split) EvalNeeds(keys []ps.Key) []ps.Key {
	return s.keys(&s.whole, keys, func(int, int) bool { return false })
}

// bind looks up each row of a batch once, outside the inner loops.
func (s *split) bind(b *batch, row func(ps.Key) []float32) {
	if n := &s.net; !b.empty() {
		s.look(b, row, n.first, func(layer int) *rowSet { return &n.layers[layer].weights })
	}
}

// bindGradients does the same for the rows' gradients.
func (s *split) bindGradients(b *batch, gradient func(ps.Key) []float32) {
	if n := &s.net; !b.empty() {
		s.look(b, gradient, n.firstGradient, func(layer int) *rowSet { return &n.layers[layer].gradient })
	}
}

// look looks up the rows of a batch: those of features by place, those of a layer by input, and its bias.
func (s *split) look(b *batch, row func(ps.Key) []float32, first [][]float32, of func(layer int) *rowSet) {
	for _, place := range b.places {
		first[place] = row(weights(0, int(s.features[place])))
	}
	for layer := range s.program.layers() {
		r := of(layer)
		r.bias = row(weights(layer, s.program.biasRow(layer)))
		for input := range r.inputs {
			r.inputs[input] = row(weights(layer, input))
		}
	}
}

// Run adds up the gradient of its part of the batch, and the penalty of the rows kept here.
func (s *split) Run(c ps.Clock, rows apps.Rows, evaluate bool) (apps.Stats, error) {
	if c < 1 {
		return apps.Stats{}, fmt.Errorf("clock %d: the first one is 1", c)
	}
	var stats apps.Stats
	if evaluate {
		s.bind(&s.whole, rows.Row)
		stats.TestCount, stats.TestLoss = s.evaluate()
	}
	p := s.program
	number, first, end := p.batchAt(c)
	b := &s.batches[number]
	net := &s.net
	s.bind(b, rows.Row)
	s.bindGradients(b, func(k ps.Key) []float32 { return apps.Gradient(rows, k) })
	for i := b.from; i < b.to; i++ {
		places, values := s.train.Row(i)
		right, finite := net.learn(places, values, int(s.train.Targets[i]))
		if !finite {
			return stats, p.diverged(c)
		}
		if !right {
			stats.Loss++
		}
	}
	stats.Examples = int64(b.to - b.from)
	stats.Work = p.work(stats.Examples, int64(s.train.Start[b.to]-s.train.Start[b.from]))
	share := p.shareAt(c)
	if !b.empty() {
		net.scaleGradient(b.places, float32(share/float64(end-first)))
	}
	for layer, list := range s.kept {
		for _, row := range list {
			k := weights(layer, row)
			vector.Axpy(float32(share*p.l2), rows.Row(k), apps.Gradient(rows, k))
		}
	}
	return stats, nil
}

func (p *Program) diverged(c ps.Clock) error {
	return fmt.Errorf("%s diverged by clock %d: lower step (now %v) or momentum (now %v)", p.name, c, p.step, p.momentum)
}

// evaluate measures the held-out examples with the bound rows.
func (s *split) evaluate() (count int64, errors float64) {
	for i := range s.test.Len() {
		places, values := s.test.Row(i)
		s.net.forward(places, values)
		if best(s.net.output()) != int(s.test.Targets[i]) {
			errors++
		}
	}
	return int64(s.test.Len()), errors
}

// best returns the index of the greatest value, the first of equals.
func best(values []float32) int {
	at := 0
	for i, v := range values {
		if v > values[at] {
			at = i
		}
	}
	return at
}

// network is the bound weights, their gradients, and the working memory of one example.
type network struct {
	first, firstGradient [][]float32 // by place: a feature's row of the first layer
	layers               []layer
	classes              []float32 // class weights; nil = equal
}

// layer is a layer with weights.
type layer struct {
	weights, gradient rowSet
	out               []float32 // of the current example: the units' outputs
	slope             []float32 // of the current example: derivative of its loss by the units' weighted sums
}

// rowSet is the rows of a layer. The first layer's input rows are in network.
type rowSet struct {
	inputs [][]float32
	bias   []float32
}

func newNetwork(sizes []int, places int) network {
	n := network{first: make([][]float32, places), firstGradient: make([][]float32, places)}
	for i := range len(sizes) - 1 {
		in, out := sizes[i], sizes[i+1]
		l := layer{out: make([]float32, out), slope: make([]float32, out)}
		if i > 0 {
			l.weights.inputs, l.gradient.inputs = make([][]float32, in), make([][]float32, in)
		}
		n.layers = append(n.layers, l)
	}
	return n
}

func (n *network) output() []float32 { return n.layers[len(n.layers)-1].out }

// forward computes the outputs of all units for an example; the last are scores, not yet probabilities.
func (n *network) forward(places []uint32, values []float32) {
	out := n.layers[0].out
	copy(out, n.layers[0].weights.bias)
	for k, place := range places {
		vector.Axpy(values[k], n.first[place], out)
	}
	for i := 1; i < len(n.layers); i++ {
		in, l := out, &n.layers[i]
		for j, v := range in {
			in[j] = max(v, 0)
		}
		out = l.out
		copy(out, l.weights.bias)
		for j, v := range in {
			if v != 0 {
				vector.Axpy(v, l.weights.inputs[j], out)
			}
		}
	}
}

// learn adds the gradient of one example. It reports whether the class was predicted correctly, and whether all values are finite.
func (n *network) learn(places []uint32, values []float32, class int) (right, finite bool) {
	n.forward(places, values)
	last := &n.layers[len(n.layers)-1]
	right = best(last.out) == class
	vector.Softmax(last.out)
	if p := last.out[class]; p-p != 0 {
		return right, false
	}
	copy(last.slope, last.out)
	last.slope[class]--
	weigh(last.slope, n.classes, class)
	for i := len(n.layers) - 1; i > 0; i-- {
		l, in := &n.layers[i], &n.layers[i-1]
		vector.Axpy(1, l.slope, l.gradient.bias)
		for j, v := range in.out {
			in.slope[j] = 0
			if v > 0 { // a unit that is cut off neither learns nor propagates
				vector.Axpy(v, l.slope, l.gradient.inputs[j])
				in.slope[j] = vector.Dot(l.weights.inputs[j], l.slope)
			}
		}
	}
	slope := n.layers[0].slope
	vector.Axpy(1, slope, n.layers[0].gradient.bias)
	for k, place := range places {
		vector.Axpy(values[k], slope, n.firstGradient[place])
	}
	return right, true
}

// scaleGradient multiplies the gradient of a batch by a factor.
func (n *network) scaleGradient(places []uint32, factor float32) {
	for _, place := range places {
		scale(n.firstGradient[place], factor)
	}
	for i := range n.layers {
		g := &n.layers[i].gradient
		scale(g.bias, factor)
		for _, row := range g.inputs {
			scale(row, factor)
		}
	}
}

func scale(v []float32, factor float32) {
	for j := range v {
		v[j] *= factor
	}
}
