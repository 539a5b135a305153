// Package cost computes what a run cost, what it would have cost on demand, and where
// the difference went. A Ledger is fed with the entries of a journal in order and derives everything from
// them, by the market's rule book that the journal names; so the same code reports on a real run, a run on
// one machine and a simulated one, finished or killed.
//
// It knows nothing about the journal's place and writer, or about screens: Report is plain data,
// WriteText a plain rendering of it, and cost/page makes a web page of it.
package cost

import (
	"errors"
	"fmt"
	"time"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/market"
)

// Ledger accumulates a run's journal. Its zero value is empty and ready for the `start` line. It is not safe for concurrent use.
//
// Invariant: it depends only on the entries in their order. So the same lines give the same report during a run, at its end and years
// later, for real and simulated runs.
//
// `charge` lines are not trusted: Report computes each machine's bill again from its life and its pool's prices, and warns when the sums of
// a finished run differ. Only in a `billed` run the lines are the bills.
type Ledger struct {
	started bool
	resumed []time.Time
	start   journal.StartDetails
	clock   clock.Mapping
	rules   market.RuleBook
	types   map[string]machineType
	plan    *journal.PlanDetails

	first, last time.Time
	machines    map[string]*machine
	order       []*machine // as launched
	prices      priceBook
	training    training
	programs    running
	stages      []stageChange
	tuning      []TuneStep
	profile     *journal.Entry // the last one
	export      *journal.Entry // the last one that saved a model
	done        *journal.Entry

	charged    market.USD // by the `charge` lines
	hasCharges bool
	decisions  []Decision
	lines      words.Grouper
	events     []words.Line
	warnings   []string
}

// machineType is journal.MachineType with its price as a number.
type machineType struct {
	journal.MachineType
	price market.USD
}

type stageChange struct {
	at  time.Time
	to  string
	why string
}

// Add processes the next entry. After an error, which names the entry's fault, the ledger is unchanged.
func (l *Ledger) Add(e journal.Entry) error {
	if err := l.add(e); err != nil {
		return fmt.Errorf("%q entry of %s: %w", e.Kind, e.T.Format(time.RFC3339), err)
	}
	if l.first.IsZero() {
		l.first = e.T
	}
	if e.T.After(l.last) {
		l.last = e.T
	}
	l.events = append(l.events, l.lines.Add(e)...)
	return nil
}

func (l *Ledger) add(e journal.Entry) error {
	if !l.started && e.Kind != journal.Start {
		return errors.New("a journal begins with a \"start\" entry")
	}
	switch e.Kind {
	case journal.Start:
		return l.addStart(e)
	case journal.Plan:
		return l.addPlan(e)
	case journal.Intent:
		l.decide(e)
	case journal.Price:
		return l.addPrice(e)
	case journal.Launch:
		return l.addLaunch(e)
	case journal.Notice, journal.Evicted, journal.Failed, journal.Terminated, journal.Join, journal.Leave:
		l.addToMachine(e)
	case journal.Stage:
		l.stages = append(l.stages, stageChange{at: e.T, to: e.To, why: e.Why})
	case journal.Tune:
		return l.addTuning(e)
	case journal.Profile:
		if _, err := e.ProfileDetails(); err != nil {
			return err
		}
		profile := e
		l.profile = &profile
	case journal.Rollback:
		l.training.rollback(e)
	case journal.ClockDone:
		l.training.clock(e)
	case journal.ProgramStart, journal.ProgramStep, journal.ProgramSaved, journal.ProgramEnd, journal.ProgramDropped:
		l.addProgram(e)
	case journal.Use:
		if m := l.machines[e.Instance]; m != nil && e.Seconds > 0 {
			m.used.add(e)
		}
	case journal.Charge:
		return l.addCharge(e)
	case journal.Export:
		if e.Model != "" {
			export := e
			l.export = &export
		}
	case journal.Done:
		done := e
		l.done = &done
	}
	return nil
}

func (l *Ledger) addTuning(e journal.Entry) error {
	d, err := e.TuneDetails()
	if err != nil {
		return err
	}
	step := TuneStep{At: e.T, Clock: e.Clock, Step: d.Step, Setting: d.Setting}
	if s := d.Sample; s != nil {
		step.Pace, step.Default, step.Expected, step.Real = s.Pace, s.Default, s.Expected, s.Real
	}
	l.tuning = append(l.tuning, step)
	return nil
}

// addStart reads the basis of the whole run. A resumed run starts again; its clock mapping is then a new one, but it is billed by the same
// rules.
func (l *Ledger) addStart(e journal.Entry) error {
	d, err := e.StartDetails()
	if err != nil {
		return err
	}
	rules, err := market.Rules(d.Rules)
	if err != nil {
		return err
	}
	if l.started && rules.Name() != l.rules.Name() {
		return fmt.Errorf("the run began under the rules %q and cannot go on under %q", l.rules.Name(), d.Rules)
	}
	mapping, err := clock.Parse(d.Clock)
	if err != nil {
		return err
	}
	types := map[string]machineType{}
	for _, m := range d.Machines {
		price, err := market.ParseUSD(m.OnDemand)
		if err != nil {
			return fmt.Errorf("on-demand price of %s: %w", m.Name, err)
		}
		types[m.Name] = machineType{m, price}
	}
	if l.started {
		l.resumed = append(l.resumed, e.T)
	}
	l.started, l.start, l.clock, l.rules, l.types, l.done = true, d, mapping, rules, types, nil
	if l.machines == nil {
		l.machines, l.prices = map[string]*machine{}, priceBook{}
		l.lines.Window = time.Duration(float64(time.Second) * mapping.Speed)
	}
	return nil
}

