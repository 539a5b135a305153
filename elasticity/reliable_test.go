package elasticity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// holdings counts what a machine owns and backs up.
func (w *world) holdings(class market.Class) (out []string) {
	for _, id := range w.machinesOf(class) {
		if m := w.ctrl.training.Nodes.ByID[id]; m.Terminating {
			continue
		}
		out = append(out, fmt.Sprintf("%d+%d", len(partitionsOf(w.ctrl.training.Layout.Route.Owner, id)), len(partitionsOf(w.ctrl.training.Layout.Route.Backup, id))))
	}
	return out
}

// reached calls f when the last request has been reached.
func (w *world) reached(requests int, f func()) {
	w.when(func() bool { return len(w.scaled) == 2*requests && w.scaled[2*requests-1].Reached }, f)
}

// Reliable machines are added and removed while training continues: partitions and backups are spread evenly over those that exist, nothing
// is repeated, and the youngest is released once nothing depends on it.
func TestReliableMachinesComeAndGo(t *testing.T) {
	for _, c := range []struct {
		transient   int
		two, one    string // owned and backed up by each reliable machine, with two and with one again
		description string
	}{
		{6, "0+6 0+6", "0+12", "stage 2: only backups"},
		{1, "6+6 6+6", "12+12", "stage 1: what serves, and backups"},
	} {
		for seed := range uint64(6) {
			s := elastic()
			s.transient = c.transient
			var two, one []string
			w := newWorld(seed, s)
			w.when(func() bool { return w.grown(c.transient) && w.ctrl.training.Clocks.Done > 8 }, func() {
				w.askForReliable(1)
				w.reached(1, func() {
					two = w.holdings(market.OnDemand)
					w.askForReliable(-1)
					w.reached(2, func() { one = w.holdings(market.OnDemand) })
				})
			})
			w.neverBack()
			finish(t, w, "finished")
			if got := strings.Join(two, " "); got != c.two {
				t.Errorf("%s, seed %d: with two they hold %s, want %s", c.description, seed, got, c.two)
			}
			if got := strings.Join(one, " "); got != c.one {
				t.Errorf("%s, seed %d: with one again it holds %s, want %s", c.description, seed, got, c.one)
			}
		}
	}
}

// While backups move, the committed cut stays where it was until the next is committed: if an owner dies in between, the run returns to
// that cut, and not to a checkpoint.
func TestOwnerDiesWhileBackupsMove(t *testing.T) {
	for seed := range uint64(10) {
		killed := false
		w := newWorld(seed, elastic())
		w.settled(func() { w.askForReliable(1) })
		w.onSend = func(a Send) {
			do, ok := a.Command.Do.(tiers.BackUp)
			if ok && do.Empty && !killed {
				killed = true
				owner := w.ctrl.training.Layout.Route.Owner[do.Partitions[0]]
				w.after(time.Millisecond, func() { w.kill(owner) })
			}
		}
		finish(t, w, "finished")
		if back := w.lines(journal.Rollback); !killed || len(back) != 1 || strings.Contains(back[0].Why, "back to") {
			t.Errorf("seed %d: killed %v, roll-backs %+v", seed, killed, back)
		}
	}
}

