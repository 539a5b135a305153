// Package alert notifies people away from the screen: it follows a run's journal for events that a person would want to be woken for
// (budget, an eviction storm, no progress, the end), and posts them to a webhook.
//
// Watching (Watch) is a plain value: its time is an argument. Notifying (Notifier) never blocks: an alert that cannot be delivered is
// logged and dropped. It does not know how runs are made.
package alert

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Kind is what an alert is about.
type Kind string

// The kinds of alerts.
const (
	Budget        Kind = "budget"         // a limit is near or exceeded, or no longer so
	EvictionStorm Kind = "eviction-storm" // many machines are reclaimed at once
	Stuck         Kind = "stuck"          // no clock for much longer than usual
	Moving        Kind = "moving"         // the next clock arrived after all
	Finished      Kind = "finished"
	Failed        Kind = "failed"
	Stopped       Kind = "stopped"  // gracefully, before it was done
	Provider      Kind = "provider" // calls to the provider fail, or work again; or the run left machines that cost money
	Host          Kind = "host"     // the job server's host cannot run jobs, or can again; or a job waits for its store or cloud
)

// Alert is the JSON that is posted.
type Alert struct {
	Kind       Kind      `json:"kind"`
	Run        string    `json:"run"`
	Why        string    `json:"why,omitempty"`
	At         time.Time `json:"at"`                   // in wall-clock time
	MarketTime time.Time `json:"market_time,omitzero"` // which differs on a replayed market
	Clock      int64     `json:"clock,omitempty"`      // the model's
	Text       string    `json:"text,omitempty"`       // the same as a sentence, for chat services such as Slack; set when it is sent
}

// sentence returns an alert for people.
func (a Alert) sentence() string {
	text := fmt.Sprintf("%s: %s", a.Run, a.Kind)
	if a.Why != "" {
		text += ": " + a.Why
	}
	if a.Clock > 0 {
		text += fmt.Sprintf(" (clock %d)", a.Clock)
	}
	return text
}

// When a run is stuck: no clock for a multiple of its usual length, and for some wall-clock time; before the first clocks, for a fixed
// time.
const (
	stuckTimes = 20
	stuckAfter = time.Minute
	noStart    = 15 * time.Minute
	usualOf    = 31 // clocks
)

// A storm: a number of machines, and at least a share of those held, within a window of market time.
const (
	stormMachines = 3
	stormPart     = 0.5
	stormWindow   = 10 * time.Minute
)

// Watch watches one run.
type Watch struct {
	run       string
	clock     int64
	market    time.Time
	lengths   []float64 // of the last clocks, in wall-clock seconds
	lastClock time.Time // wall-clock time of the last one, or of the run's start
	stuck     bool
	over      bool
	program   bool // a user's program, which may be silent for any time

	transient map[string]bool      // held
	taken     map[string]time.Time // when each machine was warned or evicted, in market time
	calm      time.Time            // no new storm is reported before this time
}

// NewWatch watches a run from its first entry on.
func NewWatch(run string) *Watch {
	return &Watch{run: run, transient: map[string]bool{}, taken: map[string]time.Time{}}
}

// Recall processes a past entry: it causes no alert.
func (w *Watch) Recall(e journal.Entry, now time.Time) { w.Feed(e, now) }

// Feed processes an entry at a wall-clock time, and returns the resulting alerts.
func (w *Watch) Feed(e journal.Entry, now time.Time) (out []Alert) {
	w.market = e.T
	if w.lastClock.IsZero() || e.Kind == journal.Start {
		w.lastClock, w.over, w.stuck = now, false, false
	}
	tell := func(kind Kind, why string) { out = append(out, w.alert(kind, why, now)) }
	switch e.Kind {
	case journal.Start:
		d, err := e.StartDetails()
		w.program = err == nil && d.Program != nil
	case journal.ProgramStep:
		w.clock = e.Clock
	case journal.ClockDone:
		if w.stuck {
			tell(Moving, fmt.Sprintf("clock %d came after %s", e.Clock, now.Sub(w.lastClock).Round(time.Second)))
		}
		w.clock, w.lastClock, w.stuck = e.Clock, now, false
		if w.lengths = append(w.lengths, e.Seconds); len(w.lengths) > usualOf {
			w.lengths = slices.Delete(w.lengths, 0, 1)
		}
	case journal.Rollback:
		w.clock = e.Clock
	case journal.Silence:
		if e.To == journal.Waiting && !w.stuck {
			w.stuck = true
			tell(Stuck, e.Why)
		}
	case journal.Budget:
		tell(Budget, e.To+": "+e.Why)
	case journal.Provider:
		tell(Provider, map[string]string{journal.Waiting: "calls fail: ", journal.Heard: "it answers again", journal.GivenUp: "the run has ended and left machines: "}[e.To]+e.Why)
	case journal.Launch:
		if e.Tier == "transient" {
			w.transient[e.Instance] = true
		}
	case journal.Notice:
		if e.Deadline != nil {
			out = w.lose(e, now, out)
		}
	case journal.Evicted:
		out = w.lose(e, now, out)
		delete(w.transient, e.Instance)
	case journal.Terminated:
		delete(w.transient, e.Instance)
	case journal.Done:
		w.over = true
		tell(map[string]Kind{"finished": Finished, "interrupted": Stopped}[e.Outcome], e.Why)
		if e.Outcome != "finished" && e.Outcome != "interrupted" {
			out[len(out)-1].Kind = Failed
		}
	}
	return out
}

func (w *Watch) alert(kind Kind, why string, now time.Time) Alert {
	return Alert{Kind: kind, Run: w.run, Why: why, At: now.UTC(), MarketTime: w.market.UTC(), Clock: w.clock}
}

// lose records that a machine was reclaimed, and checks whether it is one of many.
func (w *Watch) lose(e journal.Entry, now time.Time, out []Alert) []Alert {
	if _, told := w.taken[e.Instance]; told { // its notice was already counted
		return out
	}
	w.taken[e.Instance] = e.T
	recent, held := 0, len(w.transient)
	for id, at := range w.taken { // in any order: only the count matters
		if e.T.Sub(at) > stormWindow {
			continue
		}
		if recent++; !w.transient[id] {
			held++ // it was held when this began
		}
	}
	if recent >= stormMachines && float64(recent) >= stormPart*float64(held) && !e.T.Before(w.calm) {
		w.calm = e.T.Add(stormWindow)
		out = append(out, w.alert(EvictionStorm, fmt.Sprintf("%d of %d transient machines are taken within %s of market time%s", recent, held,
			stormWindow, cmp.Or(because(e.Why), "")), now))
	}
	return out
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// Away records that this process was suspended for a time and received nothing.
func (w *Watch) Away(d time.Duration) { w.lastClock = w.lastClock.Add(d) }

// Tick checks whether a silent run is stuck.
func (w *Watch) Tick(now time.Time) (out []Alert) {
	if w.lastClock.IsZero() || w.over || w.stuck || w.program {
		return nil
	}
	silent, limit := now.Sub(w.lastClock), noStart
	if len(w.lengths) >= 5 {
		usual := slices.Sorted(slices.Values(w.lengths))[len(w.lengths)/2]
		limit = max(time.Duration(stuckTimes*usual*float64(time.Second)), stuckAfter)
	}
	if silent < limit {
		return nil
	}
	w.stuck = true
	return append(out, w.alert(Stuck, fmt.Sprintf("no clock for %s; after clock %d", silent.Round(time.Second), w.clock), now))
}
