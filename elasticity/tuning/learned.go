package tuning

import (
	"maps"
	"math"
	"slices"

	"github.com/tierml/tierml/internal/journal"
)

// Result is a setting and its effect on a job.
type Result struct {
	Known
	Pace    float64 // seconds per clock, the mean of its samples
	Default float64 // the same for the default
}

// Learned returns the best setting that a run has recorded, of the fleet that was measured most; false if nothing was compared.
func Learned(lines []journal.TuneDetails) (best Result, ok bool) {
	type tried struct {
		Result
		sum float64
		n   int
	}
	fleets := map[int][]*tried{}
	samples, most := map[int]int{}, 0
	for _, d := range lines {
		s := d.Sample
		if s == nil || s.Pace == 0 {
			continue
		}
		n := d.Machines
		at := slices.IndexFunc(fleets[n], func(t *tried) bool { return maps.Equal(t.Setting, s.Setting) })
		if at < 0 {
			at = len(fleets[n])
			fleets[n] = append(fleets[n], &tried{Result: Result{Known: Known{Machines: n, Setting: s.Setting}, Default: s.Default}})
		}
		t := fleets[n][at]
		t.sum, t.n = t.sum+s.Pace, t.n+1
		if samples[n]++; samples[n] > samples[most] {
			most = n
		}
	}
	best.Pace = math.Inf(1)
	for _, t := range fleets[most] {
		if t.Pace = t.sum / float64(t.n); t.Pace < best.Pace {
			best = t.Result
		}
	}
	return best, len(fleets[most]) > 1
}
