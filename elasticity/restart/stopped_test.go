package restart

import (
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// A controller that is stopped, however long, while agents have yet to call, or call again, gives up none when it continues, and buys
// nothing; an agent that never calls is given up later.
func TestRunThatWasStopped(t *testing.T) {
	for _, again := range []bool{false, true} { // agents have yet to call again, after one of the fleet was lost
		for _, stopped := range []time.Duration{time.Second, 12 * time.Second, 2 * time.Minute, 20 * time.Minute} {
			zone := "ra"
			th := newTheatre(t, inZone(&zone), func(c *Config, _ *elasticity.Config) { c.BootWithin = 8 * time.Second })
			th.clock()
			th.slow = map[bool]int{false: 1, true: 2}[again]
			th.end("i-1", market.ByProvider)
			th.wait(3 * time.Second)
			before := len(th.entries)
			th.now = th.now.Add(stopped)
			th.tell(elasticity.Wake{})
			th.wait(3 * time.Second)
			for _, e := range th.entries[before:] {
				if e.Kind == journal.Failed || e.Kind == journal.Intent || e.Kind == journal.Rollback {
					t.Fatalf("again: %v, stopped for %v: %+v", again, stopped, e)
				}
			}
			if len(th.order) != 3 || th.agents["i-2"].dead || th.agents["i-3"].dead {
				t.Fatalf("again: %v, stopped for %v: machines %v", again, stopped, th.order)
			}
			th.wait(15 * time.Second) // no agent calls: now one is given up
			if late := th.late[0]; !th.agents[late].dead {
				t.Errorf("again: %v, stopped for %v: %s never called and lives", again, stopped, late)
			}
		}
	}
}
