package elasticity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// lines returns the lines of a kind.
func (w *world) lines(kind journal.Kind) (out []journal.Entry) {
	for _, e := range w.entries {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) only(t *testing.T, kind journal.Kind) journal.Entry {
	t.Helper()
	found := w.lines(kind)
	if len(found) != 1 {
		t.Fatalf("%d lines of kind %q, want one\n%s", len(found), kind, w.describe())
	}
	return found[0]
}

// small returns a world of stage 1: two machines.
func small() shape {
	s := plain()
	s.transient, s.clocks = 1, 40
	return s
}

// A machine whose agent never calls is given up, and another one is bought.
func TestAgentThatNeverCalls(t *testing.T) {
	s := small()
	s.clocks = 90
	w := newWorld(1, s)
	w.cloud.mute = epoch.Add(4 * time.Second)
	w.ctrl.configure(func(c *Config) { c.BootWithin = 4 * time.Second })
	finish(t, w, "finished")
	e := w.only(t, journal.Failed)
	if !strings.Contains(e.Why, "did not call in 4 s") {
		t.Errorf("it failed because %q", e.Why)
	}
	if n := w.count(journal.Launch); n != 3 {
		t.Errorf("%d machines, want the reliable one, the mute one and another one", n)
	}
}

// A node whose stream breaks before it has been welcomed calls again. It counts as the same node.
func TestNodeThatCallsTwice(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, 15 * time.Millisecond, 30 * time.Millisecond} {
		w := newWorld(2, small())
		w.hooks["boot"] = func(n *node) {
			w.after(wait, func() {
				if n.agent.Incarnation == 0 {
					n.hello()
				}
			})
		}
		finish(t, w, "finished")
		if failed := w.lines(journal.Failed); failed != nil {
			t.Errorf("after %v: %s", wait, line(failed[0]))
		}
	}
}

// A process that restarts on a participating machine has lost its state: the machine is given up.
func TestProcessThatBeginsAnew(t *testing.T) {
	w := newWorld(3, six())
	var id ps.ServerID
	w.settled(func() {
		id = w.spot()[0]
		w.nodes[id].restart(time.Millisecond)
	})
	finish(t, w, "finished")
	if e := w.only(t, journal.Failed); e.Instance != string(id) || !strings.Contains(e.Why, "restarted and lost") {
		t.Errorf("%s", line(e))
	}
	if w.count(journal.Rollback) != 1 {
		t.Error("it served: want one roll-back")
	}
}

// The provider may warn of a machine, or take it, before the launch is answered.
func TestNoticeBeforeTheAnswer(t *testing.T) {
	for _, notice := range []time.Duration{300 * time.Millisecond, 3 * time.Second} {
		s := small()
		s.clocks = 90
		w := newWorld(4, s)
		w.cloud.slow = epoch.Add(4 * time.Second)
		w.hooks["launched late"] = func(n *node) { w.evict(notice, n.id) }
		finish(t, w, "finished")
		if e := w.only(t, journal.Evicted); e.Instance != "i-0002" {
			t.Errorf("%s", line(e))
		}
		if w.count(journal.Notice) != 1 {
			t.Errorf("%d notices", w.count(journal.Notice))
		}
	}
}

// controller returns a controller that has requested its reliable machine, and a function that steps it.
func controller(s shape) (c *Controller, step func(after time.Duration, e Event) []Action) {
	w := newWorld(0, s)
	now := epoch
	return w.ctrl, func(after time.Duration, e Event) []Action {
		now = now.Add(after)
		return w.ctrl.Step(now, e)
	}
}

func pick[T Action](actions []Action) (out []T) {
	for _, a := range actions {
		if is, ok := a.(T); ok {
			out = append(out, is)
		}
	}
	return out
}

func kinds(actions []Action) (out []journal.Kind) {
	for _, r := range pick[Record](actions) {
		out = append(out, r.Entry.Kind)
	}
	return out
}

func instance(id, token string) provisioner.Instance {
	return provisioner.Instance{ID: provisioner.InstanceID(id), Pool: reliablePool, Token: token, State: provisioner.Running, Launched: epoch}
}

