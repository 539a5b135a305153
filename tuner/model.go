package tuner

import (
	"math"
	"slices"
)

// model is what was learned about a quantity over settings and, if it matters, over the loss: a Gaussian process around
// a straight line in the loss. Without the line every query would be about an unseen loss, as the loss only falls, and
// the process returns to the mean far from its data.
type model struct {
	space  Space
	scales []int
	byLoss bool

	x        [][]float64
	raw      []float64
	settings []Setting

	process *process
	center  float64 // of the observations
	slope   float64 // of the line in the last column, the loss
	scale   float64 // their standard deviation around it
}

func newModel(space Space, byLoss bool) *model {
	m := &model{space: space, scales: space.scales(), byLoss: byLoss}
	if byLoss {
		m.scales = append(m.scales, len(space.Knobs))
	}
	return m
}

func (m *model) dimension() int {
	if m.byLoss {
		return len(m.space.Knobs) + 1
	}
	return len(m.space.Knobs)
}

func (m *model) row(x Setting, loss float64) []float64 {
	row := m.space.encode(x)
	if m.byLoss {
		row = append(row, loss)
	}
	return row
}

func (m *model) add(x Setting, loss, value float64) {
	m.x = append(m.x, m.row(x, loss))
	m.raw = append(m.raw, value)
	if !slices.ContainsFunc(m.settings, func(s Setting) bool { return slices.Equal(s, x) }) {
		m.settings = append(m.settings, slices.Clone(x))
	}
	m.process = nil
}

// effort returns how many times the likelihood may be computed for n observations. Each takes about n³ multiplications;
// this keeps a query below 50 ms with 200 observations, where another sample no longer moves the hyper-parameters far.
func effort(n int) (starts, most int) {
	switch {
	case n <= 30:
		return 3, 60
	case n <= 60:
		return 1, 40
	case n <= 120:
		return 0, 12
	}
	return 0, 3
}

// learn fits the process to the observations, starting from the last fit.
func (m *model) learn(last *hyper, seed uint64) {
	if m.process != nil || len(m.raw) == 0 {
		return
	}
	m.line()
	y := make([]float64, len(m.raw))
	for i := range y {
		y[i] = (m.raw[i] - m.trend(m.x[i])) / m.scale
	}
	if len(last.lengths) == 0 {
		for range m.dimension() {
			last.lengths = append(last.lengths, 1)
		}
		last.signal, last.noise = 1, math.Exp(-4)
	}
	starts, most := effort(len(y))
	m.process = search{limits: beliefs(m.dimension()), starts: starts, most: most, seed: seed}.fit(*last, m.scales, m.x, y)
	for noise := last.noise; m.process == nil; noise *= 10 { // with enough noise every covariance is positive definite
		m.process, _ = condition(hyper{last.lengths, last.signal, noise}, m.scales, m.x, y)
	}
	*last = m.process.hyper
}

// line fits center, slope and scale by least squares.
func (m *model) line() {
	n := float64(len(m.raw))
	var sumX, sumY, sumXX, sumXY, sumYY float64
	for i, y := range m.raw {
		x := 0.
		if m.byLoss {
			x = m.x[i][len(m.x[i])-1]
		}
		sumX, sumY, sumXX, sumXY, sumYY = sumX+x, sumY+y, sumXX+x*x, sumXY+x*y, sumYY+y*y
	}
	varX := sumXX - sumX*sumX/n
	m.slope = 0
	if m.byLoss && varX > 1e-9 {
		m.slope = (sumXY - sumX*sumY/n) / varX
	}
	m.center = (sumY - m.slope*sumX) / n
	left := sumYY - sumY*sumY/n - m.slope*m.slope*varX
	m.scale = math.Sqrt(max(left/n, 0))
	if m.scale < 1e-9*max(1, math.Abs(m.center)) {
		m.scale = max(1e-3*math.Abs(m.center), 1e-6) // all equal: nothing to divide by
	}
}

func (m *model) trend(row []float64) float64 {
	if !m.byLoss {
		return m.center
	}
	return m.center + m.slope*row[len(row)-1]
}

// judge returns means and variances of settings at a loss.
func (m *model) judge(settings []Setting, loss float64) []candidate {
	rows := make([][]float64, len(settings))
	for i, x := range settings {
		rows[i] = m.row(x, loss)
	}
	mean, variance := m.process.predict(rows)
	judged := make([]candidate, len(settings))
	for i, x := range settings {
		judged[i] = candidate{setting: x, mean: m.trend(rows[i]) + m.scale*mean[i], variance: m.scale * m.scale * variance[i]}
	}
	return judged
}

// best returns the tried setting with the least mean at a loss. The paper names no incumbent, and its newest observation is always the
// least, as the remaining time falls with the loss: so settings are compared at the same loss, by present beliefs.
func (m *model) best(loss float64) candidate {
	best := candidate{mean: math.Inf(1)}
	for _, c := range m.judge(m.settings, loss) {
		if c.mean < best.mean {
			best = c
		}
	}
	return best
}

// next returns the settings with the highest expected improvement at a loss over the best one.
func (m *model) next(best candidate, loss float64, seed uint64) []candidate {
	return m.space.candidates(func(settings []Setting) []candidate {
		judged := m.judge(settings, loss)
		for i, c := range judged {
			judged[i].log = logImprovement(c.mean, c.variance, best.mean)
		}
		return judged
	}, m.settings, seed)
}
