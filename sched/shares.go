package sched

import "math"

// Unfairness is Dorm's loss of fairness (equation 2 and constraint 11): the sum of differences between the jobs' dominant shares and their
// weighted DRF shares on all hosts as one pool. A waiting job loses its whole fair share; otherwise starvation would look fair.
func Unfairness(s State) float64 {
	if len(s.Hosts) == 0 {
		return 0
	}
	sum := 0.
	for _, a := range (Dorm{}).problem(begin(s), nil).apps {
		sum += math.Abs(a.share*float64(a.holds) - a.fair)
	}
	return sum
}
