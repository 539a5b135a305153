package tuner

import (
	"math"
	"slices"
	"testing"
)

// Section IV-A, equations 3 to 5, on losses that follow the bound exactly: H is found, and the number of clocks left is equation 4's.
func TestPaperProgressEstimate(t *testing.T) {
	// d = the first of the five losses, as that is their maximum and less than twice the loss before; the following losses solve
	// j = H/l log(d/l) for H = 40.
	const h, d = 40., 2.
	clocks := []Clock{{Loss: d}}
	for j := 2.; j <= 5; j++ {
		low, high := 1e-6, d
		for range 200 {
			if mid := (low + high) / 2; h/mid*math.Log(d/mid) > j {
				low = mid
			} else {
				high = mid
			}
		}
		clocks = append(clocks, Clock{Loss: low})
	}
	want := h / .5 * math.Log(d/.5)
	if got := ClocksLeft(2.01, clocks, .5); math.Abs(got-want) > 1e-6*want {
		t.Errorf("%v clocks left, want %v", got, want)
	}
}

func TestPaperProgressTraps(t *testing.T) {
	for name, c := range map[string]struct {
		before float64
		losses []float64
		target float64
		want   float64
	}{
		"there":                      {1, []float64{.9, .4}, .5, 0},
		"rises":                      {1, []float64{1.1, 1.2, 1.3}, .5, 0}, // want > 0, see below
		"stands still":               {1, []float64{1, 1, 1}, .5, math.Inf(1)},
		"above twice the one before": {1, []float64{3, 4, 5}, .5, math.Inf(1)},
		"not a number":               {1, []float64{math.NaN(), math.Inf(1)}, .5, math.Inf(1)},
		"nothing":                    {1, nil, .5, math.Inf(1)},
	} {
		var clocks []Clock
		for _, l := range c.losses {
			clocks = append(clocks, Clock{Loss: l})
		}
		got := ClocksLeft(c.before, clocks, c.target)
		if name == "rises" {
			if !(got > 0) { // d is the last loss and the ones before it count: positive, if wrong
				t.Errorf("%s: %v", name, got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%s: %v clocks left, want %v", name, got, c.want)
		}
	}
}

// The interval on losses of seven real jobs (the train figure of each clock by `tierml train`, squared where it is a root): at a tenth to
// nine tenths of the way to two targets, compared with the paper's estimate.
func TestProgressInterval(t *testing.T) {
	var curves map[string][]float64
	readJSON(t, "losses.json", &curves)
	var held, all, finite, hopeful int
	var width []float64
	for name, losses := range curves {
		for _, end := range []float64{.5, .95} {
			target := smooth(losses[:int(end*float64(len(losses)))])
			reached := slices.IndexFunc(losses, func(l float64) bool { return l <= target }) + 1
			for k := range losses { // the first clock with the smoothed loss, which one lucky clock does not reach
				if k >= 5 && smooth(losses[:k+1]) <= target {
					reached = k + 1
					break
				}
			}
			for part := .1; part < .95; part += .1 {
				now := int(part * float64(reached))
				var p Progress
				for j, l := range losses[:now] {
					p.Add(j+1, l)
				}
				e, ok := p.Left(target)
				if !ok || now < 6 {
					continue
				}
				left := float64(reached - now)
				all++
				if e.Low <= left && left <= e.High {
					held++
				} else if testing.Verbose() {
					t.Logf("%s at %d: %v left, estimate %+v", name, now, left, e)
				}
				if !math.IsInf(e.High, 0) {
					finite++
					width = append(width, e.High/e.Low)
				}
				var last []Clock
				for _, l := range losses[now-5 : now] {
					last = append(last, Clock{Loss: l})
				}
				if r := ClocksLeft(losses[now-6], last, target); r < left/2 {
					hopeful++
				}
			}
		}
	}
	t.Logf("the interval held %d of %d times, had an end %d times, which was %.1f times its begin in the median; the paper's estimate was below half %d times",
		held, all, finite, median(width), hopeful)
	if all < 80 || float64(held) < .8*float64(all) {
		t.Errorf("the interval held %d of %d times", held, all)
	}
}
