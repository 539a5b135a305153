package elasticity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// The provider launches machines but its answer is lost; their agents never call either. A listing shows them: they are ended, and are on
// the bill.
func TestUnknownMachinesAreEnded(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(seed, six())
		w.cloud.lost = w.now.Add(4 * time.Second)
		finish(t, w, "finished")
		strays := 0
		for _, e := range w.entries {
			if e.Kind == journal.Terminated && strings.Contains(e.Why, "reported as failed") {
				strays++
			}
		}
		if strays < 6 {
			t.Errorf("seed %d: %d machines whose launch was lost were ended, want 6 and more", seed, strays)
		}
	}
}

// A run does not end while a launch may have bought something unseen: here it is listed twenty seconds later.
func TestEndWaitsForUnconfirmedLaunches(t *testing.T) {
	w := newWorld(1, six())
	w.cloud.hidden, w.cloud.lost = 20*time.Second, w.now.Add(3*time.Second)
	finish(t, w, "finished")
}

// lone returns a controller with only one reliable machine.
func lone(t *testing.T) (c *Controller, step func(Event) []Action, id ps.ServerID) {
	t.Helper()
	w := newWorld(1, plain())
	now := epoch
	step = func(e Event) []Action {
		now = now.Add(20 * time.Second)
		if l, ok := e.(Listed); ok {
			l.Asked = now
			e = l
		}
		return slices.Clone(w.ctrl.Step(now, e))
	}
	var token string
	for _, a := range step(Wake{}) {
		if l, ok := a.(Launch); ok {
			token = l.Request.Token
		}
	}
	step(Launched{Token: token, Instances: []provisioner.Instance{{ID: "i-1", Pool: reliablePool, Token: token, State: provisioner.Running, Launched: now}}})
	return w.ctrl, step, "i-1"
}

// actions returns the actions of a type.
func actions[A Action](all []Action) (out []A) {
	for _, a := range all {
		if it, ok := a.(A); ok {
			out = append(out, it)
		}
	}
	return out
}

// A silent machine that the provider no longer lists is gone; but not at the first look.
func TestMachinesUnknownToTheProviderAreGone(t *testing.T) {
	c, step, id := lone(t)
	for look := range 4 {
		if c.training.Nodes.ByID[id].Ended {
			t.Fatalf("gone after %d looks", look)
		}
		step(Listed{})
	}
	if m := c.fleet.Roster.ByID[id]; !m.Ended || m.EndedBy != market.ByUser {
		t.Errorf("nobody lists it, and it is %+v", m)
	}
}

// Ends are final: an outdated listing only makes the controller end the machine again.
func TestTerminalStatesAreNotOverwritten(t *testing.T) {
	c, step, id := lone(t)
	machine := provisioner.Instance{ID: provisioner.InstanceID(id), Pool: reliablePool, Token: c.fleet.Roster.ByID[id].Token}
	ended := machine
	ended.State, ended.Ended, ended.EndedBy = provisioner.Terminated, epoch.Add(time.Minute), market.ByProvider
	step(InstanceEnded{Instance: ended})
	at := c.fleet.Roster.ByID[id].EndedAt
	machine.State = provisioner.Running
	got := actions[Terminate](step(Listed{Instances: []provisioner.Instance{machine}}))
	if len(got) != 1 || got[0].IDs[0] != machine.ID {
		t.Errorf("it is listed as running after its end, and %+v follows", got)
	}
	ended.Ended, ended.EndedBy = epoch.Add(time.Hour), market.ByUser
	step(InstanceEnded{Instance: ended})
	if m := c.fleet.Roster.ByID[id]; !m.Ended || !m.EndedAt.Equal(at) || m.EndedBy != market.ByProvider {
		t.Errorf("its end has moved: %+v", m)
	}
}

// A machine of the run that belongs to no launch is ended, once.
func TestUnlaunchedMachinesInAListingAreEndedOnce(t *testing.T) {
	c, step, id := lone(t)
	known := provisioner.Instance{ID: provisioner.InstanceID(id), Pool: reliablePool, Token: c.fleet.Roster.ByID[id].Token, State: provisioner.Running}
	all := []provisioner.Instance{known, {ID: "i-9", Pool: poolA, Token: "someone-7", State: provisioner.Running}}
	ends := 0
	for range 2 {
		for _, a := range actions[Terminate](step(Listed{Instances: all})) {
			if a.IDs[0] == "i-9" {
				ends++
			}
		}
	}
	if ends != 1 {
		t.Errorf("it was ended %d times, want once", ends)
	}
}

