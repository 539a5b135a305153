package elasticity

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The four calls of an elastic parameter server: add and remove workers and servers, while training continues.
//
// A request replaces the job's own numbers until the next request. The policy still chooses pools, bids and times, and the layout chooses
// the servers. Purchases, moves, hand-overs and retirements follow as at any other time, and training never stops.

// ScaleWanted requests more or fewer machines, relative to the numbers wanted now, or (Reset) the job's own numbers; with both, relative to
// the job's own numbers. Workers are transient machines; whether reliable ones work depends on the stage.
type ScaleWanted struct {
	ID      uint64 // of the request
	Workers int
	Servers int
	// Reliable machines hold the solution: they serve in stage 1, and hold all backups.
	Reliable int
	Reset    bool
	// Pause gives up all transient machines and lets training rest, Resume ends that; see pause.go. A Resume may include numbers.
	Pause, Resume bool
	// Scheduled: the requester is a scheduler. Its Resume lifts only a scheduler's pause, and changes nothing if there is none.
	Scheduled bool
	// Cancel names a task of an array of programs that should end permanently, or a shared host that should go; it cannot be combined with
	// others.
	Cancel  string
	MoveAll string // InWindow, AtOnce or FaultIn: every partition moves to another server, for drills
	By      string // requester, for the journal
}

// How partitions move to another server (ScaleWanted.MoveAll).
const (
	InWindow = "window"   // between a clock's reads and its contributions, as usual
	AtOnce   = "at-once"  // as from a machine that has little time left
	FaultIn  = "fault-in" // the new owner serves in the window, and fetches rows on demand (decision 16)
)

// Scaled answers a ScaleWanted; Err is the reason for a refusal. It is sent a second time when the numbers are reached (Reached), or when
// they cannot be (Err).
type Scaled struct {
	ID      uint64
	Err     error
	Reached bool
	Scale   Scale
}

func (ScaleWanted) Event() {}
func (Scaled) Action()     {}

// Scale is how many machines work (of transient ones that stay) and serve, and how many should.
type Scale struct {
	Workers, Servers int
	Want             bidding.Want // of transient machines
	WantServers      int          // 0 = the stage's number
	// Reliable machines that take part and stay, and how many should.
	Reliable, WantReliable int
	Paused                 bool // or about to be
}

// setDemand changes the demand for machines and the training's settings.
func (c *Controller) setDemand() {
	c.demand.Workers, c.demand.Asked, c.demand.Reliable = c.wanted(), c.target.asked, c.wantReliable()
	c.demand.Leaves = c.target.leaves
	c.training.Layout.Servers = c.target.servers
	c.demand.Awaited = len(c.target.waiting) > 0
	c.demand.Paused, c.training.Pause.Why = cmp.Or(c.target.paused, c.overBudget), c.target.paused
}

// wanted returns the numbers that would apply without a pause.
func (c *Controller) wanted() bidding.Want {
	if c.target.asked {
		return c.target.want
	}
	return c.cfg.Want
}

// wantReliable returns how many reliable machines there should be.
func (c *Controller) wantReliable() int {
	n := cmp.Or(c.target.reliable, max(c.cfg.Reliable.Count, 1))
	if c.target.reliable > 0 && !c.target.measured || c.target.lent == 0 { // a requested number has priority
		return n
	}
	return max(min(n+c.target.lent, c.cfg.Job.Schema.Partitions), n)
}

// Scale returns how many machines work and serve.
func (c *Controller) Scale() Scale {
	s := Scale{Want: c.wanted(), Servers: c.training.Layout.Serving(), WantServers: c.target.servers, WantReliable: c.wantReliable(),
		Paused: c.target.paused != ""}
	for _, m := range c.fleet.Roster.List {
		switch {
		case !m.Member() || !m.Staying():
		case m.Tier == tiers.Reliable:
			s.Reliable++
		default:
			s.Workers++
		}
	}
	return s
}

