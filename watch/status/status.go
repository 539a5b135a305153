// Package status computes the state of a run from its journal so far: machines, stage, clock, losses, money, the last events in words.
// Console, dashboard and metrics all use it, so that they agree.
//
// It is a plain value: no clock, no file, no screen.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tuner"
)

// keepEvents and keepLosses bound the history for the screen.
const (
	keepEvents = 50
	keepLosses = 400
)

// Status is the state according to the entries so far. The fields are read-only outside Feed. It is not safe for concurrent use.
type Status struct {
	Start   journal.StartDetails
	Mapping clock.Mapping
	Began   time.Time // market time of the first entry
	Now     time.Time // and of the last
	Started time.Time // of the first one, in wall-clock time
	Ledger  cost.Ledger

	Prices  map[string]string // pool -> US dollars an hour
	Stage   string
	Clock   int64 // of the model; falls at a roll-back
	LastCut int64
	// ClocksDone counts clock entries, including repeated clocks.
	ClocksDone  int64
	Seconds     float64 // of the last clock, in wall-clock time
	Train, Test *float64
	Tests       []float64
	Outcome     string       // empty until the last line
	Why         string       // and its reason; before it, why the run is paused
	rests       bool         // a person or a scheduler has paused it
	Recent      []words.Line // the last events, oldest first

	reached  tuner.Progress
	marks    marks
	tasks    tasks
	planned  journal.PlanDetails
	lacks    string // why it has no machine
	ranks    ranks
	broken   error // why the ledger can no longer determine costs
	machines map[string]*machine
	grouper  words.Grouper
}

// machine is one that has not ended.
type machine struct {
	tier, pool, bid string
	state           state
}

type state int

const (
	starting state = iota
	joined
	leaving // warned, or out of training and not ended yet
)

// New returns an empty status.
func New() *Status {
	return &Status{Mapping: clock.Real(), machines: map[string]*machine{}, Prices: map[string]string{}}
}

// Feed processes an entry and returns the lines that are now complete.
func (s *Status) Feed(e journal.Entry) []words.Line {
	if s.Began.IsZero() {
		s.Began = e.T
	}
	if e.T.After(s.Now) {
		s.Now = e.T
	}
	if s.broken == nil {
		s.broken = s.Ledger.Add(e)
	}
	switch e.Kind {
	case journal.Start:
		s.begin(e)
	case journal.Plan:
		s.planned, _ = e.PlanDetails() // an unreadable one has no ranges
		s.lack(e)
	case journal.LaunchFailed:
		s.lack(e)
	case journal.Price:
		s.Prices[e.Pool] = e.USD
	case journal.Stage:
		s.Stage = e.To
	case journal.Cut:
		s.LastCut = e.Clock
	case journal.Rollback:
		s.Clock = e.Clock
	case journal.ClockDone:
		s.clockDone(e)
	case journal.Export:
		if e.TestLoss != nil { // that of the result itself, as in reports
			s.Test = e.TestLoss
		}
	case journal.ProgramStart, journal.ProgramStep, journal.ProgramEnd, journal.ProgramDropped:
		s.program(e)
	case journal.Done:
		s.Outcome, s.Why = e.Outcome, e.Why
	case journal.Budget:
		s.budget(e)
	case journal.Scale:
		s.scale(e)
	default:
		s.machineChange(e)
	}
	lines := s.grouper.Add(e)
	s.remember(lines)
	return lines
}

func (s *Status) begin(e journal.Entry) {
	d, err := e.StartDetails()
	if err != nil {
		return // the ledger has reported it
	}
	s.Start, s.Outcome, s.Why = d, "", ""
	if m, err := clock.Parse(d.Clock); err == nil {
		s.Mapping = m
	}
	if s.Started.IsZero() {
		s.Started = s.Mapping.WallAt(e.T).UTC()
	}
	s.grouper.Window = s.Mapping.ToMarket(time.Second)
}

func (s *Status) budget(e journal.Entry) {
	switch e.To {
	case journal.Paused:
		s.Why = "paused: " + e.Why
	case journal.GoesOn:
		s.Why = ""
	}
}

