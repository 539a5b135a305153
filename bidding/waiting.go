package bidding

import (
	"math"
	"time"

	"github.com/tierml/tierml/market"
)

// outlook is what the value of waiting depends on apart from the job's state.
type outlook struct {
	all   market.Spells     // for all spot pools together: whether a fleet is available
	held  market.SpellRates // for the pool that would be bought from
	price float64           // of its fleet's work, relative to the same work on demand
	start time.Duration     // from buying a fleet until it works: the changeover
	free  time.Duration     // an eviction before this age costs nothing (market.Terms.FreeWithin)
	work  time.Duration     // total work, on one fleet
	slack time.Duration     // the most time available in addition to the work
}

// The grid of a strategy. A finer grid changes the costs of the runs in docs/policies.md by less than half a percent.
const (
	strategyStep = 6 * time.Minute // at most; shorter if the changeover is not a multiple
	maxSteps     = 480             // of work, and of slack: longer jobs have longer steps
)

// strategy has the decision for each amount of remaining work, remaining slack and phase of the present spell, for a
// job that must be done by a deadline: the optimum of a dynamic programme over the outlook. Slack is the time until the
// deadline minus the remaining work. Work on a fleet costs money and no slack, waiting costs slack and no money, and a
// changeover costs both.
//
// Spot is left only when it is reclaimed: nothing works for less (Can't Be Late, NSDI 24, section 3.3). The strategy
// is only consulted while there is slack for two changeovers; see Deadline for what applies below that.
type strategy struct {
	step        time.Duration
	work, slack int // steps
	advice      []advice
}

// advice is for one amount of work and slack, with a bit for each phase of the present spell.
type advice struct {
	wait   uint8 // nothing is held, no spot available: wait, rather than buy on demand
	take   uint8 // nothing is held, spot available: take it, rather than buy on demand
	leave  uint8 // on demand, no spot available: stop and wait
	change uint8 // on demand, spot available: change to it
}

// adviceAt returns the advice for an amount of work and slack: from the grid's point with no less work and no more slack.
func (s *strategy) adviceAt(work, slack time.Duration) advice {
	c := min(int((work+s.step-1)/s.step), s.work)
	return s.advice[max(c, 0)*(s.slack+1)+min(int(slack/s.step), s.slack)]
}

// spellValues are expected costs until the end of the work, one for each phase of the present spell.
type spellValues [market.SpellPhases]float32

// values are the costs for one amount of work and slack.
type values struct {
	idleDown, idleUp     spellValues
	demandDown, demandUp spellValues
	// changing is for fleets on demand that need i+1 steps until they work.
	changingDown, changingUp []spellValues
	spot                     spellValues   // works, and is past the age at which an eviction is free
	young                    []spellValues // spot machines i steps old: starting, or free if they are evicted
}

// solver works backwards through work and slack. Costs are in steps on demand.
type solver struct {
	outlook
	step       time.Duration
	start      int                         // steps of a changeover
	youngSteps int                         // until a spot machine works, and its eviction is no longer free
	grow       [market.SpellPhases]float32 // probability of moving to the next phase in a step
	down, up   [market.SpellPhases]float32 // probability that a spell ends in a step
	heldUp     [market.SpellPhases]float32
	rescue     float32
	never      values // for forbidden states
}

// solve computes the strategy for an outlook.
func solve(o outlook) *strategy {
	step := gridStep(o)
	s := newSolver(o, step)
	out := &strategy{step: step, work: steps(o.work, step), slack: steps(o.slack, step)}
	width := out.slack + 1
	out.advice = make([]advice, (out.work+1)*width)
	before, now := s.row(width), s.row(width)
	for work := 1; work <= out.work; work++ {
		for slack := range width {
			less := &s.never
			if slack > 0 {
				less = &now[slack-1]
			}
			out.advice[work*width+slack] = s.decide(&now[slack], &before[slack], less, slack)
		}
		before, now = now, before
	}
	return out
}

// gridStep returns a changeover or a whole fraction of it, so that the strategy's changeovers are as long as real ones.
func gridStep(o outlook) time.Duration {
	parts := max(1, (o.start+strategyStep-1)/strategyStep)
	return max(o.start/parts, o.work/maxSteps, o.slack/maxSteps, time.Minute)
}

// steps returns the number of steps that cover a time.
func steps(d, step time.Duration) int { return int((max(d, 0) + step - 1) / step) }

