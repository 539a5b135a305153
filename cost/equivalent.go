package cost

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Equivalent is the cost of the undisturbed work on the cheapest suitable on-demand fleet: the work of every clock in the model, counted
// once (without lost or repeated work), at the fleet's declared compute rate and with the plan's time for other parts of clocks, without
// start-up or rounding up of hours. This is less than a real on-demand run would pay, so the saving is not flattered.
//
// How fast another type would run a program is unknown: it uses the type on which they ran longest, billed by the run's rules.
type Equivalent struct {
	Pool         string     `json:"pool"`
	Count        int        `json:"count"`
	PricePerHour market.USD `json:"price_per_hour"` // of one machine
	FLOPS        float64    `json:"flops"`          // of one machine, per wall-clock second
	Work         float64    `json:"work"`           // floating-point operations
	Beside       float64    `json:"beside"`         // market seconds of a clock in which the fleet does not compute
	Hours        float64    `json:"hours"`          // market hours that the fleet needs
	USD          market.USD `json:"usd"`
}

// equivalent uses the fleet of the plan; without a plan, the type with the most computing per dollar, in the number that the job wants. It
// returns false if the journal names no fleet with a price and a compute rate.
func (l *Ledger) equivalent() (Equivalent, bool) {
	e, t, ok := l.plannedFleet()
	if !ok {
		if e, t, ok = l.cheapestFleet(); !ok {
			return Equivalent{}, false
		}
	}
	clocks, work := l.training.work()
	if l.start.Program != nil {
		clocks = 0
		work, _ = l.programWork(l.AsOf())
		if pool, measured, ran := l.measuredType(l.AsOf()); ran {
			e.Pool, t = pool.String(), measured
		}
	}
	e.PricePerHour, e.FLOPS, e.Work = t.price, t.FLOPS, work
	wall := e.Work / (float64(e.Count) * t.FLOPS) // seconds
	e.Hours = (wall*l.clock.Speed + float64(clocks)*e.Beside) / time.Hour.Seconds()
	billed := e.Hours
	if l.start.Program != nil && e.Hours > 0 {
		billed = l.rules.Terms().Billed(e.Hours)
	}
	e.USD = market.USD(math.Round(billed * float64(e.Count) * float64(t.price)))
	return e, true
}

// measuredType returns the type on which the programs did most of the work that counts, on demand.
func (l *Ledger) measuredType(asOf time.Time) (pool market.Pool, t machineType, ran bool) {
	hours := map[market.Pool]time.Duration{}
	for _, a := range l.programs.attempts {
		if m := l.machines[a.instance]; m != nil {
			on := m.usage.Pool
			on.Class = market.OnDemand
			useful, _ := a.useful(asOf)
			hours[on] += useful.length()
		}
	}
	most := time.Duration(0)
	for _, on := range slices.SortedFunc(maps.Keys(hours), market.Pool.Compare) {
		if known, ok := l.types[on.Type]; ok && known.FLOPS > 0 && known.price > 0 && hours[on] > most {
			most, pool, t = hours[on], on, known
		}
	}
	return pool, t, most > 0
}

func (l *Ledger) plannedFleet() (Equivalent, machineType, bool) {
	if l.plan == nil || l.plan.OnDemand.Count <= 0 {
		return Equivalent{}, machineType{}, false
	}
	pool, err := market.ParsePool(l.plan.OnDemand.Pool)
	if err != nil {
		return Equivalent{}, machineType{}, false
	}
	t, ok := l.types[pool.Type]
	return Equivalent{Pool: pool.String(), Count: l.plan.OnDemand.Count, Beside: l.plan.OnDemand.Beside}, t, ok && t.FLOPS > 0
}

func (l *Ledger) cheapestFleet() (Equivalent, machineType, bool) {
	var types []machineType
	for _, t := range l.types {
		if t.FLOPS > 0 && t.price > 0 {
			types = append(types, t)
		}
	}
	if len(types) == 0 {
		return Equivalent{}, machineType{}, false
	}
	slices.SortFunc(types, func(a, b machineType) int {
		return cmp.Or(cmp.Compare(float64(a.price)/a.FLOPS, float64(b.price)/b.FLOPS), cmp.Compare(a.Name, b.Name))
	})
	best := types[0]
	pool := market.Pool{Type: best.Name, Class: market.OnDemand}
	if reliable, err := market.ParsePool(l.start.Reliable.Pool); err == nil {
		pool.Provider, pool.Region, pool.Zone = reliable.Provider, reliable.Region, reliable.Zone
	}
	count := l.start.Want.Machines
	if count == 0 && best.VCPU > 0 {
		count = (l.start.Want.VCPU + best.VCPU - 1) / best.VCPU
	}
	return Equivalent{Pool: pool.String(), Count: max(1, count+l.start.Reliable.Count)}, best, true
}

// sameMachines returns the on-demand cost of the machines' own hours, to the second.
func (l *Ledger) sameMachines(asOf time.Time) market.USD {
	var sum market.USD
	for _, m := range l.order {
		if t, ok := l.types[m.usage.Pool.Type]; ok {
			sum += t.price.For(m.life(asOf).length())
		}
	}
	return sum
}
