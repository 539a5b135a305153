package bidding

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
)

// TestMetamorphicOfAll: no decision changes, under any policy, if all prices and the money spent are doubled, all times are shifted by
// days, the zones are renamed, a zone is duplicated, an undesirable pool is added, or no reasons are requested. A decision is what Ask
// makes of a policy's plan: including the promise, the end of the job and the hourly limit. `make metamorphic` tries 10,000 cases.
func TestMetamorphicOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := drawWeek(t, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)))
		drawn.Job.Undone = time.Duration(rapid.IntRange(0, 120).Draw(t, "minutes undone")) * time.Minute
		drawn.Job.Together = rapid.Bool().Draw(t, "together")
		spent := rapid.SampledFrom([]float64{0, 0.5, 0.9, 0.99, 0.999, 1.001, 1.01, 1.1, 2}).Draw(t, "spent")
		for _, p := range slices.Concat(policies, []Policy{RolledBack{Capacity{}}, RolledBack{CostPerWork{}}}) {
			s := billed(drawn, p, spent)
			want := decisions(s, Ask(p, s), nil)
			reasons := s
			reasons.StepsOnly = !s.StepsOnly
			for what, other := range map[string]State{
				"prices doubled":          dearer(s, 2),
				"three days later":        later(s, 72*time.Hour),
				"an absurd pool":          joined(s, absurd(s)),
				"a slow pool":             joined(s, slow(s)),
				"an unpriced pool":        joined(s, unpriced(s)),
				"a full pool":             joined(s, full(s)),
				"with or without reasons": reasons,
			} {
				if got := decisions(other, Ask(p, other), nil); got != want {
					t.Errorf("%s, %s: %s\nwas %s", p.Name(), what, got, want)
				}
			}
			names := map[string]string{"a": "z", "b": "y", "c": "x"}
			other := renamed(s, names)
			if got := decisions(other, Ask(p, other), map[string]string{"z": "a", "y": "b", "x": "c"}); got != want {
				t.Errorf("%s, zones renamed: %s\nwas %s", p.Name(), got, want)
			}
			if spreads := p.Name() == "capacity" || p.Name() == "cost-per-work" && s.Job.Terms.Increment == 0; spreads {
				continue // over zones: a second one is a second share
			}
			other = joined(s, twinOf(s))
			if got := decisions(other, Ask(p, other), nil); got != want {
				t.Errorf("%s, a zone twice: %s\nwas %s", p.Name(), got, want)
			}
		}
	})
}

// billed returns a state with spending: at a share of what the promise allows, if one is made, and growing with the held machines.
func billed(s State, p Policy, share float64) State {
	now, due := s.Now, 0.0
	if pr, promised := promiseOf(p, &s, s.Want); promised {
		due = max(pr.most-pr.rest, 0) * share
	}
	perHour := float64(s.rate())
	s.Due = func(at time.Time) market.USD { return market.USD(due + perHour*at.Sub(now).Hours()) }
	s.Begins = func(at time.Time) time.Time { return at.Add(time.Hour - at.Sub(now.Add(-40*time.Minute))%time.Hour) }
	return s
}

// drawWeek draws pools of three zones over more than a week, with all prices different, and machines held in one.
func drawWeek(t *rapid.T, random *rand.Rand) State {
	terms := rapid.SampledFrom([]string{"ec2-2017", "ec2-pay-bid", "ec2-now", "gce-spot"}).Draw(t, "rules")
	rules, err := market.Rules(terms)
	if err != nil {
		t.Fatal(err)
	}
	s := State{Now: start.Add(9 * 24 * time.Hour), StepsOnly: rapid.Bool().Draw(t, "steps only")}
	s.Want = rapid.SampledFrom([]Want{{Machines: 10}, {VCPU: 64}}).Draw(t, "want")
	work := 64 * float64(rapid.IntRange(1, 20).Draw(t, "hours"))
	s.Job = Job{
		Started: s.Now.Add(-time.Hour), Deadline: s.Now.Add(time.Duration(1+random.IntN(40)) * time.Hour), Work: work, Done: work * random.Float64(),
		Upkeep: 20 * market.Dollar / 1000, ReliableRate: 0.2, Startup: 5 * time.Minute, Notice: 2 * time.Minute, Handover: time.Minute,
		SaveTime: 20 * time.Second, Lag: 30 * time.Second, Leave: 2 * time.Minute, Terms: rules.Terms(),
	}
	s.Job.Saved = s.Job.Done * random.Float64()
	if random.IntN(3) == 0 {
		s.Job.PerHour = market.USD(1+random.IntN(12)) * market.Dollar / 2
	}
	if random.IntN(3) == 0 {
		s.Job.Spent = market.USD(random.IntN(100)) * market.Dollar
		s.Job.Budget = s.Job.Spent + market.USD(random.IntN(200))*market.Dollar
	}
	for _, zone := range []string{"a", "b", "c"} {
		for _, size := range []string{"2xlarge", "xlarge"} {
			var pairs []float64
			usual, restless := 0.1+0.4*random.Float64(), 0.3*random.Float64()
			for minute := 0.0; minute < 9*24*60; minute += 1 + 400*random.Float64() {
				price := usual * (1 + 0.1*random.Float64())
				if random.Float64() < restless {
					price *= 1 + 9*random.Float64()
				}
				pairs = append(pairs, minute, price)
			}
			c := pool(size, pairs...)
			c.Pool.Zone = zone
			s.Pools = append(s.Pools, c)
			if random.IntN(12) == 0 {
				n := 1 + random.IntN(10)
				s.Held = append(s.Held, Allocation{Pool: c.Pool, Bid: c.Type.OnDemand, Count: n, Ready: n,
					Launch: s.Now.Add(-time.Duration(1+random.IntN(300)) * time.Minute)})
			}
		}
	}
	if random.IntN(2) == 0 {
		for _, size := range []string{"2xlarge", "xlarge"} {
			c := pool(size)
			c.Pool.Zone, c.Pool.Class, c.History = "a", market.OnDemand, market.Constant(c.Type.OnDemand)
			if size == "2xlarge" {
				c.Type.OnDemand++ // otherwise its work costs as much
				c.History = market.Constant(c.Type.OnDemand)
			}
			s.Pools = append(s.Pools, c)
			if random.IntN(6) == 0 {
				n := 1 + random.IntN(10)
				s.Held = append(s.Held, Allocation{Pool: c.Pool, Count: n, Ready: random.IntN(n + 1), Launch: s.Now.Add(-time.Duration(random.IntN(200)) * time.Minute)})
			}
		}
	}
	return sorted(s)
}

