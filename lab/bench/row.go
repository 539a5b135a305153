package main

import (
	"context"
	"fmt"
	"math"
)

// Row is one comparison: ours against a reference, in alternation, in one run.
type Row struct {
	What    string // what is measured, e.g. "push + pull, 64 KiB"
	Against string // the reference, e.g. "blocking TCP in C"
	Unit    string // of the two figures, e.g. "pairs/s"
	// Bar is the required ratio; 0 = none. AtMost inverts it: the ratio must not be higher.
	Bar    float64
	AtMost bool
	// Ours and Theirs each measure once, for some tenths of a second, and return a figure: usually a rate. The
	// ratio is ours divided by theirs; there is none if the other side cannot do it and Theirs is nil.
	Ours, Theirs Measure
	// Exact means that every measurement gives the same, or takes long: one is enough.
	Exact bool
	// Cold means that there is nothing to warm up.
	Cold bool
	// Curve names the curve to which the row belongs, At is its position: for pictures of growth.
	Curve string
	At    float64
	// Skip says why the row cannot be measured here; empty if it can.
	Skip string
}

// Measure returns one figure.
type Measure func(ctx context.Context) (float64, error)

// Group is a set of rows that share processes.
type Group struct {
	Name  string // on the command line and in the page's markers
	Title string
	Pairs int // how often each side of a row is measured
	// Open starts what the rows need. Close ends it. Rows without their peer have Skip set.
	Open func(ctx context.Context, env *Env) (rows []Row, close func(), err error)
}

// groups are all groups, in the order of the page. To add rows, write a file with a Group like
// paramserver.go and name it here.
var groups = []Group{paramServer, kernels, factors, through, wabbit, topicModels, endToEnd}

// Result is the result of a row.
type Result struct {
	Row
	OursMedian, TheirsMedian float64
	Ratio, Low, High         float64 // median of the pairs' ratios, and its 90 % interval
	Pairs                    int
}

// alone reports whether one side could not do it.
func (r *Result) alone() bool { return math.IsNaN(r.Ratio) }

// Verdict compares the ratio with the bar.
func (r *Result) Verdict() string {
	switch {
	case r.Skip != "":
		return "not run: " + r.Skip
	case r.Bar == 0:
		return ""
	case !r.AtMost && r.Ratio >= r.Bar, r.AtMost && r.Ratio <= r.Bar:
		return "reached"
	default:
		return "missed"
	}
}

// measure runs pairs of measurements in alternation. The first pair is a warm-up and does not count.
func measure(ctx context.Context, row Row, pairs int) (Result, error) {
	result := Result{Row: row, Pairs: pairs}
	if row.Skip != "" {
		return result, nil
	}
	var ours, theirs, ratios []float64
	if row.Exact {
		pairs, result.Pairs = 1, 1
	}
	for i := range pairs + 1 {
		if (row.Exact || row.Cold) && i == 0 {
			continue // nothing to warm up
		}
		a, err := row.Ours(ctx)
		if err != nil {
			return result, fmt.Errorf("%s: %w", row.What, err)
		}
		b := math.NaN()
		if row.Theirs != nil {
			b, err = row.Theirs(ctx)
		}
		if err != nil {
			return result, fmt.Errorf("%s, %s: %w", row.What, row.Against, err)
		}
		if i > 0 {
			ours, theirs, ratios = append(ours, a), append(theirs, b), append(ratios, a/b)
		}
	}
	result.OursMedian, result.TheirsMedian, result.Ratio = median(ours), median(theirs), median(ratios)
	result.Low, result.High = medianInterval(ratios, 0.9)
	return result, nil
}
