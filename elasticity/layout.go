package elasticity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// splitState is who works on a split.
type splitState struct {
	holder    ps.ServerID // nobody while it changes hands
	by        *machine    // the holder; nil for nobody, and for one that nobody knows
	next      ps.Clock    // first clock not begun; known while nobody holds it
	releasing bool        // its holder was asked for it
}

func sortedTokens(m map[string]*launch) []string { return slices.Sorted(maps.Keys(m)) }

// standing reports whether the reliable tier has taken the job up.
func (c *Controller) standing() bool { return c.route.Version > 0 }

// reliableMembers are the members on which the job can stand.
func (c *Controller) reliableMembers() []tiers.Member {
	return slices.DeleteFunc(c.tierMembers(), func(m tiers.Member) bool { return m.Tier != tiers.Reliable || m.Leaving })
}

// stand starts the job on the reliable machines: stage 1. When it begins again from a checkpoint, other machines are there
// already.
func (c *Controller) stand() {
	c.setTarget(tiers.Next(c.layout(), c.reliableMembers(), c.cfg.Stages))
	c.route.Version = 1
	c.route.Owner = slices.Clone(c.target.Route.Owner)
	c.route.Backup = slices.Clone(c.target.Route.Backup)
	for _, m := range c.reachable() {
		if c.stood {
			c.send(m.id, tiers.Recover{
				Generation: c.generation, Cut: c.cfg.Job.ResumeAt, Checkpoint: c.cfg.Job.ResumeFrom, Initial: c.cfg.Job.ResumeFrom == "",
				Route: c.cloneRoute(), Peers: c.peers(),
			})
			continue
		}
		owned, backedUp := partitionsOf(c.route.Owner, m.id), partitionsOf(c.route.Backup, m.id)
		c.send(m.id, tiers.BackUp{Partitions: backedUp, Checkpoint: c.cfg.Job.ResumeFrom, Cut: c.cfg.Job.ResumeAt})
		c.send(m.id, tiers.Own{Partitions: owned, Checkpoint: c.cfg.Job.ResumeFrom, Cut: c.cfg.Job.ResumeAt})
	}
	c.cutDue, c.pace.at = c.now.Add(c.cfg.CutEvery), c.now
	c.progress.since = c.now
	reliable := len(c.reliableMembers())
	if !c.stood || c.stage != tiers.Stage1 {
		from := ""
		if c.stood {
			from = fmt.Sprint(int(c.stage))
		}
		c.record(func() journal.Entry {
			return journal.Entry{
				Kind: journal.Stage, From: from, To: fmt.Sprint(int(tiers.Stage1)), Reliable: reliable, Clock: int64(c.progress.done),
				Why: "the job starts on the reliable machines",
			}
		})
	}
	c.stood, c.stage = true, tiers.Stage1
}

func partitionsOf(holders []ps.ServerID, id ps.ServerID) []ps.Partition {
	var out []ps.Partition
	for p, h := range holders {
		if h == id {
			out = append(out, ps.Partition(p))
		}
	}
	return out
}

// layout is how things are now, as opposed to the target.
func (c *Controller) layout() tiers.Layout {
	l := tiers.Layout{Stage: c.stage, Route: c.route, Worker: c.spareWorkers}
	if c.spareWorkers = nil; l.Worker == nil {
		l.Worker = make([]ps.ServerID, len(c.splits))
	}
	for i, s := range c.splits {
		l.Worker[i] = s.holder
		if s.holder == "" && c.target.Worker != nil {
			l.Worker[i] = c.target.Worker[i]
		}
	}
	return l
}

func (c *Controller) tierMembers() []tiers.Member {
	members := c.members()
	out := make([]tiers.Member, 0, len(members))
	for _, m := range members {
		out = append(out, tiers.Member{
			ID: m.id, Tier: m.tier, Joined: m.joined, VCPU: m.vcpu,
			Leaving: m.warned || m.draining || m.leaving || m.terminating,
			NoWork:  m.warned || m.leaving || m.terminating,
			Loaded:  m.loaded,
		})
	}
	return out
}

