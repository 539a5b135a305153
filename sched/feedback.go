package sched

import (
	"fmt"
	"slices"
)

// EarlyFeedback is ours: every trial comes to its early feedback as soon as it can, as submitted, and the best go on. Where H takes a worker and
// a server from every job that has given feedback, the worst of them is paused, which costs nothing while its state is kept; and paused
// trials come back, the best first, before anybody gets more than was submitted. It knows no prices yet.
type EarlyFeedback struct {
	Most int // as in H; paused trials count
}

// Name returns "feedback".
func (EarlyFeedback) Name() string { return "feedback" }

// Plan kills the worst beyond the threshold, lets waiting trials in, resumes paused ones, and gives what is free then to those in training.
func (f EarlyFeedback) Plan(s State) Plan {
	d := begin(s)
	most := f.Most
	if most == 0 {
		most = d.threshold()
	}
	d.keepBest(most, s.Past, Training, Paused)
	for _, c := range d.inPhase(Training) {
		d.slower(c)
	}
	waiting := false
	for _, c := range d.queued() {
		if waiting = !d.startAsSubmitted(c) && !d.pauseFor(c); waiting {
			d.hold(c, "waits: trials before their feedback have everything")
			break
		}
	}
	if !waiting {
		d.resumeBest()
		d.running()
	}
	return d.plan(s)
}

// pauseFor pauses trials that have given feedback, the worst first, until a new one fits.
func (d *drafts) pauseFor(c *draft) bool {
	training := d.inPhase(Training)
	slices.SortStableFunc(training, worse)
	before := d.snapshot()
	for _, j := range training {
		d.release(j)
		j.Phase, j.why = Paused, fmt.Sprintf("paused: %s has not given feedback yet, and of the %d that have this is the worst", c.ID, len(training))
		if d.startAsSubmitted(c) {
			return true
		}
	}
	d.restore(before)
	return false
}

// resumeBest brings paused trials back, the best first, where they fit; what others have beyond what they asked for goes to them.
func (d *drafts) resumeBest() {
	paused := d.inPhase(Paused)
	slices.SortStableFunc(paused, func(a, b *draft) int { return worse(b, a) })
	for at, c := range paused {
		before := d.snapshot()
		for _, j := range d.inPhase(Training) {
			if !d.fitsAsSubmitted(c) && j.Workers+j.Servers > j.WantWorkers+j.WantServers {
				d.resize(j, min(j.Workers, j.WantWorkers), min(j.Servers, j.WantServers))
				j.why = fmt.Sprintf("gives back what it had beyond %s, for %s", numbers(j.WantWorkers, j.WantServers), c.ID)
			}
		}
		if !d.fitsAsSubmitted(c) || !d.resize(c, c.WantWorkers, c.WantServers) {
			d.restore(before)
			for _, behind := range paused[at:] {
				behind.why = fmt.Sprintf("stays paused: %d better trials or new ones have everything", at)
			}
			return
		}
		c.Phase, c.why = Training, fmt.Sprintf("resumes: its feedback is number %d of those that were paused", at+1)
	}
}

func (d *drafts) fitsAsSubmitted(c *draft) bool {
	return d.slots(c.Demand) >= c.WantWorkers+c.WantServers+c.Overhead
}
