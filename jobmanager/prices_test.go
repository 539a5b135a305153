package jobmanager

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sched/grants"
	"github.com/tierml/tierml/sim/jobs"
)

// twin is the scheduler of a dry run. At each of its plans it writes the events there into journals as real runs would, makes the job
// manager's code read them, and compares: the same state gives the same grants.
type twin struct {
	t      *testing.T
	pool   bidding.Candidate
	supply supply
	jobs   map[string]*twinJob
	bought int
	up     map[string]bool // hosts that were seen working
	last   grants.Decision
	plans  int
	priced int // plans with a grant whose reason names dollars
	back   int // hosts that are released, as they are not worth their price
}

// twinJob is a job in both worlds.
type twinJob struct {
	asked   grants.Asked
	is      *progress
	workers int // since the last plan
	done    float64
	bought  int
	live    []string
}

func (*twin) Name() string { return "twin" }

// Plan returns the dry run's plan.
func (m *twin) Plan(s sched.State) sched.Plan {
	now := time.Unix(0, int64(s.Now*1e9)).UTC()
	price, _ := m.pool.History.At(now)
	entry := func(e journal.Entry) journal.Entry { e.T = now; return e }
	for id := range m.supply.there {
		switch works := slices.ContainsFunc(s.Hosts, func(h sched.Host) bool { return h.ID == id }); {
		case works:
			m.up[id] = true
		case m.up[id]:
			m.supply.take(entry(journal.Entry{Kind: journal.Evicted, Instance: id}))
		}
	}
	for ; len(m.supply.there) < len(s.Market.Held); m.bought++ {
		m.supply.take(entry(journal.Entry{Kind: journal.Launch, Instance: fmt.Sprintf("m%05d", m.bought), Tier: "transient", Pool: m.pool.Pool.String()}))
	}
	m.supply.take(entry(journal.Entry{Kind: journal.Price, Pool: m.pool.Pool.String(), USD: price.String()}))
	slots := grants.Slots{Hosts: s.Hosts, There: len(s.Hosts), Market: m.supply.costs.market(m.supply.there, now, clock.Mapping{Wall: now, Market: now, Speed: 1})}
	var all []grants.Claim
	s.Jobs = slices.Clone(s.Jobs)
	for i, j := range s.Jobs {
		s.Jobs[i].Done = math.Floor(j.Done) // runs count whole clocks
		m.jobs[j.ID].happen(entry, j, price/market.USD(m.pool.Type.VCPU))
		m.jobs[j.ID].resize(entry, j.Workers) // without those on lost hosts
		all = append(all, m.jobs[j.ID].job(s.Jobs[i]))
	}
	var others grants.Others
	for _, j := range s.Past {
		others.Over = append(others.Over, grants.Over(j.ID, j.Arrived, m.jobs[j.ID].asked.Feedback, j.Rungs))
	}
	var saw sched.State
	m.last.Policy = "twin"
	grants.Decide(watch{&saw}, now, slots, all, others, m.last)
	m.same(s, saw)
	live := grants.Decide(sched.EarlyFeedback{}, now, slots, all, others, m.last)
	plan := sched.EarlyFeedback{}.Plan(s)
	if worth := s.Market.Want(plan.Supply); live.Worth != worth || !slices.Equal(live.Leave, s.Market.TooMany(worth, s.Now)) {
		m.t.Errorf("second %g: %d slots are worth their price in the dry run, and in the job server %d, where %v leave", s.Now, worth, live.Worth, live.Leave)
	}
	for _, host := range live.Leave { // the dry run's fleet releases machines by itself, at the end of their paid time
		m.supply.take(entry(journal.Entry{Kind: journal.Release, Instance: host}))
		m.back++
	}
	left := sched.EarlyFeedback{}.Plan(without(s, live.Leave)) // in the dry run jobs are resized as these hosts leave
	for i, g := range left.Grants {
		if l := live.Grants[i]; l.Job != g.Job || l.Action != g.Action || l.Workers != g.Workers || l.Why != g.Why {
			m.t.Errorf("second %g: the dry run grants %+v, and the job server %+v", s.Now, g, l)
		}
		if strings.Contains(g.Why, "$") {
			m.priced++
		}
	}
	for _, g := range plan.Grants {
		m.jobs[g.Job].resize(entry, g.Workers)
	}
	m.last = live
	m.plans++
	return plan
}

