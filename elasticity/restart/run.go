package restart

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// RunConfig is what a Run needs to know beforehand.
type RunConfig struct {
	Decide Config
	// Train is how a fleet trains: the job, the lengths of time, where checkpoints go, and the checkpoint to begin with.
	// Machines, prices and the policy are those of Decide.
	Train elasticity.Config
}

// Run is a run by kill and restart on real machines. A Controller decides what is bought, when a checkpoint is taken and
// when everything begins again; between two beginnings an elasticity.Controller of its own lets the fleet train, whose
// machines are its reliable tier. What is killed is killed: agents that outlive their fleet begin anew, empty.
type Run struct {
	cfg RunConfig
	now time.Time
	out []elasticity.Action

	decider *Controller
	hellos  map[ps.ServerID]tiers.Hello // of agents that know nothing yet
	used    map[ps.ServerID]bool        // agents that have taken part since they began
	attempt *attempt                    // that forming or fleet is of
	forming *forming
	fleet   *elasticity.Controller // nil while none trains
	fleets  uint64                 // so far

	checkpoint   string // the newest; empty = none
	checkpointAt ps.Clock
}

// forming is a fleet that begins when all its agents have called.
type forming struct {
	machines []ps.ServerID
	since    time.Time // by the decider's awake
}

// NewRun returns a run; its first Step asks the policy for a fleet.
func NewRun(cfg RunConfig) *Run {
	return &Run{
		cfg: cfg, decider: New(cfg.Decide), hellos: map[ps.ServerID]tiers.Hello{}, used: map[ps.ServerID]bool{},
		checkpoint: cfg.Train.Job.ResumeFrom, checkpointAt: cfg.Train.Job.ResumeAt,
	}
}

// Step takes in an event and gives what to do about it, in order.
func (r *Run) Step(now time.Time, e elasticity.Event) []elasticity.Action {
	r.now, r.out = now, nil
	r.decider.awake.Step(now)
	switch e := e.(type) {
	case elasticity.Reported:
		r.takeReport(e)
	case elasticity.Disconnected, elasticity.Exported, elasticity.ManifestWritten:
		r.tell(e) // a broken stream is not yet the end of a machine: the fleet's controller judges
	case elasticity.Launched, elasticity.LaunchFailed:
		r.decide(e)
		for _, id := range slices.Sorted(maps.Keys(r.hellos)) { // some call before the launch is answered
			r.meet(elasticity.Reported{ID: id, Report: r.hellos[id]})
		}
	case elasticity.ScaleWanted:
		r.out = append(r.out, elasticity.Scaled{ID: e.ID, Err: errors.New("a run by kill and restart has the whole fleet or none")})
	case elasticity.Wake:
		r.decide(e)
		r.tell(e)
	default:
		r.decide(e)
	}
	r.form()
	return r.out
}

// NextWake is when Step wants to be called again at the latest.
func (r *Run) NextWake() time.Time {
	wake := r.decider.NextWake()
	by := func(t time.Time) {
		if t.After(r.now) && t.Before(wake) {
			wake = t
		}
	}
	if r.fleet != nil {
		wakeFleet := r.fleet.NextWake()
		if !wakeFleet.After(r.now) { // what happened last was the decider's alone
			wakeFleet = r.now.Add(1)
		}
		by(wakeFleet)
	}
	if r.forming != nil {
		by(r.decider.awake.Due(r.forming.since, r.cfg.Decide.BootWithin))
		by(r.decider.awake.NextBeat())
	}
	return wake
}

// Totals tells what the run has come to so far.
func (r *Run) Totals() elasticity.Totals { return r.decider.Totals() }

func (r *Run) takeReport(e elasticity.Reported) {
	hello, calls := e.Report.(tiers.Hello)
	if calls && hello.Incarnation == 0 {
		r.hellos[e.ID] = hello
	}
	if calls {
		r.meet(e)
	}
	if crash, is := e.Report.(tiers.Crashed); is { // its fleet goes with it
		r.obey(r.decider.step(r.now, func() { r.decider.crashed(e.ID, crash) }))
	}
	if r.attempt != nil && slices.ContainsFunc(r.attempt.team, func(m *machine) bool { return m.id == e.ID }) {
		r.tell(e)
	}
}

