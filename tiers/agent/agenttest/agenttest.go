// Package agenttest is the exam of all implementations of a node: a sequence of commands, and the required answers, with the rules of the
// training runtime (docs/training.md) behind them. One node has a job to itself, so that nothing depends on the order between machines. It
// knows no network, and not how long anything takes.
package agenttest

import (
	"reflect"
	"testing"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Node takes the exam. It has called its controller and was not welcomed yet.
type Node interface {
	// Do sends a command and returns the answer, once it has arrived.
	Do(do tiers.Do) tiers.Answer
	// Rest waits until a clock has counted, after which nothing follows.
	Rest(clock ps.Clock)
	// Held waits until the node has reported that its backups hold a cut.
	Held(cut ps.Clock)
}

// Stepped is a Node that advances in steps of its own world.
type Stepped struct {
	Take  func(tiers.Command)
	Step  func() bool // false: nothing more can happen
	Rests func(ps.Clock) bool
	Holds func(ps.Clock) bool

	t      *testing.T
	id     uint64
	answer tiers.Answer
}

// Report receives its agent's reports.
func (s *Stepped) Report(r tiers.Report) {
	if a, ok := r.(tiers.Answer); ok {
		s.answer = a
	}
}

func (s *Stepped) Do(do tiers.Do) tiers.Answer {
	s.id++
	s.Take(tiers.Command{ID: s.id, Do: do})
	s.until(func() bool { return s.answer.ID == s.id })
	return s.answer
}

func (s *Stepped) Rest(c ps.Clock) { s.until(func() bool { return s.Rests(c) }) }

func (s *Stepped) Held(c ps.Clock) { s.until(func() bool { return s.Holds(c) }) }

func (s *Stepped) until(so func() bool) {
	for !so() {
		if !s.Step() {
			s.t.Fatal("waited in vain")
		}
	}
}

// Setup is what the exam needs to know about a job of one node.
type Setup struct {
	Welcome tiers.Welcome // of incarnation 1 and generation 0; no Until yet
	Self    ps.ServerID
	Address string // of the node's data plane
}

// step is a command and its expected effect.
type step struct {
	rule string
	do   tiers.Do
	code tiers.Code
	want tiers.Result // nil: there is none, or it does not matter
	rest ps.Clock     // then the node works until this clock; 0 = it does not
	held ps.Clock     // and reports this cut
}

const last = 9 // the job's last clock

// Run runs the exam.
func Run(t *testing.T, j Setup, n Node) {
	t.Helper()
	if s, ok := n.(*Stepped); ok {
		s.t = t
	}
	for i, s := range j.steps() {
		a := n.Do(s.do)
		if a.Code != s.code || s.want != nil && !reflect.DeepEqual(plain(a.Result), s.want) {
			t.Fatalf("step %d, %T %+v: code %q (%s), result %+v; want %q, %+v\nrule: %s", i, s.do, s.do, a.Code, a.Error, a.Result, s.code, s.want, s.rule)
		}
		if s.rest > 0 {
			n.Rest(s.rest)
		}
		if s.held > 0 {
			n.Held(s.held)
		}
	}
}

// plain removes what depends on the node's implementation: whether a committed cut still counts as delivered.
func plain(r tiers.Result) tiers.Result {
	if h, ok := r.(tiers.Holdings); ok {
		for i := range h.Backups {
			h.Backups[i].Delivered = 0
		}
		return h
	}
	return r
}

// upTo lists the first n.
func upTo[T ~uint32 | ~int](n int) (list []T) {
	for i := range n {
		list = append(list, T(i))
	}
	return list
}

func at(clock ps.Clock, splits []ps.Split) (list []tiers.SplitAt) {
	for _, s := range splits {
		list = append(list, tiers.SplitAt{Split: s, Clock: clock})
	}
	return list
}

// route assigns everything to this node.
func (j *Setup) route(version uint64) ps.Route {
	r := ps.Route{Version: version}
	for range j.Welcome.Schema.Partitions {
		r.Owner, r.Backup = append(r.Owner, j.Self), append(r.Backup, j.Self)
	}
	return r
}

func (j *Setup) steps() []step {
	welcome, other := j.Welcome, j.Welcome
	welcome.Until, other.Incarnation = last, welcome.Incarnation+1
	splits, partitions := upTo[ps.Split](welcome.Schema.Splits), upTo[ps.Partition](welcome.Schema.Partitions)
	first, others := splits[:2], splits[2:]
	peers := map[ps.ServerID]string{j.Self: j.Address}
	back := tiers.Recover{Generation: 1, Cut: 6, Route: j.route(1), Peers: peers, Splits: splits}
	old := back
	old.Generation = 0
	holdings, standings := tiers.Holdings{Owned: partitions, Undo: 6}, tiers.Standings{}
	for _, p := range partitions {
		holdings.Backups = append(holdings.Backups, tiers.BackupHolding{Partition: p, Cut: 6})
		marks := make([]ps.Clock, len(splits))
		for i := range marks {
			marks[i] = 5
		}
		standings.Partitions = append(standings.Partitions, tiers.Standing{Partition: p, Marks: marks})
	}
	failed := tiers.CodeFailed
	return []step{
		{rule: "a node has no part in a job before its Welcome", do: tiers.Park{}, code: failed},
		{rule: "a Welcome gives a process its incarnation", do: welcome},
		{rule: "incarnation: one life of one worker process", do: other, code: failed},
		{rule: "a controller that comes back adopts what runs", do: welcome},
		{rule: "a new machine loads its splits before it takes any over", do: tiers.Load{Splits: splits}},
		{rule: "a backup holds the last committed cut, at first the initial state", do: tiers.BackUp{Partitions: partitions}},
		{rule: "owner: the server that serves a partition now", do: tiers.Own{Partitions: partitions}},
		{rule: "a route says who serves", do: tiers.SetRoute{Route: j.route(1), Peers: peers}},

		// Work: completeness is counted in splits.
		{rule: "workers park at a clock", do: tiers.Unpark{Until: 3}},
		{rule: "the taker starts at the first clock that was not begun", do: tiers.Assign{Splits: at(1, splits)}, rest: 3},
		{rule: "a split is assigned to one worker, once", do: tiers.Assign{Splits: at(4, first)}, code: failed},
		{rule: "a final cut is named, at least the highest clock begun", do: tiers.Park{}, want: tiers.Parked{Begun: 3}},
		{rule: "the giver names the first clock that it has not begun", do: tiers.Release{Splits: first}, want: tiers.Released{Splits: at(4, first)}},
		{rule: "a split that is not here is no error: its Release came twice", do: tiers.Release{Splits: first[:1]}, want: tiers.Released{}},
		{rule: "splits come back from where they went", do: tiers.Assign{Splits: at(4, first)}},
		{rule: "workers go on once they may", do: tiers.Unpark{Until: 5}, rest: 5},
		{rule: "a worker without splits does nothing", do: tiers.Release{Splits: splits}, want: tiers.Released{Splits: at(6, splits)}},
		{rule: "a worker without splits does nothing", do: tiers.Unpark{Until: 8}},
		{rule: "each answer is of now", do: tiers.Park{}, want: tiers.Parked{Begun: 5}},
		{rule: "who is parked takes splits over", do: tiers.Assign{Splits: at(6, splits)}},
		{rule: "a move whose new owner is lost before FINAL leaves the old one as it was", do: tiers.MoveOut{Partition: partitions[0], To: "nobody", Address: "127.0.0.1:1"}, code: failed},
		{rule: "a move whose new owner is lost leaves the old one as it was, in a window as well", do: tiers.MoveOut{Partition: partitions[0], To: "nobody", Address: "127.0.0.1:1", Window: true}, code: failed},
		{rule: "a fault-in move whose new owner is lost leaves the old one as it was", do: tiers.MoveOut{Partition: partitions[0], To: "nobody", Address: "127.0.0.1:1", FaultIn: true}, code: failed},
		{rule: "moves are hurried, though there is none", do: tiers.HurryMoves{}},
		{rule: "who is parked begins nothing", do: tiers.Park{}, want: tiers.Parked{Begun: 5}},

		// Other workers: all or nothing, fenced on its own.
		{rule: "a given-up worker's incarnation is fenced; owners say how far the splits have come", do: tiers.FenceWorker{Incarnation: 7}, want: standings},
		{rule: "what it has staged is settled, also if it is nothing", do: tiers.SettleWorker{Incarnation: 7, Sequence: 1}},

		// Cuts.
		{rule: "if one owner is past the clock, a later one is named", do: tiers.NameCut{Cut: 4}, code: tiers.CodePassed},
		{rule: "a name is taken back", do: tiers.NameCut{Cut: 7}},
		{rule: "a name is taken back", do: tiers.UnnameCut{Cut: 7}},
		{rule: "the name counts when all owners have acknowledged", do: tiers.NameCut{Cut: 6}},
		{rule: "a cut is delivered when it is passed", do: tiers.Unpark{Until: 6}, rest: 6, held: 6},
		{rule: "owners drop older undo, and backups the older cut", do: tiers.CommitCut{Cut: 6}},
		{rule: "training goes on", do: tiers.Unpark{Until: 8}, rest: 8},

		// Failure of an owner.
		{rule: "the controller fences all servers; each answers which cuts it holds", do: tiers.FenceGeneration{Generation: 1}, want: holdings},
		{rule: "asking again is harmless", do: tiers.FenceGeneration{Generation: 1}, want: holdings},
		{rule: "the splits go back to the cut, whoever wanted them", do: tiers.Release{Splits: others}, code: failed},
		{rule: "survivors return to the cut, and workers restart at the clock after it", do: back, rest: last},
		{rule: "an older generation is refused", do: old, code: failed},
		{rule: "after the cut every clock counts once", do: tiers.Park{}, want: tiers.Parked{Begun: last}},
		{rule: "all splits stand at one clock", do: tiers.Release{Splits: splits}, want: tiers.Released{Splits: at(last+1, splits)}},
		{rule: "nothing is left", do: tiers.Release{Splits: splits}, want: tiers.Released{}},
	}
}
