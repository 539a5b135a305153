package restart

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

var start = time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)

var kind = market.InstanceType{Name: "m", VCPU: 4, OnDemand: market.Dollar}

func pool(zone string, class market.Class) market.Pool {
	return market.Pool{Provider: "ec2", Region: "r", Zone: zone, Type: "m", Class: class}
}

// scripted is a policy that answers with plans set by a test.
type scripted struct {
	plan func(bidding.State) bidding.Plan
}

func (scripted) Name() string                        { return "scripted" }
func (p scripted) Plan(s bidding.State) bidding.Plan { return p.plan(s) }

// driver simulates a controller's world, step by step.
type driver struct {
	t        *testing.T
	c        *Controller
	now      time.Time
	actions  []elasticity.Action // of the last step
	entries  []journal.Entry
	machines int
}

func newDriver(t *testing.T, policy bidding.Policy, change ...func(*Config)) *driver {
	t.Helper()
	return &driver{t: t, now: start, c: New(config(t, policy, change...), Driven)}
}

// config is for a run that wants two machines, with pools in two zones.
func config(t *testing.T, policy bidding.Policy, change ...func(*Config)) Config {
	t.Helper()
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	price := func() *market.History {
		return market.NewHistory([]market.PricePoint{{At: start.Add(-time.Hour), Price: market.Dollar / 4}})
	}
	c := Config{
		Run: "run", Clocks: 100, Want: bidding.Want{Machines: 2}, Policy: policy, Rules: rules,
		Pools: []elasticity.Pool{
			{Pool: pool("ra", market.Spot), Type: kind, History: price()},
			{Pool: pool("rb", market.Spot), Type: kind, History: price()},
		},
		Job:      bidding.Job{Work: 100, SaveTime: 10 * time.Second},
		Settings: tempo.Settings{Speed: 1, BootWithin: 10 * time.Minute, RetryCapacity: 10 * time.Minute, PlanEvery: time.Hour},
	}
	for _, change := range change {
		change(&c)
	}
	return c
}

// step reports an event after a time and keeps the resulting actions; the controller must always want to be woken later.
func (d *driver) step(after time.Duration, e elasticity.Event) {
	d.t.Helper()
	d.now = d.now.Add(after)
	d.actions = d.c.Step(d.now, e)
	for _, a := range d.actions {
		if r, ok := a.(elasticity.Record); ok {
			if err := r.Entry.Validate(); err != nil {
				d.t.Error(err)
			}
			d.entries = append(d.entries, r.Entry)
		}
	}
	if d.c.step.Outcome == "" && !d.c.NextWake().After(d.now) {
		d.t.Errorf("at %s it wants to be woken at %s", d.now, d.c.NextWake())
	}
}

// done returns the last step's actions of a kind.
func done[A elasticity.Action](d *driver) (out []A) {
	for _, a := range d.actions {
		if a, ok := a.(A); ok {
			out = append(out, a)
		}
	}
	return out
}

// one returns the only action of a kind.
func one[A elasticity.Action](d *driver) A {
	d.t.Helper()
	out := done[A](d)
	if len(out) != 1 {
		d.t.Fatalf("%d actions %T, want one of %v", len(out), *new(A), d.actions)
	}
	return out[0]
}

// give answers a launch with count machines, which boot at once.
func (d *driver) give(l elasticity.Launch, count int) (ids []ps.ServerID) {
	d.t.Helper()
	var instances []provisioner.Instance
	for range count {
		d.machines++
		id := fmt.Sprintf("i-%d", d.machines)
		ids = append(ids, ps.ServerID(id))
		instances = append(instances, provisioner.Instance{ID: provisioner.InstanceID(id), Pool: l.Request.Pool,
			Token: l.Request.Token, State: provisioner.Running, Launched: d.now})
	}
	d.step(0, elasticity.Launched{Token: l.Request.Token, Instances: instances})
	for _, id := range ids {
		d.step(0, elasticity.Reported{ID: id, Report: tiers.Hello{}})
	}
	return ids
}

// end reports that a machine is gone.
func (d *driver) end(id ps.ServerID, by market.EndedBy) {
	d.t.Helper()
	m := d.c.fleet.Roster.ByID[id]
	d.step(0, elasticity.InstanceEnded{Instance: provisioner.Instance{ID: provisioner.InstanceID(id), Pool: m.Pool,
		State: provisioner.Terminated, Launched: m.Launched, Ended: d.now, EndedBy: by}})
}