// meet is told that an agent has called. One that no launch accounts for, or that was given up, costs money for nothing.
func (r *Run) meet(e elasticity.Reported) {
	r.decide(e)
	if m := r.decider.machines[e.ID]; m == nil && len(r.decider.launches) == 0 || m != nil && m.lost {
		delete(r.hellos, e.ID)
		r.out = append(r.out, elasticity.Terminate{IDs: []provisioner.InstanceID{provisioner.InstanceID(e.ID)},
			Why: "nobody expects this machine"})
	}
}

// decide tells the decider of an event and does as it says.
func (r *Run) decide(e elasticity.Event) { r.obey(r.decider.Step(r.now, e)) }

func (r *Run) obey(actions []elasticity.Action) {
	if r.decider.attempt != r.attempt {
		r.disband()
		r.attempt = r.decider.attempt
	}
	for _, a := range actions {
		switch a := a.(type) {
		case elasticity.Train:
			r.forming = &forming{machines: a.Machines, since: r.decider.awake.Now()}
		case elasticity.Save:
			r.save(a)
		case elasticity.Record:
			switch a.Entry.Kind {
			case journal.ClockDone, journal.Export, journal.Join: // the fleet's own lines say more, and when it was so
			default:
				r.out = append(r.out, a)
			}
		default:
			r.out = append(r.out, a)
		}
	}
}

// disband kills what trains. Machines that stay begin anew.
func (r *Run) disband() {
	r.forming, r.fleet = nil, nil
	if r.attempt == nil {
		return
	}
	for _, m := range r.attempt.team {
		if !r.used[m.id] || m.lost || m.ended || m.terminating {
			continue
		}
		delete(r.used, m.id)
		delete(r.hellos, m.id)
		r.record(journal.Entry{Kind: journal.Leave, Instance: string(m.id), Pool: m.pool.String(), Tier: m.tier()})
		r.out = append(r.out, elasticity.Send{ID: m.id, Command: tiers.Command{ID: r.firstID() - 1,
			Do: tiers.Stop{Why: "the fleet is not whole any more", Again: true}}})
	}
}

// save lets the fleet take the checkpoint that the decider wants. The last one it takes by itself.
func (r *Run) save(a elasticity.Save) {
	switch {
	case a.Final:
	case r.decider.stopWhy != "":
		r.tell(elasticity.StopWanted{Why: r.decider.stopWhy})
	default:
		r.tell(elasticity.SaveWanted{})
	}
}

