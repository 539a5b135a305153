package mf

import (
	"fmt"
	"io"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// LoadSplit reads a split file and deals its users out to batches.
func (p *Program) LoadSplit(id ps.Split, r io.Reader, seed uint64) (apps.Split, error) {
	data, err := p.read(id, r)
	if err != nil {
		return nil, err
	}
	return newSplit(p, data, seed), nil
}

func (p *Program) read(id ps.Split, r io.Reader) (*splitData, error) {
	data, err := readSplit(r, id)
	if err != nil {
		return nil, err
	}
	if n := len(data.users); n > 0 && int(data.users[n-1].row) >= p.ratings.Users {
		return nil, fmt.Errorf("split %d: user row %d of %d: it belongs to other data",
			id, data.users[n-1].row, p.ratings.Users)
	}
	if n := len(data.items); n > 0 && int(data.items[n-1].row) >= p.ratings.Items {
		return nil, fmt.Errorf("split %d: item row %d of %d: it belongs to other data",
			id, data.items[n-1].row, p.ratings.Items)
	}
	return data, nil
}

// split is one split in memory. A batch is a group of whole users, so that a user row is transferred once per pass and not once per clock.
type split struct {
	program *Program
	seed    uint64
	data    *splitData
	batches []batch
	test    batch // the held-out ratings

	// Working memory of Run, meaningless between calls.
	userRows, itemRows [][]float32
	order              []example
	itemRates          []rates
}

// batch is a list of examples and the rows that they use, as indexes into the split's lists.
type batch struct {
	examples     []example
	users, items []int
}

func newSplit(p *Program, data *splitData, seed uint64) *split {
	s := &split{
		program:   p,
		seed:      seed,
		data:      data,
		batches:   make([]batch, p.batches),
		userRows:  make([][]float32, len(data.users)),
		itemRows:  make([][]float32, len(data.items)),
		itemRates: make([]rates, len(data.items)),
	}
	batchOf := s.dealUsers()
	for _, e := range data.train {
		b := &s.batches[batchOf[e.user]]
		b.examples = append(b.examples, e)
	}
	for i := range s.batches {
		s.touch(&s.batches[i])
	}
	s.test.examples = data.test
	s.touch(&s.test)
	return s
}

// dealUsers distributes the users evenly by ratings over the batches, and returns each user's batch.
func (s *split) dealUsers() []int {
	train := make([]int, len(s.data.users))
	for _, e := range s.data.train {
		train[e.user]++
	}
	batchOf := make([]int, len(train))
	for b, members := range deal(train, s.program.batches) {
		for _, u := range members {
			batchOf[u] = b
		}
	}
	return batchOf
}

// touch lists the rows that a batch uses.
func (s *split) touch(b *batch) {
	users, items := make([]bool, len(s.data.users)), make([]bool, len(s.data.items))
	for _, e := range b.examples {
		users[e.user], items[e.item] = true, true
	}
	b.users, b.items = places(users), places(items)
}

func places(set []bool) []int {
	var list []int
	for i, member := range set {
		if member {
			list = append(list, i)
		}
	}
	return list
}

func (s *split) userKey(place int) ps.Key {
	return ps.Key{Table: tableUsers, Row: ps.RowID(s.data.users[place].row)}
}

func (s *split) itemKey(place int) ps.Key {
	return ps.Key{Table: tableItems, Row: ps.RowID(s.data.items[place].row)}
}

func (s *split) keys(b *batch, keys []ps.Key) []ps.Key {
	for _, u := range b.users {
		keys = append(keys, s.userKey(u))
	}
	for _, i := range b.items {
		keys = append(keys, s.itemKey(i))
	}
	return keys
}

// batchAt returns the batch of a clock: in rotation, so that a pass has as many clocks as there are batches. Each split starts with a
// different one: the low batches are slightly larger, and with fewer users than batches the high ones are empty, which must not coincide on
// all splits.
func (s *split) batchAt(c ps.Clock) *batch { return &s.batches[s.batchNumber(c)] }

func (s *split) batchNumber(c ps.Clock) int {
	return int((uint64(c-1) + uint64(s.data.id)) % uint64(len(s.batches)))
}

// Needs lists the rows of the batch's users and of the items that they rated.
func (s *split) Needs(c ps.Clock, keys []ps.Key) []ps.Key { return s.keys(s.batchAt(c), keys) }

// EvalNeeds lists the rows of the held-out ratings.
func (s *split) EvalNeeds(keys []ps.Key) []ps.Key { return s.keys(&s.test, keys) }

// Run takes one step per rating of the batch, in an order drawn for this split and clock.
func (s *split) Run(c ps.Clock, rows apps.Rows, evaluate bool) (apps.Stats, error) {
	if c < 1 {
		return apps.Stats{}, fmt.Errorf("clock %d: the first one is 1", c)
	}
	var stats apps.Stats
	if evaluate {
		s.bind(&s.test, rows)
		stats.TestCount, stats.TestLoss = s.evaluate()
	}
	number := s.batchNumber(c)
	b := &s.batches[number]
	s.bind(b, rows)
	return s.measured(c, number, stats, s.train(b, c))
}

// measured adds a clock's results, given the sum of squared errors on the standardised scale.
func (s *split) measured(c ps.Clock, number int, stats apps.Stats, squares float64) (apps.Stats, error) {
	b := &s.batches[number]
	stats.Examples = int64(len(b.examples))
	stats.Loss = squares * s.program.ratings.Scale * s.program.ratings.Scale
	stats.Work = float64(len(b.examples)) * workPerExample(s.program.rank)
	if math.IsNaN(stats.Loss) || math.IsInf(stats.Loss, 0) {
		return stats, fmt.Errorf("matrix factorisation diverged by clock %d: lower step (now %v) or item_step_sum (now %v)",
			c, s.program.step, s.program.itemStepSum)
	}
	return stats, nil
}

// bind looks up each row once, so that the inner loop need not.
func (s *split) bind(b *batch, rows apps.Rows) {
	for _, u := range b.users {
		s.userRows[u] = rows.Row(s.userKey(u))
	}
	for _, i := range b.items {
		s.itemRows[i] = rows.Row(s.itemKey(i))
	}
}

// train returns the sum of squared errors, each before its own step, on the standardised scale.
func (s *split) train(b *batch, c ps.Clock) (squares float64) {
	p := s.program
	step := p.stepAt(c)
	users := p.rates(step)
	for _, i := range b.items {
		s.itemRates[i] = p.rates(p.itemStep(step, s.data.items[i].count))
	}
	stream := apps.NewStream(s.seed, s.data.id, c)
	s.order = append(s.order[:0], b.examples...)
	apps.Shuffle(&stream, s.order)
	for _, e := range s.order {
		rating := float32((float64(e.value) - p.ratings.Mean) / p.ratings.Scale)
		d := float64(learn(s.userRows[e.user], s.itemRows[e.item], rating, users, s.itemRates[e.item]))
		squares += float64(d * d)
	}
	return squares
}

func (p *Program) rates(step float64) rates {
	return rates{
		step:     float32(step),
		keep:     float32(1 - float64(step*p.l2)),
		biasKeep: float32(1 - float64(step*p.biasL2)),
	}
}

// evaluate measures the held-out ratings with the bound rows.
func (s *split) evaluate() (count int64, loss float64) {
	for _, e := range s.test.examples {
		d := float64(e.value) - s.program.ratings.rating(predict(s.userRows[e.user], s.itemRows[e.item]))
		loss += float64(d * d)
	}
	return int64(len(s.test.examples)), loss
}

// rating turns a standardised prediction into a rating, clamped to the range of ratings that occur.
func (r Ratings) rating(predicted float32) float64 {
	return min(max(r.Mean+float64(r.Scale*float64(predicted)), r.Low), r.High)
}
