package elasticity

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The schedules that the rules of the training runtime exist for, each by its name. Each is forced to happen at the critical step of the
// protocol, in many worlds with different random numbers, and each test checks that it happened.

// schedule runs a schedule in many worlds. arrange sets it up and returns what must have happened by the end.
func schedule(t *testing.T, s shape, arrange func(w *world) (happened func() bool), outcomes ...string) {
	t.Helper()
	hits := 0
	for seed := range worlds {
		w := newWorld(uint64(seed), s)
		happened := arrange(w)
		err := w.run()
		if err == nil {
			err = w.check(append(outcomes, "finished")...)
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if happened() {
			hits++
		}
	}
	if hits < worlds/4 {
		t.Errorf("it happened in %d of %d worlds only", hits, worlds)
	}
}

// worlds is the number of worlds in which a schedule is tried; a soak tries more.
var worlds = func() int {
	if os.Getenv("TIERML_SEEDS") != "" {
		return 40
	}
	return 12
}()

// six returns a world of stage 2: three ActivePSs, three more workers, one reliable machine.
func six() shape {
	s := plain()
	s.transient = 6
	return s
}

// counting returns the same with the counting toy, under SSP.
func counting() shape {
	s := six()
	s.deterministic, s.staleness = false, 2
	return s
}

// both runs a schedule in the deterministic world and in the counting one.
func both(t *testing.T, arrange func(w *world) func() bool, outcomes ...string) {
	t.Run("BSP", func(t *testing.T) { schedule(t, six(), arrange, outcomes...) })
	t.Run("SSP", func(t *testing.T) { schedule(t, counting(), arrange, outcomes...) })
}

// onlyWorks reports whether a spot machine takes part and serves nothing.
func (w *world) onlyWorks(n *node) bool {
	m := w.ctrl.training.Nodes.ByID[n.id]
	return n.instance.Pool.Class == market.Spot && m != nil && m.Member() && !w.ctrl.training.Layout.OwnsAny(n.id) && len(w.ctrl.training.Layout.Moves) == 0
}

// when calls f as soon as so holds.
func (w *world) when(so func() bool, f func()) {
	w.after(20*time.Millisecond, func() {
		switch {
		case w.outcome != "":
		case so():
			f()
		default:
			w.when(so, f)
		}
	})
}

// grown reports whether this many spot machines take part and everything is where it should be.
func (w *world) grown(machines int) bool {
	c, joined := w.ctrl, 0
	for _, m := range c.training.Nodes.Members() {
		if m.Tier == tiers.Transient && m.Staying() {
			joined++
		}
	}
	return joined >= machines && !c.training.Layout.HandingOver() && len(c.training.Layout.Moves) == 0 && c.training.Recovery == nil && !c.training.Layout.Due &&
		slices.Equal(c.training.Layout.Route.Owner, c.training.Layout.Target.Route.Owner)
}

// settled calls f when six spot machines have settled and a few clocks are done.
func (w *world) settled(f func()) {
	w.when(func() bool { return w.grown(6) }, func() {
		clock := w.ctrl.training.Clocks.Done + 3
		w.when(func() bool { return w.ctrl.training.Clocks.Done >= clock && w.ctrl.training.Recovery == nil }, f)
	})
}

// once calls f the first time that a node that only works reaches a point after the world has settled.
func (w *world) once(point string, f func(*node)) *bool {
	done, settled := new(bool), false
	w.settled(func() { settled = true })
	w.hooks[point] = func(n *node) {
		if !*done && settled && w.onlyWorks(n) && w.ctrl.training.Recovery == nil {
			*done = true
			f(n)
		}
	}
	return done
}

// A worker dies when some owners have committed its contribution and some have not: all commit it, and nothing is
// rolled back.
func TestHalfFlushedWorker(t *testing.T) {
	both(t, func(w *world) func() bool {
		done := w.once("committed one", func(n *node) { w.kill(n.id) })
		return func() bool { return *done && w.count(journal.Rollback) == 0 }
	})
}

// A worker dies when its contribution is staged everywhere and committed nowhere: all discard it, and its splits repeat the clock.
func TestStagedAndNeverCommitted(t *testing.T) {
	both(t, func(w *world) func() bool {
		done := w.once("staged", func(n *node) { w.kill(n.id) })
		return func() bool { return *done && w.count(journal.Rollback) == 0 }
	})
}

// A worker dies after its last commit and before its report is sent: the clock counts as done.
func TestReportLostWithItsWorker(t *testing.T) {
	both(t, func(w *world) func() bool {
		done := w.once("reporting", func(n *node) {
			n.wordless = true
			w.kill(n.id)
		})
		return func() bool { return *done && w.count(journal.Rollback) == 0 }
	})
}

// The new owner of a partition dies around the last message of the move, and the old one's answer is late: it is unknown whether the old
// one still has the partition, and everything returns to the cut.
func TestNewOwnerLostAroundTheLastMessage(t *testing.T) {
	both(t, func(w *world) func() bool {
		var lost ps.ServerID
		settled := false
		w.settled(func() {
			settled = true
			w.evict(4*time.Second, w.spot()[0])
		})
		w.hooks["final"] = func(n *node) {
			if settled && lost == "" {
				for _, to := range w.ctrl.training.Layout.Moves {
					lost = max(lost, to)
				}
				n.up.last = w.now.Add(2 * time.Second)
				w.after(w.delay(40*time.Millisecond), func() { w.kill(lost) })
			}
		}
		return func() bool { return lost != "" && w.count(journal.Rollback) > 0 }
	})
}

// A worker dies half-flushed, and partitions begin to move shortly before or after it is given up. One waits for the other, since staged
// contributions must be found where they are.
func TestMoveAgainstSettlement(t *testing.T) {
	both(t, func(w *world) func() bool {
		settled, together := false, false
		w.settled(func() { settled = true })
		w.hooks["committed one"] = func(n *node) {
			if spot := w.spot(); !settled || n.id != spot[len(spot)-1] || !w.onlyWorks(n) {
				return // the youngest will not be wanted as a server
			}
			settled = false
			w.kill(n.id)
			m := w.ctrl.training.Nodes.ByID[n.id]
			w.when(func() bool { return !m.BrokenAt.IsZero() }, func() {
				givenUp := m.BrokenAt.Add(w.ctrl.cfg.BrokenAfter)
				w.after(givenUp.Sub(w.now)+20*time.Millisecond-w.delay(100*time.Millisecond), func() {
					for _, id := range w.first(0.4) {
						w.nodes[id].slow = 20 * time.Millisecond // the moves take longer than that
					}
					w.evict(3*time.Second, w.first(0.4)...)
				})
			})
		}
		w.hooks["final"] = func(*node) { together = together || w.ctrl.training.Nodes.DeadHolder() != nil }
		return func() bool { return together && w.count(journal.Rollback) == 0 }
	})
}

// In an end-of-life flush, an owner dies after it has delivered some of its partitions: what was delivered does not count, and everything
// returns to the previous committed cut.
func TestTornEndOfLife(t *testing.T) {
	both(t, func(w *world) func() bool {
		torn := false
		w.settled(func() {
			w.policy.count = 0
			w.evict(4*time.Second, w.spot()...)
		})
		w.hooks["delivering"] = func(n *node) {
			if h := w.ctrl.training.Halt; !torn && h != nil && h.Purpose == training.Flush && n.warned && len(n.offered) == 1 {
				torn = true
				w.after(time.Millisecond, func() { w.end(n.id, market.ByProvider, "Server.SpotInstanceTermination") })
			}
		}
		return func() bool { return torn && w.count(journal.Rollback) > 0 }
	})
}

// A worker dies alone while all park for an end-of-life flush, or reaches the clock at which all rest. Its splits continue from where they
// were; no worker passes that clock, and nothing is lost.
func TestWorkerDiesWhileAllPark(t *testing.T) {
	ahead := counting()
	ahead.staleness = 3
	for name, s := range map[string]shape{"stage 2": six(), "stage 3": plain(), "staleness 3": ahead} {
		s.noticeWait = time.Millisecond // a whole bulk eviction is seen as one
		for _, point := range []string{"begun", "staged", "committed one"} {
			t.Run(name+" "+point, func(t *testing.T) {
				schedule(t, s, func(w *world) func() bool { return w.diesWhileAllPark(point) })
			})
		}
	}
}

// diesWhileAllPark evicts all when a worker reaches a point, ahead of the others, and kills it soon afterwards.
func (w *world) diesWhileAllPark(point string) func() bool {
	settled, died := false, false
	w.settled(func() {
		settled = true
		w.policy.count = 0
		for _, n := range w.order {
			if !w.onlyWorks(n) {
				n.slow = w.delay(30 * time.Millisecond)
			}
		}
	})
	w.hooks[point] = func(n *node) {
		if !settled || !w.onlyWorks(n) || w.ctrl.training.Cuts.Cut != nil || w.ctrl.training.Layout.HandingOver() {
			return
		}
		settled = false
		w.evict(5*time.Second, w.spot()...)
		w.after(w.delay(150*time.Millisecond), func() {
			died = w.ctrl.training.Halt != nil
			w.end(n.id, market.ByProvider, "Server.SpotInstanceTermination")
			for _, n := range w.order {
				n.slow = 0
			}
		})
	}
	w.neverBack()
	return func() bool { return died }
}

// neverBack makes a roll-back a failure.
func (w *world) neverBack() {
	w.onEntry = func(e journal.Entry) {
		if e.Kind == journal.Rollback {
			w.failf("work is lost: %s\n%s", line(e), w.describe())
		}
	}
}

// Machines of the serving tier survive a bulk eviction that takes the others: what they serve stays with them through the flush and moves
// afterwards, and they can serve again later.
func TestSurvivorOfABulkEviction(t *testing.T) {
	s := six()
	s.clocks = 90
	schedule(t, s, func(w *world) func() bool {
		serves := false
		w.settled(func() {
			survivor := w.spot()[1] // it serves
			w.policy.count = 1
			w.evict(3*time.Second, w.spot()[2:]...)
			w.evict(3*time.Second, w.spot()[0])
			w.after(time.Second, func() {
				w.policy.count = 6
				w.when(func() bool { return w.grown(6) }, func() { serves = w.ctrl.training.Layout.OwnsAny(survivor) })
			})
		})
		w.neverBack()
		return func() bool { return serves }
	})
}

// A cut is due whenever partitions move, and moves are wanted whenever a cut is pending: they wait for each other.
func TestMoveAgainstCut(t *testing.T) {
	s := six()
	s.cutEvery = time.Millisecond
	schedule(t, s, func(w *world) func() bool {
		moves := 0
		for i := range 8 { // up and down: partitions move all the time
			w.after(time.Duration(3+i)*time.Second, func() {
				w.policy.count = 4 + 6*(i%2)
				if i%2 == 0 {
					w.evict(2*time.Second, w.first(0.4)...)
				}
			})
		}
		w.hooks["final"] = func(n *node) {
			moves++
			if w.ctrl.training.Cuts.Cut != nil {
				w.failf("a partition moves while cut %d is outstanding", w.ctrl.training.Cuts.Cut.Clock)
			}
		}
		return func() bool { return moves > 8 && w.count(journal.Cut) > 8 }
	})
}

// A machine falls silent for longer than allowed, is given up, and wakes up with work in progress: it is refused everywhere.
func TestStaleProcessWakesUp(t *testing.T) {
	for point, owner := range map[string]bool{"begun": false, "staged": false, "committed one": false, "begun ": true} {
		t.Run(fmt.Sprintf("%s owner %v", point, owner), func(t *testing.T) {
			s := six()
			s.slowEnd, s.deadAfter = 8*time.Second, 1500*time.Millisecond
			schedule(t, s, func(w *world) func() bool {
				var silent *node
				settled := false
				w.settled(func() { settled = true })
				w.hooks[trim(point)] = func(n *node) {
					if silent == nil && settled && n.instance.Pool.Class == market.Spot && w.ctrl.training.Recovery == nil &&
						w.onlyWorks(n) == !owner {
						silent = n
						n.fallSilent(3 * time.Second)
					}
				}
				return func() bool {
					return silent != nil && w.ctrl.training.Nodes.ByID[silent.id].Lost && (w.count(journal.Rollback) > 0) == owner
				}
			})
		})
	}
}

func trim(s string) string {
	if s[len(s)-1] == ' ' {
		return s[:len(s)-1]
	}
	return s
}

// A worker falls silent in stage 1, while it sends a contribution to two reliable machines. The job grows, so that one serves nothing when
// the worker is given up, and a bulk eviction makes it serve again. The worker knows no other servers when it wakes up: both refuse it.
func TestStaleProcessFindsAPromotedBackup(t *testing.T) {
	for _, point := range []string{"begun", "staged", "committed one"} {
		t.Run(point, func(t *testing.T) {
			s := counting()
			s.slowEnd, s.deadAfter, s.clocks, s.transient = 30*time.Second, 6*time.Second, 80, 2
			s.reliable, s.partitions, s.cutEvery = 2, 4, time.Minute
			schedule(t, s, func(w *world) func() bool { return w.silencedInStage1(point) })
		})
	}
}

func (w *world) silencedInStage1(point string) (happened func() bool) {
	var silent *node
	idle, refused := false, false
	settled := false
	w.when(func() bool { return w.grown(2) }, func() { settled = true })
	w.hooks[point] = func(n *node) {
		if spot := w.spot(); settled && silent == nil && n.id == spot[len(spot)-1] {
			silent = n
			w.policy.count = 9
			n.fallSilent(9 * time.Second)
		}
	}
	w.onEntry = func(e journal.Entry) {
		if silent == nil || e.Kind != journal.Leave || e.Instance != string(silent.id) {
			return
		}
		for _, id := range w.machinesOf(market.OnDemand) {
			idle = idle || !w.ctrl.training.Layout.OwnsAny(id)
		}
		w.after(500*time.Millisecond, func() {
			w.policy.count = 0
			w.evict(3*time.Second, w.spot()...)
		})
	}
	w.hooks["fenced"] = func(n *node) { refused = refused || n == silent }
	return func() bool { return idle && refused && w.count(journal.Rollback) == 0 }
}

// An owner hears a cut's name late, when it has passed the clock: no owner accepts it, and a later clock is named.
func TestUnevenNamingOfACut(t *testing.T) {
	both(t, func(w *world) func() bool {
		unnamed := false
		w.settled(func() {
			n := w.nodes[w.spot()[0]]            // it serves
			n.down.last = w.now.Add(time.Second) // commands are late; the data plane is not
			w.ctrl.training.Cuts.Due, w.ctrl.step.Pending = w.now.Add(w.delay(100*time.Millisecond)), true
		})
		w.hooks["unname"] = func(*node) { unnamed = true }
		return func() bool { return unnamed && w.count(journal.Rollback) == 0 }
	})
}

// Many workers die at once, so that those that take over their splits wait for clocks that only these old splits can complete.
func TestOldSplitTakenOverWhileWaiting(t *testing.T) {
	both(t, func(w *world) func() bool {
		killed := false
		w.settled(func() {
			for _, id := range w.spot() {
				if w.onlyWorks(w.nodes[id]) {
					w.kill(id)
					killed = true
				}
			}
			w.policy.count = 3
		})
		return func() bool { return killed && w.count(journal.Rollback) == 0 }
	})
}

// Half of the owners die, and some of the others learn of the new generation long before the rest: no node gets a route of the new
// generation before it has returned to the cut (node.SetRoute fails the world if one does).
func TestRouteOfTheNewGenerationBeforeRecovery(t *testing.T) {
	both(t, func(w *world) func() bool {
		w.settled(func() {
			spot := w.spot()
			w.kill(spot[0])
			for i, id := range spot[1:] {
				w.nodes[id].slow = time.Duration(i*30) * time.Millisecond
				w.after(time.Second, func() { w.nodes[id].slow = 0 })
			}
			w.after(700*time.Millisecond, func() { w.policy.count = 9 }) // joins and moves are waiting
		})
		return func() bool { return w.count(journal.Rollback) > 0 }
	})
}

// Owners die one after the other while all return to the cut.
func TestOwnersDieDuringRecovery(t *testing.T) {
	both(t, func(w *world) func() bool {
		again := 0
		w.settled(func() { w.kill(w.spot()[0]) })
		w.onEntry = func(e journal.Entry) {
			if e.Kind == journal.Rollback && again < 2 {
				again++
				w.after(w.delay(30*time.Millisecond), func() { w.kill(w.spot()[0]) })
			}
		}
		return func() bool { return again == 2 && w.count(journal.Rollback) > 1 }
	})
}

// The last clock is done while partitions move, while a dead worker's splits are settled, and while all return to a cut; and an owner dies
// while the model is read.
func TestTrainingEndsDuringMovesAndRecoveries(t *testing.T) {
	nearTheEnd := func(w *world, f func()) {
		done := false
		w.onEntry = func(e journal.Entry) {
			if e.Kind == journal.ClockDone && e.Clock == int64(w.shape.clocks)-1 && !done && w.grown(6) {
				done = true
				f()
			}
		}
	}
	for name, trouble := range map[string]func(w *world){
		"moves":      func(w *world) { w.evict(2*time.Second, w.spot()[:3]...) },
		"settlement": func(w *world) { w.kill(w.spot()[5]) },
		"recovery":   func(w *world) { w.kill(w.spot()[0]) },
		"flush":      func(w *world) { w.policy.count = 0; w.evict(time.Second, w.spot()...) },
	} {
		t.Run(name, func(t *testing.T) {
			schedule(t, six(), func(w *world) func() bool {
				happened := false
				nearTheEnd(w, func() { happened = true; w.after(w.delay(100*time.Millisecond), func() { trouble(w) }) })
				return func() bool { return happened }
			})
		})
	}
	t.Run("export", func(t *testing.T) {
		schedule(t, six(), func(w *world) func() bool {
			exports := 0
			w.hooks["export"] = func(*node) {
				if exports++; exports == 1 {
					w.kill(w.spot()[0])
				}
			}
			return func() bool { return exports > 1 && w.exported == ps.Clock(w.shape.clocks) }
		})
	})
}

// Every spot machine dies at the same moment, and so does every one of their successors.
func TestAllMachinesLostAtOnce(t *testing.T) {
	both(t, func(w *world) func() bool {
		for i := range 4 {
			w.after(time.Duration(4+3*i)*time.Second, func() {
				for _, id := range w.spot() {
					w.kill(id)
				}
			})
		}
		return func() bool { return w.count(journal.Rollback) > 1 }
	})
}

// In an end-of-life flush, the reliable machine learns last that it owns partitions again. It had handed splits to the machines that are
// about to go: it must not send any more there, where work is lost.
func TestPromotedBackupHearsLate(t *testing.T) {
	both(t, func(w *world) func() bool {
		late := false
		w.settled(func() {
			w.policy.count = 1
			w.evict(4*time.Second, w.spot()[:5]...) // one worker stays
		})
		w.hooks["delivering"] = func(n *node) {
			if h := w.ctrl.training.Halt; h != nil && h.Purpose == training.Flush && !late {
				late = true
				w.nodes["i-0001"].down.last = w.now.Add(time.Second)
			}
		}
		w.neverBack()
		return func() bool { return late }
	})
}

// The controller dies when a cut at the last clock is named everywhere and not yet committed. No work is left when the next one takes over:
// it revokes that cut, and names the same clock again, which must be delivered and reported again.
func TestCutNamedAgainAfterATakeover(t *testing.T) {
	both(t, func(w *world) func() bool {
		killed, last := false, ps.Clock(w.shape.clocks)
		w.onEntry = func(e journal.Entry) {
			if e.Kind == journal.ClockDone && e.Clock == int64(last)-1 {
				w.ctrl.training.Cuts.Due, w.ctrl.step.Pending = w.now, true
			}
		}
		w.when(func() bool {
			return w.ctrl.training.Cuts.Cut != nil && w.ctrl.training.Cuts.Cut.Clock == last && len(w.ctrl.training.Cuts.Cut.Naming) == 0
		}, func() {
			killed = true
			w.killController(time.Second + w.delay(time.Second))
		})
		return func() bool { return killed && w.count(journal.Rollback) == 0 && w.count(journal.TakeOver) == 1 }
	})
}
