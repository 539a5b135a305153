package hosts

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
)

// Bill is what the hosts have cost, by payer.
type Bill struct {
	Jobs  map[string]market.USD
	Idle  market.USD // what no slot pays, and what rounding leaves
	Total market.USD // of the hosts
}

// BillOf divides what hosts have cost in all until now. The parts add up to it, whatever happened. Charges gives a host's charges so far: slots
// that are not settled pay their shares of these. Nil = they pay nothing yet.
func (b *Book) BillOf(total market.USD, now time.Time, charges func(host step.ID) (Size, []market.Charge)) Bill {
	bill := Bill{Jobs: map[string]market.USD{}, Idle: total, Total: total}
	for _, s := range b.slots {
		cost := s.Cost
		if !s.Charged && s.Host != "" && charges != nil {
			until := now
			if s.over() && s.Ended.Before(now) {
				until = s.Ended
			}
			size, lines := charges(s.Host)
			cost = b.share(s, size, until, lines)
		}
		bill.Jobs[s.Job] += cost
		bill.Idle -= cost
	}
	return bill
}

// Settle writes down what slots that have ended cost, as soon as nothing changes it any more. Charges gives a host's charges for its
// time until then, and false while they are not known for good.
func (b *Book) Settle(now time.Time, charges func(host step.ID, until time.Time) (Size, []market.Charge, bool)) {
	for _, s := range slices.Clone(b.owing) {
		if host, lines, known := charges(s.Host, s.Ended); known {
			b.write(Line{T: now, Kind: Charged, Slot: s.ID, USD: b.share(s, host, s.Ended, lines)})
		}
	}
}

// share returns what a slot pays of its host's charges until then, as other slots come and go. What is settled stays right: nothing changes in the past.
func (b *Book) share(s *Slot, host Size, until time.Time, charges []market.Charge) (sum market.USD) {
	times := []time.Time{s.Placed, until}
	for _, o := range b.on[s.Host] {
		for _, at := range []time.Time{o.Placed, o.Ended} {
			if at.After(s.Placed) && at.Before(until) {
				times = append(times, at)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	for i := range len(times) - 1 {
		there := slices.DeleteFunc(slices.Clone(b.on[s.Host]), func(o *Slot) bool {
			return o.Placed.After(times[i]) || o.over() && !o.Ended.After(times[i])
		})
		sum += Share(s.Size, host, Crowd(host, there), times[i], times[i+1], charges)
	}
	return sum
}
