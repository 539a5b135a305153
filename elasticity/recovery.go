package elasticity

import (
	"fmt"
	"slices"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// recovery returns everything to the last committed cut after the loss of an owner: all servers are fenced at
// a new generation and say what they hold; the way back is written down; then all return.
type recovery struct {
	why       string
	fencing   map[ps.ServerID]bool
	holdings  map[ps.ServerID]tiers.Holdings
	returning bool
	again     bool // a machine was lost meanwhile: start over with the next generation
}

func (c *Controller) startRecovery(why string) {
	c.recovery = &recovery{why: why}
	c.cut, c.halt, c.settle = nil, nil, nil
	clear(c.moves)
	c.fence()
}

func (c *Controller) fence() {
	r := c.recovery
	r.again, r.returning = false, false
	r.fencing, r.holdings = map[ps.ServerID]bool{}, map[ps.ServerID]tiers.Holdings{}
	c.generation++
	// Answers to what was asked before have no meaning any longer, but for loading, which has nothing to do with
	// generations, the welcome of machines that are on their way, the stock of those that may not join before, and what is
	// saved of a cut: it stays committed.
	for id, s := range c.commands {
		switch s.do.(type) {
		case tiers.Load, tiers.Welcome, tiers.SaveCut, tiers.TakeStock:
		default:
			delete(c.commands, id)
		}
	}
	for _, m := range c.reachable() {
		r.fencing[m.id] = true
		c.send(m.id, tiers.FenceGeneration{Generation: c.generation})
	}
}

func (c *Controller) takeHoldings(m *machine, do tiers.FenceGeneration, a tiers.Answer) {
	r := c.recovery
	if r == nil || do.Generation != c.generation || !r.fencing[m.id] {
		return
	}
	h, ok := a.Result.(tiers.Holdings)
	if !ok {
		c.giveUp(m, "it would not be fenced: "+a.Error)
		return
	}
	delete(r.fencing, m.id)
	r.holdings[m.id] = h
}

func (c *Controller) advanceRecovery() {
	r := c.recovery
	if r == nil {
		return
	}
	if r.again {
		c.fence() // perhaps there is nobody left to ask
	}
	if len(r.fencing) > 0 {
		return
	}
	if !r.returning {
		c.goBack()
		return
	}
	if waiting[tiers.Recover](c) {
		return
	}
	c.recovery = nil
	c.cutDue = c.now.Add(c.cfg.CutEvery)
	c.layOut()
}

// goBack decides who serves each partition at the committed cut: its owner, if it lives and can undo, otherwise
// its backup. Ordinary moves spread the partitions again afterwards.
func (c *Controller) goBack() {
	r := c.recovery
	kept := 0
	for p, owner := range c.route.Owner {
		h, alive := r.holdings[owner]
		if m := c.machines[owner]; alive && !m.warned && h.Undo == c.committed && slices.Contains(h.Owned, ps.Partition(p)) {
			kept++
			continue
		}
		backup := c.holder(ps.Partition(p))
		if backup == "" {
			c.startOver(fmt.Sprintf("%s; no machine holds partition %d at cut %d", r.why, p, c.committed))
			return
		}
		c.route.Owner[p] = backup
	}
	c.route.Version++
	c.cutReached()
	lost := c.progress.rollback(c.committed)
	c.totals.Rollbacks++
	c.totals.Lost += lost
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Rollback, Generation: uint64(c.generation), Clock: int64(c.committed), LostClocks: int64(lost), Why: r.why,
			Partitions: len(c.route.Owner) - kept,
		}
	})
	// The dead hold no splits. Everybody else keeps theirs; the rest go where the layout wants them.
	for i := range c.splits {
		if m := c.machines[c.splits[i].holder]; m == nil || !m.member() || m.warned {
			c.hand(ps.Split(i), "")
		}
		c.splits[i].next = c.committed + 1
		c.askNoMore(ps.Split(i))
	}
	r.returning = true
	for _, m := range c.reachable() {
		var mine []ps.Split
		for i := range c.splits {
			if c.splits[i].holder == m.id {
				mine = append(mine, ps.Split(i))
			}
		}
		c.send(m.id, tiers.Recover{
			Generation: c.generation, Cut: c.committed, Route: c.cloneRoute(), Peers: c.peers(), Splits: mine,
		})
	}
	c.routeNews = false
}

