package fleet

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
)

// Crash is an agent that ended by itself, on a machine that its provider did not take.
type Crash struct {
	ID      step.ID
	Entered time.Time // when the controller began to rely on the machine
	At      time.Time
	Why     string
	Log     string // the end of the agent's log; empty when it could not send it
	Told    bool   // the agent reported the reason itself
}

// Crashes detects a crash loop: agents that keep crashing, so that each new machine would only cost money. It counts crashes since the last
// committed progress, in rounds. Machines that existed when a round began may share one cause that has passed, such as a full disk: their
// crashes belong to that round. The crash of a later machine starts the next.
//
// Rejected: counting crashes alone. One bad minute of a large fleet would end the run.
type Crashes struct {
	since []Crash
}

const (
	// CrashLoopSize is the number of crashes that make a loop, if spread over enough rounds.
	CrashLoopSize = 5
	// crashesToHold is more than one process that happens to be killed.
	crashesToHold = 2
	// roundsTold and roundsUntold are the rounds needed with and without reasons from the agents themselves. An agent that was killed from
	// outside, or by its kernel when memory runs out, reports no reason, and neither does one with bad luck.
	roundsTold, roundsUntold = 2, 3
)

// Add counts a crash, once per machine.
func (c *Crashes) Add(crash Crash) {
	for i := range c.since {
		if c.since[i].ID == crash.ID {
			return
		}
	}
	c.since = append(c.since, crash)
}

// Exclude removes a machine's crash: the provider says that it took the machine.
func (c *Crashes) Exclude(id step.ID) {
	for i := range c.since {
		if c.since[i].ID == id {
			c.since = append(c.since[:i], c.since[i+1:]...)
			return
		}
	}
}

// Progressed forgets all crashes, since committed work has been done. It reports whether purchases were held back.
func (c *Crashes) Progressed() (held bool) {
	held = c.Hold()
	c.since = nil
	return held
}

// Hold reports whether crashed machines should not be replaced for now: the remaining ones, or the reliable tier alone, must first show
// that work can be done.
func (c *Crashes) Hold() bool { return len(c.since) >= crashesToHold }

// Loop reports whether it is a crash loop, in words, with the most informative crash.
func (c *Crashes) Loop() (why string, example Crash, loop bool) {
	rounds, told := 0, 0
	var opened time.Time
	for _, crash := range c.since {
		if rounds == 0 || !crash.Entered.Before(opened) {
			rounds, opened = rounds+1, crash.At
		}
		if crash.Told {
			told++
		}
		if crash.Told || !example.Told {
			example = crash
		}
	}
	enough := roundsUntold
	if told >= CrashLoopSize {
		enough = roundsTold
	}
	if len(c.since) < CrashLoopSize || rounds < enough {
		return "", Crash{}, false
	}
	return fmt.Sprintf("agents keep ending by themselves: %d since work was last committed, on new machines, too; machine %s: %s",
		len(c.since), example.ID, example.Why), example, true
}

// endedByItself reports whether a machine that its provider did not take had ended before the controller ended it. Its end is by the
// provider's clock, in seconds.
func endedByItself(at time.Time, terminating bool, terminated time.Time) bool {
	return !terminating || at.Add(time.Second).Before(terminated)
}

// entry returns the journal's line about a crash that an agent reported.
func (c Crash) entry(pool string) journal.Entry {
	return journal.Entry{Kind: journal.Failed, Instance: string(c.ID), Pool: pool, Why: c.Why, Log: c.Log}
}
