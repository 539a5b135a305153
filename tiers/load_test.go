package tiers

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// clocks feeds a gauge n clocks of the same load, in the stage that it selects.
func (g *Gauge) clocks(n int, u Usage) (changes []string) {
	for range n {
		if why := g.Clock(g.Floor(), u, DefaultLoadRule()); why != "" {
			changes = append(changes, why)
		}
	}
	return changes
}

// The contract, Stages: measured load overrides the ratios, with hysteresis: up when the reliable machines' network is
// the bottleneck or their workers are the stragglers, after three clocks at 80 % of the link.
func TestLoadRaisesTheStageAfterThreeClocks(t *testing.T) {
	for name, high := range map[string]Usage{"network": {Network: 0.8}, "straggler": {Straggler: 1.5}} {
		t.Run(name, func(t *testing.T) {
			var g Gauge
			if g.clocks(2, high); g.Floor() != Stage1 {
				t.Errorf("after two clocks: stage %d", g.Floor())
			}
			g.clocks(1, Usage{Network: 0.7, Straggler: 1.3}) // neither high nor low: it does not count
			if g.clocks(2, high); g.Floor() != Stage1 {
				t.Errorf("after two more: stage %d; the three must follow each other", g.Floor())
			}
			if why := g.clocks(1, high); g.Floor() != Stage2 || len(why) != 1 || !strings.Contains(why[0], "for 3 clocks") {
				t.Errorf("after the third in a row: stage %d, %q", g.Floor(), why)
			}
			if g.clocks(3, high); g.Floor() != Stage3 {
				t.Errorf("after three clocks in stage 2: stage %d", g.Floor())
			}
			if why := g.clocks(100, high); g.Floor() != Stage3 || why != nil {
				t.Errorf("there is no stage above 3: %d, %q", g.Floor(), why)
			}
		})
	}
}

// Falling back requires the lower threshold, for longer, and room in the stage below; and each time twice as long.
func TestLoadLetsTheStageFall(t *testing.T) {
	var g Gauge
	rule := DefaultLoadRule()
	high, calm := Usage{Network: 0.9}, Usage{Network: 0.1, Below: 0.4}
	g.clocks(3, high)
	for what, u := range map[string]Usage{"it is in between": {Network: 0.6}, "below it would be full": {Network: 0.1, Below: 0.6}} {
		if why := g.clocks(1000, u); why != nil {
			t.Errorf("%s: %q", what, why)
		}
	}
	for _, needs := range []int{rule.Fall, 2 * rule.Fall, 4 * rule.Fall} {
		if g.clocks(needs-1, calm); g.Floor() != Stage2 {
			t.Errorf("it fell before %d calm clocks", needs)
		}
		if why := g.clocks(1, calm); g.Floor() != Stage1 || len(why) != 1 || !strings.Contains(why[0], "40 %") {
			t.Errorf("after %d calm clocks: stage %d, %q", needs, g.Floor(), why)
		}
		g.clocks(3, high)
	}
}

// A raise that lengthens clocks is reverted, with both lengths, and is not tried again for a while, twice as long each time; clocks of
// another fleet are not compared.
func TestLongerClocksTakeTheStageBack(t *testing.T) {
	rule, high := DefaultLoadRule(), Usage{Network: 0.9}
	var g Gauge
	step := func(fleet float64, stage2 float64) (why string) {
		before, seconds := g.Floor(), 0.61
		if before == Stage2 {
			seconds = stage2
		}
		why = g.Timed(seconds, fleet, rule)
		g.Clock(g.Floor(), high, rule)
		if g.Floor() != before {
			g.Again()
		}
		return why
	}
	backs, last := 0, 0
	for clock := range 2000 {
		if why := step(8, 3.16); why != "" {
			if !strings.Contains(why, "3.16 s in stage 2 and took 0.61 s before") || g.Floor() != Stage1 {
				t.Fatalf("stage %d: %s", g.Floor(), why)
			}
			if backs > 0 && clock-last < rule.Rest<<(backs-1) {
				t.Errorf("tried again %d clocks after the change was taken back %d times", clock-last, backs)
			}
			backs, last = backs+1, clock
		}
	}
	if backs < 2 || backs > 5 || g.Undone() != backs {
		t.Errorf("taken back %d times in 2000 clocks", backs)
	}
	for name, c := range map[string]struct{ seconds, fleet float64 }{"no longer": {0.6, 8}, "another fleet": {3.16, 9}} {
		g = Gauge{}
		for range 12 {
			fleet := 8.0
			if g.Floor() == Stage2 {
				fleet = c.fleet
			}
			if why := step(fleet, c.seconds); why != "" {
				t.Errorf("%s: %s", name, why)
			}
		}
		if g.Floor() < Stage2 {
			t.Errorf("%s: stage %d", name, g.Floor())
		}
	}
}

// Whatever the load, the stage does not flap: n clocks see at most log2(n/Fall+1) falls, and two raises more.
func TestStagesDoNotFlap(t *testing.T) {
	rule := DefaultLoadRule()
	rapid.Check(t, func(t *rapid.T) {
		var g Gauge
		n, raises, falls, since := rapid.IntRange(1, 3000).Draw(t, "clocks"), 0, 0, 0
		figure := rapid.Float64Range(0, 1.2)
		u := Usage{}
		for left := 0; n > 0; n-- {
			if left--; left < 0 { // loads last for a while
				left = rapid.IntRange(0, 60).Draw(t, "for")
				u = Usage{Network: figure.Draw(t, "network"), Below: figure.Draw(t, "below"), Straggler: 2 * figure.Draw(t, "straggler")}
			}
			before := g.Floor()
			why := g.Clock(before, u, rule)
			since++
			switch after := g.Floor(); {
			case (why != "") != (after != before):
				t.Fatalf("from stage %d to %d because %q", before, after, why)
			case after > before:
				if raises++; since < rule.Raise {
					t.Fatalf("raised %d clocks after the last change", since)
				}
				since = 0
			case after < before:
				if since < rule.Fall<<falls {
					t.Fatalf("fall %d came %d clocks after the last change", falls+1, since)
				}
				falls, since = falls+1, 0
			}
		}
		if most := math.Log2(3000/float64(rule.Fall) + 1); float64(falls) > most || raises > falls+2 {
			t.Fatalf("%d raises and %d falls", raises, falls)
		}
	})
}
