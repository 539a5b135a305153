package bidding

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
)

// gamble is a job with a deadline on a market that a test draws: one machine, spot or on demand, in a world so simple that it shows every
// rule of Can't Be Late (NSDI 24, section 3.2).
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
	fleet  int // held candidate; -1 = none
	bought time.Time
	cost   float64 // in hours on demand

	// If saving takes time (job.SaveTime), unsaved work is lost with the machines.
	saved     time.Duration
	saveEvery time.Duration
	saveAt    time.Time // when the next checkpoint begins; zero = none does
	saveEnds  time.Time // when the current one ends; zero = there is none
	onDemand  int       // checkpoints taken there, except the last one

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

// run simulates to the end of the work, or until long after the deadline.
func (g *gamble) run() {
	for steps := 0; g.saved < g.total; steps++ {
		if steps > 100000 || g.now.After(g.job.Deadline.Add(100*time.Hour)) {
			g.t.Fatalf("at %s still %s to do", g.now.Sub(start), g.total-g.done)
		}
		g.market()
		until := g.now.Add(time.Hour)
		if again := g.ask(); !again.IsZero() && again.Before(until) {
			until = again
			if !again.After(g.now) { // saving took that long
				until = g.now.Add(time.Second)
			}
		}
		if len(g.next) > 0 && g.next[0].At.Before(until) {
			until = g.next[0].At
		}
		g.pass(until)
	}
}

// market makes spot machines come and go.
func (g *gamble) market() {
	for len(g.next) > 0 && !g.next[0].At.After(g.now) {
		if err := g.past.Add(market.AvailabilityPoint{At: g.now, Count: g.next[0].Count}); err != nil {
			g.t.Fatal(err)
		}
		g.next = g.next[1:]
	}
	if up, _ := g.past.At(g.now); up == 0 && g.fleet == gambleSpot {
		g.giveUp()
	}
}

// giveUp ends the fleet, and discards unsaved work.
func (g *gamble) giveUp() {
	g.fleet, g.done, g.saveAt, g.saveEnds = -1, g.saved, time.Time{}, time.Time{}
}

