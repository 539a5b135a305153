package sched

import (
	"fmt"
	"slices"
)

// EarlyFeedback is our own policy: every trial reaches its early feedback as soon as it can, at its submitted size, and
// the best continue. Where H takes a worker and a server from every job that has given feedback, this pauses the worst,
// which is free while its state is kept; and paused trials resume, the best first, before any job gets more than was
// submitted.
//
// With a market, the best are those with the highest expected improvement per dollar, and a job in training is worth
// more slots the less they cost (market.go).
type EarlyFeedback struct {
	Most     int  // as in H; paused trials count
	Unpriced bool // it ignores the market
}

// Name returns "feedback", or "feedback:unpriced".
func (f EarlyFeedback) Name() string {
	if f.Unpriced {
		return "feedback:unpriced"
	}
	return "feedback"
}

// Priced reports whether a policy uses prices.
func Priced(p Policy) bool {
	f, looks := p.(EarlyFeedback)
	return looks && !f.Unpriced
}

// StopsTrials reports whether a policy stops or pauses trials by their early feedback.
func StopsTrials(p Policy) bool {
	switch p.(type) {
	case ASHA, EarlyFeedback, H, KillWorst, Priority:
		return true
	}
	return false
}

func (f EarlyFeedback) with(settings string) (Policy, error) {
	if settings != "unpriced" {
		return nil, fmt.Errorf("its only setting is unpriced, and not %q", settings)
	}
	f.Unpriced = true
	return f, nil
}

// Plan kills the worst beyond the threshold, admits waiting trials, resumes paused ones, and gives the rest to those in training.
//
// Invariant: while a trial without early feedback can start, none with feedback takes its place, and while the best
// paused trial can resume, none has more than it was submitted with. Each failed attempt to make room is undone
// (snapshot).
//
//  1. Trials that cannot be among those that continue are stopped, and what made a job slower is taken back: both free slots at no cost.
//  2. Waiting trials start as submitted, by priority and arrival; for each the worst in training are paused, as many as it takes (pauseFor).
//  3. Only when none waits: paused ones resume, the best first, then prices decide which jobs get more than was submitted (widen), and what
//     is left goes out as by H.
func (f EarlyFeedback) Plan(s State) Plan {
	d, prices := begin(s), pricesOf(s.Market)
	if f.Unpriced {
		prices = nil
	}
	d.keepBestOfAll(f.Most, s.Past)
	for _, c := range d.inPhase(Training) {
		d.slower(c)
	}
	waiting := false
	for _, c := range d.queued() {
		if waiting = !d.startAsSubmitted(c) && !d.pauseFor(c, prices); waiting {
			d.hold(c, "waits: trials before their feedback have everything")
			break
		}
	}
	if !waiting {
		d.resumeBest(prices)
		d.widen(prices)
		d.running(slices.DeleteFunc(d.inPhase(Training), (*draft).saturated))
	}
	p := d.plan(s)
	p.Supply = prices.supply(d.jobs)
	return p
}

// keepBestOfAll stops trials that are not among the best of all trials of their sweep with feedback, including finished
// ones: one that has ended may still be better than a new one.
func (d *drafts) keepBestOfAll(most int, past []Job) {
	if most == 0 {
		most = d.threshold()
	}
	for _, trials := range d.sweeps(Training, Paused) {
		keeps := trials[0].Keeps
		if len(keeps) == 0 {
			keeps = []int{most}
		}
		d.keepAtRungs(trials[0].Sweep, keeps, past)
	}
}

// giveBack takes surplus units from jobs until another one fits as submitted.
func (d *drafts) giveBack(to *draft) {
	for _, j := range d.inPhase(Feedback, Training) {
		if !d.fitsAsSubmitted(to) && j.Workers+j.Servers > j.WantWorkers+j.WantServers {
			d.resize(j, min(j.Workers, j.WantWorkers), min(j.Servers, j.WantServers))
			j.why = fmt.Sprintf("gives back what it had beyond %s, for %s", numbers(j.WantWorkers, j.WantServers), to.ID)
		}
	}
}

// pauseFor pauses trials that have given feedback, the worst first, until a new one fits.
func (d *drafts) pauseFor(c *draft, prices *pricing) bool {
	before := d.snapshot()
	d.giveBack(c)
	training := d.inPhase(Training)
	slices.SortStableFunc(training, prices.worse)
	for _, j := range training {
		if d.fitsAsSubmitted(c) {
			break
		}
		d.release(j)
		j.Phase, j.why = Paused, fmt.Sprintf("paused: %s has not given feedback yet, and of the %d that have this is the worst%s", c.ID, len(training), prices.costs(j))
	}
	if d.startAsSubmitted(c) {
		return true
	}
	d.restore(before)
	return false
}

// resumeBest resumes paused trials, the best first, if they fit; they get other jobs' surplus units.
func (d *drafts) resumeBest(prices *pricing) {
	paused := d.inPhase(Paused)
	slices.SortStableFunc(paused, func(a, b *draft) int { return prices.worse(b, a) })
	for at, c := range paused {
		before := d.snapshot()
		d.giveBack(c)
		if !d.resize(c, c.WantWorkers, c.WantServers) {
			d.restore(before)
			for _, behind := range paused[at:] {
				behind.why = fmt.Sprintf("stays paused: %d better trials or new ones have everything", at)
			}
			return
		}
		c.Phase, c.why = Training, fmt.Sprintf("resumes: it is number %d of those that were paused%s", at+1, prices.costs(c))
	}
}

func (d *drafts) fitsAsSubmitted(c *draft) bool {
	return d.slots(c.Demand) >= c.WantWorkers+c.WantServers+c.Overhead
}
