package sim

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent"
)

// fleet is the training state of all machines: the worker of each split, the server of each partition, and the
// progress of the work. It answers the controller's requests to nodes with rates instead of rows: a machine's part
// of a clock takes its work divided by the machine's rate, and a clock ends when every split's part has.
//
// Two simplifications keep a start's cost at milliseconds. All partitions complete a clock at the same instant,
// and one report covers a clock of all splits; real workers report separately.
type fleet struct {
	w     *world
	ctrl  *elasticity.Controller
	nodes []*node
	byID  map[ps.ServerID]*node

	splits   []split
	complete ps.Clock // all splits have committed this clock and those before

	owner, backup []*node // Index: Partition; nil before the job is placed
	committed     ps.Clock
	recovered     ps.Generation // the last roll-back, which returned all progress to its cut
	cut           ps.Clock      // the named cut; 0 = none
	delivered     ps.Clock      // the newest cut that backups hold

	due       time.Duration // when an advance is scheduled; 0 = none
	unsettled bool          // an advance must run at the end of the instant
	died      bool          // some nodes are dead: see removeEnded
	soonest   time.Duration // no node finishes its part of a clock earlier

	calm    steadyPeriod
	round   cutRound           // the newest cut
	untold  []clocks           // in reporting order
	telling time.Duration      // when the next clock of a steady period was last scheduled for reporting: see deliverAll
	stats   []tiers.SplitStats // for any clock
	// tick and offerCut: a method that is passed on takes memory each time.
	ticks, offers func()
}

type split struct {
	next ps.Clock // first clock not committed
	left float64  // remaining share of that clock's work, from 0 to 1
}

// node is a machine's agent, with timed rounds and without rows.
type node struct {
	// Hot fields come first: they fit into one cache line.
	alive, busy        bool
	told               bool          // received a command at this instant
	employed           bool          // has been given splits or partitions
	standby            bool          // computes nothing
	generation, fenced ps.Generation // service for generations below fenced is refused
	begun, finish      time.Duration // of the current clock
	load               float64       // of the clock being started, as a fraction of a split
	round              *agent.Round  // the current clock; nil = none, or it was lost
	did                ps.Clock      // the last clock that it finished

	f     *fleet
	id    ps.ServerID
	rate  float64 // floating-point operations per second of market time
	named ps.Clock
	delay time.Duration // until its reports arrive
	agent agent.Agent
}

func newFleet(w *world) *fleet {
	job := &w.cfg.Job
	f := &fleet{w: w, byID: make(map[ps.ServerID]*node, usualFleet), splits: make([]split, job.Splits),
		owner: make([]*node, job.Partitions), backup: make([]*node, job.Partitions)}
	for i := range f.splits {
		f.splits[i].next, f.splits[i].left = 1, 1
	}
	f.ticks, f.offers = f.tick, f.offerCut
	return f
}

// do carries out the controller's action on machines.
func (f *fleet) do(a elasticity.Action) {
	switch a := a.(type) {
	case elasticity.Send:
		if n := f.byID[a.ID]; n != nil && n.alive {
			n.take(a.Command)
		}
	case elasticity.Export:
		f.w.after(f.w.cfg.Timing.Export, answers, func() { f.w.step(elasticity.Exported{Generation: a.Generation}) })
	case elasticity.WriteManifest:
		f.w.after(f.w.cfg.Timing.Reply, answers, func() {
			f.w.step(elasticity.ManifestWritten{Folder: a.Folder, Manifest: a.Folder})
		})
	}
}

func (f *fleet) hire(id ps.ServerID, vcpus float64) process {
	n := &node{f: f, id: id, rate: vcpus * f.w.cfg.FLOPSPerVCPU / f.w.cfg.Timing.Speed, alive: true, delay: f.w.cfg.Timing.Reply}
	n.agent.Server, n.agent.Report = n, func(r tiers.Report) { n.report(n.delay, answers, r) }
	f.nodes, f.byID[id] = append(f.nodes, n), n
	return n
}