// scale handles requests of a person or a scheduler, which may pause or resume the run.
func (s *Status) scale(e journal.Entry) {
	d, err := e.ScaleDetails()
	switch {
	case err != nil || s.Outcome != "":
	case d.Paused != "":
		s.Why = "paused: " + d.Paused
	case s.rests:
		s.Why = ""
	}
	s.rests = d.Paused != ""
}

func (s *Status) clockDone(e journal.Entry) {
	s.Clock, s.Seconds = e.Clock, e.Seconds
	s.ClocksDone++
	s.marks.add(e.Clock, e.T)
	if e.TrainLoss != nil {
		s.Train = e.TrainLoss
	}
	if figure := e.TestLoss; figure != nil && !e.Redone {
		s.reached.Add(int(e.Clock), *figure)
	}
	if e.TestLoss != nil {
		s.Test = e.TestLoss
		s.Tests = append(s.Tests, *e.TestLoss)
		if len(s.Tests) > keepLosses {
			s.Tests = slices.Delete(s.Tests, 0, len(s.Tests)-keepLosses)
		}
	}
}

// program counts finished tasks, or follows the program's steps.
func (s *Status) program(e journal.Entry) {
	s.ranks.take(e)
	if e.TrainLoss != nil {
		s.Train = e.TrainLoss
	}
	switch d := s.Start.Program; {
	case d == nil:
	case d.Tasks > 0:
		s.tasks.take(e)
		if e.Kind == journal.ProgramEnd && e.Outcome == journal.Finished || e.Kind == journal.ProgramDropped {
			s.Clock++
		}
	case e.Clock > 0:
		s.Clock = e.Clock
	}
	if e.Kind == journal.ProgramStep {
		s.ClocksDone++
	}
	s.marks.add(s.Clock, e.T)
}

// Unit returns the unit in which the run counts.
func (s *Status) Unit() string { return journal.Unit(s.Start.JobKind()) }

func (s *Status) machineChange(e journal.Entry) {
	if e.Kind == journal.Launch {
		s.lack(e)
		m := &machine{tier: e.Tier, pool: e.Pool, bid: e.Bid}
		if m.bid == "0" {
			m.bid = "" // on demand
		}
		s.machines[e.Instance] = m
		return
	}
	m, ok := s.machines[e.Instance]
	if !ok {
		return
	}
	switch e.Kind {
	case journal.Join:
		if m.state == starting {
			m.state = joined
		}
	case journal.Notice:
		if e.Deadline != nil {
			m.state = leaving
		}
	case journal.Failed:
		if m.state = leaving; e.Ended != nil {
			delete(s.machines, e.Instance)
		}
	case journal.Leave:
		m.state = leaving
	case journal.Evicted, journal.Terminated:
		delete(s.machines, e.Instance)
	}
}

func (s *Status) remember(lines []words.Line) {
	s.Recent = append(s.Recent, lines...)
	if len(s.Recent) > keepEvents {
		s.Recent = slices.Delete(s.Recent, 0, len(s.Recent)-keepEvents)
	}
}

// Flush completes the lines that wait for more of their kind, and returns them.
func (s *Status) Flush() []words.Line {
	lines := s.grouper.Flush()
	s.remember(lines)
	return lines
}

// Events returns the last n lines, including those of unfinished groups.
func (s *Status) Events(n int) []words.Line {
	all := slices.Concat(s.Recent, s.grouper.Open())
	return all[max(0, len(all)-n):]
}

// Group is the machines of a pool that were bought alike.
type Group struct {
	Tier, Pool, Bid, Price    string // Bid is empty on demand; Price is the present one
	Joined, Starting, Leaving int
}

// Groups are in the order of tier (reliable first) and pool.
func (s *Status) Groups() []Group {
	rows := map[[3]string]*Group{}
	for _, m := range s.machines {
		key := [3]string{m.tier, m.pool, m.bid}
		g, ok := rows[key]
		if !ok {
			g = &Group{Tier: m.tier, Pool: m.pool, Bid: m.bid, Price: s.price(m.pool)}
			rows[key] = g
		}
		switch m.state {
		case starting:
			g.Starting++
		case joined:
			g.Joined++
		case leaving:
			g.Leaving++
		}
	}
	var out []Group
	for _, g := range rows {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Bid, b.Bid))
	})
	return out
}

