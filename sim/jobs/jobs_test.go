package jobs

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sched"
)

var began = time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)

func cluster(count, vcpus int) (hosts []sched.Host) {
	for i := range count {
		hosts = append(hosts, sched.Host{ID: fmt.Sprintf("h%03d", i), Capacity: sched.Resources{float64(vcpus)}})
	}
	return hosts
}

// work returns a job of this many units, which takes seconds with all; more units do not help.
func work(id string, arrives, seconds float64, units int) Script {
	return Script{ID: id, Arrives: arrives, Demand: sched.Resources{1}, Workers: units, MostWorkers: units, LeastWorkers: units, Clock: sched.Fit{float64(units) * seconds / 10}, Total: 10}
}

// steady buys what is wanted in one pool at a fixed bid.
type steady struct {
	bid  market.USD
	pool market.Pool
}

func (s steady) Name() string { return "steady" }

func (s steady) Plan(state bidding.State) (p bidding.Plan) {
	held, each := 0, state.Pools[0].Type.VCPU
	for _, a := range state.Held {
		if !a.Draining {
			held += a.Count * each
		}
	}
	if missing := (state.Want.VCPU - held + each - 1) / each; missing > 0 {
		p.Acquire = []bidding.Acquire{{Pool: s.pool, Bid: s.bid, Count: missing, Why: "wanted"}}
	}
	return p
}

// onePool returns a market with a pool of machines of 4 vCPUs whose price changes at some minutes.
func onePool(t *testing.T, rules string, minutes map[int]float64) *Market {
	t.Helper()
	book, err := market.Rules(rules)
	if err != nil {
		t.Fatal(err)
	}
	pool := market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: "c.x", Class: market.Spot}
	points := []market.PricePoint{{At: began.Add(-time.Hour), Price: market.Dollar / 10}}
	for m := range 10_000 {
		if price, changes := minutes[m]; changes {
			points = append(points, market.PricePoint{At: began.Add(time.Duration(m) * time.Minute), Price: market.USD(price * float64(market.Dollar))})
		}
	}
	return &Market{Start: began, Pools: []bidding.Candidate{{Pool: pool, Type: market.InstanceType{Name: "c.x", VCPU: 4, OnDemand: market.Dollar / 2}, History: market.NewHistory(points)}},
		Policy: steady{market.Dollar / 2, pool}, Rules: book, Most: 100, AskEvery: 5 * time.Minute}
}

// Jobs of 4 units each on machines of 4, as long as the price is within the bid: hours are paid in advance, the hour in which the provider
// takes a machine back is free, and earlier work counts.
func TestBillsAndEvictions(t *testing.T) {
	cfg := Config{Policy: sched.DRF{}, Jobs: []Script{work("a", 0, 90*60, 4)}, Market: onePool(t, "ec2-2017", map[int]float64{})}
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.End != 90*60 || r.Bill.Machines != 1 || r.Bill.Transient != market.Dollar/5 || math.Abs(r.Bill.VCPUHours-6) > 1e-9 {
		t.Errorf("calm: ends at %v, %+v", r.End, r.Bill)
	}
	// At minute 70 the price exceeds the bid for 40 minutes: 70 minutes are done; the second hour is free. Then 20 minutes more.
	cfg.Market = onePool(t, "ec2-2017", map[int]float64{70: 2, 110: .2})
	if r, err = Run(cfg); err != nil {
		t.Fatal(err)
	}
	if r.End != 130*60 || r.Bill.Machines != 2 || r.Bill.Evictions != 1 || r.Bill.Transient != market.Dollar/10+market.Dollar/5 || r.Outcomes[0].Evicted != 1 {
		t.Errorf("with an eviction: ends at %v, %+v", r.End, r.Bill)
	}
	s := Sum(&cfg, &r)
	if want := 90 * 60.; s.Mean != 130*60 || s.LeastMean != want {
		t.Errorf("mean %v, at least %v, want %v", s.Mean, s.LeastMean, want)
	}
	// A vCPU hour costs at least 2.5 cents, and the job needs 6.
	if math.Abs(dollars(s.LeastDollars)-.15) > 1e-6 {
		t.Errorf("it cannot cost less than %v", s.LeastDollars)
	}
	cfg.Market.Policy, cfg.Market.OnDemand = nil, Offer{Type: market.InstanceType{VCPU: 4, OnDemand: market.Dollar / 2}}
	if r, err = Run(cfg); err != nil || r.End != 90*60 || r.Bill.Transient != market.Dollar || r.Bill.Evictions != 0 {
		t.Errorf("on demand: ends at %v, %+v, %v", r.End, r.Bill, err)
	}
}