func (l *Ledger) addPlan(e journal.Entry) error {
	d, err := e.PlanDetails()
	if err != nil {
		return err
	}
	l.plan = &d
	l.decide(e)
	return nil
}

func (l *Ledger) addPrice(e journal.Entry) error {
	pool, err := market.ParsePool(e.Pool)
	if err != nil {
		return err
	}
	price, err := market.ParseUSD(e.USD)
	if err != nil {
		return err
	}
	at := e.T
	if e.At != nil {
		at = *e.At
	}
	l.prices.add(pool, market.PricePoint{At: at, Price: price})
	return nil
}

func (l *Ledger) addCharge(e journal.Entry) error {
	amount, err := market.ParseUSD(e.USD)
	if err != nil {
		return err
	}
	l.charged += amount
	l.hasCharges = true
	m := l.machines[e.Instance]
	if !l.start.Billed || m == nil {
		return nil
	}
	from, bad := time.Parse(time.RFC3339, e.From)
	to, badTo := time.Parse(time.RFC3339, e.To)
	if err := errors.Join(bad, badTo); err != nil {
		return err
	}
	m.billed = append(m.billed, market.Charge{From: from, To: to, Amount: amount, Note: e.Why})
	m.settled = settled{}
	return nil
}

func (l *Ledger) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// Finished reports whether the journal has its `done` line: all machines have ended, and their ends are known.
func (l *Ledger) Finished() bool { return l.done != nil }

// AsOf returns the latest time that the journal knows: its last entry, or a machine's end if that is later.
func (l *Ledger) AsOf() time.Time {
	last := l.last
	for _, m := range l.order {
		if m.usage.End.After(last) {
			last = m.usage.End
		}
	}
	return last
}

// Spent returns the sum due at a time, by the entries so far.
func (l *Ledger) Spent(asOf time.Time) (market.USD, error) {
	var sum market.USD
	for _, m := range l.order {
		due, err := l.due(m, asOf)
		if err != nil {
			return 0, err
		}
		sum += due
	}
	return sum, nil
}

// Saved returns the on-demand cost of the work done, minus the money spent.
func (l *Ledger) Saved(asOf time.Time) (market.USD, error) {
	spent, err := l.Spent(asOf)
	if err != nil {
		return 0, err
	}
	equivalent, ok := l.equivalent()
	if !ok {
		return 0, errors.New("the journal names no on-demand fleet to compare with")
	}
	if equivalent.USD == 0 && !l.Finished() {
		return 0, errors.New("no work counts yet")
	}
	return equivalent.USD - spent, nil
}

// Rate returns the hourly cost of the machines that run at a time, at the prices of that time.
func (l *Ledger) Rate(at time.Time) market.USD {
	var sum market.USD
	for _, m := range l.order {
		if m.usage.Start.After(at) || m.ended() && !m.usage.End.After(at) {
			continue
		}
		if price, ok := l.history(m.usage.Pool).At(at); ok {
			if bid := m.usage.Bid; bid > 0 {
				price = min(price, bid)
			}
			sum += price
		}
	}
	return sum
}

// due returns what a machine owes. A live view asks often: for a machine that has ended the answer is cached until its end or the prices of
// its pool change.
func (l *Ledger) due(m *machine, asOf time.Time) (market.USD, error) {
	final := m.ended() && !m.usage.End.After(asOf)
	version := settled{end: m.usage.End, by: m.usage.EndedBy, prices: l.prices.len(m.usage.Pool)}
	if final && m.settled == version {
		return m.owes, nil
	}
	charges, err := l.charges(m, asOf)
	if err != nil {
		return 0, err
	}
	sum := market.Total(charges)
	if final {
		m.settled, m.owes = version, sum
	}
	return sum, nil
}

// Charges returns what a machine owes until a time, and its pool; nothing for one that the journal does not mention.
func (l *Ledger) Charges(id string, asOf time.Time) (market.Pool, []market.Charge, error) {
	m := l.machines[id]
	if m == nil {
		return market.Pool{}, nil, nil
	}
	charges, err := l.charges(m, asOf)
	return m.usage.Pool, charges, err
}

// charges returns a machine's bill; nothing before it is launched.
func (l *Ledger) charges(m *machine, asOf time.Time) ([]market.Charge, error) {
	if m.usage.Start.After(asOf) {
		return nil, nil
	}
	if m.billed != nil && !m.usage.End.After(asOf) {
		return m.billed, nil
	}
	charges, err := l.rules.Charges(m.usage, l.history(m.usage.Pool), asOf)
	if err != nil {
		return nil, fmt.Errorf("the bill of %s: %w", m.id, err)
	}
	return charges, nil
}

// Rules returns the rule book that bills; nil before the first entry.
func (l *Ledger) Rules() market.RuleBook { return l.rules }

// History returns a pool's price in the journal; nil, which knows nothing, for a pool that it does not
// mention.
func (l *Ledger) History(pool market.Pool) *market.History { return l.history(pool) }

// history returns a pool's price. An on-demand pool's is constant.
func (l *Ledger) history(pool market.Pool) *market.History {
	if pool.Class == market.OnDemand {
		if t, ok := l.types[pool.Type]; ok {
			return market.Constant(t.price)
		}
		return nil
	}
	return l.prices.history(pool)
}
