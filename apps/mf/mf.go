// Package mf is matrix factorisation of ratings by stochastic gradient descent: user u's rating of item i is predicted as
//
//	mean + scale * (b_u + b_i + p_u . q_i)
//
// and the biases b and the factor vectors p and q are chosen to make the squared error on the training ratings small, with an L2 penalty
// (Koren, Bell and Volinsky, "Matrix factorization techniques for recommender systems", IEEE Computer 42(8), 2009).
//
// There are two tables, users and items, with a row for each: the factors, then the bias. A user's ratings are all in one split, so only
// items are shared. When many splits work on the same items in one clock, their differences are added up, and steps that suit one split are
// too long by a factor of the number of splits. So the sum of all splits' steps on an item in a clock is limited: see item_step_sum. The
// limit depends on how often an item is rated, not on the number of splits, so that 1 split and 64 reach the same quality with the same
// parameters. Except in deterministic mode, a worker's splits are one piece of work, and the changes of several workers are weighted
// instead: see joint.
//
// The package is arithmetic and formats; it opens no file and knows no machine.
package mf

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// The tables.
const (
	tableUsers ps.TableID = 0
	tableItems ps.TableID = 1
)

// Kind registers matrix factorisation.
type Kind struct{}

// Name is the application's name in job files.
func (Kind) Name() string { return "mf" }

// Params documents the hyper-parameters. Ratings are standardised (Ratings.Scale), so the same defaults do for
// stars and for percentages. They were chosen on MovieLens 100K, a fifth held out, 320 clocks, five seeds, by mean test RMSE: 0.912.
// Tried and dropped:
//   - rank 64: 0.910, for twice the work and traffic.
//   - step 0.1 with decay 0.5: as good there, but ranks from 100 on stop short of the minimum on a million ratings (0.741 after 10
//     passes at rank 100, not 0.736).
//   - l2 0.06: 0.93, too close a fit. bias_l2 from 0.01 to 0.05 is the same.
//   - item_step_sum 2 slows convergence with many splits, 4 diverges (Jester).
//   - the same init at any rank: above 32, what unneeded factors keep of it is noise.
func (Kind) Params() []apps.Param {
	return []apps.Param{
		{Name: "rank", Default: 32, Min: 1, Max: 4096, Whole: true, Unit: "factors",
			Why: "length of the factor vectors"},
		{Name: "step", Default: 0.15, Min: 1e-6, Max: 1, Unit: "per rating",
			Why: "step size of the first pass"},
		{Name: "decay", Default: 0.7, Min: 0, Max: 100, Unit: "per pass",
			Why: "the step of a clock is step / (1 + decay * whole passes before it)"},
		{Name: "l2", Default: 0.09, Min: 0, Max: 10, Unit: "per rating",
			Why: "penalty on squared factors; for dense data 0.06 or less"},
		{Name: "bias_l2", Default: 0.03, Min: 0, Max: 10, Unit: "per rating",
			Why: "penalty on squared biases"},
		{Name: "batches", Default: 4, Min: 1, Max: 1 << 20, Whole: true, Unit: "clocks per pass",
			Why: "groups of each split's users, one for each clock"},
		{Name: "item_step_sum", Default: 1, Min: 0.001, Max: 1000, Unit: "per clock",
			Why: "bound of the sum of all splits' steps on one item in a clock; larger values diverge with many splits. With deterministic: false it is 8 times as much"},
		{Name: "init", Default: 0.1, Min: 0, Max: 10, Unit: "standard deviations of a rating",
			Why: "first values are drawn from -init to init, above rank 32 from less"},
	}
}

// initRank is the highest rank for which the parameter init is used unchanged.
const initRank = 32

// New creates the application for a dataset made by Prepare.
func (Kind) New(params apps.Params, data apps.Dataset) (apps.Program, error) {
	values, err := params.Resolve(Kind{}.Params())
	if err != nil {
		return nil, fmt.Errorf("matrix factorisation: %w", err)
	}
	ratings, err := ratingsOf(data)
	if err != nil {
		return nil, fmt.Errorf("matrix factorisation: %w", err)
	}
	return &Program{
		data:        data,
		ratings:     ratings,
		rank:        values.Int("rank"),
		step:        values.Float("step"),
		decay:       values.Float("decay"),
		l2:          values.Float("l2"),
		biasL2:      values.Float("bias_l2"),
		batches:     values.Int("batches"),
		itemStepSum: values.Float("item_step_sum"),
		init:        float32(values.Float("init") * min(math.Sqrt(initRank/values.Float("rank")), 1)),
	}, nil
}

// Program factorises one dataset with its hyper-parameters, which Kind.Params documents.
type Program struct {
	data    apps.Dataset
	ratings Ratings

	rank        int
	step        float64
	decay       float64
	l2, biasL2  float64
	batches     int
	itemStepSum float64
	init        float32
}

// Name is the application's name in job files.
func (*Program) Name() string { return Kind{}.Name() }

// Tables are users and items: a row is the factors, then the bias.
func (p *Program) Tables() []ps.Table {
	start := ps.Init{Low: -p.init, High: p.init}
	return []ps.Table{
		tableUsers: {Name: "users", Rows: uint64(p.ratings.Users), Cols: p.rank + 1, Init: start},
		tableItems: {Name: "items", Rows: uint64(p.ratings.Items), Cols: p.rank + 1, Init: start},
	}
}

// LeastRows implements apps.Dense: a pass reads all rows of a split.
func (p *Program) LeastRows() []uint64 {
	return []uint64{
		tableUsers: apps.PerClock(uint64(p.ratings.MostUsers), p.batches), tableItems: apps.PerClock(uint64(p.ratings.MostItems), p.batches),
	}
}

// Score returns the root mean square error.
func (*Program) Score(loss float64, n int64) float64 { return math.Sqrt(loss / float64(n)) }

// ScoreName names the result of Score.
func (*Program) ScoreName() string { return "RMSE" }

// Doubts implements apps.Doubtful.
func (p *Program) Doubts() []string {
	if p.ratings.Low < p.ratings.High {
		return nil
	}
	return []string{fmt.Sprintf("every rating is %v: there is nothing to predict", p.ratings.Low)}
}

// WorkPerClock returns the work of one clock over all splits, exact on average over the clocks of a pass.
func (p *Program) WorkPerClock() float64 {
	return float64(p.data.Examples) * workPerExample(p.rank) / float64(p.batches)
}

// stepAt returns the step size of a clock, a pure function of the clock.
func (p *Program) stepAt(c ps.Clock) float64 {
	passes := float64((int64(c) - 1) / int64(p.batches))
	return p.step / (1 + float64(p.decay*passes))
}

// itemStep returns the step for an item with count training ratings over all splits. A clock processes one batch of each split, hence about
// count/batches ratings of the item, whose steps should add up to at most itemStepSum.
func (p *Program) itemStep(step float64, count uint32) float64 {
	return min(step, p.itemStepSum*float64(p.batches)/float64(max(count, 1)))
}
