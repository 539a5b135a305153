package console

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
)

// keepEvents and keepLosses bound what is remembered for the screen.
const (
	keepEvents = 50
	keepLosses = 400
)

// status is what the entries so far say. It is a plain value: no clock, no screen.
type status struct {
	start   journal.StartDetails
	mapping clock.Mapping
	now     time.Time // market time of the last entry
	ledger  cost.Ledger
	broken  error // why the ledger can say nothing about money any more

	machines map[string]*machine
	prices   map[string]string // pool -> price
	stage    string
	clock    int64 // the model's; falls at a roll-back
	// clocksDone counts clock entries, also of clocks done again.
	clocksDone  int64
	seconds     float64 // of the last clock
	train, test *float64
	tests       []float64
	lastCut     int64
	outcome     string

	grouper words.Grouper
	recent  []words.Line // the last events, oldest first
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

func newStatus() status {
	return status{mapping: clock.Real(), machines: map[string]*machine{}, prices: map[string]string{}}
}

// feed takes an entry in and gives the lines that are complete now.
func (s *status) feed(e journal.Entry) []words.Line {
	if e.T.After(s.now) {
		s.now = e.T
	}
	if s.broken == nil {
		s.broken = s.ledger.Add(e)
	}
	switch e.Kind {
	case journal.Start:
		s.begin(e)
	case journal.Price:
		s.prices[e.Pool] = e.USD
	case journal.Stage:
		s.stage = e.To
	case journal.Cut:
		s.lastCut = e.Clock
	case journal.Rollback:
		s.clock = e.Clock
	case journal.ClockDone:
		s.clockDone(e)
	case journal.Done:
		s.outcome = e.Outcome
	default:
		s.machineChange(e)
	}
	lines := s.grouper.Add(e)
	s.remember(lines)
	return lines
}

func (s *status) begin(e journal.Entry) {
	d, err := e.StartDetails()
	if err != nil {
		return // the ledger has said so
	}
	s.start, s.outcome = d, ""
	if m, err := clock.Parse(d.Clock); err == nil {
		s.mapping = m
	}
	s.grouper.Window = s.mapping.ToMarket(time.Second)
}

func (s *status) clockDone(e journal.Entry) {
	s.clock, s.seconds = e.Clock, e.Seconds
	s.clocksDone++
	if e.TrainLoss != nil {
		s.train = e.TrainLoss
	}
	if e.TestLoss != nil {
		s.test = e.TestLoss
		s.tests = append(s.tests, *e.TestLoss)
		if len(s.tests) > keepLosses {
			s.tests = slices.Delete(s.tests, 0, len(s.tests)-keepLosses)
		}
	}
}

func (s *status) machineChange(e journal.Entry) {
	if e.Kind == journal.Launch {
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

func (s *status) remember(lines []words.Line) {
	s.recent = append(s.recent, lines...)
	if len(s.recent) > keepEvents {
		s.recent = slices.Delete(s.recent, 0, len(s.recent)-keepEvents)
	}
}

func (s *status) flush() []words.Line {
	lines := s.grouper.Flush()
	s.remember(lines)
	return lines
}

// events are the last n lines, those of groups that are still open among them.
func (s *status) events(n int) []words.Line {
	all := slices.Concat(s.recent, s.grouper.Open())
	return all[max(0, len(all)-n):]
}

// group is the machines of a pool.
type group struct {
	tier, pool, bid, price          string
	taking, startingUp, leavingSoon int
}

// groups are in the order of tier (reliable first) and pool.
func (s *status) groups() []group {
	rows := map[[3]string]*group{}
	for _, m := range s.machines {
		key := [3]string{m.tier, m.pool, m.bid}
		g, ok := rows[key]
		if !ok {
			g = &group{tier: m.tier, pool: m.pool, bid: m.bid, price: s.price(m.pool)}
			rows[key] = g
		}
		switch m.state {
		case starting:
			g.startingUp++
		case joined:
			g.taking++
		case leaving:
			g.leavingSoon++
		}
	}
	var out []group
	for _, g := range rows {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.pool, b.pool), cmp.Compare(a.bid, b.bid))
	})
	return out
}

// price is what a machine of the pool costs per hour now.
func (s *status) price(pool string) string {
	if p, ok := s.prices[pool]; ok {
		return p
	}
	if p, err := market.ParsePool(pool); err == nil && p.Class == market.OnDemand {
		for _, t := range s.start.Machines {
			if t.Name == p.Type {
				return t.OnDemand
			}
		}
	}
	return ""
}

// counts of machines that take part.
func (s *status) counts() (transient, reliable int) {
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

// clockText says how training gets on, in a line.
func (s *status) clockText() string {
	transient, reliable := s.counts()
	text := fmt.Sprintf("clock %d", s.clock)
	if s.start.Clocks > 0 {
		text += fmt.Sprintf("/%d", s.start.Clocks)
	}
	if s.train != nil {
		text += fmt.Sprintf(": train %.4f", *s.train)
	}
	if s.test != nil {
		text += fmt.Sprintf(", test %.4f", *s.test)
	}
	text += fmt.Sprintf(", %.2f s/clock", s.seconds)
	if s.stage != "" {
		text += fmt.Sprintf(", stage %s with %d transient and %d reliable", s.stage, transient, reliable)
	}
	if spent, _, ok := s.money(s.now); ok {
		text += fmt.Sprintf(", %s spent", spent.Cents())
	}
	return text
}

// money is what is due and what was saved at a market time; false when the journal does not tell.
func (s *status) money(now time.Time) (spent, saved market.USD, ok bool) {
	if s.broken != nil {
		return 0, 0, false
	}
	spent, err := s.ledger.Spent(now)
	if err != nil {
		return 0, 0, false
	}
	saved, err = s.ledger.Saved(now)
	return spent, saved, err == nil
}