// without returns a state without some hosts and their slots.
func without(s sched.State, hosts []string) sched.State {
	gone := func(host string) bool { return slices.Contains(hosts, host) }
	s.Hosts = slices.DeleteFunc(slices.Clone(s.Hosts), func(h sched.Host) bool { return gone(h.ID) })
	s.Jobs = slices.Clone(s.Jobs)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		j.Where = slices.DeleteFunc(slices.Clone(j.Where), func(p sched.Place) bool { return gone(p.Host) })
		if j.Workers = 0; len(j.Where) == 0 && (j.Phase == sched.Training || j.Phase == sched.Feedback) {
			j.Phase = sched.Queued
		}
		for _, p := range j.Where {
			j.Workers += p.Workers
		}
	}
	return s
}

// watch is a policy that records the state and changes nothing.
type watch struct{ saw *sched.State }

func (watch) Name() string                    { return "twin" }
func (w watch) Plan(s sched.State) sched.Plan { *w.saw = s; return sched.Plan{} }

// same compares the states that feedback uses.
func (m *twin) same(dry, live sched.State) {
	exact := func(m sched.Market) sched.Market {
		m.Held = slices.Clone(m.Held)
		for i := range m.Held {
			m.Held[i].Paid = math.Round(m.Held[i].Paid * 1e3)
		}
		return m
	}
	if !reflect.DeepEqual(exact(*dry.Market), exact(*live.Market)) {
		m.t.Errorf("second %g: market %+v in the dry run, %+v in the job server", dry.Now, dry.Market, live.Market)
	}
	for i := range dry.Jobs {
		a, b := dry.Jobs[i], live.Jobs[i]
		for _, j := range []*sched.Job{&a, &b} {
			j.Spent = math.Round(j.Spent * 1e9)
			j.Pace = slices.SortedFunc(slices.Values(j.Pace), func(x, y sched.Measured) int { return x.Workers - y.Workers })
			for k := range j.Pace {
				j.Pace[k].Speed = math.Round(j.Pace[k].Speed * 1e9)
			}
			if len(j.Rungs) == 0 {
				j.Loss = 0 // it has none
			}
			j.Rungs, j.Where = append([]float64{}, j.Rungs...), append([]sched.Place{}, j.Where...)
		}
		if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
			m.t.Errorf("second %g:\n%+v in the dry run\n%+v in the job server", dry.Now, a, b)
		}
	}
}

// happen records what the job has done since the last plan: clocks with this many workers, at a price per slot.
func (j *twinJob) happen(entry func(journal.Entry) journal.Entry, now sched.Job, price market.USD) {
	begin := j.is.paid.at
	end := entry(journal.Entry{}).T
	seconds := end.Sub(begin).Seconds() / (now.Done - j.done)
	for n := math.Floor(j.done) + 1; n <= now.Done; n++ {
		e := journal.Entry{Kind: journal.ClockDone, Clock: int64(n), Transient: j.workers, Seconds: seconds, TestLoss: &now.Loss}
		e.T = begin.Add(time.Duration((n - j.done) * seconds * float64(time.Second)))
		j.is.take(e)
	}
	j.done = now.Done
	j.is.take(entry(journal.Entry{Kind: journal.Price, Pool: "slot", USD: price.String()}))
}

// resize adds and removes slots.
func (j *twinJob) resize(entry func(journal.Entry) journal.Entry, workers int) {
	for ; len(j.live) < workers; j.bought++ {
		j.live = append(j.live, fmt.Sprint("slot-", j.bought))
		j.is.take(entry(journal.Entry{Kind: journal.Launch, Instance: j.live[len(j.live)-1], Tier: "transient", Pool: "slot"}))
	}
	for ; len(j.live) > workers; j.live = j.live[1:] {
		j.is.take(entry(journal.Entry{Kind: journal.Terminated, Instance: j.live[0]}))
	}
	j.workers = workers
}

