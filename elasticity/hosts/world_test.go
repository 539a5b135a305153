package hosts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

var (
	start    = time.Date(2014, 3, 26, 16, 0, 0, 0, time.UTC)
	slotType = market.InstanceType{Name: "slot.small", VCPU: 2, MemoryMiB: 3000, OnDemand: market.Dollar / 10}
	hostType = market.InstanceType{Name: "host.large", VCPU: 8, MemoryMiB: 15000, OnDemand: market.Dollar / 2}
	spotPool = market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "host.large", Class: market.Spot}
	stayPool = market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "host.large", Class: market.OnDemand}
)

const tick = 20 * time.Second

// world is the shared hosts with a provider, hosts' agents and jobs, in simulated time. It may crash at any point at which something
// becomes durable or takes effect; everything that is not on disk is then lost.
type world struct {
	t       testing.TB
	now     time.Time
	rules   market.RuleBook
	history *market.History
	brain   *Brain
	life    int

	entries []journal.Entry // on disk
	lines   []Line          // on disk
	cloud   map[string][]*rented
	rented  []*rented
	inbox   []elasticity.Event // lost in a crash
	running map[provisioner.InstanceID]step.ID

	points, crashAt int // of this world; 0 = never
	crashed         bool
	outcome         string
	answer          error                              // to the last request
	serves          bool                               // jobs' reliable slots only serve
	started         map[provisioner.InstanceID]step.ID // hosts that ever ran a slot
}

type rented struct {
	provisioner.Instance
	deadline time.Time
	silent   bool // its agent no longer calls
}

func (r *rented) hasEnded() bool { return r.State == provisioner.Terminated }

var errCrash = errors.New("crash")

func newWorld(t testing.TB, rules string, crashAt int) *world {
	book, err := market.Rules(rules)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, now: start, rules: book, history: market.Constant(market.Dollar / 7), cloud: map[string][]*rented{},
		running: map[provisioner.InstanceID]step.ID{}, started: map[provisioner.InstanceID]step.ID{}, crashAt: crashAt}
	w.begin()
	return w
}

// begin starts a process from what is on disk.
func (w *world) begin() {
	w.life++
	cfg := Config{
		Settings: tempo.Of(tempo.Place{Speed: 100, Boot: time.Second, Notice: 2 * time.Second, DeadAfter: 3 * time.Second}),
		Run:      fmt.Sprintf("shared-%d", w.life), Policy: bidding.TierML{NeverSwitch: true},
		Reliable: fleet.Reliable{Pool: stayPool, Type: hostType, Count: 3}, Most: bidding.Want{VCPU: 64},
		Loss: 0.1, Pools: []fleet.Pool{{Pool: spotPool, Type: hostType, History: market.Constant(market.Dollar / 7)}},
		Types: []market.InstanceType{slotType, hostType}, Rules: w.rules, WholeHours: w.rules.Terms().Increment > 0,
		AskAgain: 10 * time.Minute, Patience: time.Hour, KeepEmpty: 5 * time.Minute, Lines: w.lines,
	}
	if w.life > 1 {
		var err, err2 error
		cfg.Past, err = elasticity.ReadPast(w.entries)
		cfg.Bills, err2 = ReadHosts(w.entries)
		if err := errors.Join(err, err2); err != nil {
			w.t.Fatal(err)
		}
	}
	brain, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.brain, w.inbox, w.crashed = brain, []elasticity.Event{elasticity.Wake{}}, false
}

// point is a point at which the process may be killed.
func (w *world) point() {
	if w.points++; w.points == w.crashAt {
		panic(errCrash)
	}
}

// guarded runs a function that a crash may interrupt.
func (w *world) guarded(f func()) {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, errCrash) {
				panic(r)
			}
			w.crashed = true
		}
	}()
	f()
}

// keep writes lines to disk.
func (w *world) keep() {
	lines := w.brain.Book.Lines()
	for _, l := range lines {
		w.point()
		w.lines = append(w.lines, l)
	}
	if len(lines) > 0 {
		w.point()
	}
}

