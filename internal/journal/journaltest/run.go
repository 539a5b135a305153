// Package journaltest makes journals of plausible runs, for the tests of journal readers: reliable and transient machines, fluctuating
// prices, growth to stage 3, a proactive switch, a warned bulk eviction, a kill without warning with its roll-back, and an orderly end.
//
// It is a story and not a simulation: it knows no rule book, policy or protocol.
package journaltest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// The pools of the story.
const (
	ReliablePool = "ec2/us-west-1/us-west-1a/c3.xlarge/on-demand"
	FirstPool    = "ec2/us-west-1/us-west-1a/c3.xlarge/spot"
	BetterPool   = "ec2/us-west-1/us-west-1a/c3.2xlarge/spot"
	OtherPool    = "ec2/us-west-1/us-west-1c/c3.large/spot"
)

// Speed is how many market seconds a wall-clock second has in the story.
const Speed = 600

// Began is the story's first instant.
var Began = time.Date(2014, 5, 1, 12, 0, 0, 0, time.UTC)

// Story is a run: its journal, and what the provider knows about its machines.
type Story struct {
	Entries  []journal.Entry
	Machines []Machine // as launched
}

// Machine is a machine's life in the provider's books.
type Machine struct {
	ID, Tier, Pool, Bid string
	Launched, Ended     time.Time
	EndedBy             string
}

// tick is the story's step: a tenth of a wall-clock second.
const tick = Speed * time.Second / 10

type teller struct {
	rand  *rand.Rand
	now   time.Time
	story Story
	live  []int // indexes of machines that take part, reliable first
	token int

	stage     string
	clock     int64
	highest   int64
	sinceWall float64 // wall-clock seconds since the last clock
	progress  float64 // of the current clock, in floating-point operations
	price     map[string]float64
	calm      map[string]float64
}

// workPerClock is the work of a clock; one machine does it in 1.5 wall-clock seconds.
const (
	workPerClock = 60e6
	flops        = 40e6
)

// New makes the story; the seed determines the prices, names and losses.
func New(seed uint64) Story {
	t := &teller{rand: rand.New(rand.NewPCG(seed, 0)), now: Began, price: map[string]float64{}}
	t.calm = map[string]float64{FirstPool: 0.0324, BetterPool: 0.0662, OtherPool: 0.0171}
	t.open(seed)
	script := map[int]func(){ // by tick
		1:   func() { t.buy("reliable", ReliablePool, "", 1, "the job wants 1 reliable machine") },
		5:   func() { t.buy("transient", FirstPool, "0.239", 17, "17 transient machines wanted, none held") },
		12:  func() { t.join(0, 1); t.setStage("1", "the first machines") },
		20:  func() { t.join(1, 9); t.setStage("2", "ratio 8:1 above 1:1") },
		26:  func() { t.join(9, 18); t.setStage("3", "ratio 17:1 above 15:1") },
		200: func() { t.switchPool() },
		212: func() { t.join(18, 27) },
		220: func() { t.endPool(FirstPool, "released: its paid hour ends", "user") },
		300: func() { t.decline() },
		380: func() { t.spike(BetterPool) },
		381: func() {
			t.write(journal.Entry{Kind: journal.Flush, Clock: t.clock, Bytes: 2097152, Seconds: 3.8,
				Why: "everything begun is flushed: 0.20 s of work and 2.1 MB in 0.08 s fit into the 3.80 s left; nothing is given up"})
		},
		388: func() { t.leaveAll(BetterPool) },
		420: func() { t.endPool(BetterPool, "price 0.742 above bid 0.478", "provider") },
		440: func() { t.buy("transient", FirstPool, "0.239", 17, "17 transient machines wanted, none held") },
		455: func() { t.join(27, 44); t.setStage("3", "ratio 17:1 above 15:1") },
		500: func() {
			t.scale("68 vCPUs of workers, the stage's servers", "68 vCPUs of workers, 8 servers", 0, "tierml scale")
		},
		502: func() {
			t.scale("68 vCPUs of workers, 8 servers", "68 vCPUs of workers, 8 servers", 1.6, "everything is as requested")
		},
		510: func() {
			t.write(journal.Entry{Kind: journal.Budget, To: journal.Warned, USD: "16.2", Clock: t.clock, Why: "$16.20 of the budget of $20.00 are spent"})
		},
		590: func() {
			t.write(journal.Entry{Kind: journal.Silence, To: journal.Waiting, Count: 17, Why: "17 of 18 machines have fallen silent together: this host is too busy, or its network is down. " +
				"Until they are heard, or for 300 s, no machine is given up for silence and nothing is bought"})
		},
		591: func() {
			t.write(journal.Entry{Kind: journal.Silence, To: journal.Heard, Why: "most machines are no longer silent, after another 4.2 s: 0 of 18 are"})
		},
		592: func() {
			t.write(journal.Entry{Kind: journal.Provider, To: journal.Waiting, Why: "listing machines: not allowed: ExpiredToken: The security token included in the request is expired (log in again); " +
				"still paid for: i-00000001"})
		},
		593: func() { t.write(journal.Entry{Kind: journal.Provider, To: journal.Heard}) },
		600: func() { t.kill(30) },
	}
	for i := 1; i < 800; i++ {
		t.now = Began.Add(time.Duration(i) * tick)
		t.wander(i)
		if act, ok := script[i]; ok {
			act()
		}
		t.train()
	}
	t.close()
	return t.story
}

