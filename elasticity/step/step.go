// Package step is what elasticity/fleet and elasticity/training share: the time, the list of actions, the end of the run, and
// the facts about machines that both act upon. It decides nothing, and knows nothing about purchases or training.
package step

import (
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Never is beyond every run.
const Never = 100 * 365 * 24 * time.Hour

// UsualFleet is for how many machines there is room at first.
const UsualFleet = 64

// Action is something to do. Actions of one step are done in order.
type Action interface{ Action() }

// Record writes a journal line. If its kind is a durable one, it is on disk before the next action is done.
type Record struct{ Entry journal.Entry }

// Action marks it as one.
func (Record) Action() {}

// Step is a run's present step: an event, and the actions that follow. One value serves the whole run; Begin starts the next
// step.
type Step struct {
	Started time.Time // the run: limits of time count from then
	Now     time.Time
	Awake   Awake   // measures the silence of others
	Speed   float64 // market seconds per wall-clock second
	Silent  bool    // the journal has no reader
	Acts    uint64  // actions so far, but for lines in the journal

	Pending   bool      // the last step may have left something to do: the next one looks
	RestUntil time.Time // otherwise there is nothing to do before, unless an event says so

	Stop     string // why an orderly end is wanted; empty = it is not
	Enough   string // why the model is good enough before all clocks are done
	Ending   bool   // machines are being terminated for good
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

// Actions returns those of the step so far, in order. They are valid until the next step.
func (s *Step) Actions() []Action { return s.out }

// Do adds an action.
func (s *Step) Do(a Action) {
	s.Acts++
	s.out = append(s.out, a)
}

// Record writes a journal line. The line is only made when it is read, which it is not in the thousands of starts of
// a dry run.
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

// Fail ends the run at once: what was committed is in the journal and in the last checkpoint.
func (s *Step) Fail(why string) {
	if !s.Ending {
		s.Outcome, s.FailWhy = "failed", why
		s.End(why)
	}
}

// End terminates every machine. The run finishes when the provider reports that all are gone.
func (s *Step) End(why string) {
	s.Ending = true
	s.OnEnd(why)
}

// Closing reports whether an end is wanted, or under way.
func (s *Step) Closing() bool { return s.Ending || s.Stop != "" }

// Event is something that happened. Repeating it is harmless.
type Event interface{ Event() }
