package sweep

import (
	"time"

	"github.com/tierml/tierml/bidding"
)

// pastCache keeps what a policy makes of the past alone: starts a minute apart look at the same past. It rests on
// History being the same for all starts as far back as policies look. It forgets the oldest first: starts that lie days apart share none.
type pastCache struct {
	most       int // values that are kept
	known      map[any]any
	order      []any // keys of known, the oldest first
	strategies *bidding.Strategies
	days       *bidding.Days
}

// newRecollection has room for the forecasts of a run of some length, one an hour: the next start looks at the same ones.
func newRecollection(longest time.Duration) *pastCache {
	return &pastCache{most: int(longest/time.Hour) + 2, known: map[any]any{}, strategies: bidding.NewStrategies(), days: bidding.NewDays()}
}

// Recall returns what is known by that key, or makes it.
func (r *pastCache) Recall(key any, make func() any) any {
	if v, ok := r.known[key]; ok {
		return v
	}
	if len(r.order) >= r.most {
		delete(r.known, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	v := make()
	r.known[key], r.order = v, append(r.order, key)
	return v
}

// caching returns a policy that uses the cache where it can. It is not safe for concurrent use: each worker
// has a recollection of its own.
func caching(p bidding.Policy, r *pastCache) bidding.Policy {
	switch p := p.(type) {
	case bidding.CostPerWork:
		if p.Memo == nil {
			p.Memo, p.Days = r, r.days
		}
		return p
	case bidding.RolledBack:
		p.Policy = caching(p.Policy, r)
		return p
	case bidding.Deadline:
		if p.Known == nil {
			p.Known = r.strategies
		}
		return p
	}
	return p
}