func (n *node) boot() {
	if n.alive {
		n.f.w.step(elasticity.Reported{ID: n.id, Report: tiers.Hello{Instance: n.id, Address: string(n.id)}})
	}
}

// die ends the machine. What it had committed by now still counts.
func (n *node) die() {
	n.f.bringUp()
	n.f.deliverBefore(n.f.w.elapsed)
	n.rest()
	n.alive = false
	for _, id := range n.agent.Splits() {
		n.f.splits[id].left = 1
	}
	n.f.died, n.f.unsettled = true, true
}

// report delivers a report after a delay, unless the machine is dead by then.
func (n *node) report(delay time.Duration, r rank, report tiers.Report) {
	n.reportAt(n.f.w.elapsed+delay, r, report)
}

func (n *node) reportAt(at time.Duration, r rank, report tiers.Report) {
	n.f.w.queue.put(at, r, event{of: n, report: report})
}

// reportArrives handles the arrival of a machine's report, unless the machine is dead by now.
func (n *node) reportArrives(report tiers.Report) {
	if n.alive {
		n.f.w.step(elasticity.Reported{ID: n.id, Report: report})
	}
}

// answer ends a command after a delay.
func (n *node) answer(id uint64, delay time.Duration, r tiers.Result, err error) {
	n.delay = delay
	n.agent.Answer(id, r, err)
	n.delay = n.f.w.cfg.Timing.Reply
}

func (n *node) take(c tiers.Command) {
	f, t := n.f, &n.f.w.cfg.Timing
	aside := n.aside(c.Do)
	if !aside {
		f.bringUp()
		n.told, f.unsettled = true, true
	}
	n.prepare(c.Do)
	switch errand := n.agent.Take(c).(type) {
	case tiers.Welcome:
		n.generation = errand.Generation
		n.agent.Join(errand)
		if n.standby = errand.Params != nil; n.standby { // see Controller
			n.agent.StandBy()
		}
		n.answer(c.ID, t.Start, nil, nil)
	case tiers.Load:
		n.answer(c.ID, t.Load, nil, nil)
	case tiers.SaveCut:
		n.answer(c.ID, f.w.transfer(), saved(errand.Partitions), nil)
	case tiers.FenceWorker:
		n.answer(c.ID, t.Reply, n.standings(), nil) // the machine is dead here, and so is its worker
	case tiers.MoveOut:
		n.moveOut(c.ID, errand)
		return
	case tiers.Stop:
		n.alive = false
		return
	}
	n.delay = t.Reply
	if n.round != nil && n.round.Dropped { // the current clock may be repeated elsewhere
		n.rest()
	}
	if _, named := c.Do.(tiers.NameCut); named || !aside {
		f.offerCut()
	}
}

// prepare applies a command to the current work.
func (n *node) prepare(do tiers.Do) {
	switch do := do.(type) {
	case tiers.Assign:
		n.employed = true
		for _, s := range do.Splits {
			if at := &n.f.splits[s.Split]; at.next != s.Clock {
				*at = split{next: s.Clock, left: 1}
			}
		}
	case tiers.Release:
		if n.f.w.cfg.Job.Coarse {
			n.interrupt()
		}
	case tiers.Recover:
		if do.Checkpoint != "" {
			n.delay += n.f.w.transfer()
		}
	}
}

// settleInstant resumes work after all commands of the instant: a thousand machines can get commands at once.
func (f *fleet) settleInstant() {
	if f.unsettled {
		f.advance()
	}
}

// bringUp is advance before a change; it does nothing if nothing has ended since.
func (f *fleet) bringUp() {
	if f.calm.limit > 0 || f.finished() {
		f.advance()
	}
}

// removeEnded removes machines that have ended.
func (f *fleet) removeEnded() {
	if f.died {
		f.nodes = slices.DeleteFunc(f.nodes, func(n *node) bool { return !n.alive })
		f.died = false
	}
}

