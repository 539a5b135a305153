package training

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// maxAsked bounds the retries when machines' answers contradict each other: a move may end between two answers.
const maxAsked = 3

// survey sums up the machines' answers (see adoption).
//
// They agree if each partition has one owner and one backup at the committed cut, all are in one generation, and each split is held by one
// worker or is in transit. A split without a holder was changing hands: its first clock not begun is the highest mark of the owners, and
// the owners get a second request after all have answered, because an early answer may lack the old worker's last clock. doubt is the first
// contradiction; again: it may be a move that ended between two answers, so asking again may resolve it. Any remaining doubt returns
// everything to the committed cut, which never depends on what machines report beyond it.
type survey struct {
	members int
	route   ps.Route
	splits  []splitState
	marks   []ps.Clock // committed in every partition. Index: Split
	behind  bool       // a machine does not know that the cut is committed
	strays  []ps.Clock // named cuts that will not be committed
	doubt   string     // why training cannot simply continue
	again   bool       // retrying may help
}

func (f *survey) doubts(again bool, format string, args ...any) {
	if f.doubt == "" {
		f.doubt, f.again = fmt.Sprintf(format, args...), again
	}
}

// restore loads the journal's state.
func (t *Training) restore(p *Log) {
	t.Layout.Generation, t.Nodes.joins = max(p.Generation, 1), p.Joins
	t.Cuts.Committed, t.Cuts.furthest, t.Layout.Stood = p.Committed, p.Committed, p.Stage != 0
	if t.Layout.Stood {
		t.Layout.Stage = p.Stage
	}
	*t.Clocks.progress = newProgress(len(t.Layout.Splits), p.Done)
	t.Clocks.furthest = p.Furthest
	t.Load.Gauge, t.Load.Why = tiers.GaugeAt(tiers.Stage(p.Load.Floor), p.Load.Falls, p.Load.Undone, t.cfg.loadRule()), p.Load.Load
	t.Clocks.measured(p.Figures)
	t.tuned.resume(t.Layout, p.Tuned)
	t.adopting = &adoption{stocks: map[ps.ServerID]tiers.Stock{}}
}

// meet admits a machine that worked for the previous controller. It may not join before it has reported what it holds.
func (t *Training) meet(m *Node, h tiers.Hello) {
	m.Address, m.Incarnation = h.Address, h.Incarnation
	t.Silence.Stale = true
	t.Nodes.send(m.ID, tiers.TakeStock{})
}

func (t *Training) takeStock(m *Node, a tiers.Answer) {
	stock, ok := a.Result.(tiers.Stock)
	if a.Code != tiers.CodeOK || !ok {
		t.machines.GiveUp(m.Machine, "it did not report what it holds: "+a.Error)
		return
	}
	// The previous controller may have begun generations without recording them. A machine that has seen a generation refuses all older
	// ones, even if it does not take part yet.
	switch {
	case t.adopting != nil:
		t.Layout.Generation = max(t.Layout.Generation, stock.Generation)
	case stock.Generation > t.Layout.Generation:
		t.machines.GiveUp(m.Machine, fmt.Sprintf("it is in generation %d of the previous controller, and the run continued without it", stock.Generation))
		return
	}
	m.Loaded = m.Loaded.With(slices.DeleteFunc(slices.Clone(stock.Loaded), func(s ps.Split) bool { return int(s) >= len(t.Layout.Splits) }))
	m.loads++
	if m.Joined == 0 && stock.Version > 0 && !t.rejoin(m) {
		return
	}
	m.Ready = true
	if t.adopting != nil {
		t.adopting.stocks[m.ID] = stock
	}
}

// rejoin admits a machine that the previous controller admitted without recording it. If the run has continued without it, the machine
// missed messages and can no longer be used.
func (t *Training) rejoin(m *Node) bool {
	if t.adopting == nil {
		t.machines.GiveUp(m.Machine, "it had joined unrecorded, and the run continued without it")
		return false
	}
	t.Nodes.joins++
	m.Joined = t.Nodes.joins
	t.adopting.confirmed = false
	t.Nodes.sort()
	t.machines.Reorder()
	t.machines.Joined(m.Machine, func() journal.Entry { return journal.Entry{Why: "the previous controller had let it join"} })
	return true
}

