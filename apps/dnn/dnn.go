// Package dnn classifies by neural networks of fully connected layers: each hidden layer is a weighted sum of the previous one plus a bias,
// cut off below zero (ReLU), and the last one yields the classes' probabilities (softmax). Without hidden layers it is softmax regression,
// also called multinomial logistic regression: the application mlr.
//
// One clock is one step of mini-batch gradient descent, by momentum (Polyak's heavy ball) unless set otherwise. The batch of a clock is
// drawn from all splits together (see package labelled), and every split adds its examples' part of the batch's mean gradient, all computed
// with the same weights. The servers apply the rule of the optimizer to the sum (ps.Rule), once for each row. So a clock is exactly the
// step that one machine would take, for any number of splits. The penalty is part of the gradient, added once per row by the row's keeper,
// one of the splits. A row of weights belongs to an input of its layer, so that a batch touches only the rows of the features in it.
//
// The package is arithmetic; it opens no file and knows no machine.
package dnn

import (
	"fmt"
	"io"
	"math"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/labelled"
	"github.com/tierml/tierml/ps"
)

// Kind is a family of networks for the registry.
type Kind struct {
	name   string
	hidden bool // whether there are hidden layers
}

// Networks is the kind with hidden layers.
func Networks() Kind { return Kind{name: "dnn", hidden: true} }

// Softmax is softmax regression, without hidden layers.
func Softmax() Kind { return Kind{name: "mlr"} }

// Name returns how job files name the application.
func (k Kind) Name() string { return k.name }

// maxWidth bounds the units of a layer.
const maxWidth = 65536

// Params documents the hyper-parameters. The figures in Why are the accuracy on 2,000 of the 10,000 MNIST test
// images after training on the other 8,000.
func (k Kind) Params() []apps.Param {
	l2 := apps.Param{Name: "l2", Default: 1, Shared: true, Max: 10, Unit: "per example",
		Why: "penalty on squared weights, halved; biases have none"}
	var params []apps.Param
	if k.hidden {
		l2.Default, l2.Shared, l2.Why = 0.001, false, "penalty on squared weights, halved; biases have none"
		params = []apps.Param{
			// After 30 passes 128 gives 0.955, 256 the same for twice the work, 64 0.94.
			{Name: "hidden", Default: 128, Min: 1, Max: maxWidth, Whole: true, Unit: "units", Why: "width of the first hidden layer"},
			{Name: "hidden_2", Default: 0, Min: 0, Max: maxWidth, Whole: true, Unit: "units", Why: "width of a second hidden layer; 0: none"},
			{Name: "hidden_3", Default: 0, Min: 0, Max: maxWidth, Whole: true, Unit: "units", Why: "width of a third hidden layer; 0: none"},
		}
	}
	params = append(params, k.optimizerParams()...)
	return append(params,
		l2,
		apps.Param{Name: "batches", Default: 16, Min: 1, Max: 1 << 20, Whole: true, Unit: "clocks per pass",
			Why: "parts of the data, one for each clock; more make more progress per pass and more traffic"},
		labelled.WeightsParam(),
		labelled.TargetParam("the one named class, label, target or y, else the last"),
	)
}

// StaleDefaults implements apps.Stale. Momentum is stable with steps of up to 2(1+m)/(curvature) for fresh gradients, but of only about
// (1-m)/curvature if they are one clock old, 38 times less at m = 0.9. AdaGrad's steps shrink with the gradients that a weight has seen,
// and tolerate a lag of some clocks. On MNIST, error rates after 480 clocks at a lag of 0, 1 and 3 clocks: of mlr 0.088, 0.091 and 0.106 by
// momentum, 0.087, 0.087 and 0.085 by AdaGrad; of dnn 0.046, 0.088 and 0.887 by momentum, 0.052, 0.055 and 0.067 by AdaGrad. Adam and plain
// SGD were in between.
func (k Kind) StaleDefaults() apps.Params {
	params := apps.Params{"optimizer": optimizerNames[adaGrad]}
	if !k.hidden {
		params["step"] = 0.1 // used for the figures above
	}
	return params
}

// Former implements apps.Former: softmax regression formerly had another penalty, before that momentum, and AdaGrad's default step was 0.1.
func (k Kind) Former(defaults int, given apps.Params) apps.Params {
	if !k.hidden {
		given = given.With("l2", 0.0001)
	}
	if defaults >= 1 {
		return given
	}
	if !k.hidden {
		given = given.With("optimizer", optimizerNames[momentum])
	}
	if given["optimizer"] == optimizerNames[adaGrad] {
		given = given.With("step", 0.1)
	}
	return given
}

// Prepare cuts IDX images, a LIBSVM file or a CSV table into splits.
func (Kind) Prepare(in apps.Input, cut apps.Cut, create apps.Create) (apps.Dataset, error) {
	return labelled.Prepare(in, cut, create)
}