// holder is a machine that has the committed cut of a partition: its backup, or the one before.
func (c *Controller) holder(p ps.Partition) ps.ServerID {
	if backup := c.route.Backup[p]; holds(c.recovery.holdings[backup], p, c.committed) {
		return backup
	}
	for _, m := range c.reachable() {
		if m.keeps && holds(c.recovery.holdings[m.id], p, c.committed) {
			return m.id
		}
	}
	return ""
}

// has reports whether a backup has a cut, committed or delivered. The initial state, cut 0, is never delivered.
func has(b tiers.BackupHolding, cut ps.Clock) bool {
	return b.Cut == cut || b.Delivered == cut && cut > 0
}

func holds(h tiers.Holdings, p ps.Partition, cut ps.Clock) bool {
	return slices.ContainsFunc(h.Backups, func(b tiers.BackupHolding) bool {
		return b.Partition == p && has(b, cut)
	})
}

// settling hands on the splits of a dead worker that served nothing: its incarnation is fenced everywhere, what
// it had staged counts everywhere or nowhere, and only when it does may somebody else go on: with staleness, nothing
// else would keep the next clock from coming before the one that is being settled.
type settling struct {
	dead      ps.ServerID
	fencing   map[ps.ServerID]bool
	standings []tiers.Standing
	ending    bool
}

func (c *Controller) advanceSettle() {
	if s := c.settle; s != nil {
		if !s.ending && len(s.fencing) == 0 {
			c.settleStaged()
		}
		if s.ending && !waiting[tiers.SettleWorker](c) {
			c.settleSplits()
		}
		return
	}
	if c.recovery != nil || len(c.moves) > 0 || c.ending {
		return
	}
	m := c.deadHolder()
	if m == nil {
		return
	}
	s := &settling{dead: m.id, fencing: map[ps.ServerID]bool{}}
	c.settle = s
	// Backups too: the dead may only be silent, and find one promoted when it wakes up. Servers that come later get
	// the fence with the partitions that move to them.
	for _, server := range c.reachable() {
		if slices.Contains(c.route.Owner, server.id) || slices.Contains(c.route.Backup, server.id) {
			s.fencing[server.id] = true
			c.send(server.id, tiers.FenceWorker{Incarnation: m.incarnation})
		}
	}
}

// deadHolder is the first lost machine whose splits nobody has taken over; nil when there is none.
func (c *Controller) deadHolder() *machine {
	for _, m := range c.roster {
		if m.lost && m.joined > 0 && m.splits > 0 {
			return m
		}
	}
	return nil
}

// unsettled reports whether it is not known yet how far a dead worker has come.
func (c *Controller) unsettled() bool { return c.settle != nil || c.deadHolder() != nil }

func (c *Controller) takeStandings(m *machine, a tiers.Answer) {
	s := c.settle
	if s == nil || !s.fencing[m.id] {
		return
	}
	r, ok := a.Result.(tiers.Standings)
	if !ok {
		c.giveUp(m, "it would not fence a worker: "+a.Error)
		return
	}
	delete(s.fencing, m.id)
	s.standings = append(s.standings, r.Partitions...)
}

// settleStaged decides about the dead worker's last contribution: if any partition has committed it, all have it
// staged and commit; else all discard.
func (c *Controller) settleStaged() {
	s := c.settle
	s.ending = true
	var committed, staged uint64
	for _, p := range s.standings {
		committed, staged = max(committed, p.Standing.Committed), max(staged, p.Standing.Staged)
	}
	if staged == 0 {
		return
	}
	for _, m := range c.reachable() {
		if slices.Contains(c.route.Owner, m.id) {
			c.send(m.id, tiers.SettleWorker{Incarnation: c.machines[s.dead].incarnation, Sequence: staged, Commit: committed >= staged})
		}
	}
}

// settleSplits gives the dead worker's splits away, each at the clock after the last that any partition had
// committed.
func (c *Controller) settleSplits() {
	s := c.settle
	c.settle = nil
	for i := range c.splits {
		if c.splits[i].holder != s.dead {
			continue
		}
		done := c.committed
		for _, p := range s.standings {
			done = max(done, p.Marks[i])
		}
		c.hand(ps.Split(i), "")
		c.splits[i].next = done + 1
		c.reached(ps.Split(i), done)
	}
	c.checkClock()
	c.layOut()
}
