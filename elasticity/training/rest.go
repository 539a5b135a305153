package training

import (
	"time"
)

// situation is that part of the state through which one part of advance may give those before it something to do.
type situation struct {
	recovery *recovery
	settle   *settling
	halt     *Halting
	cut      *cut
	adopting *adoption
	standing bool // then transient machines may join that wait for it
	done     bool // a roll-back undoes it
	relayout bool
	handing  bool
}

// Situation is compared before and after.
func (t *Training) Situation() situation {
	return situation{t.Recovery, t.Settle, t.Halt, t.Cuts.Cut, t.adopting, t.Layout.Standing(), t.Clocks.Over(), t.Layout.Due, t.Layout.HandingOver()}
}

// changes reports whether taking something in has changed the situation, or led to actions.
func (t *Training) changes(take func()) bool {
	acts, before := t.Acts, t.Situation()
	take()
	return t.Acts != acts || t.Situation() != before
}

// Resting reports whether the next event may find nothing to do.
func (t *Training) Resting() bool { return !t.Stirred && !t.machines.PlanDue() && !t.Cuts.bareCut() }

// atRest reports whether nothing is due now, but for what the event at hand brings about.
func (t *Training) atRest() bool { return t.Resting() && !t.Layout.Due && t.Now.Before(t.RestUntil) }

// GiveUpSilent gives up the machines that are silent for too long.
func (t *Training) GiveUpSilent() { t.Silence.giveUp() }

// Restless reports whether there is something to look at in every step: how much time a flush has left changes by itself, and
// any word may end a hush.
func (t *Training) Restless() bool { return t.Layout.WantsFlush() || t.Silence.hush != nil }

// Advance does whatever the state asks for now. Each part looks at the state alone, so that their order matters for
// promptness only: recovery before everything, then halts, which wait for moves and handovers.
func (t *Training) Advance() {
	if t.Layout.Due && !t.Now.Before(t.Layout.Gathering) {
		t.layOut()
	}
	t.advanceRecovery()
	t.spreadRoute()
	t.advanceSettle()
	if t.Halt == nil { // else it is under way
		t.Cuts.planFlush(t.Recovery != nil)
	}
	t.advanceHalt()
	t.advanceBackups()
	t.advanceMoves()
	t.advanceSplits()
	if t.Halt == nil && t.Recovery == nil && !t.wantsHalt() {
		t.Cuts.advance()
	}
	t.Saves.Advance()
}

// Look sets when giveUp may find somebody, if nothing is heard until then, and reports whether that is now: what was done has
// shortened a machine's patience (see patience), and it has been silent for longer than that.
func (t *Training) Look() (now bool) {
	t.Silence.Next = t.Silence.next()
	return !t.Now.Before(t.Silence.Next)
}

// NextDue calls by with each time at which there is something to do although nothing happens.
func (t *Training) NextDue(by func(time.Time)) {
	by(t.Cuts.Due)
	by(t.Layout.MoveRetry)
	by(t.Layout.Gathering)
	by(t.Saves.saveEnds())
	if t.adopting != nil {
		by(t.Awake.Due(t.adopting.since, t.adoptWithin()))
	}
	if t.Halt != nil {
		by(t.Halt.Retry)
	}
	if !t.ReadySince.IsZero() {
		by(t.ReadySince.Add(t.cfg.JoinWait))
	}
	by(t.Silence.Next)
}
