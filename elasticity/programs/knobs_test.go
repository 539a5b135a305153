package programs_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched/trials"
)

var knobs = []trials.Range{{Name: "threads", Low: 1, High: 8, Whole: true}, {Name: "prefetch", Values: []string{"0", "2", "4"}}}

// tuning returns a program of many steps with knobs, whose values determine its speed.
func tuning(t *testing.T, kind string, share float64, speed func(threads, prefetch int) float64) *world {
	cfg := kinds[kind]
	cfg.Knobs, cfg.Share = knobs, share
	w := emptyWorld(t, cfg)
	w.of = 20_000
	r := rand.New(rand.NewPCG(1, 2))
	w.speed = func(settings map[string]string) int64 {
		threads, err1 := strconv.Atoi(settings["TIERML_TUNE_THREADS"])
		prefetch, err2 := strconv.Atoi(settings["TIERML_TUNE_PREFETCH"])
		if err1 != nil || err2 != nil {
			t.Fatalf("the program's environment: %v", settings)
		}
		return max(int64(speed(threads, prefetch)*(1+.05*r.NormFloat64())+.5), 1)
	}
	w.again()
	return w
}

// untilDone returns the seconds until a program is done.
func (w *world) untilDone(most int) (seconds int) {
	for w.outcome == "" && seconds < most {
		w.second()
		seconds++
	}
	if w.outcome != "finished" {
		w.t.Fatalf("%q after %d s", w.outcome, seconds)
	}
	return seconds
}

// A program that begins with bad values gets better ones, with restarts from its state only.
func TestKnobsGain(t *testing.T) {
	for _, kind := range []string{"one", "gang"} {
		w := tuning(t, kind, .005, func(threads, prefetch int) float64 { return 4 * float64(min(threads, 4)) * (1 + .1*float64(prefetch)) })
		took := w.untilDone(6000)
		left := 20_000 / 4
		lines := w.lines(journal.Tune)
		t.Logf("%s: %d s in place of %d, %d decisions, the last: %s", kind, took, left, len(lines), lines[len(lines)-1].Why)
		if float64(left)/float64(took) < 1.4 {
			t.Errorf("%s: %d s in place of %d", kind, took, left)
		}
		for _, e := range w.lines(journal.ProgramEnd) {
			if e.Outcome != journal.Stopped && e.Outcome != journal.Finished {
				t.Errorf("%s: an attempt ended as %s: %s", kind, e.Outcome, e.Why)
			}
		}
	}
}

// A program whose first values are the best loses at most the allowed share to trials, and the journal has one net figure.
func TestKnobsCostAShareAtMost(t *testing.T) {
	w := tuning(t, "one", .005, func(threads, prefetch int) float64 {
		return 8 / (1 + .3*float64(threads-1)) * (1 - .05*float64(prefetch))
	})
	took := w.untilDone(6000)
	if most := 20_000 / 8 * 1.01; float64(took) > most {
		t.Errorf("%d s, which is more than %.0f", took, most)
	}
	lines := w.lines(journal.Tune)
	if last := lines[len(lines)-1].Why; !strings.Contains(last, "against the default") {
		t.Errorf("the last decision: %s", last)
	}
}

// The next controller, and the next machine, continue with the last one's values and what it has learned.
func TestKnobsAreTakenOver(t *testing.T) {
	w := tuning(t, "one", .005, func(threads, _ int) float64 { return 4 * float64(min(threads, 4)) })
	for range 400 {
		w.second()
	}
	before := w.running("rank-0").run.Settings["TIERML_TUNE_THREADS"]
	decided := len(w.lines(journal.Tune))
	w.again()
	for range 40 {
		w.second()
	}
	m := w.running("rank-0")
	if decided < 3 || m == nil || m.run.Settings["TIERML_TUNE_THREADS"] == "1" || before == "1" {
		t.Fatalf("%d decisions, threads %s; then %+v", decided, before, m)
	}
	w.warn(m)
	w.seconds(1)
	w.end(m, market.ByProvider)
	w.seconds(5)
	if next := w.running("rank-0"); next == nil || next == m || next.run.Settings["TIERML_TUNE_THREADS"] == "1" {
		t.Errorf("on the next machine: %+v", next)
	}
	w.untilDone(6000)
	for i, e := range w.lines(journal.Tune) {
		d, err := e.TuneDetails()
		if err != nil || i > 0 && d.Step == "default" && d.Sample == nil {
			t.Errorf("decision %d begins anew: %+v, %v", i, d, err)
		}
	}
}

// Without a known end nothing is tuned, and the plan says so.
func TestKnobsOfAProgramWithoutAnEnd(t *testing.T) {
	if text := programs.Outlook(knobs, 0); !strings.HasPrefix(text, "not tuned: ") {
		t.Error(text)
	}
	if text := programs.Outlook(knobs, 5); !strings.Contains(text, "begins with threads 1, prefetch 0") {
		t.Error(text)
	}
}
