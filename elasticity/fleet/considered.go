package fleet

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// maxConsidered bounds the pools that an `intent` line lists: the chosen ones, then the cheapest.
const maxConsidered = 12

// consideredText returns the journal's record of the pools that a policy considered for a purchase: the chosen ones, and of the others
// those with the cheapest vCPUs. Pools are the candidates, in the same order. It is nil if no policy decided.
func consideredText(all []bidding.Considered, pools []Pool) json.RawMessage {
	if len(all) == 0 || len(all) != len(pools) {
		return nil
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(all[a], pools[a]), rank(all[b], pools[b])) })
	d := journal.IntentDetails{}
	for _, i := range order[:min(len(order), maxConsidered)] {
		d.Considered = append(d.Considered, option(all[i]))
	}
	text, err := journal.Pack(d)
	if err != nil {
		return nil // a figure is not finite: the purchase is recorded without it
	}
	return text
}

// rank orders pools for display: chosen ones, then by the price of a vCPU, then those without a price.
func rank(c bidding.Considered, of Pool) float64 {
	switch {
	case c.Chosen:
		return -1
	case c.HasPrice && of.Type.VCPU > 0:
		return float64(c.Price) / float64(of.Type.VCPU)
	}
	return float64(1 << 62)
}

func option(c bidding.Considered) journal.PlanPool {
	p := journal.PlanPool{Pool: c.Pool.String(), OnDemand: c.OnDemand.String(), Count: c.Count, Chosen: c.Chosen, Why: c.Why}
	if c.HasPrice {
		p.Price = c.Price.String()
	}
	if c.Pool.TakesBids() || c.Pool.Class == market.OnDemand {
		p.Bid = c.Bid.String()
	}
	if c.Pool.TakesBids() || c.ByHints {
		p.MTTF, p.MTTFCensored = c.MTTF.Mean.Seconds(), c.MTTF.Censored
	}
	return p
}