// layOut sets the target for the present members and writes down a change of stage.
func (c *Controller) layOut() {
	c.relayout = false
	if !c.standing() || c.recovery != nil || c.ending {
		return
	}
	members := c.tierMembers()
	transient, reliable := tiers.Count(members)
	stage := c.stageFor(transient, reliable)
	c.arrange(members, stage)
	if stage != c.stage {
		c.recordStage(transient, reliable)
	}
}

// arrangement is what the target was last made of.
type arrangement struct {
	now     tiers.Layout
	members []tiers.Member
	loads   []int // that the members' data have changed
	stage   tiers.Stage
	servers int
}

// arrange makes the target, unless it would come out as it is: when a fleet of a hundred is taken back, its machines go one
// by one, and nothing depends on those that had nothing to do any longer.
func (c *Controller) arrange(members []tiers.Member, stage tiers.Stage) {
	now, was := c.layout(), &c.arranged
	members = slices.DeleteFunc(members, func(m tiers.Member) bool { return m.Leaving && m.NoWork }) // to whom nothing goes
	loads := c.spareLoads[:0]
	for i := range members {
		loads = append(loads, c.machines[members[i].ID].loads)
	}
	like := func(a, b tiers.Member) bool {
		return a.ID == b.ID && a.Tier == b.Tier && a.Joined == b.Joined && a.VCPU == b.VCPU && a.Leaving == b.Leaving && a.NoWork == b.NoWork
	}
	if was.members != nil && was.stage == stage && was.servers == c.wish.servers && was.now.Stage == now.Stage &&
		slices.EqualFunc(was.members, members, like) && slices.Equal(was.loads, loads) &&
		slices.Equal(was.now.Worker, now.Worker) && slices.Equal(was.now.Route.Owner, now.Route.Owner) &&
		slices.Equal(was.now.Route.Backup, now.Route.Backup) {
		c.target.Route.Version = now.Route.Version
		c.spareLoads, c.spareWorkers = loads, now.Worker
		return
	}
	c.setTarget(tiers.Arrange(now, members, stage, c.wish.servers))
	now.Route = c.cloneRoute()
	c.spareLoads, *was = was.loads, arrangement{now: now, members: members, loads: loads, stage: stage, servers: c.wish.servers}
}

// setTarget changes where everything should be. Any but arrange's own forgets what the last one was made of.
func (c *Controller) setTarget(to tiers.Layout) {
	c.arranged = arrangement{}
	takers := slices.Grow(c.takers[:0], len(to.Worker))[:len(to.Worker)]
	for i, id := range to.Worker {
		if m := takers[i]; m == nil || m.id != id {
			takers[i] = c.machines[id]
		}
	}
	c.target, c.takers = to, takers
}

func (c *Controller) setRoute() tiers.SetRoute {
	return tiers.SetRoute{Generation: c.generation, Route: c.cloneRoute(), Peers: c.peers()}
}

func (c *Controller) cloneRoute() ps.Route {
	return ps.Route{Version: c.route.Version, Owner: slices.Clone(c.route.Owner), Backup: slices.Clone(c.route.Backup)}
}

func (c *Controller) peers() map[ps.ServerID]string {
	peers := map[ps.ServerID]string{}
	for _, m := range c.members() {
		peers[m.id] = m.address
	}
	return peers
}

// spreadRoute tells of owners that have changed when their moves are over. It comes before all that is asked of owners: one that has
// not heard from the server before it that a partition is its own hears so by the route. A route of a new generation before everybody
// has returned would undo the fence.
func (c *Controller) spreadRoute() {
	if c.routeNews && len(c.moves) == 0 && c.recovery == nil {
		c.broadcast()
	}
}

// broadcast tells every member who serves now.
func (c *Controller) broadcast() {
	c.routeNews = false
	route := c.setRoute()
	for _, m := range c.reachable() {
		c.send(m.id, route)
	}
}