// takeGrant sets the demand of a starting or resuming run to a scheduler's grant. A person's pause stays.
func (c *Controller) takeGrant() {
	b, t := c.cfg.Bounds, &c.target
	if b == nil || b.Granted < 0 || c.cfg.Want.VCPU > 0 {
		return
	}
	before, from := t.details(), c.describe()
	switch {
	case t.paused != "" && !t.scheduled:
	case b.Granted > 0:
		t.paused, t.scheduled = "", false
	case c.cfg.Reliable.Count > 0:
		t.paused, t.scheduled = cmp.Or(t.paused, "the scheduler"), true
	}
	if b.Granted > 0 {
		t.servers, t.want = 0, bidding.Want{Machines: b.Granted}
		t.asked = t.want != c.cfg.Want
	}
	if string(before) != string(t.details()) {
		c.former = from
	}
}

// scheduled reports whether a job server's scheduler decides how many machines the run has.
func (c *Controller) scheduled() bool { return c.cfg.Bounds != nil && c.cfg.Bounds.Granted >= 0 }

// bounded refuses requests beyond the job's own numbers, if a job server bounds the run.
func (c *Controller) bounded(e ScaleWanted, next target) error {
	own, reliable := c.cfg.Want, c.cfg.Reliable.Count
	switch {
	case c.cfg.Bounds == nil || e.Scheduled:
	case next.asked && (next.want.Machines > own.Machines || next.want.VCPU > own.VCPU):
		return fmt.Errorf("%s are more than the %s of the job's file (resources.count), with which it counts on the job server: submit it with another number",
			step.Number(next.want.Machines+next.want.VCPU, "worker"), step.Number(own.Machines+own.VCPU, "worker"))
	case next.reliable > reliable && !next.measured:
		return fmt.Errorf("%s are more than the %d of the job's file (reliable.count), with which it counts on the job server: submit it with another number",
			step.Number(next.reliable, "reliable machine"), reliable)
	}
	return nil
}

func (c *Controller) takeScale(e ScaleWanted) {
	next, err := c.retarget(e)
	if err == nil {
		err = c.bounded(e, next)
	}
	if err != nil {
		c.step.Do(Scaled{ID: e.ID, Err: err, Scale: c.Scale()})
		return
	}
	from := c.describe()
	next.since, next.waiting = c.step.Now, append(c.target.waiting, e.ID)
	next.lent, next.leaves = c.target.lent, c.target.leaves
	c.target = next
	c.setDemand()
	why := cmp.Or(e.By, "a user asked")
	if e.MoveAll != "" {
		why = fmt.Sprintf("%s: every partition to another server (%s)", why, e.MoveAll)
	}
	c.recordScale(from, why, 0)
	c.fleet.Demanded()
	c.training.Rearrange()
	c.step.Do(Scaled{ID: e.ID, Scale: c.Scale()})
}

