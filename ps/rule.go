package ps

import (
	"math"

	"github.com/tierml/tierml/internal/vector"
)

// RuleName says how a table's servers use gradients.
type RuleName string

const (
	// Add is no rule: updates are differences, and add up.
	Add RuleName = ""
	// SGD steps against the gradient, with Momentum if it is not 0. As in PyTorch's torch.optim.SGD (dampening 0):
	//
	//	v = Momentum·v + g;  w = w - Rate·v   (Nesterov: w - Rate·(g + Momentum·v))
	//
	// A row without a gradient continues as if its gradient were 0, like in a dense optimiser.
	SGD RuleName = "sgd"
	// AdaGrad divides each column's step by the root of its sum of squares (Duchi, Hazan and Singer, JMLR 2011; as in
	// torch.optim.Adagrad):
	//
	//	s = s + g²;  w = w - Rate·g/(√s + Epsilon)
	//
	// A row without a gradient does not change.
	AdaGrad RuleName = "adagrad"
	// Adam keeps running means of gradients and of their squares (Kingma and Ba, ICLR 2015):
	//
	//	m = Beta1·m + (1-Beta1)·g;  v = Beta2·v + (1-Beta2)·g²
	//	w = w - Rate · m/(1-Beta1^t) / (√(v/(1-Beta2^t)) + Epsilon)     t: the clock
	//
	// A row without a gradient does not change, nor do its means, as in torch.optim.SparseAdam. If every row has a gradient in every clock
	// it equals torch.optim.Adam.
	Adam RuleName = "adam"
	// Mean is SGD on the weighted mean of splits' deliveries, the outer step of DiLoCo (Douillard et al., 2023). A row's last column is not
	// a parameter: each split adds its weight there, and its gradients times that weight to the others. g is their sum divided by the sum
	// of the weights. A clock in which nobody delivers changes nothing, momentum included.
	Mean RuleName = "mean"
)

// Rule is what the servers of a table do with gradients. They add up the gradients of a clock and apply the rule once for each touched row,
// when the clock is folded; reads see the folded state. A rule's state of a row (its slots, and the clock of its last gradient) is stored
// next to the row's columns: it is moved, backed up and rolled back with them.
//
// L1 and L2 add a penalty L1·|w| + L2/2·w² by a proximal step after the gradient's, of the length h that the column's gradient step has
// (Rate, for AdaGrad Rate/(√s+Epsilon)): w = sign(w)·max(|w|-h·L1, 0)/(1+h·L2). Rows without a gradient are also penalised in every clock:
// all missed steps at once when they are next read or touched (Duchi and Singer, "Efficient online and batch learning using forward
// backward splitting", JMLR 2009, section 5).
type Rule struct {
	Name         RuleName
	Rate         float32
	Momentum     float32 // of SGD and Mean, below 1
	Nesterov     bool    // of SGD and Mean with Momentum
	Beta1, Beta2 float32 // of Adam, below 1
	Epsilon      float32 // of AdaGrad and Adam
	L1, L2       float32 // of AdaGrad, and of SGD without Momentum
}

// slots returns the number of state values per column.
func (r *Rule) slots() int {
	switch {
	case r.Name == Adam:
		return 2
	case r.Name == AdaGrad, (r.Name == SGD || r.Name == Mean) && r.Momentum != 0:
		return 1
	}
	return 0
}

