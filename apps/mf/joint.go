package mf

import (
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// joint treats a worker's splits as one piece of work: plain stochastic gradient descent on one copy of the rows, in blocks that share
// neither users nor items, as `tierml train` does it (grid).
//
// Within a worker an item's steps are sequential and need no limit. Workers' changes to an item are added up, although each was computed
// without the others'. Therefore they are weighted (itemRatings.weight).
type joint struct {
	program *Program
	splits  []*split
	threads int
	clocks  []jointClock // of a pass; prepared when first needed
	ratings []itemRatings
	unseen  float64 // how many clocks of other workers' work this one may not have seen
	test    []ps.Key

	step    float64      // that these were computed for
	rates   []fast.Rates // by item: all the same
	weights []float32    // by item
	biases  []biasWeight // of items that others also rate
}

// biasWeight weighs the change of an item's bias against that of its vector.
type biasWeight struct {
	item   uint32
	weight float32
	before float32 // the bias
}

// itemRatings counts the ratings available for an item.
type itemRatings struct{ mine, all uint32 }

// jointClock is the work of one clock of a pass.
type jointClock struct {
	grid     *grid
	keys     []ps.Key
	examples []int64 // by split
	total    int64
	squares  []float64 // by task
}

// Join implements apps.Joining.
func (p *Program) Join(splits []apps.Split, threads int, staleness ps.Clock) apps.Joint {
	j := &joint{program: p, threads: threads, unseen: float64(min(staleness, mostUnseen) + 1), clocks: make([]jointClock, p.batches),
		ratings: make([]itemRatings, p.ratings.Items), rates: make([]fast.Rates, p.ratings.Items), weights: make([]float32, p.ratings.Items)}
	for _, s := range splits {
		s := s.(*split)
		j.splits = append(j.splits, s)
		for _, item := range s.data.items {
			j.ratings[item.row].all = item.count
		}
		for _, e := range s.data.train {
			j.ratings[s.data.items[e.item].row].mine++
		}
		j.test = s.keys(&s.test, j.test)
	}
	return j
}

// Needs implements apps.Joint.
func (j *joint) Needs(c ps.Clock, keys []ps.Key) []ps.Key { return append(keys, j.at(c).keys...) }

// EvalNeeds implements apps.Joint.
func (j *joint) EvalNeeds(keys []ps.Key) []ps.Key { return append(keys, j.test...) }

// at returns the work of a clock.
func (j *joint) at(c ps.Clock) *jointClock {
	clock := &j.clocks[uint64(c-1)%uint64(len(j.clocks))]
	if clock.grid == nil {
		j.layOut(clock, c)
	}
	return clock
}

func (j *joint) layOut(clock *jointClock, c ps.Clock) {
	p := j.program
	users, items := make([]bool, p.ratings.Users), make([]bool, p.ratings.Items)
	var cells []fast.Cell
	for _, s := range j.splits {
		b := s.batchAt(c)
		clock.examples = append(clock.examples, int64(len(b.examples)))
		for _, e := range b.examples {
			cell := fast.Cell{Row: s.data.users[e.user].row, Column: s.data.items[e.item].row,
				Value: float32((float64(e.value) - p.ratings.Mean) / p.ratings.Scale)}
			cells = append(cells, cell)
			users[cell.Row], items[cell.Column] = true, true
		}
	}
	clock.total = int64(len(cells))
	size := gridSize{users: p.ratings.Users, items: p.ratings.Items}
	for _, user := range places(users) {
		clock.keys = append(clock.keys, ps.Key{Table: tableUsers, Row: ps.RowID(user)})
	}
	size.activeUsers = len(clock.keys)
	for _, item := range places(items) {
		clock.keys = append(clock.keys, ps.Key{Table: tableItems, Row: ps.RowID(item)})
	}
	size.activeItems = len(clock.keys) - size.activeUsers
	clock.grid = newGrid(cells, size, 1, 4*fast.Width(p.rank), j.threads)
	clock.squares = make([]float64, clock.grid.tasks())
}

// Run implements apps.Joint.
func (j *joint) Run(c ps.Clock, rows apps.SharedRows, evaluate bool) ([]apps.Stats, error) {
	p, clock := j.program, j.at(c)
	stats := make([]apps.Stats, len(j.splits))
	userRows, items := rows.Table(tableUsers), rows.Table(tableItems)
	if evaluate {
		parallel.For(j.threads, len(j.splits), func(_, i int) { stats[i] = j.splits[i].evaluateShared(userRows, items) })
	}
	j.prepare(p.stepAt(c))
	users := p.rates(p.stepAt(c))
	f := fast.Scattered{Rows: userRows, Columns: items, Rank: p.rank, RowRates: fast.Rates{Step: users.step, Keep: users.keep, BiasKeep: users.biasKeep}, ColumnRates: j.rates}
	for i := range j.biases {
		if b := &j.biases[i]; items[b.item] != nil {
			b.before = items[b.item][p.rank]
		}
	}
	clock.grid.order.Run(j.threads, func(task int) { clock.squares[task] = f.Descend(clock.grid.blocks[0][task]) })
	for _, b := range j.biases {
		if row := items[b.item]; row != nil {
			row[p.rank] = b.before + b.weight*(row[p.rank]-b.before)
		}
	}
	var squares float64
	for _, s := range clock.squares {
		squares += s
	}
	for i, s := range j.splits {
		var err error
		share := float64(clock.examples[i]) / float64(max(clock.total, 1))
		if stats[i], err = s.measured(c, s.batchNumber(c), stats[i], squares*share); err != nil {
			return nil, err
		}
	}
	return stats, nil
}

// prepare computes what depends on a step size.
func (j *joint) prepare(step float64) {
	if j.step == step {
		return
	}
	j.step, j.biases = step, j.biases[:0]
	p := j.program
	for i := range j.rates {
		step := p.jointStep(step, j.ratings[i].all)
		r := p.rates(step)
		j.rates[i] = fast.Rates{Step: r.step, Keep: r.keep, BiasKeep: r.biasKeep}
		clocks := j.unseen / float64(p.batches) // in passes
		j.weights[i] = j.ratings[i].weight(vectorCurvature*step, clocks)
		if bias := j.ratings[i].weight(step, clocks); bias != j.weights[i] {
			j.biases = append(j.biases, biasWeight{item: uint32(i), weight: bias / j.weights[i]})
		}
	}
}

// jointStep is itemStep for sequential steps on an item, whose sum may be larger.
func (p *Program) jointStep(step float64, count uint32) float64 {
	return min(step, jointStepSum*p.itemStepSum*float64(p.batches)/float64(max(count, 1)))
}

// vectorCurvature is how much less a step moves an item's vector than its bias, towards what a rating demands: the mean square of users'
// vectors in a direction. Where users' vectors are longer than this, several workers together move the item too far; where they are
// shorter, not as far as they could. On a million generated ratings with one worker, two, and eight, the test RMSE after 10 passes is
// 0.754, 0.759 and 0.761 with 0.1; with 1 (a plain average, nearly) 0.754, 0.764 and 0.773; 0.02 diverges at times.
const vectorCurvature = 0.1

// weight returns how much of this worker's change to an item counts, if a step moves the item by a share s of the way to the value that the
// rating demands.
//
// Then n steps cover m(n) = 1 - (1-s)^n of the way, nearly 1 - exp(-s n). This worker's n ratings in a clock move the item that far towards
// their target; all N together should move it m(N) of the way to the mean target, in which this worker's has the weight n/N. So its change
// is scaled by m(N) n / (N m(n)): 1 if it has all ratings; nearly 1 if steps are few and short; n/N, a plain average, if every worker
// reaches its target. No worker needs to know how many others there are. With staleness, the work of several clocks adds up in the same
// way.
func (r itemRatings) weight(s, passes float64) float32 {
	if r.mine == 0 || r.mine >= r.all {
		return 1
	}
	share, all := float64(r.mine)/float64(r.all), float64(r.all)*passes
	return float32(share * math.Expm1(-s*all) / math.Expm1(-s*all*share))
}

// Weights implements apps.Joint.
func (j *joint) Weights(t ps.TableID) []float32 {
	if t != tableItems {
		return nil
	}
	return j.weights
}

// evaluateShared measures the held-out ratings.
func (s *split) evaluateShared(users, items [][]float32) (stats apps.Stats) {
	for _, e := range s.test.examples {
		user, item := users[s.data.users[e.user].row], items[s.data.items[e.item].row]
		d := float64(e.value) - s.program.ratings.rating(predict(user, item))
		stats.TestLoss += float64(d * d)
	}
	stats.TestCount = int64(len(s.test.examples))
	return stats
}

// jointStepSum is the multiple of item_step_sum to which an item's sequential steps in a clock may add up: far enough to converge, but not
// so far that a frequently rated item (jokes with thousands of ratings) never settles.
const jointStepSum = 8

// mostUnseen limits the clocks of staleness that count: even under ASP workers are about equally fast.
const mostUnseen = 4
