package elasticity

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The world of these tests is one process without goroutines: the real controller, real shards and backups, and
// nodes that do what a node does, joined by a queue of events with seeded delays. A seed repeats a run exactly.

var epoch = time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)

type scheduled struct {
	at  time.Time
	seq int
	do  func()
}

type queue []scheduled

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].seq < q[j].seq
}
func (q *queue) Push(x any) { *q = append(*q, x.(scheduled)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	queue   queue
	seq     int
	ctrl    *Controller
	schema  ps.Schema
	nodes   map[ps.ServerID]*node
	bought  int
	entries []journal.Entry
	outcome string
	final   map[ps.Key][]float32
	wakeAt  time.Time
	upNow   map[ps.ServerID]time.Time // last delivery on a link, to keep its order
	downNow map[ps.ServerID]time.Time
	truth   []map[ps.Key][]float32 // the undisturbed state after each clock
	onEntry func(journal.Entry)
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, scheduled{at: w.now.Add(d), seq: w.seq, do: do})
}

// delay is a random time of up to d.
func (w *world) delay(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d)) + 1)
}

// fifo schedules do in the order of a link.
func (w *world) fifo(last map[ps.ServerID]time.Time, id ps.ServerID, do func()) {
	at := w.now.Add(w.delay(20 * time.Millisecond))
	if at.Before(last[id]) {
		at = last[id]
	}
	last[id] = at
	w.after(at.Sub(w.now), do)
}

func (w *world) step(e Event) {
	for _, a := range w.ctrl.Step(w.now, e) {
		switch a := a.(type) {
		case Record:
			w.entries = append(w.entries, a.Entry)
			if w.onEntry != nil {
				w.onEntry(a.Entry)
			}
		case Launch:
			w.after(w.delay(500*time.Millisecond), func() { w.launch(a.Request) })
		case Terminate:
			for _, id := range a.IDs {
				w.after(w.delay(200*time.Millisecond), func() { w.end(ps.ServerID(id), market.ByUser, "User initiated") })
			}
		case Send:
			w.fifo(w.downNow, a.ID, func() {
				if n := w.nodes[a.ID]; n != nil && !n.dead {
					n.take(a.Command)
				}
			})
		case Export:
			w.export(a)
		case Finish:
			w.outcome = a.Outcome
		}
	}
	if wake := w.ctrl.NextWake(); wake.After(w.now) && (w.wakeAt.IsZero() || wake.Before(w.wakeAt) || !w.wakeAt.After(w.now)) {
		w.wakeAt = wake
		w.after(wake.Sub(w.now), func() { w.step(Wake{}) })
	}
}

func (w *world) launch(r provisioner.Request) {
	var got []provisioner.Instance
	for range r.Count {
		w.bought++
		i := provisioner.Instance{
			ID: provisioner.InstanceID(fmt.Sprintf("i-%04d", w.bought)), Pool: r.Pool, Bid: r.Bid, Token: r.Token,
			State: provisioner.Running, Launched: w.now.Truncate(time.Second),
		}
		got = append(got, i)
		n := newNode(w, ps.ServerID(i.ID), i)
		w.nodes[n.id] = n
		w.after(w.delay(2*time.Second), n.boot)
	}
	w.step(Launched{Token: r.Token, Instances: got})
}

// end kills a machine and lets the provider and the broken stream tell of it.
func (w *world) end(id ps.ServerID, by market.EndedBy, reason string) {
	n := w.nodes[id]
	if n.dead {
		return
	}
	n.dead = true
	ended := n.instance
	ended.State, ended.Ended, ended.EndedBy, ended.Reason = provisioner.Terminated, w.now.Truncate(time.Second), by, reason
	w.fifo(w.upNow, id, func() { w.step(Disconnected{ID: id}) })
	w.after(w.delay(2*time.Second), func() { w.step(InstanceEnded{Instance: ended}) })
	w.after(3*time.Second, func() { w.step(PricesKnown{At: w.now}) })
}

// evict warns machines and takes them when the notice is over.
func (w *world) evict(notice time.Duration, ids ...ps.ServerID) {
	for _, id := range ids {
		n := w.nodes[id]
		if n.dead {
			continue
		}
		w.step(Warned{ID: id, Deadline: w.now.Add(notice)})
		w.after(notice, func() { w.end(id, market.ByProvider, "Server.SpotInstanceTermination") })
	}
}

// live gives the machines of a class that run, in order.
func (w *world) live(class market.Class) []ps.ServerID {
	var ids []ps.ServerID
	for i := 1; i <= w.bought; i++ {
		n := w.nodes[ps.ServerID(fmt.Sprintf("i-%04d", i))]
		if n != nil && !n.dead && n.instance.Pool.Class == class {
			ids = append(ids, n.id)
		}
	}
	return ids
}

