package hosts

import (
	"math/big"
	"time"

	"github.com/tierml/tierml/market"
)

// Share returns what a slot pays of its host's bill: of each charge, the fraction of time in which the slot was there, times the slot's
// share of the host, which is the mean of its shares of the vCPUs, the memory and, if there are any, the GPUs. If the slots together exceed
// the host, as measured ones leave room for others, they divide the whole in proportion: crowd is their sum. Each charge is rounded down to
// the billionth: the idle share gets the rest.
func Share(slot, host Size, crowd int64, from, to time.Time, charges []market.Charge) (sum market.USD) {
	part, whole := big.NewInt(parts(slot, host)), big.NewInt(max(parts(host, host), crowd))
	for _, c := range charges {
		begin, end := c.From, c.To
		if from.After(begin) {
			begin = from
		}
		if to.Before(end) {
			end = to
		}
		if c.Amount <= 0 || !end.After(begin) {
			continue
		}
		n := big.NewInt(int64(c.Amount))
		n.Mul(n, part).Mul(n, big.NewInt(int64(end.Sub(begin))))
		d := big.NewInt(int64(c.To.Sub(c.From)))
		sum += market.USD(n.Quo(n, d.Mul(d, whole)).Int64())
	}
	return sum
}

// parts returns a slot's share of a host, in units of which all vCPUs, all memory and all GPUs (if any) have the same number.
func parts(slot, host Size) int64 {
	all := int64(host.VCPU) * host.MemoryMiB
	n := int64(slot.VCPU)*host.MemoryMiB + slot.MemoryMiB*int64(host.VCPU)
	if host.GPUs > 0 {
		n = n*int64(host.GPUs) + int64(slot.GPUs)*all
	}
	return n
}

// Crowd returns the sum of slots' shares of a host, for Share.
func Crowd(host Size, slots []*Slot) (sum int64) {
	for _, s := range slots {
		sum += parts(s.Size, host)
	}
	return sum
}

// closed returns the time from which no later event changes what a machine owes for its time until t, while it lives on: the end of an hour
// that is billed as a whole, and of the initial time that is free if the provider takes the machine back within it.
func closed(t, launched time.Time, pool market.Pool, terms market.Terms) time.Time {
	if terms.Increment > 0 {
		for end := launched; ; end = end.Add(terms.Increment) {
			if !end.Before(t) {
				return end
			}
		}
	}
	if free := launched.Add(terms.FreeWithin); pool.Class == market.Spot && free.After(t) {
		return free
	}
	return t
}
