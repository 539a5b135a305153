package region

import (
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// faults are the faults that a script has ordered.
type faults struct {
	outages   []outage
	slow      []slowdown
	throttled time.Time // no request is answered before
}

// outage is a time in which pools sell nothing.
type outage struct {
	where Scope
	until time.Time
}

// slowdown is a time in which machines boot slower.
type slowdown struct {
	where  Scope
	until  time.Time // zero = forever
	boot   time.Duration
	factor float64
}

// Scope limits something to some pools: an instance type, a zone, "zone/type", or a whole pool. "" is all.
type Scope string

// Matches reports whether a pool is meant.
func (w Scope) Matches(pool market.Pool) bool {
	switch w {
	case "", Scope(pool.Type), Scope(pool.Zone), Scope(pool.Zone + "/" + pool.Type), Scope(pool.String()):
		return true
	}
	return false
}

// RunOut makes pools sell nothing for a time; running machines continue.
func (r *Region) RunOut(now time.Time, where Scope, length time.Duration) {
	r.Advance(now)
	r.faults.outages = append(r.faults.outages, outage{where: where, until: r.now.Add(length)})
}

// outOf reports whether a pool sells nothing.
func (t *faults) outOf(pool market.Pool, now time.Time) bool {
	return slices.ContainsFunc(t.outages, func(o outage) bool { return o.where.Matches(pool) && o.until.After(now) })
}

// SlowStart makes later launches boot slower: in `boot`, or `factor` times as slowly as configured if boot is 0. Length 0 is forever. Of
// several, the latest counts.
func (r *Region) SlowStart(now time.Time, where Scope, boot time.Duration, factor float64, length time.Duration) {
	r.Advance(now)
	s := slowdown{where: where, boot: boot, factor: factor}
	if length > 0 {
		s.until = r.now.Add(length)
	}
	r.faults.slow = append(r.faults.slow, s)
}

// bootTime returns a pool's boot time, given its usual one.
func (t *faults) bootTime(pool market.Pool, usual time.Duration, now time.Time) time.Duration {
	for _, s := range slices.Backward(t.slow) {
		if !s.where.Matches(pool) || !s.until.IsZero() && !s.until.After(now) {
			continue
		}
		if s.boot > 0 {
			return s.boot
		}
		return time.Duration(float64(usual) * s.factor)
	}
	return usual
}

// Throttle refuses every request for a time.
func (r *Region) Throttle(now time.Time, length time.Duration) {
	r.Advance(now)
	r.faults.throttled = r.now.Add(length)
}

// Throttled reports whether requests are refused.
func (r *Region) Throttled(now time.Time) bool {
	r.Advance(now)
	return r.faults.throttled.After(r.now)
}

// Evict gives machines the notice and then takes them back, regardless of the price. One that already has a notice keeps it.
func (r *Region) Evict(now time.Time, targets []string) error {
	return r.each(now, targets, true, func(i *Instance) {
		if i.Deadline.IsZero() {
			r.notice(r.now, i, CapacityTaken)
		}
	})
}

// EvictNow takes machines back without a notice.
func (r *Region) EvictNow(now time.Time, targets []string) error {
	return r.each(now, targets, true, func(i *Instance) { r.end(r.now, i, CapacityTaken, true) })
}

// Kill breaks machines.
func (r *Region) Kill(now time.Time, targets []string) error {
	return r.each(now, targets, false, func(i *Instance) { r.end(r.now, i, HardwareFailure, true) })
}

// Rebalance recommends leaving machines.
func (r *Region) Rebalance(now time.Time, targets []string) error {
	return r.each(now, targets, true, func(i *Instance) {
		if i.RebalanceAt.IsZero() {
			i.RebalanceAt = r.now
			if i.Fleet != "" {
				r.retryBy(r.now)
			}
		}
	})
}

func (r *Region) each(now time.Time, targets []string, spotOnly bool, do func(*Instance)) error {
	r.Advance(now)
	for _, id := range targets {
		i, ok := r.instances[id]
		switch {
		case !ok:
			return NotFound(id)
		case spotOnly && i.Pool.Class != market.Spot:
			return Errorf("InvalidParameterValue", "Instance %s is not a spot instance.", id)
		}
	}
	for _, id := range targets {
		if i := r.instances[id]; i.State.Alive() {
			do(i)
		}
	}
	return nil
}

// Named reports whether a target is the id of one machine: "i-..." of EC2, or a name on Compute Engine, where ours contain dashes.
func Named(target string) bool { return strings.Contains(target, "-") }

// Sample chooses some of the machines at random.
func (r *Region) Sample(ids []string, count int) []string {
	ids = slices.Clone(ids)
	r.picks.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
	return ids[:min(len(ids), count)]
}

// Pick selects machines: one by its id, or "oldest", "newest", "random" up to count, or "all", among the live spot machines, preferably
// without a notice.
func (r *Region) Pick(now time.Time, target string, count int, where Scope) []string {
	r.Advance(now)
	if Named(target) {
		return []string{target}
	}
	var calm, warned []string
	for _, i := range r.order {
		switch {
		case !i.State.Alive() || i.Pool.Class != market.Spot || !where.Matches(i.Pool):
		case i.Deadline.IsZero():
			calm = append(calm, i.ID)
		default:
			warned = append(warned, i.ID)
		}
	}
	switch target {
	case "all":
		return append(calm, warned...)
	case "newest":
		slices.Reverse(calm)
		slices.Reverse(warned)
	case "random":
		r.picks.Shuffle(len(calm), func(a, b int) { calm[a], calm[b] = calm[b], calm[a] })
	}
	list := append(calm, warned...)
	return list[:min(len(list), max(1, count))]
}