// A surplus machine is released when its paid hour ends, not before, and a new job does not buy another meanwhile.
func TestPaidHoursAreUsed(t *testing.T) {
	cfg := Config{Policy: sched.FIFO{}, Jobs: []Script{work("a", 0, 600, 4), work("b", 1800, 600, 4), work("c", 7200, 600, 4)}, Market: onePool(t, "ec2-2017", nil)}
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Bill.Machines != 2 || r.Bill.Transient != market.Dollar/5 || math.Abs(r.Bill.VCPUHours-4*(3570+600.)/3600) > 1e-6 {
		t.Errorf("%+v", r.Bill)
	}
}

// With PlanEvery, events shortly after a plan wait for the next.
func TestPlansAreApart(t *testing.T) {
	cfg := Config{Policy: sched.FIFO{}, Hosts: cluster(4, 4), PlanEvery: 60, Jobs: []Script{work("a", 0, 600, 4), work("b", 10, 600, 4), work("c", 20, 600, 4)}}
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcomes[0].Began != 0 || r.Outcomes[1].Began != 60 || r.Outcomes[2].Began != 60 || r.Plans != 4 {
		t.Errorf("%d plans, %+v", r.Plans, r.Outcomes)
	}
}

// A job that loses a machine continues with the others; in a gang it waits for all.
func TestLosses(t *testing.T) {
	job := work("a", 0, 3600, 8)
	job.LeastWorkers = 1
	for _, gang := range []bool{false, true} {
		m := onePool(t, "ec2-now", map[int]float64{})
		other := m.Pools[0]
		other.Pool.Zone = "us-east-1b"
		other.History = market.NewHistory([]market.PricePoint{{At: began.Add(-time.Hour), Price: market.Dollar / 10}, {At: began.Add(30 * time.Minute), Price: market.Dollar}})
		m.Pools = append(m.Pools, other)
		m.Policy = both{}
		r, err := Run(Config{Policy: sched.FIFO{}, Jobs: []Script{job}, Market: m, Gang: gang, Horizon: 4 * 3600})
		if err != nil {
			t.Fatal(err)
		}
		// Half an hour with 8 workers, then with 4: 30 + 60 minutes; the gang waits for 8, which it never gets.
		if got := r.Outcomes[0]; gang != r.GivenUp || !gang && got.Ended != 90*60 || got.Evicted != 1 {
			t.Errorf("gang %v: %+v", gang, got)
		}
	}
}

// both buys one machine in each pool at the start.
type both struct{}

func (both) Name() string { return "both" }

func (both) Plan(s bidding.State) (p bidding.Plan) {
	if s.Now.Equal(began) {
		for _, c := range s.Pools {
			p.Acquire = append(p.Acquire, bidding.Acquire{Pool: c.Pool, Bid: market.Dollar / 2, Count: 1, Why: "the first"})
		}
	}
	return p
}