func (w *world) step() {
	events := w.inbox
	w.inbox = nil
	events = append(events, elasticity.PricesKnown{At: w.now})
	actions := slices.Clone(w.brain.Step(w.now, events...))
	w.keep()
	for _, a := range actions {
		switch a := a.(type) {
		case elasticity.Record:
			w.entries = append(w.entries, a.Entry)
		case elasticity.Launch:
			w.launch(a.Request)
		case elasticity.Terminate:
			for _, id := range a.IDs {
				w.end(id, market.ByUser, "terminated")
			}
		case elasticity.Scaled:
			w.answer = a.Err
		case elasticity.Finish:
			w.outcome = a.Outcome
		}
		w.point()
	}
}

func (w *world) launch(r provisioner.Request) {
	made := w.cloud[r.Token]
	if made == nil {
		for range r.Count {
			i := &rented{Instance: provisioner.Instance{ID: provisioner.InstanceID(fmt.Sprintf("i-%03d", len(w.rented))), Pool: r.Pool, Bid: r.Bid, Token: r.Token,
				State: provisioner.Running, Launched: w.now.Truncate(time.Second)}}
			w.rented, made = append(w.rented, i), append(made, i)
		}
		w.cloud[r.Token] = made
	}
	w.point()
	var list []provisioner.Instance
	for _, i := range made {
		list = append(list, i.Instance)
	}
	w.inbox = append(w.inbox, elasticity.Launched{Token: r.Token, Instances: list})
}

func (w *world) end(id provisioner.InstanceID, by market.EndedBy, why string) {
	for _, i := range w.rented {
		if i.ID == id && !i.hasEnded() {
			i.State, i.Ended, i.EndedBy, i.Reason = provisioner.Terminated, w.now.Truncate(time.Second), by, why
			for slot, host := range w.running {
				if host == step.ID(id) {
					delete(w.running, slot)
				}
			}
		}
	}
}

// agents are the agents on hosts: each has the slots that it was given.
func (w *world) agents() {
	for _, i := range w.rented {
		id := step.ID(i.ID)
		if i.hasEnded() || i.silent || w.now.Sub(i.Launched) < 20*time.Second || !w.brain.Called(id, i.Token) {
			continue
		}
		for _, s := range w.brain.Book.On(id) {
			_, runs := w.running[s.ID]
			switch {
			case !s.Leaving() && !runs:
				if before, ever := w.started[s.ID]; ever {
					w.t.Fatalf("slot %s was started on %s and again on %s", s.ID, before, id)
				}
				w.running[s.ID], w.started[s.ID] = id, id
			case s.Leaving():
				delete(w.running, s.ID)
				w.brain.Book.Gone(w.now, id, s.ID, "ended")
				w.keep()
			}
		}
	}
}

// pass advances time, with all consequences.
func (w *world) pass(d time.Duration) {
	for until := w.now.Add(d); w.now.Before(until) && w.outcome == ""; {
		w.now = w.now.Add(tick)
		for _, i := range w.rented {
			if !i.hasEnded() && !i.deadline.IsZero() && !w.now.Before(i.deadline) {
				w.end(i.ID, market.ByProvider, "taken back")
			}
		}
		w.guarded(func() {
			w.agents()
			w.list()
			w.step()
			w.step()
		})
		w.recover()
		w.check()
	}
}

func (w *world) recover() {
	if w.crashed {
		w.begin()
	}
}

func (w *world) list() {
	var all []provisioner.Instance
	for _, i := range w.rented {
		all = append(all, i.Instance)
		if !i.deadline.IsZero() && !i.hasEnded() {
			w.inbox = append(w.inbox, elasticity.Warned{ID: step.ID(i.ID), Deadline: i.deadline})
		}
	}
	w.inbox = append(w.inbox, elasticity.Listed{Instances: all, Asked: w.now})
	for _, i := range all {
		if i.State == provisioner.Terminated {
			w.inbox = append(w.inbox, elasticity.InstanceEnded{Instance: i})
		}
	}
}