// Check returns an error unless the rule exists and its parameters are valid.
func (r *Rule) Check() error {
	within := func(x, least, below float32) bool { return x >= least && x < below }
	none := Rule{Name: r.Name}
	switch r.Name {
	case Add:
	case SGD:
		none.Momentum, none.Nesterov = r.Momentum, r.Nesterov
		if r.Momentum == 0 {
			none.Nesterov, none.L1, none.L2 = false, r.L1, r.L2
		}
	case Mean:
		if none.Momentum = r.Momentum; r.Momentum != 0 {
			none.Nesterov = r.Nesterov
		}
	case AdaGrad:
		none.Epsilon, none.L1, none.L2 = r.Epsilon, r.L1, r.L2
	case Adam:
		none.Beta1, none.Beta2, none.Epsilon = r.Beta1, r.Beta2, r.Epsilon
	default:
		return invalid("no rule is named %q", r.Name)
	}
	if none.Rate = r.Rate; r.Name == Add {
		none.Rate = 0
	}
	if *r != none {
		return invalid("rule %q has no use for some of %+v", r.Name, *r)
	}
	const large = math.MaxFloat32
	if r.Name != Add && !(r.Rate > 0 && r.Rate < large) || !within(r.Momentum, 0, 1) || !within(r.Beta1, 0, 1) ||
		!within(r.Beta2, 0, 1) || !within(r.Epsilon, 0, large) || !within(r.L1, 0, large) || !within(r.L2, 0, large) {
		return invalid("rule %q cannot work with %+v", r.Name, *r)
	}
	return nil
}

// ruled is a stored row of a table with a rule, in its parts.
type ruled struct {
	w, a, b []float32 // columns and slots; unused ones are empty
	clock   *int32    // of the last gradient
}

func (t *Table) parts(cells []float32) ruled {
	cols, r := t.Cols, ruled{}
	r.w, cells = cells[:cols], cells[cols:]
	if t.Rule.slots() > 0 {
		r.a, cells = cells[:cols], cells[cols:]
	}
	if t.Rule.slots() > 1 {
		r.b, cells = cells[:cols], cells[cols:]
	}
	r.clock = &Ints(cells[:1])[0]
	return r
}

// Step applies the rule to a stored row, with the gradient of a later clock than the last one's.
func (t *Table) Step(cells, gradient []float32, clock Clock) {
	row := t.parts(cells)
	t.catchUp(row, clock-1)
	switch t.Rule.Name {
	case SGD:
		t.Rule.stepSGD(row, gradient)
	case Mean:
		t.Rule.stepMean(row, gradient)
	case AdaGrad:
		t.Rule.stepAdaGrad(row, gradient)
	case Adam:
		t.Rule.stepAdam(row, gradient, clock)
	}
	*row.clock = int32(clock)
}

// Seen sets dst to the columns of a stored row as of a folded clock, not before the row's last gradient.
func (t *Table) Seen(dst, cells []float32, folded Clock) {
	if t.Rule.Name == Add || t.Rule.Name == Mean { // as stored
		copy(dst, cells[:t.Cols])
		return
	}
	row := t.parts(cells)
	copy(dst, row.w)
	row.w = dst
	if t.Rule.Momentum != 0 { // catching up changes the slots
		row.a = append([]float32(nil), row.a...)
	}
	last := *row.clock
	row.clock = &last
	t.catchUp(row, folded)
}

// The formulas are computed in float64. Each product is converted before it is added to something: Go may otherwise fuse the two, and round
// differently on some processors.

func (r *Rule) stepMean(row ruled, gradient []float32) {
	last := len(gradient) - 1
	weight := float64(gradient[last])
	if !(weight > 0) {
		return
	}
	rate, momentum := float64(r.Rate), float64(r.Momentum)
	w := row.w[:last]
	if r.Nesterov {
		vector.Nesterov(w, row.a, gradient, weight, momentum, rate)
		return
	}
	for i, sum := range gradient[:last] {
		d := float64(sum) / weight
		if r.Momentum != 0 {
			d += float64(momentum * float64(row.a[i]))
			row.a[i] = float32(d)
		}
		w[i] = float32(float64(w[i]) - float64(rate*d))
	}
}

