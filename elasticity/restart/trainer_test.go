package restart_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// commands is a custom trainer: it starts a command on each machine, which reports its progress and saves its state.
type commands struct {
	*restart.Attempts
	running []step.ID
}

type (
	start struct { // an action
		on   []step.ID
		from ps.Clock
	}
	putAway struct{}
	said    struct{ clock ps.Clock } // an event
	stored  struct{ clock ps.Clock }
)

func (start) Action()   {}
func (putAway) Action() {}
func (said) Event()     {}
func (stored) Event()   {}

func (c *commands) Begin(team []*restart.Worker, from ps.Clock) {
	for _, w := range team {
		c.running = append(c.running, w.ID)
	}
	c.Do(start{c.running, from})
	c.Trained(from, 0)
}

func (c *commands) Save(bool) { c.Do(putAway{}) }

func (c *commands) Stop(team []*restart.Worker) {
	c.running = nil
	for _, w := range team {
		if w.Staying() {
			c.Again(w)
		}
	}
}

func (c *commands) Take(e step.Event) {
	switch e := e.(type) {
	case said:
		c.Trained(e.clock, 0)
	case stored:
		c.Saved(e.clock, nil)
	}
}

func (c *commands) Advance()                  {}
func (c *commands) NextDue(func(time.Time))   {}
func (c *commands) Connected(id step.ID) bool { return slices.Contains(c.running, id) }

// two wants two machines.
type two struct{ pool market.Pool }

func (two) Name() string { return "two" }

func (p two) Plan(s bidding.State) bidding.Plan {
	missing := 2
	for _, a := range s.Held {
		if !a.Warned {
			missing -= a.Count
		}
	}
	if missing <= 0 {
		return bidding.Plan{}
	}
	return bidding.Plan{Acquire: []bidding.Acquire{{Pool: p.pool, Bid: market.Dollar, Count: missing}}}
}

// A training implementation of another package runs unchanged on the fleet: a team that loses a machine restarts, with another, from its
// saved state.
func TestTrainerOfAnotherPackage(t *testing.T) {
	now := time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	pool := market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "m", Class: market.Spot}
	c := restart.New(restart.Config{
		Run: "run", Clocks: 100, Want: bidding.Want{Machines: 2}, Policy: two{pool}, Rules: rules, SaveEvery: time.Minute,
		Pools: []elasticity.Pool{{Pool: pool, Type: market.InstanceType{Name: "m", VCPU: 4, OnDemand: market.Dollar},
			History: market.NewHistory([]market.PricePoint{{At: now, Price: market.Dollar / 4}})}},
		Settings: tempo.Settings{Speed: 1, BootWithin: 10 * time.Minute, PlanEvery: time.Hour},
	}, func(a *restart.Attempts) restart.Trainer { return &commands{Attempts: a} })
	var begun []start
	saves := 0
	hear := func(e elasticity.Event) (launched []provisioner.Request) {
		now = now.Add(time.Second)
		for _, a := range c.Step(now, e) {
			switch a := a.(type) {
			case start:
				begun = append(begun, a)
			case putAway:
				saves++
			case elasticity.Launch:
				launched = append(launched, a.Request)
			}
		}
		return launched
	}
	got := func(requests []provisioner.Request, ids ...provisioner.InstanceID) {
		e := elasticity.Launched{Token: requests[0].Token}
		for _, id := range ids {
			e.Instances = append(e.Instances, provisioner.Instance{ID: id, Pool: pool, State: provisioner.Running, Launched: now})
		}
		hear(e)
		for _, id := range ids {
			hear(elasticity.Reported{ID: ps.ServerID(id), Report: tiers.Hello{}})
		}
	}
	got(hear(elasticity.Wake{}), "i-1", "i-2")
	hear(said{7})
	now = now.Add(time.Minute)
	hear(elasticity.Wake{})
	hear(stored{8})
	hear(said{11})
	ended := provisioner.Instance{ID: "i-1", Pool: pool, State: provisioner.Terminated, Ended: now, EndedBy: market.ByProvider}
	got(hear(elasticity.InstanceEnded{Instance: ended}), "i-3")
	if len(begun) != 1 {
		t.Fatalf("it began before i-2 was there again: %+v", begun)
	}
	hear(elasticity.Reported{ID: "i-2", Report: tiers.Hello{}})
	if saves != 1 || len(begun) != 2 || begun[1].from != 8 || !slices.Equal(begun[1].on, []step.ID{"i-2", "i-3"}) {
		t.Errorf("put away %d times, begun %+v", saves, begun)
	}
	if totals := c.Totals(); totals.Rollbacks != 1 || totals.Lost != 3 || totals.Clocks != 8 {
		t.Errorf("%+v", totals)
	}
}