func (t *teller) write(e journal.Entry) {
	e.T = t.now
	t.story.Entries = append(t.story.Entries, e)
}

func (t *teller) open(seed uint64) {
	start := journal.StartDetails{
		Version: "0.1.0", Name: "demo", Seed: seed, Rules: "ec2-2017", Cloud: "local", App: "mf", Metric: "rmse",
		Clock: fmt.Sprintf("%s@2026-11-21T09:00:00Z*%d", Began.Format(time.RFC3339), Speed), Clocks: 400, ClocksPerEpoch: 10,
		Splits: 64, Partitions: 32,
		Machines: []journal.MachineType{
			{Name: "c3.large", VCPU: 2, MemoryMiB: 3840, OnDemand: "0.12", FLOPS: flops / 2},
			{Name: "c3.xlarge", VCPU: 4, MemoryMiB: 7680, OnDemand: "0.239", FLOPS: flops},
			{Name: "c3.2xlarge", VCPU: 8, MemoryMiB: 15360, OnDemand: "0.478", FLOPS: 2 * flops},
		},
		Reliable: journal.Fleet{Pool: ReliablePool, Count: 1}, Pools: []string{FirstPool, BetterPool, OtherPool},
		Want: journal.Want{VCPU: 68}, OrphanAfter: 6000,
		Thresholds: journal.Thresholds{Stage2Ratio: 1, Stage3Ratio: 15, SwitchFactor: 1.5, SwitchAfter: 300},
	}
	plan := journal.PlanDetails{
		Policy: "mttf",
		Pools: []journal.PlanPool{
			{Pool: FirstPool, Price: "0.0324", OnDemand: "0.239", Saving: 0.864, Bid: "0.239", MTTF: 11160, Count: 17, Chosen: true, Why: "least cost per vCPU"},
			{Pool: BetterPool, Price: "0.0662", OnDemand: "0.478", Saving: 0.862, Bid: "0.478", MTTF: 9000, Count: 9, Why: "shorter MTTF"},
			{Pool: OtherPool, Price: "0.0171", OnDemand: "0.12", Saving: 0.857, Bid: "0.12", MTTF: 7200, Count: 34, Why: "shorter MTTF"},
		},
		Cost: journal.Estimate{Low: 7, Mid: 9, High: 14}, Runtime: journal.Estimate{Low: 30000, Mid: 42000, High: 60000},
		OnDemand: journal.OnDemandPlan{Pool: ReliablePool, Count: 18, Hours: 5.6, USD: "24.09"},
	}
	t.write(journal.Entry{Kind: journal.Start, Details: must(journal.Pack(start))})
	t.write(journal.Entry{Kind: journal.Plan, Details: must(journal.Pack(plan))})
	for _, pool := range []string{FirstPool, BetterPool, OtherPool} {
		t.setPrice(pool, t.calm[pool], Began.Add(-8*time.Minute))
	}
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func (t *teller) setPrice(pool string, price float64, at time.Time) {
	t.price[pool] = price
	t.write(journal.Entry{Kind: journal.Price, Pool: pool, USD: fmt.Sprintf("%.4f", price), At: &at})
}

// wander moves prices by a few percent at intervals.
func (t *teller) wander(i int) {
	for n, pool := range []string{FirstPool, BetterPool, OtherPool} {
		if (i+n*3)%9 == 0 && t.rand.IntN(2) == 0 {
			pull := math.Log(t.calm[pool]/t.price[pool]) * 0.3
			t.setPrice(pool, t.price[pool]*math.Exp(pull+0.09*t.rand.NormFloat64()), t.now.Add(-time.Duration(t.rand.IntN(50))*time.Second))
		}
	}
}

func (t *teller) buy(tier, pool, bid string, n int, why string) {
	t.token++
	token := fmt.Sprintf("demo-1-%d", t.token)
	t.write(journal.Entry{Kind: journal.Intent, Why: why, Token: token, Tier: tier, Pool: pool, Bid: bid, Count: n})
	launched := t.now.Add(-3 * time.Second).Truncate(time.Second)
	for range n {
		m := Machine{ID: fmt.Sprintf("i-0%016x", t.rand.Uint64()), Tier: tier, Pool: pool, Bid: bid, Launched: launched}
		t.story.Machines = append(t.story.Machines, m)
		t.write(journal.Entry{Kind: journal.Launch, Token: token, Instance: m.ID, Tier: tier, Pool: pool, Bid: bid, Launched: &launched})
	}
}

// join lets machines from..to-1 (as launched) take part.
func (t *teller) join(from, to int) {
	for i := from; i < to; i++ {
		m := t.story.Machines[i]
		t.write(journal.Entry{Kind: journal.Ready, Instance: m.ID, Tier: m.Tier, Pool: m.Pool, Seconds: 0.6})
		t.write(journal.Entry{Kind: journal.Join, Instance: m.ID, Tier: m.Tier, Pool: m.Pool, Splits: 4, Clock: t.clock + 1})
		t.live = append(t.live, i)
	}
}

func (t *teller) count() (transient, reliable int) {
	for _, i := range t.live {
		if t.story.Machines[i].Tier == "reliable" {
			reliable++
		} else {
			transient++
		}
	}
	return transient, reliable
}

func (t *teller) setStage(stage, why string) {
	transient, reliable := t.count()
	t.write(journal.Entry{Kind: journal.Stage, From: t.stage, To: stage, Why: why, Transient: transient, Reliable: reliable, Clock: t.clock})
	if len(t.live) > 1 {
		t.write(journal.Entry{Kind: journal.Move, From: t.story.Machines[0].ID, To: t.story.Machines[t.live[1]].ID, Count: 4})
		t.write(journal.Entry{Kind: journal.Moved, Count: 4, Bytes: 180224, Seconds: 0.05, Details: json.RawMessage(`{"waited":0.004,"longest":0.002}`)})
		t.write(journal.Entry{Kind: journal.Use, Instance: t.story.Machines[0].ID, Seconds: 10, OfUse: journal.OfUse{CPU: 7.5, Memory: 900 << 20}})
	}
	t.stage = stage
}

func (t *teller) scale(from, to string, seconds float64, why string) {
	t.write(journal.Entry{Kind: journal.Scale, From: from, To: to, Seconds: seconds, Clock: t.clock, Why: why})
}

func (t *teller) switchPool() {
	t.write(journal.Entry{
		Kind: journal.Switch, From: FirstPool, To: BetterPool, OfSwitch: journal.OfSwitch{FromMTTF: 11160, ToMTTF: 32400},
		Why: "MTTF 9.0 h is at least 1.5 times 3.1 h for 5 minutes",
	})
	first := t.story.Machines[t.live[1]]
	t.buy("transient", BetterPool, "0.478", 9, "the better pool takes over")
	t.write(journal.Entry{Kind: journal.Release, Instance: first.ID, Pool: first.Pool, Tier: first.Tier,
		Why: "a pool with a longer MTTF takes its place"})
}

// leave takes a machine out of training.
func (t *teller) leave(i int, why string) {
	m := t.story.Machines[i]
	t.write(journal.Entry{Kind: journal.Leave, Why: why, Instance: m.ID, Tier: m.Tier, Pool: m.Pool, Clock: t.clock, Seconds: 0.4})
	t.drop(i)
}

func (t *teller) drop(i int) {
	for n, j := range t.live {
		if j == i {
			t.live = append(t.live[:n:n], t.live[n+1:]...)
			return
		}
	}
}

func (t *teller) leaveAll(pool string) {
	for i, m := range t.story.Machines {
		if m.Pool == pool && m.Ended.IsZero() {
			t.leave(i, "eviction notice: end-of-life flush delivered")
		}
	}
	t.setStage("1", "all transient machines go")
}

// endPool ends every machine of a pool that still runs.
func (t *teller) endPool(pool, why, by string) {
	for i := range t.story.Machines {
		if m := &t.story.Machines[i]; m.Pool == pool && m.Ended.IsZero() {
			if by == "user" {
				t.leave(i, why)
			}
			t.end(i, why, by)
		}
	}
}

func (t *teller) end(i int, why, by string) {
	m := &t.story.Machines[i]
	m.Ended, m.EndedBy = t.now.Truncate(time.Second), by
	kind := journal.Terminated
	if by == "provider" {
		kind = journal.Evicted
	}
	t.write(journal.Entry{Kind: kind, Why: why, Instance: m.ID, Tier: m.Tier, Pool: m.Pool, Ended: &m.Ended, EndedBy: by})
}

func (t *teller) decline() {
	t.write(journal.Entry{Kind: journal.LaunchFailed, Why: "no capacity; the pool is left alone for 10 minutes", Token: "demo-1-x", Pool: OtherPool, Bid: "0.12", Count: 4})
}

// spike raises a pool's price above every bid and warns its machines.
func (t *teller) spike(pool string) {
	t.setPrice(pool, 0.742, t.now)
	deadline := t.now.Add(4 * Speed * time.Second)
	for _, m := range t.story.Machines {
		if m.Pool == pool && m.Ended.IsZero() {
			t.write(journal.Entry{Kind: journal.Notice, Why: "price 0.742 above bid 0.478", Instance: m.ID, Tier: m.Tier, Pool: pool, Deadline: &deadline})
		}
	}
}

// kill takes a machine without warning: its agent disappears, and a little later the provider reports its end.
func (t *teller) kill(i int) {
	m := t.story.Machines[i]
	t.write(journal.Entry{Kind: journal.Failed, Why: "no heartbeat for 2 s", Instance: m.ID, Tier: m.Tier, Pool: m.Pool})
	t.drop(i)
	cut := t.clock - 5
	t.write(journal.Entry{
		Kind: journal.Rollback, Why: m.ID + " owned 4 partitions and is lost", Instance: m.ID,
		Generation: 2, Clock: cut, LostClocks: t.clock - cut,
	})
	t.clock = cut
	t.end(i, "ended by the provider", "provider")
}

// train advances by a tick.
func (t *teller) train() {
	const seconds = 0.1
	t.sinceWall += seconds
	for _, i := range t.live {
		rate := float64(flops)
		if t.story.Machines[i].Pool == BetterPool {
			rate *= 2
		}
		t.progress += rate * seconds
	}
	if t.progress < workPerClock || len(t.live) == 0 {
		return
	}
	t.progress = 0
	t.clock++
	transient, reliable := t.count()
	e := journal.Entry{
		Kind: journal.ClockDone, Clock: t.clock, Seconds: t.sinceWall, Work: workPerClock, Count: transient + reliable, Transient: transient, Reliable: reliable,
		Redone: t.clock <= t.highest,
	}
	t.highest = max(t.highest, t.clock)
	t.sinceWall = 0
	e.TrainLoss = journal.Loss(4.2 + 1.6*math.Exp(-float64(t.clock)/70) + 0.02*t.rand.NormFloat64())
	if t.clock%5 == 0 {
		e.TestLoss = journal.Loss(4.31 + 1.3*math.Exp(-float64(t.clock)/80) + 0.004*t.rand.NormFloat64())
	}
	t.write(e)
	if t.clock == 32 {
		t.write(journal.Entry{Kind: journal.Profile, Clock: t.clock, Seconds: 0.21, Details: json.RawMessage(`{"serving":[2100000,2200000,2000000,2100000]}`)})
	}
	if t.clock%10 == 0 {
		t.write(journal.Entry{Kind: journal.Cut, Clock: t.clock, Partitions: 32, Bytes: 1441792, Seconds: 0.12})
		t.write(t.checkpoint())
		if t.clock == 100 {
			t.write(t.takeOver())
		}
	}
}

func (t *teller) close() {
	t.now = Began.Add(800 * tick)
	for i := range t.story.Machines {
		if t.story.Machines[i].Ended.IsZero() {
			t.leave(i, "the job is done")
			t.end(i, "the job is done", "user")
		}
	}
	t.write(journal.Entry{Kind: journal.Export, Why: "the model after all clocks", Model: "runs/demo-1/model.safetensors", TestLoss: journal.Loss(4.318), Clock: t.clock})
	t.write(journal.Entry{Kind: journal.Done, Outcome: "finished", Clock: t.clock})
}

// takeOver returns a controller that was started again.
func (t *teller) takeOver() journal.Entry {
	return journal.Entry{Kind: journal.TakeOver, Clock: t.clock, Count: 17, Generation: 1,
		Why: "the controller was restarted; training continued, and no clock is repeated"}
}

// checkpoint returns the checkpoint of the cut just committed. One fails.
func (t *teller) checkpoint() journal.Entry {
	if t.clock == 50 {
		return journal.Entry{Kind: journal.SaveFailed, Clock: t.clock, Why: "no space left on device"}
	}
	return journal.Entry{Kind: journal.Checkpoint, Clock: t.clock, Partitions: 32, Bytes: 1441792, Seconds: 0.4,
		Model: fmt.Sprintf("checkpoints/clock-%09d-1.1.json", t.clock)}
}