// adoptWithin returns how long machines have to call a controller that takes them over. It exceeds the usual allowed silence: training
// continues meanwhile, and giving a machine up costs a roll-back.
func (c *Config) adoptWithin() time.Duration { return 3 * max(c.DeadAfter, c.BrokenAfter) }

// AdvanceAdoption continues a take-over.
func (t *Training) AdvanceAdoption() {
	a := t.adopting
	if a == nil || t.Ending {
		return
	}
	late := t.Awake.Over(a.since, t.cfg.adoptWithin())
	if !t.machines.Surveyed() && !late {
		return
	}
	if t.cfg.Past.Finished {
		t.adopting = nil
		t.recordTakeOver("the controller was restarted; the model is saved, and only machines were to be ended")
		t.Outcome = "finished"
		t.End("the run is over")
		return
	}
	expected := t.Nodes.ordered(func(m *Node) bool { return m.Member() })
	for _, m := range expected {
		if _, told := a.stocks[m.ID]; told {
			continue
		}
		if !late || m.Address != "" && !t.Awake.Over(m.Heard, t.cfg.DeadAfter) {
			return
		}
	}
	for _, m := range expected {
		if _, told := a.stocks[m.ID]; !told {
			t.machines.GiveUp(m.Machine, "the machine did not reconnect to the restarted controller")
		}
	}
	t.takeOverRun()
}

// takeOverRun decides how training continues.
func (t *Training) takeOverRun() {
	f := t.adopting.putTogether(t)
	if f.again && f.members > 0 && t.adopting.asked < maxAsked {
		t.adopting.asked++
		t.adopting.confirmed = true
		for _, m := range t.Nodes.reachable() {
			delete(t.adopting.stocks, m.ID)
			t.Nodes.send(m.ID, tiers.TakeStock{})
		}
		return
	}
	t.adopting = nil
	t.machines.TakenOver()
	switch {
	case !t.Layout.Stood:
		t.recordTakeOver("the controller was restarted; training had not begun")
	case f.members == 0:
		t.recordTakeOver("the controller was restarted; no machine of the run is left")
		t.startOver("no machine of the run is left")
	case f.doubt != "":
		t.recordTakeOver("the controller was restarted")
		t.Layout.Route = f.route
		t.startRecovery("the controller was restarted, and " + f.doubt)
	default:
		f.goOn(t)
	}
}

func (a *adoption) putTogether(t *Training) *survey {
	f := &survey{splits: make([]splitState, len(t.Layout.Splits)), marks: make([]ps.Clock, len(t.Layout.Splits))}
	f.route.Owner = make([]ps.ServerID, len(t.Layout.Route.Owner))
	f.route.Backup = make([]ps.ServerID, len(t.Layout.Route.Backup))
	highest := slices.Clone(f.marks)
	for i := range f.marks {
		f.marks[i] = ps.Unbounded
	}
	for _, m := range t.Nodes.Members() {
		stock := t.adopting.stocks[m.ID]
		f.members++
		if stock.Suspended || stock.Generation != t.Layout.Generation {
			f.doubts(false, "machine %s is in generation %d", m.ID, stock.Generation)
		}
		t.Layout.Generation = max(t.Layout.Generation, stock.Generation)
		f.route.Version = max(f.route.Version, stock.Version)
		f.readServed(t, m, stock, highest)
		f.readWork(m, stock)
	}
	f.route.Version++
	for p := range f.route.Owner {
		if f.route.Owner[p] == "" {
			f.doubts(true, "no machine owns partition %d", p)
			f.route.Owner[p] = f.route.Backup[p]
		}
		if f.route.Backup[p] == "" {
			f.doubts(false, "no machine backs up partition %d", p)
		}
	}
	f.readUnclaimed(t, highest)
	slices.Sort(f.strays)
	f.strays = slices.Compact(f.strays)
	return f
}