// aside reports whether a command leaves the current work alone, as most commands do: the work then need not be brought
// up to date first.
func (n *node) aside(do tiers.Do) bool {
	switch do := do.(type) {
	case tiers.SaveCut:
		return true
	case tiers.Welcome:
		return !n.employed && !n.f.overdue()
	case tiers.SetRoute:
		return do.Generation <= n.generation && !n.f.overdue()
	case tiers.NameCut:
		return n.f.calm.limit > 0 && !n.f.overdue()
	case tiers.Load, tiers.CommitCut:
		return !n.f.overdue()
	}
	return false
}

// overdue reports whether a part of the work has ended without being reported.
func (f *fleet) overdue() bool {
	if f.calm.limit > 0 {
		return f.due <= f.w.elapsed
	}
	return f.finished()
}

func (n *node) moveOut(id uint64, do tiers.MoveOut) {
	to, generation := n.f.byID[do.To], n.generation
	n.f.w.after(n.f.w.cfg.Timing.Move, reports, func() {
		switch {
		case !n.alive || n.generation != generation || n.fenced > generation:
			return // a recovery has superseded it
		case to == nil || !to.alive:
			n.answer(id, 0, nil, errors.New("the new owner does not answer"))
			return
		}
		n.f.bringUp()
		n.f.owner[do.Partition], to.employed = to, true
		to.named = max(to.named, n.named)
		n.answer(id, 0, nil, nil)
		n.f.unsettled = true
	})
}

// interrupt stops a coarse clock, which stands for many short ones, before its end: its finished share counts, and
// advance starts the rest.
func (n *node) interrupt() {
	if !n.busy || n.round == nil {
		n.rest()
		return
	}
	left := float64(n.finish-n.f.w.elapsed) / float64(n.finish-n.begun)
	for _, id := range n.round.Splits {
		n.f.splits[id].left *= left
	}
	n.agent.Interrupt()
	n.rest()
}

// rest ends a machine's current work, finished or not.
func (n *node) rest() {
	if n.busy {
		n.f.w.worked(n.begun, min(n.finish, n.f.w.elapsed))
		n.busy = false
	}
}

// serving reports whether every partition has an owner that accepts updates: without one, no clock ends or begins.
func (f *fleet) serving() bool {
	var last *node
	for _, o := range f.owner {
		if o == last && o != nil {
			continue
		}
		if o == nil || !o.alive || o.fenced > o.generation {
			return false
		}
		last = o
	}
	return true
}

// advance brings the work up to date: it commits finished parts, reports finished clocks, and starts what can
// start. Extra calls change nothing.
func (f *fleet) advance() {
	f.unsettled = false
	if f.catchUp() {
		f.schedule()
	}
	for _, n := range f.nodes {
		n.told = false
	}
}

// tick is the advance scheduled for the end of a clock.
func (f *fleet) tick() {
	if f.catchUp() && !f.settle() {
		f.schedule()
	}
}

// catchUp does what advance does, but does not schedule the next call. It reports whether there is work.
func (f *fleet) catchUp() bool {
	f.removeEnded()
	f.rouse()
	if !f.serving() {
		return false
	}
	for {
		f.commit()
		f.begin()
		if !f.finished() {
			return true
		}
	}
}

// finished reports whether a part of a clock has ended and is not committed.
func (f *fleet) finished() bool {
	if f.w.elapsed < f.soonest {
		return false
	}
	f.soonest = math.MaxInt64
	for _, n := range f.nodes {
		if n.busy {
			f.soonest = min(f.soonest, n.finish)
		}
	}
	return f.soonest <= f.w.elapsed
}

func (f *fleet) commit() {
	if !f.finished() {
		return
	}
	var last *node
	for _, n := range f.nodes {
		if !n.busy || n.finish > f.w.elapsed {
			continue
		}
		n.rest()
		if last == nil || n.finish > last.finish {
			last = n
		}
		if n.round == nil {
			continue
		}
		for _, id := range n.round.Splits {
			f.splits[id] = split{next: n.round.Clock + 1, left: 1}
		}
		n.did = n.round.Clock
		n.agent.Computed(n.round)
		n.agent.Counted(n.round, nil)
	}
	if last == nil {
		return
	}
	lowest := ps.Clock(math.MaxInt64)
	for i := range f.splits {
		lowest = min(lowest, f.splits[i].next)
	}
	if lowest-1 > f.complete {
		f.complete = lowest - 1
		f.report(last)
		f.offerCut()
	}
}

