package elasticity

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A controller that takes a run over knows what the one before has written down (Past). What is true now it asks the
// provider, who says which machines there are, and the machines, who call it as soon as it listens and say what they
// hold: they have trained on meanwhile. When they agree on one state, training goes on from it and nothing is done again.
// When they do not, everything returns to the committed cut; when nobody holds that any more, to a checkpoint.

// adoption is a run being taken over.
type adoption struct {
	since   time.Time // by Controller.awake
	listed  bool      // the provider has said which machines there are
	stocks  map[ps.ServerID]tiers.Stock
	members []ps.ServerID // that took part by what is written down
	asked   int           // how often everybody was asked again
	// Everybody was asked after everybody had answered. Before that, an owner may have answered while a split was still with a
	// worker that answered later and had released the split meanwhile: the owner's mark may miss that worker's last clock.
	confirmed bool
}

// maxAsked is how often machines are asked again whose answers do not fit together: a move may end between them.
const maxAsked = 3

// remember takes up what is written down.
func (c *Controller) remember(p *Past) {
	c.generation, c.lastInc, c.joins = max(p.Generation, 1), ps.Incarnation(p.Bought), p.Joins
	c.committed, c.furthest, c.stood = p.Committed, p.Committed, p.Stage != 0
	if c.stood {
		c.stage = p.Stage
	}
	c.progress = newProgress(len(c.splits), p.Done)
	c.progress.furthest = p.Furthest
	c.gauge, c.loadWhy = tiers.GaugeAt(tiers.Stage(p.Load.Floor), p.Load.Falls, p.Load.Undone, c.loadRule()), p.Load.Load
	c.wish, c.paused = wishOf(p.Wish), p.Paused
	c.measured(p.Figures)
	for _, life := range p.Lives {
		c.outlived(life)
	}
	c.lastID = c.cfg.FirstID
	c.adopting = &adoption{stocks: map[ps.ServerID]tiers.Stock{}}
	for _, l := range p.Open {
		c.launches[l.Token] = l.launch()
	}
	for _, l := range p.Refused {
		c.refused[l.Token] = l.launch()
	}
	for _, was := range p.Machines {
		c.recall(was)
	}
	c.sortRoster()
	c.recallSwitch(p.Switch)
	for _, m := range c.members() {
		c.adopting.members = append(c.adopting.members, m.id)
	}
}

func (l PastLaunch) launch() *launch {
	return &launch{token: l.Token, tier: l.Tier, pool: l.Pool, bid: l.Bid, or: l.Or, count: l.Count, asked: l.Asked, why: l.Why, at: l.At}
}

// recallSwitch takes up a switch whose machines may still be on their way, or be there with nobody told that those of the
// old pool may go.
func (c *Controller) recallSwitch(s *PastSwitch) {
	if s == nil || s.Token == "" {
		return
	}
	c.switching = &switchover{from: s.From, to: s.To, token: s.Token}
	if c.launches[s.Token] == nil { // until its machines have joined or gone
		c.launches[s.Token] = &launch{token: s.Token, tier: tiers.Transient, pool: s.To, answered: true}
	}
}

// measured lets the stopping rules see what they had seen. They are asked again at the next clock that measures something.
func (c *Controller) measured(figures []PastFigure) {
	for _, f := range figures {
		if rules := c.cfg.Job.Stop; rules.Any() && f.Clock%max(c.cfg.Job.EvalEvery, 1) == 0 {
			c.watch.Measured(rules, int64(f.Clock), c.cfg.Job.Figure, f.Figure)
		}
	}
}

// recall takes a machine of the past up.
func (c *Controller) recall(was PastMachine) {
	i := was.Instance
	m := &machine{
		id: ps.ServerID(i.ID), tier: was.Tier, pool: i.Pool, bid: i.Bid, token: i.Token, launched: i.Launched,
		vcpu: c.typeOf(i.Pool).VCPU, incarnation: was.Incarnation, joined: was.Joined, lost: was.Left, recalled: true, loaded: make([]bool, len(c.splits)),
	}
	m.warned, m.deadline = !was.Deadline.IsZero(), was.Deadline
	m.draining, m.why = was.Released != "", was.Released
	if i.State == provisioner.Terminated {
		m.ended, m.lost, m.endedAt, m.endedBy = true, true, i.Ended, i.EndedBy
		m.billed = was.Charged
		m.unwritten = m.joined > 0 && !was.Left
	}
	c.machines[m.id] = m
	c.roster = append(c.roster, m)
}

