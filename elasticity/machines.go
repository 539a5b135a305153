package elasticity

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// machine is a bought machine, from the provider's answer to the provider's word that it is gone.
type machine struct {
	// What every look at the roster asks for comes first: there are many, and it fits into two lines of a cache.
	id          ps.ServerID
	tier        tiers.Tier
	address     string
	joined      int  // place in the order of joining; 0 = does not take part yet
	splits      int  // that it holds: see hand
	ready       bool // has answered its Welcome
	loading     bool
	keeps       bool // the committed cut of partitions that another machine is to back up from the next one on
	atRisk      bool // the provider sees a raised risk
	warned      bool
	draining    bool // a better pool took its place: works on to the end of its paid hour
	leaving     bool // hands over everything, then is terminated
	terminating bool
	lost        bool      // given up: nothing more is expected of it
	ended       bool      // the provider says so
	recalled    bool      // launched by a controller before this one
	unwritten   bool      // that it left is not in the journal
	charged     bool      // its bill is in the journal
	heard       time.Time // by Controller.awake, as is brokenAt
	brokenAt    time.Time // its stream is broken since then
	hungUp      bool      // and it was its end that broke it: it had been heard of until then

	pool     market.Pool
	bid      market.USD
	token    string
	launched time.Time
	entered  time.Time // when this controller heard of it
	missing  time.Time // since when the provider does not list it; zero = it does
	vcpu     int

	incarnation ps.Incarnation
	loaded      []bool // Index: Split
	loads       int    // how often that has changed
	stats       tiers.Heartbeat
	meter       meter

	deadline   time.Time // of the eviction that it was warned of
	why        string    // of the termination
	terminated time.Time // when it was asked for
	endedAt    time.Time
	sawEnd     time.Time // when its end was noted, by Controller.awake
	endedBy    market.EndedBy
	billed     int // lines of its bill that a controller before wrote
}

// member reports whether the machine takes part in training.
func (m *machine) member() bool { return m.joined > 0 && !m.lost && !m.ended }

// alive reports whether commands reach the machine.
func (m *machine) alive() bool { return m.address != "" && !m.lost && !m.ended && !m.terminating }

// staying reports whether nothing is known that would end the machine or its part in the work.
func (m *machine) staying() bool {
	return !m.warned && !m.draining && !m.leaving && !m.terminating && !m.lost && !m.ended
}

// ordered returns machines in the order of joining, then by id: no decision hangs on map order.
func (c *Controller) ordered(keep func(*machine) bool) []*machine {
	var out []*machine
	for i, m := range c.roster {
		if !keep(m) {
			continue
		}
		if out == nil {
			out = make([]*machine, 0, len(c.roster)-i)
		}
		out = append(out, m)
	}
	return out
}

// inOrder is that of the roster.
func inOrder(a, b *machine) int {
	return cmp.Or(cmp.Compare(a.joined, b.joined), cmp.Compare(a.id, b.id))
}

// seat takes a machine into the roster.
func (c *Controller) seat(m *machine) {
	i, _ := slices.BinarySearchFunc(c.roster, m, inOrder)
	c.roster = slices.Insert(c.roster, i, m)
}

// sortRoster is due when machines have joined.
func (c *Controller) sortRoster() { slices.SortFunc(c.roster, inOrder) }

// archive forgets machines of which nothing can come any more.
func (c *Controller) archive() {
	if c.adopting != nil {
		return // it asks about them
	}
	c.roster = slices.DeleteFunc(c.roster, func(m *machine) bool {
		over := m.charged && m.lost && m.splits == 0
		if over {
			c.archived = append(c.archived, m)
		}
		return over
	})
}

func (c *Controller) members() []*machine { return c.ordered((*machine).member) }

// reachable are members that can still be told something.
func (c *Controller) reachable() []*machine {
	return c.ordered(func(m *machine) bool { return m.member() && m.alive() })
}

func (c *Controller) typeOf(p market.Pool) market.InstanceType {
	for i := range c.cfg.Pools {
		if q := &c.cfg.Pools[i]; q.Pool == p {
			return q.Type
		}
	}
	if p.Class == market.OnDemand {
		return c.cfg.Reliable.Type
	}
	return market.InstanceType{Name: p.Type}
}