// form lets a fleet begin whose agents have all called, and gives those up that do not.
func (r *Run) form() {
	f := r.forming
	if f == nil {
		return
	}
	var missing []ps.ServerID
	for _, id := range f.machines {
		if _, called := r.hellos[id]; !called {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		r.forming = nil
		r.begin(f.machines)
		return
	}
	if !r.decider.awake.Over(f.since, r.cfg.Decide.BootWithin) {
		return
	}
	for _, id := range missing {
		r.obey(r.decider.step(r.now, func() { r.decider.abandon(id, "its agent did not call again") }))
	}
}

// firstID is beyond all numbers of commands for fleets before the next.
func (r *Run) firstID() uint64 { return r.cfg.Train.FirstID + (r.fleets+1)<<22 }

// begin gives the team a controller for its training.
func (r *Run) begin(team []ps.ServerID) {
	c := r.cfg.Train
	c.FirstID = r.firstID()
	r.fleets++
	first := r.decider.machines[team[0]]
	c.Run = fmt.Sprintf("%s-fleet-%d", r.cfg.Decide.Run, r.fleets)
	c.Reliable = elasticity.Reliable{Pool: first.pool, Type: r.decider.typeOf(first.pool), Count: len(team)}
	c.Policy, c.Want, c.Pools = idle{}, bidding.Want{}, r.cfg.Decide.Pools
	c.FirstGeneration = ps.Generation(r.decider.attempts)
	c.FirstIncarnation = ps.Incarnation(r.decider.attempts << 20)
	c.CutEvery, c.Notice = cutsForCheckpoints, 0
	c.MaxDuration, c.Deadline, c.Budget, c.Past = 0, time.Time{}, 0, nil
	c.Job.ResumeFrom, c.Job.ResumeAt = r.checkpoint, r.checkpointAt
	c.Checkpoints.Newest, c.Checkpoints.NewestAt, c.Checkpoints.Every = r.checkpoint, r.checkpointAt, 0
	c.Checkpoints.Life = fmt.Sprintf("%s.%d", c.Checkpoints.Life, r.fleets)
	if limit := c.Job.Stop.Time; limit > 0 {
		c.Job.Stop.Time = max(limit-r.now.Sub(r.decider.started), 1)
	}
	r.fleet = elasticity.New(c)
	r.tell(elasticity.Wake{})
	for _, id := range team {
		r.used[id] = true
		r.tell(elasticity.Reported{ID: id, Report: r.hellos[id]})
	}
}

// cutsForCheckpoints: between checkpoints cuts would be of no use, as nothing returns to them.
const cutsForCheckpoints = 365 * 24 * time.Hour

// idle is the policy of a fleet, which buys nothing.
type idle struct{}

func (idle) Name() string                    { return "idle" }
func (idle) Plan(bidding.State) bidding.Plan { return bidding.Plan{} }

// tell tells the fleet's controller of an event and does as it says.
func (r *Run) tell(e elasticity.Event) {
	fleet := r.fleet
	if fleet == nil {
		return
	}
	actions := slices.Clone(fleet.Step(r.now, e)) // it may be told more meanwhile
	for _, crash := range fleet.Crashed() {       // of machines that could not do what they were asked for
		if m := r.decider.machines[crash.ID]; m != nil {
			crash.Entered = m.entered
			r.decider.crashes.Add(crash)
		}
	}
	outcome, why := fleet.Outcome()
	if outcome == "failed" {
		r.obey(r.decider.step(r.now, func() { r.decider.fail(why) }))
		return
	}
	for _, a := range actions { // whoever is given up takes the whole fleet along, with what it was told
		if t, ok := a.(elasticity.Terminate); ok && outcome == "" {
			r.obey(r.decider.step(r.now, func() { r.decider.abandon(ps.ServerID(t.IDs[0]), t.Why) }))
		}
	}
	for _, a := range actions {
		if r.fleet != fleet {
			return
		}
		switch a := a.(type) {
		case elasticity.Send, elasticity.Export, elasticity.WriteManifest:
			r.out = append(r.out, a)
		case elasticity.Launch:
			r.tell(elasticity.Launched{Token: a.Request.Token, Instances: r.instances()})
		case elasticity.Record:
			r.takeRecord(a.Entry, why)
		}
	}
}

// instances are the team's machines.
func (r *Run) instances() (all []provisioner.Instance) {
	for _, m := range r.attempt.team {
		all = append(all, provisioner.Instance{ID: provisioner.InstanceID(m.id), Pool: m.pool, Bid: m.bid,
			State: provisioner.Running, Launched: m.launched})
	}
	return all
}

// takeRecord passes those lines of the fleet's on that tell of training, and tells the decider what they mean.
func (r *Run) takeRecord(e journal.Entry, why string) {
	switch e.Kind {
	case journal.Stage: // it stands
		for _, m := range r.attempt.team {
			r.record(journal.Entry{Kind: journal.Join, Instance: string(m.id), Pool: m.pool.String(), Tier: m.tier(),
				Clock: int64(r.checkpointAt), Why: "the fleet is whole"})
		}
		r.decide(elasticity.Trained{Clock: r.checkpointAt})
	case journal.Cut:
		r.record(e)
	case journal.ClockDone:
		e.Redone = ps.Clock(e.Clock) <= r.decider.reached
		e.Transient, e.Reliable = r.count()
		r.record(e)
		r.decide(elasticity.Trained{Clock: ps.Clock(e.Clock)})
	case journal.Checkpoint:
		r.record(e)
		r.checkpoint, r.checkpointAt = e.Model, ps.Clock(e.Clock)
		r.decide(elasticity.Saved{Clock: r.checkpointAt, Model: e.Model})
	case journal.SaveFailed:
		r.record(e)
		r.decide(elasticity.Saved{Err: errors.New(e.Why)})
	case journal.Export:
		r.record(e)
		if e.Outcome == "" {
			return // it failed, and is tried again
		}
		if e.Outcome == "finished" { // perhaps before all clocks were done
			r.decider.cfg.Clocks, r.decider.enough = ps.Clock(e.Clock), why
		}
		r.decide(elasticity.Saved{Clock: ps.Clock(e.Clock), Model: e.Model})
	}
}

func (r *Run) record(e journal.Entry) {
	e.T = r.now
	r.out = append(r.out, elasticity.Record{Entry: e})
}

// count returns how many machines train, by their terms of sale.
func (r *Run) count() (transient, reliable int) {
	for _, m := range r.attempt.team {
		if m.pool.Class == market.OnDemand {
			reliable++
		} else {
			transient++
		}
	}
	return transient, reliable
}