// beginAdoption starts the time that machines have to call.
func (c *Controller) beginAdoption() {
	if c.adopting == nil {
		return
	}
	c.adopting.since = c.awake.Now()
	for _, m := range c.roster {
		m.heard, m.sawEnd = c.awake.Now(), c.awake.Now()
		if m.unwritten {
			c.recordLeave(m)
		}
		if m.lost && !m.ended {
			c.terminate(m, "it had been given up before the controller was started again")
		}
	}
}

// meet takes up a machine that worked for the controller before. It may not join before it has said what it holds.
func (c *Controller) meet(m *machine, h tiers.Hello) {
	m.address, m.incarnation = h.Address, h.Incarnation
	c.send(m.id, tiers.TakeStock{})
}

func (c *Controller) takeStock(m *machine, a tiers.Answer) {
	stock, ok := a.Result.(tiers.Stock)
	if a.Code != tiers.CodeOK || !ok {
		c.giveUp(m, "it would not say what it holds: "+a.Error)
		return
	}
	// The controller before may have begun generations that it did not live to write down. A machine that has seen one refuses all
	// older ones, also when it takes no part yet.
	switch {
	case c.adopting != nil:
		c.generation = max(c.generation, stock.Generation)
	case stock.Generation > c.generation:
		c.giveUp(m, fmt.Sprintf("it is in generation %d of the controller before, and the run has gone on without it", stock.Generation))
		return
	}
	for _, split := range stock.Loaded {
		if int(split) < len(m.loaded) {
			m.loaded[split] = true
		}
	}
	m.loads++
	if m.joined == 0 && stock.Version > 0 && !c.rejoin(m) {
		return
	}
	m.ready = true
	if c.adopting != nil {
		c.adopting.stocks[m.id] = stock
	}
}

// rejoin takes up a machine that the controller before had let join and did not live to write it down. When the run has gone on
// without it, nobody has told it of that: it is no use any more.
func (c *Controller) rejoin(m *machine) bool {
	if c.adopting == nil {
		c.giveUp(m, "it had joined, which was not written down, and the run has gone on without it")
		return false
	}
	c.joins++
	m.joined = c.joins
	c.adopting.confirmed = false
	c.sortRoster()
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Join, Instance: string(m.id), Pool: m.pool.String(), Tier: string(m.tier),
			Why: "the controller before had let it join"}
	})
	c.closeLaunch(m.token)
	return true
}

// adoptWithin is how long machines have to call a controller that takes them over. It is longer than a machine may be silent
// otherwise: training goes on meanwhile, and who is given up costs a roll-back.
func (c *Controller) adoptWithin() time.Duration { return 3 * max(c.cfg.DeadAfter, c.cfg.BrokenAfter) }

func (c *Controller) advanceAdoption() {
	a := c.adopting
	if a == nil || c.ending {
		return
	}
	late := c.awake.Over(a.since, c.adoptWithin())
	if !a.listed && !late {
		return
	}
	if c.cfg.Past.Finished {
		c.adopting = nil
		c.recordTakeOver("the controller was started again; the model is saved, and only machines were to be ended")
		c.outcome = "finished"
		c.endAll("the run is over")
		return
	}
	expected := c.ordered(func(m *machine) bool { return m.member() })
	for _, m := range expected {
		if _, told := a.stocks[m.id]; told {
			continue
		}
		if !late || m.address != "" && !c.awake.Over(m.heard, c.cfg.DeadAfter) {
			return
		}
	}
	for _, m := range expected {
		if _, told := a.stocks[m.id]; !told {
			c.giveUp(m, "it did not call the controller that was started again")
		}
	}
	c.takeOverRun()
}