// A launch reported as failed may have bought machines nevertheless. They are on the bill, and are ended.
func TestMachinesOfAFailedLaunch(t *testing.T) {
	failed := LaunchFailed{Token: "test-1", Err: errors.New("the answer was lost")}
	ended := instance("i-1", "test-1")
	ended.State, ended.Ended, ended.EndedBy = provisioner.Terminated, epoch.Add(5*time.Second), market.ByUser
	begin := func() func(time.Duration, Event) []Action {
		_, step := controller(plain())
		step(0, Wake{})
		step(time.Second, failed)
		return step
	}
	t.Run("answered late", func(t *testing.T) {
		step := begin()
		actions := step(time.Second, Launched{Token: "test-1", Instances: []provisioner.Instance{instance("i-1", "test-1")}})
		if kinds(actions)[0] != journal.Launch || len(pick[Terminate](actions)) != 1 {
			t.Errorf("%+v", actions)
		}
		step(time.Second, PricesKnown{At: epoch.Add(time.Hour)})
		if got := kinds(step(4*time.Second, InstanceEnded{Instance: ended})); !slices.Equal(got, []journal.Kind{journal.Terminated, journal.Intent, journal.Charge}) {
			t.Errorf("%v", got)
		}
	})
	t.Run("found when it calls", func(t *testing.T) {
		step := begin()
		hello := Reported{ID: "i-1", Report: tiers.Hello{Instance: "i-1", Address: "a"}}
		if got := pick[Terminate](step(time.Second, hello)); len(got) != 1 || got[0].IDs[0] != "i-1" {
			t.Errorf("it was not ended: %+v", got)
		}
		if got := pick[Terminate](step(time.Second, hello)); len(got) != 0 {
			t.Errorf("it was ended twice: %+v", got)
		}
		step(time.Second, PricesKnown{At: epoch.Add(time.Hour)})
		if got := kinds(step(4*time.Second, InstanceEnded{Instance: ended})); !slices.Equal(got, []journal.Kind{journal.Launch, journal.Terminated, journal.Intent, journal.Charge}) {
			t.Errorf("its bill: %v", got)
		}
	})
	t.Run("called before the launch was said to have failed", func(t *testing.T) {
		_, step := controller(plain())
		step(0, Wake{})
		step(time.Second, Reported{ID: "i-1", Report: tiers.Hello{Instance: "i-1", Address: "a"}})
		if got := pick[Terminate](step(time.Second, failed)); len(got) != 1 {
			t.Errorf("it was not ended: %+v", got)
		}
	})
	t.Run("of somebody else", func(t *testing.T) {
		step := begin()
		other := ended
		other.Token = "other-1"
		if got := step(time.Second, InstanceEnded{Instance: other}); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A launch is answered after the end was decided: its machines are ended, and the run waits for them.
func TestLaunchAnsweredAfterTheEnd(t *testing.T) {
	_, step := controller(plain())
	step(0, Wake{})
	if got := pick[Finish](step(time.Second, StopWanted{Why: "enough", Now: true})); got != nil {
		t.Fatal("it ended with a launch unanswered")
	}
	actions := step(time.Second, Launched{Token: "test-1", Instances: []provisioner.Instance{instance("i-1", "test-1")}})
	if len(pick[Terminate](actions)) != 1 || pick[Finish](actions) != nil {
		t.Fatalf("%+v", actions)
	}
	if got := pick[Send](step(time.Second, Reported{ID: "i-1", Report: tiers.Hello{Instance: "i-1", Address: "a"}})); got != nil {
		t.Errorf("it was told to %T", got[0].Command.Do)
	}
	gone := instance("i-1", "test-1")
	gone.State, gone.Ended, gone.EndedBy = provisioner.Terminated, epoch.Add(4*time.Second), market.ByUser
	if got := pick[Finish](step(2*time.Second, InstanceEnded{Instance: gone})); len(got) != 1 || got[0].Outcome != "interrupted" {
		t.Errorf("%+v", got)
	}
}

// The reliable tier is requested again if it is unavailable, comes in part, or is lost before it arrives; but not forever.
func TestReliableTierIsRequestedAgain(t *testing.T) {
	t.Run("no capacity", func(t *testing.T) {
		_, step := controller(plain())
		launches, end := 0, []Action(nil)
		actions := step(0, Wake{})
		for end == nil && launches < 20 {
			for _, l := range pick[Launch](actions) {
				launches++
				actions = step(time.Second, LaunchFailed{Token: l.Request.Token, Err: provisioner.ErrNoCapacity})
			}
			if len(pick[Finish](actions)) > 0 {
				end = actions
				break
			}
			if pick[Launch](actions) == nil {
				actions = step(5*time.Second, Wake{})
			}
		}
		done := pick[Record](end)
		if launches != fleet.MaxReliableTries || done[len(done)-1].Entry.Outcome != "failed" ||
			!strings.Contains(done[len(done)-1].Entry.Why, provisioner.ErrNoCapacity.Error()) {
			t.Errorf("%d launches, %+v", launches, end)
		}
	})
	t.Run("impossible", func(t *testing.T) {
		_, step := controller(plain())
		step(0, Wake{})
		if got := pick[Finish](step(time.Second, LaunchFailed{Token: "test-1", Err: fmt.Errorf("no such type: %w", provisioner.ErrInvalid)})); len(got) != 1 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("in part", func(t *testing.T) {
		s := plain()
		s.reliable = 3
		_, step := controller(s)
		step(0, Wake{})
		actions := step(time.Second, Launched{Token: "test-1", Instances: []provisioner.Instance{instance("i-1", "test-1")}})
		if got := pick[Record](actions); got[len(got)-1].Entry.Kind != journal.LaunchFailed || got[len(got)-1].Entry.Count != 2 {
			t.Errorf("%+v", got)
		}
		if got := pick[Launch](step(5*time.Second, Wake{})); len(got) != 1 || got[0].Request.Count != 2 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("lost on its way", func(t *testing.T) {
		for _, boots := range []bool{false, true} {
			w := newWorld(5, small())
			if boots {
				w.hooks["boot"] = func(n *node) {
					if len(w.order) == 1 {
						w.kill(n.id)
					}
				}
			} else {
				w.onEntry = func(e journal.Entry) {
					if e.Kind == journal.Launch && len(w.order) == 1 {
						w.after(0, func() { w.kill("i-0001") })
					}
				}
			}
			finish(t, w, "finished")
		}
	})
}

// A stop saves the state; a second one changes nothing; a forced one ends the run at once. All at any moment.
func TestStopAtAnyMoment(t *testing.T) {
	for step := range 60 {
		at := time.Duration(step) * 200 * time.Millisecond
		w := newWorld(uint64(step), six())
		w.after(at, func() { w.step(StopWanted{Why: "enough"}) })
		w.after(at+w.delay(300*time.Millisecond), func() { w.step(StopWanted{Why: "again"}) })
		if step%3 == 0 {
			w.after(at+w.delay(300*time.Millisecond), func() { w.step(StopWanted{Why: "now", Now: true}) })
		}
		if step%2 == 0 {
			w.after(at+w.delay(300*time.Millisecond)-150*time.Millisecond, func() { w.evict(time.Second, w.spot()...) })
		}
		finish(t, w, "interrupted", "finished")
		if e := w.entries[len(w.entries)-1]; w.outcome == "interrupted" && e.Why != "enough" && e.Why != "now" {
			t.Errorf("it ended because %q", e.Why)
		}
		if w.ctrl.training.Layout.Standing() && step%3 != 0 && (w.exported == 0) {
			t.Errorf("stopped at %v, and nothing was saved\n%s", at, w.describe())
		}
	}
}

func TestMaxDuration(t *testing.T) {
	w := newWorld(6, six())
	w.ctrl.cfg.MaxDuration = 7 * time.Second
	finish(t, w, "interrupted")
	if e := w.entries[len(w.entries)-1]; !strings.Contains(e.Why, "max_duration 7s is over") || w.exported == 0 {
		t.Errorf("%s, saved clock %d", line(e), w.exported)
	}
}

// An event that is reported twice is recorded once.
func TestRepeatedNews(t *testing.T) {
	w := newWorld(7, small())
	w.when(func() bool { return w.grown(1) }, func() {
		id := w.spot()[0]
		for range 3 {
			w.step(Warned{ID: id, Rebalance: true})
			w.step(PriceChanged{Pool: poolA, At: epoch.Add(4 * time.Second), Price: market.Dollar / 5})
		}
		for range 3 {
			w.step(Warned{ID: id, Deadline: w.now.Add(time.Hour)})
			w.step(Warned{ID: id, Rebalance: true})
		}
		gone := w.nodes[id].instance
		w.kill(id)
		gone.State, gone.Ended, gone.EndedBy = provisioner.Terminated, w.nodes[id].instance.Ended, market.ByProvider
		for range 3 {
			w.step(InstanceEnded{Instance: gone})
			w.step(Disconnected{ID: id})
		}
	})
	finish(t, w, "finished")
	if n := w.count(journal.Notice); n != 2 {
		t.Errorf("%d notices, want the raised risk and the eviction", n)
	}
	if n := w.count(journal.Price); n != 3 {
		t.Errorf("%d prices, want two to begin with and one change", n)
	}
}

// A pool that gives fewer machines than a switch requests replaces only that many.
func TestSwitchToAPoolThatGivesFew(t *testing.T) {
	s := six()
	s.clocks = 90
	w := newWorld(8, s)
	w.settled(func() {
		w.policy.pool = poolB
		w.cloud.few = w.now.Add(2 * time.Second)
		w.when(func() bool { return w.ctrl.fleet.Switching == nil && w.count(journal.Switch) == 1 && w.grown(6) }, func() {
			pools := map[market.Pool]int{}
			for _, m := range w.ctrl.fleet.Roster.List {
				if m.Tier == tiers.Transient && m.Member() && !m.Draining {
					pools[m.Pool]++
				}
			}
			if pools[poolA] != 3 || pools[poolB] != 3 {
				t.Errorf("after the switch: %v", pools)
			}
			w.policy.count = 0 // nothing more
		})
	})
	finish(t, w, "finished")
	if w.count(journal.Rollback) > 0 || w.count(journal.Switch) == 0 {
		t.Errorf("%d roll-backs, %d switches", w.count(journal.Rollback), w.count(journal.Switch))
	}
}

// A switch to an unavailable target leaves everything as it was.
func TestSwitchToAPoolWithoutCapacity(t *testing.T) {
	w := newWorld(9, six())
	w.settled(func() {
		w.policy.pool = poolB
		w.cloud.none = w.now.Add(time.Minute)
	})
	finish(t, w, "finished")
	if w.count(journal.Terminated) != 7 || w.count(journal.LaunchFailed) == 0 {
		t.Errorf("%d machines were ended by us, %d launches failed", w.count(journal.Terminated), w.count(journal.LaunchFailed))
	}
	for _, e := range w.lines(journal.Terminated) {
		if !strings.Contains(e.Why, "the run is over") {
			t.Errorf("%s", line(e))
		}
	}
}

// NextWake is never later than the next due event.
func TestNextWake(t *testing.T) {
	now := epoch.Add(time.Minute)
	soon := now.Add(3 * time.Second)
	for name, set := range map[string]func(c *Controller, n *training.Node, m *fleet.Machine){
		"plan":          func(c *Controller, n *training.Node, m *fleet.Machine) { c.fleet.NextPlan = soon },
		"cut":           func(c *Controller, n *training.Node, m *fleet.Machine) { c.training.Cuts.Due = soon },
		"move":          func(c *Controller, n *training.Node, m *fleet.Machine) { c.training.Layout.MoveRetry = soon },
		"notices":       func(c *Controller, n *training.Node, m *fleet.Machine) { c.training.Layout.Gathering = soon },
		"reliable tier": func(c *Controller, n *training.Node, m *fleet.Machine) { c.fleet.Reliable.After = soon },
		"export": func(c *Controller, n *training.Node, m *fleet.Machine) {
			c.training.Halt = &training.Halting{Retry: soon}
		},
		"join": func(c *Controller, n *training.Node, m *fleet.Machine) {
			c.training.ReadySince = soon.Add(-c.cfg.JoinWait)
		},
		"max_duration": func(c *Controller, n *training.Node, m *fleet.Machine) {
			c.step.Started, c.cfg.MaxDuration = now, 3*time.Second
		},
		"silence": func(c *Controller, n *training.Node, m *fleet.Machine) { n.Heard = soon.Add(-c.cfg.DeadAfter) },
		"stream": func(c *Controller, n *training.Node, m *fleet.Machine) {
			n.BrokenAt, c.training.Silence.Stale = soon.Add(-c.cfg.BrokenAfter), true
		},
		"boot": func(c *Controller, n *training.Node, m *fleet.Machine) {
			n.Address, n.Heard, c.training.Silence.Stale = "", soon.Add(-c.cfg.BootWithin), true
		},
		"drain": func(c *Controller, n *training.Node, m *fleet.Machine) {
			m.Draining = true
			c.fleet.Roster.Goes(m)
			c.configure(func(c *Config) { c.DrainMargin = -3 * time.Second })
		},
		"bill": func(c *Controller, n *training.Node, m *fleet.Machine) {
			m.Ended, m.EndedAt, m.SawEnd = true, soon, now
			c.fleet.Roster.Goes(m)
		},
		"last prices": func(c *Controller, n *training.Node, m *fleet.Machine) {
			m.Ended, m.EndedAt, m.SawEnd = true, now, soon.Add(-fleet.ChargeWait(c.cfg.Settings))
			c.fleet.Roster.Goes(m)
		},
	} {
		c, _, _ := lone(t)
		c.configure(func(c *Config) { c.PlanEvery, c.DeadAfter, c.BootWithin = time.Hour, 30*time.Second, 50*time.Second })
		c.step.Now, c.step.Awake = now, step.NewAwake(6*time.Hour)
		c.step.Awake.Step(now)
		c.fleet.NextPlan = time.Time{}
		m := c.fleet.Roster.List[0]
		n := c.training.Nodes.ByID[m.ID]
		n.Address, n.Heard = "a", now
		c.training.Look()
		c.step.RestUntil = c.nextDue()
		if got := c.NextWake(); !got.Equal(now.Add(30 * time.Second)) {
			t.Fatalf("nothing to do: %v", got.Sub(now))
		}
		set(c, n, m)
		c.training.Look()
		c.step.RestUntil = c.nextDue()
		if got := c.NextWake(); !got.Equal(soon) {
			t.Errorf("%s: in %v, want 3 s", name, got.Sub(now))
		}
	}
}

// A flush that cannot finish in time is not started: the last committed cut serves.
func TestFlushThatDoesNotFit(t *testing.T) {
	for _, notice := range []time.Duration{150 * time.Millisecond, 4 * time.Second} {
		w := newWorld(10, six())
		w.settled(func() {
			w.ctrl.training.Clocks.Seconds = 0.5 // the length of a clock
			w.policy.count = 0
			w.evict(notice, w.spot()...)
			w.after(100*time.Millisecond, func() {
				if began, fits := w.ctrl.training.Halt != nil || w.ctrl.training.Layout.Stage == tiers.Stage1 && !w.ctrl.training.Layout.WantsFlush(), notice > time.Second; began != fits {
					t.Errorf("with %v left, the flush began: %v", notice, began)
				}
			})
		})
		finish(t, w, "finished")
		if rolled := w.count(journal.Rollback) > 0; rolled != (notice < time.Second) {
			t.Errorf("with %v left, everything went back: %v", notice, rolled)
		}
	}
}

// A bill is written when it is due: the provider's clock may be ahead.
func TestBillOfAMachineThatEndsInTheFuture(t *testing.T) {
	_, step := controller(plain())
	step(0, Wake{})
	step(time.Second, Launched{Token: "test-1", Instances: []provisioner.Instance{instance("i-1", "test-1")}})
	step(0, StopWanted{Why: "enough", Now: true})
	ended := instance("i-1", "test-1")
	ended.State, ended.Ended, ended.EndedBy = provisioner.Terminated, epoch.Add(2*time.Minute), market.ByUser
	if got := kinds(step(0, InstanceEnded{Instance: ended})); slices.Contains(got, journal.Charge) {
		t.Errorf("%v", got)
	}
	actions := step(2*time.Minute, Wake{})
	charge := pick[Record](actions)[0].Entry
	if want := (market.Dollar / 4).For(2 * time.Minute).String(); charge.Kind != journal.Charge || charge.USD != want {
		t.Errorf("%+v, want %s", charge, want)
	}
	if len(pick[Finish](actions)) != 1 {
		t.Error("it goes on")
	}
}

// A run whose budget does not pay for the current clock ends at its committed cut: the model of that clock is saved, and no clock begins.
func TestEndAtCut(t *testing.T) {
	for seed := range uint64(20) {
		cut := ps.Clock(0)
		w := newElastic(seed, elastic(), func(w *world) {
			w.when(func() bool { return w.ctrl.training.Cuts.Committed > 1 }, func() {
				c, job := w.ctrl, w.ctrl.conf.fleet
				job.StopTakes, job.Job.Budget = 3*time.Hour, c.State().Due(c.step.Now.Add(time.Hour/2))
				c.step.Stop, c.step.Pending, cut = "money", true, c.training.Cuts.Committed
				w.step(Wake{})
			})
		})
		finish(t, w, "interrupted")
		saved := w.lines(journal.Export)
		if last := saved[len(saved)-1]; ps.Clock(last.Clock) < cut || last.Model == "" || w.count(journal.Rollback) == 0 {
			t.Errorf("seed %d: saved at clock %d of cut %d, as %q", seed, last.Clock, cut, last.Model)
		}
		done := w.lines(journal.Done)
		if last := done[len(done)-1]; last.Clock != saved[len(saved)-1].Clock || last.Why != "money" {
			t.Errorf("seed %d: %s", seed, line(last))
		}
	}
}
