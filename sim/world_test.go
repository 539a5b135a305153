package sim

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

var start = time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)

const cent = market.Dollar / 100

func spot(kind string) market.Pool {
	return market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: kind, Class: market.Spot}
}

// candidate returns a pool with prices in cents at hours since the start; the first has applied for ten days.
func candidate(kind string, vcpu int, onDemand market.USD, hourCents ...float64) bidding.Candidate {
	points := []market.PricePoint{{At: start.Add(-240 * time.Hour), Price: market.USD(hourCents[1]) * cent}}
	for i := 0; i+1 < len(hourCents); i += 2 {
		points = append(points, market.PricePoint{
			At: start.Add(time.Duration(hourCents[i] * float64(time.Hour))), Price: market.USD(hourCents[i+1] * float64(cent)),
		})
	}
	return bidding.Candidate{Pool: spot(kind), Type: market.InstanceType{Name: kind, VCPU: vcpu, OnDemand: onDemand},
		History: market.NewHistory(points)}
}

// scenario is four machines of "a" or "b" along with a reliable one, and three hours of work for the four.
func scenario(t testing.TB, pools ...bidding.Candidate) Config {
	t.Helper()
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	onDemand := market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "a", Class: market.OnDemand}
	slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Pool.Compare(b.Pool) })
	policy, err := bidding.ByName("tierml")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Name: "test", Seed: 1, Start: start, Policy: policy, Rules: rules, Want: bidding.Want{Machines: 4}, Pools: pools,
		Job:      Workload{Clocks: 180, Splits: 16, Partitions: 4, Work: 3 * 3600 * 16 * 1000},
		Reliable: elasticity.Reliable{Pool: onDemand, Type: market.InstanceType{Name: "a", VCPU: 4, OnDemand: 24 * cent}, Count: 1},
		Stages:   tiers.Thresholds{TwoAbove: 1, ThreeAbove: 3}, FLOPSPerVCPU: 1000, Horizon: 48 * time.Hour,
	}.At(tempo.Remote(2 * time.Minute))
}

func run(t testing.TB, cfg Config) (Result, []journal.Entry) {
	t.Helper()
	var entries []journal.Entry
	cfg.Record = func(e journal.Entry) { entries = append(entries, e) }
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, entries
}

