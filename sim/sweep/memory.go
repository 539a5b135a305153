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

// remembering gives a policy that asks the recollection, where it can.
func remembering(p bidding.Policy, r recollection) bidding.Policy {
	if c, ok := p.(bidding.CostPerWork); ok && c.Memo == nil {
		c.Memo = r
		return c
	}
	return p
}
