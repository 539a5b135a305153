package sweep

import "github.com/tierml/tierml/bidding"

// recollection keeps what a policy makes of the past alone: starts a minute apart look at the same past. It rests on
// History being the same for all starts as far back as policies look.
type recollection map[any]any

// Recall gives what is known by that key, or makes it.
func (r recollection) Recall(key any, make func() any) any {
	v, ok := r[key]
	if !ok {
		v = make()
		r[key] = v
	}
	return v
}

// strategies is the key of those of a deadline.
type strategies struct{}

// remembering gives a policy that asks the recollection, where it can. Nobody else may use it at the same time: each worker
// has a recollection of its own.
func remembering(p bidding.Policy, r recollection) bidding.Policy {
	switch p := p.(type) {
	case bidding.CostPerWork:
		if p.Memo == nil {
			p.Memo = r
		}
		return p
	case bidding.Deadline:
		if p.Known == nil {
			p.Known = r.Recall(strategies{}, func() any { return bidding.NewStrategies() }).(*bidding.Strategies)
		}
		return p
	}
	return p
}
