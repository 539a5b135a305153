package restart

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// theatre simulates a run's real machines: their agents obey at once and commit a clock of all their splits on request.
type theatre struct {
	t       *testing.T
	r       *Controller
	now     time.Time
	agents  map[ps.ServerID]*actor
	order   []ps.ServerID
	entries []journal.Entry
	trains  []ps.Clock // where fleets began
	crash   func(*actor, tiers.Do) tiers.Report
	outcome string
	full    time.Time // until then the disk for the model is full
	slow    int       // agents that do not call: 1 = of bought machines, 2 = restarted ones
	late    []ps.ServerID
}

type actor struct {
	id         ps.ServerID
	instance   provisioner.Instance
	dead, mute bool
	lives      int
	welcome    tiers.Welcome
	splits     map[ps.Split]ps.Clock // next clock
	cut        ps.Clock
}

func newTheatre(t *testing.T, policy bidding.Policy, change func(c *Config, train *elasticity.Config)) *theatre {
	th := closedTheatre(t, policy, change)
	th.tell(elasticity.Wake{})
	return th
}

// closedTheatre returns a theatre in which nothing has happened yet.
func closedTheatre(t *testing.T, policy bidding.Policy, change func(c *Config, train *elasticity.Config)) *theatre {
	c := config(t, policy, func(c *Config) { c.Clocks = 20 })
	train := elasticity.Config{
		Run: "run-0", Settings: tempo.Settings{Speed: 1, PlanEvery: time.Hour, BootWithin: 10 * time.Minute, DeadAfter: 3 * time.Second,
			BrokenAfter: time.Second, RetryCapacity: time.Minute},
		Stages: tiers.DefaultThresholds(),
		Job: elasticity.Job{Clocks: 20, Heartbeat: time.Second, OrphanAfter: time.Minute,
			Schema: ps.Schema{Tables: []ps.Table{{Name: "w", Rows: 8, Cols: 1}}, Partitions: 4, Splits: 4, Deterministic: true}},
		Checkpoints: elasticity.Checkpoints{Place: "/checkpoints", Life: "1"},
	}
	if change != nil {
		change(&c, &train)
	}
	return &theatre{t: t, r: New(c, Tiered(train)), now: start, agents: map[ps.ServerID]*actor{}}
}

func (th *theatre) tell(e elasticity.Event) {
	th.now = th.now.Add(time.Millisecond)
	for _, a := range slices.Clone(th.r.Step(th.now, e)) { // more events come meanwhile
		th.do(a)
	}
}

// wait advances time: live machines report each second, and the run is woken when it wants to be.
func (th *theatre) wait(d time.Duration) {
	for range int(d / time.Second) {
		next := th.now.Add(time.Second)
		for th.outcome == "" && th.r.NextWake().Before(next) {
			if wake := th.r.NextWake().Add(-time.Millisecond); wake.After(th.now) {
				th.now = wake
			}
			th.tell(elasticity.Wake{})
		}
		if next.After(th.now) {
			th.now = next
		}
		for _, id := range th.order {
			if a := th.agents[id]; !a.dead && !a.mute && a.welcome.Until > 0 {
				th.tell(elasticity.Reported{ID: id, Report: tiers.Heartbeat{Generation: a.welcome.Generation}})
			}
		}
		th.tell(elasticity.Wake{})
	}
}

func (th *theatre) do(a elasticity.Action) {
	switch a := a.(type) {
	case elasticity.Record:
		if err := a.Entry.Validate(); err != nil {
			th.t.Error(err)
		}
		th.entries = append(th.entries, a.Entry)
	case elasticity.Launch:
		var got []provisioner.Instance
		for range a.Request.Count {
			id := ps.ServerID(fmt.Sprintf("i-%d", len(th.order)+1))
			th.order = append(th.order, id)
			i := provisioner.Instance{ID: provisioner.InstanceID(id), Pool: a.Request.Pool, Token: a.Request.Token,
				State: provisioner.Running, Launched: th.now.Truncate(time.Second)}
			th.agents[id] = &actor{id: id, instance: i}
			got = append(got, i)
		}
		th.tell(elasticity.Launched{Token: a.Request.Token, Instances: got})
		for _, i := range got {
			th.call(ps.ServerID(i.ID))
		}
	case elasticity.Terminate:
		for _, id := range a.IDs {
			th.end(ps.ServerID(id), market.ByUser)
		}
	case elasticity.Send:
		if agent := th.agents[a.ID]; agent != nil && !agent.dead && !agent.mute {
			th.obey(agent, a.Command)
		}
	case elasticity.WriteManifest:
		th.tell(elasticity.ManifestWritten{Folder: a.Folder, Manifest: fmt.Sprintf("manifest-%d", a.Cut)})
	case elasticity.Export:
		e := elasticity.Exported{Generation: a.Generation, Model: "model"}
		if th.now.Before(th.full) {
			e.Model, e.Err = "", errors.New("no space left on device")
		}
		th.tell(e)
	case elasticity.Finish:
		th.outcome = a.Outcome
	}
}

