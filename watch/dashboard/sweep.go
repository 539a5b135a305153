package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/runs"
)

// Sweep is the trials of one job file, as reported by a job server. Money is a decimal string of US dollars, seconds are market time.
type Sweep struct {
	ID       string  `json:"sweep"` // its first trial
	Job      string  `json:"job"`
	Metric   string  `json:"metric,omitempty"`
	Unit     string  `json:"unit,omitempty"`     // "step" if its trials are a program's; otherwise they count in clocks
	Of       int     `json:"of"`                 // total number of trials
	Feedback []int64 `json:"feedback,omitempty"` // clocks
	Trials   []Trial `json:"trials"`             // the best first
	Best     string  `json:"best,omitempty"`     // the finished trial with the lowest test loss
	Leader   string  `json:"leader,omitempty"`   // the best so far, while none has finished
	Model    string  `json:"model,omitempty"`    // the best one's file, on the job server's host
	Spent    string  `json:"spent"`
	Budget   string  `json:"budget,omitempty"`
	Seconds  float64 `json:"seconds"` // since its first trial began
	Longest  float64 `json:"max_seconds,omitempty"`
	Why      string  `json:"why,omitempty"` // if all trials were stopped
}

// Trial is a trial of a sweep.
type Trial struct {
	Run    string         `json:"run"`
	Params map[string]any `json:"params"`
	State  string         `json:"state"` // the job's
	Why    string         `json:"why,omitempty"`
	// Losses are at the feedback clocks reached; null is NaN.
	Losses  []*float64 `json:"losses"`
	Test    *float64   `json:"test_loss,omitempty"` // the last
	Clock   int64      `json:"clock"`
	Clocks  int64      `json:"clocks,omitempty"`
	Spent   string     `json:"spent,omitempty"`
	Seconds float64    `json:"seconds"`
}

// Rank sorts trials, the best first: finished ones, by their last test loss, then by the loss at the last feedback, and those without
// feedback by their last test loss. It returns the best of those that have finished, or the first of the others.
func (s *Sweep) Rank() {
	loss := func(t Trial) float64 {
		of := t.Test
		if n := len(t.Losses); n > 0 && (t.State != "finished" || of == nil) {
			of = t.Losses[n-1]
		}
		if of == nil {
			return math.Inf(1)
		}
		return *of
	}
	finished := func(t Trial) int {
		if t.State == "finished" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(s.Trials, func(a, b Trial) int {
		return cmp.Or(finished(b)-finished(a), cmp.Compare(len(b.Losses), len(a.Losses)), cmp.Compare(loss(a), loss(b)), runs.Compare(a.Run, b.Run))
	})
	if len(s.Trials) == 0 {
		return
	}
	switch first := s.Trials[0]; {
	case first.State == "finished" && first.Test != nil:
		s.Best = first.Run
	case first.Test != nil && !math.IsInf(loss(first), 1):
		s.Leader = first.Run
	}
}

// ProgramSweep returns the sweep of a program, whose trials are tasks of one run; false for other runs.
func ProgramSweep(run string, r *cost.Report) (s Sweep, ok bool) {
	p := r.Programs
	if r.Run.Kind != journal.Sweep || p == nil {
		return s, false
	}
	s = Sweep{ID: run, Job: r.Run.Name, Metric: r.Run.Metric, Unit: journal.Unit(journal.Single), Of: p.Tasks, Trials: []Trial{}, Spent: r.Totals.Total.String(), Seconds: r.Run.Seconds, Why: r.Run.Why}
	for _, t := range p.Trials {
		trial := Trial{Run: t.Name(), Params: map[string]any{}, State: t.Outcome, Why: t.Why, Losses: []*float64{}, Test: t.Loss, Clock: t.Step, Clocks: p.Of, Spent: t.USD.String(), Seconds: t.Hours * 3600}
		for name, value := range t.Settings {
			trial.Params[name] = value
		}
		s.Trials = append(s.Trials, trial)
	}
	switch best := p.Best(); {
	case best == nil:
	case best.Outcome == "done":
		s.Best = best.Name()
	default:
		s.Leader = best.Name()
	}
	return s, true
}

// Ahead returns the best trial, or the best so far.
func (s Sweep) Ahead() string { return cmp.Or(s.Best, s.Leader) }

// Settings returns a trial's parameters in words.
func (t Trial) Settings() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(t.Params)) {
		all = append(all, fmt.Sprintf("%s %v", name, t.Params[name]))
	}
	return strings.Join(all, ", ")
}

