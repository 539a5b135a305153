package elasticity

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The world of these tests is one process without goroutines: the real controller, real shards and backups, and simulated nodes, connected
// by a queue of events with seeded delays. A seed repeats a run exactly.
//
//	world_test.go     time, the control links, the driver of the controller
//	cloud_test.go     the provider: launches, notices, ends
//	network_test.go   the data plane between nodes
//	node_test.go      what a node does with commands; transfer_test.go: cuts and moves; worker_test.go: work
//	toy_test.go       what is computed, and what every read and every row must be
//	promise_test.go   what must hold after each run
//	faults_test.go    fault plans: drawn from a seed, printed, parsed, shrunk

var epoch = time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)

type scheduled struct {
	at  time.Duration // since epoch
	seq int
	do  func()
}

func (s scheduled) before(other scheduled) bool {
	return s.at < other.at || s.at == other.at && s.seq < other.seq
}

// queue is a heap of events, the next one first.
type queue []scheduled

func (q *queue) put(s scheduled) {
	h := append(*q, s)
	at := len(h) - 1
	for at > 0 && s.before(h[(at-1)/2]) {
		h[at], at = h[(at-1)/2], (at-1)/2
	}
	h[at] = s
	*q = h
}

func (q *queue) take() scheduled {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1].do = nil
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return first
	}
	at := 0
	for child := 1; child < len(h); child = 2*at + 1 {
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(last) {
			break
		}
		h[at], at = h[child], child
	}
	h[at] = last
	return first
}

// shape is everything about a world except its random numbers and faults.
type shape struct {
	deterministic              bool
	staleness                  ps.Clock
	partitions, splits, clocks int
	reliable, transient        int
	cutEvery, deadAfter        time.Duration
	saveEvery                  time.Duration
	saveClocks                 ps.Clock
	noticeWait, slowEnd        time.Duration // slowEnd: the longest time that the provider takes to end a machine
	mixed                      bool          // tables of all sorts
	choice                     bool          // the provider chooses among pools
	tuned                      *tuning.Options
	standby                    bool // reliable machines only hold splits
	short                      bool // machines compute one of their splits, and pass over the others
	rough                      bool // the network loses and repeats requests, the provider repeats itself
}

// plain returns the shape of the named stories.
func plain() shape {
	return shape{
		deterministic: true, partitions: 8, splits: 12, clocks: 60, reliable: 1, transient: 17,
		cutEvery: 3 * time.Second, deadAfter: 3 * time.Second, slowEnd: 200 * time.Millisecond,
	}
}

// drawn returns the shape of a random world.
func drawn(rng *rand.Rand) shape {
	pick := func(of ...int) int { return of[rng.IntN(len(of))] }
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	s := shape{
		deterministic: rng.IntN(2) == 0,
		partitions:    pick(1, 2, 5, 8, 13), splits: pick(1, 2, 4, 7, 12), clocks: 20 + rng.IntN(30),
		reliable: pick(1, 1, 2, 3), transient: pick(1, 3, 6, 17, 20),
		cutEvery: between(300*time.Millisecond, 3*time.Second), deadAfter: between(1500*time.Millisecond, 4*time.Second),
		saveEvery:  time.Duration(pick(0, 1, 1)) * between(300*time.Millisecond, 4*time.Second),
		noticeWait: time.Duration(pick(0, 0, 200)) * time.Millisecond,
		slowEnd:    between(100*time.Millisecond, 6*time.Second),
		rough:      rng.IntN(3) > 0, mixed: true,
	}
	if s.saveEvery > 0 && rng.IntN(5) == 0 {
		s.reliable = 0 // the most reliable available machine serves
	}
	if !s.deterministic {
		if s.staleness = ps.Clock(rng.IntN(5)); s.staleness == 4 {
			s.staleness = ps.Unbounded
		}
	}
	if rng.IntN(4) == 0 { // a setting changes every few clocks
		s.tuned = &tuning.Options{Every: 1, Trials: 3, Clocks: s.clocks, Partitions: s.partitions}
	}
	return s
}