// retarget returns the target after a request, or why it is impossible.
func (c *Controller) retarget(e ScaleWanted) (next target, err error) {
	numbers := e.Workers != 0 || e.Servers != 0 || e.Reliable != 0
	switch {
	case e.Cancel != "":
		return target{}, errors.New("the run trains an application: it has no tasks")
	case c.closing():
		return target{}, errors.New("the run is ending")
	case !c.training.Need().Standing:
		return target{}, errors.New("the reliable machines are still starting; try again when training has begun")
	case e.MoveAll != "":
		return c.moveAll(e, numbers)
	case c.scheduled() && !e.Scheduled && (numbers || e.Reset):
		return target{}, errors.New("the job server's scheduler grants the run its machines, and nobody else changes their number")
	case e.Pause:
		return c.pause(e)
	case c.target.paused != "" && !e.Resume:
		return target{}, errors.New("the run is paused: resume it first")
	case c.target.paused == "" && e.Resume && !e.Scheduled:
		return target{}, errors.New("the run is not paused")
	case e.Resume && c.target.paused != "" && c.target.scheduled != e.Scheduled:
		return target{}, errOthersPause(c.target)
	case e.Resume && !e.Reset && !numbers:
		next = c.target
		if next.paused, next.scheduled = "", false; c.scheduled() && !e.Scheduled { // which decides when, and with how many machines
			next.paused, next.scheduled = cmp.Or(e.By, "a user")+" resumed it", true
		}
		return next, nil
	case !e.Reset && !numbers:
		return target{}, errors.New("nothing was asked for: how many workers, servers or reliable machines more or fewer?")
	case e.Reset && !numbers:
		return target{}, c.admit(max(c.cfg.Reliable.Count, 1))
	case e.Reset: // relative to the job's own numbers: repeating it has no effect
		next.want = c.cfg.Want
	default:
		next = c.target
		next.paused, next.scheduled = "", false
		next.want = c.wanted()
	}
	next.asked = next.asked || e.Workers != 0 || e.Servers != 0
	if e.Reliable != 0 {
		if next.reliable, err = c.moreReliable(e.Reliable); err != nil {
			return target{}, err
		}
		next.measured = false
	}
	if next.want, err = c.moreWorkers(next.want, e.Workers); err != nil {
		return target{}, err
	}
	if next.servers, err = c.moreServers(next.servers, e.Servers); err != nil {
		return target{}, err
	}
	if lacking := next.servers - c.fleet.Roster.MachinesFor(next.want); lacking > 0 && next.servers > cmp.Or(next.reliable, max(c.cfg.Reliable.Count, 1)) {
		if e.Workers < 0 {
			return target{}, fmt.Errorf("%d transient machines cannot be %d servers: remove servers as well, or fewer workers",
				c.fleet.Roster.MachinesFor(next.want), next.servers)
		}
		next.want, err = c.moreWorkers(next.want, lacking) // servers need machines to run on
	}
	return next, err
}

// moveAll changes no number.
func (c *Controller) moveAll(e ScaleWanted, numbers bool) (target, error) {
	switch {
	case numbers || e.Reset || e.Pause || e.Resume:
		return target{}, errors.New("ask for moves or for other numbers, not both")
	case e.MoveAll != InWindow && e.MoveAll != AtOnce && e.MoveAll != FaultIn:
		return target{}, fmt.Errorf("moves are %q, %q or %q, not %q", InWindow, AtOnce, FaultIn, e.MoveAll)
	case c.target.paused != "":
		return target{}, errors.New("the run is paused: resume it first")
	}
	return c.target, c.training.Layout.Rotate(e.MoveAll == AtOnce, e.MoveAll == FaultIn)
}

func (c *Controller) moreWorkers(want bidding.Want, more int) (bidding.Want, error) {
	if have := c.fleet.Roster.MachinesFor(want); have+more < 0 {
		return want, fmt.Errorf("%d workers cannot be removed: %d are wanted", -more, have)
	}
	if c.cfg.Want.VCPU > 0 {
		want.VCPU = max(want.VCPU+more*c.fleet.Roster.UsualVCPU(), 0)
		return want, nil
	}
	want.Machines += more
	return want, nil
}

// moreReliable refuses numbers with which the remaining machines could not hold the job.
func (c *Controller) moreReliable(more int) (int, error) {
	have := c.wantReliable()
	switch n := have + more; {
	case n < 1:
		return 0, fmt.Errorf("%d of %d reliable machines cannot be removed: the last one holds the parameters", -more, have)
	case n > c.cfg.Job.Schema.Partitions:
		return 0, fmt.Errorf("%d reliable machines are more than the %d partitions that parameters are kept in; their number is fixed when a job begins (train.partitions)",
			n, c.cfg.Job.Schema.Partitions)
	case more > 0:
		return n, nil
	default:
		return n, c.admit(n)
	}
}

func (c *Controller) moreServers(servers, more int) (int, error) {
	if more == 0 {
		return servers, nil
	}
	have := cmp.Or(servers, c.training.Layout.TargetServers())
	switch n := have + more; {
	case n < 1:
		return 0, fmt.Errorf("%d of %d servers cannot be removed: the last one, a reliable machine if there is no other, holds the parameters",
			-more, have)
	case n > c.cfg.Job.Schema.Partitions:
		return 0, fmt.Errorf("%d servers are more than the %d partitions that parameters are kept in; their number is fixed when a job begins (train.partitions)",
			n, c.cfg.Job.Schema.Partitions)
	default:
		return n, nil
	}
}