// A machine whose end the previous controller saw is listed as running: by the first look at the provider or by a later one, with its bill
// written or not. It is ended again, and the recorded end stays.
func TestEndsBeforeATakeOverAreNotOverwritten(t *testing.T) {
	for _, charged := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			w := newWorld(1, plain())
			token, ended := "earlier-1", epoch.Add(time.Minute)
			entries := []journal.Entry{
				{T: epoch, Kind: journal.Intent, Token: token, Tier: "reliable", Pool: reliablePool.String(), Count: 1},
				{T: epoch, Kind: journal.Launch, Token: token, Tier: "reliable", Instance: "i-1", Pool: reliablePool.String(), Launched: &epoch},
				{T: ended, Kind: journal.Failed, Instance: "i-1", Pool: reliablePool.String(), Ended: &ended, EndedBy: "user", Why: fleet.NotListed},
			}
			if charged {
				entries = append(entries, fleet.ChargeEntry("i-1", reliablePool, market.Charge{From: epoch, To: ended, Amount: 1}))
			}
			past, err := ReadPast(entries)
			if err != nil {
				t.Fatal(err)
			}
			cfg := w.ctrl.cfg
			cfg.Past = past
			c, now := New(cfg), epoch.Add(2*time.Minute)
			listed := Listed{Instances: []provisioner.Instance{{ID: "i-1", Pool: reliablePool, Token: token, State: provisioner.Running, Launched: epoch}}}
			looks := []Listed{{}, listed}
			if first {
				looks = []Listed{listed, {}}
			}
			ends, lines := 0, 0
			for _, look := range looks {
				now = now.Add(5 * time.Second)
				look.Asked = now
				for _, a := range c.Step(now, look) {
					switch a := a.(type) {
					case Terminate:
						if slices.Contains(a.IDs, "i-1") {
							ends++
						}
					case Record:
						if a.Entry.Instance == "i-1" && a.Entry.Kind != journal.Charge {
							lines++
						}
					}
				}
			}
			if ends != 1 || lines != 0 {
				t.Errorf("bill written %v, listed at the first look %v: ended %d times, %d lines more about it", charged, first, ends, lines)
			}
		}
	}
}

// A purchase whose first answer was lost and that was denied afterwards may have bought something: the run does not end before the provider
// has been queried a minute later, and machines that appear are ended.
func TestTheEndWaitsAfterADenialThatIsNotDefinite(t *testing.T) {
	for _, unsure := range []bool{false, true} {
		w := newWorld(1, plain())
		now, token, finished := epoch, "", 0
		step := func(after time.Duration, e Event) (out []Action) {
			now = now.Add(after)
			if l, ok := e.(Listed); ok {
				l.Asked = now
				e = l
			}
			out = slices.Clone(w.ctrl.Step(now, e))
			finished += len(actions[Finish](out))
			return out
		}
		for _, a := range actions[Launch](step(0, Wake{})) {
			token = a.Request.Token
		}
		step(time.Second, Listed{})
		step(time.Second, LaunchFailed{Token: token, Err: provisioner.ErrDenied, Unsure: unsure})
		step(time.Second, StopWanted{Why: "enough", Now: true})
		step(time.Second, Listed{})
		if (finished == 1) == unsure {
			t.Fatalf("unsure %v: finished %d times at once", unsure, finished)
		}
		if !unsure {
			continue
		}
		i := provisioner.Instance{ID: "i-1", Pool: reliablePool, Token: token, State: provisioner.Running, Launched: now}
		if gone := actions[Terminate](step(fleet.SettleTime/2, Listed{Instances: []provisioner.Instance{i}})); len(gone) != 1 {
			t.Fatalf("it turns up, and %+v follows", gone)
		}
		i.State, i.Ended, i.EndedBy = provisioner.Terminated, now.Add(time.Second), market.ByUser
		step(2*time.Second, InstanceEnded{Instance: i})
		step(fleet.SettleTime, Listed{Instances: []provisioner.Instance{i}})
		step(3*time.Hour, Wake{})
		if finished != 1 || !w.ctrl.fleet.Roster.ByID["i-1"].Charged {
			t.Errorf("it has ended: finished %d times, %+v", finished, w.ctrl.fleet.Roster.ByID["i-1"])
		}
	}
}