type world struct {
	rng   *rand.Rand
	shape shape
	now   time.Time
	queue queue
	seq   int
	steps int // done

	ctrl   *Controller
	wakeAt time.Time
	schema ps.Schema
	keys   [][]ps.Key             // Index: Partition
	truth  []map[ps.Key][]float32 // the undisturbed state after each clock
	policy *holding
	cloud  cloud
	store  store
	nodes  map[ps.ServerID]*node
	order  []*node // in the order of their launch

	// Measurements to report, where they matter: bytes per second in and out of a machine, and how many seconds a machine takes for its
	// part of a clock.
	traffic func(*node) (in, out float64)
	seconds func(n *node, splits int) float64
	// How long a machine works on a clock beyond the usual, where that depends on the layout.
	computing func(n *node) time.Duration
	// How long machines take to load splits beyond the usual.
	loading func(n *node) time.Duration
	// How long rows take beyond the usual, under BSP.
	reading func(n *node) time.Duration
	windows bool                                                     // moves wait for windows
	longer  time.Duration                                            // by which the world may last longer
	cutSize func(since time.Duration) (bytes int64, seconds float64) // of a backup's part of a cut
	dirty   int64                                                    // bytes of each owner that a cut would have to deliver; 0 = the real ones

	scaled   []Scaled // answers to requests for other numbers
	sent     []Send
	life     int  // of the controller: incremented by each restart
	absent   bool // there is no controller
	stopped  bool // it is stopped: SIGSTOP, or a closed laptop
	missed   []Event
	clock    time.Duration // the controller's clock, ahead of all others
	wall     time.Duration // the same for the host's clock, which the next controller uses
	onSend   func(Send)
	entries  []journal.Entry
	outcome  string
	exported ps.Clock // the clock of the last successful export; 0 = none
	onEntry  func(journal.Entry)
	// crash returns for how long the controller is dead if it dies before or after this action; 0 = it does not.
	crash   func(a Action, after bool) (gone time.Duration)
	unsaved func() error // why the model cannot be saved; nil = it can
	// hooks let a story do something to a node at a point of a protocol.
	hooks map[string]func(*node)
	// refuse returns why a node cannot carry out a command; empty: it can.
	refuse func(*node, tiers.Do) string
	trace  func(format string, args ...any)
	// stepped is called with the processor time of each of the controller's steps.
	stepped func(took time.Duration)
	// unchecked omits checkRest, which looks at all machines before every step.
	unchecked bool
}

// failure is a promise that was broken.
type failure string

func (f failure) Error() string { return string(f) }

func (w *world) failf(format string, args ...any) {
	panic(failure(fmt.Sprintf("at %v: ", w.now.Sub(epoch)) + fmt.Sprintf(format, args...)))
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	w.queue.put(scheduled{at: w.now.Add(d).Sub(epoch), seq: w.seq, do: do})
}

// delay returns a random time of up to d.
func (w *world) delay(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d)) + 1)
}

// odds is true once in n times, in rough worlds.
func (w *world) odds(n int) bool { return w.shape.rough && w.rng.IntN(n) == 0 }

// reach notifies a hook that a node has reached a point.
func (w *world) reach(point string, n *node) {
	if f := w.hooks[point]; f != nil {
		f(n)
	}
}

// step drives the controller as a driver must: it carries out the actions in order and wakes the controller when requested, and at no other
// time.
func (w *world) step(events ...Event) {
	switch {
	case w.absent:
		return
	case w.stopped:
		w.missed = append(w.missed, events...)
		return
	}
	if w.trace != nil {
		for _, e := range events {
			w.trace("%v event %T %+v", w.now.Sub(epoch), e, e)
		}
	}
	if !w.unchecked {
		w.checkRest()
	}
	var actions []Action
	if w.stepped == nil {
		actions = w.ctrl.Step(w.time(), events...)
	} else {
		w.stepped(processorTime(func() { actions = w.ctrl.Step(w.time(), events...) }))
	}
	if w.outcome != "" && len(actions) > 0 {
		w.failf("after the end: %T leads to %T", events, actions[0])
	}
	for _, a := range actions {
		if w.crashes(a, false) {
			return
		}
		w.do(a)
		if w.crashes(a, true) {
			return
		}
	}
	if c := w.ctrl; c.step.Ending && (c.training.Recovery != nil || c.training.Halt != nil || c.training.Cuts.Cut != nil || c.training.Settle != nil || len(c.training.Layout.Moves) > 0) {
		w.failf("after the end was decided: %T begins something", events)
	}
	if w.outcome != "" {
		return
	}
	wake := w.ctrl.NextWake()
	if !wake.After(w.time()) {
		w.failf("NextWake is %v ago", w.time().Sub(wake))
	}
	if wake.Equal(w.wakeAt) {
		return
	}
	w.wakeAt = wake
	w.after(wake.Sub(w.time()), func() {
		if w.wakeAt.Equal(w.time()) {
			w.wakeAt = time.Time{}
			w.step(Wake{})
		}
	})
}

