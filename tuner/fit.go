package tuner

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// limits of a hyper-parameter v, and its prior: a log density of tilt log v - above v^power - below v^-power, up to a constant.
type limits struct {
	low, high                 float64
	tilt, above, below, power float64
}

func (l limits) belief(log float64) float64 {
	if l.power == 0 {
		return 0
	}
	v := math.Exp(l.power * log)
	return l.tilt*log - l.above*v - l.below/v
}

// slope returns the derivative of belief.
func (l limits) slope(log float64) float64 {
	if l.power == 0 {
		return 0
	}
	v := math.Exp(l.power * log)
	return l.tilt - l.power*(l.above*v-l.below/v)
}

// beliefs returns the priors of the hyper-parameters, for coordinates between 0 and 1 and observations of variance 1.
// Few samples say little about a dozen length scales, and the likelihood alone then finds a knob or two that explain
// the noise. So lengths are kept from the extremes, with a flat prior between; the noise is believed to be a small
// part. The form is optuna's. Log-normal lengths around the root of the dimension (Hvarfner et al., ICML 2024) were
// tried: the median regret on Hartmann6 was .36, not .14. Shorter lengths (below: .03) are as good there, but a job
// then explores for too long.
func beliefs(dimension int) []limits {
	b := make([]limits, dimension+2)
	for i := range dimension {
		b[i] = limits{low: 1e-2, high: 1e2, above: .1, below: .075, power: 2}
	}
	b[dimension] = limits{low: 1e-3, high: 1e3, tilt: 1, above: 1, power: 1}
	b[dimension+1] = limits{low: 1e-6, high: 1e1, tilt: .1, above: 30, power: 1}
	return b
}

func (h hyper) logs() []float64 {
	var logs []float64
	for _, l := range h.lengths {
		logs = append(logs, math.Log(l))
	}
	return append(logs, math.Log(h.signal), math.Log(h.noise))
}

func fromLogs(logs []float64) hyper {
	d := len(logs) - 2
	h := hyper{signal: math.Exp(logs[d]), noise: math.Exp(logs[d+1])}
	for _, l := range logs[:d] {
		h.lengths = append(h.lengths, math.Exp(l))
	}
	return h
}

// bend maps any number into an interval and bent is its inverse, so that a method without bounds respects them.
func (l limits) bend(u float64) float64 {
	low, high := math.Log(l.low), math.Log(l.high)
	return low + (high-low)*(1+math.Sin(u))/2
}

func (l limits) bent(v float64) float64 {
	low, high := math.Log(l.low), math.Log(l.high)
	return math.Asin(min(max(2*(v-low)/(high-low)-1, -.98), .98)) // sin is flat at the bounds: start next to them
}

// search searches for the most likely hyper-parameters.
type search struct {
	limits []limits
	starts int // after the first
	most   int // evaluations of the likelihood per start
	seed   uint64
}

// fit returns the process with the most likely hyper-parameters by L-BFGS from first and from random starts; nil if none was found.
func (s search) fit(first hyper, scales []int, x [][]float64, y []float64) *process {
	var best *process
	highest := math.Inf(-1)
	see := func(h hyper) (*process, float64) {
		p, ok := condition(h, scales, x, y)
		if !ok {
			return nil, math.Inf(-1)
		}
		value := p.likelihood() + s.belief(h)
		if value > highest {
			best, highest = p, value
		}
		return p, value
	}
	s.climb(first.logs(), see)
	for _, logs := range s.promising(see) {
		s.climb(logs, see)
	}
	return best
}

// promising returns the starting points: the likeliest of five times as many. Most of the box is a plateau where the likelihood has no
// gradient.
func (s search) promising(see func(hyper) (*process, float64)) [][]float64 {
	type place struct {
		logs  []float64
		value float64
	}
	r := rand.New(rand.NewPCG(s.seed, 0x6a7))
	places := make([]place, 5*s.starts)
	for i := range places {
		logs := make([]float64, len(s.limits))
		for k, l := range s.limits {
			low, high := math.Log(l.low), math.Log(l.high)
			logs[k] = low + (high-low)*r.Float64()
		}
		_, value := see(fromLogs(logs))
		places[i] = place{logs, value}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.value, a.value) })
	var starts [][]float64
	for _, p := range places[:s.starts] {
		starts = append(starts, p.logs)
	}
	return starts
}

// belief returns the log density of hyper-parameters before any data, up to a constant.
func (s search) belief(h hyper) float64 {
	sum := 0.
	for i, v := range h.logs() {
		sum += s.limits[i].belief(v)
	}
	return sum
}

// climb calls see for one point after another, with increasing values.
func (s search) climb(logs []float64, see func(hyper) (*process, float64)) {
	at := make([]float64, len(logs))
	for i, v := range logs {
		at[i] = s.limits[i].bent(v)
	}
	straight := func(u []float64) []float64 {
		v := make([]float64, len(u))
		for i := range u {
			v[i] = s.limits[i].bend(u[i])
		}
		return v
	}
	var last []float64 // L-BFGS requests the value and then the slope at the same point
	var there *process
	value := func(u []float64) float64 {
		p, v := see(fromLogs(straight(u)))
		last, there = append(last[:0], u...), p
		return -v
	}
	problem := optimize.Problem{
		Func: value,
		Grad: func(slope, u []float64) {
			if !slices.Equal(last, u) {
				value(u)
			}
			clear(slope)
			if there == nil {
				return
			}
			logs := straight(u)
			for i, g := range there.slopes() {
				l := s.limits[i]
				slope[i] = -(g + l.slope(logs[i])) * math.Log(l.high/l.low) / 2 * math.Cos(u[i])
			}
		},
	}
	// An error means that a step found nothing better in floating point, or a point without a value: see has received the best.
	_, _ = optimize.Minimize(problem, at, &optimize.Settings{
		FuncEvaluations: s.most, GradientThreshold: 1e-4,
		Converger: &optimize.FunctionConverge{Absolute: 1e-6, Iterations: 6},
	}, &optimize.LBFGS{})
}
