package sweep

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

// memory keeps the MTTFs that one worker has measured: starts a minute apart look at the same price changes. It rests
// on History being the same for all starts as far back as the estimator looks.
type memory struct {
	estimator market.Estimator
	known     map[moment]market.Estimate
}

// moment is what an MTTF depends on.
type moment struct {
	zone, kind string // of the pool; the rest of it is the same for all
	at         int64  // Unix nanoseconds
	bid        market.USD
}

func newMemory() *memory { return &memory{known: map[moment]market.Estimate{}} }

// MTTF is that of the estimator.
func (m *memory) MTTF(pool market.Pool, h *market.History, at time.Time, bid market.USD) market.Estimate {
	key := moment{pool.Zone, pool.Type, at.UnixNano(), bid}
	e, ok := m.known[key]
	if !ok {
		e = m.estimator.MTTF(h, at, bid)
		m.known[key] = e
	}
	return e
}

// remembering gives a policy that asks the memory, where it can.
func remembering(p bidding.Policy, m *memory) bidding.Policy {
	if t, ok := p.(bidding.TierML); ok && t.Remembered == nil && t.Estimator == m.estimator {
		t.Remembered = m
		return t
	}
	return p
}
