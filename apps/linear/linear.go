// Package linear is linear models: a weight for each feature and a bias, chosen to make
//
//	objective = mean loss of the training examples + l1 * sum |w| + l2/2 * sum w^2
//
// small, where the bias is not penalised. The loss is squared, logistic, hinge or Huber's; the familiar names (svm, logistic, lasso, ridge,
// robust) are the same application with different defaults.
//
// One clock is one pass over the data and one step of Nesterov's accelerated dual averaging for composite objectives (Tseng, "On
// accelerated proximal gradient methods for convex-concave optimization", 2008, algorithm 3; Xiao, "Dual averaging methods for regularized
// stochastic learning and online optimization", JMLR 11, 2010). It was chosen because it suits a parameter server that can only add up.
// Splits exchange only
//
//	G += a_k * gradient at x_k        a sum over examples, hence over splits, in any order
//
// and the penalty, whose rule is not linear, is applied by every reader to the sum that it reads: it is not part of the updates. So the
// steps equal those of one machine for any number of splits, and l1 gives weights that are exactly 0. Other rules would need care here: the
// proximal steps of single splits do not add up to the step of their sum.
//
// In one process Newton's method is used instead (see newton). The parameter optimizer selects proximal gradient steps on the servers
// instead (see ruled.go), whose rule runs once for all splits together.
//
// The package is arithmetic; it opens no file and knows no machine.
package linear

import (
	"fmt"
	"io"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/ps"
)

// Kind registers a linear model under one of its names.
type Kind struct {
	name string
	loss loss
	free bool // whether the loss is a hyper-parameter
	step float64
	l1   float64
	l2   float64 // shared by the examples
}

// Kinds returns the linear models, by the names that job files use.
func Kinds() []Kind {
	return []Kind{
		{name: "linear", loss: squared, step: 1, free: true},
		{name: "ridge", loss: squared, step: 1, l2: 1},
		{name: "lasso", loss: squared, step: 1, l1: 0.01},
		{name: "robust", loss: huber, step: 1, l2: 1},
		{name: "logistic", loss: logistic, step: 1, l2: 1},
		{name: "svm", loss: hinge, step: 4, l2: 1},
	}
}

// Name is the application's name in job files.
func (k Kind) Name() string { return k.name }

// Params documents the hyper-parameters. Numbers are standardised, including the target of a regression, so that the same defaults suit
// houses and dollars.
func (k Kind) Params() []apps.Param {
	params := []apps.Param{
		{Name: "l1", Default: k.l1, Min: 0, Max: 1e6, Unit: "per example",
			Why: "penalty on absolute weights; makes unimportant ones exactly 0"},
		{Name: "l2", Default: k.l2, Shared: true, Max: 1e6, Unit: "per example",
			// Scikit-learn's ridge has alpha = 1, its logistic regression and liblinear C = 1: each is 1 / examples here.
			Why: "penalty on squared weights, halved; liblinear's C is 1 / (l2 * examples)"},
		{Name: "step", Default: k.step, Min: 1e-6, Max: 100, Unit: "of the largest safe step",
			// For svm 4 is safe on usual data, as few examples are near the hinge's bend.
			Why: "on machines, in units of the largest step that surely converges; about 0.3 for a staleness of 1"},
		{Name: "optimizer", Default: float64(averaging), Choices: methodNames, Unit: "a word",
			Why: "on machines: averaging (Nesterov's accelerated dual averaging) needs the fewest clocks; sgd and adagrad (proximal steps at the servers) suit stale reads"},
		labelled.TargetParam("for classes the one named class, label, target or y, else the last; for numbers the last column of numbers"),
	}
	if k.free || k.loss.classifies() {
		params = append(params, labelled.WeightsParam())
	}
	if k.free {
		params = append(params, apps.Param{Name: "loss", Default: float64(k.loss), Choices: lossNames, Unit: "a word",
			Why: "squared and huber predict a number, logistic and hinge one of two classes"})
	}
	if k.free || k.loss == huber {
		params = append(params, apps.Param{Name: "delta", Default: 0.5, Min: 1e-3, Max: 1e3, Unit: "standard deviations of the target",
			// If a fit explains half the variance, the tails of the error begin at 0.5.
			Why: "larger errors count by their size instead of their square"})
	}
	if k.free || k.loss == hinge {
		params = append(params, apps.Param{Name: "smooth", Default: 0.5, Min: 1e-3, Max: 1, Unit: "of the margin",
			// Rounding reduces an example's loss by at most smooth/2. On a9a, 0.2 takes twice as many clocks to the same accuracy, 0.847.
			Why: "width of the hinge's rounded corner; smaller values take more clocks"})
	}
	return params
}

// StaleDefaults implements apps.Stale: acceleration amplifies the errors of stale gradients.
func (Kind) StaleDefaults() apps.Params { return apps.Params{"optimizer": methodNames[proximalAdapt]} }

// Former implements apps.Former: the penalty used to be the same for any number of examples.
func (k Kind) Former(_ int, given apps.Params) apps.Params {
	switch {
	case k.name == "ridge":
		return given.With("l2", 0.01)
	case k.l2 != 0:
		return given.With("l2", 0.0001)
	}
	return given
}

// Prepare cuts a LIBSVM file or a CSV table into splits.
func (Kind) Prepare(in apps.Input, cut apps.Cut, create apps.Create) (apps.Dataset, error) {
	return labelled.Prepare(in, cut, create)
}