// ask repeats a request until there is an answer, as a job's controller does.
func (w *world) ask(job, token string, class market.Class, count int) (got []provisioner.Instance, err error) {
	pool := spotPool
	pool.Type, pool.Class = slotType.Name, class
	for range 3 {
		done := false
		w.guarded(func() {
			got, err = w.brain.Ask(w.now, 0, job, provisioner.Request{Token: token, Pool: pool, Count: count, UserData: job, Intended: start}, Size{})
			w.keep()
			done = true
		})
		if w.recover(); done {
			break
		}
	}
	return got, err
}

func (w *world) give(job string, ids ...provisioner.InstanceID) {
	for done := false; !done; w.recover() {
		w.guarded(func() { w.brain.Book.Return(w.now, job, ids...); w.keep(); done = true })
	}
}

// profile reports a profile until it is accepted.
func (w *world) profile(job string, of tiers.Profile) {
	w.t.Helper()
	for done := false; !done; w.recover() {
		w.guarded(func() {
			if _, err := w.brain.Book.Report(w.now, job, tiers.Served{Profile: of, OnlyServes: w.serves}); err != nil {
				w.t.Fatal(err)
			}
			w.keep()
			done = true
		})
	}
}

func (w *world) warn(n int, notice time.Duration) {
	for _, i := range w.rented {
		if n > 0 && !i.hasEnded() && i.Pool.Class == market.Spot && i.deadline.IsZero() {
			i.deadline = w.now.Add(notice)
			n--
		}
	}
}

// check checks what must hold at any time.
func (w *world) check() {
	w.t.Helper()
	for id, h := range w.brain.Book.hosts {
		used, granted := Size{}, Size{}
		for _, s := range w.brain.Book.On(id) {
			granted = granted.Plus(s.Size)
		}
		if used = w.brain.Book.Used(id); used != h.Used || !used.fits(granted) || !w.serves && (used != granted || !used.fits(h.Size)) {
			w.t.Fatalf("host %s of %s has given away %s, its slots add up to %s", id, h.Size, h.Used, used)
		}
	}
	for slot, host := range w.running {
		if s := w.brain.Book.byID[slot]; s == nil || s.Host != host {
			w.t.Fatalf("%s runs %s, of which the book has %+v", host, slot, s)
		}
	}
}

// bill returns the provider's bill, by machine.
func (w *world) bill() (total market.USD) {
	for _, i := range w.rented {
		history := w.history
		if i.Pool.Class == market.OnDemand {
			history = market.Constant(hostType.OnDemand)
		}
		lines, err := w.rules.Charges(market.Usage{Pool: i.Pool, Bid: i.Bid, Start: i.Launched, End: i.Ended, EndedBy: i.EndedBy}, history, w.now)
		if err != nil {
			w.t.Fatal(err)
		}
		total += market.Total(lines)
	}
	return total
}

// finish ends the hosts, and checks that nothing is left and that the bill is divided to the billionth.
func (w *world) finish() {
	w.t.Helper()
	for range 50 {
		w.inbox = append(w.inbox, elasticity.StopWanted{Why: "the test is over"})
		if w.pass(5 * time.Minute); w.outcome != "" {
			break
		}
	}
	if w.outcome == "" {
		w.t.Fatalf("the hosts do not end: %+v", w.entries[len(w.entries)-3:])
	}
	for _, i := range w.rented {
		if !i.hasEnded() {
			w.t.Errorf("%s is left", i.ID)
		}
	}
	for _, s := range w.brain.Book.Slots() {
		if !s.hasEnded() || !s.Charged {
			w.t.Errorf("slot %s of %s on %s: over %v, charged %v", s.ID, s.Job, s.Host, s.hasEnded(), s.Charged)
		}
	}
	var charged market.USD
	for _, e := range w.entries {
		if e.Kind == journal.Charge {
			usd, err := market.ParseUSD(e.USD)
			if err != nil {
				w.t.Fatal(err)
			}
			charged += usd
		}
	}
	bill, total := w.brain.Book.BillOf(charged, time.Time{}, nil), w.bill()
	sum := bill.Idle
	for _, usd := range bill.Jobs {
		sum += usd
	}
	if sum != total || w.brain.Bill().Total != total {
		w.t.Errorf("jobs and idle come to %s, the brain's bill to %s, the provider's to %s", sum, w.brain.Bill().Total, total)
	}
	if bill.Idle < -market.USD(len(w.brain.Book.slots)) {
		w.t.Errorf("the idle share is %s: slots pay more than their hosts cost", bill.Idle)
	}
}

