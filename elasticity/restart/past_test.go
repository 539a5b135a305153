package restart

import (
	"reflect"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A controller dies during a launch of two machines, one of which it has recorded. The next one ends that one, and queries the provider for
// the other. If it is listed, it is used. If not, the same request is sent again, and one more machine is bought. An old launch is not sent
// again.
func TestOpenLaunchesAreRequestedAgain(t *testing.T) {
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
		d := newDriver(t, inZone(&zone), func(c *Config) { c.Past, c.Run, c.AskAgain = past, "run-again", 10*time.Minute })
		d.step(after, elasticity.Wake{})
		return d
	}

	d := takeOver(time.Minute)
	if gone := one[elasticity.Terminate](d); gone.IDs[0] != "i-1" || len(done[elasticity.Launch](d)) > 0 {
		t.Errorf("before it has asked: %v", d.actions)
	}
	d.step(0, elasticity.Listed{Instances: instances[:1]})
	if again := one[elasticity.Launch](d).Request; !reflect.DeepEqual(again, sent) {
		t.Fatalf("asked again by %+v, want %+v", again, sent)
	}
	d.step(0, elasticity.Listed{Instances: instances}) // they belong to the launch, whose answer is on its way
	if len(done[elasticity.Terminate](d)) > 0 || d.c.fleet.Roster.ByID["i-2"] != nil {
		t.Errorf("before the answer: %v", d.actions)
	}
	d.step(time.Second, elasticity.Launched{Token: sent.Token, Instances: instances})
	if m := d.c.fleet.Roster.ByID["i-2"]; m == nil || !m.Staying() {
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

	for name, listed := range map[string][]provisioner.Instance{"lost": instances[:1], "listed": instances} {
		late := takeOver(time.Hour)
		late.step(0, elasticity.Listed{Instances: listed})
		l := one[elasticity.Launch](late).Request
		if l.Token == sent.Token {
			t.Errorf("%s: a launch of an hour ago is asked for again", name)
		}
		if want := 3 - len(listed); l.Count != want {
			t.Errorf("%s: %d machines are bought, want %d", name, l.Count, want)
		}
		if m := late.c.fleet.Roster.ByID["i-2"]; (m != nil && m.Staying()) != (name == "listed") {
			t.Errorf("%s: i-2 is %+v", name, m)
		}
	}
}

// What is never available is not waited for.
func TestOpenLaunchThatFails(t *testing.T) {
	zone := "ra"
	d := newDriver(t, inZone(&zone), func(c *Config) {
		c.Past = &elasticity.Past{Ledger: fleet.Ledger{Known: map[string]bool{}, Open: []fleet.PastLaunch{
			{Token: "old-1", Tier: tiers.Transient, Pool: pool("rb", market.Spot), Bid: market.Dollar, Count: 2, Asked: 2, At: start}}}}
		c.AskAgain = time.Minute
	})
	d.step(time.Second, elasticity.Wake{})
	d.step(0, elasticity.Listed{})
	if l := one[elasticity.Launch](d); l.Request.Token != "old-1" {
		t.Fatalf("asked for %+v", l)
	}
	d.step(time.Second, elasticity.LaunchFailed{Token: "old-1", Err: provisioner.ErrInvalid})
	if l := one[elasticity.Launch](d); l.Request.Pool != pool("ra", market.Spot) {
		t.Errorf("then asked for %+v", l)
	}
}

// Ends are final: a machine that is listed as running afterwards is ended again, whichever controller saw its end.
func TestTerminalStatesAreNotOverwritten(t *testing.T) {
	zone := "ra"
	d := newDriver(t, inZone(&zone))
	d.step(0, elasticity.Wake{})
	sent := one[elasticity.Launch](d).Request
	i := provisioner.Instance{ID: "i-1", Pool: sent.Pool, Token: sent.Token, State: provisioner.Running, Launched: d.now}
	other := i
	other.ID = "i-2"
	d.step(time.Second, elasticity.Launched{Token: sent.Token, Instances: []provisioner.Instance{i, other}})
	ended := i
	ended.State, ended.Ended, ended.EndedBy = provisioner.Terminated, d.now.Add(time.Minute), market.ByProvider
	d.step(2*time.Minute, elasticity.InstanceEnded{Instance: ended})
	again := func(d *driver) {
		t.Helper()
		lines := len(d.entries)
		d.step(time.Second, elasticity.Listed{Instances: []provisioner.Instance{i, other}})
		gone := 0
		for _, a := range done[elasticity.Terminate](d) {
			if a.IDs[0] == i.ID {
				gone++
			}
		}
		for _, e := range d.entries[lines:] {
			if e.Instance == string(i.ID) {
				t.Errorf("its end is written down; then %+v", e)
			}
		}
		if gone != 1 {
			t.Errorf("it was ended %d times, want once", gone)
		}
	}
	again(d)
	for _, charged := range []bool{false, true} {
		entries := d.entries
		if charged {
			entries = append(entries, fleet.ChargeEntry("i-1", i.Pool, market.Charge{From: i.Launched, To: ended.Ended, Amount: 1}))
		}
		past, err := elasticity.ReadPast(entries)
		if err != nil {
			t.Fatal(err)
		}
		next := newDriver(t, inZone(&zone), func(c *Config) { c.Past, c.Run = past, "run-again" })
		next.step(3*time.Minute, elasticity.Wake{})
		again(next)
	}
}

// Agents whose controller is gone end by themselves after a while. The next controller finds their machines gone, whether their launch was
// recorded or not, and does not count this as a crash.
func TestOrphansAreNoCrashes(t *testing.T) {
	zone := "ra"
	past := &elasticity.Past{Ledger: fleet.Ledger{Known: map[string]bool{}}}
	var listed []provisioner.Instance
	for _, id := range []string{"i-1", "i-2", "i-3", "i-4"} {
		i := provisioner.Instance{ID: provisioner.InstanceID(id), Pool: pool("ra", market.Spot), Token: "old-" + id,
			State: provisioner.Running, Launched: start.Add(-time.Hour)}
		if id != "i-4" {
			past.Known[id] = true
			past.Machines = append(past.Machines, fleet.PastMachine{Instance: i})
		} else {
			past.Open = append(past.Open, fleet.PastLaunch{Token: i.Token, Pool: i.Pool, Count: 1, Asked: 1, At: start.Add(-2 * time.Hour)})
		}
		i.State, i.Ended, i.EndedBy = provisioner.Terminated, start.Add(-10*time.Minute), market.ByUser
		listed = append(listed, i)
	}
	d := newDriver(t, inZone(&zone), func(c *Config) { c.Past = past })
	d.step(time.Second, elasticity.Wake{})
	d.step(time.Second, elasticity.InstanceEnded{Instance: listed[0]})
	d.step(time.Second, elasticity.Listed{Instances: listed})
	for _, i := range listed {
		if m := d.c.fleet.Roster.ByID[ps.ServerID(i.ID)]; m == nil || !m.Ended {
			t.Errorf("%s: %+v", i.ID, m)
		}
	}
	if d.c.fleet.Crashes().Hold() {
		t.Error("machines that lost their controller hold purchases back")
	}
}
