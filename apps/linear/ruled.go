package linear

import (
	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/vector"
	"github.com/tierml/tierml/ps"
)

// method is how machines minimise the objective.
type method int

const (
	averaging     method = iota // see the package comment
	proximal                    // the servers' rule ps.SGD
	proximalAdapt               // the servers' rule ps.AdaGrad
)

var methodNames = []string{averaging: "averaging", proximal: "sgd", proximalAdapt: "adagrad"}

// The servers' rules apply the whole mean gradient of a clock and then the penalty's proximal step, once per row: the
// proximal gradient method for all splits together, since the splits' own proximal steps would not add up. The bias,
// which has no penalty, has a table of its own.
const tableBias ps.TableID = 1

const (
	// adaptRate is the first step of a weight under ps.AdaGrad, whatever its gradient, as long as that is well above
	// adaptEpsilon: a gradient that is rounding alone, as the bias's of a centered target is, must not make a step.
	//
	// It is this short because of stale gradients. The first clocks' gradients, computed at the first weights, all
	// point the same way, and move 2 sqrt(lag) times as far as one. If that is too far, the gradients that lead back
	// are large, and permanently shorten all later steps. On a9a after 300 clocks `svm` ends at 0.2641 without lag and
	// 0.2835 with a lag of 2 clocks at a rate of 0.3; at 0.1 at 0.2644 and 0.2648, and at 0.2653 with a lag of 5.
	adaptRate    = 0.1
	adaptEpsilon = 1e-3
)

func (p *Program) ruled() bool { return p.method != averaging }

// serverRule returns the servers' rule without the penalty.
func (p *Program) serverRule() ps.Rule {
	if p.method == proximalAdapt {
		return ps.Rule{Name: ps.AdaGrad, Rate: float32(adaptRate * p.step / p.usualStep), Epsilon: adaptEpsilon}
	}
	return ps.Rule{Name: ps.SGD, Rate: float32(1 / p.steepest)}
}

// ruledTables returns the weights, in blocks, and the bias.
func (p *Program) ruledTables() []ps.Table {
	rule := p.serverRule()
	penalised := rule
	penalised.L1, penalised.L2 = float32(p.l1), float32(p.l2)
	return []ps.Table{
		{Name: "weights", Rows: uint64(p.blocks() - 1), Cols: blockSize, Rule: penalised},
		tableBias: {Name: "bias", Rows: 1, Cols: blockSize, Rule: rule},
	}
}

// pushGradient does the split's work of a clock: the gradient at the present weights. The rows must already be bound at
// the point.
func (s *split) pushGradient(rows apps.Rows) (loss float64) {
	for _, b := range s.train.blocks {
		copy(s.point[b.place:b.place+blockSize], rows.Row(s.program.key(b.block)))
		clear(s.gradient[b.place : b.place+blockSize])
	}
	loss = s.learn()
	share := float32(1 / float64(s.program.task.Size()))
	for _, b := range s.train.blocks {
		vector.Axpy(share, s.gradient[b.place:b.place+blockSize], apps.Gradient(rows, s.program.key(b.block)))
	}
	return loss
}
