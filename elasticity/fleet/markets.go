package fleet

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// Unwritten returns the prices of a pool that a controller writes down when it begins. Reports compute bills from the journal's prices, so
// a controller that takes over a run writes all prices of the time without a controller; the first one of a run writes the current price.
func (p *Ledger) Unwritten(pool market.Pool, known *market.History) []market.PricePoint {
	last, ok := known.Last()
	if !ok || pool.Class != market.Spot {
		return nil
	}
	if p != nil {
		if written, ok := p.Prices[pool.String()]; ok {
			return known.Points(written, last.At)
		}
	}
	return []market.PricePoint{last}
}

// markets holds the pools and their prices, capacity and lifetimes.
type markets struct {
	*step.Step
	cfg       *Config
	prices    map[market.Pool]*market.History
	known     time.Time                         // every price change until then has been reported
	deferred  map[market.Pool]time.Time         // pools without capacity, and until when to avoid them
	lifetimes map[market.Pool]*market.Lifetimes // of machines of this run that have ended
}

func (mk *markets) typeOf(p market.Pool) market.InstanceType {
	for i := range mk.cfg.Pools {
		if q := &mk.cfg.Pools[i]; q.Pool == p {
			return q.Type
		}
	}
	if p.Class == market.OnDemand {
		return mk.cfg.Reliable.Type
	}
	return market.InstanceType{Name: p.Type}
}

// outlived records how long a spot machine was kept.
func (mk *markets) outlived(u market.Usage) {
	if u.Pool.Class != market.Spot || u.EndedBy == market.Running {
		return
	}
	if mk.lifetimes[u.Pool] == nil {
		mk.lifetimes[u.Pool] = &market.Lifetimes{}
	}
	mk.lifetimes[u.Pool].Add(u, u.End)
}

// takePrice reports whether a price is news.
func (mk *markets) takePrice(e PriceChanged) bool {
	h := mk.prices[e.Pool]
	if h == nil {
		return false
	}
	if last, ok := h.Last(); ok && !e.At.After(last.At) {
		return false // reported before
	}
	point := market.PricePoint{At: e.At, Price: e.Price}
	if err := h.Append(point); err != nil {
		return false // impossible: it is later than the last
	}
	mk.recordPrice(e.Pool, point)
	return true
}

// takeCapacity handles a pool's capacity, if that is observed. Earlier refusals are then outdated.
func (mk *markets) takeCapacity(e CapacityChanged) (news bool) {
	for i := range mk.cfg.Pools {
		p := &mk.cfg.Pools[i]
		if p.Pool != e.Pool || p.Availability == nil {
			continue
		}
		if p.Availability.Add(market.AvailabilityPoint{At: e.At, Count: e.Count}) == nil {
			delete(mk.deferred, e.Pool)
			news = true
		}
	}
	return news
}

func (mk *markets) recordPrice(pool market.Pool, p market.PricePoint) {
	mk.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.Price, Pool: pool.String(), USD: p.Price.String(), At: &p.At}
	})
}

// kind returns the declared properties of a pool's machines. What the job declares for its reliable type's link overrides the catalog, even
// if the job also admits that type for transient machines.
func (mk *markets) kind(p market.Pool) step.Kind {
	t := mk.typeOf(p)
	k := step.Kind{Rate: t.WorkRate(), Link: t.Bandwidth}
	if r := &mk.cfg.Reliable; r.Type.Bandwidth > 0 && p.Type == r.Pool.Type {
		k.Link = r.Type.Bandwidth
	}
	return k
}
