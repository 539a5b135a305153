package market

import (
	"time"
)

// SpellPhases is the number of phases of a spell by its age: young spells end much more often than old ones.
const SpellPhases = 6

// spellEdges are the ages at which the phases begin.
var spellEdges = [SpellPhases]time.Duration{0, 6 * time.Minute, 18 * time.Minute, 42 * time.Minute, 90 * time.Minute, 4 * time.Hour}

// SpellPhase returns the phase of a spell's age.
func SpellPhase(age time.Duration) int {
	phase := 0
	for phase+1 < SpellPhases && age >= spellEdges[phase+1] {
		phase++
	}
	return phase
}

// PhaseLength returns the length of a phase; 0 for the last one, which does not end.
func PhaseLength(phase int) time.Duration {
	if phase+1 == SpellPhases {
		return 0
	}
	return spellEdges[phase+1] - spellEdges[phase]
}

// Spells holds the rates at which intervals with and without available machines end, by their age: a semi-Markov model of a market, learned
// from observations.
type Spells struct {
	Up, Down SpellRates
	// Rescue is the share of a pool's ends at which another pool was immediately available, from 0 to 1.
	Rescue float64
}

// SpellRates are the ends per hour in each phase of a spell.
type SpellRates [SpellPhases]float64

// The prior, before any observation: the rate of ends at an age is alpha / (age + scale), which is Lomax's distribution, the usual
// heavy-tailed one for spells. It weighs as much as one end in each phase, and its level follows the observations as if two ends had
// already been observed.
const (
	spellAlpha = 0.7
	spellScale = 0.4 // hours
	levelPrior = 2   // ends
	phasePrior = 1   // ends
)

// priorRate returns the prior's rate in a phase, at its middle.
func priorRate(phase int) float64 {
	from := spellEdges[phase].Hours()
	middle := from * 1.5
	if phase+1 < SpellPhases {
		middle = (from + spellEdges[phase+1].Hours()) / 2
	}
	return spellAlpha / (middle + spellScale)
}

// SpellCounts are observations of one kind of spell: time in each phase, and number of ends. Spells that have not ended, or had begun
// before observation did, count with the observed part.
type SpellCounts struct {
	hours [SpellPhases]float64
	ends  [SpellPhases]float64
}

// Add counts a spell that was observed to an age, and whether it ended then.
func (c *SpellCounts) Add(age time.Duration, ended bool) {
	for phase := range SpellPhases {
		in := age - spellEdges[phase]
		if length := PhaseLength(phase); length > 0 {
			in = min(in, length)
		}
		if in > 0 {
			c.hours[phase] += in.Hours()
		}
	}
	if ended {
		c.ends[SpellPhase(age)]++
	}
}

// Rates returns the posterior means: each phase's own count, shrunk to the prior at the level of all phases together.
func (c *SpellCounts) Rates() (rates SpellRates) {
	var ends, expected float64
	for phase := range SpellPhases {
		ends += c.ends[phase]
		expected += c.hours[phase] * priorRate(phase)
	}
	level := (ends + levelPrior) / (expected + levelPrior)
	for phase := range SpellPhases {
		prior := priorRate(phase) * level
		rates[phase] = (c.ends[phase] + phasePrior) / (c.hours[phase] + phasePrior/prior)
	}
	return rates
}

// LearnSpells learns from what was known of some pools until a time: from spells in which at least one had count machines, or none did, and
// from the spells of each pool by itself.
func LearnSpells(pools []*Availability, count int, until time.Time) (all Spells, each []Spells) {
	l := spellLearner{pools: pools, count: count, one: make([]spellWatch, len(pools)), next: make([]int, len(pools))}
	for {
		at, ok := l.earliest(until)
		if !ok {
			break
		}
		l.observe(at)
	}
	all = l.union.spells(until)
	if len(pools) > 1 {
		all.Rescue = float64(l.rescued) / float64(l.lost+1)
	}
	for i := range l.one {
		each = append(each, l.one[i].spells(until))
	}
	return all, each
}

// spellLearner processes the points of several pools in order of time.
type spellLearner struct {
	pools []*Availability
	count int
	next  []int // of each pool, the first point that was not learned
	one   []spellWatch
	union spellWatch

	lost, rescued int // ended spells of a pool, and those for which another was available
}

// earliest returns the time of the next point.
func (l *spellLearner) earliest(until time.Time) (at time.Time, ok bool) {
	for i, a := range l.pools {
		if a == nil || l.next[i] == len(a.points) {
			continue
		}
		if t := a.points[l.next[i]].At; !t.After(until) && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}

// observe processes all points of an instant together: their order is meaningless.
func (l *spellLearner) observe(at time.Time) {
	lost, any := 0, false
	for i, a := range l.pools {
		w := &l.one[i]
		if n := l.next[i]; a != nil && n < len(a.points) && a.points[n].At.Equal(at) {
			l.next[i]++
			up := a.points[n].Count >= l.count
			if w.begun && w.up && !up {
				lost++
			}
			w.observe(at, up)
		}
		any = any || w.begun && w.up
	}
	l.union.observe(at, any)
	l.lost += lost
	if any {
		l.rescued += lost
	}
}

// spellWatch observes one boolean over time.
type spellWatch struct {
	begun    bool
	since    time.Time
	up       bool
	ups, dns SpellCounts
}

func (w *spellWatch) counts() *SpellCounts {
	if w.up {
		return &w.ups
	}
	return &w.dns
}

func (w *spellWatch) observe(at time.Time, up bool) {
	if w.begun && w.up == up {
		return
	}
	if w.begun {
		w.counts().Add(at.Sub(w.since), true)
	}
	w.begun, w.since, w.up = true, at, up
}

func (w *spellWatch) spells(until time.Time) Spells {
	if w.begun {
		w.counts().Add(until.Sub(w.since), false)
	}
	return Spells{Up: w.ups.Rates(), Down: w.dns.Rates()}
}

// Spell returns since when at least count machines have been available, or not.
func (a *Availability) Spell(t time.Time, count int) (up bool, since time.Time, known bool) {
	i := a.countUntil(t)
	if i == 0 || a.over(t) {
		return false, time.Time{}, false
	}
	i--
	up = a.points[i].Count >= count
	for i > 0 && (a.points[i-1].Count >= count) == up {
		i--
	}
	return up, a.points[i].At, true
}

// WithinBid returns the availability that follows from prices if bids decide: count machines while the price is within the bid, none while
// it is above, as seen at a time.
func WithinBid(h *History, bid USD, count int, until time.Time) *Availability {
	a := &Availability{}
	for _, p := range h.Points(time.Time{}, until) {
		n := 0
		if p.Price <= bid {
			n = count
		}
		if last := len(a.points); last == 0 || a.points[last-1].Count != n {
			a.points = append(a.points, AvailabilityPoint{At: p.At, Count: n})
		}
	}
	return a
}

// SpellPhase returns the phase of the spell for which the price has been within the bid, or above it; the first if unknown.
func (h *History) SpellPhase(t time.Time, bid USD) int {
	i := h.countUntil(t) - 1
	if i < 0 {
		return 0
	}
	within := h.points[i].Price <= bid
	for i > 0 && (h.points[i-1].Price <= bid) == within && t.Sub(h.points[i].At) < spellEdges[SpellPhases-1] {
		i--
	}
	return SpellPhase(t.Sub(h.points[i].At))
}
