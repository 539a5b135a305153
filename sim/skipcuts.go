package sim

import (
	"time"

	"github.com/tierml/tierml/ps"
)

// Cuts of a steady period are alike, too: from the second on, each follows the one before after the same time, at the
// same point of a clock. If nothing else happens until its last command is answered, a cut changes only the clock to
// which a roll-back returns. Such cuts are skipped. A cut during which something happens is simulated.

// cutRound is a cut in a steady period, in time since the start of the run.
type cutRound struct {
	calm time.Duration // when the steady period began
	due  time.Duration // when it was named
	over time.Duration // when its last command is answered; 0 = not committed
}

// skipCuts is called before the controller wakes up. It reports whether the wake-up was for a cut and that cut was
// skipped, with all following cuts that end before anything else happens.
func (f *fleet) skipCuts() bool {
	now, last, t := f.w.elapsed, &f.round, &f.w.cfg.Timing
	if f.calm.limit == 0 || !f.lazily() || last.calm != f.calm.since || last.over == 0 || t.Cut < t.Reply {
		return false
	}
	every, active := now-last.due, last.over-last.due
	if every <= active || every%f.calm.length != 0 || f.w.queue.empty() {
		return false
	}
	clocks := ps.Clock(every / f.calm.length)
	calm := f.w.cloud.calmUntil()
	n := f.ctrl.SkipCuts(f.w.now(), f.w.cfg.Start.Add(calm), every, active, clocks)
	further := time.Duration(n) * every
	last.due, last.over = last.due+further, last.over+further
	f.committed, f.delivered = f.committed+ps.Clock(n)*clocks, f.delivered+ps.Clock(n)*clocks
	if n > 0 && !f.unsettled {
		f.w.cloud.passOver(min(calm, f.ctrl.NextWake().Sub(f.w.cfg.Start)))
	}
	return n > 0
}