// No schedule is better than the bounds, for every scheduler on random jobs; equal configurations give equal results.
func TestBoundsHold(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 9))
		var all []Script
		at := 0.
		for i := range 12 {
			at += 600 * r.ExpFloat64()
			j := Script{ID: fmt.Sprintf("j%02d", i), Arrives: at, Demand: sched.Resources{1}, Workers: 1 + r.IntN(6), Clock: sched.Fit{1 + 20*r.Float64(), r.Float64()},
				Feedback: 20, Total: 100, Loss: r.Float64()}
			j.MostWorkers = j.Workers + r.IntN(8)
			if r.IntN(2) == 0 {
				j.Servers, j.Clock[2] = 1+r.IntN(3), r.Float64()
			}
			all = append(all, j)
		}
		for _, name := range sched.Names() {
			policy, err := sched.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Jobs: all, Policy: policy, Hosts: cluster(4, 4), Known: true, Costs: Costs{Start: 1, Resize: 2, Resume: 2}, Seed: seed}
			result, err := Run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			s := Sum(&cfg, &result)
			if s.Mean < s.LeastMean || s.Feedback < s.LeastBack || s.Used > 1+1e-9 {
				t.Errorf("seed %d, %s: %+v", seed, name, s)
			}
			again, err := Run(cfg)
			if err != nil || fmt.Sprintf("%+v", Sum(&cfg, &again)) != fmt.Sprintf("%+v", s) {
				t.Errorf("seed %d, %s: another result the second time: %v", seed, name, err)
			}
		}
	}
}

// Shortest first, compared with every order of small cases that all arrive at 0.
func TestShortestFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		var work []portion
		for range 1 + r.IntN(5) {
			work = append(work, portion{0, float64(1 + r.IntN(9))})
		}
		least := math.Inf(1)
		permute(len(work), func(order []int) {
			now, sum := 0., 0.
			for _, i := range order {
				now += work[i].left
				sum += now
			}
			least = min(least, sum)
		})
		if got := shortestFirst(slices.Clone(work)); math.Abs(got-least) > 1e-9 {
			t.Fatalf("%v: %v, want %v", work, got, least)
		}
	}
	// A long job is postponed for a short one that arrives later: 10 s and 1 s from second 2 end at 11 and 3.
	if got := shortestFirst([]portion{{0, 10}, {2, 1}}); got != 12 {
		t.Error(got)
	}
}