// night is a story with two jobs, an eviction of a shared host, slots given back, and the end.
func (w *world) night() {
	w.t.Helper()
	stay, err := w.ask("a", "a-1", market.OnDemand, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err1 := w.ask("a", "a-2", market.Spot, 3)
	_, err2 := w.ask("b", "b-1", market.OnDemand, 1)
	work, err3 := w.ask("b", "b-2", market.Spot, 2)
	if err := errors.Join(err1, err2, err3); err != nil {
		w.t.Fatal(err)
	}
	w.pass(3 * time.Minute)
	serves := cores(0.5)
	w.profile("a", serves)
	again, err := w.ask("a", "a-1", market.OnDemand, 1)
	if err != nil || len(again) != 1 || again[0].ID != stay[0].ID || again[0].State != provisioner.Running {
		w.t.Fatalf("the same request gave %+v, and later %+v: %v", stay, again, err)
	}
	w.warn(1, 4*time.Minute)
	w.pass(time.Minute)
	w.pass(4 * time.Minute)
	if _, err := w.ask("a", "a-3", market.Spot, 3); err != nil {
		w.t.Fatal(err)
	}
	w.give("b", work[0].ID, work[1].ID)
	w.pass(10 * time.Minute)
	for _, i := range w.brain.Book.Of("b") {
		if i.ID == work[0].ID && (i.State != provisioner.Terminated || i.EndedBy != market.ByUser && i.Ended.After(start.Add(8*time.Minute))) {
			w.t.Errorf("a slot that was given back is %+v", i)
		}
	}
	w.give("a", stay[0].ID)
	w.pass(time.Hour)
	if got := w.brain.Book.ProfileOf("a"); !got.Equal(serves) {
		w.t.Errorf("the profile %+v has become %+v", serves, got)
	}
	w.finish()
}

func TestNightsBillAddsUp(t *testing.T) {
	for _, rules := range []string{"ec2-2017", "ec2-now", "gce-spot", "ec2-now+disk=20x0.08+address=0.005"} {
		t.Run(rules, func(t *testing.T) {
			w := newWorld(t, rules, 0)
			w.night()
			if len(w.rented) < 3 || len(w.rented) > 5 {
				t.Errorf("%d hosts were bought for 4 to 8 slots, 4 of which fit on one", len(w.rented))
			}
			bill := w.brain.Book.BillOf(w.bill(), time.Time{}, nil)
			if bill.Jobs["a"] <= 0 || bill.Jobs["b"] <= 0 || bill.Idle <= 0 {
				t.Errorf("both had slots, and hosts were not full: %+v", bill)
			}
			t.Logf("%d hosts, %d points at which a process may be killed, bill %+v", len(w.rented), w.points, bill)
		})
	}
}

// The process is killed at every point of the night, once each: no slot is granted twice or forgotten, nor is a host, and the bill adds up.
func TestEveryCrash(t *testing.T) {
	for _, rules := range []string{"ec2-2017", "ec2-now", "gce-spot"} {
		whole := newWorld(t, rules, 0)
		whole.night()
		for at := 1; at <= whole.points; at++ {
			w := newWorld(t, rules, at)
			w.night()
			if w.life != 2 {
				t.Fatalf("%s: crash %d: %d lives", rules, at, w.life)
			}
			if t.Failed() {
				t.Fatalf("%s: after a crash at point %d of %d", rules, at, whole.points)
			}
		}
		t.Logf("%s: %d crashes", rules, whole.points)
	}
}

// Random slots, evictions and crashes, with each rule book.
func TestRandomNights(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t, []string{"ec2-2017", "ec2-now", "gce-spot"}[seed%3], 0)
		var have []provisioner.Instance
		for n := range 40 {
			switch r.IntN(7) {
			case 6:
				w.serves = seed%2 == 1
				w.profile("job", cores(4*r.Float64()))
			case 0, 1:
				class := []market.Class{market.Spot, market.Spot, market.OnDemand}[r.IntN(3)]
				got, err := w.ask("job", fmt.Sprintf("job-%d", n), class, 1+r.IntN(5))
				if err != nil && !errors.Is(err, provisioner.ErrNoCapacity) {
					t.Fatal(err)
				}
				have = append(have, got...)
			case 2:
				if len(have) > 0 {
					i := r.IntN(len(have))
					w.give("job", have[i].ID)
					have = slices.Delete(have, i, i+1)
				}
			case 3:
				w.warn(1, time.Duration(r.IntN(5))*time.Minute)
			case 4:
				w.crashAt = w.points + 1 + r.IntN(40)
			case 5:
				if len(w.rented) > 0 {
					_ = w.letGo(w.rented[r.IntN(len(w.rented))].ID) // some are gone
				}
			}
			w.pass(time.Duration(1+r.IntN(30)) * time.Minute)
		}
		w.crashAt = 0
		w.finish()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A slot does not pay for an hour in which the provider takes its host back after the slot's end, and pays its share of one that stays.
func TestHoursAreSettledWhenTheyEnd(t *testing.T) {
	for _, taken := range []bool{true, false} {
		w := newWorld(t, "ec2-2017", 0)
		got, err := w.ask("a", "a-1", market.Spot, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.ask("b", "b-1", market.Spot, 1); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
		w.give("a", got[0].ID)
		w.pass(10 * time.Minute)
		if cost := w.brain.Book.Of("a")[0].Cost; cost != nil {
			t.Errorf("charged %s in an hour that may still be free", cost)
		}
		if taken {
			w.warn(1, 5*time.Minute)
		}
		w.pass(50 * time.Minute)
		slot := w.brain.Book.byID[got[0].ID]
		share := 0.5 * (2./8 + 3000./15000) * slot.Ended.Sub(slot.Placed).Hours() / 7
		if taken {
			share = 0
		}
		cost := w.brain.Book.Of("a")[0].Cost
		if cost == nil || float64(*cost) > share*1e9 || float64(*cost) < share*1e9-2 {
			t.Errorf("taken back: %v; a slot of %s cost %v, want %.9f rounded down", taken, slot.Ended.Sub(slot.Placed), cost, share)
		}
		w.finish()
	}
}

// Slots that fill a host pay its whole bill, except for rounding.
func TestFullHostsSlotsPayItsWholeBill(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		host := Size{VCPU: 1 + r.IntN(96), MemoryMiB: 1 + r.Int64N(400_000), GPUs: r.IntN(9)}
		length := time.Duration(1+r.IntN(100_000)) * time.Second
		charges := []market.Charge{
			{From: start, To: start.Add(length / 2), Amount: market.USD(r.Int64N(1e12))}, {From: start.Add(length / 2), To: start.Add(length), Amount: market.USD(r.Int64N(1e9))},
			{From: start, To: start.Add(length), Free: true},
		}
		var slots int
		var paid market.USD
		for left := host; left != (Size{}); slots++ {
			part := Size{r.IntN(left.VCPU + 1), r.Int64N(left.MemoryMiB + 1), r.IntN(left.GPUs + 1)}
			if slots > 20 {
				part = left
			}
			cut := start.Add(time.Duration(r.Int64N(int64(length))))
			paid += Share(part, host, 0, start.Add(-time.Hour), cut, charges) + Share(part, host, 0, cut, start.Add(length+time.Hour), charges)
			left = left.Minus(part)
		}
		if total := market.Total(charges); paid > total || paid < total-market.USD(4*slots) {
			t.Fatalf("%d slots of a full host pay %s of %s", slots, paid, total)
		}
	}
}
