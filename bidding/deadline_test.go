package bidding

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
)

// gamble is a job with a deadline on a market that a test draws: one machine, spot or on demand, in a world so simple
// that every rule of Can't Be Late (NSDI 24, section 3.2) can be seen in it.
type gamble struct {
	t      rapid.TB
	policy Policy
	past   *market.Availability // up to now
	next   []market.AvailabilityPoint
	pools  []Candidate

	now    time.Time
	job    Job
	total  time.Duration
	done   time.Duration
	fleet  int // candidate that is held; -1 = none
	bought time.Time
	cost   float64 // in hours on demand

	choices []string
}

const gambleOnDemand, gambleSpot = 0, 1 // candidates, sorted by pool

func newGamble(t rapid.TB, policy Policy, work, slack, change time.Duration, next []market.AvailabilityPoint) *gamble {
	kind := market.InstanceType{Name: "p3.2xlarge", VCPU: 8, OnDemand: market.Dollar}
	p := market.Pool{Provider: "ec2", Region: "us-west-2", Zone: "us-west-2a", Type: kind.Name, Class: market.OnDemand}
	g := &gamble{t: t, policy: policy, now: start, next: next, fleet: -1, total: work}
	g.job = Job{Started: start, Deadline: start.Add(work + slack), Work: 8 * work.Hours(), Startup: change}
	var err error
	if g.past, err = market.NewAvailability(nil, time.Time{}); err != nil {
		t.Fatal(err)
	}
	demand := Candidate{Pool: p, Type: kind, History: market.Constant(kind.OnDemand)}
	p.Class = market.Spot
	spot := Candidate{Pool: p, Type: kind, Availability: g.past,
		History: market.NewHistory([]market.PricePoint{{At: start.Add(-time.Hour), Price: 3 * market.Dollar / 10}})}
	g.pools = []Candidate{demand, spot}
	return g
}

func (g *gamble) ready() time.Time { return g.bought.Add(g.job.Startup) }

// run plays to the end of the work, or until long after the deadline.
func (g *gamble) run() {
	for steps := 0; g.done < g.total; steps++ {
		if steps > 100000 || g.now.After(g.job.Deadline.Add(100*time.Hour)) {
			g.t.Fatalf("at %s still %s to do", g.now.Sub(start), g.total-g.done)
		}
		for len(g.next) > 0 && !g.next[0].At.After(g.now) {
			if err := g.past.Tell(market.AvailabilityPoint{At: g.now, Count: g.next[0].Count}); err != nil {
				g.t.Fatal(err)
			}
			g.next = g.next[1:]
		}
		if up, _ := g.past.At(g.now); up == 0 && g.fleet == gambleSpot {
			g.fleet = -1
		}
		again := g.ask()
		until := g.now.Add(time.Hour)
		if len(g.next) > 0 && g.next[0].At.Before(until) {
			until = g.next[0].At
		}
		if again.After(g.now) && again.Before(until) {
			until = again
		}
		g.pass(until)
	}
}

// ask does what the policy wants.
func (g *gamble) ask() time.Time {
	s := State{Now: g.now, Want: Want{Machines: 1}, Job: g.job, Pools: g.pools}
	s.Job.Done = 8 * g.done.Hours()
	if g.fleet >= 0 {
		a := Allocation{Pool: g.pools[g.fleet].Pool, Count: 1, Launch: g.bought}
		if !g.now.Before(g.ready()) {
			a.Ready = 1
		}
		s.Held = []Allocation{a}
	}
	plan := g.policy.Plan(s)
	for range plan.Release {
		g.fleet = -1
	}
	for _, a := range plan.Acquire {
		if a.Pool.Class == market.Spot {
			if up, known := g.past.At(g.now); known && up == 0 {
				g.t.Fatalf("at %s it buys spot that cannot be had", g.now.Sub(start))
			}
		}
		for i := range g.pools {
			if g.pools[i].Pool == a.Pool {
				g.fleet, g.bought = i, g.now
			}
		}
		g.choices = append(g.choices, string(a.Pool.Class))
	}
	return plan.AskAgain
}

// pass lets time pass, or until the work is done.
func (g *gamble) pass(until time.Time) {
	if g.fleet >= 0 {
		price := 1.0
		if g.fleet == gambleSpot {
			price = 0.3
		}
		works := g.now
		if g.ready().After(works) {
			works = g.ready()
		}
		if works.Before(until) {
			if d := until.Sub(works); d >= g.total-g.done {
				until = works.Add(g.total - g.done)
			}
			g.done += until.Sub(works)
		}
		g.cost += price * until.Sub(g.now).Hours()
	}
	g.now = until
}

