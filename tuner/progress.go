package tuner

import (
	"math"
	"slices"
)

// ClocksLeft returns section IV's estimate of the clocks that a model needs from now until its loss reaches the target,
// from the loss before some consecutive clocks under one setting and the losses after each. It follows from Hogwild's
// bound, j = j0 + H/l log(d/l) (equation 3), with d as in equation 5 and H fitted by least squares. 0 = reached; +Inf =
// the loss did not fall.
//
// It ranks settings at one loss. As an arrival time it is several times too optimistic: use Progress for that.
func ClocksLeft(before float64, clocks []Clock, target float64) float64 {
	highest, last := 0., before
	for _, c := range clocks {
		if usable(c.Loss) {
			highest, last = max(highest, c.Loss), c.Loss
		}
	}
	if last <= target {
		return 0
	}
	d := min(2*before, highest)
	over, under := 0., 0.
	for i, c := range clocks {
		if !usable(c.Loss) || c.Loss >= d { // above d its log would be negative, and H with it (IV-A, concern b)
			continue
		}
		x := math.Log(d/c.Loss) / c.Loss
		over, under = over+float64(i+1)*x, under+x*x
	}
	if under == 0 || d <= target {
		return math.Inf(1)
	}
	return over / under / target * math.Log(d/target)
}

func usable(loss float64) bool { return loss > 0 && !math.IsInf(loss, 0) }

// Progress estimates when a loss will be reached, as an interval with its record, from all losses so far. It extrapolates with curves c + A
// (j+b)^-p, a power law with a floor: the bound that ClocksLeft uses has neither, and on the demo's 320 clocks it is 2 to 8 times too
// optimistic. Every curve that fits about as well as the best one counts; if past intervals failed, the interval is widened by their error.
type Progress struct {
	clocks []float64
	losses []float64
}

// Estimate is the number of further clocks to a loss.
type Estimate struct {
	Low, Likely, High float64 // +Inf = some of the fitting curves, or the best, never get there
	// Tries and Held are the record: how many estimates made from part of the clocks were compared with the clocks actually needed for
	// today's loss, and how many held before widening.
	Tries, Held int
}

// Add records the loss after a clock; clocks ascend, with gaps allowed.
func (p *Progress) Add(clock int, loss float64) {
	if usable(loss) {
		p.clocks, p.losses = append(p.clocks, float64(clock)), append(p.losses, loss)
	}
}

// fewest losses to which a curve is fitted.
const fewest = 8

// Left estimates the clocks to a loss; false if there are too few losses.
func (p *Progress) Left(target float64) (Estimate, bool) {
	n := len(p.losses)
	if n < fewest || !(target > 0) {
		return Estimate{}, false
	}
	now := p.clocks[n-1]
	if smooth(p.losses) <= target {
		return Estimate{}, true
	}
	e := extrapolate(p.clocks, p.losses, target)
	shorter, longer := 1., 1.
	for _, part := range []float64{.4, .5, .6, .7, .8} {
		k := int(part * float64(n))
		today := smooth(p.losses)
		if k < fewest || smooth(p.losses[:k]) <= today {
			continue
		}
		past := extrapolate(p.clocks[:k], p.losses[:k], today)
		took := now - p.clocks[k-1]
		e.Tries++
		if took >= past.Low && took <= past.High {
			e.Held++
		}
		if past.Low > 0 {
			shorter = min(shorter, took/past.Low)
		}
		if past.High > 0 {
			longer = max(longer, took/past.High)
		}
	}
	e.Low, e.High = e.Low*shorter, e.High*longer
	return e, true
}

// smooth returns the median of the last tenth of the losses, at least 5: one clock's figure is noise.
func smooth(losses []float64) float64 {
	k := max(len(losses)/10, min(5, len(losses)))
	last := slices.Sorted(slices.Values(losses[len(losses)-k:]))
	return last[(k-1)/2]
}

// curve is a fit and the mean square of its residuals.
type curve struct{ floor, log, power, offset, from, squares float64 }

// reaches returns the clock at which the curve is at a loss.
func (c curve) reaches(target float64) float64 {
	if target <= c.floor {
		return math.Inf(1)
	}
	return math.Exp((c.log-math.Log(target-c.floor))/c.power) - c.offset + c.from
}

// alike bounds how much worse than the best a curve may fit to count, in mean squares.
const alike = 1.3

func extrapolate(clocks, losses []float64, target float64) Estimate {
	now := clocks[len(clocks)-1]
	e := Estimate{Low: math.Inf(1)}
	likely := 0.
	for i, from := range []int{0, len(clocks) / 3, len(clocks) / 2} { // the first clocks often follow a different curve
		x, y := thin(clocks[from:], losses[from:])
		if len(x) < fewest/2 {
			continue
		}
		curves := fitCurves(x, y)
		best := curve{squares: math.Inf(1)}
		for _, c := range curves {
			if c.squares < best.squares {
				best = c
			}
		}
		for _, c := range curves {
			if c.squares <= alike*best.squares {
				left := max(c.reaches(target)-now, 1)
				e.Low, e.High = min(e.Low, left), max(e.High, left)
			}
		}
		if i == 1 || likely == 0 {
			likely = max(best.reaches(target)-now, 1)
		}
	}
	e.Likely = min(max(likely, e.Low), e.High)
	return e
}

// thin returns about 40 points, each the mean of equally many clocks.
func thin(clocks, losses []float64) (x, y []float64) {
	bin := max(len(clocks)/40, 1)
	for i := 0; i+bin <= len(clocks); i += bin {
		a, b := 0., 0.
		for j := i; j < i+bin; j++ {
			a, b = a+clocks[j], b+losses[j]
		}
		x, y = append(x, a/float64(bin)), append(y, b/float64(bin))
	}
	return x, y
}

// fitCurves fits a curve for each of some floors and offsets: the rest is a straight line in logs.
func fitCurves(x, y []float64) []curve {
	least := slices.Min(y)
	var curves []curve
	span := x[len(x)-1] - x[0]
	for _, share := range []float64{0, .2, .4, .6, .7, .8, .85, .9, .93, .96, .98, .99, .995} {
		floor := share * least
		for _, part := range []float64{.01, .03, .1, .3, 1, 3, 10} {
			offset := part * span
			var sx, sy, sxx, sxy, n float64
			for i := range x {
				a, b := math.Log(x[i]-x[0]+offset), math.Log(y[i]-floor)
				sx, sy, sxx, sxy, n = sx+a, sy+b, sxx+a*a, sxy+a*b, n+1
			}
			slope := (sxy - sx*sy/n) / (sxx - sx*sx/n)
			if !(slope < 0) {
				continue
			}
			c := curve{floor: floor, log: (sy - slope*sx) / n, power: -slope, offset: offset, from: x[0]}
			for i := range x {
				r := floor + math.Exp(c.log-c.power*math.Log(x[i]-x[0]+offset)) - y[i]
				c.squares += r * r / n
			}
			curves = append(curves, c)
		}
	}
	return curves
}