// The provider warns the machines of one eviction one after the other: the policy decides once all are known.
func TestNoticesInPartsAreOneEviction(t *testing.T) {
	zone := "ra"
	d, ids := trains(t, &zone, func(c *Config) { c.NoticeWait = 3 * time.Second })
	deadline := d.now.Add(2 * time.Minute)
	for _, id := range ids {
		d.step(time.Second, elasticity.Warned{ID: id, Deadline: deadline})
		if bought := done[elasticity.Launch](d); len(bought) > 0 {
			t.Errorf("while notices come in it buys %+v", bought)
		}
	}
	d.step(2*time.Second, elasticity.Wake{})
	if l := one[elasticity.Launch](d); l.Request.Count != 2 {
		t.Errorf("it buys %d machines for two that are warned", l.Request.Count)
	}
}

// inZone wants two machines in a zone, and a checkpoint every ten minutes.
func inZone(zone *string) bidding.Policy {
	return scripted{func(s bidding.State) bidding.Plan {
		p := bidding.Plan{SaveEvery: 10 * time.Minute}
		missing := 2
		for _, a := range s.Held {
			switch {
			case a.Warned || a.Draining:
			case a.Pool.Zone == *zone:
				missing -= a.Count
			default:
				p.Release = append(p.Release, bidding.Release{Pool: a.Pool, Why: "elsewhere"})
			}
		}
		if missing > 0 {
			p.Acquire = append(p.Acquire, bidding.Acquire{Pool: pool(*zone, market.Spot), Bid: market.Dollar, Count: missing})
		}
		return p
	}}
}

// trains makes two machines train at a clock a minute.
func trains(t *testing.T, zone *string, change ...func(*Config)) (*driver, []ps.ServerID) {
	d := newDriver(t, inZone(zone), change...)
	d.step(0, elasticity.Wake{})
	ids := d.give(one[elasticity.Launch](d), 2)
	if train := one[elasticity.Train](d); !slices.Equal(train.Machines, ids) || train.From != 0 {
		t.Fatalf("%+v", train)
	}
	d.step(time.Minute, elasticity.Trained{Clock: 0, Pace: time.Minute})
	return d, ids
}

// TestLoss: a checkpoint every ten minutes; when one machine is lost the other waits, and the next fleet continues from the
// last checkpoint.
func TestLoss(t *testing.T) {
	zone := "ra"
	d, ids := trains(t, &zone)
	d.step(10*time.Minute, elasticity.Wake{})
	one[elasticity.Save](d)
	d.step(time.Second, elasticity.Saved{Clock: 10, Model: "there"})
	d.step(0, elasticity.Trained{Clock: 10, Pace: time.Minute})
	d.step(5*time.Minute, elasticity.Warned{ID: ids[0], Deadline: d.now.Add(7 * time.Minute)})
	replacement := one[elasticity.Launch](d) // it need not wait for the end
	if replacement.Request.Count != 1 {
		t.Errorf("buys %d in place of one", replacement.Request.Count)
	}
	third := d.give(replacement, 1)
	if d.c.work.(attempting).now == nil || len(done[elasticity.Train](d)) > 0 {
		t.Error("it stopped with the notice")
	}
	d.step(2*time.Minute, elasticity.Disconnected{ID: ids[0]})
	train := one[elasticity.Train](d)
	if train.From != 10 || !slices.Equal(train.Machines, []ps.ServerID{ids[1], third[0]}) {
		t.Errorf("%+v", train)
	}
	last := d.entries[len(d.entries)-1]
	if last.Kind != journal.Rollback || last.Clock != 10 || last.LostClocks != 7 {
		t.Errorf("%+v", last)
	}
	d.end(ids[0], market.ByProvider)
	d.step(0, elasticity.Disconnected{ID: ids[0]}) // again
	if len(d.actions) > 0 {
		t.Errorf("told twice: %v", d.actions)
	}
}

