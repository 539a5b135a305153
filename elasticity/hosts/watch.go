package hosts

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/tiers"
)

// watch observes one change, following Parameter Service (section 3.3.2). It compares the clocks of each job on the hosts that serve more
// with those before.
//
// Invariant: only one change is made at a time, so that it must be the cause of a loss.
//
//  1. begin writes the wish, with the pace of all jobs: a successor that reads it watches the change from step 2 on.
//  2. The job reports that it has changed, and serves as it should. If it does not within Rules.Insist, it is not asked again while it has these slots (refused).
//  3. The report of another job in which the change falls is left out (whole): some of its clocks are older. The next hundred clocks of each
//     job count (pace.took), unless its own partitions move.
//  4. If a job has lost more than Rules.Loss, all is as before, and this change is not made again while the job has these slots. What has not
//     come in within Rules.Insist is not waited for.
type watch struct {
	job    string
	was    tiers.Preference         // before
	had    []step.ID                // its reliable slots before
	clocks map[string]time.Duration // of jobs, before
	since  time.Time                // since when a process has watched it
	beside map[string]*pace         // watched jobs, including the changed one; nil = it has not changed yet
}

// pace is the length of a job's clocks since a change.
type pace struct {
	clocks int
	length time.Duration // of all
	owners []step.ID     // while the owners differ from these, clocks do not count
	whole  bool          // its next report has only clocks since the change
}

// judgedAfter is the number of clocks after which a change is judged (section 5.2.2).
const judgedAfter = 100

// took records clocks of a length. Once there are a hundred, it returns the share of its speed that the job loses compared with clocks of
// length before.
func (p *pace) took(n int, each, before time.Duration) (lost float64, judged bool) {
	p.clocks, p.length = p.clocks+n, p.length+time.Duration(n)*each
	if p.clocks < judgedAfter {
		return 0, false
	}
	lost = 1 - float64(before)*float64(p.clocks)/float64(p.length)
	p.clocks, p.length = 0, 0
	return lost, true
}

// change is a possible change.
type change struct {
	job    string
	owners []step.ID // afterwards; nil = the job chooses
	more   int       // slots
	leave  step.ID   // slot that should finally go
	to     []step.ID // the hosts for additional slots; nil = any
	buys   int       // hosts
	moves  int       // partitions
	left   float64   // a job's greatest loss on the relieved host afterwards
}

// better returns the better of two changes; nil = none.
func better(a, b *change) *change {
	if a == nil || b != nil && cmp.Or(cmp.Compare(b.buys, a.buys), cmp.Compare(b.left, a.left), cmp.Compare(b.moves, a.moves)) < 0 {
		return b
	}
	return a
}
