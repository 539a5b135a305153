package elasticity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// The provider launches machines and its answer is lost; their agents never call either. A listing shows them: they are ended,
// and are on the bill.
func TestMachinesThatNobodyKnowsAreEnded(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(seed, six())
		w.cloud.lost = w.now.Add(4 * time.Second)
		finish(t, w, "finished")
		strays := 0
		for _, e := range w.entries {
			if e.Kind == journal.Terminated && strings.Contains(e.Why, "said to have failed") {
				strays++
			}
		}
		if strays < 6 {
			t.Errorf("seed %d: %d machines whose launch was lost were ended, want 6 and more", seed, strays)
		}
	}
}

// A run does not end while a launch may have bought something that nobody has seen: here it is listed twenty seconds later.
func TestTheEndWaitsForWhatMayTurnUp(t *testing.T) {
	w := newWorld(1, six())
	w.cloud.hidden, w.cloud.lost = 20*time.Second, w.now.Add(3*time.Second)
	finish(t, w, "finished")
}

// lone is a controller with one reliable machine, and nobody else.
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

// actions gives those of a kind.
func actions[A Action](all []Action) (out []A) {
	for _, a := range all {
		if it, ok := a.(A); ok {
			out = append(out, it)
		}
	}
	return out
}

// A machine that the provider does not list any more, and that says nothing, is gone; not at the first look.
func TestMachinesThatTheProviderHasNotAreGone(t *testing.T) {
	c, step, id := lone(t)
	for look := range 4 {
		if c.machines[id].ended {
			t.Fatalf("gone after %d looks", look)
		}
		step(Listed{})
	}
	if m := c.machines[id]; !m.ended || m.endedBy != market.ByUser {
		t.Errorf("nobody lists it, and it is %+v", m)
	}
}

// What has ended stays so: a listing that is behind the times only has it ended again.
func TestTerminalStatesAreNotOverwritten(t *testing.T) {
	c, step, id := lone(t)
	machine := provisioner.Instance{ID: provisioner.InstanceID(id), Pool: reliablePool, Token: c.machines[id].token}
	ended := machine
	ended.State, ended.Ended, ended.EndedBy = provisioner.Terminated, epoch.Add(time.Minute), market.ByProvider
	step(InstanceEnded{Instance: ended})
	at := c.machines[id].endedAt
	machine.State = provisioner.Running
	got := actions[Terminate](step(Listed{Instances: []provisioner.Instance{machine}}))
	if len(got) != 1 || got[0].IDs[0] != machine.ID {
		t.Errorf("it is listed as running after its end, and %+v follows", got)
	}
	ended.Ended, ended.EndedBy = epoch.Add(time.Hour), market.ByUser
	step(InstanceEnded{Instance: ended})
	if m := c.machines[id]; !m.ended || !m.endedAt.Equal(at) || m.endedBy != market.ByProvider {
		t.Errorf("its end has moved: %+v", m)
	}
}

// A machine of the run that belongs to no launch is ended, once.
func TestStrangersInAListing(t *testing.T) {
	c, step, id := lone(t)
	known := provisioner.Instance{ID: provisioner.InstanceID(id), Pool: reliablePool, Token: c.machines[id].token, State: provisioner.Running}
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
