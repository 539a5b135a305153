package elasticity

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// even returns a world with as many transient machines as reliable ones: stage 1 by the ratio.
func even() shape {
	s := plain()
	s.reliable, s.transient, s.clocks = 4, 4, 95
	return s
}

func (w *world) reliable(n *node) bool { return n.instance.Pool.Class == market.OnDemand }

// stages returns the stage changes after the first machines have joined.
func (w *world) stages() (out []string) {
	for _, e := range w.lines(journal.Stage)[1:] {
		out = append(out, e.From+" to "+e.To)
	}
	return out
}

const full = 1e6 // bytes per second: a link's capacity

// The contract, Stages: up when the reliable machines' network is the bottleneck, down when not, while training continues. The
// deterministic world checks every read and the exported model.
func TestNetworkLoadChangesTheStage(t *testing.T) {
	for seed := range uint64(8) {
		w := newWorld(seed, even())
		w.ctrl.configure(func(c *Config) {
			c.Reliable.Type.Bandwidth = full
			if r := &c.Reliable; seed%2 == 0 { // the job admits the type for transient machines, too
				kind := r.Type
				kind.Bandwidth = 0
				c.Pools = append([]Pool{{Pool: r.Pool, Type: kind, History: market.Constant(market.Dollar)}}, c.Pools...)
			}
		})
		busy := true
		w.when(func() bool { return w.ctrl.training.Clocks.Done > 40 }, func() { busy = false })
		w.traffic = func(n *node) (in, out float64) {
			switch {
			case !busy:
				return 0.05 * full, 0.05 * full
			case w.reliable(n) && w.ctrl.training.Layout.OwnsAny(n.id):
				return 0.3 * full, 0.9 * full
			}
			return 0.25 * full, 0.3 * full // in stage 1 it would be eight of these to four links: half, and that is all there is
		}
		w.neverBack()
		finish(t, w, "finished")
		got := w.stages()
		if strings.Join(got, ", ") != "1 to 2, 2 to 1" {
			t.Fatalf("seed %d: stages changed %v", seed, got)
		}
		up, down := w.lines(journal.Stage)[1], w.lines(journal.Stage)[2]
		if !strings.Contains(up.Why, " % of its link, for 3 clocks at or above 80 %; 4 transient to 4 reliable machines alone ask for stage 1") {
			t.Errorf("up because %q", up.Why)
		}
		if !strings.Contains(down.Why, "4 transient to 4 reliable") || down.Clock <= 40 {
			t.Errorf("down at clock %d because %q", down.Clock, down.Why)
		}
	}
}

// Stage 3 begins when the reliable machines' workers are the stragglers (TierML, section 3.2), whatever the ratio.
func TestStragglersAmongTheReliableMachines(t *testing.T) {
	s := even()
	s.transient = 8
	// Clocks have random lengths here. In some worlds those after the change happen to be longer, and it is reverted.
	const seeds, mayGoBack = 20, 4
	back := 0
	for seed := range uint64(seeds) {
		w := newWorld(seed, s)
		w.seconds = func(n *node, splits int) float64 {
			if w.reliable(n) {
				return 0.8 * float64(splits)
			}
			return 0.4 * float64(splits)
		}
		w.traffic = func(*node) (in, out float64) { return 1, 1 } // no bottleneck
		w.neverBack()
		finish(t, w, "finished")
		got := strings.Join(w.stages(), ", ")
		if strings.HasSuffix(got, "2 to 3, 3 to 2") {
			back++
			continue
		}
		if !strings.HasSuffix(got, "2 to 3") {
			t.Errorf("seed %d: stages changed %s", seed, got)
		}
		last := w.lines(journal.Stage)[w.count(journal.Stage)-1]
		if !strings.Contains(last.Why, "takes 2.00 times as long as the median transient one") {
			t.Errorf("because %q", last.Why)
		}
	}
	if back > mayGoBack {
		t.Errorf("in %d of %d worlds stage 3 was left again", back, seeds)
	}
}

// Without a link's bandwidth traffic decides nothing, and without transient machines load requests nothing.
func TestLoadWithoutBandwidthOrTransientMachines(t *testing.T) {
	for name, change := range map[string]func(*world){
		"unknown link": func(w *world) {
			w.traffic = func(*node) (in, out float64) { return 1e12, 1e12 }
		},
		"nobody to serve instead": func(w *world) {
			w.ctrl.configure(func(c *Config) { c.Reliable.Type.Bandwidth = full })
			w.policy.count = 0
			w.traffic = func(*node) (in, out float64) { return 2 * full, 2 * full }
		},
	} {
		w := newWorld(1, even())
		change(w)
		finish(t, w, "finished")
		if got := w.stages(); got != nil {
			t.Errorf("%s: stages changed %v", name, got)
		}
	}
}

// A clock whose load changes nothing allocates no memory.
func TestMeasuringAllocatesNothing(t *testing.T) {
	w := newWorld(1, even())
	w.ctrl.configure(func(c *Config) { c.Reliable.Type.Bandwidth = full })
	w.traffic = func(*node) (in, out float64) { return 0.3 * full, 0.3 * full }
	w.until(5e9)
	c := w.ctrl
	n := testing.AllocsPerRun(100, func() {
		for _, m := range c.training.Nodes.Members() {
			c.training.Cuts.TakeHeartbeat(m, m.Stats)
			m.Meter.Since = m.Meter.Heard.Add(-1e9)
		}
		c.training.Load.Measure()
	})
	if list := testing.AllocsPerRun(100, func() { c.training.Nodes.Members() }); n > list {
		t.Errorf("%g allocations, of which the list of members makes %g", n, list)
	}
	if c.training.Load.Gauge != (tiers.Gauge{}) && c.training.Load.Gauge.Floor() != tiers.Stage1 {
		t.Errorf("floor %d", c.training.Load.Gauge.Floor())
	}
}
