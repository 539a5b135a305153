package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
)

// Recording is what a real run's controller learned from its provider and its machines, and when, according to its
// journal. A simulation of the same job that gets the same events at the same times must decide the same: the recording
// replaces the models of the provider and of the pace of work, and no fault is injected. Anything it does not contain,
// such as when commands are answered, is simulated.
type Recording struct {
	// Began is when the controller first bought: the simulation's Start.
	Began    time.Time
	launches []recordedLaunch // in the order of purchase
	clocks   map[ps.Clock][]time.Time
	prices   map[recordedPrice]time.Time
}

// recordedLaunch is the result of a purchase.
type recordedLaunch struct {
	pool     market.Pool
	machines []*recordedMachine
	answered time.Time
	refused  string
	short    []market.Pool // those that refused
}

// recordedMachine is what the recording has of a machine; unknown times are zero.
type recordedMachine struct {
	id       provisioner.InstanceID
	pool     market.Pool
	launched time.Time
	ready    time.Time
	warned   time.Time
	deadline time.Time
	broken   time.Time // given up because its stream broke
	ended    time.Time
	known    time.Time // when the provider reported its end
	by       market.EndedBy
	reason   string
}

// recordedPrice is a price change.
type recordedPrice struct {
	pool string
	at   time.Time
}

// NewRecording reads the journal of a run that was not resumed.
func NewRecording(entries []journal.Entry) (*Recording, error) {
	t := &Recording{clocks: map[ps.Clock][]time.Time{}, prices: map[recordedPrice]time.Time{}}
	purchases, machines := map[string]int{}, map[string]*recordedMachine{}
	for n, e := range entries {
		m := machines[e.Instance]
		if m == nil {
			m = &recordedMachine{} // lines about unknown machines have no data
		}
		switch e.Kind {
		case journal.Intent:
			pool, err := market.ParsePool(e.Pool)
			if err != nil {
				return nil, fmt.Errorf("line %d of the journal: %w", n+1, err)
			}
			if len(t.launches) == 0 {
				t.Began = e.T
			}
			purchases[e.Token] = len(t.launches)
			t.launches = append(t.launches, recordedLaunch{pool: pool})
		case journal.Launch, journal.LaunchFailed:
			i, ok := purchases[e.Token]
			if !ok {
				return nil, fmt.Errorf("line %d of the journal: %s of %q, which nobody intended", n+1, e.Kind, e.Token)
			}
			l := &t.launches[i]
			if l.answered.IsZero() {
				l.answered = e.T
			}
			if e.Kind == journal.LaunchFailed {
				l.refused = e.Why
				if err := l.refuse(e); err != nil {
					return nil, fmt.Errorf("line %d of the journal: %w", n+1, err)
				}
				continue
			}
			m = &recordedMachine{id: provisioner.InstanceID(e.Instance), pool: l.pool, launched: e.T}
			if pool, err := market.ParsePool(e.Pool); err == nil {
				m.pool = pool // chosen by the provider
			}
			if e.Launched != nil {
				m.launched = *e.Launched
			}
			machines[e.Instance], l.machines = m, append(l.machines, m)
		case journal.Ready:
			m.ready = e.T
		case journal.Notice:
			if e.Deadline != nil {
				m.warned, m.deadline = e.T, *e.Deadline
			}
		case journal.Failed, journal.Evicted, journal.Terminated:
			m.end(e)
		case journal.ClockDone:
			t.clocks[ps.Clock(e.Clock)] = append(t.clocks[ps.Clock(e.Clock)], e.T)
		case journal.Price:
			if e.At != nil {
				t.prices[recordedPrice{e.Pool, e.At.UTC()}] = e.T
			}
		}
	}
	if len(t.launches) == 0 {
		return nil, fmt.Errorf("the journal's %d lines buy nothing", len(entries))
	}
	return t, nil
}

// refuse reads which pools could not sell enough.
func (l *recordedLaunch) refuse(e journal.Entry) error {
	for _, named := range append([]journal.Choice{{Pool: e.Pool}}, e.Or...) {
		pool, err := market.ParsePool(named.Pool)
		if err != nil {
			return err
		}
		l.short = append(l.short, pool)
	}
	return nil
}