func (c *Controller) recordJoin(m *machine) {
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Join, Instance: string(m.id), Tier: string(m.tier), Pool: m.pool.String(),
			Splits:     len(c.splitsOf(c.target.Worker, m.id)),
			Partitions: len(partitionsOf(c.target.Route.Owner, m.id)),
			Clock:      int64(c.progress.done),
			Why:        "ready with its data: " + roleNames(c.target.Roles(tiers.Member{ID: m.id, Tier: m.tier})),
		}
	})
}

func roleNames(roles []tiers.Role) string {
	s := ""
	for i, r := range roles {
		if i > 0 {
			s += ", "
		}
		s += string(r)
	}
	return s
}

func (c *Controller) splitsOf(holders []ps.ServerID, id ps.ServerID) []ps.Split {
	var out []ps.Split
	for s, h := range holders {
		if h == id {
			out = append(out, ps.Split(s))
		}
	}
	return out
}

// hand gives a split to a machine, or to nobody. It alone changes holders, and keeps the machines' counts.
func (c *Controller) hand(split ps.Split, to ps.ServerID) {
	s := &c.splits[split]
	if s.by != nil {
		s.by.splits--
	}
	if s.holder == "" || s.releasing {
		c.between--
	}
	s.holder, s.by, s.releasing = to, c.machines[to], false
	if s.by != nil {
		s.by.splits++
	}
	if to == "" {
		c.between++
	}
}

// askBack notes that a split's holder is to give it back.
func (c *Controller) askBack(split ps.Split) {
	if s := &c.splits[split]; s.holder != "" && !s.releasing {
		s.releasing = true
		c.between++
	}
}

// askNoMore takes that back.
func (c *Controller) askNoMore(split ps.Split) {
	if s := &c.splits[split]; s.holder != "" && s.releasing {
		c.between--
	}
	c.splits[split].releasing = false
}

// advanceMoves starts the moves that lead to the target. Moves and cuts exclude each other: a partition
// changes in one way at a time.
func (c *Controller) advanceMoves() {
	if c.recovery != nil || c.cut != nil || c.halt != nil || c.settle != nil || len(c.moves) > 0 ||
		!c.standing() || c.ending || c.now.Before(c.moveRetry) || c.wantsFlush() || c.wantsHalt() {
		return
	}
	type hop struct{ from, to ps.ServerID }
	hops := map[hop]int{}
	room := map[*machine]int{} // partitions that a machine with a warning still hands over in time
	for p, owner := range c.route.Owner {
		to := c.target.Route.Owner[p]
		if to == owner || to == "" {
			continue
		}
		from, dest := c.machines[owner], c.machines[to]
		if from == nil || !from.alive() || dest == nil || !dest.alive() || dest.warned {
			continue
		}
		if _, known := room[from]; !known {
			room[from] = c.leavesInTime(from, len(partitionsOf(c.route.Owner, owner)))
		}
		if room[from]--; room[from] < 0 {
			continue // it would not be there in time: the last committed cut serves
		}
		c.moves[ps.Partition(p)] = to
		hops[hop{owner, to}]++
		c.send(owner, tiers.MoveOut{Partition: ps.Partition(p), To: to, Address: dest.address})
	}
	order := slices.SortedFunc(maps.Keys(hops), func(a, b hop) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	for _, h := range order {
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Move, Count: hops[h], From: string(h.from), To: string(h.to), Clock: int64(c.progress.done),
				Why: fmt.Sprintf("stage %d layout", c.target.Stage)}
		})
	}
}

func (c *Controller) takeMoved(m *machine, do tiers.MoveOut, a tiers.Answer) {
	to, ok := c.moves[do.Partition]
	if !ok || to != do.To {
		return
	}
	delete(c.moves, do.Partition)
	if a.Code != tiers.CodeOK {
		c.moveRetry = c.now.Add(c.cfg.BrokenAfter)
		return
	}
	c.route.Owner[do.Partition] = do.To
	c.route.Version++
	c.routeNews = true
}

