package dnn

import (
	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// optimizer turns a gradient into a step. The tables' servers execute it: see ps.Rule for the formulas.
type optimizer int

const (
	momentum optimizer = iota
	plain
	adaGrad
	adam
)

// optimizerNames are the words of the parameter optimizer.
var optimizerNames = []string{momentum: "momentum", plain: "sgd", adaGrad: "adagrad", adam: "adam"}

// usualSteps are the optimizers' step sizes that work for MNIST and for tables.
var (
	usualSteps       = [...]float64{momentum: 0.1, plain: 1, adaGrad: 0.2, adam: 0.005}
	usualStepsHidden = [...]float64{momentum: 0.2, plain: 0.5, adaGrad: 0.02, adam: 0.002}
)

// Adam's usual constants (Kingma and Ba, section 2), and AdaGrad's guard against division by 0.
const (
	beta1, beta2 = 0.9, 0.999
	epsilon      = 1e-8
)

// usual returns an optimizer's step for these networks.
func (k Kind) usual(o optimizer) float64 {
	if k.hidden {
		return usualStepsHidden[o]
	}
	return usualSteps[o]
}

// optimizerParams documents the optimizers' parameters.
func (k Kind) optimizerParams() []apps.Param {
	decay, usual := 0.01, adaGrad
	steps := "0: momentum 0.1, sgd 1, adagrad 0.2, adam 0.005"
	why := "how a clock's mean gradient becomes a step; adagrad and adam give each weight its own"
	if !k.hidden {
		// Error rates after 100 and 1000 clocks by momentum and AdaGrad: shuttle 0.042, 0.040 and 0.038, 0.038; letter 0.287, 0.233 and
		// 0.25, 0.23; MNIST t10k 0.097 and 0.082 after 100.
		why += "; adagrad needs the fewest clocks without hidden layers"
	}
	if k.hidden {
		decay, usual = 0.05, momentum
		why += "; momentum ends lower on MNIST"
		steps = "0: momentum 0.2, sgd 0.5, adagrad 0.02, adam 0.002"
	}
	return []apps.Param{
		{Name: "optimizer", Default: float64(usual), Choices: optimizerNames, Unit: "a word",
			Why: why},
		{Name: "step", Default: 0, Min: 0, Max: 10, Unit: "per clock",
			Why: "step size of the first pass, times the mean gradient of a batch; " + steps + "; half of it takes about twice the passes"},
		{Name: "momentum", Default: 0.9, Min: 0, Max: 0.999, Unit: "of the last change",
			Why: "for momentum: share of a clock's change that is repeated in the next; stale reads need less"},
		{Name: "decay", Default: decay, Min: 0, Max: 100, Unit: "per pass",
			Why: "for momentum and sgd: the step of a clock is step / (1 + decay * whole passes before it)"},
	}
}

// rule returns the rule that servers apply to the gradients of a clock.
func (p *Program) rule() ps.Rule {
	switch rate := float32(p.step); p.optimizer {
	case adaGrad:
		return ps.Rule{Name: ps.AdaGrad, Rate: rate, Epsilon: epsilon}
	case adam:
		return ps.Rule{Name: ps.Adam, Rate: rate, Beta1: beta1, Beta2: beta2, Epsilon: epsilon}
	default:
		return ps.Rule{Name: ps.SGD, Rate: rate, Momentum: p.momentum}
	}
}

// shareAt returns a clock's step as a share of the first one's, a pure function of the clock. The rate of a rule is constant, so gradients
// are multiplied by it: for rules that are linear in them that is equivalent. AdaGrad's steps shrink by themselves, and Adam's do not
// depend on the gradients' magnitude.
func (p *Program) shareAt(c ps.Clock) float64 {
	if p.optimizer == adaGrad || p.optimizer == adam {
		return 1
	}
	passes := float64((int64(c) - 1) / int64(p.batches))
	return 1 / (1 + float64(p.decay*passes))
}