// A number of machines too small for the job is refused with the figures, and so is removing the last one; after a loss training waits for
// the replacement.
func TestReliableMachinesMustHoldTheJob(t *testing.T) {
	s := elastic()
	s.reliable, s.saveEvery = 2, time.Second
	shrink := func(w *world) {
		two, one := tiers.ReliableMemory(&w.schema, 2).Total(), tiers.ReliableMemory(&w.schema, 1).Total()
		if tiers.UsableMemory(1) < two {
			t.Fatalf("two machines need %d bytes each", two)
		}
		// Tables of these worlds are small: the row count is inflated until one machine of a MiB cannot hold the
		// table.
		grow := uint64(2 * tiers.UsableMemory(1) / one)
		w.ctrl.configure(func(c *Config) {
			c.Job.Schema.Tables = slices.Clone(c.Job.Schema.Tables)
			for i := range c.Job.Schema.Tables {
				c.Job.Schema.Tables[i].Rows *= grow * 3 / 4
			}
			c.Reliable.Type.MemoryMiB = 1
		})
	}
	w := newWorld(1, s)
	w.settled(func() {
		shrink(w)
		w.askForReliable(-1)
		w.askForReliable(-2)
		w.askForReliable(40)
	})
	w.neverBack()
	finish(t, w, "finished")
	for i, want := range []string{"1 reliable machine of  cannot hold the job alone: each needs up to", "2 of 2 reliable machines cannot be removed",
		"42 reliable machines are more than the 12 partitions"} {
		if len(w.scaled) != 3 || w.scaled[i].Err == nil || !strings.Contains(w.scaled[i].Err.Error(), want) {
			t.Errorf("answer %d is %+v, want %q", i, w.scaled, want)
		}
	}

	w = newWorld(2, s)
	w.settled(func() {
		shrink(w)
		w.kill(w.machinesOf(market.OnDemand)[0])
	})
	finish(t, w, "finished")
	intents := w.lines(journal.Intent)
	if why := intents[len(intents)-1].Why; !strings.Contains(why, "cannot hold the job alone") || !strings.Contains(why, "state") {
		t.Errorf("the replacement is bought as %q", why)
	}
}

// Where no reliable machine is available, the most reliable available serves, with checkpoints (TierML, footnote 7): because the job says
// so, or because the pool sells none. When it is reclaimed the next one replaces it, and training continues.
func TestMostReliableServes(t *testing.T) {
	for _, own := range []bool{true, false} {
		for seed := range uint64(8) {
			s := six()
			s.saveEvery, s.reliable = 2*time.Second, 1
			if own {
				s.reliable = 0
			}
			w := newWorld(seed, s)
			// Pool A's price rises above the bid for an hour each day, B's does not: B has the higher MTTF.
			spiky := []market.PricePoint{}
			for day := 1; day < 20; day++ {
				at := epoch.AddDate(0, 0, -day)
				spiky = append([]market.PricePoint{{At: at, Price: market.Dollar}, {At: at.Add(time.Hour), Price: market.Dollar / 10}}, spiky...)
			}
			w.ctrl.cfg.Pools[0].History = market.NewHistory(spiky)
			if !own {
				w.cloud.onDemand = w.now.Add(time.Hour)
			}
			var first, second ps.ServerID
			w.when(func() bool {
				return w.grown(6) && w.ctrl.training.Saves.Newest != "" && w.ctrl.training.Recovery == nil
			}, func() {
				first = w.ctrl.training.Nodes.ReliableMembers()[0].ID
				if seed%2 == 0 {
					w.kill(first)
				} else {
					w.evict(3*time.Second, first)
				}
				w.when(func() bool {
					return len(w.ctrl.training.Nodes.ReliableMembers()) == 1 && w.ctrl.training.Nodes.ReliableMembers()[0].ID != first && w.ctrl.training.Layout.Standing()
				}, func() {
					second = w.ctrl.training.Nodes.ReliableMembers()[0].ID
				})
			})
			finish(t, w, "finished")
			if second == "" {
				t.Fatalf("own %v, seed %d: nobody took the place of %s\n%s", own, seed, first, w.describe())
			}
			for _, e := range w.lines(journal.Intent) {
				if e.Tier == string(tiers.Reliable) && e.Pool == poolB.String() && (!strings.Contains(e.Why, "no reliable machine is available") || e.Bid == "") {
					t.Errorf("bought as %+v", e)
				}
				if e.Tier == string(tiers.Reliable) && e.Pool == poolA.String() {
					t.Errorf("the less reliable pool was chosen: %+v", e)
				}
			}
			// After a notice the run returns at most to the last cut, because the backups moved.
			for _, back := range w.lines(journal.Rollback) {
				if strings.Contains(back.Why, "beginning") {
					t.Errorf("own %v, seed %d: %s", own, seed, line(back))
				}
			}
		}
	}
}