// New creates the application for a prepared dataset.
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
	task, err := labelled.Classification(data, params)
	if err != nil {
		return nil, err
	}
	p := &Program{
		name:      k.name,
		task:      task,
		sizes:     []int{task.Inputs},
		optimizer: optimizer(values.Int("optimizer")),
		step:      values.Float("step"),
		decay:     values.Float("decay"),
		l2:        values.Float("l2"),
		batches:   values.Int("batches"),
	}
	if p.weights, err = task.Weights(values); err != nil {
		return nil, err
	}
	if !k.hidden {
		p.l2 = params.PerExample(values, "l2", task.Size())
	}
	if p.step == 0 {
		p.step = k.usual(p.optimizer)
	}
	if p.optimizer == momentum {
		p.momentum = float32(values.Float("momentum"))
	}
	if k.hidden {
		p.sizes = append(p.sizes, values.Int("hidden"))
		second, third := values.Int("hidden_2"), values.Int("hidden_3")
		if second == 0 && third > 0 {
			return nil, fmt.Errorf("parameter hidden_3 is %d, but there is no second hidden layer: write hidden_2", third)
		}
		for _, width := range []int{second, third} {
			if width > 0 {
				p.sizes = append(p.sizes, width)
			}
		}
	}
	p.sizes = append(p.sizes, len(task.Classes))
	return p, nil
}

// Program is one network and its dataset, with its hyper-parameters; see Kind.Params.
type Program struct {
	name      string
	task      *labelled.Task
	sizes     []int // inputs, units of the hidden layers, classes
	optimizer optimizer
	step      float64
	momentum  float32 // if the optimizer is momentum, else 0
	decay     float64
	l2        float64
	batches   int
	weights   []float32 // of classes; nil = equal
}

// weigh multiplies an example's slope by its class's weight.
func weigh(slope, weights []float32, class int) {
	if weights != nil {
		scale(slope, weights[class])
	}
}

// Name returns the application's name in job files.
func (p *Program) Name() string { return p.name }

// ReadLate implements apps.Late: hidden layers lose more to stale gradients than to waiting for rows.
func (p *Program) ReadLate() bool { return p.layers() > 1 }

// layers returns the number of layers with weights.
func (p *Program) layers() int { return len(p.sizes) - 1 }

// weightsTable returns the table of a layer: a row for each input and one for the biases.
func weightsTable(layer int) ps.TableID { return ps.TableID(layer) }

// Tables returns the layers' weights. They begin at random, since identical units of a layer would stay identical (He et al., "Delving deep
// into rectifiers", 2015, in its uniform form); those of a single layer begin at zero.
func (p *Program) Tables() []ps.Table {
	var tables []ps.Table
	for layer := range p.layers() {
		var init ps.Init
		if p.layers() > 1 {
			init.High = float32(math.Sqrt(6 / float64(p.sizes[layer]+1)))
			init.Low = -init.High
		}
		tables = append(tables, ps.Table{
			Name: fmt.Sprintf("layer%d", layer+1), Rows: uint64(p.sizes[layer] + 1), Cols: p.sizes[layer+1],
			Init: init, Rule: p.rule(),
		})
	}
	return tables
}

// biasRow returns the row of a layer's biases.
func (p *Program) biasRow(layer int) int { return p.sizes[layer] }

// LeastRows implements apps.Dense: the rows of a mean example's features, or the rows that a split keeps, and all rows of further layers.
func (p *Program) LeastRows() []uint64 {
	rows := make([]uint64, p.layers())
	for layer := 1; layer < len(rows); layer++ {
		rows[layer] = uint64(p.biasRow(layer)) + 1
	}
	features := uint64(p.task.Entries / max(p.task.Size(), 1))
	rows[0] = max(features, uint64(len(p.keptBy(0, 0)))) + 1
	return rows
}

// keptBy lists the rows of a layer that a split keeps, that is, adds the penalty to. Biases have none.
func (p *Program) keptBy(id ps.Split, layer int) []int {
	if p.l2 == 0 {
		return nil
	}
	var rows []int
	for row := int(id); row < p.biasRow(layer); row += p.task.Dataset.Splits {
		rows = append(rows, row)
	}
	return rows
}

// Score returns the share of misclassified examples. The losses in Stats count such errors.
func (*Program) Score(loss float64, n int64) float64 { return loss / float64(n) }

// ScoreName names the score.
func (*Program) ScoreName() string { return "error rate" }

// work counts floating-point operations: in the first layer, for each feature present, 2 per unit forward and 2 in the gradient; in the
// others, as if no unit were cut off, 2 per weight forward, 2 in the gradient and 2 for back-propagation; 10 per class for the
// probabilities.
func (p *Program) work(examples, entries int64) float64 {
	perExample := 10 * p.sizes[p.layers()]
	for layer := 1; layer < p.layers(); layer++ {
		perExample += 6 * p.sizes[layer] * p.sizes[layer+1]
	}
	return 4*float64(entries)*float64(p.sizes[1]) + float64(examples)*float64(perExample)
}

// WorkPerClock returns the work of one clock over all splits; it is the exact mean over the clocks of a pass.
func (p *Program) WorkPerClock() float64 {
	return p.work(p.task.Size(), p.task.Entries) / float64(p.batches)
}

// batchAt returns the ranks of a clock's batch over all splits, from first up to, but not including, end. Batches are cycled through in
// order.
func (p *Program) batchAt(c ps.Clock) (number int, first, end int64) {
	number = int((int64(c) - 1) % int64(p.batches))
	n, count := p.task.Size(), int64(p.batches)
	return number, int64(number) * n / count, int64(number+1) * n / count
}

// LoadSplit reads a split file. The seed is not used: the examples were shuffled when they were cut into splits.
func (p *Program) LoadSplit(id ps.Split, r io.Reader, _ uint64) (apps.Split, error) {
	train, test, err := p.task.Load(id, r)
	if err != nil {
		return nil, err
	}
	return newSplit(p, id, train, test), nil
}