// call makes an agent start.
func (th *theatre) call(id ps.ServerID) {
	a := th.agents[id]
	a.lives++
	if th.slow == min(a.lives, 2) {
		th.late = append(th.late, id)
		return
	}
	a.splits, a.welcome = map[ps.Split]ps.Clock{}, tiers.Welcome{}
	th.tell(elasticity.Reported{ID: id, Report: tiers.Hello{Instance: id, Address: fmt.Sprintf("%s/%d", id, a.lives)}})
}

func (th *theatre) end(id ps.ServerID, by market.EndedBy) {
	if a := th.agents[id]; a != nil && !a.dead {
		a.dead = true
		th.tell(elasticity.InstanceEnded{Instance: provisioner.Instance{ID: provisioner.InstanceID(id), State: provisioner.Terminated,
			Ended: th.now.Truncate(time.Second), EndedBy: by}})
	}
}

func (th *theatre) obey(agent *actor, c tiers.Command) {
	answer := tiers.Answer{ID: c.ID}
	if th.crash != nil {
		if last := th.crash(agent, c.Do); last != nil {
			if a, answers := last.(tiers.Answer); answers {
				a.ID = c.ID
				last = a
			}
			th.tell(elasticity.Reported{ID: agent.id, Report: last})
			th.end(agent.id, market.ByUser)
			return
		}
	}
	var after tiers.Report
	switch do := c.Do.(type) {
	case tiers.Welcome:
		if agent.welcome.Until > 0 {
			th.t.Errorf("%s was welcomed twice in one life", agent.id)
		}
		agent.welcome = do
	case tiers.Own:
		if agent == th.agents[th.order[0]] || len(th.trains) == 0 || th.trains[len(th.trains)-1] != do.Cut {
			th.trains = append(th.trains, do.Cut)
		}
		if (do.Checkpoint == "") != (do.Cut == 0) || do.Cut > 0 && do.Checkpoint != fmt.Sprintf("manifest-%d", do.Cut) {
			th.t.Errorf("%s is to read clock %d from %q", agent.id, do.Cut, do.Checkpoint)
		}
	case tiers.Assign:
		for _, s := range do.Splits {
			agent.splits[s.Split] = s.Clock
		}
	case tiers.NameCut:
		agent.cut = do.Cut
	case tiers.SaveCut:
		parts := tiers.Saved{}
		for _, p := range do.Partitions {
			parts.Parts = append(parts.Parts, tiers.SavedPart{Partition: p, Object: "o", Bytes: 1})
		}
		answer.Result = parts
	case tiers.Park:
		begun := ps.Clock(0)
		for _, next := range agent.splits {
			begun = max(begun, next-1)
		}
		answer.Result = tiers.Parked{Begun: begun}
	case tiers.Unpark:
		agent.cut = do.Until
		after = tiers.CutHeld{Cut: do.Until}
	case tiers.Stop:
		if do.Again {
			th.call(agent.id)
			return
		}
	}
	th.tell(elasticity.Reported{ID: agent.id, Report: answer})
	if after != nil {
		th.tell(elasticity.Reported{ID: agent.id, Report: after})
	}
}

// clock makes all live workers commit a clock, and deliver the cut that is named for it.
func (th *theatre) clock() {
	for _, id := range slices.Clone(th.order) {
		a := th.agents[id]
		if a.dead || a.mute || len(a.splits) == 0 {
			continue
		}
		var clock ps.Clock
		var stats []tiers.SplitStats
		for s := range ps.Split(4) {
			if next, mine := a.splits[s]; mine {
				clock = next
				a.splits[s]++
				stats = append(stats, tiers.SplitStats{Split: s, Examples: 1, Work: 1})
			}
		}
		th.tell(elasticity.Reported{ID: id, Report: tiers.Progress{Generation: a.welcome.Generation, Clock: clock, Splits: stats}})
	}
	for _, id := range slices.Clone(th.order) {
		if a := th.agents[id]; !a.dead && !a.mute && a.cut > 0 {
			cut := a.cut
			a.cut = 0
			th.tell(elasticity.Reported{ID: id, Report: tiers.CutHeld{Cut: cut}})
		}
	}
}