// admit returns why this number of reliable machines cannot hold the job alone; nil if they can, or if that is unknown.
func (c *Controller) admit(reliable int) error {
	kind := c.fleet.LeastReliable()
	return c.training.Admit(reliable, kind.Name, kind.MemoryMiB)
}

// closing reports whether the run is about to end.
func (c *Controller) closing() bool { return c.step.Closing() || c.training.Need().Done }

// advanceScale answers fulfilled requests.
func (c *Controller) advanceScale() {
	if len(c.target.waiting) == 0 {
		return
	}
	var err error
	switch {
	case c.step.Ending || c.step.Finished:
		err = errors.New("the run ended before that was done")
	case c.target.paused != "" && !c.atRest() || c.target.paused == "" && !c.scaled():
		return
	default:
		c.recordScale(c.describe(), "everything is as requested", c.step.Wall(c.step.Now.Sub(c.target.since)))
	}
	for _, id := range c.target.waiting {
		c.step.Do(Scaled{ID: id, Err: err, Reached: err == nil, Scale: c.Scale()})
	}
	c.target.waiting, c.demand.Awaited = nil, false
}

// scaled reports whether the wanted number of machines takes part, and everything is in place. A split whose release was requested is not,
// even if it will return to the same machine.
func (c *Controller) scaled() bool {
	if !c.training.Settled() || c.fleet.Switching != nil {
		return false
	}
	want, have := c.wanted(), 0
	reliable := 0
	for _, m := range c.fleet.Roster.List {
		switch {
		case m.Terminating || m.Lost || m.Ended:
		case m.Tier == tiers.Reliable:
			if m.Joined == 0 || m.Leaving {
				return false
			}
			reliable++
		case m.Joined == 0 || m.Leaving || m.Warned:
			return false
		case !m.Draining:
			have += c.fleet.Roster.Capacity(m)
		}
	}
	return have >= max(want.VCPU, want.Machines) && reliable >= c.wantReliable() && c.training.Layout.Placed()
}

// describe returns the target in words.
func (c *Controller) describe() string {
	want := c.wanted()
	text := step.Number(want.Machines, "worker")
	if c.cfg.Want.VCPU > 0 {
		text = fmt.Sprintf("%d vCPUs of workers", want.VCPU)
	}
	if c.target.servers > 0 {
		text += ", " + step.Number(c.target.servers, "server")
	} else {
		text += ", the stage's servers"
	}
	if c.target.reliable > 0 || c.target.lent > 0 {
		text += ", " + step.Number(c.wantReliable(), "reliable machine")
	}
	if c.target.paused != "" {
		text += ", paused"
	}
	return text
}

func (c *Controller) recordScale(from, why string, seconds float64) {
	c.step.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.Scale, From: from, To: c.describe(), Seconds: seconds, Clock: int64(c.training.Clocks.Done), Why: why,
			Details: c.target.details()}
	})
}

// details returns what a later controller must know about a target.
func (t *target) details() json.RawMessage {
	d := journal.ScaleDetails{Servers: t.servers, Reliable: t.reliable, Measured: t.measured, Lent: t.lent, Leaves: string(t.leaves), Paused: t.paused, Scheduled: t.scheduled}
	if t.asked {
		d.Want = &journal.Want{Machines: t.want.Machines, VCPU: t.want.VCPU}
	}
	details, _ := journal.Pack(d) // of integers
	return details
}

// targetOf returns the target of the previous controller.
func targetOf(d journal.ScaleDetails) (t target) {
	t = target{servers: d.Servers, reliable: d.Reliable, measured: d.Measured, lent: d.Lent, leaves: ps.ServerID(d.Leaves), paused: d.Paused, scheduled: d.Scheduled}
	if d.Want != nil {
		t.asked, t.want = true, bidding.Want{Machines: d.Want.Machines, VCPU: d.Want.VCPU}
	}
	return t
}
