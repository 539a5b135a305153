package restart

import (
	"reflect"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A controller dies with a launch of two under way, of which it has written one machine down. The next one sends the same
// request, takes the other machine, ends the first, and buys one more. A launch of long ago it does not send again.
func TestOpenLaunchesAreAskedForAgain(t *testing.T) {
	zone := "ra"
	before := newDriver(t, inZone(&zone))
	before.step(0, elasticity.Wake{})
	sent := one[elasticity.Launch](before).Request
	instances := []provisioner.Instance{
		{ID: "i-1", Pool: sent.Pool, Token: sent.Token, State: provisioner.Running, Launched: before.now},
		{ID: "i-2", Pool: sent.Pool, Token: sent.Token, State: provisioner.Running, Launched: before.now},
	}
	entries := append(before.entries, journal.Entry{T: before.now, Kind: journal.Launch, Token: sent.Token, Instance: "i-1", Tier: "transient",
		Pool: sent.Pool.String(), Launched: &before.now})
	takeOver := func(after time.Duration) *driver {
		past, err := elasticity.ReadPast(entries)
		if err != nil {
			t.Fatal(err)
		}
		d := newDriver(t, inZone(&zone))
		d.c.cfg.Past, d.c.cfg.Run, d.c.cfg.AskAgain = past, "run-again", 10*time.Minute
		d.step(after, elasticity.Wake{})
		return d
	}

	d := takeOver(time.Minute)
	if again := one[elasticity.Launch](d).Request; !reflect.DeepEqual(again, sent) {
		t.Fatalf("asked again by %+v, want %+v", again, sent)
	}
	if gone := one[elasticity.Terminate](d); gone.IDs[0] != "i-1" {
		t.Errorf("terminated %v", gone.IDs)
	}
	d.step(0, elasticity.Listed{Instances: instances}) // they are the launch's: its answer is on its way
	if len(done[elasticity.Terminate](d)) > 0 || d.c.machines["i-2"] != nil {
		t.Errorf("before the answer: %v", d.actions)
	}
	d.step(time.Second, elasticity.Launched{Token: sent.Token, Instances: instances})
	if m := d.c.machines["i-2"]; m == nil || !m.staying() {
		t.Fatalf("the machine that nobody had seen: %+v", m)
	}
	more := one[elasticity.Launch](d).Request
	if more.Count != 1 || more.Token == sent.Token {
		t.Errorf("bought %+v, want one more", more)
	}
	d.step(0, elasticity.Launched{Token: more.Token, Instances: []provisioner.Instance{
		{ID: "i-3", Pool: more.Pool, Token: more.Token, State: provisioner.Running, Launched: d.now}}})
	d.step(0, elasticity.Reported{ID: "i-2", Report: tiers.Hello{}})
	d.step(0, elasticity.Reported{ID: "i-3", Report: tiers.Hello{}})
	if train := one[elasticity.Train](d); !reflect.DeepEqual(train.Machines, []ps.ServerID{"i-2", "i-3"}) {
		t.Errorf("%v train", train.Machines)
	}
	launched := 0
	for _, e := range d.entries {
		if e.Kind == journal.LaunchFailed {
			t.Errorf("%+v: it gave all that were missing", e)
		}
		if e.Kind == journal.Launch {
			launched++
		}
	}
	if launched != 2 {
		t.Errorf("%d launches are written down, want those of i-2 and i-3", launched)
	}

	late := takeOver(time.Hour)
	if l := one[elasticity.Launch](late).Request; l.Token == sent.Token {
		t.Error("a launch of an hour ago is asked for again")
	}
	late.step(0, elasticity.Listed{Instances: instances})
	if gone := one[elasticity.Terminate](late); gone.IDs[0] != "i-2" {
		t.Errorf("terminated %v, want what nobody has written down", gone.IDs)
	}
}

// What can never be had is not waited for.
func TestOpenLaunchThatFails(t *testing.T) {
	zone := "ra"
	d := newDriver(t, inZone(&zone))
	d.c.cfg.Past = &elasticity.Past{Known: map[string]bool{}, Open: []elasticity.PastLaunch{
		{Token: "old-1", Tier: tiers.Transient, Pool: pool("rb", market.Spot), Bid: market.Dollar, Count: 2, Asked: 2, At: start}}}
	d.c.cfg.AskAgain = time.Minute
	d.step(time.Second, elasticity.Wake{})
	if l := one[elasticity.Launch](d); l.Request.Token != "old-1" {
		t.Fatalf("asked for %+v", l)
	}
	d.step(time.Second, elasticity.LaunchFailed{Token: "old-1", Err: provisioner.ErrInvalid})
	if l := one[elasticity.Launch](d); l.Request.Pool != pool("ra", market.Spot) {
		t.Errorf("then asked for %+v", l)
	}
}
