package training

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const mega = 1 << 20

// The contract, Cuts: the interval follows from bandwidth: dirty bytes per BackupPS stay below what it can take in within the
// shortest warning, less a margin.
func TestCutIntervalFollowsFromBandwidth(t *testing.T) {
	for _, c := range []struct {
		what                                string
		bytes                               int64
		rate, gathered, base, notice, clock float64
		want                                float64
		why                                 string
	}{
		{"nothing is known", 0, 0, 10, 1.5, 4, 0.1, 1.5, ""},
		{"little changes", mega, 100 * mega, 10, 1.5, 4, 0.1, 1.5, ""},
		{"a tenth of the link: 5 s of delivery", 50 * mega, 10 * mega, 60, 1.5, 120, 1, 50, "would take more than 10 %"},
		{"60 s of a warning, at 10 MB/s gathered", 600 * mega, 100 * mega, 60, 900, 120, 10, 500, "flushed within 50 % of a warning of 120.0 s"},
		{"a shorter warning", 600 * mega, 100 * mega, 60, 900, 30, 5, 100, "warning of 30.0 s, less a clock of 5.00 s"},
		{"no warning at all", 600 * mega, 100 * mega, 60, 900, 0, 5, 900, ""},
		{"a clock that is longer than the warning", 600 * mega, 100 * mega, 60, 900, 30, 20, 900, ""},
		{"next to nothing", 1000, 1, 60, 1.5, 30, 1, 1.5, ""},
		{"more than a warning can carry", 3000 * mega, 100 * mega, 60, 1.5, 30, 5, 60, "a flush will not be in time"},
	} {
		p := pace{Rate: c.rate}
		got, why := p.interval(c.bytes, c.gathered, c.base, c.notice, c.clock)
		if math.Abs(got-c.want) > 1e-9 || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: every %g s because %q, want %g s because %q", c.what, got, why, c.want, c.why)
		}
	}
}

// Whatever the figures: cuts use at most half of the link, and at most a tenth unless the warning requires more; and changes that gather
// evenly until the next cut can be flushed, unless half of the link is not enough.
func TestCutIntervalKeepsItsBounds(t *testing.T) {
	figure := rapid.Float64Range(0.01, 1000)
	rapid.Check(t, func(t *rapid.T) {
		bytes, rate := rapid.Int64Range(tellingBytes, 1e12).Draw(t, "bytes"), rapid.Float64Range(1, 1e10).Draw(t, "rate")
		gathered, base, notice, clock := figure.Draw(t, "gathered"), figure.Draw(t, "base"), figure.Draw(t, "notice"), figure.Draw(t, "clock")
		p := pace{Rate: rate}
		every, _ := p.interval(bytes, gathered, base, notice, clock)
		deliver, room := float64(bytes)/rate, FlushMargin*notice-clock
		then := deliver / gathered * every // to deliver what gathers until then
		const slack = 1 + 1e-9
		switch share := deliver / every; {
		case share > MostShare*slack:
			t.Fatalf("cuts take %g of the link", share)
		case share > usualShare*slack && (room <= 0 || then < room/slack):
			t.Fatalf("cuts take %g of the link, and the warning would leave room: %g s of %g s", share, then, room)
		case room > 0 && then > room*slack && every > deliver/MostShare*slack:
			t.Fatalf("%g s to deliver in %g s, and cuts take only %g of the link", then, room, share)
		case every > max(base, deliver/usualShare)*slack:
			t.Fatalf("%g s are longer than anybody wants", every)
		}
	})
}

// A link's rate is learned from deliveries that fill it, and never exceeds the declared rate.
func TestRateIsLearned(t *testing.T) {
	var p pace
	p.received(1000, 0.01, 0)
	p.received(500, 0.01, 0) // round trips: they reveal nothing about the link
	if p.Rate != 100_000 {
		t.Errorf("after small deliveries %g", p.Rate)
	}
	for range 50 {
		p.received(10*mega, 1, 0)
	}
	if math.Abs(p.Rate-10*mega) > 1 {
		t.Errorf("after large ones %g", p.Rate)
	}
	p.received(10*mega, 0.001, 20*mega)
	if p.Rate != 20*mega {
		t.Errorf("beyond the link: %g", p.Rate)
	}
	p.received(0, 0, 0)
	if p.Rate != 20*mega {
		t.Errorf("nothing came, and it is %g", p.Rate)
	}
}
