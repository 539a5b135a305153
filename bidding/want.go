package bidding

import (
	"math"
	"slices"

	"github.com/tierml/tierml/market"
)

// units is an amount of what the job wants: machines, or vCPUs.
type units int

func (w Want) total() units {
	if w.VCPU > 0 {
		return units(w.VCPU)
	}
	return units(w.Machines)
}

// each returns how many units one machine of a type is; 0 if its vCPUs are needed and unknown.
func (w Want) each(t market.InstanceType) units {
	if w.VCPU > 0 {
		return units(t.VCPU)
	}
	return 1
}

// machines returns how many machines of a type make at least n units; 0 if that is unknown.
func (w Want) machines(n units, t market.InstanceType) int {
	each := w.each(t)
	if n <= 0 || each <= 0 {
		return 0
	}
	return int((n + each - 1) / each)
}

// holding is the job's machines in one pool that are neither warned nor draining.
type holding struct {
	candidate int // index in State.Pools
	units     units
	machines  int
	bid       market.USD // the lowest granted bid: those machines go first
	since     int        // index in State.Held of the first-launched allocation
	newest    int        // and of the last-launched one
}

// fleet is what the job holds, by candidate pool.
type fleet struct {
	holdings []holding // in the order of State.Pools
	draining bool      // some pool has draining machines
}

func fleetOf(s State) fleet {
	var f fleet
	for i := range s.Pools {
		h := holding{candidate: i, since: -1, newest: -1}
		for j := range s.Held {
			if a := &s.Held[j]; a.Pool == s.Pools[i].Pool && !a.Warned && !a.Draining && a.Count > 0 {
				h.add(s.Held, j, s.Want.each(s.Pools[i].Type))
			}
		}
		if h.machines > 0 {
			if h.bid == 0 {
				h.bid = s.Pools[i].defaultBid()
			}
			f.holdings = append(f.holdings, h)
		}
	}
	for _, a := range s.Held {
		f.draining = f.draining || a.Draining && !a.Warned
	}
	return f
}

// add adds another allocation of the pool.
func (h *holding) add(held []Allocation, j int, each units) {
	a := &held[j]
	h.machines += a.Count
	h.units += units(a.Count) * each
	if a.Bid > 0 && (h.bid == 0 || a.Bid < h.bid) {
		h.bid = a.Bid
	}
	if h.since < 0 || a.Launch.Before(held[h.since].Launch) {
		h.since = j
	}
	if h.newest < 0 || a.Launch.After(held[h.newest].Launch) {
		h.newest = j
	}
}

// total returns the units held.
func (f fleet) total() (n units) {
	for _, h := range f.holdings {
		n += h.units
	}
	return n
}

// anyOnDemand reports whether some of it is on demand.
func (f fleet) anyOnDemand(s State) bool {
	return slices.ContainsFunc(f.holdings, func(h holding) bool { return s.Pools[h.candidate].OnDemand() })
}

// in returns the holding in a candidate pool.
func (f fleet) in(candidate int) (holding, bool) {
	for _, h := range f.holdings {
		if h.candidate == candidate {
			return h, true
		}
	}
	return holding{}, false
}

// spare reports whether the fleet is large enough without one of its pools: the state between the launch in a new
// pool and the release of the old one.
func (f fleet) spare(want units) bool {
	total := f.total()
	for _, h := range f.holdings {
		if len(f.holdings) > 1 && total-h.units >= want {
			return true
		}
	}
	return false
}

// leastOnDemand returns the cost of a unit of work on demand, on the cheapest type, whether the job may buy it or not;
// and a pool of that type. It returns infinity and -1 if nothing is known.
func (s *State) leastOnDemand() (least float64, candidate int) {
	least, candidate = math.Inf(1), -1
	for i := range s.Pools {
		if t := &s.Pools[i].Type; t.OnDemand > 0 && t.WorkRate() > 0 {
			if w := float64(t.OnDemand) / t.WorkRate(); w < least {
				least, candidate = w, i
			}
		}
	}
	return least, candidate
}

// slowest returns the lowest positive rate among the type whose work is cheapest on demand, the held pools, and pools
// whose work costs no more than that now; 0 = unknown. Others tell nothing about the speed of the job's machines.
func (s *State) slowest(rate func(candidate int) float64) (lowest float64) {
	most, cheapest := s.leastOnDemand()
	for i := range s.Pools {
		c := &s.Pools[i]
		r := rate(i)
		if r <= 0 || lowest > 0 && r >= lowest {
			continue
		}
		price, known := c.History.At(s.Now)
		if i == cheapest || known && float64(price)/c.Type.WorkRate() <= most || slices.ContainsFunc(s.Held, func(a Allocation) bool { return a.Pool == c.Pool }) {
			lowest = r
		}
	}
	return lowest
}
