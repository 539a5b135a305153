package mf

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// direct is plain stochastic gradient descent on the tables themselves. Since no other differences are added to
// an item's, its steps need no limit (item_step_sum).
type direct struct {
	program *Program
	threads int
	ids     *ids
	factors fast.Factors
	grid    *grid
	squares []float64 // by task: sum of squared errors of the clock
	test    []fast.Cell
	losses  []float64 // by chunk of test
}

// NewDirect reads all splits and arranges the ratings for threads that share no row.
func (p *Program) NewDirect(open apps.Open, seed uint64, threads int) (apps.DirectTrainer, error) {
	d := &direct{program: p, threads: threads, ids: p.newIDs()}
	train := make([]fast.Cell, 0, p.data.Examples)
	err := p.eachSplit(open, func(data *splitData) {
		d.ids.add(data)
		for _, e := range data.train {
			value := float32((float64(e.value) - p.ratings.Mean) / p.ratings.Scale)
			train = append(train, fast.Cell{Row: data.users[e.user].row, Column: data.items[e.item].row, Value: value})
		}
		for _, e := range data.test {
			d.test = append(d.test, fast.Cell{Row: data.users[e.user].row, Column: data.items[e.item].row, Value: e.value})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the splits: %w", err)
	}
	d.factors.Stride = fast.Stride(p.rank)
	d.factors.Rows, d.factors.RowBias = p.firstValues(seed, tableUsers, d.factors.Stride)
	d.factors.Columns, d.factors.ColumnBias = p.firstValues(seed, tableItems, d.factors.Stride)
	d.grid = newGrid(train, gridSize{p.ratings.Users, p.ratings.Items, p.ratings.Users, p.ratings.Items}, p.batches, 4*d.factors.Stride, threads)
	d.squares = make([]float64, d.grid.tasks())
	d.losses = make([]float64, (len(d.test)+testChunk-1)/testChunk)
	return d, nil
}

// firstValues returns a parameter server's initial values.
func (p *Program) firstValues(seed uint64, id ps.TableID, stride int) (vectors, biases []float32) {
	table := p.Tables()[id]
	row := make([]float32, table.Cols)
	vectors, biases = make([]float32, int(table.Rows)*stride), make([]float32, table.Rows)
	for i := range int(table.Rows) {
		ps.InitRow(seed, table, id, ps.RowID(i), row)
		copy(vectors[i*stride:], row[:p.rank])
		biases[i] = row[p.rank]
	}
	return vectors, biases
}

// Row assembles a row in the tables' format: the factors, then the bias.
func (d *direct) Row(k ps.Key) []float32 {
	vectors, biases := d.factors.Rows, d.factors.RowBias
	if k.Table == tableItems {
		vectors, biases = d.factors.Columns, d.factors.ColumnBias
	}
	at, rank := int(k.Row)*d.factors.Stride, d.program.rank
	row := make([]float32, rank+1)
	copy(row, vectors[at:at+rank])
	row[rank] = biases[k.Row]
	return row
}

// Step takes one step for each rating of the clock's users.
func (d *direct) Step(c ps.Clock, evaluate bool) (apps.Stats, error) {
	p := d.program
	var stats apps.Stats
	if evaluate {
		stats.TestCount, stats.TestLoss = d.evaluate()
	}
	rates := p.rates(p.stepAt(c))
	f := d.factors
	f.Step, f.Keep, f.BiasKeep = rates.step, rates.keep, rates.biasKeep
	blocks := d.grid.blocks[(int64(c)-1)%int64(p.batches)]
	d.grid.order.Run(d.threads, func(task int) { d.squares[task] = f.Descend(blocks[task]) })
	var squares float64
	for task, s := range d.squares {
		squares += s
		stats.Examples += int64(len(blocks[task]))
	}
	stats.Loss = squares * p.ratings.Scale * p.ratings.Scale
	stats.Work = float64(stats.Examples) * workPerExample(p.rank)
	if math.IsNaN(stats.Loss) || math.IsInf(stats.Loss, 0) {
		return stats, fmt.Errorf("matrix factorisation diverged by clock %d: lower step (now %v)", c, p.step)
	}
	return stats, nil
}

// testChunk is how many held-out ratings a thread takes at a time.
const testChunk = 4096

// evaluate measures the held-out ratings.
func (d *direct) evaluate() (count int64, loss float64) {
	f := &d.factors
	parallel.For(d.threads, len(d.losses), func(_, chunk int) {
		var sum float64
		for _, cell := range d.test[chunk*testChunk : min((chunk+1)*testChunk, len(d.test))] {
			r, c := int(cell.Row), int(cell.Column)
			score := f.RowBias[r] + f.ColumnBias[c] +
				fast.Dot(f.Rows[r*f.Stride:(r+1)*f.Stride], f.Columns[c*f.Stride:(c+1)*f.Stride])
			e := float64(cell.Value) - d.program.ratings.rating(score)
			sum += e * e
		}
		d.losses[chunk] = sum
	})
	for _, sum := range d.losses {
		loss += sum
	}
	return int64(len(d.test)), loss
}