func sorted(s State) State {
	s.Pools = slices.Clone(s.Pools)
	slices.SortFunc(s.Pools, func(a, b Candidate) int { return a.Pool.Compare(b.Pool) })
	s.Held = slices.Clone(s.Held)
	SortHeld(s.Held)
	return s
}

// decisions returns a plan's steps without prices and reasons, with the zones' original names, and for how long they are affordable.
func decisions(s State, p Plan, names map[string]string) string {
	var steps []string
	named := func(pool market.Pool) market.Pool {
		if name, ok := names[pool.Zone]; ok {
			pool.Zone = name
		}
		return pool
	}
	for _, a := range p.Acquire {
		steps = append(steps, fmt.Sprintf("acquire %d %s; ", a.Count, named(a.Pool)))
	}
	for _, r := range p.Release {
		steps = append(steps, fmt.Sprintf("release %d %s; ", r.Count, named(r.Pool)))
	}
	slices.Sort(steps)
	afforded := time.Duration(0)
	if !p.Afforded.IsZero() {
		afforded = p.Afforded.Sub(s.Now)
	}
	return fmt.Sprint(steps, p.Switch != nil, p.SaveEvery, afforded)
}

func dearer(s State, factor market.USD) State {
	other := transform(s, factor, 0)
	for _, money := range []*market.USD{&other.Job.Upkeep, &other.Job.Reliable, &other.Job.Budget, &other.Job.Spent, &other.Job.PerHour} {
		*money *= factor
	}
	other.Due = func(at time.Time) market.USD { return factor * s.Due(at) }
	return sorted(other)
}

func later(s State, by time.Duration) State {
	other := transform(s, 1, by)
	other.Job.Started, other.Job.Deadline = other.Job.Started.Add(by), other.Job.Deadline.Add(by)
	other.Due = func(at time.Time) market.USD { return s.Due(at.Add(-by)) }
	other.Begins = func(at time.Time) time.Time { return s.Begins(at.Add(-by)).Add(by) }
	return sorted(other)
}

func renamed(s State, names map[string]string) State {
	s = sorted(s)
	for i := range s.Pools {
		s.Pools[i].Pool.Zone = names[s.Pools[i].Pool.Zone]
	}
	for i := range s.Held {
		s.Held[i].Pool.Zone = names[s.Held[i].Pool.Zone]
	}
	return sorted(s)
}

func joined(s State, c Candidate) State {
	s.Pools = append(slices.Clone(s.Pools), c)
	return sorted(s)
}

// of returns the first spot pool, in another zone.
func of(s State, zone string) Candidate {
	c := s.Pools[slices.IndexFunc(s.Pools, func(c Candidate) bool { return !c.OnDemand() })]
	c.Pool.Zone = zone
	return c
}

// twinOf returns a pool with the prices of another, and after it in order.
func twinOf(s State) Candidate { return of(s, "zz") }

// absurd is calm, and costs a hundred times as much as others; on demand even more.
func absurd(s State) Candidate {
	c := of(s, "absurd")
	c.Pool.Type, c.Type.Name = "p9.metal", "p9.metal"
	c.Type.OnDemand *= 1000
	c.History = market.NewHistory([]market.PricePoint{{At: start, Price: 100 * types["xlarge"].OnDemand}})
	return c
}

// slow is absurd, and does a tenth of the work.
func slow(s State) Candidate {
	c := absurd(s)
	c.Type.Rate = c.Type.WorkRate() / 10
	return c
}

// unpriced returns a pool about which nothing is known.
func unpriced(s State) Candidate {
	c := of(s, "unpriced")
	c.History = market.NewHistory(nil)
	return c
}

// full is always dearer than its on-demand price.
func full(s State) Candidate {
	c := of(s, "full")
	c.History = market.NewHistory([]market.PricePoint{{At: start, Price: 2 * c.Type.OnDemand}})
	return c
}
