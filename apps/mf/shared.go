package mf

import (
	"fmt"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// sharedSteps is what RunShared works with, in place of drawing an order for each clock.
type sharedSteps struct {
	cells [][]fast.Cell // by batch: standardised, in the order of steps; nil = not laid out yet
	rates []fast.Rates  // by item
	step  float64       // that the rates are for
}

// RunShared takes one step per rating of the batch, in an order that is kind to the caches, as `tierml train` does
// (grid). The steps of an item stay bounded: other workers' differences are added to this one's.
func (s *split) RunShared(c ps.Clock, rows apps.SharedRows, evaluate bool) (apps.Stats, error) {
	if c < 1 {
		return apps.Stats{}, fmt.Errorf("clock %d: the first one is 1", c)
	}
	var stats apps.Stats
	if evaluate {
		s.bindShared(&s.test, rows)
		stats.TestCount, stats.TestLoss = s.evaluate()
	}
	p, number := s.program, s.batchNumber(c)
	s.bindShared(&s.batches[number], rows)
	step := p.stepAt(c)
	s.shared.prepare(s, number, step)
	users := p.rates(step)
	f := fast.Scattered{
		Rows: s.userRows, Columns: s.itemRows, Rank: p.rank,
		RowRates:    fast.Rates{Step: users.step, Keep: users.keep, BiasKeep: users.biasKeep},
		ColumnRates: s.shared.rates,
	}
	squares := f.Descend(s.shared.cells[number])
	return s.measured(c, number, stats, squares)
}

// bindShared is bind for shared rows.
func (s *split) bindShared(b *batch, rows apps.SharedRows) {
	users, items := rows.Table(tableUsers), rows.Table(tableItems)
	for _, u := range b.users {
		s.userRows[u] = users[s.data.users[u].row]
	}
	for _, i := range b.items {
		s.itemRows[i] = items[s.data.items[i].row]
	}
}

// prepare lays a batch out when it comes for the first time, and works out the rates of a new step size.
func (h *sharedSteps) prepare(s *split, number int, step float64) {
	if h.cells == nil {
		h.cells, h.rates = make([][]fast.Cell, len(s.batches)), make([]fast.Rates, len(s.data.items))
	}
	if h.cells[number] == nil {
		h.cells[number] = s.layOut(number)
	}
	if h.step != step {
		h.step = step
		for i := range h.rates {
			r := s.program.rates(s.program.itemStep(step, s.data.items[i].count))
			h.rates[i] = fast.Rates{Step: r.step, Keep: r.keep, BiasKeep: r.biasKeep}
		}
	}
}

// layOut puts a batch's ratings in order: groups of items that the second-level cache holds, one after the other, and
// within a group as many users at a time as it holds besides, in random order: user by user the model would be a little worse.
func (s *split) layOut(number int) []fast.Cell {
	p, b := s.program, &s.batches[number]
	cells := make([]fast.Cell, len(b.examples))
	for i, e := range b.examples {
		cells[i] = fast.Cell{Row: e.user, Column: e.item, Value: float32((float64(e.value) - p.ratings.Mean) / p.ratings.Scale)}
	}
	vectorBytes := 4 * fast.Width(p.rank)
	count := max(min((len(b.items)*vectorBytes+itemBytes-1)/itemBytes, len(cells)/max(len(b.users), 1)/leastPerUser), 1)
	group := byPopularity(cells, len(s.data.items), count)
	blocks := make([][]fast.Cell, count)
	for _, cell := range cells {
		g := group[cell.Column]
		blocks[g] = append(blocks[g], cell)
	}
	stream := apps.NewStream(s.seed, s.data.id, ps.Clock(number+1))
	cells = cells[:0]
	for _, block := range blocks {
		for len(block) > 0 {
			n := stretch(block, max(userBytes/vectorBytes, 1))
			apps.Shuffle(&stream, block[:n])
			cells, block = append(cells, block[:n]...), block[n:]
		}
	}
	return cells
}

// userBytes is how much room the vectors of the users take that come by together.
const userBytes = 256 << 10

// stretch is how many of the cells, which come user by user, are those of the first users.
func stretch(cells []fast.Cell, users int) int {
	for i := 1; i < len(cells); i++ {
		if cells[i].Row != cells[i-1].Row {
			if users--; users == 0 {
				return i
			}
		}
	}
	return len(cells)
}