// TestMove: work is saved before a fleet is given up, and only once the other is bought.
func TestMove(t *testing.T) {
	zone := "ra"
	d, ids := trains(t, &zone)
	zone = "rb"
	d.step(5*time.Minute, elasticity.PriceChanged{Pool: pool("rb", market.Spot), At: d.now, Price: market.Dollar / 5})
	l := one[elasticity.Launch](d)
	d.step(0, elasticity.LaunchFailed{Token: l.Request.Token, Err: provisioner.ErrNoCapacity})
	if d.c.work.(attempting).now == nil || d.c.work.(attempting).now.parting() {
		t.Fatal("the old fleet was given up for nothing")
	}
	again := one[elasticity.Launch](d)
	others := d.give(again, 2)
	if len(done[elasticity.Train](d)) > 0 {
		t.Error("began without the checkpoint")
	}
	d.step(10*time.Second, elasticity.Saved{Clock: 5})
	train := one[elasticity.Train](d)
	if train.From != 5 || !slices.Equal(train.Machines, others) {
		t.Errorf("%+v", train)
	}
	var gone []provisioner.InstanceID
	for _, a := range done[elasticity.Terminate](d) {
		gone = append(gone, a.IDs...)
	}
	if len(gone) != 2 || gone[0] != provisioner.InstanceID(ids[0]) {
		t.Errorf("terminated %v", gone)
	}
}

// TestEnd: the last checkpoint is the result, and the run ends when all machines have ended and been charged.
func TestEnd(t *testing.T) {
	zone := "ra"
	d, ids := trains(t, &zone)
	d.step(100*time.Minute, elasticity.Trained{Clock: 100, Pace: time.Minute})
	for range maxSaves - 1 {
		one[elasticity.Save](d)
		d.step(time.Second, elasticity.Saved{Err: errors.New("disk full")})
	}
	one[elasticity.Save](d)
	d.step(time.Second, elasticity.Saved{Clock: 100, Model: "there"})
	if len(done[elasticity.Terminate](d)) != 2 {
		t.Fatalf("%v", d.actions)
	}
	for _, id := range ids {
		d.end(id, market.ByUser)
	}
	d.step(time.Second, elasticity.PricesKnown{At: d.now})
	if f := one[elasticity.Finish](d); f.Outcome != "finished" {
		t.Errorf("%+v", f)
	}
	charges := 0
	for _, e := range d.entries {
		if e.Kind == journal.Charge {
			charges++
		}
	}
	if charges != 2 {
		t.Errorf("%d charges for two machines", charges)
	}
}

// TestStop: an orderly end saves first; an immediate one does not.
func TestStop(t *testing.T) {
	zone := "ra"
	d, _ := trains(t, &zone)
	d.step(time.Minute, elasticity.StopWanted{Why: "enough"})
	one[elasticity.Save](d)
	d.step(time.Second, elasticity.Saved{Clock: 1})
	if len(done[elasticity.Terminate](d)) != 2 || d.c.step.Outcome != "interrupted" {
		t.Errorf("%s: %v", d.c.step.Outcome, d.actions)
	}
	d, _ = trains(t, &zone)
	d.step(time.Minute, elasticity.StopWanted{Why: "enough", Now: true})
	if len(done[elasticity.Terminate](d)) != 2 || len(done[elasticity.Save](d)) != 0 {
		t.Errorf("%v", d.actions)
	}
}

// TestBudget: a run that cannot be paused ends cleanly, with its work saved.
func TestBudget(t *testing.T) {
	zone := "ra"
	d, _ := trains(t, &zone)
	d.step(time.Minute, elasticity.BudgetChanged{Do: elasticity.BudgetWarns, Why: "near"})
	if d.c.step.Stop != "" {
		t.Error("a warning ends the run")
	}
	d.step(time.Minute, elasticity.BudgetChanged{Do: elasticity.BudgetPauses, Why: "too dear"})
	one[elasticity.Save](d)
	d.step(time.Second, elasticity.Saved{Clock: 1})
	if len(done[elasticity.Terminate](d)) != 2 || d.c.step.Outcome != "interrupted" || d.c.step.Stop != "too dear" {
		t.Errorf("%s by %q: %v", d.c.step.Outcome, d.c.step.Stop, d.actions)
	}
}