func text(t testing.TB, entries []journal.Entry) string {
	t.Helper()
	var b strings.Builder
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func count(entries []journal.Entry, kind journal.Kind) (n int) {
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func a() bidding.Candidate { return candidate("a", 4, 24*cent, 0, 5) }
func b() bidding.Candidate { return candidate("b", 8, 48*cent, 0, 40) }

// crossing is pool a, whose price exceeds every bid from 1.5 h to 2.5 h.
func crossing() bidding.Candidate { return candidate("a", 4, 24*cent, 0, 5, 1.5, 100, 2.5, 5) }

// TestWaitingEnds: a price of 2 cents for ten days is 6 when the job starts, a quarter of on demand, and after ten hours exceeds on demand.
// cost-per-work waits for the old price, but accepts the new one before its waiting time is used up: then nothing cheaper is left.
func TestWaitingEnds(t *testing.T) {
	cfg := scenario(t, candidate("a", 4, 24*cent, -239, 2, 0, 6, 10, 100))
	cfg.Policy, cfg.Reliable.Type.OnDemand = bidding.CostPerWork{}, cent
	r, entries := run(t, cfg)
	if !r.Finished() || r.Runtime < 4*time.Hour || r.Runtime > 12*time.Hour {
		t.Errorf("%+v", r)
	}
	for _, e := range entries {
		if e.Kind == journal.Intent && e.Tier == "transient" && e.Pool != spot("a").String() {
			t.Errorf("bought in %s: %s", e.Pool, e.Why)
		}
	}
}

// never returns a pool that nobody buys in.
func never() bidding.Candidate { return candidate("never", 4, 24*cent, 0, 100) }

// TestCalm: three hours of work on four machines at a constant price. Each machine pays its started hours at that price. Six minutes of
// work are left when the third hour ends: two machines do them.
func TestCalm(t *testing.T) {
	r, entries := run(t, scenario(t, a()))
	if !r.Finished() || r.Evictions != 0 || r.Machines != 5 || r.Clocks != 180 {
		t.Fatalf("%+v", r)
	}
	// 5 min until the reliable machine works and 5 more until the others do, less some seconds of delays; they do not wait for the four
	// times longer clock that it began alone.
	if r.Runtime < 3*time.Hour+9*time.Minute || r.Runtime > 3*time.Hour+15*time.Minute {
		t.Errorf("it took %s", r.Runtime)
	}
	if want := 4*24*cent + (4*3+2)*5*cent; r.Cost != want {
		t.Errorf("it cost %s, by the rule book %s", r.Cost, want)
	}
	var charged market.USD
	for _, e := range entries {
		if e.Kind == journal.Charge {
			usd, err := market.ParseUSD(e.USD)
			if err != nil {
				t.Fatal(err)
			}
			charged += usd
		}
	}
	if charged != r.Cost {
		t.Errorf("the journal's charges come to %s, the ledger to %s", charged, r.Cost)
	}
}

// TestPreemptible: GCE's preemptible machines are reclaimed after 24 hours, with 30 seconds of notice, however calm the market is; Spot
// VMs stay.
func TestPreemptible(t *testing.T) {
	for name, evictions := range map[string]int{"gce-preemptible": 4, "gce-spot": 0} {
		cfg := scenario(t, a())
		cfg.Job.Work *= 9 // 27 hours on four machines
		var err error
		if cfg.Rules, err = market.Rules(name); err != nil {
			t.Fatal(err)
		}
		cfg = cfg.At(tempo.Remote(cfg.Rules.Terms().Notice))
		r, entries := run(t, cfg)
		if !r.Finished() || r.Evictions != evictions || r.Lost > 1 {
			t.Errorf("%s: %+v", name, r)
		}
		launched := map[string]time.Time{}
		for _, e := range entries {
			if e.Kind == journal.Launch {
				launched[e.Instance] = *e.Launched
			}
			if e.Kind == journal.Evicted && e.Ended.Sub(launched[e.Instance]).Round(time.Second) != 24*time.Hour {
				t.Errorf("%s: %s was taken back after %s", name, e.Instance, e.Ended.Sub(launched[e.Instance]))
			}
		}
	}
}

// TestCrossing: the price takes all spot machines; the reliable one continues alone, and others join once the price has fallen.
func TestCrossing(t *testing.T) {
	r, entries := run(t, scenario(t, crossing()))
	if !r.Finished() || r.Evictions != 4 || r.Machines != 9 || r.Clocks != 180 {
		t.Fatalf("%+v", r)
	}
	if r.Lost != 0 {
		t.Errorf("%d clocks were lost, though the notice was long enough", r.Lost)
	}
	var stages []string
	for _, e := range entries {
		if e.Kind == journal.Stage {
			stages = append(stages, e.To)
		}
		if e.Kind == journal.Notice && (e.T.Sub(start) < 90*time.Minute || e.T.Sub(start) > 91*time.Minute) {
			t.Errorf("notice at %s", e.T)
		}
		if e.Kind == journal.Evicted && (!e.Ended.Equal(start.Add(92*time.Minute)) || e.EndedBy != "provider") {
			t.Errorf("evicted: %+v", e)
		}
	}
	if want := []string{"1", "3", "1", "3", "2"}; !slices.Equal(stages, want) {
		t.Errorf("stages %v, want %v", stages, want)
	}
	if calm, _ := run(t, scenario(t, a())); r.Runtime <= calm.Runtime {
		t.Errorf("it took %s, undisturbed %s", r.Runtime, calm.Runtime)
	}
}

// TestKilledWithoutNotice: work since the last cut is repeated.
func TestKilledWithoutNotice(t *testing.T) {
	cfg := scenario(t, a())
	cfg.Faults = []Fault{{At: 80 * time.Minute, Do: Kill}}
	r, entries := run(t, cfg)
	if !r.Finished() || r.Rollbacks != 1 || r.Lost == 0 || r.Clocks != 180 {
		t.Fatalf("%+v", r)
	}
	again := 0
	for _, e := range entries {
		if e.Kind == journal.ClockDone && e.Redone {
			again++
		}
	}
	if int64(again) != r.Lost {
		t.Errorf("%d clocks were lost and %d done again", r.Lost, again)
	}
}

// TestWorkerAlone: a machine that serves nothing dies; its splits continue where they were.
func TestWorkerAlone(t *testing.T) {
	cfg := scenario(t, a())
	cfg.Faults = []Fault{{At: 80 * time.Minute, Do: EvictNow, Target: "newest"}}
	r, _ := run(t, cfg)
	if !r.Finished() || r.Rollbacks != 0 || r.Evictions != 1 || r.Machines != 6 {
		t.Fatalf("%+v", r)
	}
}

// TestCoarse: the length of clocks does not matter if they can be handed over midway.
func TestCoarse(t *testing.T) {
	cfg := scenario(t, crossing())
	cfg.Job.Coarse = true
	fine := cfg
	fine.Job.Clocks *= 10
	r1, _ := run(t, cfg)
	r2, _ := run(t, fine)
	if d := r1.Runtime - r2.Runtime; !r1.Finished() || d.Abs() > 90*time.Second {
		t.Errorf("clocks of a minute: %s, of 6 seconds: %s", r1.Runtime, r2.Runtime)
	}
}

func TestCapacity(t *testing.T) {
	cfg := scenario(t, a(), b())
	cfg.Capacity = map[market.Pool]int{spot("a"): 3, spot("b"): 0}
	r, entries := run(t, cfg)
	if !r.Finished() || r.Machines != 4 || count(entries, journal.LaunchFailed) == 0 {
		t.Fatalf("%+v, %d launches failed", r, count(entries, journal.LaunchFailed))
	}
	cfg = scenario(t, a())
	cfg.Faults = []Fault{{At: 0, Do: NoCapacity, Of: "ra", For: time.Hour}}
	_, entries = run(t, cfg)
	for _, e := range entries {
		if e.Kind == journal.Launch && e.Tier == "transient" && e.T.Before(start.Add(time.Hour)) {
			t.Errorf("bought at %s, when there was no capacity", e.T)
		}
	}
}

func TestSameInputsSameJournal(t *testing.T) {
	journalOf := func(seed uint64) string {
		cfg := scenario(t, crossing(), b())
		cfg.Seed = seed
		cfg.Faults = []Fault{{At: 50 * time.Minute, Do: Kill, Target: "random"}}
		_, entries := run(t, cfg)
		return text(t, entries[1:]) // the first line names the seed
	}
	first := journalOf(1)
	for range 3 {
		if journalOf(1) != first {
			t.Fatal("two runs of the same inputs differ")
		}
	}
	differs := false
	for seed := range uint64(8) {
		differs = differs || journalOf(seed+2) != first
	}
	if !differs {
		t.Error("the seed changes nothing")
	}
}

// TestDoubled: with all prices doubled, the decisions and their times are the same, and the cost doubles.
func TestDoubled(t *testing.T) {
	double := func(c bidding.Candidate) bidding.Candidate {
		points := slices.Clone(c.History.Points(time.Time{}, start.Add(1000*time.Hour)))
		for i := range points {
			points[i].Price *= 2
		}
		c.History, c.Type.OnDemand = market.NewHistory(points), 2*c.Type.OnDemand
		return c
	}
	once := scenario(t, crossing(), b())
	twice := scenario(t, double(crossing()), double(b()))
	twice.Reliable.Type.OnDemand *= 2
	r1, e1 := run(t, once)
	r2, e2 := run(t, twice)
	if r2.Cost != 2*r1.Cost {
		t.Errorf("costs %s and, doubled, %s", r1.Cost, r2.Cost)
	}
	if got, want := text(t, withoutMoney(e2)), text(t, withoutMoney(e1)); got != want {
		t.Errorf("doubled:\n%s\nonce:\n%s", got, want)
	}
}

func withoutMoney(entries []journal.Entry) []journal.Entry {
	var out []journal.Entry
	for _, e := range entries {
		e.USD, e.Bid, e.Details, e.Why = "", "", nil, "" // reasons name prices
		out = append(out, e)
	}
	return out
}

// TestExtraPool: a pool in which nothing is bought changes only what is reported about it.
func TestExtraPool(t *testing.T) {
	r1, e1 := run(t, scenario(t, crossing(), b()))
	r2, e2 := run(t, scenario(t, crossing(), b(), never()))
	if r1 != r2 {
		t.Errorf("without %+v\nwith %+v", r1, r2)
	}
	others := func(entries []journal.Entry) []journal.Entry {
		for i := range entries {
			if entries[i].Kind == journal.Intent {
				entries[i].Details = nil // what else was available
			}
		}
		return slices.DeleteFunc(entries, func(e journal.Entry) bool {
			return e.Kind == journal.Start || strings.Contains(e.Pool, "/never/")
		})
	}
	if got, want := text(t, others(e2)), text(t, others(e1)); got != want {
		t.Errorf("with:\n%s\nwithout:\n%s", got, want)
	}
}

// TestShifted: everything a day later gives the same journal, a day later.
func TestShifted(t *testing.T) {
	const day = 24 * time.Hour
	late := scenario(t, crossing(), b())
	late.Start = late.Start.Add(day)
	for i, c := range late.Pools {
		points := slices.Clone(c.History.Points(time.Time{}, start.Add(1000*time.Hour)))
		for j := range points {
			points[j].At = points[j].At.Add(day)
		}
		late.Pools[i].History = market.NewHistory(points)
	}
	_, e1 := run(t, scenario(t, crossing(), b()))
	_, e2 := run(t, late)
	moment := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	shifted := moment.ReplaceAllStringFunc(text(t, e1), func(s string) string {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return at.Add(day).Format(time.RFC3339Nano)
	})
	if got := text(t, e2); got != shifted {
		t.Errorf("a day later:\n%s\nwant:\n%s", got, shifted)
	}
}

// TestHorizon: an impossible run is given up in time, and its cost until then is known.
func TestHorizon(t *testing.T) {
	cfg := scenario(t, never())
	cfg.Horizon = 2 * time.Hour
	r, _ := run(t, cfg)
	if r.Finished() || r.Runtime < 2*time.Hour || r.Runtime > 2*time.Hour+5*time.Minute || r.Cost != 2*24*cent {
		t.Errorf("%+v", r) // the reliable machine was launched five seconds after the start
	}
}

func TestRefused(t *testing.T) {
	cfg := scenario(t, a())
	cfg.Job.Work = 0
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "has no work") {
		t.Errorf("error %v", err)
	}
	unknown := a()
	unknown.Type.VCPU = 0
	if _, err := Run(scenario(t, unknown)); err == nil || !strings.Contains(err.Error(), "vCPUs of a are unknown") {
		t.Errorf("error %v", err)
	}
	unsaved := scenario(t, a())
	unsaved.Reliable.Count = 0
	if _, err := Run(unsaved); err == nil || !strings.Contains(err.Error(), "needs checkpoints to go back to") {
		t.Errorf("error %v", err)
	}
}

func TestQueueOrder(t *testing.T) {
	var q queue
	var got []string
	put := func(at time.Duration, r rank, name string) { q.push(at, r, func() { got = append(got, name) }) }
	put(2, prices, "later price")
	put(1, wakeUps, "wake")
	put(1, answers, "answer")
	put(1, prices, "price")
	put(1, notices, "notice")
	put(1, answers, "second answer")
	put(0, wakeUps, "first")
	for !q.empty() {
		_, _, next := q.pop()
		next.happen()
	}
	if want := "first,price,notice,answer,second answer,wake,later price"; strings.Join(got, ",") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestClocksTakeLongerWithMoreMachines: each machine lengthens every clock by its part.
func TestClocksTakeLongerWithMoreMachines(t *testing.T) {
	length := func(machines int) time.Duration {
		cfg := scenario(t, a())
		cfg.Want.Machines, cfg.Timing.Clock, cfg.Job.Work = machines, 10*time.Second, 1e6
		_, entries := run(t, cfg)
		var last []time.Time
		for _, e := range entries {
			if e.Kind == journal.ClockDone && e.Transient == machines {
				last = append(last, e.T)
			}
		}
		return last[len(last)-1].Sub(last[len(last)-2]).Round(time.Second)
	}
	// Machines of the reliable tier do not compute from stage 3 on, at 4 to 1.
	if four, eight := length(4), length(8); four != 40*time.Second || eight != 80*time.Second {
		t.Errorf("a clock takes %s with 4 machines and %s with 8", four, eight)
	}
}
