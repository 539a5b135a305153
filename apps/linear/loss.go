package linear

import (
	"math"

	"github.com/tierml/tierml/internal/vector"
)

// loss is a loss function of a score and a goal.
type loss int

const (
	squared  loss = iota // e^2/2, where e is the error
	logistic             // log(1 + exp(-m)), m = goal * score the margin
	hinge                // max(0, 1 - m), its corner rounded
	huber                // e^2/2 up to |e| = delta, then linear
)

var lossNames = []string{squared: "squared", logistic: "logistic", hinge: "hinge", huber: "huber"}

// classifies reports whether the goals are the classes -1 and 1.
func (l loss) classifies() bool { return l == logistic || l == hinge }

// rule is a loss function with its width: delta of Huber's, smooth of the hinge.
type rule struct {
	loss    loss
	width   float64
	weights []float32 // of the classes -1 and 1; nil = equal
}

// weight returns the weight of an example.
func (r rule) weight(goal float64) float64 {
	switch {
	case r.weights == nil:
		return 1
	case goal > 0:
		return float64(r.weights[1])
	}
	return float64(r.weights[0])
}

// slope returns the derivative of the loss by the score.
func (r rule) slope(score, goal float32) float32 {
	slope := r.unweighted(score, goal)
	if r.weights != nil {
		slope *= float32(r.weight(float64(goal)))
	}
	return slope
}

func (r rule) unweighted(score, goal float32) float32 {
	switch r.loss {
	case squared:
		return score - goal
	case logistic:
		return float32(-float64(goal) / (1 + vector.Exp(float64(goal*score))))
	case hinge:
		short := 1 - float32(goal*score) // the shortfall of the margin
		return -goal * min(max(short/float32(r.width), 0), 1)
	}
	return min(max(score-goal, -float32(r.width)), float32(r.width))
}

// value returns the loss, for objectives.
func (r rule) value(score, goal float64) float64 {
	loss, factor, _, _ := r.at(score, goal, 0)
	return loss + math.Log(factor)
}

// at returns the loss, and its first and second derivative by the score. The loss is returned as a number and a factor, from 1 to 2, whose
// logarithm must be added: many examples need only one logarithm, of the product of their factors. Where the loss is linear, so that no
// derivative says how far to go, the second is this share of the curvature of the parabola that touches it there and lies above it
// everywhere.
func (r rule) at(score, goal, share float64) (loss, factor, slope, bend float64) {
	loss, factor, slope, bend = r.unweightedAt(score, goal, share)
	if r.weights != nil {
		w := r.weight(goal)
		return w * (loss + math.Log(factor)), 1, w * slope, w * bend
	}
	return loss, factor, slope, bend
}

func (r rule) unweightedAt(score, goal, share float64) (loss, factor, slope, bend float64) {
	switch r.loss {
	case squared:
		return (score - goal) * (score - goal) / 2, 1, score - goal, 1
	case logistic:
		m := goal * score
		e := math.Exp(-math.Abs(m))
		// The probability of the other class is e/(1+e) where m > 0, else 1/(1+e). A branch would often be mispredicted.
		inverse := 1 / (1 + e)
		wrong := (1 + e - math.Copysign(1-e, m)) / 2 * inverse
		return max(-m, 0), 1 + e, -goal * wrong, e * inverse * inverse
	case hinge:
		switch short := 1 - goal*score; {
		case short <= 0:
			return 0, 1, 0, 0
		case short < r.width:
			return short * short / (2 * r.width), 1, -goal * short / r.width, 1 / r.width
		default:
			return short - r.width/2, 1, -goal, share / (2*short - r.width)
		}
	}
	if e := score - goal; math.Abs(e) > r.width {
		return r.width * (math.Abs(e) - r.width/2), 1, math.Copysign(r.width, e), share * r.width / math.Abs(e)
	}
	return (score - goal) * (score - goal) / 2, 1, score - goal, 1
}

// curvature returns the largest second derivative of the loss by the score.
func (r rule) curvature() float64 {
	most := max(r.weight(-1), r.weight(1))
	switch r.loss {
	case logistic:
		return 0.25 * most
	case hinge:
		return most / r.width
	}
	return 1
}