// takeOverRun decides how training goes on.
func (c *Controller) takeOverRun() {
	f := c.putTogether()
	c.reliable.lost = true // secure looks whether that is so
	if f.again && f.members > 0 && c.adopting.asked < maxAsked {
		c.adopting.asked++
		c.adopting.confirmed = true
		for _, m := range c.reachable() {
			delete(c.adopting.stocks, m.id)
			c.send(m.id, tiers.TakeStock{})
		}
		return
	}
	c.adopting = nil
	c.wantPlan = true
	if c.switching != nil {
		c.closeLaunch(c.switching.token)
	}
	switch {
	case !c.stood:
		c.recordTakeOver("the controller was started again; training had not begun")
	case f.members == 0:
		c.recordTakeOver("the controller was started again; no machine of the run is left")
		c.startOver("no machine of the run is left")
	case f.doubt != "":
		c.recordTakeOver("the controller was started again")
		c.route = f.route
		c.startRecovery("the controller was started again, and " + f.doubt)
	default:
		c.goOn(f)
	}
}

// findings are what the machines' answers come to.
type findings struct {
	members int
	route   ps.Route
	splits  []splitState
	marks   []ps.Clock // committed in every partition. Index: Split
	behind  bool       // somebody has not heard of the committed cut
	strays  []ps.Clock // cuts that were named and will not be committed
	doubt   string     // why training cannot just go on
	again   bool       // asking again may help
}

func (f *findings) doubts(again bool, format string, args ...any) {
	if f.doubt == "" {
		f.doubt, f.again = fmt.Sprintf(format, args...), again
	}
}

func (c *Controller) putTogether() *findings {
	f := &findings{splits: make([]splitState, len(c.splits)), marks: make([]ps.Clock, len(c.splits))}
	f.route.Owner = make([]ps.ServerID, len(c.route.Owner))
	f.route.Backup = make([]ps.ServerID, len(c.route.Backup))
	highest := slices.Clone(f.marks)
	for i := range f.marks {
		f.marks[i] = ps.Unbounded
	}
	for _, m := range c.members() {
		stock := c.adopting.stocks[m.id]
		f.members++
		if stock.Suspended || stock.Generation != c.generation {
			f.doubts(false, "machine %s is in generation %d", m.id, stock.Generation)
		}
		c.generation = max(c.generation, stock.Generation)
		f.route.Version = max(f.route.Version, stock.Version)
		c.readServed(f, m, stock, highest)
		c.readWork(f, m, stock)
	}
	f.route.Version++
	for p := range f.route.Owner {
		if f.route.Owner[p] == "" {
			f.doubts(true, "nobody owns partition %d", p)
			f.route.Owner[p] = f.route.Backup[p]
		}
		if f.route.Backup[p] == "" {
			f.doubts(false, "nobody backs partition %d up", p)
		}
	}
	c.readUnclaimed(f, highest)
	slices.Sort(f.strays)
	f.strays = slices.Compact(f.strays)
	return f
}

// readServed takes in what a machine owns and backs up.
func (c *Controller) readServed(f *findings, m *machine, stock tiers.Stock, highest []ps.Clock) {
	stray := func(cut ps.Clock) {
		if cut > c.committed {
			f.strays = append(f.strays, cut)
		}
	}
	stray(stock.Named)
	for _, o := range stock.Owned {
		if f.route.Owner[o.Partition] != "" {
			f.doubts(true, "partition %d has two owners", o.Partition)
		}
		f.route.Owner[o.Partition] = m.id
		if o.Base > c.committed {
			f.doubts(false, "partition %d is beyond the committed cut", o.Partition)
		}
		f.behind = f.behind || o.Base < c.committed
		for split, mark := range o.Marks {
			f.marks[split], highest[split] = min(f.marks[split], mark), max(highest[split], mark)
		}
	}
	for _, b := range stock.Backups {
		if !has(b, c.committed) {
			continue
		}
		f.route.Backup[b.Partition] = m.id
		f.behind = f.behind || b.Cut != c.committed
		stray(b.Delivered)
	}
}

// readWork takes in what a machine works on.
func (c *Controller) readWork(f *findings, m *machine, stock tiers.Stock) {
	for _, s := range stock.Splits {
		if f.splits[s.Split].holder != "" {
			f.doubts(true, "two machines work on split %d", s.Split)
		}
		f.splits[s.Split] = splitState{holder: m.id, next: s.Clock}
	}
}