func (m *recordedMachine) end(e journal.Entry) {
	if e.Ended == nil {
		m.broken = e.T
		return
	}
	m.ended, m.known, m.by, m.reason = *e.Ended, e.T, market.EndedBy(e.EndedBy), e.Why
}

// clock returns when a clock that is worked on now was completed in the recording; false if it was not completed again.
func (t *Recording) clock(c ps.Clock, now time.Time) (time.Time, bool) {
	if t == nil || len(t.clocks[c]) == 0 {
		return time.Time{}, false
	}
	times := t.clocks[c]
	i, _ := slices.BinarySearchFunc(times, now, time.Time.Compare)
	return times[min(i, len(times)-1)], true // a clock already completed in the recording ends at once
}

// price returns when a price change was reported.
func (t *Recording) price(pool market.Pool, at time.Time) (time.Time, bool) {
	if t == nil {
		return time.Time{}, false
	}
	told, ok := t.prices[recordedPrice{pool.String(), at.UTC()}]
	return told, ok
}

// replay answers a purchase as recorded; false if the recording has no such purchase at that position.
func (c *cloud) replay(r provisioner.Request) bool {
	t := c.w.cfg.Recording
	if t == nil || c.replayed >= len(t.launches) || t.launches[c.replayed].pool != r.Pool {
		return false
	}
	l := &t.launches[c.replayed]
	c.replayed++
	if l.answered.IsZero() {
		return true // it was pending when the run ended
	}
	c.w.at(l.answered, arrivals, func() {
		var refused []provisioner.Refusal
		for _, pool := range l.short {
			refused = append(refused, provisioner.Refusal{Pool: pool, Err: provisioner.ErrNoCapacity})
		}
		var sold []provisioner.Instance
		for _, m := range l.machines {
			sold = append(sold, c.enter(m, r))
		}
		if len(sold) == 0 {
			c.w.step(elasticity.LaunchFailed{Token: r.Token, Refused: refused, Err: fmt.Errorf("%w: %s", provisioner.ErrNoCapacity, l.refused)})
			return
		}
		c.w.step(elasticity.Launched{Token: r.Token, Instances: sold, Refused: refused})
	})
	return true
}

// enter adds a machine, and schedules its recorded events.
func (c *cloud) enter(told *recordedMachine, r provisioner.Request) provisioner.Instance {
	m := &machine{number: len(c.machines) + 1, told: told, Instance: provisioner.Instance{
		ID: told.id, Pool: told.pool, Bid: r.BidFor(told.pool), Token: r.Token, State: provisioner.Running, Launched: told.launched,
	}}
	c.machines, c.byID[m.ID] = append(c.machines, m), m
	m.agent = c.w.staff.hire(ps.ServerID(m.ID), c.w.rate(told.pool))
	t, broken := &c.w.cfg.Timing, c.w.cfg.Settings.BrokenAfter
	if !told.ready.IsZero() {
		c.w.at(told.ready.Add(-t.Start), arrivals, m.agent.boot)
	}
	if !told.warned.IsZero() {
		c.w.at(told.warned, notices, func() {
			m.warned = true
			c.w.step(elasticity.Warned{ID: ps.ServerID(m.ID), Deadline: told.deadline})
		})
	}
	if told.by == market.ByProvider {
		gone := told.ended
		if !told.broken.IsZero() && told.broken.Add(-broken).After(gone) {
			gone = told.broken.Add(-broken - t.Reply)
		}
		c.w.at(gone, losses, func() { c.end(m, market.ByProvider, told.reason) })
	}
	return m.Instance
}

// knownAt returns when the provider reports a machine's end.
func (m *machine) knownAt(now time.Time, lag time.Duration) time.Time {
	known := now.Add(lag)
	if m.told != nil && m.told.known.After(now) {
		known = m.told.known
	}
	return known
}

// faults returns the faults to inject: none in a replay.
func (c *Config) faults() []Fault {
	if c.Recording != nil {
		return nil
	}
	return c.Faults
}

// endedAt returns a machine's end for the bill.
func (m *machine) endedAt(now time.Time) time.Time {
	if m.told != nil && m.EndedBy == market.ByProvider {
		return cmp.Or(m.told.ended, now)
	}
	return now
}
