package tuner

import "math"

// logImprovement returns the log of E max(0, least - f) for f ~ N(mean, variance), where less is better. The plain expected improvement
// underflows to 0 far from the best, where its slope is needed most (Ament et al., NeurIPS 2023).
func logImprovement(mean, variance, least float64) float64 {
	sd := math.Sqrt(variance)
	return logStandard((least-mean)/sd) + math.Log(sd)
}

// logStandard is log E max(0, z + N(0,1)) = log(phi(z) + z Phi(z)).
func logStandard(z float64) float64 {
	if z > -25 {
		return math.Log(density(z) + z*below(z))
	}
	// phi(z) (1 - x M(x)) with x = -z and Mills's ratio M as its asymptotic series
	x2 := 1 / (z * z)
	return -z*z/2 - .5*math.Log(2*math.Pi) + math.Log(x2*(1-x2*(3-x2*(15-x2*105))))
}

func density(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }

// below is Phi(z), the probability that a standard normal is less than z.
func below(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// saving is E max(0, least - e^v) for v ~ N(mean, variance): the expected saving, relative to least, of a setting whose time is log-normal.
func saving(mean, variance, least float64) float64 {
	sd := math.Sqrt(variance)
	z := (math.Log(least) - mean) / sd
	return max(least*below(z)-math.Exp(mean+variance/2)*below(z-sd), 0)
}