// Machine is a machine that has not ended.
type Machine struct {
	ID, Tier, Pool, Price string // Price is the present one, empty if unknown
	Leaving               bool
}

// Machines are in the order of tier (reliable first), pool and id.
func (s *Status) Machines() (all []Machine) {
	for id, m := range s.machines {
		all = append(all, Machine{ID: id, Tier: m.tier, Pool: m.pool, Price: s.price(m.pool), Leaving: m.state == leaving})
	}
	slices.SortFunc(all, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// price returns the present hourly price of a machine of the pool.
func (s *Status) price(pool string) string {
	if p, ok := s.Prices[pool]; ok {
		return p
	}
	if p, err := market.ParsePool(pool); err == nil && p.Class == market.OnDemand {
		for _, t := range s.Start.Machines {
			if t.Name == p.Type {
				return t.OnDemand
			}
		}
	}
	return ""
}

// Counts of machines that take part.
func (s *Status) Counts() (transient, reliable int) {
	for _, m := range s.machines {
		switch {
		case m.state != joined:
		case m.tier == "reliable":
			reliable++
		default:
			transient++
		}
	}
	return transient, reliable
}

// ClockText returns the progress of training, in one line.
func (s *Status) ClockText() string {
	transient, reliable := s.Counts()
	text := fmt.Sprintf("%s %d", s.Unit(), s.Clock)
	if s.Start.Clocks > 0 {
		text += fmt.Sprintf("/%d", s.Start.Clocks)
	}
	if s.Train != nil {
		text += fmt.Sprintf(": train %.4f", *s.Train)
	}
	if s.Test != nil {
		text += fmt.Sprintf(", test %.4f", *s.Test)
	}
	if s.Start.Program == nil {
		text += fmt.Sprintf(", %.2f s/clock", s.Seconds)
	} else {
		text += fmt.Sprintf(", %d %s", transient+reliable, map[bool]string{true: "machine", false: "machines"}[transient+reliable == 1])
	}
	if s.Stage != "" {
		text += fmt.Sprintf(", stage %s with %d transient and %d reliable", s.Stage, transient, reliable)
	}
	if spent, ok := s.Spent(s.Now); ok {
		text += fmt.Sprintf(", %s spent", spent.Cents())
	}
	return text
}

// Left estimates the remaining clocks to the job's target, from its test losses so far; false for a job without one, and while little is
// known. No estimate exceeds the job's clocks.
func (s *Status) Left() (e tuner.Estimate, ok bool) {
	if s.Outcome != "" {
		return e, false
	}
	if e, ok = s.reached.Left(s.Start.TargetLoss); ok && s.Start.Clocks > 0 {
		most := float64(max(s.Start.Clocks-s.Clock, 0))
		e.Low, e.Likely, e.High = min(e.Low, most), min(e.Likely, most), min(e.High, most)
	}
	return e, ok
}

// LeftText formats it, with the record of such estimates; empty if there is none.
func (s *Status) LeftText() string {
	e, ok := s.Left()
	if !ok {
		return ""
	}
	text := fmt.Sprintf("%.0f to %.0f clocks to %s %g", e.Low, e.High, cmp.Or(s.Start.Metric, "loss"), s.Start.TargetLoss)
	if e.Tries > 0 {
		text += fmt.Sprintf(", by estimates of which %d of %d held", e.Held, e.Tries)
	}
	return text
}

// Spent returns the cost at a market time; false if the journal lacks it.
func (s *Status) Spent(now time.Time) (market.USD, bool) {
	spent, err := s.Ledger.Spent(now)
	return spent, err == nil && s.broken == nil
}

// Saved returns the saving at a market time; false if the journal lacks it, and while no work of a running run counts: everything paid so
// far would look lost.
func (s *Status) Saved(now time.Time) (market.USD, bool) {
	saved, err := s.Ledger.Saved(now)
	return saved, err == nil && s.broken == nil
}
