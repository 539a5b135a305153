package fleet

import (
	"errors"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// ChargeWait returns how long, in market time, the end of a run waits for the last prices: two hours, or five minutes of wall-clock time on
// a faster replay, as providers refuse calls in wall-clock time. A run that ends without them reports which bills are not final.
func ChargeWait(s tempo.Settings) time.Duration {
	return max(2*time.Hour, s.Market(5*time.Minute))
}

// ChargeEntry returns the journal entry of one line of a machine's bill.
func ChargeEntry(instance string, pool market.Pool, line market.Charge) journal.Entry {
	return journal.Entry{
		Kind: journal.Charge, Instance: instance, Pool: pool.String(), USD: line.Amount.String(),
		From: line.From.UTC().Format(time.RFC3339), To: line.To.UTC().Format(time.RFC3339), Why: line.Note,
	}
}

// ErrNoPrices is why a machine has no final bill when a run ends.
var ErrNoPrices = errors.New("the provider has not reported all prices until its end; a report uses the last one")

// UnknownCharge returns the entry that explains why an ended machine has no bill.
func UnknownCharge(instance string, pool market.Pool, launched, ended time.Time, err error) journal.Entry {
	return journal.Entry{Kind: journal.Charge, Instance: instance, Pool: pool.String(), USD: "0",
		From: launched.UTC().Format(time.RFC3339), To: ended.UTC().Format(time.RFC3339),
		Why: unknownCharge + err.Error()}
}

const unknownCharge = "this machine's bill could not be computed: "

// unknownBill reports whether a journal entry records that there is no bill.
func unknownBill(e journal.Entry) bool { return strings.HasPrefix(e.Why, unknownCharge) }

// accounts are the bills.
type accounts struct {
	*step.Step
	cfg     *Config
	markets *markets
	roster  *roster
	Charged market.USD
	settled market.USD // by earlier controllers
	Moved   market.USD // part of Charged, for state fetched from another region

	groups  []alike
	fixed   market.USD
	grouped bool // groups and fixed match the present machines
}

// alike is a group of machines with identical bills.
type alike struct {
	first *Machine
	count int
	usage market.Usage
	past  *market.History
}

// group returns the machines without a final bill, and the cost of those that the provider has reported.
func (a *accounts) group() ([]alike, market.USD) {
	if a.grouped {
		return a.groups, a.fixed
	}
	a.grouped, a.groups, a.fixed = true, a.groups[:0], 0
	for _, m := range a.roster.List {
		switch u := m.usage(); {
		case m.Charged:
		case m.cost != nil:
			a.fixed += *m.cost
		case len(a.groups) > 0 && a.groups[len(a.groups)-1].usage == u: // machines that come and go together are adjacent
			a.groups[len(a.groups)-1].count++
		default:
			a.groups = append(a.groups, alike{m, 1, u, a.history(m)})
		}
	}
	return a.groups, a.fixed
}

// due returns what all machines will have cost at a time, if the running ones stay until then, as far as bills can be computed.
func (a *accounts) due(until time.Time) market.USD {
	groups, fixed := a.group()
	sum := a.settled + a.Charged + fixed
	for i := range groups {
		g := &groups[i]
		known := a.markets.known
		if g.usage.Pool.Class == market.OnDemand {
			known = a.Now
		}
		if due, err := market.Due(a.cfg.Rules, g.usage, g.past, until, known, &g.first.paid); err == nil {
			sum += market.USD(g.count) * due
		}
	}
	return sum
}

// begins returns when the next increment of a running machine begins after a time, under rule books with increments; zero = none.
func (a *accounts) begins(after time.Time) (next time.Time) {
	inc := a.cfg.Rules.Terms().Increment
	groups, _ := a.group()
	for i := range groups {
		m := groups[i].first
		if m.Ended || after.Before(m.Launched) {
			continue
		}
		if at := after.Add(inc - after.Sub(m.Launched)%inc); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// bill returns what a machine has cost so far.
func (a *accounts) bill(m *Machine) ([]market.Charge, error) {
	if m.cost != nil {
		return []market.Charge{{From: m.Launched, To: m.EndedAt, Amount: *m.cost, Note: "its share of a shared host"}}, nil
	}
	return a.cfg.Rules.Charges(m.usage(), a.history(m), a.Now)
}

// Due returns a machine's charges as of a time, and whether the prices that they depend on are known. They are none for a machine that has
// ended and whose prices are unknown.
func (a *accounts) Due(id step.ID, asOf time.Time) (charges []market.Charge, known bool) {
	m := a.roster.ByID[id]
	until := asOf
	if m.Ended {
		until = m.EndedAt
	}
	if m.Pool.Class == market.Spot && a.markets.known.Before(until) {
		return nil, false
	}
	charges, err := a.cfg.Rules.Charges(m.usage(), a.history(m), asOf)
	return charges, err == nil || m.Ended
}

// history returns the prices of a machine.
func (a *accounts) history(m *Machine) *market.History {
	if m.Pool.Class == market.OnDemand {
		return market.Constant(a.markets.typeOf(m.Pool).OnDemand)
	}
	return a.markets.prices[m.Pool]
}

// charge writes the bills of ended machines, once every price that they depend on is known. It reports whether there were any.
func (a *accounts) charge() (written bool) {
	var billed market.Usage
	var charges []market.Charge
	var err error
	for _, m := range a.roster.going {
		if !m.Ended || m.Charged || a.Now.Before(m.EndedAt) || m.Pool.Class == market.Spot && a.markets.known.Before(m.EndedAt) ||
			a.cfg.Billed && m.cost == nil {
			continue
		}
		if u := m.usage(); !written || u != billed || a.cfg.Billed { // machines that came and went together cost the same
			billed = u
			charges, err = a.bill(m)
		}
		m.Charged, written, a.grouped = true, true, false
		if err != nil {
			a.Record(func() journal.Entry { return UnknownCharge(string(m.ID), m.Pool, m.Launched, m.EndedAt, err) })
			continue
		}
		for _, line := range charges[min(m.billed, len(charges)):] {
			a.Charged += line.Amount
			if line.Note == market.MovedNote {
				a.Moved += line.Amount
			}
			a.Record(func() journal.Entry { return ChargeEntry(string(m.ID), m.Pool, line) })
		}
	}
	return written
}
