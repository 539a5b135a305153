package bidding

import (
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// nearEnd returns a fleet of 64 machines in its last paid hour, beforeEnd before its end, with after machine hours of work left when
// the hour ends.
func nearEnd(t *testing.T, beforeEnd time.Duration, after float64) State {
	t.Helper()
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	c := calmIn("xlarge", "a", 0.3)
	s := capacityState(c)
	s.Want = Want{Machines: 64}
	s.Job = Job{Started: s.Now.Add(-9 * time.Hour), Work: 1e6, Startup: 5 * time.Minute, Leave: 2 * time.Minute, Notice: 2 * time.Minute,
		Terms: rules.Terms(), Upkeep: market.Dollar / 100}
	s.Held = []Allocation{{Pool: c.Pool, Bid: c.Type.OnDemand, Count: 64, Ready: 64, Launch: s.Now.Add(beforeEnd - 8*time.Hour)}}
	paid := (beforeEnd - s.Job.Leave).Hours() * 64
	s.Job.Done = s.Job.Work - (after+paid)*c.Type.WorkRate()*efficiency
	return s
}

// No more machines stay for another hour than the remaining work pays for.
func TestMachinesLeaveAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		before  time.Duration
		after   float64
		release int // of 64
		ask     bool
	}{
		"a tenth of an hour":  {before: 2 * time.Minute, after: 6.4, release: 64 - 21, ask: false}, // sqrt(6.4 x 64) = 20.2
		"nothing":             {before: 2 * time.Minute, after: -1, release: 64},
		"an hour":             {before: 2 * time.Minute, after: 64},
		"many hours":          {before: 2 * time.Minute, after: 640},
		"not yet":             {before: 30 * time.Minute, after: 6.4, ask: true},
		"not yet, and far":    {before: 30 * time.Minute, after: 640},
		"done long before it": {before: 30 * time.Minute, after: -20, ask: true},
	} {
		for _, p := range []Policy{TierML{}, TierML{NeverSwitch: true}, Capacity{}} {
			s := nearEnd(t, c.before, c.after)
			plan := Ask(p, s)
			released := 0
			for _, r := range plan.Release {
				if released += r.Count; r.Count == 0 {
					released += s.Held[0].Count
				}
			}
			if released != c.release || len(plan.Acquire) > 0 {
				t.Errorf("%s, %s: releases %d and acquires %d, want %d and none: %s", p.Name(), name, released, len(plan.Acquire), c.release, plan.Why)
			}
			if at := s.Now.Add(c.before - s.Job.Leave*5/4); c.ask != plan.AskAgain.Equal(at) && c.before > 3*time.Minute {
				t.Errorf("%s, %s: asks again at %s, want that at %s: %t", p.Name(), name, plan.AskAgain, at, c.ask)
			}
		}
	}
}

// Machines with the most expensive work leave first, whatever their zones are called.
func TestMostExpensiveLeaveFirstAtTheEnd(t *testing.T) {
	for _, zones := range [][2]string{{"a", "b"}, {"b", "a"}} {
		s := nearEnd(t, 2*time.Minute, 6.4) // of which 21 machines are kept
		held := s.Held[0]
		s.Pools, s.Held = nil, nil
		for i, zone := range zones {
			c := calmIn("xlarge", zone, 0.3+0.2*float64(i))
			h := held
			h.Pool, h.Count, h.Ready = c.Pool, 32, 32
			s.Pools, s.Held = append(s.Pools, c), append(s.Held, h)
		}
		plan := Ask(Capacity{}, sorted(s))
		released := map[string]int{}
		for _, r := range plan.Release {
			if released[r.Pool.Zone] = r.Count; r.Count == 0 {
				released[r.Pool.Zone] = 32
			}
		}
		if released[zones[0]] != 11 || released[zones[1]] != 32 {
			t.Errorf("zone %s is the cheaper: %v are given back: %s", zones[0], released, plan.Why)
		}
	}
}

// Near the end, losses are replaced only as far as the remaining work pays for; long before it, all are replaced.
func TestFewAreBoughtNearTheEnd(t *testing.T) {
	for after, want := range map[float64]int{-1: 0, 0.99: 8, 6.4: 21, 640: 64} {
		s := nearEnd(t, 30*time.Minute, after)
		s.Job.Done += (30*time.Minute - s.Job.Leave).Hours() * 64 * s.Pools[0].Type.WorkRate() * efficiency
		s.Held = nil
		bought := 0
		for _, a := range Ask(TierML{}, s).Acquire {
			bought += a.Count
		}
		if bought != want {
			t.Errorf("with %.1f machine hours left %d are bought, want %d", after, bought, want)
		}
	}
}

// The end is not planned for policies that handle it themselves, where seconds are billed, where the work is unknown, and where leaving
// takes long.
func TestEndsThatAreLeftAlone(t *testing.T) {
	s := nearEnd(t, 2*time.Minute, 1)
	for name, change := range map[string]func(*State) Policy{
		"cost-per-work": func(*State) Policy { return CostPerWork{} },
		"checkpoint":    func(*State) Policy { return Checkpoint{} },
		"by second":     func(s *State) Policy { s.Job.Terms = market.Terms{}; return TierML{} },
		"a beginning":   func(s *State) Policy { s.Job.Done = 0; return TierML{} },
		"unknown work":  func(s *State) Policy { s.Job.Work = 0; return TierML{} },
		"asked for":     func(s *State) Policy { s.Firm = true; return TierML{} },
		"a long leave":  func(s *State) Policy { s.Job.Leave = 10 * time.Minute; return TierML{} },
	} {
		one := s
		if _, decided := endOf(change(&one), &one); decided {
			t.Errorf("%s: its end is decided", name)
		}
	}
}

// A fleet that is paid for until the work is done is kept: an on-demand one when spot capacity returns, and one that another pool outlasts.
// A fleet that must be paid for again is left.
func TestPaidMachinesAreKept(t *testing.T) {
	onDemand := state(10, onDemandPool("xlarge"), pool("xlarge", 0, 2.0, nowMinute-6, 0.2))
	onDemand.Held = []Allocation{{Pool: onDemand.Pools[0].Pool, Count: 10, Ready: 10}}
	for name, s := range map[string]State{"on demand": onDemand, "another pool": switching()} {
		for _, c := range []struct {
			left     float64 // hours of the whole fleet
			switches bool
		}{{0.4, false}, {0.6, true}, {5, true}} {
			for _, done := range []float64{0, 1e6} {
				s.Held[0].Launch = s.Now.Add(-30 * time.Minute)
				s.Job = Job{Done: done, Work: done + c.left*10*s.Pools[0].Type.WorkRate(), Terms: market.Terms{Increment: time.Hour}, Leave: time.Minute, Startup: time.Minute}
				if plan := Ask(TierML{}, s); (plan.Switch != nil) != c.switches {
					t.Errorf("%s, %g hours left after %g: switches %t: %s", name, c.left, done, plan.Switch != nil, plan.Why)
				}
			}
		}
	}
}