// report reports the completed clock.
func (f *fleet) report(n *node) {
	took := (n.finish - n.begun).Seconds() / f.w.cfg.Timing.Speed
	if f.lazily() && f.complete < f.w.cfg.Job.Clocks {
		f.untold = append(f.untold, clocks{node: n, from: f.complete, count: 1, first: f.w.elapsed + f.w.cfg.Timing.Reply, took: took})
		return
	}
	n.report(f.w.cfg.Timing.Reply, reports, n.progress(f.complete, took))
}

// begin starts idle workers on their parts of the next clock.
func (f *fleet) begin() {
	clock := f.complete + 1
	beside := time.Duration(0)
	for _, n := range f.nodes {
		if n.start(clock) && !n.told {
			beside += f.w.cfg.Timing.Clock
		}
	}
	for _, n := range f.nodes {
		switch {
		case n.load > 0 && n.told:
			f.set(n, clock, f.w.cfg.Timing.Clock) // in the middle of a clock that others have started
		case n.load > 0:
			f.set(n, clock, beside)
		}
	}
}

// start starts a node's part of a clock, if it has one.
func (n *node) start(clock ps.Clock) bool {
	if n.busy || !n.mayBegin(clock) {
		return false
	}
	n.round = n.agent.Choose()
	n.agent.Begin(n.round)
	for _, id := range n.round.Splits {
		n.load += n.f.splits[id].left
	}
	n.ease(clock)
	return n.load > 0
}

// set starts a node on its load of a clock.
func (f *fleet) set(n *node, clock ps.Clock, beside time.Duration) {
	length := time.Duration(n.load*f.w.workPerSplit()/n.rate*float64(time.Second)) + beside
	n.busy, n.load, n.begun = true, 0, f.w.elapsed
	n.finish = n.begun + length.Truncate(time.Millisecond) + time.Millisecond
	if recorded, told := f.w.cfg.Recording.clock(clock, f.w.now()); told {
		n.finish = max(recorded.Sub(f.w.cfg.Start)-f.w.cfg.Timing.Reply, n.begun+time.Millisecond)
	}
	f.soonest = min(f.soonest, n.finish)
}

func (n *node) mayBegin(c ps.Clock) bool {
	return n.alive && n.fenced <= n.generation && n.agent.Ready() == c
}

// schedule ensures that advance is called at the next event: the clock's end, or the end of a part that
// something else waits for.
func (f *fleet) schedule() {
	var last, first time.Duration
	for _, n := range f.nodes {
		if n.busy {
			last = max(last, n.finish)
			// A split is to move away, or arrived while the others were worked on.
			if first == 0 || n.finish < first {
				if n.agent.Releasing() || n.agent.Lowest(n.round) == f.complete+1 {
					first = n.finish
				}
			}
		}
	}
	next := last
	if first > 0 {
		next = first
	}
	if next == 0 || next == f.due && next > f.w.elapsed {
		return
	}
	f.due = next
	f.w.queue.push(max(next, f.w.elapsed), reports, f.ticks)
}

// offerCut delivers the named cut when all owners have its name and have passed it.
func (f *fleet) offerCut() {
	cut := f.cut
	if cut == 0 || f.done() < cut || f.delivered >= cut {
		return
	}
	for _, o := range f.owner {
		if o == nil || o.named != cut {
			return
		}
	}
	f.delivered, f.cut = cut, 0
	for i, b := range f.backup {
		if b != nil && !slices.Contains(f.backup[:i], b) {
			b.report(f.w.cfg.Timing.Cut, reports, tiers.CutHeld{
				Cut: cut, Bytes: 1, Seconds: f.w.cfg.Timing.Cut.Seconds() / f.w.cfg.Timing.Speed,
			})
		}
	}
}