// If the job wants a spot machine to serve and none is available, an on-demand machine serves: at the start, and when the server is lost.
// If that is unavailable too, the other machines are released: waiting machines are not paid for.
func TestOnDemandServesWhereNoSpotMachineCan(t *testing.T) {
	onDemand := poolA
	onDemand.Class = market.OnDemand
	begin := func(seed uint64, sold bool) *world {
		s := six()
		s.saveEvery, s.reliable = 2*time.Second, 0
		w := newWorld(seed, s)
		if sold {
			kind := w.ctrl.cfg.Pools[0].Type
			w.ctrl.configure(func(c *Config) {
				c.Pools = append([]Pool{{Pool: onDemand, Type: kind, History: market.Constant(kind.OnDemand)}}, c.Pools...)
			})
		}
		return w
	}
	served := func(w *world) (pools []string) {
		for _, e := range w.lines(journal.Launch) {
			if e.Tier == string(tiers.Reliable) {
				pools = append(pools, e.Pool)
			}
		}
		return pools
	}
	for seed := range uint64(4) {
		w := begin(seed, true)
		w.cloud.none = w.now.Add(20 * time.Second)
		finish(t, w, "finished")
		if got := served(w); len(got) != 1 || got[0] != onDemand.String() {
			t.Errorf("seed %d: at the start %v served", seed, got)
		}

		w = begin(seed, true)
		lose := func() {
			w.cloud.none = w.now.Add(20 * time.Second)
			w.kill(w.ctrl.training.Nodes.ReliableMembers()[0].ID)
		}
		w.when(func() bool { return w.grown(6) && w.ctrl.training.Saves.Newest != "" }, lose)
		finish(t, w, "finished")
		if got := served(w); len(got) != 2 || got[0] != poolA.String() && got[0] != poolB.String() || got[1] != onDemand.String() {
			t.Errorf("seed %d: after a loss %v served", seed, got)
		}

		w = begin(seed, false)
		idle := 0
		w.when(func() bool { return w.grown(6) && w.ctrl.training.Saves.Newest != "" }, func() {
			owner := w.ctrl.training.Layout.Route.Owner[0]
			lose()
			w.kill(owner) // no other machine has what it served
			end := w.cloud.none
			w.when(func() bool { return w.now.After(end.Add(-time.Second)) }, func() { idle = len(w.ctrl.training.Nodes.Members()) })
		})
		finish(t, w, "finished")
		if idle > 0 || w.count(journal.Release) != 5 {
			t.Errorf("seed %d: %d machines wait, and %d were released", seed, idle, w.count(journal.Release))
		}
	}
}

// Without checkpoints a job needs a reliable machine, and its final message says what would help.
func TestMostReliableServesWithCheckpointsOnly(t *testing.T) {
	s := six()
	s.saveEvery = 0
	w := newWorld(1, s)
	w.cloud.onDemand = w.now.Add(time.Hour)
	finish(t, w, "failed")
	if why := w.entries[len(w.entries)-1].Why; !strings.Contains(why, "no reliable machine was available in 5 tries") || !strings.Contains(why, "with checkpoints") {
		t.Errorf("it failed as %q", why)
	}
}

// A run has not begun, and its machine is lost again and again after it was ready: such machines are available, so another is bought. If
// none becomes ready the run fails after some attempts.
func TestReliableMachinesThatGotReady(t *testing.T) {
	s := six()
	s.reliable, s.transient = 2, 0
	for ready, outcome := range map[bool]string{true: "finished", false: "failed"} {
		w := newWorld(1, s)
		lost := 0
		w.onEntry = func(e journal.Entry) {
			if kind := map[bool]journal.Kind{true: journal.Ready, false: journal.Launch}[ready]; e.Kind == kind && lost < 12 && w.count(journal.Join) == 0 {
				lost++
				w.kill(ps.ServerID(e.Instance))
			}
		}
		finish(t, w, outcome)
		if ready && lost != 12 || !ready && (lost < fleet.MaxReliableTries || lost > 2*fleet.MaxReliableTries) {
			t.Errorf("%d machines were lost and the run has %s", lost, outcome)
		}
	}
}
