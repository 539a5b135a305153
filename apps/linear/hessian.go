package linear

import (
	"math"

	"github.com/tierml/tierml/apps/parallel"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// hessian is the second derivative of the mean loss and the penalty, of a part of the examples:
//
//	H = sum c*x*x' / part + l2        c the curvature of an example's loss
//
// A feature that is rarer in the part than in all examples would seem flat, and get a long step: the diagonal is made up
// for the entries that it lacks, as if their examples had the mean curvature.
//
// With few features H is worked out, which makes products with it cheap. With many it is applied to a vector example by
// example.
type hessian struct {
	threads   int
	l2        float64
	train     *examples
	curvature []float32 // by example, as of the last gradient
	from, to  int       // the part
	size      int       // of the part
	squares   []float32 // by feature: mean square over all examples; present is the same over the part
	present   []float32
	whole     []chunk   // the chunks of all examples; with many features only
	matrix    []float32 // lower half, row by row; nil with many features
	// diagonal is of H; missing is what of it the part does not have. Inverse is 1/diagonal, the preconditioner.
	diagonal, missing, inverse []float32
	// working memory of solve
	residual, direction, product []float32
}

const (
	// mostColumns is from how many features on H is not worked out, 1 MB of float32; mostEntries is the same for the
	// entries of an example, of which every pair would be an addition.
	mostColumns = 512
	mostEntries = 48
	// The first part is as large as makes the Hessian as much work as the gradient, but leastExamples for each feature.
	// When it is applied example by example, an eighth of all.
	leastExamples = 8
	firstShare    = 8
)

func newHessian(p *Program, threads int, train *examples) *hessian {
	n, size := len(train.goals), p.task.Inputs+1
	h := &hessian{threads: threads, l2: p.l2, train: train, curvature: make([]float32, n), squares: make([]float32, size)}
	for _, v := range []*[]float32{&h.present, &h.diagonal, &h.missing, &h.inverse, &h.residual, &h.direction, &h.product} {
		*v = make([]float32, size)
	}
	h.count(h.squares, 0, n)
	entries := max(len(train.index)/max(n, 1), 1)
	if size <= mostColumns && entries <= mostEntries {
		h.matrix = make([]float32, size*size)
		h.size = max(4*n/entries, leastExamples*size)
	} else {
		h.size = n / firstShare
	}
	h.size = min(max(h.size, 1), n)
	return h
}

// count sets the mean squares of the features over some examples. The bias is 1 in all.
func (h *hessian) count(squares []float32, from, to int) {
	clear(squares)
	first, end := h.train.start[from], h.train.start[to]
	for k, j := range h.train.index[first:end] {
		x := h.train.value[first+k]
		squares[j] += x * x
	}
	for j := range squares {
		squares[j] /= float32(max(to-from, 1))
	}
	squares[len(squares)-1] = 1
}

// refine takes more examples.
func (h *hessian) refine() { h.size = min(2*h.size, len(h.train.goals)) }

// measure sets H by the curvatures, with a part of the examples that differs from clock to clock. Examples are in
// random order.
func (h *hessian) measure(c ps.Clock) {
	n := len(h.train.goals)
	parts := n / h.size
	part := int(uint64(c) % uint64(parts))
	h.from = part * (n - h.size) / max(parts-1, 1)
	h.to = h.from + h.size
	h.count(h.present, h.from, h.to)
	clear(h.diagonal)
	bias := len(h.diagonal) - 1
	if h.matrix != nil {
		h.workOut()
	} else {
		h.cutPart()
		parallel.For(h.threads, len(h.whole), func(_, i int) { h.addSquares(&h.whole[i]) })
		for i := range h.whole {
			fast.Axpy(1, h.whole[i].gradient, h.diagonal)
		}
	}
	var mean float32
	for _, c := range h.curvature[h.from:h.to] {
		mean += c
	}
	share := 1 / float32(h.size)
	mean *= share
	for j := range h.diagonal {
		has := h.diagonal[j] * share
		if h.matrix != nil {
			has = h.matrix[j*len(h.diagonal)+j] * share
		}
		h.missing[j] = mean * max(h.squares[j]-h.present[j], 0)
		if j < bias {
			h.missing[j] += float32(h.l2)
		}
		h.diagonal[j] = max(has+h.missing[j], math.SmallestNonzeroFloat32*1e10)
		h.inverse[j] = 1 / h.diagonal[j]
	}
}

// workOut adds up the products of all pairs of an example's features. They ascend, so that the lower half is filled.
func (h *hessian) workOut() {
	clear(h.matrix)
	size := len(h.diagonal)
	last := h.matrix[(size-1)*size:]
	for i := h.from; i < h.to; i++ {
		c := h.curvature[i]
		index, value := h.train.row(i)
		for k, j := range index {
			row := h.matrix[int(j)*size : int(j)*size+int(j)+1]
			sparseAxpy(c*value[k], index[:k+1], value, row)
		}
		sparseAxpy(c, index, value, last)
		last[size-1] += c
	}
}

// cutPart cuts the part into chunks.
func (h *hessian) cutPart() {
	if h.whole == nil {
		h.whole = cut(h.train, len(h.diagonal))
	}
	for i := range h.whole {
		c := &h.whole[i]
		c.from, c.to = h.from+i*h.size/len(h.whole), h.from+(i+1)*h.size/len(h.whole)
	}
}

func (h *hessian) addSquares(c *chunk) {
	clear(c.gradient)
	for i := c.from; i < c.to; i++ {
		index, value := h.train.row(i)
		for k, j := range index {
			c.gradient[j] += h.curvature[i] * value[k] * value[k]
		}
		c.gradient[len(c.gradient)-1] += h.curvature[i]
	}
}

// apply sets product to H*v.
func (h *hessian) apply(v, product []float32) {
	size := len(v)
	clear(product)
	if h.matrix != nil {
		for j := range size {
			row := h.matrix[j*size : j*size+j]
			product[j] += fast.Dot(row, v) + h.matrix[j*size+j]*v[j]
			fast.Axpy(v[j], row, product)
		}
	} else {
		parallel.For(h.threads, len(h.whole), func(_, i int) { h.applyChunk(&h.whole[i], v) })
		for i := range h.whole {
			fast.Axpy(1, h.whole[i].gradient, product)
		}
	}
	share := 1 / float32(h.size)
	for j := range product {
		product[j] = product[j]*share + h.missing[j]*v[j]
	}
}

func (h *hessian) applyChunk(c *chunk, v []float32) {
	clear(c.gradient)
	bias := len(v) - 1
	var biasSum float32
	for i := c.from; i < c.to; i++ {
		index, value := h.train.row(i)
		s := h.curvature[i] * (sparseDot(index, value, v) + v[bias])
		sparseAxpy(s, index, value, c.gradient)
		biasSum += s
	}
	c.gradient[bias] = biasSum
}

// Conjugate gradients end when the residual, measured by the preconditioner, is this share of what it was, or after
// so many steps.
const (
	enoughSolved  = 0.005
	mostSolves    = 60
	enoughApplied = 0.05 // when H is applied example by example
	mostApplied   = 12
)

// solve sets step to about -gradient/H.
func (h *hessian) solve(step, gradient []float32) {
	clear(step)
	var left float64
	for j, g := range gradient {
		h.residual[j] = -g
		h.direction[j] = -g * h.inverse[j]
		left += float64(g) * float64(g*h.inverse[j])
	}
	enough, most := enoughSolved*enoughSolved*left, mostSolves
	if h.matrix == nil {
		enough, most = enoughApplied*enoughApplied*left, mostApplied
	}
	for range most {
		if !(left > enough) {
			return
		}
		h.apply(h.direction, h.product)
		along := float64(fast.Dot(h.direction, h.product))
		if !(along > 0) {
			return
		}
		fast.Axpy(float32(left/along), h.direction, step)
		fast.Axpy(float32(-left/along), h.product, h.residual)
		before := left
		left = 0
		for j, r := range h.residual {
			left += float64(r) * float64(r*h.inverse[j])
		}
		again := float32(left / before)
		for j, r := range h.residual {
			h.direction[j] = r*h.inverse[j] + again*h.direction[j]
		}
	}
}