// New creates the application for a dataset made by Prepare.
func (k Kind) New(params apps.Params, data apps.Dataset) (apps.Program, error) {
	p, err := k.program(params, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	return p, nil
}

func (k Kind) program(params apps.Params, data apps.Dataset) (*Program, error) {
	values, err := params.Resolve(k.Params())
	if err != nil {
		return nil, err
	}
	p := &Program{name: k.name, step: values.Float("step"), usualStep: k.step, l1: values.Float("l1")}
	p.l2 = params.PerExample(values, "l2", data.Examples)
	p.method = method(values.Int("optimizer"))
	p.rule.loss = k.loss
	if k.free {
		p.rule.loss = loss(values.Int("loss"))
	}
	if p.rule.loss == huber {
		p.rule.width = values.Float("delta")
	}
	if p.rule.loss == hinge {
		p.rule.width = values.Float("smooth")
	}
	p.center, p.scale = 0, 1
	if p.rule.loss.classifies() {
		if p.task, err = labelled.Classification(data, params); err != nil {
			return nil, err
		}
		if n := len(p.task.Classes); n != 2 {
			return nil, fmt.Errorf("%d classes: a linear model tells 2 apart; the application mlr takes more", n)
		}
		if p.rule.weights, err = p.task.Weights(values); err != nil {
			return nil, err
		}
	} else {
		if p.task, err = labelled.Regression(data, params); err != nil {
			return nil, err
		}
		p.center, p.scale = p.task.Target.Mean, p.task.Target.Scale
	}
	if p.steepest = p.rule.curvature() * p.task.Data.Curvature / p.step; p.steepest == 0 {
		p.steepest = 1 // data without features and without examples that differ: any step is fine
	}
	return p, nil
}

// Program is a linear model of one dataset with its hyper-parameters, which Kind.Params documents.
type Program struct {
	name      string
	task      *labelled.Task
	rule      rule
	method    method
	step      float64
	usualStep float64 // the default of the parameter step
	l1, l2    float64
	steepest  float64 // bound of the loss's second derivative in any direction: 1 / step
	// A number is predicted as center + scale * score.
	center, scale float64
}

// Name is the application's name in job files.
func (p *Program) Name() string { return p.name }

// Doubts implements apps.Doubtful.
func (p *Program) Doubts() []string { return p.task.Doubts() }

// ReadLate implements apps.Late: the last gradients weigh most.
func (p *Program) ReadLate() bool { return true }

// A row of the one table holds the state of a block of features: a weight each, then a sum of gradients each. The
// bias is the feature after the last.
const (
	blockSize = 64
	rowSize   = 2 * blockSize
)

// Tables returns one table, of blocks of features, unless the servers have a rule.
func (p *Program) Tables() []ps.Table {
	if p.ruled() {
		return p.ruledTables()
	}
	return []ps.Table{{Name: "weights", Rows: uint64(p.blocks()), Cols: rowSize}}
}

// LeastRows implements apps.Dense: the blocks with the features of an average example, or those that a split keeps.
func (p *Program) LeastRows() []uint64 {
	blocks := (uint64(p.task.Entries/max(p.task.Size(), 1)) + blockSize - 1) / blockSize
	if p.ruled() {
		return []uint64{blocks, tableBias: 1}
	}
	return []uint64{max(blocks, uint64((p.blocks()+p.task.Dataset.Splits-1)/p.task.Dataset.Splits))}
}

// bias is its feature number. If the servers have a rule it starts a block of its own.
func (p *Program) bias() int {
	if p.ruled() {
		return (p.task.Inputs + blockSize - 1) / blockSize * blockSize
	}
	return p.task.Inputs
}

func (p *Program) blocks() int { return (p.bias() + blockSize) / blockSize } // bias included, rounded up

// key returns the table row of a block.
func (p *Program) key(block int) ps.Key {
	if p.ruled() && block == p.blocks()-1 {
		return ps.Key{Table: tableBias}
	}
	return ps.Key{Row: ps.RowID(block)}
}

// keeper returns the split that writes a block's weights.
func (p *Program) keeper(block int) ps.Split { return ps.Split(block % p.task.Dataset.Splits) }

// Score returns the root mean square error, for robust regression the mean absolute error, for classes the share of
// errors. The losses in Stats are sums of squared errors, absolute errors or numbers of errors.
func (p *Program) Score(loss float64, n int64) float64 {
	if p.rule.loss == squared {
		return math.Sqrt(loss / float64(n))
	}
	return loss / float64(n)
}

// ScoreName names the result of Score.
func (p *Program) ScoreName() string {
	switch p.rule.loss {
	case squared:
		return "RMSE"
	case huber:
		return "MAE"
	}
	return "error rate"
}

// work counts the floating-point operations of one example: 2 per entry in the score, 2 in the
// gradient, and 10 for the bias, the loss and its slope.
func work(examples, entries int64) float64 { return float64(10*examples + 4*entries) }

// WorkPerClock returns the work of one clock over all splits.
func (p *Program) WorkPerClock() float64 { return work(p.task.Size(), p.task.Entries) }

// LoadSplit reads a split file. The seed is not used: training a linear model is not random.
func (p *Program) LoadSplit(id ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	train, test, err := p.task.Load(id, r)
	if err != nil {
		return nil, err
	}
	return newSplit(p, id, train, test), nil
}

// goal returns the target as the loss wants it: -1 or 1 for classes, standardised for numbers.
func (p *Program) goal(target float32) float32 {
	if p.rule.loss.classifies() {
		return 2*target - 1
	}
	return float32((float64(target) - p.center) / p.scale)
}

// fault returns the error of a score in the metric that Stats reports.
func (p *Program) fault(score, goal float32) float64 {
	d := (float64(score) - float64(goal)) * p.scale
	switch p.rule.loss {
	case squared:
		return float64(d * d)
	case huber:
		return math.Abs(d)
	}
	if (score > 0) != (goal > 0) {
		return 1
	}
	return 0
}
