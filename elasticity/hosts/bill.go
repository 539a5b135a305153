package hosts

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
)

// Bill is the hosts' cost, by payer.
type Bill struct {
	Jobs  map[string]market.USD
	Idle  market.USD // not paid by any slot, including rounding
	Total market.USD // of the hosts
}

// BillOf divides the hosts' total cost so far. The parts always add up to the total. Charges returns a host's charges so far: unsettled
// slots pay their shares of these. Nil = they pay nothing yet.
func (b *Book) BillOf(total market.USD, now time.Time, charges func(host step.ID) (Size, []market.Charge)) Bill {
	bill := Bill{Jobs: map[string]market.USD{}, Idle: total, Total: total}
	for _, s := range b.slots {
		cost := s.Cost
		if !s.Charged && s.Host != "" && charges != nil {
			until := now
			if s.hasEnded() && s.Ended.Before(now) {
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

// Settle records the cost of ended slots once it is final. Charges returns a host's charges until a time, and false while they are not
// final.
func (b *Book) Settle(now time.Time, charges func(host step.ID, until time.Time) (Size, []market.Charge, bool)) {
	for _, s := range slices.Clone(b.owing) {
		if host, lines, known := charges(s.Host, s.Ended); known {
			b.write(Line{T: now, Kind: Charged, Slot: s.ID, USD: b.share(s, host, s.Ended, lines)})
		}
	}
}

// share returns a slot's share of its host's charges until a time, as other slots come and go. Settled shares stay correct: the past does
// not change.
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
			return o.Placed.After(times[i]) || o.hasEnded() && !o.Ended.After(times[i])
		})
		sum += Share(s.Size, host, Crowd(host, there), times[i], times[i+1], charges)
	}
	return sum
}
