package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// TestSameEventsGiveSameDecisions: the journal of a simulated run, with faults, is fed to a simulation with different timing.
func TestSameEventsGiveSameDecisions(t *testing.T) {
	cfg := scenario(t, crossing(), b())
	cfg.Timing.NoticeLag, cfg.Timing.Boot, cfg.Timing.PriceLag = 40*time.Second, 9*time.Minute, time.Minute
	cfg.Faults = []Fault{{At: 50 * time.Minute, Do: Kill}, {At: 100 * time.Minute, Do: Evict, Count: 2}}
	cfg.FLOPSPerVCPU /= 1.2 // a computer slower than the declared rate
	_, first := run(t, cfg)
	told, err := NewRecording(first)
	if err != nil {
		t.Fatal(err)
	}
	again := scenario(t, crossing(), b())
	again.Recording = told
	_, second := run(t, again)
	if a, b := decided(first), decided(second); a != b {
		t.Errorf("the run decided\n%s\nand, told the same,\n%s", a, b)
	}
	if last := first[len(first)-1]; last.Outcome != "finished" || second[len(second)-1].Clock != last.Clock {
		t.Errorf("ended with %+v and %+v", last, second[len(second)-1])
	}
	untold := scenario(t, crossing(), b())
	if _, third := run(t, untold); decided(third) == decided(first) {
		t.Error("without being told it decides the same, so the test shows nothing")
	}
	// Warnings and arrivals of machines come at the same times.
	for _, kind := range []journal.Kind{journal.Launch, journal.Ready, journal.Notice} {
		if a, b := times(first, kind), times(second, kind); !slices.EqualFunc(a, b, time.Time.Equal) {
			t.Errorf("%s at %v, told: %v", kind, a, b)
		}
	}
}

func decided(entries []journal.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		switch e.Kind {
		case journal.Intent, journal.Switch, journal.Stage:
			b.WriteString(strings.Join([]string{string(e.Kind), e.Pool, e.Bid, e.From, e.To, strings.Repeat("I", e.Count), strings.Repeat("t", e.Transient)}, " ") + "\n")
		}
	}
	return b.String()
}

func times(entries []journal.Entry, kind journal.Kind) (out []time.Time) {
	for _, e := range entries {
		if e.Kind == kind {
			out = append(out, e.T)
		}
	}
	return out
}

func TestHearRefuses(t *testing.T) {
	if _, err := NewRecording(nil); err == nil {
		t.Error("a journal without a purchase was taken")
	}
	if _, err := NewRecording([]journal.Entry{{Kind: journal.Intent, Pool: "nowhere"}}); err == nil {
		t.Error("a pool that is none was taken")
	}
	if _, err := NewRecording([]journal.Entry{{Kind: journal.Launch, Token: "x"}}); err == nil || !strings.Contains(err.Error(), "nobody intended") {
		t.Errorf("a launch that nobody intended: %v", err)
	}
}
