package cost

import (
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// machine is one machine's life.
type machine struct {
	id, tier string
	usage    market.Usage
	joined   []interval // the last one is open while the machine takes part
	noticed  time.Time
	failed   time.Time
	end      journal.Kind // the kind that reported the end
	why      string       // of the end

	settled settled // cached inputs of owes
	owes    market.USD
	used    steps
	billed  []market.Charge // by the `charge` lines, if they are the bill
}

// settled is what the bill of an ended machine depends on.
type settled struct {
	end    time.Time
	by     market.EndedBy
	prices int // points known
}

// interval is [from, to); to is zero while it is open.
type interval struct{ from, to time.Time }

func (m *machine) ended() bool { return m.usage.EndedBy != market.Running }

// addLaunch begins a machine's life. The same launch may be reported again after a resumption.
func (l *Ledger) addLaunch(e journal.Entry) error {
	if _, ok := l.machines[e.Instance]; ok {
		return nil
	}
	pool, err := market.ParsePool(e.Pool)
	if err != nil {
		return err
	}
	var bid market.USD
	if e.Bid != "" {
		if bid, err = market.ParseUSD(e.Bid); err != nil {
			return err
		}
	}
	launched := e.T.Truncate(time.Second)
	if e.Launched != nil {
		launched = *e.Launched
	} else {
		l.warn("%s: its launch time is not in the journal; taken as %s", e.Instance, launched.Format(time.RFC3339))
	}
	l.launch(e.Instance, e.Tier, market.Usage{Pool: pool, Bid: bid, Start: launched})
	return nil
}

func (l *Ledger) launch(id, tier string, u market.Usage) *machine {
	if tier == "" {
		tier = tierOf(u.Pool)
	}
	m := &machine{id: id, tier: tier, usage: u}
	l.machines[id] = m
	l.order = append(l.order, m)
	return m
}

// tierOf returns the tier of a machine that no journal line assigns.
func tierOf(pool market.Pool) string {
	if pool.Class == market.Spot {
		return transientTier
	}
	return reliableTier
}

const (
	transientTier = "transient"
	reliableTier  = "reliable"
)

// addToMachine records an event of a machine. Repeated entries are harmless.
func (l *Ledger) addToMachine(e journal.Entry) {
	m, ok := l.machines[e.Instance]
	if !ok {
		l.warn("%q entry of %s for %q, which was never launched", e.Kind, e.T.Format(time.RFC3339), e.Instance)
		return
	}
	switch e.Kind {
	case journal.Join:
		if n := len(m.joined); n == 0 || !m.joined[n-1].to.IsZero() {
			m.joined = append(m.joined, interval{from: e.T})
		}
		m.usage.Moved += e.Bytes
	case journal.Leave:
		m.leave(e.T)
	case journal.Notice: // without a deadline it is only a raised risk
		if m.noticed.IsZero() && e.Deadline != nil {
			m.noticed = e.T
		}
	case journal.Failed:
		m.leave(e.T)
		if m.failed.IsZero() {
			m.failed, m.why = e.T, e.Why
		}
		if hasEnd(e) {
			l.end(m, e, market.ByUser)
		}
	case journal.Evicted:
		l.end(m, e, market.ByProvider)
	case journal.Terminated:
		l.end(m, e, market.ByUser)
	}
}

func (m *machine) leave(t time.Time) {
	if n := len(m.joined); n > 0 && m.joined[n-1].to.IsZero() {
		m.joined[n-1].to = t
	}
}

// end records a machine's end. Of several entries the last one with the provider's time counts.
func (l *Ledger) end(m *machine, e journal.Entry, by market.EndedBy) {
	m.leave(e.T)
	if !hasEnd(e) && m.ended() {
		return
	}
	ended := e.T.Truncate(time.Second)
	if hasEnd(e) {
		ended = *e.Ended
	} else {
		l.warn("%s: its end is not in the journal; taken as %s", m.id, ended.Format(time.RFC3339))
	}
	if e.EndedBy != "" {
		by = market.EndedBy(e.EndedBy)
	}
	m.usage.End, m.usage.EndedBy, m.end = ended, by, e.Kind
	if e.Why != "" {
		m.why = e.Why
	}
}

func hasEnd(e journal.Entry) bool { return e.Ended != nil && !e.Ended.IsZero() }

// life returns the machine's time until asOf.
func (m *machine) life(asOf time.Time) interval {
	to := asOf
	if m.ended() && m.usage.End.Before(asOf) {
		to = m.usage.End
	}
	if to.Before(m.usage.Start) {
		to = m.usage.Start
	}
	return interval{m.usage.Start, to}
}

// evicted reports whether the provider has taken the machine back; one that broke was not taken.
func (m *machine) evicted(asOf time.Time) bool {
	return m.usage.EndedBy == market.ByProvider && m.end != journal.Failed && !m.usage.End.After(asOf)
}

// fate returns how the machine ended.
func (m *machine) fate(asOf time.Time) string {
	switch {
	case !m.ended() || m.usage.End.After(asOf):
		return "running"
	case m.usage.EndedBy == market.ByProvider && m.noticed.IsZero():
		return "evicted without warning"
	case m.usage.EndedBy == market.ByProvider:
		return "evicted"
	case !m.failed.IsZero():
		return "failed"
	default:
		return "terminated"
	}
}

func (i interval) length() time.Duration { return max(0, i.to.Sub(i.from)) }

// overlap returns how long two intervals overlap; an open one never ends.
func (i interval) overlap(o interval) time.Duration { return i.common(o).length() }

// common returns what two intervals share; an open one never ends.
func (i interval) common(o interval) interval {
	if o.from.After(i.from) {
		i.from = o.from
	}
	if i.to.IsZero() || !o.to.IsZero() && o.to.Before(i.to) {
		i.to = o.to
	}
	return i
}

func (i interval) holds(t time.Time) bool {
	return !t.Before(i.from) && (i.to.IsZero() || t.Before(i.to))
}

// merge turns any intervals into sorted ones that do not overlap.
func merge(in []interval) []interval {
	in = slices.Clone(in)
	slices.SortStableFunc(in, func(a, b interval) int { return a.from.Compare(b.from) })
	var out []interval
	for _, i := range in {
		if n := len(out); n > 0 && !i.from.After(out[n-1].to) {
			if i.to.After(out[n-1].to) {
				out[n-1].to = i.to
			}
			continue
		}
		out = append(out, i)
	}
	return out
}
