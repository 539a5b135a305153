package tiers

import (
	"fmt"
	"slices"
)

// Usage is the measured use of the reliable machines in one clock. An unknown figure is 0.
type Usage struct {
	// Network is the share of its link that the busiest reliable machine has used, in or out, whichever is more.
	Network float64
	// Straggler is how many times as long as the median transient machine the slowest reliable one takes for the same work.
	Straggler float64
	// Below is Network one stage lower, where the reliable machines do more.
	Below float64
}

// LoadRule says which load changes the stage, and for how many consecutive clocks.
type LoadRule struct {
	NetworkHigh, NetworkLow     float64
	StragglerHigh, StragglerLow float64
	Raise                       int // clocks at or above a high figure that raise the stage by one
	Fall                        int // clocks with all figures at or below the low ones that lower it by one, for the first time
	// A change after which clocks take more than Slower times as long is undone, and load does not raise the stage again for Rest clocks,
	// doubling each time.
	Slower float64
	Rest   int
}

// DefaultLoadRule raises the stage after three clocks at 80 % of the link. There must be room for a fall: the stage below would use at most
// half of the link.
func DefaultLoadRule() LoadRule {
	return LoadRule{NetworkHigh: 0.8, NetworkLow: 0.5, StragglerHigh: 1.5, StragglerLow: 1.2, Raise: 3, Fall: 12, Slower: 1.5, Rest: 100}
}

// Gauge turns load into the lowest allowed stage, with hysteresis. Ratios of machines determine the initial stage of a job (StageFor); load
// raises it above that, and lowers it back, never below.
//
// It does not flap. Between the two thresholds nothing changes; a stage falls only if the stage below would have room; and each fall takes
// twice as many calm clocks as the previous one. So n clocks of any load see at most log2(n/Fall + 1) falls, and two raises more than
// falls.
//
// Load only suggests what makes clocks long; their length decides (Timed). A change after which they are longer is undone, and each time
// load does not raise the stage for twice as many clocks.
type Gauge struct {
	floor      Stage // 0 = load has no demand
	high, calm int   // clocks in a row
	falls      int
	undone     int // changes that were undone
	rest       int // clocks for which load does not raise the stage

	fleet  float64          // fleet of the clocks in recent
	recent [settled]float64 // lengths of the last clocks since a change of stage or fleet, a ring
	timed  int              // total number of those clocks
	before float64          // length of a clock before the change on trial; 0 = none
	back   Stage            // the floor before it
}

// settled is how many clocks are needed before their median length is compared.
const settled = 3

// GaugeAt returns a gauge that continues an earlier one.
func GaugeAt(floor Stage, falls, undone int, r LoadRule) Gauge {
	g := Gauge{floor: floor, falls: min(max(falls, 0), 30), undone: min(max(undone, 0), 20)}
	if g.undone > 0 {
		g.rest = r.Rest << (g.undone - 1)
	}
	return g
}

// Falls returns how often the floor fell.
func (g *Gauge) Falls() int { return g.falls }

// Undone returns how many changes were undone.
func (g *Gauge) Undone() int { return g.undone }

// Floor returns the lowest stage that the load so far allows.
func (g *Gauge) Floor() Stage { return max(g.floor, Stage1) }

// Clock processes the load of a clock completed in a stage. If the floor changes it returns the reason, with the figures; otherwise "".
func (g *Gauge) Clock(at Stage, u Usage, r LoadRule) (why string) {
	switch {
	case u.Network >= r.NetworkHigh || u.Straggler >= r.StragglerHigh:
		g.high, g.calm = g.high+1, 0
	case u.Network <= r.NetworkLow && u.Below <= r.NetworkLow && u.Straggler <= r.StragglerLow:
		g.high, g.calm = 0, g.calm+1
	default:
		g.high, g.calm = 0, 0
	}
	if g.before > 0 { // one change at a time
		return ""
	}
	switch {
	case g.high >= r.Raise && at < Stage3 && g.rest == 0:
		g.try(at + 1)
		g.high = 0
		return raised(u, r)
	case g.floor > Stage1 && at == g.floor && g.calm >= r.Fall<<g.falls:
		why = fmt.Sprintf("the reliable machines' links are at most %.0f %% used for %d clocks, and would be %.0f %% used in stage %d, up to %.0f %% of which is room enough",
			100*u.Network, g.calm, 100*u.Below, g.floor-1, 100*r.NetworkLow)
		g.try(g.floor - 1)
		g.calm = 0
		g.falls = min(g.falls+1, 30)
	}
	return why
}

// try changes the floor, to be judged by the following clocks if the length of the previous ones is known.
func (g *Gauge) try(floor Stage) {
	g.before, g.back = g.median(), g.Floor()
	g.floor = floor
}

// Timed processes the length of a clock that a fleet has done in its layout; equal fleets do equal work in it. A change of floor after
// which clocks take longer is undone, and Timed returns the reason; otherwise "". Clocks of different fleets are not compared: machines
// that come or go meanwhile end the trial.
func (g *Gauge) Timed(seconds, fleet float64, r LoadRule) (why string) {
	g.rest = max(g.rest-1, 0)
	if fleet != g.fleet {
		g.fleet, g.timed, g.before = fleet, 0, 0
	}
	g.recent[g.timed%settled] = seconds
	g.timed++
	now := g.median()
	if g.before == 0 || now == 0 || r.Slower == 0 {
		return ""
	}
	before, from := g.before, g.floor
	g.before = 0
	if now <= r.Slower*before {
		return ""
	}
	g.floor, g.high, g.calm = g.back, 0, 0
	g.undone = min(g.undone+1, 20)
	g.rest = r.Rest << (g.undone - 1)
	return fmt.Sprintf("clocks take %.3g s in stage %d and took %.3g s before: back to stage %d; load raises the stage no more for %d clocks",
		now, max(from, Stage1), before, max(g.back, Stage1), g.rest)
}

// median returns the median of the last clocks; 0 = too few.
func (g *Gauge) median() float64 {
	if g.timed < settled {
		return 0
	}
	sorted := g.recent
	slices.Sort(sorted[:])
	return sorted[settled/2]
}

func raised(u Usage, r LoadRule) string {
	if u.Network >= r.NetworkHigh {
		return fmt.Sprintf("the busiest reliable machine uses %.0f %% of its link, for %d clocks at or above %.0f %%",
			100*u.Network, r.Raise, 100*r.NetworkHigh)
	}
	return fmt.Sprintf("the slowest reliable machine takes %.2f times as long as the median transient one, for %d clocks at or above %g times",
		u.Straggler, r.Raise, r.StragglerHigh)
}

// Again forgets the clocks counted so far: after a change of layout they say nothing about the new one.
func (g *Gauge) Again() { g.high, g.calm, g.timed = 0, 0, 0 }
