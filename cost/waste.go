package cost

import (
	"math/bits"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Waste divides the machines' time, and what was paid for it, by what the machines did. The kinds of time add up to all machine time, and
// with AfterEnd their dollars add up to the total, to the billionth.
type Waste struct {
	Working Part `json:"working"` // in training, doing clocks for the first time
	Redone  Part `json:"redone"`  // in training, doing clocks again after a roll-back
	Startup Part `json:"startup"` // from launch to join
	Flush   Part `json:"flush"`   // from the eviction notice until it left or ended
	Idle    Part `json:"idle"`    // not in training for another reason: failed, or left and not ended yet
	// Setup and Restore are a machine's preparations for the user's own programs; Restore includes fetching the workdir.
	Setup    Part `json:"setup,omitzero"`
	Restore  Part `json:"restore,omitzero"`
	AfterEnd Part `json:"after_end"`          // paid beyond the end: the rest of an hour that had started, or a minimum
	Programs bool `json:"programs,omitempty"` // rows have the names that suit programs
	Rounds   bool `json:"rounds,omitempty"`   // it is counted in rounds, not in clocks
	// Free is time that the rule book does not bill. It is included in those above.
	Free Part `json:"free"`
}

// Part is a share of the machines' time.
type Part struct {
	Seconds float64    `json:"seconds"` // market seconds of machines; 0 for AfterEnd, which is not machine time
	USD     market.USD `json:"usd"`
}

func (p *Part) add(d time.Duration, usd market.USD) {
	p.Seconds += d.Seconds()
	p.USD += usd
}

// parts lists the kinds of time in a fixed order; what cannot be divided evenly goes to the first that has
// a share.
func (w *Waste) parts() []*Part {
	return []*Part{&w.Working, &w.Redone, &w.Startup, &w.Flush, &w.Idle, &w.Setup, &w.Restore}
}

const (
	working = iota
	redone
	startup
	flush
	idle
	setup
	restoring
	kindsOfTime
)

// piece is a period of a machine's life with one use.
type piece struct {
	interval
	use int
}

// split adds a machine's life and bill to the waste.
func (w *Waste) split(m *machine, charges []market.Charge, pieces []piece, asOf time.Time) {
	parts := w.parts()
	for _, p := range pieces {
		parts[p.use].add(p.length(), 0)
	}
	life := m.life(asOf)
	for _, c := range charges {
		paid := interval{c.From, c.To}
		if c.Free {
			w.Free.add(paid.overlap(life), 0)
		}
		w.divide(c.Amount, paid, pieces)
	}
}

// divide distributes an amount over the uses of the time that it paid for.
func (w *Waste) divide(amount market.USD, paid interval, pieces []piece) {
	var used [kindsOfTime]time.Duration
	var within time.Duration
	for _, p := range pieces {
		d := p.overlap(paid)
		used[p.use] += d
		within += d
	}
	left := amount
	share := func(d time.Duration) market.USD {
		part := fraction(amount, d, paid.length())
		left -= part
		return part
	}
	w.AfterEnd.USD += share(paid.length() - within)
	parts := w.parts()
	rest := &w.AfterEnd
	for use, d := range used {
		parts[use].USD += share(d)
		if d > 0 && rest == &w.AfterEnd {
			rest = parts[use]
		}
	}
	rest.USD += left
}

// fraction is amount x part / whole, rounded down; 0 if the whole is empty.
func fraction(amount market.USD, part, whole time.Duration) market.USD {
	if whole <= 0 || part <= 0 || amount <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(amount), uint64(min(part, whole)))
	quotient, _ := bits.Div64(hi, lo, uint64(whole)) // at most amount, so it fits
	return market.USD(quotient)
}

// pieces splits a machine's life wherever its use changes.
func (m *machine) pieces(redone []interval, asOf time.Time) []piece {
	life := m.life(asOf)
	cuts := []time.Time{life.from, life.to, m.noticed}
	for _, i := range append(slices.Clone(m.joined), redone...) {
		cuts = append(cuts, i.from, i.to)
	}
	cuts = slices.DeleteFunc(cuts, func(t time.Time) bool { return t.Before(life.from) || t.After(life.to) })
	slices.SortFunc(cuts, time.Time.Compare)
	var out []piece
	for i := 1; i < len(cuts); i++ {
		if p := (interval{cuts[i-1], cuts[i]}); p.length() > 0 {
			out = append(out, piece{p, m.useAt(p.from, redone)})
		}
	}
	return out
}

// useAt returns what the machine's time is used for at t.
func (m *machine) useAt(t time.Time, redoing []interval) int {
	joined := slices.ContainsFunc(m.joined, func(i interval) bool { return i.holds(t) })
	// It is flushing until it has left; one that never joined has nothing to flush but is no longer wanted.
	warned := !m.noticed.IsZero() && !t.Before(m.noticed)
	left := slices.ContainsFunc(m.joined, func(i interval) bool { return !i.to.IsZero() && !t.Before(i.to) })
	switch {
	case warned && (joined || !left):
		return flush
	case joined && slices.ContainsFunc(redoing, func(i interval) bool { return i.holds(t) }):
		return redone
	case joined:
		return working
	case len(m.joined) == 0 || t.Before(m.joined[0].from):
		return startup
	default:
		return idle
	}
}
