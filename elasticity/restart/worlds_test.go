package restart

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

func worldly(c *Config, train *elasticity.Config) {
	everyTenSeconds(c, train)
	c.BootWithin = 8 * time.Second
}

// list reports the provider's machines.
func (th *theatre) list() {
	var all []provisioner.Instance
	for _, id := range th.order {
		if a := th.agents[id]; !a.dead {
			i := a.instance
			i.State = provisioner.Running
			all = append(all, i)
		}
	}
	th.tell(elasticity.Listed{Instances: all, Asked: th.now})
}

// again restarts the controller from its journal, as `tierml run --resume` does.
func (th *theatre) again(zone *string, life int) {
	th.t.Helper()
	past, err := elasticity.ReadPast(th.entries)
	if err != nil {
		th.t.Fatal(err)
	}
	fresh := closedTheatre(th.t, inZone(zone), func(c *Config, train *elasticity.Config) {
		worldly(c, train)
		c.Run, c.Past, c.AskAgain = fmt.Sprintf("run-%d", life), past, time.Minute
		train.FirstID, train.Checkpoints.Life = uint64(life)<<32, fmt.Sprint(life)
		for _, e := range th.lines(journal.Checkpoint) {
			c.ResumeAt, train.Job.ResumeAt, train.Job.ResumeFrom = ps.Clock(e.Clock), ps.Clock(e.Clock), e.Model
		}
	})
	th.r = fresh.r
	th.tell(elasticity.Wake{})
	th.list()
}

// Whatever happens, an attempt begins at the newest checkpoint, its clocks follow each other, repeated ones are reported as such, and when
// calm returns the work is done, no machine is left, and every machine has a bill.
func TestRandomWorlds(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			zone := "ra"
			th := newTheatre(t, inZone(&zone), worldly)
			for life := 2; th.outcome == "" && life < 40; life++ {
				th.disturb(r, &zone, life)
			}
			for range 60 {
				if th.outcome == "" {
					th.clock()
					th.wait(2 * time.Second)
					th.list()
					th.tell(elasticity.PricesKnown{At: th.now})
				}
			}
			if th.outcome != "finished" {
				t.Fatalf("the run is %q; the last line: %+v", th.outcome, th.entries[len(th.entries)-1])
			}
			th.check()
		})
	}
}

// disturb makes something happen.
func (th *theatre) disturb(r *rand.Rand, zone *string, life int) {
	id := th.order[r.IntN(len(th.order))]
	switch a := th.agents[id]; r.IntN(12) {
	case 0:
		th.tell(elasticity.Warned{ID: id, Deadline: th.now.Add(5 * time.Second)})
		th.wait(time.Duration(r.IntN(5)) * time.Second)
		th.end(id, market.ByProvider)
	case 1:
		th.end(id, market.ByProvider)
	case 2:
		a.mute = true // permanently: messages to it are lost
	case 3:
		th.tell(elasticity.Disconnected{ID: id})
	case 4:
		*zone = map[string]string{"ra": "rb", "rb": "ra"}[*zone]
		th.tell(elasticity.PriceChanged{Pool: pool(*zone, market.Spot), At: th.now, Price: market.Dollar / market.USD(5+r.IntN(9))})
	case 5:
		if r.IntN(4) == 0 {
			th.again(zone, life)
		}
	case 6:
		th.now = th.now.Add(time.Duration(r.IntN(60)) * time.Second)
		th.tell(elasticity.Wake{})
	case 7:
		th.list()
	case 8:
		th.tell(elasticity.Reported{ID: id, Report: tiers.Warned{Deadline: th.now.Add(time.Minute)}})
	default:
		for range r.IntN(3) {
			th.clock()
		}
		th.wait(time.Duration(r.IntN(12)) * time.Second)
	}
}

// check reads the journal of a run that has ended.
func (th *theatre) check() {
	th.t.Helper()
	var saved, at, reached int64
	open := map[string]bool{}
	for _, e := range th.entries {
		switch e.Kind {
		case journal.Launch:
			open[e.Instance] = true
		case journal.Charge:
			delete(open, e.Instance)
		case journal.Join:
			if e.Clock != saved {
				th.t.Errorf("%s joins at clock %d, the newest checkpoint is at %d", e.Instance, e.Clock, saved)
			}
			at = saved
		case journal.ClockDone:
			if e.Clock != at+1 || e.Redone != (e.Clock <= reached) {
				th.t.Errorf("clock %d after %d, done again: %v, the highest was %d", e.Clock, at, e.Redone, reached)
			}
			at, reached = e.Clock, max(reached, e.Clock)
		case journal.Checkpoint:
			saved = e.Clock
		case journal.Rollback:
			if e.Clock != saved {
				th.t.Errorf("back to clock %d, the newest checkpoint is at %d", e.Clock, saved)
			}
		}
	}
	for _, id := range th.order {
		if !th.agents[id].dead {
			th.t.Errorf("%s is left", id)
		}
		if open[string(id)] {
			th.t.Errorf("%s has no bill", id)
		}
	}
}