func (r *Rule) stepSGD(row ruled, gradient []float32) {
	rate, momentum := float64(r.Rate), float64(r.Momentum)
	for i, g := range gradient {
		d := float64(g)
		if r.Momentum != 0 {
			v := float64(momentum*float64(row.a[i])) + d
			row.a[i] = float32(v)
			if r.Nesterov {
				d += float64(momentum * v)
			} else {
				d = v
			}
		}
		row.w[i] = float32(r.proximal(float64(row.w[i])-float64(rate*d), rate, 1))
	}
}

func (r *Rule) stepAdaGrad(row ruled, gradient []float32) {
	for i, g := range gradient {
		g := float64(g)
		s := float32(float64(row.a[i]) + float64(g*g))
		row.a[i] = s
		step := r.adaStep(s)
		row.w[i] = float32(r.proximal(float64(row.w[i])-float64(step*g), step, 1))
	}
}

// adaStep returns the length of AdaGrad's step for a sum of squares. no gradient, no step.
func (r *Rule) adaStep(s float32) float64 {
	if s == 0 {
		return 0
	}
	return float64(r.Rate) / (math.Sqrt(float64(s)) + float64(r.Epsilon))
}

func (r *Rule) stepAdam(row ruled, gradient []float32, t Clock) {
	beta1, beta2 := float64(r.Beta1), float64(r.Beta2)
	bias1, bias2 := 1-power(beta1, t), 1-power(beta2, t)
	for i, g := range gradient {
		g := float64(g)
		m := float64(beta1*float64(row.a[i])) + float64((1-beta1)*g)
		v := float64(beta2*float64(row.b[i])) + float64((1-beta2)*float64(g*g))
		row.a[i], row.b[i] = float32(m), float32(v)
		d := m / bias1 / (math.Sqrt(v/bias2) + float64(r.Epsilon))
		if g == 0 && v == 0 {
			d = 0 // 0/0 without an Epsilon
		}
		row.w[i] = float32(float64(row.w[i]) - float64(float64(r.Rate)*d))
	}
}

// catchUp applies the clocks since the row's last gradient, through a clock, in which it had none.
func (t *Table) catchUp(row ruled, through Clock) {
	missed := through - Clock(*row.clock)
	r := &t.Rule
	if missed <= 0 {
		return
	}
	switch {
	case r.Name == Mean:
	case r.Momentum != 0:
		// v, Momentum·v, Momentum²·v, ...: a geometric series.
		momentum := float64(r.Momentum)
		rest := power(momentum, missed)
		way := float64(r.Rate) * momentum * (1 - rest) / (1 - momentum)
		if r.Nesterov {
			way *= momentum
		}
		for i, v := range row.a {
			row.w[i] = float32(float64(row.w[i]) - float64(way*float64(v)))
			row.a[i] = float32(rest * float64(v))
		}
	case r.L1 != 0 || r.L2 != 0:
		for i, w := range row.w {
			step := float64(r.Rate)
			if r.Name == AdaGrad {
				step = r.adaStep(row.a[i])
			}
			row.w[i] = float32(r.proximal(float64(w), step, missed))
		}
	}
	*row.clock = int32(through)
}

// proximal applies several proximal steps for the penalty, of equal length, at once.
func (r *Rule) proximal(w, step float64, times Clock) float64 {
	if r.L1 == 0 && r.L2 == 0 {
		return w
	}
	// |w| shrinks from x to (x-h·L1)/(1+h·L2) in each step until it is 0.
	lasso, ridge := float64(step*float64(r.L1)), 1/(1+float64(step*float64(r.L2)))
	shrink, off := power(ridge, times), float64(float64(times)*lasso)
	if ridge != 1 {
		off = lasso * ridge * (1 - shrink) / (1 - ridge)
	}
	left := float64(shrink*math.Abs(w)) - off
	if !(left > 0) && left == left {
		return 0
	}
	return math.Copysign(left, w)
}

// power returns x to the n: the same bits on every machine, which math.Pow does not promise.
func power(x float64, n Clock) float64 {
	result := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result *= x
		}
		x *= x
	}
	return result
}
