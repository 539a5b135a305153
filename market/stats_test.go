package market

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const bid = 8 * Dollar / 1000 // so that the bands end at 1, 2, 4, 6 and 8 thousandths

// minutes is a small estimator for histories of a few minutes.
var minutes = Estimator{Lookback: 100 * time.Minute, Prior: 10 * time.Minute}

func TestMTTF(t *testing.T) {
	for _, c := range []struct {
		name string
		h    *History
		now  int
		want Estimate
	}{
		{"no history", nil, 10, Estimate{}},
		{"before the first price", prices(20, 1), 10, Estimate{}},
		{"the price begins now", prices(10, 1), 10, Estimate{}},
		{"above the bid", prices(0, 1, 5, 9), 10, Estimate{Known: true}},
		{"at the bid is not above", prices(0, 8), 10, Estimate{Known: true, Mean: 10 * time.Minute, Censored: true}},
		{"never crossed", prices(0, 1, 5, 1), 30, Estimate{Known: true, Mean: 30 * time.Minute, Censored: true}},
		{"looks back no farther than the lookback", prices(-300, 9, -200, 1), 0,
			Estimate{Known: true, Mean: 100 * time.Minute, Censored: true}},
		// Minutes 0-10 end at 10: 50 square minutes. Minutes 20-30 continue: 50 more, none ended.
		{"one crossing", prices(0, 1, 10, 9, 20, 1), 30, Estimate{Known: true, Mean: 10 * time.Minute, Episodes: 1}},
		// In the low band 0-10 (15 minutes left on average, all ended) and 30-40 (5, going on); of the 30 minutes
		// in all bands (250 square minutes, 20 ended) a third is added.
		{"a band of its own: low", prices(0, 1, 10, 8, 20, 9, 30, 1), 40,
			Estimate{Known: true, Mean: minutesOf((200 + 250./3) / (10 + 20./3)), Episodes: 1}},
		// The high band: 10-20 (5 minutes left) and 30-40 (5).
		{"a band of its own: high", prices(0, 1, 10, 8, 20, 9, 30, 8), 40,
			Estimate{Known: true, Mean: minutesOf((100 + 250./3) / (10 + 20./3)), Episodes: 1}},
		{"a band never seen before", prices(0, 1, 10, 9, 20, 1, 30, 2), 30,
			Estimate{Known: true, Mean: 10 * time.Minute, Episodes: 1}},
		// Today's band never led to a crossing: 30 minutes with 450 left, a twentieth taken as ended. All
		// bands: 40 minutes with 500 left, 10 ended; a quarter of that is added.
		{"a calm band", prices(0, 8, 10, 9, 20, 1), 50,
			Estimate{Known: true, Mean: minutesOf((450 + 125) / (1.5 + 2.5)), Episodes: 1}},
		{"repeats change nothing", prices(0, 1, 4, 1, 10, 9, 15, 9, 20, 1, 25, 1), 30,
			Estimate{Known: true, Mean: 10 * time.Minute, Episodes: 1}},
		{"a step above between two prices above is one crossing", prices(0, 1, 10, 9, 15, 12, 20, 1), 30,
			Estimate{Known: true, Mean: 10 * time.Minute, Episodes: 1}},
		{"what comes later does not matter", prices(0, 1, 10, 9, 20, 1, 31, 9), 30,
			Estimate{Known: true, Mean: 10 * time.Minute, Episodes: 1}},
		// One minute ended in a crossing, 94 continue: a twentieth of all 95 counts as ended.
		{"one crossing far back", prices(0, 1, 1, 9, 2, 1), 96,
			Estimate{Known: true, Mean: minutesOf((0.5 + 94*94/2) / 4.75), Episodes: 1}},
	} {
		if got := minutes.MTTF(c.h, at(c.now), bid); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func minutesOf(m float64) time.Duration { return time.Duration(math.Round(m * float64(time.Minute))) }

// TestMTTFAgainstDefinition compares the one-pass estimate with the definition, minute by minute.
func TestMTTFAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := NewHistory(drawPoints(t))
		now := rapid.IntRange(-5, 150).Draw(t, "now")
		e := Estimator{
			Lookback: time.Duration(rapid.IntRange(1, 150).Draw(t, "lookback")) * time.Minute,
			Prior:    time.Duration(rapid.IntRange(1, 60).Draw(t, "prior")) * time.Minute,
		}
		got, want := e.MTTF(h, at(now), bid), slowMTTF(e, h, now)
		if got.Known != want.Known || got.Censored != want.Censored || got.Episodes != want.Episodes ||
			math.Abs(float64(got.Mean-want.Mean)) > 10 {
			t.Fatalf("%+v, by definition %+v", got, want)
		}
	})
}