func (w *world) export(a Export) {
	w.final = map[ps.Key][]float32{}
	for p, owner := range a.Route.Owner {
		s := w.nodes[owner].shards[ps.Partition(p)]
		if s == nil || s.Folded() != a.Clock {
			w.t.Fatalf("export at clock %d: partition %d of %s is not there", a.Clock, p, owner)
		}
		for _, k := range w.keys() {
			if w.schema.PartitionOf(k) == ps.Partition(p) {
				row := make([]float32, w.schema.Cols(k))
				s.Read(k, row)
				w.final[k] = row
			}
		}
	}
	w.after(time.Millisecond, func() { w.step(Exported{Model: "model", TestLoss: 1}) })
}

func (w *world) keys() []ps.Key {
	var keys []ps.Key
	for t, table := range w.schema.Tables {
		for r := range table.Rows {
			keys = append(keys, ps.Key{Table: ps.TableID(t), Row: ps.RowID(r)})
		}
	}
	return keys
}

// run drives the world until the controller finishes.
func (w *world) run() {
	w.t.Helper()
	w.step(Wake{})
	for steps := 0; w.outcome == ""; steps++ {
		if len(w.queue) == 0 || w.now.Sub(epoch) > 5*time.Minute {
			w.dump()
			w.t.Fatalf("stuck after %d steps at %v, clock %d", steps, w.now.Sub(epoch), w.ctrl.progress.done)
		}
		next := heap.Pop(&w.queue).(scheduled)
		w.now = next.at
		next.do()
	}
}

func (w *world) dump() {
	for _, e := range w.entries {
		w.t.Logf("%v %s clock %d %s->%s %s %s", e.T.Sub(epoch), e.Kind, e.Clock, e.From, e.To, e.Instance, e.Why)
	}
	c := w.ctrl
	w.t.Logf("generation %d committed %d done %d stage %d cut %+v halt %+v recovery %+v settle %+v moves %v stop %q",
		c.generation, c.committed, c.progress.done, c.stage, c.cut, c.halt, c.recovery, c.settle, c.moves, c.stopWhy)
	for id, s := range c.commands {
		w.t.Logf("unanswered %d to %s: %T %+v", id, s.to, s.do, s.do)
	}
	for _, m := range c.ordered(func(*machine) bool { return true }) {
		if n := w.nodes[m.id]; !m.ended {
			w.t.Logf("%s joined %d lost %v warned %v draining %v leaving %v dead %v worker %+v", m.id, m.joined, m.lost, m.warned,
				m.draining, m.leaving, n.dead, n.worker)
		}
	}
	for i, s := range c.splits {
		w.t.Logf("split %d: %+v want %s", i, s, c.target.Worker[i])
	}
}

// fleet is a policy that holds a number of machines of one pool, which a test may change.
type fleet struct {
	pool  market.Pool
	count int
}

func (f *fleet) Name() string { return "fleet" }

func (f *fleet) Plan(s bidding.State) bidding.Plan {
	held, other := 0, 0
	var from market.Pool
	for _, a := range s.Held {
		switch {
		case a.Draining || a.Warned:
		case a.Pool == f.pool:
			held += a.Count
		default:
			other += a.Count
			from = a.Pool
		}
	}
	if held >= f.count {
		return bidding.Plan{}
	}
	p := bidding.Plan{Acquire: []bidding.Acquire{{Pool: f.pool, Bid: market.Dollar, Count: f.count - held, Why: "test"}}}
	if other > 0 {
		p.Switch = &bidding.Switch{From: from, To: f.pool, Why: "test"}
		p.Release = []bidding.Release{{Pool: from, Why: "test"}}
	}
	return p
}

var (
	poolA        = market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "a", Class: market.Spot}
	poolB        = market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "b", Class: market.Spot}
	reliablePool = market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "a", Class: market.OnDemand}
)

func newWorld(t *testing.T, seed uint64, policy bidding.Policy) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: epoch, nodes: map[ps.ServerID]*node{},
		upNow: map[ps.ServerID]time.Time{}, downNow: map[ps.ServerID]time.Time{},
		schema: ps.Schema{
			Tables:     []ps.Table{{Name: "x", Rows: 30, Cols: 2, Init: ps.Init{Low: -1, High: 1}}},
			Partitions: 8, Splits: 12, Seed: 7, Deterministic: true,
		},
	}
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	w.ctrl = New(Config{
		Run: "test", Policy: policy, Stages: tiers.DefaultThresholds(), Speed: 1,
		Job:      Job{Schema: w.schema, App: "toy", Clocks: 60},
		Reliable: Reliable{Pool: reliablePool, Type: market.InstanceType{VCPU: 4}, Count: 1},
		Want:     bidding.Want{Machines: 1},
		Pools: []Pool{
			{Pool: poolA, Type: market.InstanceType{VCPU: 4}, History: market.Constant(market.Dollar / 10)},
			{Pool: poolB, Type: market.InstanceType{VCPU: 8}, History: market.Constant(market.Dollar / 10)},
		},
		CutEvery: 3 * time.Second, DeadAfter: time.Hour, BrokenAfter: 500 * time.Millisecond, JoinWait: 3 * time.Second,
		Rules: rules, DrainMargin: time.Second, RetryCapacity: 5 * time.Second, PlanEvery: time.Second,
	})
	w.truth = undisturbed(w)
	return w
}
