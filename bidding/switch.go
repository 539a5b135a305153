package bidding

import (
	"fmt"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// switchPool moves from the held pool with the lowest MTTF to the best pool whose MTTF has been clearly higher
// throughout the last SwitchAfter. The machines of the old pool are released once the new ones are ready.
func (r *round) switchPool() bool {
	if r.covered {
		r.plan.Why = "what is held is paid for until the work is done"
		return false
	}
	if r.backToSpot() {
		return true
	}
	if r.NeverSwitch {
		return false
	}
	from, ok := r.weakest()
	if !ok {
		return false
	}
	if r.fleet.draining || r.fleet.spare(r.Want.total()) {
		r.plan.Why = "a switch is under way"
		return false
	}
	if r.Now.Sub(r.Held[from.since].Launch) < SwitchAfter {
		r.plan.Why = "the machines of " + r.name(from.candidate) + " are too new to leave"
		return false
	}
	for _, to := range r.ranking {
		if to != from.candidate && !r.justLaunched(to) && r.clearlyBetter(to, from) {
			r.planSwitch(from, to, r.whyClearlyBetter(from, to))
			return true
		}
	}
	return false
}

// backToSpot leaves what is held on demand for the best spot pool, once that has been within its bid throughout the
// last SwitchAfter.
func (r *round) backToSpot() bool {
	if len(r.ranking) == 0 || r.fleet.draining || r.fleet.spare(r.Want.total()) {
		return false
	}
	to := r.ranking[0]
	for _, from := range r.fleet.holdings {
		if !r.Pools[from.candidate].OnDemand() || r.justLaunched(to) || !r.affordableSince(to, r.Now.Add(-SwitchAfter)) {
			continue
		}
		r.planSwitch(from, to, fmt.Sprintf("%s has been within the %s $%s for %s again, MTTF %s; %s was bought on demand",
			r.name(to), limitWord(r.Pools[to].Pool), r.plan.Considered[to].Bid, durationText(SwitchAfter), mttfText(r.plan.Considered[to].MTTF), r.name(from.candidate)))
		return true
	}
	return false
}

// affordableSince reports whether the price has been within the bid since then.
func (r *round) affordableSince(candidate int, since time.Time) bool {
	above, ever := r.Pools[candidate].History.FirstAbove(since, r.plan.Considered[candidate].Bid)
	return !ever || above.After(r.Now)
}

// weakest returns the holding with the lowest known MTTF; ties go to the first by pool. A pool whose price is
// above its bid does not count: its machines are about to be reclaimed, and a reclaimed hour may be free.
func (r *round) weakest() (worst holding, ok bool) {
	var lowest market.Estimate
	for _, h := range r.fleet.holdings {
		if r.Pools[h.candidate].OnDemand() {
			continue
		}
		e := r.heldMTTF(r.Now, h)
		if !e.Known || e.Expected() == 0 {
			continue
		}
		if !ok || e.Expected() < lowest.Expected() {
			worst, lowest, ok = h, e, true
		}
	}
	return worst, ok
}

// justLaunched reports whether the pool got machines within the last SwitchAfter: a switch to it may be in progress.
func (r *round) justLaunched(candidate int) bool {
	h, ok := r.fleet.in(candidate)
	return ok && r.Now.Sub(r.Held[h.newest].Launch) < SwitchAfter
}

// clearlyBetter checks both ends of the window and every price change of either pool in it: in between,
// MTTFs move slowly and in one direction. It keeps no state between calls.
func (r *round) clearlyBetter(to int, from holding) bool {
	start := r.Now.Add(-SwitchAfter)
	if !r.betterAt(r.Now, to, from) || !r.betterAt(start, to, from) {
		return false
	}
	for _, candidate := range []int{to, from.candidate} {
		for _, change := range r.Pools[candidate].History.Changes(start, r.Now) {
			if !r.betterAt(change.At, to, from) {
				return false
			}
		}
	}
	return true
}

// betterAt reports whether, as known at t, the target could be bought and its MTTF was SwitchRatio times as long.
func (r *round) betterAt(t time.Time, to int, from holding) bool {
	bid := r.plan.Considered[to].Bid
	price, known := r.Pools[to].History.At(t)
	if !known || price > bid {
		return false
	}
	return r.clearlyLonger(r.mttf(t, to, bid), r.heldMTTF(t, from))
}

// heldMTTF returns the MTTF of the held machines, at their granted bid, which cannot be changed.
func (r *round) heldMTTF(t time.Time, h holding) market.Estimate {
	return r.mttf(t, h.candidate, h.bid)
}

func (r *round) mttf(t time.Time, candidate int, bid market.USD) market.Estimate {
	if c := &r.plan.Considered[candidate]; t.Equal(r.Now) && bid == c.Bid {
		return c.MTTF
	}
	return r.measure(&r.Pools[candidate], t, bid)
}

func (r *round) whyClearlyBetter(from holding, to int) string {
	a, b := r.heldMTTF(r.Now, from), r.plan.Considered[to].MTTF
	return fmt.Sprintf("MTTF of %s (%s) counts %.2f times that of %s (%s), and has for %s counted %.4g times or more",
		r.name(to), mttfText(b), float64(b.Expected())/float64(a.Expected()), r.name(from.candidate), mttfText(a),
		durationText(SwitchAfter), SwitchRatio)
}

func (r *round) planSwitch(from holding, to int, why string) {
	a, b := r.heldMTTF(r.Now, from), r.plan.Considered[to].MTTF
	r.buy(to, r.Want.total()-(r.fleet.total()-from.units), why)
	left := &r.plan.Considered[from.candidate]
	left.Chosen, left.Why = false, "left: "+why
	r.plan.Release = append(r.plan.Release, Release{Pool: left.Pool, Why: why})
	r.plan.Switch = &Switch{From: left.Pool, To: r.Pools[to].Pool, FromMTTF: a.Expected(), ToMTTF: b.Expected(), Why: why}
	r.plan.Why = "switch: " + why
	r.explain()
}

// mttfText formats an estimate with its precision: "14h20m", "at least 7d0h", "unknown".
func mttfText(e market.Estimate) string {
	switch {
	case !e.Known:
		return "unknown"
	case e.Censored:
		return "at least " + durationText(e.Mean)
	default:
		return durationText(e.Mean)
	}
}

// durationText formats a duration with two units: "2d3h", "14h20m", "35m", "40s".
func durationText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		d = d.Truncate(time.Hour)
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	default:
		return d.Truncate(time.Second).String()
	}
}

func plural(noun string, n int) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