// readServed records what a machine owns and backs up.
func (f *survey) readServed(t *Training, m *Node, stock tiers.Stock, highest []ps.Clock) {
	stray := func(cut ps.Clock) {
		if cut > t.Cuts.Committed {
			f.strays = append(f.strays, cut)
		}
	}
	stray(stock.Named)
	for _, o := range stock.Owned {
		if f.route.Owner[o.Partition] != "" {
			f.doubts(true, "partition %d has two owners", o.Partition)
		}
		f.route.Owner[o.Partition] = m.ID
		if o.Base > t.Cuts.Committed {
			f.doubts(false, "partition %d is beyond the committed cut", o.Partition)
		}
		f.behind = f.behind || o.Base < t.Cuts.Committed
		for split, mark := range o.Marks {
			f.marks[split], highest[split] = min(f.marks[split], mark), max(highest[split], mark)
		}
	}
	for _, b := range stock.Backups {
		if !hasCut(b, t.Cuts.Committed) {
			continue
		}
		f.route.Backup[b.Partition] = m.ID
		f.behind = f.behind || b.Cut != t.Cuts.Committed
		stray(b.Delivered)
	}
}

// readWork records what a machine works on.
func (f *survey) readWork(m *Node, stock tiers.Stock) {
	for _, s := range stock.Splits {
		if f.splits[s.Split].Holder != "" {
			f.doubts(true, "two machines work on split %d", s.Split)
		}
		f.splits[s.Split] = splitState{Holder: m.ID, next: s.Clock}
	}
}

// readUnclaimed examines splits without a worker: they were changing hands, or their worker is lost. A lost worker's work in flight is
// unknown. Otherwise no worker adds to them any more, and the owners' marks show their progress, if the owners answered after all machines
// had reported that they do not work on them.
func (f *survey) readUnclaimed(t *Training, highest []ps.Clock) {
	for i := range f.splits {
		if f.splits[i].Holder != "" {
			continue
		}
		switch {
		case t.adopting.missing(t):
			f.doubts(false, "split %d was lost with its worker", i)
		case !t.adopting.confirmed:
			f.doubts(true, "split %d changes hands", i)
		case f.marks[i] != highest[i]:
			f.doubts(false, "split %d has done clock %d at some owners only", i, highest[i])
		}
		f.splits[i].next = highest[i] + 1
	}
}

// missing reports whether a machine that took part may still do something, or was not known to be lost before.
func (a *adoption) missing(t *Training) bool {
	return slices.ContainsFunc(t.Nodes.Roster, func(m *Node) bool {
		return m.Joined > 0 && m.Lost && (!m.Ended || slices.Contains(a.members, m.ID))
	})
}

// goOn adopts the state as the machines report it: nothing is repeated.
func (f *survey) goOn(t *Training) {
	t.Layout.Route = f.route
	for i, s := range f.splits {
		t.Layout.hand(ps.Split(i), s.Holder)
		t.Layout.Splits[i].next = s.next
		t.Clocks.reached(ps.Split(i), f.marks[i])
	}
	target := tiers.Layout{Stage: t.Layout.Stage, Route: t.Layout.cloneRoute(), Worker: make([]ps.ServerID, len(t.Layout.Splits))}
	for i, s := range f.splits {
		target.Worker[i] = s.Holder
	}
	t.Layout.setTarget(target)
	t.Cuts.Due = t.Now.Add(t.cfg.CutEvery)
	t.Clocks.since = t.Now
	t.recordTakeOver("the controller was restarted; training continued, and no clock is repeated")
	for _, m := range t.Nodes.reachable() {
		if f.behind {
			t.Nodes.send(m.ID, tiers.CommitCut{Cut: t.Cuts.Committed})
		}
		for _, cut := range f.strays {
			t.Nodes.send(m.ID, tiers.UnnameCut{Cut: cut})
			t.Cuts.unnamed = true
		}
	}
	t.Layout.broadcast()
	unparkAll(t, every) // a halt may have been in progress
	t.Cuts.checkClock()
	t.layOut()
}

func (t *Training) recordTakeOver(why string) {
	t.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.TakeOver, Count: len(t.Nodes.Members()), Clock: int64(t.Clocks.Done),
			Generation: uint64(t.Layout.Generation), Why: why}
	})
}
