package elasticity

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// The controller with a hundred agents, or with TIERML_MACHINES of them, in one process: they join together, all transient ones are
// warned together and leave, and as many come back. No clock is done twice. The log has what the longest step took; a bulk eviction of
// a thousand is to be decided in 20 ms.
func TestManyMachines(t *testing.T) {
	machines := 100
	if n, err := strconv.Atoi(os.Getenv("TIERML_MACHINES")); err == nil {
		machines = n
	}
	s := plain()
	s.transient, s.partitions, s.splits, s.clocks = machines, 64, machines+24, 30
	w := newWorld(1, s)
	w.longer = time.Hour
	w.computing = func(*node) time.Duration { return 500 * time.Millisecond }
	var steps int
	var longest, all time.Duration
	w.stepped = func(took time.Duration) {
		steps, longest, all = steps+1, max(longest, took), all+took
	}
	report := func(what string) {
		t.Logf("%s: %d steps, %v in all, the longest %v", what, steps, all.Round(time.Microsecond), longest.Round(time.Microsecond))
		steps, longest, all = 0, 0, 0
	}
	joined := 0
	w.onEntry = func(e journal.Entry) {
		switch {
		case e.Kind == journal.Join && w.nodes[ps.ServerID(e.Instance)].instance.Pool.Class == market.Spot:
			if joined++; joined == machines {
				report("all have joined")
				w.after(2*time.Second, func() {
					report("training")
					w.policy.count = 0
					w.warnTogether(4*time.Second, w.spot()...)
					report("all are warned")
					w.after(6*time.Second, func() {
						report("all have left")
						w.policy.count = machines
					})
				})
			}
		case e.Kind == journal.Rollback || e.Redone:
			t.Errorf("a warned eviction must not lose work: %s", line(e))
		}
	}
	finish(t, w, "finished")
	report("as many have come back, until the end")
	if joined != 2*machines {
		t.Errorf("%d machines joined, want %d twice", joined, machines)
	}
}

// warnTogether is evict with all notices in one step, as the driver reports them.
func (w *world) warnTogether(notice time.Duration, ids ...ps.ServerID) {
	var events []Event
	for _, id := range ids {
		n := w.nodes[id]
		n.warned, n.deadline = true, w.now.Add(notice)
		events = append(events, Warned{ID: id, Deadline: n.deadline})
		w.after(notice, func() { w.end(id, market.ByProvider, "Server.SpotInstanceTermination") })
	}
	w.step(events...)
}