func (c *Controller) takeReport(id ps.ServerID, r tiers.Report) (stirs bool) {
	m := c.machines[id]
	if m == nil {
		c.takeStranger(Reported{ID: id, Report: r})
		return true
	}
	if m.ended {
		if _, calls := r.(tiers.Hello); calls { // the provider says that it is gone, and it is not
			c.lastID++
			c.act(Send{ID: id, Command: tiers.Command{ID: c.lastID, Do: tiers.Stop{Why: "this machine has ended"}}})
		}
		return false
	}
	m.heard, m.brokenAt = c.awake.Now(), time.Time{} // after a break the first that is heard comes by a new stream
	switch r := r.(type) {
	case tiers.Hello:
		return c.takeHello(m, r)
	case tiers.Answer:
		return c.takeAnswer(m, r)
	case tiers.Heartbeat:
		return c.takeHeartbeat(m, r)
	case tiers.Progress:
		relayout, cut := c.relayout, c.cut
		if !m.lost {
			c.takeProgress(m, r)
		}
		return c.done() || c.cut != cut || c.relayout && !relayout
	case tiers.CutHeld:
		return c.changes(func() { c.takeCutHeld(m, r) })
	case tiers.Failed:
		if !m.lost {
			c.fail(Printable(fmt.Sprintf("machine %s: %s", id, r.Error))) // it would fail on every machine
		}
	case tiers.Crashed:
		c.crash(NewCrash(id, m.entered, c.now, r))
	case tiers.Warned:
		return c.takeWarned(Warned{ID: id, Deadline: r.Deadline, Rebalance: r.Rebalance})
	}
	return true
}

// takeHello welcomes a new node. One that was given up must not come back with what it knew: it stops.
func (c *Controller) takeHello(m *machine, h tiers.Hello) (stirs bool) {
	switch {
	case m.lost:
		c.send(m.id, tiers.Stop{Why: "this machine was given up"})
		c.terminate(m, "it came back after it had been given up")
		return true
	case h.Incarnation != 0 && m.address == "" && !m.terminating:
		c.meet(m, h)
		return true
	case m.terminating || h.Incarnation != 0:
		return true // a stream that broke and came back; the link delivers what was under way
	case m.joined > 0:
		c.giveUp(m, "its process began anew and has lost what it held")
		return true
	}
	// It is new, or its stream broke before it was welcomed, or its process began anew, for which what was said before
	// is lost: say it again.
	c.forget(m.id)
	m.ready, m.loading = false, false
	clear(m.loaded)
	m.loads++
	m.address = h.Address
	c.lookAgain(c.now.Add(c.cfg.DeadAfter)) // until it called it had BootWithin
	c.send(m.id, tiers.Welcome{
		Schema:      c.cfg.Job.Schema,
		Generation:  c.generation,
		Incarnation: m.incarnation,
		App:         c.cfg.Job.App,
		Params:      c.cfg.Job.Params,
		Dataset:     c.cfg.Job.Dataset,
		SplitsURL:   c.cfg.Job.SplitsURL,
		EvalEvery:   c.cfg.Job.EvalEvery,
		Until:       c.cfg.Job.Clocks,
		Heartbeat:   c.cfg.Job.Heartbeat,
		OrphanAfter: c.cfg.Job.OrphanAfter,
	})
	if m.tier == tiers.Reliable {
		// The reliable tier keeps every split in memory: it is the previous owner of all of them.
		all := make([]ps.Split, len(c.splits))
		for i := range all {
			all[i] = ps.Split(i)
		}
		m.loading = true
		c.send(m.id, tiers.Load{Splits: all})
	}
	return false // before it is ready it is good for nothing
}

