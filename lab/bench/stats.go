package main

import (
	"math"
	"slices"
)

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return math.NaN()
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// medianInterval returns two order statistics that enclose the median with at least the confidence, for any
// distribution: the number of n values below the median is binomial with p = 1/2 (W. J. Conover, "Practical
// nonparametric statistics", section 3.2). If there are too few values, it returns the extremes.
func medianInterval(values []float64, confidence float64) (low, high float64) {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	left, below := 0, 0.0 // below: P(fewer than left+1 values lie below the median)
	for k := 0; k < n/2; k++ {
		below += binomialHalf(n, k)
		if below > (1-confidence)/2 {
			break
		}
		left = k + 1
	}
	left = max(left, 1)
	return v[left-1], v[n-left]
}

// binomialHalf returns the probability of k heads in n throws.
func binomialHalf(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c - float64(n)*math.Ln2)
}
