package market

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var probe = time.Date(2023, 2, 15, 0, 0, 0, 0, time.UTC)

// counted returns the availability of (minute, count) pairs, known until an hour after the last.
func counted(t rapid.TB, pairs ...int) *Availability {
	var points []AvailabilityPoint
	end := probe
	for i := 0; i < len(pairs); i += 2 {
		at := probe.Add(time.Duration(pairs[i]) * time.Minute)
		points = append(points, AvailabilityPoint{At: at, Count: pairs[i+1]})
		end = at.Add(time.Hour)
	}
	a, err := NewAvailability(points, end)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func minute(n int) time.Time { return probe.Add(time.Duration(n) * time.Minute) }

func TestAvailability(t *testing.T) {
	a := counted(t, 0, 4, 10, 4, 20, 1, 30, 0, 40, 4)
	for _, c := range []struct {
		minute, count int
		known         bool
	}{{-1, 0, false}, {0, 4, true}, {19, 4, true}, {20, 1, true}, {30, 0, true}, {40, 4, true}, {99, 4, true}, {100, 0, false}} {
		if n, known := a.At(minute(c.minute)); n != c.count || known != c.known {
			t.Errorf("minute %d: %d, %v", c.minute, n, known)
		}
	}
	if up, since, known := a.Spell(minute(35), 2); up || !known || !since.Equal(minute(20)) {
		t.Errorf("spell of less than 2: %v since %s", up, since)
	}
	if a.Most() != 4 || len(a.Points(minute(0), minute(20))) != 1 {
		t.Error("points that repeat the last count are left out")
	}
	var none *Availability
	if _, known := none.At(probe); known || none.Until(probe) != nil || none.Most() != 0 {
		t.Error("nil knows nothing")
	}
}

// TestAvailabilityUntil: additions to a view do not change its source.
func TestAvailabilityUntil(t *testing.T) {
	a := counted(t, 0, 4, 20, 1, 30, 0)
	view := a.Until(minute(25))
	if n, known := view.At(minute(25)); n != 1 || !known {
		t.Errorf("now: %d, %v", n, known)
	}
	if n, _ := view.At(minute(35)); n != 1 {
		t.Error("the view knows the future")
	}
	if err := view.Add(AvailabilityPoint{At: minute(27), Count: 3}); err != nil {
		t.Fatal(err)
	}
	if err := view.Add(AvailabilityPoint{At: minute(27), Count: 3}); err != nil {
		t.Errorf("told again: %v", err)
	}
	if view.Add(AvailabilityPoint{At: minute(26), Count: 3}) == nil {
		t.Error("going back in time is accepted")
	}
	if n, _ := a.At(minute(27)); n != 1 {
		t.Errorf("what was told to the view is in the original: %d", n)
	}
}

func TestNewAvailabilityRefuses(t *testing.T) {
	for name, points := range map[string][]AvailabilityPoint{
		"a negative count":   {{probe, -1}},
		"times out of order": {{probe, 1}, {probe, 2}},
		"a point at the end": {{probe.Add(time.Hour), 1}},
	} {
		if _, err := NewAvailability(points, probe.Add(time.Hour)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestWithinBid(t *testing.T) {
	h := NewHistory([]PricePoint{{minute(0), 5}, {minute(10), 12}, {minute(20), 10}, {minute(30), 9}})
	a := WithinBid(h, 10, 3, minute(25))
	want := []AvailabilityPoint{{minute(0), 3}, {minute(10), 0}, {minute(20), 3}}
	if got := a.Points(time.Time{}, minute(99)); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestSpellCounts: the counts that a spell adds, computed by hand. Phases change at 6, 18, 42, 90 and 240 minutes of age.
func TestSpellCounts(t *testing.T) {
	var c SpellCounts
	c.Add(60*time.Minute, true)
	c.Add(10*time.Minute, false)
	want := SpellCounts{
		hours: [SpellPhases]float64{12. / 60, 16. / 60, 24. / 60, 18. / 60},
		ends:  [SpellPhases]float64{3: 1},
	}
	for k := range SpellPhases {
		if math.Abs(c.hours[k]-want.hours[k]) > 1e-9 || c.ends[k] != want.ends[k] {
			t.Errorf("phase %d: %g h, %g ends", k, c.hours[k], c.ends[k])
		}
	}
}

// TestSpellRatesConverge: many spells of a constant rate give that rate in every observed phase.
func TestSpellRatesConverge(t *testing.T) {
	const rate = 0.5 // per hour
	var c SpellCounts
	for i := range 20000 {
		c.Add(time.Duration(-math.Log((float64(i)+0.5)/20000)/rate*float64(time.Hour)), true)
	}
	for k, r := range c.Rates() {
		if math.Abs(r-rate) > 0.03 {
			t.Errorf("phase %d: %g an hour, want %g", k, r, rate)
		}
	}
}

// TestLearnSpells: spells of two pools, and of both combined, which last as long as either has machines.
func TestLearnSpells(t *testing.T) {
	a := counted(t, 0, 1, 60, 0, 120, 1)
	b := counted(t, 0, 0, 60, 1, 90, 0)
	all, each := LearnSpells([]*Availability{a, b}, 1, minute(120))
	var union, first spellWatch
	union.observe(minute(0), true)
	union.observe(minute(90), false)
	union.observe(minute(120), true)
	first.observe(minute(0), true)
	first.observe(minute(60), false)
	first.observe(minute(120), true)
	if want := union.spells(minute(120)); all.Up != want.Up || all.Down != want.Down {
		t.Errorf("together %+v, want %+v", all, want)
	}
	if want := first.spells(minute(120)); each[0] != want {
		t.Errorf("alone %+v, want %+v", each[0], want)
	}
	if all.Rescue != 1./3 { // one of two losses, and a hypothetical third
		t.Errorf("rescue %g", all.Rescue)
	}
	if all, _ := LearnSpells([]*Availability{nil}, 1, minute(0)); !(all.Up[0] > all.Up[5]) || !(all.Down[5] > 0) {
		t.Errorf("of nothing: %+v", all)
	}
}

// TestLearnSpellsOnlyLooksBack: later events change nothing that was learned.
func TestLearnSpellsOnlyLooksBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pairs []int
		at := 0
		for range rapid.IntRange(1, 30).Draw(t, "points") {
			pairs = append(pairs, at, rapid.IntRange(0, 3).Draw(t, "count"))
			at += rapid.IntRange(1, 200).Draw(t, "minutes")
		}
		a := counted(t, pairs...)
		until := minute(rapid.IntRange(0, at).Draw(t, "until"))
		all, _ := LearnSpells([]*Availability{a}, 2, until)
		past, _ := LearnSpells([]*Availability{a.Until(until)}, 2, until)
		if all != past {
			t.Fatalf("with the future %+v, without %+v", all, past)
		}
	})
}