func (c *Controller) takeAnswer(m *machine, a tiers.Answer) (stirs bool) {
	s, ok := c.commands[a.ID]
	if !ok || s.to != m.id {
		return false
	}
	delete(c.commands, a.ID)
	switch do := s.do.(type) {
	case tiers.Welcome:
		if a.Code != tiers.CodeOK {
			c.useless(m, "it could not start: "+a.Error)
			return true
		}
		m.ready = true
		if m.tier == tiers.Reliable {
			c.reliable.tries = 0
		}
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Ready, Instance: string(m.id), Pool: m.pool.String(), Tier: string(m.tier)}
		})
		_, coming := c.candidates()
		return coming == 0 || c.readySince.IsZero() // otherwise it waits as others do
	case tiers.Load:
		m.loading = false
		if a.Code != tiers.CodeOK {
			c.useless(m, "it could not load its data: "+a.Error)
			return true
		}
		for _, split := range do.Splits {
			m.loaded[split] = true
		}
		m.loads++
		if m.joined > 0 && m.tier == tiers.Transient && c.atRest() {
			handing := c.handingOver()
			c.advanceSplits() // it is all that has waited for it
			c.stirred = c.handingOver() != handing
			return false
		}
	case tiers.TakeStock:
		c.takeStock(m, a)
	case tiers.Release:
		return c.takeReleased(m, a)
	case tiers.SaveCut:
		return c.changes(func() { c.takeSaved(m, do, a) })
	case tiers.MoveOut:
		c.takeMoved(m, do, a)
	case tiers.NameCut:
		return c.changes(func() { c.takeNamed(m, do, a) })
	case tiers.Park:
		c.takeParked(m, a)
		return c.halt == nil || len(c.halt.parking) == 0 // otherwise the others are waited for
	case tiers.FenceWorker:
		c.takeStandings(m, a)
	case tiers.FenceGeneration:
		c.takeHoldings(m, do, a)
	case tiers.Promote, tiers.Recover, tiers.SettleWorker:
		c.checkObeyed(m, do, a)
	case tiers.Own, tiers.Assign:
		return !c.checkObeyed(m, do, a) // nobody waits for it
	case tiers.BackUp, tiers.CommitCut:
		return !c.checkObeyed(m, do, a) || c.cutWaited()
	case tiers.UnnameCut:
		return c.cutWaited()
	case tiers.SetRoute, tiers.Unpark:
		return false
	}
	return true
}

// checkObeyed returns a machine up that cannot do what it must.
func (c *Controller) checkObeyed(m *machine, do tiers.Do, a tiers.Answer) bool {
	if a.Code == tiers.CodeDamaged {
		c.doubt(checkpointOf(do)) // not the machine's fault
	}
	why := fmt.Sprintf("it failed to %T: %s", do, a.Error)
	switch a.Code {
	case tiers.CodeOK:
	case tiers.CodeFailed:
		c.useless(m, why)
	default:
		c.giveUp(m, why)
	}
	return a.Code == tiers.CodeOK
}

// checkpointOf is the checkpoint that a command has a machine read; empty = none.
func checkpointOf(do tiers.Do) string {
	switch do := do.(type) {
	case tiers.Own:
		return do.Checkpoint
	case tiers.BackUp:
		return do.Checkpoint
	case tiers.Recover:
		return do.Checkpoint
	}
	return ""
}

func (c *Controller) takeWarned(e Warned) (stirs bool) {
	m := c.machines[e.ID]
	if m == nil {
		c.takeStranger(e)
		return true
	}
	if m.ended || m.warned || m.terminating {
		return true
	}
	if e.Rebalance {
		if m.atRisk {
			return true // told before
		}
		m.atRisk = true
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Notice, Instance: string(m.id), Pool: m.pool.String(),
				Why: "rebalance recommendation: the provider sees a raised risk"}
		})
		return true
	}
	m.warned, m.deadline = true, c.byOurClock(e.Deadline)
	c.record(func() journal.Entry {
		left := m.deadline
		why := fmt.Sprintf("eviction notice, %.1f s left", c.wall(left.Sub(c.now)))
		if !left.Equal(e.Deadline) {
			why += fmt.Sprintf("; the provider says %.1f s, which its clock or this one has wrong", c.wall(e.Deadline.Sub(c.now)))
		}
		return journal.Entry{Kind: journal.Notice, Instance: string(m.id), Pool: m.pool.String(), Deadline: &left, Why: why}
	})
	// When notices are gathered already, the next one that comes to a mere worker is one more of them.
	stirs = !c.relayout || !c.now.Before(c.gathering) || m.joined == 0 || m.tier == tiers.Reliable || c.ownsAny(m.id)
	c.relayout, c.wantPlan = true, true
	if m.tier == tiers.Reliable { // another is bought while it lasts, and what it holds is saved
		c.reliable.lost = true
		c.saves.wanted, c.cutDue = true, c.now
	}
	if !c.now.Before(c.gathering) {
		c.gathering = c.now.Add(c.cfg.NoticeWait)
	}
	return stirs
}

// wall returns a market duration in wall-clock seconds.
func (c *Controller) wall(d time.Duration) float64 { return d.Seconds() / c.cfg.Speed }

