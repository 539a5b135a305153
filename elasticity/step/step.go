// Package step is what elasticity/fleet and elasticity/training share: the time, the list of actions, the end of the run, and the facts
// about machines that both act upon. It decides nothing, and knows nothing about purchases or training.
package step

import (
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Never is later than any run.
const Never = 100 * 365 * 24 * time.Hour

// UsualFleet is the initial capacity for machines.
const UsualFleet = 64

// Action is something to do. Actions of one step are executed in order.
type Action interface{ Action() }

// Record writes a journal line. If its kind is durable, it is on disk before the next action is executed.
type Record struct{ Entry journal.Entry }

// Action marks it as an Action.
func (Record) Action() {}

// Step is a run's current step: an event, and the resulting actions. One value serves the whole run; Begin starts the next step.
type Step struct {
	Started time.Time // of the run: time limits count from then
	Now     time.Time
	Awake   Awake   // measures the silence of others
	Speed   float64 // market seconds per wall-clock second
	Silent  bool    // the journal has no reader
	Acts    uint64  // actions so far, except lines in the journal

	Pending   bool      // the last step may have left something to do: the next one checks
	RestUntil time.Time // otherwise nothing is due before this time, unless an event says so

	Stop     string // why a graceful end is wanted; empty = it is not
	Enough   string // why the model is good enough before all clocks are done
	Ending   bool   // all machines are being terminated
	Outcome  string
	FailWhy  string
	Finished bool
	OnEnd    func(why string) // ends work and machines

	out []Action
}

// Begin begins a step.
func (s *Step) Begin(now time.Time) {
	clear(s.out)
	s.Now, s.out = now, s.out[:0]
	s.Awake.Step(now)
}

// Actions returns the step's actions so far, in order. They are valid until the next step.
func (s *Step) Actions() []Action { return s.out }

// Do adds an action.
func (s *Step) Do(a Action) {
	s.Acts++
	s.out = append(s.out, a)
}

// Record writes a journal line. The line is only built when it is read, which never happens in the thousands of starts of a dry run.
func (s *Step) Record(entry func() journal.Entry) {
	if s.Silent {
		return
	}
	e := entry()
	e.T = s.Now
	s.out = append(s.out, Record{Entry: e})
}

// Wall returns a market duration in wall-clock seconds.
func (s *Step) Wall(d time.Duration) float64 { return d.Seconds() / s.Speed }

// Fail ends the run at once: committed work is in the journal and in the last checkpoint.
func (s *Step) Fail(why string) {
	if !s.Ending {
		s.Outcome, s.FailWhy = "failed", why
		s.End(why)
	}
}

// End terminates every machine. The run finishes when the provider reports that all have ended.
func (s *Step) End(why string) {
	s.Ending = true
	s.OnEnd(why)
}

// Closing reports whether an end is wanted, or in progress.
func (s *Step) Closing() bool { return s.Ending || s.Stop != "" }

// Event is something that happened. Repeating an event is harmless.
type Event interface{ Event() }