// TestSilent: a machine whose agent does not call is replaced.
func TestSilent(t *testing.T) {
	zone := "ra"
	d := newDriver(t, inZone(&zone))
	d.step(0, elasticity.Wake{})
	l := one[elasticity.Launch](d)
	d.step(0, elasticity.Launched{Token: l.Request.Token, Instances: []provisioner.Instance{
		{ID: "i-1", Pool: l.Request.Pool, State: provisioner.Running, Launched: d.now},
		{ID: "i-2", Pool: l.Request.Pool, State: provisioner.Running, Launched: d.now},
	}})
	d.step(0, elasticity.Reported{ID: "i-1", Report: tiers.Hello{}})
	over := d.now.Add(10 * time.Minute)
	for d.c.NextWake().Before(over) {
		if d.step(d.c.NextWake().Sub(d.now), elasticity.Wake{}); len(d.actions) > 0 {
			t.Fatalf("after %v: %v", over.Sub(d.now), d.actions)
		}
	}
	if at := d.c.NextWake(); !at.Equal(over) {
		t.Errorf("woken at %s", at)
	}
	d.step(d.c.NextWake().Sub(d.now), elasticity.Wake{})
	if gone := one[elasticity.Terminate](d); gone.IDs[0] != "i-2" {
		t.Errorf("terminated %v", gone.IDs)
	}
	if l := one[elasticity.Launch](d); l.Request.Count != 1 {
		t.Errorf("buys %d", l.Request.Count)
	}
}

// A bid that is refused as too low reveals a price that was not reported yet: the policy decides by that price, or without it a little
// later.
func TestRefusedBidWaitsForThePrice(t *testing.T) {
	for _, reported := range []bool{true, false} {
		zone := "ra"
		d, ids := trains(t, &zone, func(c *Config) { c.JoinWait = 5 * time.Second })
		zone = "rb"
		d.step(time.Second, elasticity.Warned{ID: ids[0], Deadline: d.now.Add(2 * time.Minute)})
		l := one[elasticity.Launch](d)
		refused := elasticity.LaunchFailed{Token: l.Request.Token, Err: provisioner.ErrPriceTooLow}
		if d.step(time.Second, refused); len(done[elasticity.Launch](d)) > 0 {
			t.Fatal("it decides by a price that is none any more")
		}
		waited := time.Duration(0)
		for event := elasticity.Event(elasticity.Wake{}); len(done[elasticity.Launch](d)) == 0 && waited < 20*time.Second; waited += time.Second {
			if reported {
				event = elasticity.PriceChanged{Pool: l.Request.Pool, At: d.now, Price: market.Dollar / 3}
			}
			d.step(time.Second, event)
		}
		if again := one[elasticity.Launch](d); again.Request.Pool != l.Request.Pool || reported && waited > time.Second || waited > 5*time.Second {
			t.Errorf("reported %v: it buys in %s after %s", reported, again.Request.Pool, waited)
		}
	}
}

// TestOutbid: a price above the bid and the notices that follow lead to one decision, whichever is reported first, and however late the
// notices are. Without notices the price decides after a while.
func TestOutbid(t *testing.T) {
	for _, priceFirst := range []bool{true, false} {
		zone := "ra"
		d, ids := trains(t, &zone, func(c *Config) { c.NoticeWait, c.JoinWait = 3*time.Second, 30*time.Second })
		zone = "rb"
		price := func() {
			d.step(time.Second, elasticity.PriceChanged{Pool: pool("ra", market.Spot), At: d.now, Price: 2 * market.Dollar})
		}
		if priceFirst {
			price()
			for range 20 {
				if d.step(time.Second, elasticity.Wake{}); len(done[elasticity.Launch](d)) > 0 {
					t.Fatal("it decides without the notices")
				}
			}
		}
		for _, id := range ids {
			if d.step(time.Second, elasticity.Warned{ID: id, Deadline: d.now.Add(2 * time.Minute)}); len(done[elasticity.Launch](d)) > 0 {
				t.Fatalf("price first %v: it decides before all notices are here", priceFirst)
			}
		}
		if !priceFirst {
			price()
		}
		for range 3 {
			if d.step(time.Second, elasticity.Wake{}); len(done[elasticity.Launch](d)) > 0 {
				break
			}
		}
		if l := one[elasticity.Launch](d); l.Request.Count != 2 {
			t.Errorf("price first %v: buys %d", priceFirst, l.Request.Count)
		}
	}
	zone := "ra"
	d, _ := trains(t, &zone, func(c *Config) { c.NoticeWait, c.JoinWait = 3*time.Second, 30*time.Second })
	zone = "rb"
	d.step(time.Second, elasticity.PriceChanged{Pool: pool("ra", market.Spot), At: d.now, Price: 2 * market.Dollar})
	for waited := 0; len(done[elasticity.Launch](d)) == 0; waited++ {
		if d.step(time.Second, elasticity.Wake{}); waited > 40 {
			t.Fatal("it waits for notices that do not come")
		}
	}
}