// job returns the job manager's view of the job, for a decision.
func (j *twinJob) job(now sched.Job) grants.Claim {
	j.is.is.Pace, j.is.is.Spent = j.is.pace(), j.is.paid.spent
	return grants.Claim{ID: now.ID, Arrived: now.Arrived, Asked: j.asked, Progress: j.is.is, Began: j.bought > 0, Held: now.Workers, Where: now.Where, Told: now.Workers}
}

// steady buys what is wanted in one pool.
type steady struct{ bidding.OnDemand }

func (steady) Plan(s bidding.State) (p bidding.Plan) {
	held := 0
	for _, h := range s.Held {
		held += h.Count
	}
	if n := (s.Want.VCPU+3)/4 - held; n > 0 {
		p.Acquire = append(p.Acquire, bidding.Acquire{Pool: s.Pools[0].Pool, Bid: 10 * market.Dollar, Count: n})
	}
	return p
}

// The job server decides as the dry run does: two trials, one with a budget, on hosts that are bought as prices fall and released as they
// rise.
func TestTheServerDecidesAsTheDryRun(t *testing.T) {
	began := time.Unix(0, 0).UTC()
	kind := market.InstanceType{Name: "c.x", VCPU: 4, MemoryMiB: 4, OnDemand: 2 * market.Dollar / 5}
	var points []market.PricePoint
	for minute, cents := range map[int]market.USD{-60: 40, 20: 8, 60: 36, 90: 4} {
		points = append(points, market.PricePoint{At: began.Add(time.Duration(minute) * time.Minute), Price: cents * market.Dollar / 100})
	}
	slices.SortFunc(points, func(a, b market.PricePoint) int { return a.At.Compare(b.At) })
	pool := bidding.Candidate{Pool: market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: kind.Name, Class: market.Spot}, Type: kind, History: market.NewHistory(points)}
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	m := &twin{t: t, pool: pool, jobs: map[string]*twinJob{}, up: map[string]bool{}, supply: supply{sizes: map[string]sched.Resources{kind.Name: {4}}, there: map[string]sched.Resources{},
		costs: newSlotPrices([]bidding.Candidate{pool}, 32)}}
	m.supply.costs.bought, m.supply.costs.look = rules.Terms().Increment, 300
	cfg := jobs.Config{Policy: m, Market: &jobs.Market{Start: began, Pools: []bidding.Candidate{pool}, Policy: steady{}, Rules: rules, Most: 32, AskEvery: 5 * time.Minute,
		OnDemand: jobs.Offer{Pool: pool.Pool, Type: kind}}}
	for i, id := range []string{"a", "b"} {
		budget := float64(i) / 4
		m.jobs[id] = &twinJob{is: &progress{at: []int64{30}, seconds: map[int][]float64{}, live: map[string]string{}, paid: spending{price: map[string]float64{}}},
			asked: grants.Asked{Least: 1, Most: 16, Start: 4, Unit: sched.Resources{1}, Clocks: 3000, Budget: budget, Feedback: grants.Feedback{Sweep: "s", At: []int64{30}, Trials: 2}}}
		cfg.Jobs = append(cfg.Jobs, jobs.Script{ID: id, Sweep: "s/", Arrives: 600 * float64(i), Demand: sched.Resources{1}, Workers: 4, LeastWorkers: 1, MostWorkers: 16,
			Clock: sched.Fit{32, 2}, Feedback: 30, Total: 3000, Loss: .1 + .1*float64(i), Budget: budget})
	}
	r, err := jobs.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if m.plans < 10 || m.priced == 0 || m.back == 0 || r.GivenUp {
		t.Errorf("%d plans, %d grants by dollars, %d hosts given back, given up %t", m.plans, m.priced, m.back, r.GivenUp)
	}
}
