package tuner

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Pace returns the mean time of the informative clocks of a setting; false if there are fewer than two. Disturbed clocks and outliers are
// left out (section III-B). Outliers are relative to the clocks of one setting: among settings the best one would be an outlier, too.
func Pace(clocks []Clock) (seconds float64, ok bool) {
	var times []float64
	for _, c := range clocks {
		if !c.Disturbed {
			times = append(times, c.Seconds)
		}
	}
	out := outliers(times)
	n := 0.
	for i, v := range times {
		if !out[i] {
			seconds, n = seconds+v, n+1
		}
	}
	if n < 2 && len(clocks) > 1 || n == 0 {
		return 0, false
	}
	return seconds / n, true
}

// outliers marks observations of one mean whose studentised residual, by the mean and variance of all the others, has a probability below 5
// % in n (James et al., 3.3.3; Bonferroni's correction). They are removed one at a time, the farthest first, up to a third of all; the last
// one that exceeds the limit determines their number, as two outliers hide each other (Rosner, Technometrics 1983).
func outliers(y []float64) []bool {
	out := make([]bool, len(y))
	var order []int
	found := 0
	for in := len(y); in >= 4 && len(order) < len(y)/3; in-- {
		worst, farthest := -1, -1.
		for i := range y {
			if !out[i] {
				if r := math.Abs(residual(y, out, i)); r > farthest {
					worst, farthest = i, r
				}
			}
		}
		out[worst], order = true, append(order, worst)
		if farthest > (distuv.StudentsT{Sigma: 1, Nu: float64(in - 2)}).Quantile(1-.025/float64(in)) {
			found = len(order)
		}
	}
	for _, i := range order[found:] {
		out[i] = false
	}
	return out
}

// residual returns the externally studentised residual of y[at] among the remaining observations.
func residual(y []float64, out []bool, at int) float64 {
	n, sum := 0., 0.
	for i, v := range y {
		if !out[i] && i != at {
			n, sum = n+1, sum+v
		}
	}
	mean, squares := sum/n, 0.
	for i, v := range y {
		if !out[i] && i != at {
			squares += (v - mean) * (v - mean)
		}
	}
	sd := math.Sqrt(squares/(n-1)) * math.Sqrt(1+1/n)
	if floor := 1e-3 * math.Abs(mean); sd < floor {
		sd = floor // equal to the last digit: a thousandth more is no outlier
	}
	return (y[at] - mean) / sd
}