// LossAt formats the loss at a feedback.
func (t Trial) LossAt(feedback int) string {
	switch {
	case feedback >= len(t.Losses):
		return ""
	case t.Losses[feedback] == nil:
		return "no number"
	}
	return fmt.Sprintf("%.4f", *t.Losses[feedback])
}

// Counts returns how many trials are in each state.
func (s Sweep) Counts() string {
	count := s.states()
	var all []string
	for _, state := range append(slices.Clone(jobStates), "done", "open", cost.Dropped) { // the last ones are for a program's trials
		if n := count[state]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, state))
		}
	}
	if rest := s.Of - len(s.Trials); rest > 0 {
		all = append(all, fmt.Sprintf("%d to come", rest))
	}
	return strings.Join(all, ", ")
}

// states returns how many trials are in each state.
func (s Sweep) states() map[string]int {
	count := map[string]int{}
	for _, t := range s.Trials {
		count[t.State]++
	}
	return count
}

// Link returns the link to its page.
func (s Sweep) Link() string { return "/sweeps/" + url.PathEscape(s.ID) }

// sweepOf returns the sweep that a request names; without one it answers the request and returns false.
func (b *Board) sweepOf(w http.ResponseWriter, r *http.Request) (Sweep, bool) {
	name := r.PathValue("name")
	if b.manager != nil {
		for _, s := range b.manager(r).Sweeps {
			if s.ID == name {
				return s, true
			}
		}
	}
	trouble(w, http.StatusNotFound, "No such sweep", fmt.Sprintf("There is no sweep %q here.", name))
	return Sweep{}, false
}

// sweep shows a sweep's trials in a table and in two drawings.
func (b *Board) sweep(w http.ResponseWriter, r *http.Request) {
	s, found := b.sweepOf(w, r)
	if !found {
		return
	}
	is, err := b.swept.get(access.ClientOf(r.Context()).ID()+"/"+s.ID, false, func() (*content, error) {
		v := struct {
			frame
			Sweep
			Charts []page.Drawing
		}{newFrame(true), s, page.DrawTrials(cmp.Or(s.Metric, "loss"), "clock", b.curvesOf(r.Context(), s), s.Ahead())}
		var text bytes.Buffer
		if err := pages().ExecuteTemplate(&text, "sweep.html", v); err != nil {
			return nil, err
		}
		return pack("text/html; charset=utf-8", text.Bytes()), nil
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	is.send(w, r)
}

// curvesOf returns the test losses of a sweep's trials that have some.
func (b *Board) curvesOf(ctx context.Context, s Sweep) (all []page.Curve) {
	for _, t := range slices.Backward(s.Trials) { // the best is drawn last, above the others
		run := b.find(t.Run)
		if run == nil {
			continue
		}
		all = append(all, page.Curve{Name: t.Run, Points: b.tests(ctx, run)})
	}
	return all
}

// tests returns a run's test losses. Those of an ended run are cached: its journal is read once for them.
func (b *Board) tests(ctx context.Context, r *run) (points []cost.LossPoint) {
	r.mu.Lock()
	points, going := r.tests, r.going
	r.mu.Unlock()
	if points != nil && !going {
		return points
	}
	report, _, err := b.reportOf(ctx, r)
	if err != nil {
		return nil // its page shows why
	}
	points = []cost.LossPoint{}
	for _, p := range report.Series.Loss {
		if p.Test != nil {
			points = append(points, p)
		}
	}
	if !going {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tests = points
	}
	return points
}
