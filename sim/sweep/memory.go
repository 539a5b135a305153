package sweep

import (
	"time"

	"github.com/tierml/tierml/bidding"
)

// pastCache caches what a policy derives from the past alone: starts a minute apart see the same past. It relies on
// History being the same for all starts as far back as policies look. It evicts the oldest values first: starts days
// apart share none.
type pastCache struct {
	most       int // most values cached
	known      map[any]any
	order      []any // keys of known, oldest first
	strategies *bidding.Strategies
	days       *bidding.Days
}

// newRecollection returns a cache with room for the forecasts of a run of some length, one an hour: the next start uses
// the same ones.
func newRecollection(longest time.Duration) *pastCache {
	return &pastCache{most: int(longest/time.Hour) + 2, known: map[any]any{}, strategies: bidding.NewStrategies(), days: bidding.NewDays()}
}

// Recall returns the value for a key, and makes it if needed.
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

// caching returns a policy that uses the cache if it can. It is not safe for concurrent use: each worker
// has its own cache.
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
