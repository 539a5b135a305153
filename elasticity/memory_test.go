package elasticity

import (
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// checkMemory: a restarted controller knows its predecessor's requests, and which machines it had released. Every world that kills its
// controller calls it.
func (w *world) checkMemory(before *Controller) {
	was, is := before.target, w.ctrl.target
	if was.reliable != is.reliable || was.asked != is.asked || was.asked && (was.want != is.want || was.servers != is.servers) {
		w.failf("%+v was asked for; the controller that was started again has %+v", was, is)
	}
	for _, m := range before.fleet.Roster.List {
		if now := w.ctrl.fleet.Roster.ByID[m.ID]; m.Draining && !m.Lost && !m.Ended && !m.Terminating && (now == nil || !now.Draining || now.Why != m.Why) {
			w.failf("%s had been let go (%s), and is not any more: %+v", m.ID, m.Why, now)
		}
	}
	if s := before.fleet.Switching; s != nil && (w.ctrl.fleet.Switching == nil || *w.ctrl.fleet.Switching != *s) {
		w.failf("a switch is under way, %+v, and forgotten: %+v", s, w.ctrl.fleet.Switching)
	}
}

// A `tierml scale` request holds when the controller is killed and restarted, until the next request: machines that the provider takes
// meanwhile are replaced up to that number, not the job's.
func TestARequestOutlivesItsController(t *testing.T) {
	for seed := range uint64(6) {
		var after Scale
		w := newElastic(seed, elastic(), func(w *world) {
			w.ask(-2, 1)
			w.when(func() bool { return w.grown(4) && len(w.scaled) == 2 }, func() {
				w.killController(time.Second)
				w.evict(3*time.Second, w.spot()[3])
				w.when(func() bool { return w.count(journal.TakeOver) == 1 && w.grown(4) && len(w.spot()) == 4 }, func() { after = w.ctrl.Scale() })
			})
		})
		w.neverBack()
		finish(t, w, "finished")
		if after.Workers != 4 || after.Want.Machines != 4 || after.Servers != 4 || after.WantServers != 4 {
			t.Errorf("seed %d: afterwards %+v, want 4 and 4 as asked for", seed, after)
		}
	}
}

// A proactive switch continues, at whatever step the controller is killed: machines of the old pool work to the end of their paid time, and
// are then released.
func TestASwitchOutlivesItsController(t *testing.T) {
	at := map[string]func(w *world) bool{
		"before the launch is answered":   func(w *world) bool { return w.ctrl.fleet.Switching != nil },
		"while the new machines start":    func(w *world) bool { return w.ctrl.fleet.Switching != nil && len(w.spot()) > 6 },
		"when the old ones have been let": func(w *world) bool { return w.count(journal.Release) > 0 },
	}
	for name, point := range at {
		t.Run(name, func(t *testing.T) {
			s := six()
			s.clocks = 95
			schedule(t, s, func(w *world) func() bool {
				killed, switched := false, false
				w.settled(func() {
					w.policy.pool = poolB
					w.when(func() bool { return point(w) }, func() {
						killed = true
						w.killController(time.Second)
						w.when(func() bool { return w.count(journal.TakeOver) == 1 && len(w.of(poolA)) == 0 && len(w.of(poolB)) == 6 }, func() { switched = true })
					})
				})
				return func() bool {
					if killed && !switched {
						t.Errorf("%d machines of the old pool, %d of the new", len(w.of(poolA)), len(w.of(poolB)))
					}
					return switched
				}
			})
		})
	}
}

// of returns the running machines of a pool.
func (w *world) of(p market.Pool) (ids []ps.ServerID) {
	for _, id := range w.spot() {
		if w.nodes[id].instance.Pool == p {
			ids = append(ids, id)
		}
	}
	return ids
}

// The stage selected by load stays, and so does the number of times it fell.
func TestLoadOutlivesItsController(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(seed, even())
		w.ctrl.configure(func(c *Config) { c.Reliable.Type.Bandwidth = full })
		w.traffic = func(n *node) (in, out float64) {
			if w.reliable(n) && w.ctrl.training.Layout.OwnsAny(n.id) {
				return 0.3 * full, 0.9 * full
			}
			return 0.25 * full, 0.3 * full
		}
		var before, after tiers.Stage
		w.when(func() bool {
			return w.ctrl.training.Layout.Stage == tiers.Stage2 && len(w.ctrl.training.Layout.Moves) == 0
		}, func() {
			before = w.ctrl.training.Load.Gauge.Floor()
			w.killController(time.Second)
			w.when(func() bool { return w.count(journal.TakeOver) == 1 }, func() {
				w.after(2*time.Second, func() { after = min(w.ctrl.training.Load.Gauge.Floor(), w.ctrl.training.Layout.Stage) })
			})
		})
		w.neverBack()
		finish(t, w, "finished")
		if before != tiers.Stage2 || after != tiers.Stage2 {
			t.Errorf("seed %d: load asked for stage %d, afterwards for stage %d", seed, before, after)
		}
	}
	past, err := ReadPast([]journal.Entry{{Kind: journal.Stage, To: "3", Details: []byte(`{"floor":2,"falls":3,"load":"full"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := newWorld(1, even()).config()
	cfg.Past = past
	if c := New(cfg); c.training.Load.Gauge.Floor() != tiers.Stage2 || c.training.Load.Gauge.Falls() != 3 || c.training.Load.Why != "full" {
		t.Errorf("floor %d after %d falls, because %q", c.training.Load.Gauge.Floor(), c.training.Load.Gauge.Falls(), c.training.Load.Why)
	}
}

// Time limits count from when the run began, or continued after an orderly end: not from the restart of a killed controller. Stopping rules
// remember the best score.
func TestLimitsOutliveTheController(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	figure := func(x float64) *float64 { return &x }
	entries := []journal.Entry{
		{T: at(0), Kind: journal.Start}, {T: at(10), Kind: journal.Done, Outcome: "interrupted"},
		{T: at(20), Kind: journal.Start},
		{T: at(21), Kind: journal.ClockDone, Clock: 1, TestLoss: figure(2)},
		{T: at(22), Kind: journal.ClockDone, Clock: 2, TestLoss: figure(1)},
		{T: at(23), Kind: journal.Rollback, Clock: 1, Generation: 2},
		{T: at(24), Kind: journal.ClockDone, Clock: 2, TestLoss: figure(0.1), Redone: true},
		{T: at(30), Kind: journal.Start},
	}
	past, err := ReadPast(entries)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(1, six())
	cfg := w.config()
	cfg.Past, cfg.MaxDuration = past, 30*time.Second
	cfg.Job.Stop = stopping.Rules{MinImprovement: 0.1}
	w.ctrl = New(cfg)
	w.now = at(31)
	w.step(Wake{})
	if !w.ctrl.step.Started.Equal(at(20)) || w.ctrl.step.Stop != "" {
		t.Errorf("it counts from %v; %q", w.ctrl.step.Started, w.ctrl.step.Stop)
	}
	if why := w.ctrl.training.Clocks.Watch.Measured(cfg.Job.Stop, 3, "loss", 0.95); why == "" {
		t.Error("the best figure so far is forgotten")
	}
	w.now = at(50)
	w.step(Wake{})
	if w.ctrl.step.Stop == "" {
		t.Error("30 s after the start, by the clock of two controllers, the run goes on")
	}
}

// The line that a bill could not be computed is not part of the bill: the next controller writes the bill itself.
func TestSuccessorWritesTheUnknownBill(t *testing.T) {
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	ended := at(60)
	entries := []journal.Entry{
		{T: at(0), Kind: journal.Intent, Token: "t-1", Tier: string(tiers.Transient), Pool: poolA.String(), Count: 2},
		{T: at(1), Kind: journal.Launch, Token: "t-1", Instance: "i-1", Tier: string(tiers.Transient), Pool: poolA.String()},
		{T: at(1), Kind: journal.Launch, Token: "t-1", Instance: "i-2", Tier: string(tiers.Transient), Pool: poolA.String()},
		{T: at(61), Kind: journal.Evicted, Instance: "i-1", Pool: poolA.String(), Ended: &ended, EndedBy: string(market.ByProvider)},
		{T: at(61), Kind: journal.Evicted, Instance: "i-2", Pool: poolA.String(), Ended: &ended, EndedBy: string(market.ByProvider)},
		fleet.UnknownCharge("i-1", poolA, at(1), ended, fleet.ErrNoPrices),
		fleet.ChargeEntry("i-2", poolA, market.Charge{From: at(1), To: ended}),
	}
	past, err := ReadPast(entries)
	if err != nil {
		t.Fatal(err)
	}
	if len(past.Machines) != 2 || past.Machines[0].Charged != 0 || past.Machines[1].Charged != 1 {
		t.Errorf("%+v", past.Machines)
	}
}
