package dashboard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/status"
)

// Summary is a run in a line. Times are market time; money is a decimal string of US dollars, empty if the journal lacks it.
type Summary struct {
	Run    string   `json:"run"`            // its directory's name
	Job    string   `json:"job"`            // its job's
	App    string   `json:"app"`            //
	Kind   string   `json:"kind,omitempty"` // of job: training, diloco, program, gang, array, sweep, hosts
	Group  string   `json:"group,omitempty"`
	User   string   `json:"user,omitempty"` // who submitted it, according to the client
	State  string   `json:"state"`          // "running", "waiting", "paused", "finished", "interrupted", "failed", or "killed": no last line, and its process has ended
	Why    string   `json:"why,omitempty"`  // why it has ended, waits, or is paused
	Clock  int64    `json:"clock"`
	Clocks int64    `json:"clocks,omitempty"` // requested by the job
	Unit   string   `json:"unit,omitempty"`   // their unit, if not clocks: "step", "task"
	Metric string   `json:"metric,omitempty"`
	Train  *float64 `json:"train_loss,omitempty"`
	Test   *float64 `json:"test_loss,omitempty"`
	// Left is the estimated number of clocks to the job's target, Likely the best guess, with the record of such estimates.
	Left      *Left  `json:"left,omitempty"`
	Stage     string `json:"stage,omitempty"`
	Reliable  int    `json:"reliable"`  // machines in training
	Transient int    `json:"transient"` //
	// On are the shared hosts on which it has slots.
	On      []string `json:"on_hosts,omitempty"`
	PerHour string   `json:"usd_per_hour,omitempty"`
	Spent   string   `json:"spent,omitempty"`
	Saved   string   `json:"saved,omitempty"`
	// Replayed: the market is a recording, so that its dollars are not real.
	Replayed bool `json:"replayed,omitempty"`
	// Slots: its machines are slots of shared hosts, and what it pays is part of what their run pays.
	Slots bool `json:"slots,omitempty"`
	Forecast
	Curve   string    `json:"-"` // of the test losses, as points in a picture of 80 by 20
	Began   time.Time `json:"began"`
	Started time.Time `json:"started"` // in wall-clock time
	AsOf    time.Time `json:"as_of"`
	Seconds float64   `json:"seconds"` // of market time
}

// Forecast is the expected final cost and remaining time of a running run. The ranges hold nine of ten results; they are absent while
// little is known.
type Forecast struct {
	Expected     string  `json:"expected_usd,omitempty"`
	ExpectedLow  string  `json:"expected_low_usd,omitempty"`
	ExpectedHigh string  `json:"expected_high_usd,omitempty"`
	TimeLeft     float64 `json:"seconds_left,omitempty"` // of market time
	TimeLeftLow  float64 `json:"seconds_left_low,omitempty"`
	TimeLeftHigh float64 `json:"seconds_left_high,omitempty"`
	WallLeft     float64 `json:"wall_seconds_left,omitempty"` // TimeLeft in wall-clock time
}

// Active reports whether a process runs the run.
func (s Summary) Active() bool { return status.Active(s.State) }

// Loss is the relevant loss: of training the test loss, of programs what they report, of a sweep its best trial's.
func (s Summary) Loss() *float64 {
	if s.Test == nil && s.Kind != journal.Training && s.Kind != "" {
		return s.Train
	}
	return s.Test
}

// curvePoints bounds the points of a curve.
const curvePoints = 40

// curve draws losses from left to right, the greatest at the top.
func curve(losses []float64) string {
	if len(losses) < 2 {
		return ""
	}
	low, high := slices.Min(losses), slices.Max(losses)
	var points strings.Builder
	for i := 0; i < len(losses); i += (len(losses) + curvePoints - 1) / curvePoints {
		y := 10.0
		if high > low {
			y = 18 - 16*(losses[i]-low)/(high-low)
		}
		fmt.Fprintf(&points, "%.1f,%.1f ", 80*float64(i)/float64(len(losses)-1), y)
	}
	return points.String()
}

// Left is an estimate in clocks. Of Tries estimates made from a part of the losses, Held held.
type Left struct {
	Low    float64 `json:"low"`
	Likely float64 `json:"likely"`
	High   float64 `json:"high"`
	Held   int     `json:"held"`
	Tries  int     `json:"tries"`
}