// ask carries out the policy's plan.
func (g *gamble) ask() time.Time {
	s := State{Now: g.now, Want: Want{Machines: 1}, Job: g.job, Pools: g.pools}
	s.Job.Done, s.Job.Saved = 8*g.done.Hours(), 8*g.saved.Hours()
	if g.fleet >= 0 {
		a := Allocation{Pool: g.pools[g.fleet].Pool, Count: 1, Launch: g.bought}
		if !g.now.Before(g.ready()) {
			a.Ready = 1
		}
		s.Held = []Allocation{a}
	}
	plan := Ask(g.policy, s)
	g.saveEvery = plan.SaveEvery
	if g.job.SaveEvery > 0 {
		g.saveEvery = g.job.SaveEvery
	}
	if len(plan.Release) > 0 && g.fleet >= 0 {
		g.part()
		if len(plan.Acquire) == 0 {
			return g.now.Add(time.Second) // their end is an event
		}
	}
	for _, a := range plan.Acquire {
		if a.Pool.Class == market.Spot {
			if up, known := g.past.At(g.now); known && up == 0 {
				if g.job.SaveTime > 0 {
					return g.now.Add(time.Second) // it was lost while the previous fleet saved
				}
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

// part saves before a fleet is given up, if it still exists.
func (g *gamble) part() {
	for end := g.now.Add(g.job.SaveTime); g.fleet >= 0 && g.now.Before(end) && g.done > g.saved; g.market() {
		until := end
		if len(g.next) > 0 && g.next[0].At.Before(until) {
			until = g.next[0].At
		}
		g.cost += g.price() * until.Sub(g.now).Hours()
		if g.now = until; until.Equal(end) {
			g.saved = g.done
		}
	}
	g.giveUp()
}

func (g *gamble) price() float64 {
	if g.fleet == gambleSpot {
		return 0.3
	}
	return 1
}

// pass advances time, at most until the work is done and saved.
func (g *gamble) pass(until time.Time) {
	for g.now.Before(until) && g.saved < g.total {
		g.pass1(until)
	}
}

// pass1 proceeds to the next event of the fleet.
func (g *gamble) pass1(until time.Time) {
	next := until
	by := func(t time.Time) {
		if t.After(g.now) && t.Before(next) {
			next = t
		}
	}
	works := g.fleet >= 0 && !g.now.Before(g.ready()) && g.saveEnds.IsZero()
	if g.fleet >= 0 {
		by(g.ready())
		by(g.saveEnds)
		if works && g.saveAt.IsZero() && g.saveEvery > 0 {
			g.saveAt = g.now.Add(g.saveEvery)
		}
	}
	if works {
		by(g.saveAt)
		by(g.now.Add(g.total - g.done))
		g.done += next.Sub(g.now)
	}
	if g.fleet >= 0 {
		g.cost += g.price() * next.Sub(g.now).Hours()
	}
	g.now = next
	switch {
	case works && g.job.SaveTime == 0:
		g.saved = g.done
	case works && (g.done >= g.total || g.now.Equal(g.saveAt)):
		g.saveEnds, g.saveAt = g.now.Add(g.job.SaveTime), time.Time{}
		if g.fleet == gambleOnDemand && g.done < g.total {
			g.onDemand++
		}
	case g.now.Equal(g.saveEnds):
		g.saved, g.saveEnds = g.done, time.Time{}
	}
}

// drawMarket returns when spot machines come and go.
func drawMarket(t *rapid.T, length time.Duration) (points []market.AvailabilityPoint) {
	at, up := start, rapid.IntRange(0, 1).Draw(t, "first")
	longest := rapid.SampledFrom([]int{5, 40, 400}).Draw(t, "longest")
	for at.Before(start.Add(length)) {
		points = append(points, market.AvailabilityPoint{At: at, Count: up})
		at, up = at.Add(time.Duration(rapid.IntRange(1, longest*60).Draw(t, "seconds"))*time.Second), 1-up
	}
	return points
}

// TestNoDeadlineIsMissed: whatever the market does, a deadline that can be met at the start is met, by both policies, whether saving takes
// time or not. The start must leave time for the work, a changeover, the last checkpoint and the margin.
func TestNoDeadlineIsMissed(t *testing.T) {
	known := NewStrategies()
	rapid.Check(t, func(t *rapid.T) {
		work := time.Duration(rapid.IntRange(1, 10).Draw(t, "work")) * time.Hour
		change := time.Duration(rapid.SampledFrom([]int{60, 360, 720, 1234}).Draw(t, "change")) * time.Second
		save := time.Duration(rapid.SampledFrom([]int{0, 0, 5, 30, 160, 400}).Draw(t, "save")) * time.Second
		slack := change + change/50 + 12*time.Second + save + time.Duration(rapid.IntRange(0, 600).Draw(t, "slack"))*30*time.Second
		every := time.Duration(0)
		if save > 0 && rapid.IntRange(0, 2).Draw(t, "own interval") == 0 {
			every = time.Duration(rapid.IntRange(1, 60).Draw(t, "every")) * time.Minute
			slack += (work/every + 1) * save
		}
		points := drawMarket(t, work+slack)
		*known = *NewStrategies() // another market of the same name
		for _, policy := range []Policy{UniformProgress{}, Deadline{Known: known}, SkyNomad{}} {
			g := newGamble(t, policy, work, slack, change, points)
			g.job.SaveTime, g.job.SaveEvery = save, every
			g.run()
			if g.now.After(g.job.Deadline) {
				t.Fatalf("%s is %s late; it bought %v", policy.Name(), g.now.Sub(g.job.Deadline), g.choices)
			}
			if most := (work + slack).Hours(); g.cost > most {
				t.Fatalf("%s cost %g hours on demand of %g", policy.Name(), g.cost, most)
			}
			if g.onDemand > 0 && every == 0 {
				t.Fatalf("%s took %d checkpoints on demand", policy.Name(), g.onDemand)
			}
		}
	})
}

// TestNoCheckpointsOnDemand: an on-demand fleet saves nothing before the end, so a deadline that leaves time only for that is met.
func TestNoCheckpointsOnDemand(t *testing.T) {
	const work, change, save = 8 * time.Hour, 5 * time.Minute, 20 * time.Second
	never := []market.AvailabilityPoint{{At: start, Count: 0}}
	for _, every := range []time.Duration{0, time.Hour} { // the policy's interval, and the job's own, which it uses
		slack := change + change/50 + 12*time.Second + save
		if every > 0 {
			slack += 9 * save
		}
		g := newGamble(t, Deadline{}, work, slack, change, never)
		g.job.SaveTime, g.job.SaveEvery = save, every
		g.run()
		if want := int(every.Hours()) * 7; g.now.After(g.job.Deadline) || g.onDemand != want {
			t.Errorf("every %s: done %s after the deadline, with %d checkpoints, want %d", every, g.now.Sub(g.job.Deadline), g.onDemand, want)
		}
	}
}

// TestSpotIsLeftInTime: spot machines whose loss would undo too much are replaced by on-demand ones at the last moment, without losing
// work.
func TestSpotIsLeftInTime(t *testing.T) {
	t.Run("bought while they work", func(t *testing.T) { spotIsLeftInTime(t, 0) })
	t.Run("with room for one fleet an hour", func(t *testing.T) { spotIsLeftInTime(t, market.Dollar*11/10) })
}

func spotIsLeftInTime(t *testing.T, perHour market.USD) {
	const work, change, save = 4 * time.Hour, 5 * time.Minute, time.Minute
	g := newGamble(t, Deadline{}, work, 2*time.Hour, change, []market.AvailabilityPoint{{At: start, Count: 1}})
	g.job.SaveTime, g.job.SaveEvery = save, 100*time.Hour // in effect never
	g.job.PerHour = perHour
	g.run()
	if len(g.choices) < 2 || perHour == 0 && g.choices[1] != "on-demand" || g.now.After(g.job.Deadline) {
		t.Errorf("done %s after the deadline by %v", g.now.Sub(g.job.Deadline), g.choices)
	}
	if changes := time.Duration(len(g.choices)); g.now.After(start.Add(work + changes*(change+save) + save)) {
		t.Errorf("done after %s and %d changeovers: something was done twice", g.now.Sub(start), changes)
	}
}

// The rules of Can't Be Late, section 5.2.2, in sequence on a market that shows them: 10 hours of work in 20, a changeover of 12 minutes.
func TestPaperUniformProgress(t *testing.T) {
	const work, slack, change = 10 * time.Hour, 10 * time.Hour, 12 * time.Minute
	at := func(minutes int, count int) market.AvailabilityPoint {
		return market.AvailabilityPoint{At: start.Add(time.Duration(minutes) * time.Minute), Count: count}
	}
	g := newGamble(t, UniformProgress{}, work, slack, change, []market.AvailabilityPoint{at(0, 0), at(60, 1), at(70, 0), at(300, 1)})
	g.run()
	// Idle and immediately behind: on demand; ahead by two changeovers after 12 min x 2 of lead and the changeover: idle, as there is no
	// spot; and so on until spot remains available.
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

// TestUniformProgressUsesPaidHours: billed by the second it leaves on demand for spot once it is ahead, after 48 minutes and 5 seconds;
// billed by the hour at the end of the hour.
func TestUniformProgressUsesPaidHours(t *testing.T) {
	for increment, want := range map[time.Duration]time.Duration{0: 49 * time.Minute, time.Hour: time.Hour} {
		g := newGamble(t, UniformProgress{}, 10*time.Hour, 10*time.Hour, 12*time.Minute,
			[]market.AvailabilityPoint{{At: start, Count: 0}, {At: start.Add(5 * time.Minute), Count: 1}})
		g.job.Terms.Increment = increment
		g.run()
		if left := g.bought.Sub(start); left > want || left < want-time.Minute || len(g.choices) != 2 {
			t.Errorf("billed by %s: on demand for %s, then %v", increment, left, g.choices)
		}
	}
}

// leavesOf records how much paid time on-demand machines have left when they are given up.
type leavesOf struct {
	Deadline
	paid *[]time.Duration
}

func (l leavesOf) Plan(s State) Plan {
	plan := l.Deadline.Plan(s)
	if len(plan.Release) > 0 && plan.Release[0].Pool.Class == market.OnDemand {
		*l.paid = append(*l.paid, time.Hour-s.Now.Sub(s.Held[0].Launch)%time.Hour)
	}
	return plan
}

// TestDeadlineSavesInPaidHours: machines billed by the hour are left while the preceding checkpoint still falls into paid time.
func TestDeadlineSavesInPaidHours(t *testing.T) {
	var paid []time.Duration
	const save = 4 * time.Minute
	for n := range 3 {
		from := start.Add(time.Duration(30+20*n) * time.Minute)
		g := newGamble(t, leavesOf{Deadline{}, &paid}, 10*time.Hour, 2*time.Hour, 12*time.Minute, []market.AvailabilityPoint{{At: start, Count: 0}, {At: from, Count: 1}})
		g.job.Terms.Increment, g.job.SaveTime = time.Hour, save
		g.run()
	}
	if len(paid) < 3 || slices.Min(paid) < save {
		t.Errorf("%d fleets are left, for which so much is paid: %s", len(paid), paid)
	}
}

// TestShortJobsDoNotPayTwice: for work that takes an hour on demand, spot machines are tried only if they cost half as much or less.
func TestShortJobsDoNotPayTwice(t *testing.T) {
	for price, want := range map[market.USD]string{4 * market.Dollar / 10: "spot", 6 * market.Dollar / 10: "on-demand"} {
		for _, policy := range []Policy{UniformProgress{}, Deadline{}, SkyNomad{}} {
			g := newGamble(t, policy, 30*time.Minute, 2*time.Hour, 5*time.Minute, []market.AvailabilityPoint{{At: start, Count: 1}})
			g.job.Terms.Increment = time.Hour
			g.pools[1].History = market.NewHistory([]market.PricePoint{{At: start.Add(-time.Hour), Price: price}})
			if g.run(); len(g.choices) != 1 || g.choices[0] != want {
				t.Errorf("%s at %s: %v, want %s", policy.Name(), price, g.choices, want)
			}
		}
	}
}

// TestDeadlineUnderABudget: on demand is not bought if the budget does not allow finishing there.
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
