package training

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// endOfLife is a plan of what to save before evictions, with its figures in wall-clock seconds.
//
// It applies only if all servers go: then anything that the reliable machines do not hold by the first deadline is lost. The plan takes the
// first Rescue that fits into the remaining time. It is updated while warnings last, because deliveries may be slower than expected; a
// better Rescue is restored only with a fifth more time than it needs, or plans would flap with their figures.
//
// Rejected: delivering clocks beyond the cut as they are. A backup holds one state per partition at one clock, and without a common clock
// there is nothing to return to.
type endOfLife struct {
	Do      Rescue
	left    float64
	clock   float64 // until the current clock is done
	begun   float64 // until everything that has begun is done
	bytes   int64   // that a cut would have to deliver now
	deliver float64 // time for the backups to receive it
}

// String returns the plan with its figures.
func (p endOfLife) String() string {
	figures := fmt.Sprintf("%s in %.2f s", size(p.bytes), p.deliver)
	switch p.Do {
	case FlushAll:
		return fmt.Sprintf("everything begun is flushed: %.2f s of work and %s fit into the %.2f s left; nothing is given up",
			p.begun, figures, p.left)
	case CutOnly:
		return fmt.Sprintf("the clock under way is flushed: %.2f s of work and %s fit into the %.2f s left; what is begun beyond it, %.2f s, is given up",
			p.clock, figures, p.left, p.begun)
	}
	return fmt.Sprintf("nothing can be flushed: %.2f s of work and %s do not fit into the %.2f s left; work since the last cut is given up",
		p.clock, figures, p.left)
}

// PlanEndOfLife plans with the first deadline of a warned owner. Each backup receives its part, in parallel.
func (cu *cuts) PlanEndOfLife() endOfLife {
	var deadline time.Time
	p := endOfLife{clock: cu.clocks.Seconds}
	if cu.cfg.Job.Short {
		p.clock = 0 // the notice ends them
	}
	for _, m := range cu.nodes.Roster {
		if m.Lost || !m.Member() || !slices.Contains(cu.layout.Route.Owner, m.ID) {
			continue
		}
		p.bytes += m.Stats.CutBytes
		if m.Warned && (deadline.IsZero() || m.Deadline.Before(deadline)) {
			deadline = m.Deadline
		}
	}
	p.left = cu.Wall(deadline.Sub(cu.Now))
	p.begun = p.clock
	p.begun *= float64(min(cu.clocks.ahead(), cu.cfg.Job.Schema.Bound()) + 1) // the fastest may be this far ahead
	if cu.Pace.Rate > 0 {
		p.deliver = float64(p.bytes) / float64(max(len(holdersOf(cu.layout.Route.Backup)), 1)) / cu.Pace.Rate
	}
	switch {
	case p.begun+p.deliver < p.left:
		p.Do = FlushAll
	case p.clock+p.deliver < p.left:
		p.Do = CutOnly
	default:
		p.Do = GiveUpRest
	}
	return p
}

// flushesAll reports whether the reliable machines should take over from a cut, as all servers are about to go.
func (cu *cuts) flushesAll() bool { return cu.rescue == FlushAll && cu.layout.WantsFlush() }

// planFlush plans the final save when every server is about to go, and journals a new plan. A cut alone is due at once.
func (cu *cuts) planFlush(recovering bool) {
	if cu.Now.Before(cu.layout.Gathering) {
		return // it is in progress; or there may be more warnings in a moment
	}
	if !cu.layout.Standing() || recovering || cu.Ending || !cu.layout.WantsFlush() {
		cu.rescue = undecided
		return
	}
	p := cu.PlanEndOfLife()
	if p.Do == cu.rescue || cu.rescue != undecided && p.Do < cu.rescue && p.left < 1.2*(p.begun+p.deliver) {
		return // figures fluctuate; what was given up is restored only if there is room
	}
	cu.rescue = p.Do
	if p.Do == CutOnly {
		cu.Due = cu.Now
	}
	cu.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.Flush, Clock: int64(cu.Committed), Bytes: p.bytes, Seconds: p.left, Why: p.String()}
	})
}

// moveTime estimates the wall-clock seconds to move this many partitions to another machine; 0 = unknown.
func (cu *cuts) moveTime(partitions int) float64 {
	if cu.Pace.Rate == 0 {
		return 0
	}
	return float64(cu.cfg.Job.Schema.StateBytes()) / float64(len(cu.layout.Route.Owner)) * float64(partitions) / cu.Pace.Rate
}

// DrainsInTime returns how many of its partitions a machine with a warning can still hand over: moves that cannot finish in time are not
// started. A machine without a warning hands over all.
func (cu *cuts) DrainsInTime(m *Node, partitions int) int {
	if !m.Warned {
		return partitions
	}
	each := cu.moveTime(1)
	if each == 0 {
		return partitions
	}
	left := cu.Wall(m.Deadline.Sub(cu.Now)) * (1 - FlushMargin/2)
	return max(min(partitions, int(left/each)), 0)
}