// Read returns the summary of the run in a directory.
func Read(ctx context.Context, dir string) (Summary, error) {
	r, err := readOnce(ctx, dir)
	if err != nil {
		return Summary{}, err
	}
	return r.summary(time.Now()), nil
}

// errRead ends the reading of a journal that may grow.
var errRead = errors.New("read")

// readOnce reads the run's present state.
func readOnce(ctx context.Context, dir string) (*run, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := newRun(dir, rundir.Held(dir))
	err := runs.Follow(ctx, dir, r.take, func() { stop(errRead) })
	if err != nil && !errors.Is(context.Cause(ctx), errRead) {
		if r.lines > 0 {
			return r, err // the intact part of a damaged journal
		}
		return nil, err
	}
	return r, nil
}

func (r *run) summary(now time.Time) Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	if s == nil {
		return *r.brief
	}
	out := Summary{
		Run: filepath.Base(r.dir), Job: s.Start.Name, App: s.Start.App, Clock: s.Clock, Clocks: s.Start.Clocks,
		Metric: s.Start.Metric, Train: s.Train, Test: s.Test, Stage: s.Stage, Began: s.Began, AsOf: r.asOf(now),
	}
	out.State, out.Why = s.State(r.going)
	out.Group = promiseOf(s.Start.Job).Group
	out.Started, out.Kind = s.Started, s.Start.JobKind()
	if out.Kind == journal.Sweep {
		out.Train = nil
		if best := s.Ledger.Programs(out.AsOf).Best(); best != nil {
			out.Train = best.Loss
		}
	}
	out.Replayed, out.Slots = !s.Mapping.IsReal(), s.Start.Billed
	out.Curve = curve(s.Tests)
	if s.Start.Program != nil {
		out.Unit = s.Unit()
	}
	out.Seconds = out.AsOf.Sub(out.Began).Seconds()
	out.Transient, out.Reliable = s.Counts()
	if saved, ok := s.Saved(out.AsOf); ok && out.Kind != journal.Hosts { // those do no work of their own
		out.Saved = saved.String()
	}
	if spent, ok := s.Spent(out.AsOf); ok {
		out.Spent = spent.String()
		if r.going {
			out.PerHour = s.Ledger.Rate(out.AsOf).String()
			if o, ok := s.Outlook(out.AsOf); ok {
				out.Expected, out.TimeLeft, out.WallLeft = o.Total.String(), o.Left.Seconds(), o.Left.Seconds()/max(o.Speed, 1)
				if o.LeftHigh > 0 {
					out.ExpectedLow, out.ExpectedHigh = o.TotalLow.String(), o.TotalHigh.String()
					out.TimeLeftLow, out.TimeLeftHigh = o.LeftLow.Seconds(), o.LeftHigh.Seconds()
				}
			}
		}
	}
	if e, ok := s.Left(); ok && r.going && !math.IsInf(e.High, 1) {
		out.Left = &Left{math.Round(e.Low), math.Round(e.Likely), math.Round(e.High), e.Held, e.Tries}
	}
	if r.err != nil { // the intact part is shown all the same
		out.Why = r.err.Error()
	}
	if s.Outcome != "" {
		out.Reliable, out.Transient = 0, 0
	}
	return out
}

// quiet is how long, in wall-clock time, the journal of an accelerated run may be silent before its figures stop advancing: its host slept.
// A night at 720 times the speed would be a year of machine hours, all billed at every refresh.
const quiet = time.Hour

// asOf returns the market time of the run's figures: now while it runs, else that of its last line. The latter also while its journal is
// still being read: machines that end later in it would seem to cost until now; and until the process that resumes a killed run has begun.
func (r *run) asOf(now time.Time) time.Time {
	m, last := r.status.Mapping, r.status.Now
	t := m.At(now)
	if !r.going || !r.caught || r.lines <= r.before || r.status.Outcome != "" || !t.After(last) {
		return last
	}
	if latest := last.Add(m.ToMarket(quiet)); m.Speed > 1 && t.After(latest) {
		return latest
	}
	return t
}

// money formats a dollar amount; empty stays empty.
func money(text string) string {
	v, err := market.ParseUSD(text)
	if err != nil {
		return ""
	}
	return v.Cents()
}
