package bidding

import (
	"time"

	"github.com/tierml/tierml/market"
)

// Deadline finishes a job by its deadline at the least expected cost: on spot machines while they are available, on
// demand or waiting while they are not. It learns from the pools' past how long available and unavailable spells last,
// given the length of the present one (market.LearnSpells), and weighs waiting against buying on demand by a dynamic
// programme over remaining work, remaining slack and the phase of the present spell (strategy).
//
// The deadline is met whatever was learned: spot is only bought while there is time for two changeovers, it is left
// before its loss would be too late, and the policy waits only if there is still time to begin on demand afterwards
// (course has the proof). The budget takes precedence over the deadline: what it does not cover is not bought, and the
// plan says so.
type Deadline struct {
	// Known caches strategies between calls; nil = each call solves its own, which takes some milliseconds.
	Known *Strategies
}

// Strategies caches what was learned and solved: many decisions use the same. It is not safe for concurrent use. It
// must not be used for other pools of the same names.
type Strategies struct {
	lessons map[lesson]*learned
	solved  map[outlook]*strategy
	order   []outlook // of solved, oldest first
}

// NewStrategies returns an empty cache.
func NewStrategies() *Strategies {
	return &Strategies{lessons: map[lesson]*learned{}, solved: map[outlook]*strategy{}}
}

// keptStrategies bounds the memory: starts simulated in order of time need the same few.
const keptStrategies = 64

// lesson is the key of what was learned: pools of these names, this many machines, until a time.
type lesson struct {
	first, last market.Pool
	pools       int
	count       int
	until       int64
}

// learned is the result of market.LearnSpells.
type learned struct {
	all  market.Spells
	each []market.Spells
}

// Name returns "deadline".
func (Deadline) Name() string { return "deadline" }

// ByRestart marks a policy without a reliable tier.
func (Deadline) ByRestart() {}

// Plan decides where the job continues.
func (p Deadline) Plan(s State) Plan {
	c := newCourse(s)
	affordable := c.affordable(1)
	switch {
	case c.done:
		return c.stay("the work is done", 0)
	case c.onSpot():
		return c.holdSpot()
	case c.onDemand() && (c.starting > 0 || !c.daring()):
		return c.stay("on demand, as the deadline does not allow a change", c.starting)
	case c.onDemand():
		return p.onDemand(c)
	case c.demand < 0 || !affordable:
		return c.spotOnly(affordable)
	case !c.daring():
		return c.goTo(c.demand, "safety net: two changeovers more, and the deadline would be missed")
	}
	plan := p.strategy(c)
	now := plan.adviceAt(c.work, c.slack())
	if c.spot >= 0 {
		if now.take&c.upPhase() != 0 {
			return c.goTo(c.spot, "spot is available")
		}
		return c.goTo(c.demand, "spot machines will not last long enough to be worth the changeover")
	}
	if c.patient(plan.step) && now.wait&c.downPhase() != 0 {
		return c.pause("waiting for spot is expected to cost less than on demand", max(time.Second, min(plan.step, c.slack()-2*c.change-c.atRisk)))
	}
	return c.goTo(c.demand, "on demand is expected to cost less than waiting for spot")
}

// onDemand checks whether spot, or waiting for it, has become worth a changeover.
func (p Deadline) onDemand(c *course) Plan {
	plan := p.strategy(c)
	now := plan.adviceAt(c.work, c.slack())
	paid, leaving := c.paid(), min(c.ending(), c.Job.Terms.Increment/2) // with the checkpoint before a change
	switch {
	case paid > leaving+plan.step:
		return c.stay("on demand, to the end of the time that is paid for", paid-leaving-plan.step/2)
	case paid < leaving:
		return c.stay("on demand: the checkpoint before a change would take longer than what is paid for", paid)
	case !c.affordable(2):
		return c.stay("on demand, as the budget does not allow a change", plan.step)
	case c.spot >= 0 && now.change&c.upPhase() != 0:
		return c.goTo(c.spot, "spot is available, and is expected to last long enough to be worth the changeover")
	case c.spot < 0 && c.patient(plan.step) && now.leave&c.downPhase() != 0:
		return c.pause("waiting for spot is expected to cost less than continuing on demand", plan.step)
	}
	return c.stay("on demand, as a change is not expected to be worth its cost", plan.step)
}

// paid returns how long the fleet is already paid for, if it is billed in increments.
func (c *course) paid() time.Duration {
	if c.Job.Terms.Increment <= 0 {
		return 0
	}
	left := time.Duration(0)
	for _, a := range c.Held {
		if a.Pool == c.Pools[c.held.candidate].Pool && !a.Warned && !a.Draining {
			left = max(left, c.Job.Terms.Increment-c.Now.Sub(a.Launch)%c.Job.Terms.Increment)
		}
	}
	return left
}