// slowMTTF is Estimator.MTTF written from its comment. All prices change at whole minutes.
func slowMTTF(e Estimator, h *History, now int) Estimate {
	price, known := h.At(at(now))
	if !known || price > bid {
		return Estimate{Known: known}
	}
	tally := func(like func(USD) bool) (left, all, ended float64, crossings int) {
		seen := map[time.Time]bool{}
		for m := now - int(e.Lookback/time.Minute); m < now; m++ {
			past, known := h.At(at(m))
			if !known || past > bid || !like(past) {
				continue
			}
			all++
			crossing, crossed := h.Until(at(now)).FirstAbove(at(m), bid)
			if crossed {
				ended++
				seen[crossing] = true
			} else {
				crossing = at(now)
			}
			left += crossing.Sub(at(m)).Minutes() - 0.5 // on average over the minute
		}
		return left, all, ended, len(seen)
	}
	left, all, ended, crossings := tally(func(USD) bool { return true })
	switch {
	case all == 0:
		return Estimate{}
	case ended == 0:
		return Estimate{Known: true, Mean: time.Duration(all) * time.Minute, Censored: true}
	}
	bandLeft, bandAll, bandEnded, _ := tally(func(past USD) bool { return slowBand(past) == slowBand(price) })
	weight := e.Prior.Minutes() / all
	mean := (bandLeft + weight*left) / (max(bandEnded, bandAll/20) + weight*max(ended, all/20))
	return Estimate{Known: true, Mean: minutesOf(mean), Episodes: crossings}
}

func slowBand(price USD) int {
	for i, share := range []float64{1. / 8, 1. / 4, 1. / 2, 3. / 4, 1} {
		if float64(price) <= share*float64(bid) {
			return i
		}
	}
	return 5
}

// TestMTTFScales: with all prices and the bid multiplied, and with all times shifted, nothing changes.
func TestMTTFScales(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		h := NewHistory(points)
		factor := USD(rapid.IntRange(2, 1000).Draw(t, "factor"))
		shift := time.Duration(rapid.Int64Range(-1e18, 1e18).Draw(t, "shift"))
		other := make([]PricePoint, len(points))
		for i, p := range points {
			other[i] = PricePoint{p.At.Add(shift), p.Price * factor}
		}
		now := at(rapid.IntRange(0, 150).Draw(t, "now"))
		want, got := MTTF(h, now, bid), MTTF(NewHistory(other), now.Add(shift), bid*factor)
		if got != want {
			t.Fatalf("x%d, %s later: %+v, was %+v", factor, shift, got, want)
		}
		wantP, _ := EvictionProbability(h, now, bid, time.Hour)
		if p, _ := EvictionProbability(NewHistory(other), now.Add(shift), bid*factor, time.Hour); p != wantP {
			t.Fatalf("x%d, %s later: probability %g, was %g", factor, shift, p, wantP)
		}
	})
}

func TestEvictionProbability(t *testing.T) {
	for _, c := range []struct {
		name    string
		h       *History
		now     int
		horizon time.Duration
		want    float64
		known   bool
	}{
		{"no history", nil, 10, time.Hour, 0, false},
		{"above the bid", prices(0, 9), 10, time.Minute, 1, true},
		{"no time", prices(0, 1), 10, 0, 0, true},
		// 10 minutes without a crossing: one in 100 is expected.
		{"never crossed", prices(0, 1), 10, 100 * time.Minute, 1 - math.Exp(-1), true},
		// 5 of the minutes 0-10 end within 5; of the minutes 20-30, 5 did not and 5 are unknown.
		{"one crossing", prices(0, 1, 10, 9, 20, 1), 30, 5 * time.Minute, 5. / 15, true},
		{"one crossing, longer than any stay", prices(0, 1, 10, 9, 20, 1), 30, 20 * time.Minute, 1, true},
	} {
		got, known := minutes.EvictionProbability(c.h, at(c.now), bid, c.horizon)
		if known != c.known || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %g, %v; want %g, %v", c.name, got, known, c.want, c.known)
		}
	}
}

func TestEvictionProbabilityIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := NewHistory(drawPoints(t))
		now := at(rapid.IntRange(0, 150).Draw(t, "now"))
		horizon := time.Duration(rapid.IntRange(0, 200).Draw(t, "horizon")) * time.Minute
		p, known := minutes.EvictionProbability(h, now, bid, horizon)
		if known != minutes.MTTF(h, now, bid).Known && horizon > 0 {
			t.Fatalf("probability known: %v, MTTF known: %v", known, !known)
		}
		if p < 0 || p > 1 || math.IsNaN(p) {
			t.Fatalf("probability %g", p)
		}
	})
}

func BenchmarkMTTF(b *testing.B) {
	var points []PricePoint
	for i := range 4000 {
		points = append(points, PricePoint{at(5 * i), mils(1 + i*7919%9)})
	}
	h, now := NewHistory(points), at(5*4000)
	for b.Loop() {
		if e := MTTF(h, now, bid); !e.Known {
			b.Fatal("unknown")
		}
	}
}
