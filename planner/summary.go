package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MinStarts is how many past starts a forecast needs.
const MinStarts = 24

// rangeOf sorts runs that did not finish last, since their figures are only lower bounds: an end that falls on one is open. If even the
// middle does, nothing is known.
func rangeOf[T cmp.Ordered](runs []Run, figure func(Run) T) Range[T] {
	sorted := slices.Clone(runs)
	slices.SortFunc(sorted, func(a, b Run) int {
		if a.Finished != b.Finished {
			if a.Finished {
				return -1
			}
			return 1
		}
		return cmp.Compare(figure(a), figure(b))
	})
	low, middle, high := percentile(sorted, 5), percentile(sorted, 50), percentile(sorted, 95)
	if !middle.Finished {
		return Range[T]{}
	}
	return Range[T]{
		Known: true, Low: figure(low), Middle: figure(middle),
		High: max(figure(middle), figure(high)), HighOpen: !high.Finished,
	}
}

// percentile by nearest rank: the smallest figure that at least p percent do not exceed.
func percentile(sorted []Run, p int) Run {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

func tooFew(starts, minimum int) string {
	if starts == 0 {
		return "no price history goes back far enough to simulate this run"
	}
	return fmt.Sprintf("the price history has room for %d past starts of this run, and %d are needed", starts, minimum)
}

// short returns a duration in at most two units: "9h40m", "3d2h", "45s".
func short(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		d = d.Round(time.Hour)
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		d = d.Round(time.Minute)
		return strings.TrimSuffix(fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute), "00m")
	case d >= 10*time.Minute:
		return fmt.Sprintf("%dm", d.Round(time.Minute)/time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	return d.Round(time.Millisecond).String()
}