func permute(n int, f func([]int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var place func(int)
	place = func(k int) {
		if k == n {
			f(order)
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			place(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	place(0)
}

func TestReadArrivals(t *testing.T) {
	philly, err := ReadArrivals(strings.NewReader("vc,arrival_s,num_gpus\nb,7,2\na,0,1\n"))
	if err != nil || !reflect.DeepEqual(philly, []Arrival{{"a", 0, 1, 0}, {"b", 7, 2, 0}}) {
		t.Errorf("%v, %v", philly, err)
	}
	alibaba, err := ReadArrivals(strings.NewReader("name,num_gpu,pod_phase,creation_time,deletion_time,scheduled_time\n" +
		"x,2,Succeeded,10,120,20\ny,1,Running,0,500,0\nz,1,Pending,30,40,\nw,0,Failed,5,9,6\n"))
	if err != nil || !reflect.DeepEqual(alibaba, []Arrival{{"", 5, 1, 3}, {"", 10, 2, 100}}) {
		t.Errorf("%v, %v", alibaba, err)
	}
	times, err := ReadRuntimes(strings.NewReader("runtime_s,num_gpus\n100,1\n0,1\n30,4\n"))
	if err != nil || !reflect.DeepEqual(times, []Runtime{{100, 1}, {30, 4}}) {
		t.Errorf("%v, %v", times, err)
	}
	for text, want := range map[string]string{
		"":                              "empty",
		"a,b\n":                         "neither Philly's",
		"vc,arrival_s,num_gpus\na,x,1":  `line 2: arrival_s is "x"`,
		"vc,arrival_s,num_gpus\na,1,-1": `line 2: num_gpus is "-1"`,
		"vc,arrival_s,num_gpus\na,1\n":  "wrong number of fields",
	} {
		if _, err := ReadArrivals(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadRuntimes(strings.NewReader("runtime\n0\n")); err == nil {
		t.Error("no run time above 0 is an error")
	}
}

// Run times are drawn from jobs of the same size, and never longer than requested.
func TestTraced(t *testing.T) {
	tr := Traced{Arrivals: []Arrival{{"", 100, 2, 0}, {"", 160, 1, 50}}, Slot: 1, Serial: .2, Stretch: 3, Longest: 500}
	for i := range 20 {
		tr.Runtimes = append(tr.Runtimes, Runtime{1000, 1 + i%2})
	}
	all, err := tr.Jobs(3)
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(j Script, workers int) float64 { return j.Clock.Seconds(workers, 0) * j.Total }
	if a, b := all[0], all[1]; math.Abs(seconds(a, 2)-500) > 1e-6 || math.Abs(seconds(a, 4)-300) > 1e-6 || a.MostWorkers != 6 || a.Arrives != 0 || b.Arrives != 60 ||
		math.Abs(seconds(b, 1)-50) > 1e-6 {
		t.Errorf("%+v", all)
	}
	if _, err := (&Traced{Arrivals: tr.Arrivals, Slot: 1}).Jobs(1); err == nil {
		t.Error("without run times")
	}
}

// A study's cells do not depend on the order of computation, and have intervals.
func TestStudy(t *testing.T) {
	s := Study{Schedulers: []string{"fifo", "h"}, Runs: 3, Seed: 5, Sweep: true, Resize: 46, Restart: 370,
		Draw:   func(seed uint64) ([]Script, error) { s := EPS(180); s.Trials = 12; return s.Jobs(seed), nil },
		Buyers: []Buyer{{Name: "fixed", Hosts: cluster(10, 4)}}}
	cells, err := s.Run(context.Background(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2 || cells[1].Scheduler != "h" || !(cells[1].Feedback.Mean < cells[0].Feedback.Mean) || !(cells[0].Completion.Half > 0) || !math.IsNaN(cells[0].Dollars.Mean) {
		t.Errorf("%+v", cells)
	}
	text, err := cells[0].Dollars.MarshalJSON()
	if err != nil || string(text) != "null" {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := Scheduler("asha", false); err == nil {
		t.Error("asha for jobs that are to end")
	}
}

// Student's t with 2 degrees of freedom is 4.303.
func TestFigureOf(t *testing.T) {
	if f := FigureOf([]float64{1, 2, 3}); f.Mean != 2 || math.Abs(f.Half-4.303/math.Sqrt(3)) > 1e-3 {
		t.Errorf("%+v", f)
	}
}

// Every trial ends, finished or stopped; a scheduler that considers deadlines meets more.
func TestEveryJobIsCounted(t *testing.T) {
	s := Study{Schedulers: []string{"asha", "h", "marginal", "deadline"}, Runs: 2, Sweep: true, Slacks: []float64{1.5, 6},
		Draw:   func(seed uint64) ([]Script, error) { s := EPS(600); s.Trials = 20; return s.Jobs(seed), nil },
		Buyers: []Buyer{{Name: "fixed", Hosts: cluster(10, 4)}}}
	cells, err := s.Run(context.Background(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cells {
		if c.Finished.Mean+c.Stopped.Mean != 20 || c.Left.Mean != 0 || (c.Stopped.Mean > 0) != (i < 2) || c.Stopped.Mean > 0 && c.Ended.Mean > c.Completion.Mean {
			t.Errorf("%s: %+v", c.Scheduler, c)
		}
	}
	if marginal, deadline := cells[2], cells[3]; deadline.Met.Mean <= marginal.Met.Mean {
		t.Errorf("in time: %v by deadline, %v by marginal", deadline.Met, marginal.Met)
	}
}

// The fixed cluster's size is the mean of the one that followed the jobs.
func TestFixedAtTheMean(t *testing.T) {
	m := onePool(t, "ec2-2017", nil)
	s := Study{Draw: func(uint64) ([]Script, error) { return []Script{work("a", 0, 7000, 4), work("b", 0, 3500, 4)}, nil }}
	buyer := Buyer{Market: m, Starts: []time.Time{began}, Mean: true}
	cfg, err := s.config("drf", &buyer, 0)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Market.Most != cfg.Market.Least || cfg.Market.Most < 5 || cfg.Market.Most > 7 || m.Least != 0 {
		t.Errorf("%+v", cfg.Market)
	}
}