func (w *world) do(a Action) {
	if w.trace != nil {
		if r, ok := a.(Record); ok {
			w.trace("   %s", line(r.Entry))
		} else {
			w.trace("   action %T %+v", a, a)
		}
	}
	switch a := a.(type) {
	case Record:
		w.entries = append(w.entries, a.Entry)
		if w.onEntry != nil {
			w.onEntry(a.Entry)
		}
	case Launch:
		life := w.life
		w.after(w.delay(500*time.Millisecond), func() { w.launch(a.Request, life) })
	case Terminate:
		for _, id := range a.IDs {
			w.terminate(ps.ServerID(id))
		}
	case Send:
		if w.policy.asked {
			w.sent = append(w.sent, a)
		}
		if w.onSend != nil {
			w.onSend(a)
		}
		n := w.nodes[a.ID]
		_, stop := a.Command.Do.(tiers.Stop)
		switch {
		case n.address == "":
			w.failf("%T for %s, which nobody has heard of", a.Command.Do, a.ID)
		case w.cloud.terminated[a.ID] == w.life+1 && !stop:
			w.failf("%T for %s, which was terminated", a.Command.Do, a.ID)
		}
		life := w.life
		n.down.put(n, func() {
			if n.life != life {
				return // its sender, a controller, is gone
			}
			if w.trace != nil {
				w.trace("%v %s obeys %T %+v", w.now.Sub(epoch), n.id, a.Command.Do, a.Command)
			}
			n.take(a.Command)
		})
	case Scaled:
		w.scaled = append(w.scaled, a)
	case Export:
		w.export(a)
	case WriteManifest:
		w.writeManifest(a)
	case Finish:
		w.outcome = a.Outcome
	}
}

// link is one direction of a control stream: in order, each message once. While the stream is down messages wait.
type link struct {
	last time.Time
	held []func()
}

func (l *link) put(n *node, do func()) {
	if n.closed() {
		l.held = append(l.held, do)
		return
	}
	w := n.w
	at := w.now.Add(w.delay(20*time.Millisecond) + n.slow)
	if at.Before(l.last) {
		at = l.last
	}
	l.last = at
	w.after(at.Sub(w.now), func() {
		switch {
		case n.closed(): // it broke while this was in transit
			l.held = append(l.held, do)
		default:
			do()
		}
	})
}

// open delivers what has waited.
func (l *link) open(n *node) {
	held := l.held
	l.held = nil
	for _, do := range held {
		l.put(n, do)
	}
}

// run drives the world until the controller finishes.
func (w *world) run() (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	w.step(Wake{})
	w.listNowAndThen()
	for steps := 0; w.outcome == ""; steps++ {
		if len(w.queue) == 0 || w.now.Sub(epoch) > 3*time.Minute+w.longer+max(w.cloud.ahead, 0)+max(-w.clock, 0) { // bills wait until a machine has ended
			w.failf("stuck after %d steps, at clock %d\n%s", steps, w.ctrl.training.Clocks.Done, w.describe())
		}
		w.next()
	}
	for range 100 { // messages that come too late must find no machine
		if len(w.queue) > 0 {
			w.next()
		}
	}
	return nil
}

func (w *world) next() {
	w.steps++
	next := w.queue.take()
	w.now = epoch.Add(next.at)
	next.do()
}

// until drives the world up to a time.
func (w *world) until(at time.Duration) {
	if len(w.entries) == 0 {
		w.step(Wake{})
	}
	for len(w.queue) > 0 && w.outcome == "" && w.queue[0].at <= at {
		w.next()
	}
}

// holding is a policy that holds a number of machines of one pool, which a test may change.
type holding struct {
	pool  market.Pool
	count int
	asked bool // holds the wanted number, instead of count
	or    []bidding.Choice
	// fewer machines are released once that many more than count are held.
	fewer int
}

func (f *holding) Name() string { return "fleet" }

func (f *holding) Plan(s bidding.State) bidding.Plan {
	if f.asked {
		f.count = s.Want.Machines
	}
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
	for _, c := range s.Pools {
		if c.Pool == f.pool && s.Now.Before(c.NoCapacityUntil) {
			return bidding.Plan{}
		}
	}
	if f.fewer > 0 && held >= f.count+f.fewer {
		return bidding.Plan{Release: []bidding.Release{{Pool: f.pool, Count: f.fewer, Why: "fewer are needed"}}}
	}
	if held >= f.count {
		return bidding.Plan{}
	}
	p := bidding.Plan{Acquire: []bidding.Acquire{{Pool: f.pool, Bid: market.Dollar, Count: f.count - held, Why: "the job wants more"}}}
	if len(f.or) > 0 {
		return f.choose(s, held+other)
	}
	if other > 0 {
		p.Switch = &bidding.Switch{From: from, To: f.pool, FromMTTF: time.Hour, ToMTTF: 2 * time.Hour, Why: "a longer MTTF"}
		p.Release = []bidding.Release{{Pool: from, Why: "a longer MTTF"}}
	}
	return p
}