// advanceSplits hands splits on: load at the taker, take back from the giver at a clock's end, assign.
func (c *Controller) advanceSplits() {
	if c.recovery != nil || c.ending || !c.standing() {
		return
	}
	var load, release map[ps.ServerID][]ps.Split
	var assign map[ps.ServerID][]tiers.SplitAt
	for i := range c.splits {
		s, split := &c.splits[i], ps.Split(i)
		taker := c.takers[i]
		if taker == nil || s.by == taker || !taker.member() || !taker.alive() {
			continue
		}
		want := taker.id
		switch {
		case !taker.loaded[split]:
			if !taker.loading {
				add(&load, want, split)
			}
		case s.holder == "":
			c.hand(split, want)
			add(&assign, want, tiers.SplitAt{Split: split, Clock: s.next})
		case !s.releasing && c.halt == nil && !c.wantsHalt() && s.by.alive():
			c.askBack(split)
			add(&release, s.holder, split)
		}
	}
	if len(load)+len(assign)+len(release) == 0 {
		return
	}
	for _, m := range c.members() {
		if len(assign[m.id]) > 0 {
			c.send(m.id, tiers.Assign{Splits: assign[m.id]})
		}
		if len(load[m.id]) > 0 {
			m.loading = true
			c.send(m.id, tiers.Load{Splits: load[m.id]})
		}
		if len(release[m.id]) > 0 {
			c.send(m.id, tiers.Release{Splits: release[m.id]})
		}
	}
}

// add appends to a machine's list. Most of the time there is nothing to add: the map is made with the first.
func add[T any](to *map[ps.ServerID][]T, id ps.ServerID, v T) {
	if *to == nil {
		*to = map[ps.ServerID][]T{}
	}
	(*to)[id] = append((*to)[id], v)
}

// takeReleased passes splits on that a machine has given back. It reports whether there may be more to do about it than that.
func (c *Controller) takeReleased(m *machine, a tiers.Answer) (stirs bool) {
	r, ok := a.Result.(tiers.Released)
	if a.Code != tiers.CodeOK || !ok {
		c.giveUp(m, "it would not hand its splits over: "+a.Error)
		return true
	}
	for _, s := range r.Splits {
		if st := &c.splits[s.Split]; st.by == m && st.releasing {
			c.hand(s.Split, "")
			st.next = s.Clock
		}
	}
	if last := c.between <= len(r.Splits); last || m.leaving || !c.atRest() || !c.standing() || c.recovery != nil || c.ending {
		return true // somebody may wait for it
	}
	return !c.passOn(r.Splits)
}

// passOn assigns splits that nobody holds to those who should have them, unless some of those wait for something else: it is
// what advanceSplits would do, which looks at all splits, and is due at each of hundreds of answers when a fleet comes or goes.
func (c *Controller) passOn(splits []tiers.SplitAt) bool {
	var takers []*machine
	for i, s := range splits {
		taker := c.takers[s.Split]
		if c.splits[s.Split].holder != "" || taker == nil || i > 0 && s.Split <= splits[i-1].Split ||
			!taker.member() || !taker.alive() || !taker.loaded[s.Split] {
			return false
		}
		if !slices.Contains(takers, taker) {
			takers = append(takers, taker)
		}
	}
	slices.SortFunc(takers, inOrder)
	for _, m := range takers {
		var given []tiers.SplitAt
		for _, s := range splits {
			if c.takers[s.Split] == m {
				given = append(given, tiers.SplitAt{Split: s.Split, Clock: c.splits[s.Split].next})
				c.hand(s.Split, m.id)
			}
		}
		c.send(m.id, tiers.Assign{Splits: given})
	}
	return len(takers) > 0
}

// handingOver reports whether a split is between two holders.
func (c *Controller) handingOver() bool { return c.between > 0 }