// readUnclaimed looks at splits that nobody works on: they were changing hands, or their worker is lost. Of a worker that
// is lost it is not known what it has under way. Otherwise nobody adds to them any more, and the owners' marks tell how far
// they have come, if the owners were asked after everybody had said that he does not work on them.
func (c *Controller) readUnclaimed(f *findings, highest []ps.Clock) {
	for i := range f.splits {
		if f.splits[i].holder != "" {
			continue
		}
		switch {
		case c.missing():
			f.doubts(false, "split %d was lost with its worker", i)
		case !c.adopting.confirmed:
			f.doubts(true, "split %d changes hands", i)
		case f.marks[i] != highest[i]:
			f.doubts(false, "split %d has done clock %d at some owners only", i, highest[i])
		}
		f.splits[i].next = highest[i] + 1
	}
}

// missing reports whether a machine that took part may still do something, or was not known to be lost before.
func (c *Controller) missing() bool {
	return slices.ContainsFunc(c.roster, func(m *machine) bool {
		return m.joined > 0 && m.lost && (!m.ended || slices.Contains(c.adopting.members, m.id))
	})
}

// goOn takes the state up as the machines say that it is: nothing is done again.
func (c *Controller) goOn(f *findings) {
	c.route = f.route
	for i, s := range f.splits {
		c.hand(ps.Split(i), s.holder)
		c.splits[i].next = s.next
		c.reached(ps.Split(i), f.marks[i])
	}
	target := tiers.Layout{Stage: c.stage, Route: c.cloneRoute(), Worker: make([]ps.ServerID, len(c.splits))}
	for i, s := range f.splits {
		target.Worker[i] = s.holder
	}
	c.setTarget(target)
	c.cutDue = c.now.Add(c.cfg.CutEvery)
	c.progress.since = c.now
	c.recordTakeOver("the controller was started again; training has gone on, and nothing is done again")
	for _, m := range c.reachable() {
		if f.behind {
			c.send(m.id, tiers.CommitCut{Cut: c.committed})
		}
		for _, cut := range f.strays {
			c.send(m.id, tiers.UnnameCut{Cut: cut})
			c.unnamed = true
		}
	}
	c.broadcast()
	for _, m := range c.reachable() {
		c.send(m.id, tiers.Unpark{Until: c.cfg.Job.Clocks}) // a halt may have been under way
	}
	c.checkClock()
	c.layOut()
}

func (c *Controller) recordTakeOver(why string) {
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.TakeOver, Count: len(c.members()), Clock: int64(c.progress.done),
			Generation: uint64(c.generation), Why: why}
	})
}

// startOver begins again from the newest checkpoint, or from the initial state: nobody holds the committed cut any more.
// Machines that are left, and fenced at this generation, wait for the reliable tier to stand again (secure, stand).
func (c *Controller) startOver(why string) {
	from := c.saves.newest
	at := c.saves.at
	if from == "" {
		from, at = c.cfg.Job.ResumeFrom, c.cfg.Job.ResumeAt
	}
	c.cfg.Job.ResumeFrom, c.cfg.Job.ResumeAt = from, at
	if from == "" {
		why += "; there is no checkpoint: back to the beginning"
	} else {
		why += "; back to the checkpoint " + from
	}
	c.cut, c.halt, c.recovery, c.settle = nil, nil, nil, nil
	clear(c.moves)
	if len(c.members()) == 0 {
		c.generation++ // nobody was fenced
	}
	c.committed, c.stage = at, max(c.stage, tiers.Stage1)
	clear(c.route.Owner)
	clear(c.route.Backup)
	c.route.Version, c.routeNews = 0, false
	c.setTarget(tiers.Layout{})
	for i := range c.splits {
		c.hand(ps.Split(i), "")
		c.splits[i].next = at + 1
	}
	lost := max(c.progress.rollback(at), 0)
	c.totals.Rollbacks++
	c.totals.Lost += lost
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Rollback, Generation: uint64(c.generation), Clock: int64(at), LostClocks: int64(lost),
			Partitions: len(c.route.Owner), Why: why}
	})
	c.reliable = securing{lost: true}
	c.readySince = time.Time{}
}