func (c *Controller) takeEnded(i provisioner.Instance) {
	m := c.machines[ps.ServerID(i.ID)]
	if m == nil {
		c.takeStranger(InstanceEnded{Instance: i})
		return
	}
	if m.ended {
		return
	}
	c.record(func() journal.Entry {
		entry := journal.Entry{Kind: journal.Failed, Instance: string(m.id), Pool: m.pool.String(), Tier: string(m.tier),
			Ended: &i.Ended, EndedBy: string(i.EndedBy), Why: i.Reason}
		switch {
		case i.EndedBy == market.ByProvider && m.warned:
			entry.Kind = journal.Evicted
		case (m.terminating || m.recalled) && i.EndedBy == market.ByUser: // by this controller, or by the one before
			entry.Kind, entry.Why = journal.Terminated, cmp.Or(m.why, i.Reason)
		}
		return entry
	})
	if i.EndedBy == market.ByProvider {
		c.totals.Evictions++
	}
	switch {
	case i.EndedBy == market.ByProvider:
		c.crashes.Excuse(m.id)
	case m.endedByItself(i.Ended):
		c.crashes.Add(Crash{ID: m.id, Entered: m.entered, At: c.now, Why: "it ended by itself: " + cmp.Or(m.why, i.Reason)})
	}
	m.endedAt, m.endedBy, m.sawEnd = i.Ended, i.EndedBy, c.awake.Now()
	c.outlived(market.Usage{Pool: m.pool, Start: m.launched, End: m.endedAt, EndedBy: m.endedBy})
	if !m.lost {
		c.lose(m)
	}
	m.ended = true
	c.closeLaunch(m.token)
	c.wantPlan = true
}

// endedByItself reports whether a machine that its provider did not take had ended before it was told to. A machine that is
// taken over may have waited in vain for its controller.
func (m *machine) endedByItself(at time.Time) bool {
	return !m.recalled && !m.warned && EndedByItself(at, m.terminating, m.terminated)
}

// outlived counts how long a spot machine was kept.
func (c *Controller) outlived(u market.Usage) {
	if u.Pool.Class != market.Spot || u.EndedBy == market.Running {
		return
	}
	if c.lifetimes[u.Pool] == nil {
		c.lifetimes[u.Pool] = &market.Lifetimes{}
	}
	c.lifetimes[u.Pool].Add(u, u.End)
}

// giveUp declares a machine dead: whatever it still does is fenced, and it is not paid for any longer.
func (c *Controller) giveUp(m *machine, why string) {
	if m.lost || m.ended {
		return
	}
	if !m.terminating && !m.warned {
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Failed, Instance: string(m.id), Pool: m.pool.String(), Why: why}
		})
	}
	c.lose(m)
	c.terminate(m, why)
}

// lose takes a machine out of training. Whoever owned partitions takes the run into recovery; a worker alone
// is fenced and its splits are handed on.
func (c *Controller) lose(m *machine) {
	m.lost = true
	c.pace.dirty -= m.stats.CutBytes
	m.stats.CutBytes = 0
	c.forget(m.id)
	c.dropFromSave(m.id)
	c.wantPlan = true
	c.reliable.lost = c.reliable.lost || m.tier == tiers.Reliable
	if m.joined == 0 {
		if m.tier == tiers.Reliable && !m.ready && m.token != c.reliable.token {
			c.reliable.token = m.token
			c.reliable.tries++
		}
		c.closeLaunch(m.token)
		return
	}
	c.recordLeave(m)
	if c.ending {
		return
	}
	c.relayout = true
	if c.switching != nil {
		c.switching.settle(c)
	}
	bare := c.loseBackups(m.id)
	switch {
	case c.recovery != nil:
		c.recovery.again = true
	case bare:
		c.startRecovery("machine " + string(m.id) + ", which backed partitions up, is gone")
	case c.ownsAny(m.id):
		c.startRecovery("owner " + string(m.id) + " is gone")
	}
	c.dropFromCut(m.id)
	if c.halt != nil {
		delete(c.halt.parking, m.id)
	}
}

func (c *Controller) recordLeave(m *machine) {
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Leave, Instance: string(m.id), Pool: m.pool.String(), Tier: string(m.tier)}
	})
}

func (c *Controller) ownsAny(id ps.ServerID) bool {
	if slices.Contains(c.route.Owner, id) {
		return true
	}
	// A move to it may have passed its FINAL: the answer would have told.
	for _, to := range c.moves {
		if to == id {
			return true
		}
	}
	return false
}