// spotOnly is for jobs that cannot buy on demand.
func (c *course) spotOnly(affordable bool) Plan {
	why := "no on-demand machines may be bought"
	if !affordable {
		why = "the budget does not allow to finish on demand"
	}
	if c.spot >= 0 {
		return c.goTo(c.spot, why+": spot, even if the deadline is missed")
	}
	return c.pause(why+": waiting for spot, even if the deadline is missed", 0)
}

// strategy returns the strategy for the present outlook. What was learned is updated four times a day, in a pool's
// first half day every hour.
func (p Deadline) strategy(c *course) *strategy {
	known := p.Known
	if known == nil {
		known = NewStrategies()
	}
	spots := c.spots()
	l := known.learn(c, spots)
	o := outlook{
		all: l.all, held: l.all.Up, price: c.spotPrice(spots), start: c.change + c.saveEvery/2 + c.Job.SaveTime,
		free: c.Job.Terms.FreeWithin, work: c.all, slack: min(c.Job.Deadline.Sub(c.Job.Started), 2*endless) - c.all,
	}
	for i, candidate := range spots {
		if candidate == c.spot {
			o.held = l.each[i].Up
		}
	}
	return known.solve(o)
}

// spots returns the spot candidates.
func (c *course) spots() (out []int) {
	for i := range c.Pools {
		if !c.Pools[i].OnDemand() {
			out = append(out, i)
		}
	}
	return out
}

// spotPrice returns the cost of work on spot machines, relative to on demand: in the pool available now, or in the
// cheapest. It is rounded, so that small price changes do not need new strategies.
func (c *course) spotPrice(spots []int) float64 {
	best := -1.0
	for _, i := range spots {
		if price := c.rest(i); c.plan.Considered[i].HasPrice && (i == c.spot || c.spot < 0 && (best < 0 || price < best)) {
			best = price
		}
	}
	if best < 0 {
		return 1
	}
	const parts = 50
	return float64(int(best/c.rest(c.demand)*parts+0.5)) / parts
}

// availability returns a candidate's recorded availability, or derives it from its price: machines are available while
// it is within the bid.
func (c *course) availability(candidate int) *market.Availability {
	p, seen := &c.Pools[candidate], &c.plan.Considered[candidate]
	if p.Availability != nil {
		return p.Availability
	}
	return market.WithinBid(p.History, seen.Bid, seen.Count, c.Now)
}

// begins returns when that record begins.
func (c *course) begins(candidate int) (time.Time, bool) {
	if a := c.Pools[candidate].Availability; a != nil {
		first, known := a.First()
		return first.At, known
	}
	first, known := c.Pools[candidate].History.First()
	return first.At, known
}

// learn returns what is known of the spot pools. It is updated as learnEvery says, so that many plans share it.
func (k *Strategies) learn(c *course, spots []int) *learned {
	begun := c.Now
	for _, i := range spots {
		if first, ok := c.begins(i); ok && first.Before(begun) {
			begun = first
		}
	}
	every := 6 * time.Hour
	if c.Now.Sub(begun) < 12*time.Hour {
		every = time.Hour
	}
	until := begun.Add(c.Now.Sub(begun).Truncate(every))
	count := c.plan.Considered[spots[0]].Count
	name := lesson{c.Pools[spots[0]].Pool, c.Pools[spots[len(spots)-1]].Pool, len(spots), count, until.UnixNano()}
	l := k.lessons[name]
	if l == nil {
		l = &learned{}
		var watched []*market.Availability
		for _, i := range spots {
			watched = append(watched, c.availability(i))
		}
		l.all, l.each = market.LearnSpells(watched, count, until)
		k.lessons[name] = l
	}
	return l
}

func (k *Strategies) solve(o outlook) *strategy {
	if s := k.solved[o]; s != nil {
		return s
	}
	if len(k.order) == keptStrategies {
		delete(k.solved, k.order[0])
		k.order = k.order[1:]
	}
	s := solve(o)
	k.solved[o] = s
	k.order = append(k.order, o)
	return s
}

// upPhase returns the phase of the available pool's present spell, as a bit.
func (c *course) upPhase() uint8 { return c.spellPhase(c.spot) }

// downPhase returns the phase of the spell with no spot pool available: it began when the last became unavailable.
func (c *course) downPhase() uint8 {
	youngest := uint8(1 << (market.SpellPhases - 1))
	for _, i := range c.spots() {
		youngest = min(youngest, c.spellPhase(i))
	}
	return youngest
}

func (c *course) spellPhase(candidate int) uint8 {
	p, seen := &c.Pools[candidate], &c.plan.Considered[candidate]
	if p.Availability == nil {
		return 1 << p.History.SpellPhase(c.Now, seen.Bid)
	}
	_, since, known := p.Availability.Spell(c.Now, seen.Count)
	if !known {
		return 1
	}
	return 1 << market.SpellPhase(c.Now.Sub(since))
}