// choose requests count machines of any pools, among which the provider chooses: those that have not refused lately.
func (f *holding) choose(s bidding.State, held int) bidding.Plan {
	var open []bidding.Choice
	for i, c := range append([]bidding.Choice{{Pool: f.pool, Bid: market.Dollar}}, f.or...) {
		if (i == 0 || c.Pool != f.pool) && !slices.ContainsFunc(s.Pools, func(p bidding.Candidate) bool { return p.Pool == c.Pool && s.Now.Before(p.NoCapacityUntil) }) {
			open = append(open, c)
		}
	}
	if held >= f.count || len(open) == 0 {
		return bidding.Plan{}
	}
	return bidding.Plan{Acquire: []bidding.Acquire{{Pool: open[0].Pool, Bid: open[0].Bid, Or: open[1:], Count: f.count - held, Why: "the job wants more"}}}
}

var (
	poolA        = market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "a", Class: market.Spot}
	poolC        = market.Pool{Provider: "ec2", Region: "r", Zone: "rb", Type: "b", Class: market.Spot}
	poolB        = market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "b", Class: market.Spot}
	reliablePool = market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "a", Class: market.OnDemand}
)

func newWorld(seed uint64, s shape) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), shape: s, now: epoch, nodes: map[ps.ServerID]*node{},
		hooks: map[string]func(*node){}, schema: toySchema(s), policy: &holding{pool: poolA, count: s.transient},
	}
	if s.choice {
		w.policy.or = []bidding.Choice{{Pool: poolB, Bid: market.Dollar / 2}, {Pool: poolC, Bid: market.Dollar / 3}}
	}
	w.store = newStore()
	w.cloud = cloud{terminated: map[ps.ServerID]int{}, bought: map[string]purchase{}}
	w.keys = make([][]ps.Key, s.partitions)
	for t, table := range w.schema.Tables {
		for r := range table.Rows {
			k := ps.Key{Table: ps.TableID(t), Row: ps.RowID(r)}
			p := w.schema.PartitionOf(k)
			w.keys[p] = append(w.keys[p], k)
		}
	}
	w.truth = w.undisturbed()
	w.ctrl = New(w.config())
	return w
}

func (w *world) config() Config {
	rules, err := market.Rules("ec2-now")
	if err != nil {
		panic(err)
	}
	pools := []Pool{
		{Pool: poolA, Type: market.InstanceType{VCPU: 4, OnDemand: market.Dollar / 4}, History: market.Constant(market.Dollar / 10)},
		{Pool: poolB, Type: market.InstanceType{VCPU: 8, OnDemand: market.Dollar / 2}, History: market.Constant(market.Dollar / 10)},
	}
	if w.shape.choice {
		pools = append(pools, Pool{Pool: poolC, Type: market.InstanceType{VCPU: 8, OnDemand: market.Dollar / 2}, History: market.Constant(market.Dollar / 9)})
	}
	var standby map[string]string
	if w.shape.standby {
		standby = map[string]string{"standby": "1"}
	}
	return Config{
		Run: "test", Policy: w.policy, Stages: tiers.DefaultThresholds(),
		Job:         Job{Schema: w.schema, App: "toy", Clocks: ps.Clock(w.shape.clocks), Heartbeat: beatEvery, Standby: standby, Short: w.shape.short},
		Reliable:    Reliable{Pool: reliablePool, Type: market.InstanceType{VCPU: 4, OnDemand: market.Dollar / 4}, Count: w.shape.reliable},
		Want:        bidding.Want{Machines: w.shape.transient},
		Pools:       pools,
		Checkpoints: Checkpoints{Place: "store", Life: "1", Every: w.shape.saveEvery, EveryClocks: w.shape.saveClocks},
		Settings: tempo.Settings{
			Speed: 1, CutEvery: w.shape.cutEvery, DeadAfter: w.shape.deadAfter, BrokenAfter: 500 * time.Millisecond, JoinWait: 3 * time.Second,
			NoticeWait: w.shape.noticeWait, DrainMargin: time.Second, RetryCapacity: 5 * time.Second, PlanEvery: time.Second, BootWithin: 8 * time.Second,
		},
		Rules: rules, AskAgain: 10 * time.Second, Tune: w.shape.tuned,
	}
}

// machinesOf returns the running machines of a class, oldest first.
func (w *world) machinesOf(class market.Class) []ps.ServerID {
	var ids []ps.ServerID
	for _, n := range w.order {
		if n.instance.State == provisioner.Running && !n.dead && n.instance.Pool.Class == class {
			ids = append(ids, n.id)
		}
	}
	return ids
}

func (w *world) spot() []ps.ServerID { return w.machinesOf(market.Spot) }