func (th *theatre) lines(kind journal.Kind) (out []journal.Entry) {
	for _, e := range th.entries {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

func everyTenSeconds(c *Config, _ *elasticity.Config) { c.SaveEvery = 10 * time.Second }

// TestRunKillsAndRestarts: a checkpoint is taken when it is due; when a machine is lost, the other's process restarts, and a whole fleet
// continues from the checkpoint to the end. Unsaved work is repeated, and reported as such.
func TestRunKillsAndRestarts(t *testing.T) {
	zone := "ra"
	th := newTheatre(t, inZone(&zone), everyTenSeconds)
	for range 5 {
		th.clock()
	}
	th.wait(11 * time.Second)
	th.clock() // passes the cut
	saved := th.lines(journal.Checkpoint)
	if len(saved) != 1 || saved[0].Clock != 6 {
		t.Fatalf("checkpoints: %+v", saved)
	}
	for range 3 {
		th.clock()
	}
	survivor := th.agents["i-2"]
	th.end("i-1", market.ByProvider)
	if survivor.lives != 2 || len(th.order) != 3 {
		t.Fatalf("the survivor has begun %d times, %d machines were bought", survivor.lives, len(th.order))
	}
	back := th.lines(journal.Rollback)
	if len(back) != 1 || back[0].Clock != 6 || back[0].LostClocks != 3 {
		t.Fatalf("roll-backs: %+v", back)
	}
	if survivor.welcome.Generation != 2 || survivor.splits[0]+survivor.splits[1]+survivor.splits[2]+survivor.splits[3] == 0 {
		t.Errorf("the survivor was welcomed as %+v and works on %v", survivor.welcome, survivor.splits)
	}
	for range 14 {
		th.clock()
	}
	th.wait(2 * time.Second)
	if th.outcome == "" { // the bills wait for the last prices
		th.tell(elasticity.PricesKnown{At: th.now.Add(time.Hour)})
	}
	if th.outcome != "finished" {
		t.Fatalf("the run is %q; %+v", th.outcome, th.entries[len(th.entries)-1])
	}
	var clocks, redone []int64
	for _, e := range th.lines(journal.ClockDone) {
		clocks = append(clocks, e.Clock)
		if e.Redone {
			redone = append(redone, e.Clock)
		}
	}
	if len(clocks) != 23 || !slices.Equal(redone, []int64{7, 8, 9}) {
		t.Errorf("clocks %v, done again %v", clocks, redone)
	}
	if e := th.lines(journal.Export); len(e) != 1 || e[0].Clock != 20 || e[0].Outcome != "finished" {
		t.Errorf("exports: %+v", e)
	}
}

// TestRunSilentMachine: a machine whose agent falls silent is given up, and its fleet with it; the run continues from the beginning, as
// nothing was saved.
func TestRunSilentMachine(t *testing.T) {
	zone := "ra"
	th := newTheatre(t, inZone(&zone), nil)
	th.clock()
	th.agents["i-1"].mute = true
	th.wait(12 * time.Second)
	failed := th.lines(journal.Failed)
	if len(failed) == 0 || failed[0].Instance != "i-1" || !th.agents["i-1"].dead {
		t.Fatalf("%+v", failed)
	}
	if back := th.lines(journal.Rollback); len(back) != 1 || back[0].Clock != 0 || back[0].LostClocks != 1 {
		t.Errorf("roll-backs: %+v", back)
	}
	th.clock()
	if done := th.lines(journal.ClockDone); len(done) != 2 || done[1].Clock != 1 || !done[1].Redone || done[1].Transient != 2 {
		t.Errorf("clocks: %+v", done)
	}
}

// TestRunStopsInOrder: work is saved, to be resumed; no machine is left.
func TestRunStopsInOrder(t *testing.T) {
	zone := "ra"
	th := newTheatre(t, inZone(&zone), nil)
	th.clock()
	th.clock()
	th.tell(elasticity.StopWanted{Why: "enough"})
	th.tell(elasticity.PricesKnown{At: th.now.Add(time.Hour)})
	if th.outcome != "interrupted" || !th.agents["i-1"].dead || !th.agents["i-2"].dead {
		t.Errorf("the run is %q: %+v", th.outcome, th.entries[len(th.entries)-1])
	}
	if e := th.lines(journal.Export); len(e) != 1 || e[0].Clock != 2 || e[0].Outcome != "interrupted" {
		t.Errorf("exports: %+v", e)
	}
}

// TestRunCannotBeSaved: the disk for the model is full for a minute; no machine ends before it is saved.
func TestRunCannotBeSaved(t *testing.T) {
	zone := "ra"
	th := newTheatre(t, inZone(&zone), nil)
	th.clock()
	th.full = th.now.Add(time.Minute)
	th.tell(elasticity.StopWanted{Why: "enough"})
	th.wait(50 * time.Second)
	if th.outcome != "" || th.agents["i-1"].dead || th.agents["i-2"].dead {
		t.Fatalf("the run is %q, and its model is not saved: %+v", th.outcome, th.entries[len(th.entries)-1])
	}
	th.wait(20 * time.Second)
	th.tell(elasticity.PricesKnown{At: th.now.Add(time.Hour)})
	if e := th.lines(journal.Export); th.outcome != "interrupted" || len(e) != 2 || e[0].Outcome != "" || e[1].Outcome != "interrupted" {
		t.Errorf("the run is %q, exports: %+v", th.outcome, e)
	}
}

// TestRunCrashLoop: agents that end by themselves end the run, though each fleet has a controller of its own.
func TestRunCrashLoop(t *testing.T) {
	for name, crash := range map[string]func(*actor, tiers.Do) tiers.Report{
		"panic": func(_ *actor, do tiers.Do) tiers.Report {
			if _, assigned := do.(tiers.Assign); assigned {
				return tiers.Crashed{Error: "panic: a mistake", Log: "main.go:1"}
			}
			return nil
		},
		"cannot start": func(_ *actor, do tiers.Do) tiers.Report {
			if _, welcomed := do.(tiers.Welcome); welcomed {
				return tiers.Answer{Code: tiers.CodeFailed, Error: "panic: a mistake"}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			zone := "ra"
			th := closedTheatre(t, inZone(&zone), nil)
			th.crash = crash
			for range 200 {
				th.wait(time.Second)
				th.tell(elasticity.PricesKnown{At: th.now})
			}
			done := th.entries[len(th.entries)-1]
			if th.outcome != "failed" || done.Kind != journal.Done || !strings.Contains(done.Why, "panic: a mistake") {
				t.Fatalf("outcome %q, %+v", th.outcome, done)
			}
			if name == "panic" && done.Log != "main.go:1" {
				t.Errorf("the log is %q", done.Log)
			}
			if n := len(th.order); n > 12 {
				t.Errorf("%d machines were bought", n)
			}
		})
	}
}

func TestRunScale(t *testing.T) {
	zone := "ra"
	th := newTheatre(t, inZone(&zone), nil)
	actions := th.r.Step(th.now, elasticity.ScaleWanted{ID: 7, Workers: 1})
	if answer, ok := actions[0].(elasticity.Scaled); !ok || answer.ID != 7 || answer.Err == nil {
		t.Errorf("%+v", actions)
	}
}

// TestRestartedControllerEndsOldMachines: a restarted controller ends its predecessor's machines, and reports what is lost.
func TestRestartedControllerEndsOldMachines(t *testing.T) {
	zone := "ra"
	old := provisioner.Instance{ID: "i-old", Pool: pool("ra", market.Spot), State: provisioner.Running, Launched: start.Add(-time.Hour)}
	th := newTheatre(t, inZone(&zone), func(c *Config, train *elasticity.Config) {
		c.ResumeAt = 6
		train.Job.ResumeAt, train.Job.ResumeFrom = 6, "manifest-6"
		c.Past = &elasticity.Past{Log: elasticity.Log{Generation: 3, Done: 9, Furthest: 9},
			Ledger: fleet.Ledger{Known: map[string]bool{"i-old": true}, Machines: []fleet.PastMachine{{Instance: old}}}}
		c.Run = "run-1"
	})
	// the provider's list reveals its end
	th.tell(elasticity.Listed{})
	if gone := th.lines(journal.Terminated); len(gone) != 1 || gone[0].Instance != "i-old" {
		t.Errorf("ended: %+v", gone)
	}
	if back := th.lines(journal.Rollback); len(back) != 1 || back[0].LostClocks != 3 {
		t.Errorf("roll-backs: %+v", back)
	}
	th.clock()
	if done := th.lines(journal.ClockDone); len(done) != 1 || done[0].Clock != 7 || !done[0].Redone {
		t.Errorf("clocks: %+v", done)
	}
	if !slices.Equal(th.trains[:1], []ps.Clock{6}) {
		t.Errorf("began at %v", th.trains)
	}
}
