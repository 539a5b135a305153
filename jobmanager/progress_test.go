package jobmanager

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/tierml/tierml/internal/journal"
)

// A job's progress is read from its journal: clocks, losses at its feedback clocks, its pace by number of workers, and whether a person has
// paused it.
func TestProgress(t *testing.T) {
	p := &progress{at: []int64{5, 10}, seconds: map[int][]float64{}}
	clock := func(n int64, workers int, seconds float64, loss *float64) {
		p.take(journal.Entry{Kind: journal.ClockDone, Clock: n, Transient: workers, Seconds: seconds, TestLoss: loss})
	}
	for n := range int64(5) {
		loss := 1 / float64(n+1)
		clock(n+1, 2, 2, &loss)
	}
	clock(6, 4, 99, nil) // the first ones after a change do not count
	clock(7, 4, 99, nil)
	for n := int64(8); n <= 12; n++ {
		clock(n, 4, 1, nil) // diverged: the loss was NaN
	}
	if got := fmt.Sprint(p.is.Done, p.is.Rungs, p.pace()); got != "12 [0.2 NaN] [{2 0 0.5} {4 0 1}]" {
		t.Error(got)
	}
	if !math.IsNaN(p.is.Rungs[1]) {
		t.Error(p.is.Rungs)
	}
	for _, c := range []struct {
		details journal.ScaleDetails
		want    string
	}{{journal.ScaleDetails{Paused: "ann"}, "ann"}, {journal.ScaleDetails{}, ""}, {journal.ScaleDetails{Paused: "drf", Scheduled: true}, ""}} {
		text, _ := json.Marshal(c.details)
		if p.take(journal.Entry{Kind: journal.Scale, Details: text}); p.is.PausedBy != c.want {
			t.Errorf("%+v: paused by %q", c.details, p.is.PausedBy)
		}
	}
}

// The loss at a job's end is its last test loss, or, if none is measured, the last one of any kind. A job that diverges after that has
// none.
func TestLossAtTheEnd(t *testing.T) {
	loss := func(figures ...float64) float64 { // of training and test alternately; 0 = absent
		p := &progress{loss: math.NaN(), seconds: map[int][]float64{}}
		for i := 0; i < len(figures); i += 2 {
			e := journal.Entry{Kind: journal.ClockDone, TrainLoss: &figures[i], TestLoss: &figures[i+1]}
			if figures[i] == 0 {
				e.TrainLoss = nil
			}
			if figures[i+1] == 0 {
				e.TestLoss = nil
			}
			p.take(e)
		}
		return p.loss
	}
	for _, c := range []struct{ got, want float64 }{{loss(3, 0, 2, 0), 2}, {loss(3, 4, 2, 0), 4}, {loss(3, 4, 2, 5), 5}} {
		if c.got != c.want {
			t.Errorf("%g, not %g", c.got, c.want)
		}
	}
	if got := loss(3, 4, 0, 0); !math.IsNaN(got) || !math.IsNaN(loss()) {
		t.Errorf("it diverged: %g", got)
	}
}