// drawMarket gives when spot machines come and go.
func drawMarket(t *rapid.T, length time.Duration) (points []market.AvailabilityPoint) {
	at, up := start, rapid.IntRange(0, 1).Draw(t, "first")
	longest := rapid.SampledFrom([]int{5, 40, 400}).Draw(t, "longest")
	for at.Before(start.Add(length)) {
		points = append(points, market.AvailabilityPoint{At: at, Count: up})
		at, up = at.Add(time.Duration(rapid.IntRange(1, longest*60).Draw(t, "seconds"))*time.Second), 1-up
	}
	return points
}

// TestNoDeadlineIsMissed: whatever the market does, a deadline that can be met at the start is met, by both policies. What
// is needed at the start is the work, a changeover and the margin.
func TestNoDeadlineIsMissed(t *testing.T) {
	known := NewStrategies()
	rapid.Check(t, func(t *rapid.T) {
		work := time.Duration(rapid.IntRange(1, 10).Draw(t, "work")) * time.Hour
		change := time.Duration(rapid.SampledFrom([]int{60, 360, 720, 1234}).Draw(t, "change")) * time.Second
		slack := change + change/50 + 11*time.Second + time.Duration(rapid.IntRange(0, 600).Draw(t, "slack"))*30*time.Second
		points := drawMarket(t, work+slack)
		*known = *NewStrategies() // another market of the same name
		for _, policy := range []Policy{UniformProgress{}, Deadline{Known: known}} {
			g := newGamble(t, policy, work, slack, change, points)
			g.run()
			if g.now.After(g.job.Deadline) {
				t.Fatalf("%s is %s late; it bought %v", policy.Name(), g.now.Sub(g.job.Deadline), g.choices)
			}
			if most := (work + slack).Hours(); g.cost > most {
				t.Fatalf("%s cost %g hours on demand of %g", policy.Name(), g.cost, most)
			}
		}
	})
}

// The rules of Can't Be Late, section 5.2.2, one after the other on a market that shows them: 10 hours of work in 20, a
// changeover of 12 minutes.
func TestPaperUniformProgress(t *testing.T) {
	const work, slack, change = 10 * time.Hour, 10 * time.Hour, 12 * time.Minute
	at := func(minutes int, count int) market.AvailabilityPoint {
		return market.AvailabilityPoint{At: start.Add(time.Duration(minutes) * time.Minute), Count: count}
	}
	g := newGamble(t, UniformProgress{}, work, slack, change, []market.AvailabilityPoint{at(0, 0), at(60, 1), at(70, 0), at(300, 1)})
	g.run()
	// Idle and behind at once: on demand; ahead by two changeovers after 12 min x 2 of lead and the changeover: idle, as
	// there is no spot; and so on until spot comes to stay.
	if len(g.choices) < 4 || g.choices[0] != "on-demand" || g.choices[len(g.choices)-1] != "spot" {
		t.Errorf("bought %v", g.choices)
	}
	onDemandOnly := newGamble(t, UniformProgress{}, work, change+30*time.Second, change, []market.AvailabilityPoint{at(0, 1)})
	onDemandOnly.run()
	if len(onDemandOnly.choices) != 1 || onDemandOnly.choices[0] != "on-demand" {
		t.Errorf("safety net: with less than two changeovers to spare it bought %v", onDemandOnly.choices)
	}
	always := newGamble(t, UniformProgress{}, work, slack, change, []market.AvailabilityPoint{at(0, 1)})
	always.run()
	if len(always.choices) != 1 || always.choices[0] != "spot" {
		t.Errorf("exploitation: spot that stays is kept: bought %v", always.choices)
	}
	if want := 0.3 * (work + change).Hours(); always.cost < want-0.01 || always.cost > want+0.01 {
		t.Errorf("it cost %g hours on demand, want %g", always.cost, want)
	}
}

// TestDeadlineUnderABudget: on demand is not bought when the budget does not allow to finish there.
func TestDeadlineUnderABudget(t *testing.T) {
	never := []market.AvailabilityPoint{{At: start, Count: 0}, {At: start.Add(9 * time.Hour), Count: 1}}
	g := newGamble(t, Deadline{}, 4*time.Hour, 2*time.Hour, 6*time.Minute, never)
	g.job.Budget = 2 * market.Dollar // 4 hours cost 4
	g.run()
	if len(g.choices) != 1 || g.choices[0] != "spot" {
		t.Errorf("bought %v", g.choices)
	}
	g = newGamble(t, Deadline{}, 4*time.Hour, 2*time.Hour, 6*time.Minute, never)
	g.job.Budget = 5 * market.Dollar
	g.run()
	if g.now.After(g.job.Deadline) || g.choices[0] != "on-demand" {
		t.Errorf("done %s after the start by %v", g.now.Sub(start), g.choices)
	}
}
