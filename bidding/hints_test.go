package bidding

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
)

func TestEvictionPrior(t *testing.T) {
	assumed := hazard.Assume("ec2", market.InstanceType{}).PerHour()
	told := func(value float64) Hint { return Hint{Value: value, At: start} }
	for _, c := range []struct {
		what  string
		hints Hints
		want  float64 // evictions per hour
	}{
		{"nothing", Hints{}, assumed},
		{"the advisor: half of the machines in a month", Hints{Interruptions: told(0.5)}, math.Ln2 / 730},
		{"the advisor: none", Hints{Interruptions: told(0)}, hazard.OfMonth(1e-4)},
		{"most run for an hour: that says nothing of how much longer", Hints{Uptime: told(1)}, assumed},
		{"most run for ten minutes, and not for an hour", Hints{Uptime: told(1.0 / 6)}, math.Ln2},
		{"nonsense", Hints{Interruptions: told(1.5), Uptime: told(-1)}, assumed},
	} {
		if got := EvictionPrior(&Candidate{Hints: c.hints}, market.Terms{Provider: "ec2"}).PerHour(); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %g evictions per hour, want %g", c.what, got, c.want)
		}
	}
}

// A score of 5 is one refusal for each successful launch, and is half forgotten after an hour; one of our own machines resets it.
func TestLaunchWait(t *testing.T) {
	h := Hints{Placement: Hint{Value: 5, At: start}}
	for _, c := range []struct {
		after time.Duration
		want  time.Duration
	}{{0, 5 * time.Minute}, {-time.Hour, 5 * time.Minute}, {time.Hour, 100 * time.Second}, {30 * time.Hour, 0}} {
		if got := h.launchWait(start.Add(c.after)); (got - c.want).Abs() > time.Millisecond {
			t.Errorf("%v later: %v, want %v", c.after, got, c.want)
		}
	}
	if got := (Hints{Placement: Hint{Value: 1, At: start}}).launchWait(start); (got - 45*time.Minute).Abs() > time.Millisecond {
		t.Errorf("a score of 1: %v", got)
	}
	h.Lifetimes = market.Lifetimes{Machines: 1, Newest: start.Add(time.Second)}
	if got := h.launchWait(start.Add(time.Minute)); got != 0 {
		t.Errorf("with a machine of our own: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		worse, better := rapid.Float64Range(0, 12).Draw(t, "score"), rapid.Float64Range(0, 12).Draw(t, "more")
		if worse > better {
			worse, better = better, worse
		}
		after := time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "after"))
		wait := func(score float64, after time.Duration) time.Duration {
			return Hints{Placement: Hint{Value: max(score, 0.01), At: start}}.launchWait(start.Add(after))
		}
		if wait(worse, after) < wait(better, after) || wait(worse, after) < wait(worse, after+time.Minute) || wait(worse, after) > 46*time.Minute {
			t.Errorf("%v of %v after %v, %v of %v", wait(worse, after), worse, after, wait(better, after), better)
		}
	})
}

// TestCapacityByPlacement: of two equal pools, the fleet begins in the one whose launches are likelier to succeed, and a slightly cheaper
// pool is passed over if its launches are not; an hour later it no longer is, and our own machines' lifetimes count more than either.
func TestCapacityByPlacement(t *testing.T) {
	first := func(s State) string {
		plan := Capacity{Spread: 1}.Plan(s)
		if len(plan.Acquire) == 0 {
			t.Fatalf("nothing is bought: %s", plan.Why)
		}
		return plan.Acquire[0].Pool.Zone
	}
	alike := capacityState(priced("xlarge", "a", 0.30), priced("xlarge", "b", 0.30))
	if got := first(alike); got != "a" {
		t.Errorf("without hints: %s", got)
	}
	alike.Pools[0].Hints.Placement, alike.Pools[1].Hints.Placement = Hint{Value: 3, At: alike.Now}, Hint{Value: 9, At: alike.Now}
	if got := first(alike); got != "b" {
		t.Errorf("by scores of 3 and 9: %s", got)
	}
	alike.Job.Upkeep = 0 // nothing costs money while launches are tried: the score still settles a tie
	if got := first(alike); got != "b" {
		t.Errorf("by scores of 3 and 9, without reliable machines: %s", got)
	}
	cheaper := capacityState(priced("xlarge", "a", 0.2995), priced("xlarge", "b", 0.30))
	often := Hint{Value: 1 - 1e-12, At: cheaper.Now} // once in 26 h
	cheaper.Pools[0].Hints.Interruptions, cheaper.Pools[1].Hints.Interruptions = often, often
	cheaper.Pools[0].Hints.Placement = Hint{Value: 1, At: cheaper.Now}
	if got := first(cheaper); got != "b" {
		t.Errorf("a little cheaper, and not to be had: %s", got)
	}
	cheaper.Now = cheaper.Now.Add(12 * time.Hour)
	if got := first(cheaper); got != "a" {
		t.Errorf("half a day later: %s", got)
	}
	cheaper.Pools[0].Hints.Uptime = Hint{Value: 1.0 / 6, At: cheaper.Now}
	if got := first(cheaper); got != "b" {
		t.Errorf("with machines that last ten minutes: %s", got)
	}
	cheaper.Pools[0].Hints.Lifetimes = market.Lifetimes{Machines: 200, Watched: 2000 * time.Hour, Newest: cheaper.Now}
	if got := first(cheaper); got != "a" {
		t.Errorf("of which our own have lasted: %s", got)
	}
}

// Where there are no bids, tierml prefers the pool that is reported to keep machines longer, if work costs about the same; where bids are
// made, prices show it.
func TestTierMLPrefersPoolsWithFewerReportedEvictions(t *testing.T) {
	for name, c := range map[string]struct {
		terms  market.Terms
		frail  float64 // share of the cheaper pool's machines that are interrupted in a month
		dearer float64
		want   string
	}{
		"frail":               {frail: 0.3, dearer: 1.05, want: "b"},
		"as good":             {frail: 0.051, dearer: 1.05, want: "a"},
		"much cheaper":        {frail: 0.3, dearer: 1.5, want: "a"},
		"bids are made":       {terms: market.Terms{MaxBid: 10}, frail: 0.3, dearer: 1.05, want: "a"},
		"nothing is reported": {dearer: 1.05, want: "a"},
	} {
		a, b := calmIn("xlarge", "a", 0.3), calmIn("xlarge", "b", 0.3*c.dearer)
		if c.frail > 0 {
			a.Hints.Interruptions, b.Hints.Interruptions = Hint{Value: c.frail, At: start}, Hint{Value: 0.05, At: start}
		}
		s := capacityState(a, b)
		s.Job.Terms = c.terms
		plan := TierML{}.Plan(s)
		if len(plan.Acquire) != 1 || plan.Acquire[0].Pool.Zone != c.want {
			t.Errorf("%s: buys %+v, want zone %s", name, plan.Acquire, c.want)
		}
	}
}