func newSolver(o outlook, step time.Duration) *solver {
	s := &solver{outlook: o, start: max(1, steps(o.start, step)), rescue: float32(o.all.Rescue)}
	s.youngSteps = max(s.start, int(o.free/step))
	s.step = step
	hours := step.Hours()
	within := func(rate float64) float32 { return float32(-math.Expm1(-rate * hours)) }
	for k := range market.SpellPhases {
		s.down[k], s.up[k], s.heldUp[k] = within(o.all.Down[k]), within(o.all.Up[k]), within(o.held[k])
		if length := market.PhaseLength(k); length > 0 {
			s.grow[k] = min(1, float32(float64(step)/float64(length)))
		}
	}
	s.never = s.row(1)[0]
	for _, v := range s.never.all() {
		for k := range v {
			v[k] = impossible
		}
	}
	return s
}

// impossible is the cost of a forbidden state, in steps on demand.
const impossible = 1e6

// row returns zero values: the remaining cost when no work is left.
func (s *solver) row(width int) []values {
	row := make([]values, width)
	for i := range row {
		row[i].changingDown, row[i].changingUp = make([]spellValues, s.start), make([]spellValues, s.start)
		row[i].young = make([]spellValues, s.youngSteps)
	}
	return row
}

func (v *values) all() []*spellValues {
	out := []*spellValues{&v.idleDown, &v.idleUp, &v.demandDown, &v.demandUp, &v.spot}
	for _, more := range [][]spellValues{v.changingDown, v.changingUp, v.young} {
		for i := range more {
			out = append(out, &more[i])
		}
	}
	return out
}

// next returns the expected value a step later: of a spell that continues, or ends with a probability and gives way to
// the first phase of another.
func (s *solver) next(ends float32, same *spellValues, k int, other float32) float32 {
	later := same[k]
	if k+1 < market.SpellPhases {
		later += s.grow[k] * (same[k+1] - same[k])
	}
	return ends*other + (1-ends)*later
}

// decide fills in the values of an amount of work and slack: before has a step less work, less a step less slack.
func (s *solver) decide(now, before, less *values, slack int) (c advice) {
	for k := range market.SpellPhases {
		down, up := s.down[k], s.up[k]
		stayDown := 1 + s.next(down, &before.demandDown, k, before.demandUp[0])
		stayUp := 1 + s.next(up, &before.demandUp, k, before.demandDown[0])
		s.runSpot(now, before, less, k)
		for i := range s.start {
			then := [2]*spellValues{&less.demandDown, &less.demandUp}
			if i > 0 {
				then = [2]*spellValues{&less.changingDown[i-1], &less.changingUp[i-1]}
			}
			now.changingDown[i][k] = 1 + s.next(down, then[0], k, then[1][0])
			now.changingUp[i][k] = 1 + s.next(up, then[1], k, then[0][0])
		}
		wait, take := float32(impossible), float32(impossible)
		if slack > s.start {
			wait = s.next(down, &less.idleDown, k, less.idleUp[0])
		}
		if slack >= 2*s.start {
			take = now.young[0][k]
		}
		buyDown, buyUp := now.changingDown[s.start-1][k], now.changingUp[s.start-1][k]
		now.idleDown[k], now.idleUp[k] = min(wait, buyDown), min(take, buyUp)
		now.demandDown[k], now.demandUp[k] = min(stayDown, wait), min(stayUp, take)
		c.wait |= bit(wait < buyDown, k)
		c.take |= bit(take <= buyUp, k)
		c.leave |= bit(wait < stayDown, k)
		c.change |= bit(take < stayUp, k)
	}
	return c
}

func bit(set bool, k int) uint8 {
	if set {
		return 1 << k
	}
	return 0
}

// runSpot fills in the values of spot machines. A lost one has been paid for, unless it was young enough to be free.
func (s *solver) runSpot(now, before, less *values, k int) {
	price, ends := float32(s.price), s.heldUp[k]
	now.spot[k] = price + s.next(ends, &before.spot, k, s.lost(before))
	for i := range s.youngSteps {
		then := before
		if i < s.start {
			then = less
		}
		older := &then.spot
		if i+1 < s.youngSteps {
			older = &then.young[i+1]
		}
		lost := s.lost(then)
		if time.Duration(i+1)*s.step <= s.free {
			lost -= float32(i+1) * price
		}
		now.young[i][k] = price + s.next(ends, older, k, lost)
	}
}

// lost returns the remaining cost when a pool has reclaimed its machines: another may have some at once.
func (s *solver) lost(v *values) float32 {
	return s.rescue*v.idleUp[0] + (1-s.rescue)*v.idleDown[0]
}
